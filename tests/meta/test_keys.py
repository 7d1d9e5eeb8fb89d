"""The entries of keys agree with what is made from them, and are all that a key needs."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

import headrace.conf
from headrace.cli.flags import groups
from headrace.conf.archive_options import ChannelArchiveOptions
from headrace.conf.fields import PLAIN, KeyTable
from headrace.conf.keys import Keyed
from headrace.conf.options import Options
from headrace.conf.toplevel import TOP_LEVEL
from headrace.structures import defaults_of

if TYPE_CHECKING:
    from headrace.conf.keys import Key

OF_THE_FILE = {"config_file", "config_digest", "warnings", "remarks", "overrides"}
MODULES = [
    import_module(module.name) for module in pkgutil.iter_modules(headrace.conf.__path__, "headrace.conf.")
]
STRUCTURES = {
    value
    for module in MODULES
    for value in vars(module).values()
    if inspect.isclass(value) and issubclass(value, Keyed) and value.KEYS
}
ROWS = {
    (field.names, field.text, field.kind)
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, KeyTable)
    for field in value.fields
}
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


@pytest.mark.parametrize("structure", sorted(STRUCTURES, key=str), ids=lambda kind: kind.__name__)
def test_entry_is_all_that_a_table_needs(structure: type[Keyed]) -> None:
    entries = [(option, key) for option, key in structure.KEYS.items() if key.name is not None]
    rows = {((key.name or option, *key.aliases), key.text, key.kind) for option, key in entries}
    assert rows - ROWS == set()


WITHOUT_KEY = {
    ("SubjectMapping", "source"): "the key of the map that the mapping is in",
    ("AccountOptions", "name"): "the key of the map that the account is in",
    ("ExportOptions", "subject"): "`stream` or `service`, whichever is there",
    ("ImportOptions", "account"): "in the map behind `stream` or `service`",
    ("ImportOptions", "subject"): "in the map behind `stream` or `service`",
    ("ImportOptions", "local"): "`prefix` or `to`, or else the subject",
    ("LeafProxy", "host"): "in `url`",
    ("LeafProxy", "port"): "in `url`",
    ("ResolverOptions", "kind"): "`type`, or the form of what `resolver` is set to",
    ("NATSServerOptions", "url"): "`nats_server_url`, a key of the block around",
}
"""Options that must be given and that no key sets by itself: where they come from."""


def test_option_that_must_be_given_has_an_entry() -> None:
    needed = {
        (structure.__name__, option)
        for structure in STRUCTURES
        for option in structure.__struct_fields__
        if option not in defaults_of(structure)
    }
    entries = {(structure.__name__, option) for structure in STRUCTURES for option in structure.KEYS}
    assert needed - entries == WITHOUT_KEY.keys()


def test_structure_without_what_must_be_given_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="Missing required argument 'to'"):
        ChannelArchiveOptions()
    assert ChannelArchiveOptions("/tables").interval == ChannelArchiveOptions.KEYS["interval"].default


@pytest.mark.parametrize("structure", sorted(STRUCTURES, key=str), ids=lambda kind: kind.__name__)
def test_entry_is_all_that_a_flag_needs(structure: type[Keyed]) -> None:
    offered = {(flag.names, flag.help) for _, flags in groups(streaming=True) for flag in flags}
    declared = {(key.flag.names, key.flag.text) for key in structure.KEYS.values() if key.flag is not None}
    assert declared - offered == set()


@pytest.mark.parametrize("streaming", [False, True])
def test_every_flag_is_offered_once(streaming: bool) -> None:
    names = [name for _, flags in groups(streaming=streaming) for flag in flags for name in flag.names]
    assert sorted(set(names)) == sorted(names)
