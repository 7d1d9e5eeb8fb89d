"""Entries of options: names, values and tables that are made of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from headrace.spark.errors import OptionError
from headrace.spark.option_entry import (
    STORED,
    Option,
    made_of,
    option,
    option_table,
    options_of,
    read_fields,
)


def _upper(name: str, text: str) -> str:
    if not text.isalpha():
        raise OptionError(f"option {name}: {text!r} is no word")
    return text.upper()


@dataclass(frozen=True, slots=True)
class Sample:
    plain: int = 3
    most_rows: int | None = option(None, "number", "Rows at a time")
    wait_time: float = option(90.0, "duration", "How long to wait", of=STORED, writes=True)
    room: int = option(2 << 30, "size", "Bytes of it", name="roomMax")
    careful: bool = option(True, "true or false", "Whether to look twice")
    place: str | None = option(None, "text", "Where", shown_default="here")
    word: str = option("A", "word", "A word", read=_upper)
    both: tuple[str, str] = made_of(
        ("", ""), Option("one", "text", "none", "First"), Option("other", "text", "none", "Second")
    )


def test_fields_have_plain_defaults() -> None:
    assert Sample() == Sample(3, None, 90.0, 2 << 30, True, None, "A", ("", ""))


def test_options_are_named_after_their_fields() -> None:
    names = [each.name for each in options_of(Sample)]
    assert names == ["mostRows", "waitTime", "roomMax", "careful", "place", "word", "one", "other"]


def test_given_options_are_read_by_their_kinds() -> None:
    values = {
        "mostrows": "7", "waittime": "1.5m", "roommax": "1KiB", "careful": "FALSE", "place": "p", "word": "x",
    }  # fmt: skip
    found = read_fields(Sample, {**values, "one": "read elsewhere"})
    assert Sample(**found) == Sample(3, 7, 90.0, 1024, False, "p", "X")
    assert read_fields(Sample, {"place": ""}) == {}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"mostrows": "0"}, "option mostRows: '0' is not a whole number above 0"),
        ({"mostrows": "1" * 19}, "is not a whole number above 0"),
        ({"mostrows": "-1"}, "is not a whole number above 0"),
        ({"waittime": "0s"}, "option waitTime: '0s' is not a duration such as 500ms, 5s or 2m"),
        ({"waittime": "5 days"}, "is not a duration"),
        ({"roommax": "1.2.3"}, "option roomMax: '1.2.3' is not a size such as 512MiB or 4GiB"),
        ({"careful": "yes"}, "option careful: 'yes' is neither true nor false"),
        ({"careful": ""}, "is neither true nor false"),
        ({"word": "7"}, "option word: '7' is no word"),
    ],
)
def test_what_is_no_value_is_refused(values: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError) as found:
        read_fields(Sample, values)
    assert complaint in str(found.value)


def test_table_shows_what_is_known() -> None:
    assert option_table(options_of(Sample)[:5]) == (
        "| `mostRows` | number | all | none | Rows at a time |\n"
        "| `waitTime` | duration | stored, writing | 90s | How long to wait |\n"
        "| `roomMax` | size | all | 2GiB | Bytes of it |\n"
        "| `careful` | true or false | all | true | Whether to look twice |\n"
        "| `place` | text | all | here | Where |\n"
    )
