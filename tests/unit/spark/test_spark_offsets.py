from __future__ import annotations

import json

import pytest

from headrace.spark.errors import DataLossError
from headrace.spark.offsets import CHANNEL, CoreOffset, Place, places_to_json
from headrace.spark.progress import failure_text, messages_before


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
