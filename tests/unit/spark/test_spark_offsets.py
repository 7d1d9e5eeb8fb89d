from __future__ import annotations

import json

import pytest

from headrace.spark.errors import DataLossError
from headrace.spark.offsets import (
    CHANNEL,
    STREAM,
    Backlog,
    CoreOffset,
    Place,
    latest_to_json,
    places_to_json,
)
from headrace.spark.progress import StreamProgress, failure_text, messages_before, stream_progress


def test_offset_through_json_is_the_same() -> None:
    offset = CoreOffset("abc", 12)
    assert CoreOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset
    assert json.dumps(offset.to_json()) == '{"v": 1, "core": {"capture": "abc", "next": 12}}'


@pytest.mark.parametrize("other", [{}, {"v": 2, "core": {}}, {"v": 1, "s": {"ORDERS": {"next": 1}}}])
def test_offset_of_another_source_is_refused(other: dict[str, object]) -> None:
    with pytest.raises(DataLossError, match="checkpointLocation of its own"):
        CoreOffset.from_json(other)


@pytest.mark.parametrize("core", [{}, {"capture": "a"}, {"capture": "a", "next": "x"}])
def test_offset_that_was_damaged_is_refused(core: dict[str, object]) -> None:
    with pytest.raises(DataLossError, match="is damaged"):
        CoreOffset.from_json({"v": 1, "core": core})


def test_messages_before_counts_from_one() -> None:
    assert messages_before(None) is None
    assert messages_before({"logOffset": 3}) is None
    assert messages_before(json.dumps(CoreOffset("a", 1).to_json())) == 0
    assert messages_before(CoreOffset("a", 11).to_json()) == 10
    places = {"a": Place(11, 1), "next": Place(3, None)}
    assert messages_before(places_to_json(CHANNEL, places, {"a": Place(5, 1)})) == 12


def source_of(start: object, end: object, latest: object) -> dict[str, object]:
    return {"startOffset": start, "endOffset": end, "latestOffset": latest}


def test_progress_is_told_for_each_stream() -> None:
    a, b = Place(11, 1), Place(21, 2)
    end = places_to_json(STREAM, {"a": Place(31, 1), "b": Place(22, 2)})
    latest = {"a": Place(41, 1), "b": Place(22, 2), "new": Place(5, 3)}
    waits = {"a": Backlog(10, 1500), "b": Backlog(0, 0), "new": Backlog(4, None)}
    reported = latest_to_json(STREAM, latest, waits)
    told = [
        StreamProgress("a", 20, 10, 1.5),
        StreamProgress("b", 1, 0, 0.0),
        StreamProgress("new", 0, 4, None),
    ]
    for made in (lambda one: one, json.dumps):
        source = source_of(made(places_to_json(STREAM, {"a": a, "b": b})), made(end), made(reported))
        assert sorted(stream_progress({"sources": [source]}), key=lambda one: one.name) == told
    both = stream_progress({"sources": [source, source]})
    assert len(both) == 6


def test_progress_of_a_first_batch_begins_where_it_says() -> None:
    end = places_to_json(CHANNEL, {"a": Place(31, 1)}, {"a": Place(21, 1)})
    told = stream_progress({"sources": [source_of(None, end, None)]})
    assert told == [StreamProgress("a", 10, None, None)]


def test_progress_of_a_stream_made_again_counts_from_its_first_message() -> None:
    start, end = places_to_json(STREAM, {"a": Place(11, 1)}), places_to_json(STREAM, {"a": Place(4, 2)})
    latest = places_to_json(STREAM, {"a": Place(6, 2)})
    assert stream_progress({"sources": [source_of(start, end, latest)]}) == [StreamProgress("a", 3, 2, None)]


def test_progress_of_core_subjects_is_called_core() -> None:
    source = source_of(
        CoreOffset("x", 5).to_json(), CoreOffset("x", 9).to_json(), CoreOffset("x", 10).to_json()
    )
    assert stream_progress({"sources": [source]}) == [StreamProgress("core", 4, 1, None)]


@pytest.mark.parametrize(
    "other", [None, "3", "not json", {"logOffset": 3}, {"v": 2, "streams": {}}, [1], "[]"]
)
def test_progress_of_another_source_is_none(other: object) -> None:
    assert stream_progress({"sources": [source_of(other, other, other)]}) == []
    assert stream_progress({}) == []


def test_failure_text_is_ours_if_there_is_one() -> None:
    spark = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: ... Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n'
        "headrace.client.errors.ConnectionLostError: gone\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "headrace.spark.errors.CaptureError: listening ended: gone\n SQLSTATE: XXKST"
    )
    assert failure_text(Exception(spark)) == "listening ended: gone"
    assert failure_text(Exception("else")) == "else"
