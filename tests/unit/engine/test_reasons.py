"""CloseReason and the engine's own numbers are the same; every reason has the words monitoring shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace.engine
from headrace.engine.reasons import CloseReason

# The engine's short names of the reasons it closes for by itself.
ENGINE_NAMES = {
    "NONE": CloseReason.NONE,
    "CLIENT_CLOSED": CloseReason.CLIENT_CLOSED,
    "AUTHENTICATION_VIOLATION": CloseReason.AUTHENTICATION_VIOLATION,
    "SLOW_PENDING": CloseReason.SLOW_CONSUMER_PENDING_BYTES,
    "SLOW_DEADLINE": CloseReason.SLOW_CONSUMER_WRITE_DEADLINE,
    "WRITE_ERROR": CloseReason.WRITE_ERROR,
    "READ_ERROR": CloseReason.READ_ERROR,
    "PARSE_ERROR": CloseReason.PARSE_ERROR,
    "PROTOCOL_VIOLATION": CloseReason.PROTOCOL_VIOLATION,
    "MAX_PAYLOAD": CloseReason.MAX_PAYLOAD_EXCEEDED,
    "MAX_CONTROL_LINE": CloseReason.MAX_CONTROL_LINE_EXCEEDED,
    "INTERNAL_ERROR": CloseReason.INTERNAL_ERROR,
}


def test_engine_numbers_equal_the_enum() -> None:
    structs = (Path(headrace.engine.__file__).parent / "structs.pxd").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"^    REASON_(\w+) = (\d+)$", structs, re.MULTILINE))
    assert {name: int(number) for name, number in numbers.items()} == {
        name: int(reason) for name, reason in ENGINE_NAMES.items()
    }


@pytest.mark.parametrize("reason", CloseReason)
def test_every_reason_has_a_text(reason: CloseReason) -> None:
    assert bool(reason.text) is (reason is not CloseReason.NONE)


def test_texts_are_all_different() -> None:
    assert len({reason.text for reason in CloseReason}) == len(CloseReason)
