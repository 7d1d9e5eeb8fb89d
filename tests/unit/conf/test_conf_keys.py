"""Entries of keys: what a structure of options and its table make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import field
from msgspec.structs import replace

from headrace.conf import keys
from headrace.conf.binding import load_options
from headrace.conf.fields import Bound, fields_of, text, values_of
from headrace.conf.keys import Keyed, key
from headrace.conf.options import Options
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


UNREAD = key("", "Words", "list of words")


class Sample(Keyed, frozen=True):
    """Options, two of them without an entry."""

    before: int = 1
    size: int = key(7, "Bytes of it", aliases=("length",))
    pause: float = key(2.0, "Time between two")
    words: tuple[str, ...] = key((), "Words", name="texts")
    by_name: Mapping[str, str] = key(field(default_factory=dict), "By name", "map", read="fields:text_map")
    hidden: str | None = key(None, "Set by others", name=None)
    after: bool = False


def test_options_have_plain_defaults() -> None:
    assert Sample() == Sample(1, 7, 2.0, (), {}, None, False)
    assert replace(Sample(), size=8).size == 8
    assert Sample().by_name is not Sample().by_name


def test_entries_are_by_option_in_their_order() -> None:
    assert list(Sample.KEYS) == ["size", "pause", "words", "by_name", "hidden"]


def test_kind_follows_from_the_default() -> None:
    found = {option: entry.kind for option, entry in Sample.KEYS.items()}
    assert found == {
        "size": "integer",
        "pause": "duration",
        "words": "string or list",
        "by_name": "map",
        "hidden": "string",
    }


def test_each_class_has_its_own_entries() -> None:
    assert Sample.KEYS.keys().isdisjoint(Options.KEYS)


def test_rows_have_the_names_of_the_keys() -> None:
    rows = {row.option: row.names for row in fields_of(Sample)}
    assert rows == {
        "size": ("size", "length"),
        "pause": ("pause",),
        "words": ("texts",),
        "by_name": ("by_name",),
    }


def test_row_is_read_by_the_reader_that_is_given_for_it() -> None:
    readers = {row.option: row.read for row in fields_of(Sample, {"size": text})}
    assert readers["size"] is text
    with pytest.raises(KeyError, match="list of words"):
        fields_of(
            type("Other", (Keyed,), {"__annotations__": {"a": str}, "a": key("", "A", "list of words")})
        )


def test_zeros_and_empty_texts_that_mean_the_default_are_left_out() -> None:
    class Block(Keyed, frozen=True):
        limit: int = key(5, "Most of them", zero_is_default=True)
        least: int = key(5, "Fewest of them")
        name: str = key("x", "What it is called")

    empty = Bound({"limit": 0, "least": 0, "name": "", "other": 0, "off": False})
    assert values_of(empty, Block) == {"least": 0, "other": 0, "off": False}
    assert values_of(Bound({"limit": 1, "name": "y"}), Block) == {"limit": 1, "name": "y"}


@pytest.mark.parametrize(
    ("given", "kept"), [("/a//b/", "/a/b"), ("a", "/a"), ("/", ""), ("", ""), ("../x", "/x")]
)
def test_clean_path(given: str, kept: str) -> None:
    assert keys.clean_path(given) == kept


def test_tags_are_kept_once_in_lower_case() -> None:
    assert keys.lower_case_tags((" A", "b", "a ", " ")) == ("a", "b")


@pytest.mark.parametrize(("given", "limit"), [(5, 5), (0, -1), (-7, -1)])
def test_positive_or_unlimited(given: int, limit: int) -> None:
    assert keys.positive_or_unlimited(given) == limit


@pytest.mark.parametrize("option", [option for option, entry in Options.KEYS.items() if entry.between])
def test_bounds_hold_in_a_file_and_beside_one(option: str) -> None:
    low, high = Options.KEYS[option].between or (0, 0)
    values = [low - 1] if high == float("inf") else [low - 1, high + 1]
    for value in (each for each in values if each or not Options.KEYS[option].zero_is_default):
        with pytest.raises(ConfigError, match=f"{option} (must lie between|cannot be negative)"):
            load_options(overrides={option: value})


@pytest.mark.parametrize(
    "option", [option for option, entry in Options.KEYS.items() if entry.zero_is_default and entry.between]
)
def test_zero_is_the_default(option: str) -> None:
    assert getattr(load_options(overrides={option: 0}), option) == getattr(load_options(), option)
