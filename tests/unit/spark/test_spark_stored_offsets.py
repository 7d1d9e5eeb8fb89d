"""Arithmetic of channel offsets: what a checkpoint says, what a batch reads, how it is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.spark.errors import DataLossError
from headrace.spark.offsets import (
    CHANNEL,
    STREAM,
    CoreOffset,
    Place,
    StoredRange,
    places_from_json,
    places_to_json,
    range_between,
    shared_limit,
    split,
)
from headrace.spark.progress import messages_before


def test_channel_offset_through_json_is_the_same() -> None:
    places = {"b": Place(12, 99), "a": Place(1, None)}
    text = json.dumps(places_to_json(CHANNEL, places))
    assert (
        text == '{"v": 1, "channels": {"b": {"next": 12, "created": 99}, "a": {"next": 1, "created": null}}}'
    )
    assert places_from_json(CHANNEL, json.loads(text), ("b", "a")) == places


@pytest.mark.parametrize(
    "other",
    [
        {},
        ["v", 1],
        17,
        {"v": 1, "channels": ["a"]},
        {"v": 2, "channels": {"a": {"next": 1, "created": None}}},
        CoreOffset("abc", 1).to_json(),
        places_to_json(CHANNEL, {"b": Place(1, None)}),
        places_to_json(CHANNEL, {"a": Place(1, None), "b": Place(1, None)}),
    ],
)
def test_channel_offset_of_another_source_or_other_channels_is_refused(other: Any) -> None:
    with pytest.raises(DataLossError, match="checkpointLocation of its own"):
        places_from_json(CHANNEL, other, ("a",))


def test_range_is_what_lies_between_two_places_of_one_incarnation() -> None:
    assert range_between("a", Place(5, 7), Place(9, 7)) == StoredRange("a", 5, 9, 7)
    assert range_between("a", Place(9, 7), Place(9, 7)) == StoredRange("a", 9, 9, 7)


def test_range_of_a_channel_that_was_not_there_yet_begins_where_it_was_said() -> None:
    assert range_between("a", Place(1, None), Place(4, 7)) == StoredRange("a", 1, 4, 7)


def test_range_of_a_channel_made_again_begins_with_its_first_message() -> None:
    assert range_between("a", Place(500, 7), Place(4, 8)) == StoredRange("a", 1, 4, 8)


def test_range_of_a_channel_that_went_backwards_is_empty() -> None:
    assert range_between("a", Place(500, 7), Place(4, 7)) == StoredRange("a", 500, 500, 7)


@pytest.mark.parametrize(
    ("width", "pieces", "expected"), [(10, 3, 3), (2, 5, 2), (1, 1, 1), (0, 4, 0), (7, 0, 0)]
)
def test_split_covers_every_sequence_once_and_no_piece_is_empty(
    width: int, pieces: int, expected: int
) -> None:
    parts = split(StoredRange("a", 11, 11 + width, 7), pieces)
    assert len(parts) == expected
    assert all(part.first < part.end and part.created == 7 for part in parts)
    covered = [sequence for part in parts for sequence in range(part.first, part.end)]
    assert covered == (list(range(11, 11 + width)) if pieces else [])
    widths = [part.end - part.first for part in parts]
    assert not widths or max(widths) - min(widths) <= 1


@pytest.mark.parametrize(
    ("widths", "limit", "shares"),
    [
        ({"a": 100, "b": 300}, 40, {"a": 10, "b": 30}),
        ({"a": 3, "b": 4}, 100, {"a": 3, "b": 4}),
        ({"a": 1_000_000, "b": 1}, 10, {"a": 9, "b": 1}),
        ({"a": 5, "b": 0}, 3, {"a": 3, "b": 0}),
        ({"a": 5, "b": 5, "c": 5}, 2, None),
    ],
)
def test_shared_limit_is_used_up_in_proportion(
    widths: dict[str, int], limit: int, shares: dict[str, int] | None
) -> None:
    found = shared_limit(widths, limit)
    assert sum(found.values()) == min(limit, sum(widths.values()))
    assert all(0 <= found[name] <= widths[name] for name in widths)
    assert shares is None or found == shares


def test_messages_before_adds_up_over_channels() -> None:
    assert messages_before(places_to_json(CHANNEL, {"a": Place(11, 7), "b": Place(1, None)})) == 10


def test_stream_offset_through_json_is_the_same_and_no_channels() -> None:
    places = {"ORDERS": Place(12, 99)}
    fields = json.loads(json.dumps(places_to_json(STREAM, places)))
    assert places_from_json(STREAM, fields, ("ORDERS",)) == places
    assert messages_before(fields) == 11
    with pytest.raises(DataLossError, match="reads STAN channels"):
        places_from_json(CHANNEL, fields, ("ORDERS",))


@pytest.mark.parametrize(
    "place",
    [
        {},
        {"next": "x", "created": 1},
        {"next": 0, "created": 1},
        {"next": 1.5, "created": 1},
        {"next": 1, "created": "x"},
        None,
        7,
    ],
)
def test_offset_that_is_damaged_is_refused(place: object) -> None:
    with pytest.raises(DataLossError, match="is damaged"):
        places_from_json(STREAM, {"v": 1, "streams": {"a": place}}, ("a",))
