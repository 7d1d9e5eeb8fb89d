"""The entries of the top level's keys agree with what is made from them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from headrace.cli.flags import groups
from headrace.conf.credentials import AuthorizationBlock
from headrace.conf.fields import PLAIN
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.options import Options
from headrace.conf.peer_options import ClusterOptions
from headrace.conf.tls_options import TLSOptions
from headrace.conf.toplevel import TOP_LEVEL
from headrace.structures import defaults_of

if TYPE_CHECKING:
    from headrace.conf.keys import Key

OF_THE_FILE = {"config_file", "config_digest", "warnings", "remarks", "overrides"}
KEYS = [pytest.param(option, key, id=option) for option, key in Options.KEYS.items()]


def test_every_option_has_an_entry() -> None:
    assert set(Options.__struct_fields__) - Options.KEYS.keys() == OF_THE_FILE


@pytest.mark.parametrize(("option", "key"), KEYS)
def test_entry_is_whole(option: str, key: Key) -> None:
    assert key.text
    if key.read:
        module, name = key.read.split(":")
        assert callable(getattr(import_module(f"headrace.conf.{module}"), name))
    else:
        assert key.kind in PLAIN
    if key.name is not None:
        field = TOP_LEVEL.find(key.name or option)
        assert field is not None
        assert (field.option, field.names[1:]) == (option, key.aliases)


@pytest.mark.parametrize(("option", "key"), KEYS)
def test_default_is_one_that_can_be_set(option: str, key: Key) -> None:
    default = defaults_of(Options)[option]
    if key.normal is not None:
        assert key.normal(default) == default
    if key.between is not None and default:
        assert isinstance(default, int | float)
        assert key.between[0] <= default <= key.between[1]


def test_every_name_is_that_of_one_key() -> None:
    names = [name for field in TOP_LEVEL.fields for name in field.names]
    assert sorted(set(names)) == sorted(names)


def test_every_flag_is_offered_once() -> None:
    names = [name for _, flags in groups() for flag in flags for name in flag.names]
    assert sorted(set(names)) == sorted(names)
    for options in (Options, AuthorizationBlock, ClusterOptions, JetStreamOptions, TLSOptions):
        declared = {name for key in options.KEYS.values() if key.flag for name in key.flag.names}
        assert declared
        assert declared <= set(names)
