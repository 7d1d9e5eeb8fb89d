"""Pauses between attempts, and the end of patience."""

from __future__ import annotations

import pytest

from headrace.client.errors import ConnectError
from headrace.client.retries import Backoff, Patience


def test_pauses_double_up_to_the_longest_until_a_success() -> None:
    backoff = Backoff(0.1, 0.5)

    assert [backoff.next() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    backoff.reset()
    assert backoff.next() == 0.1


def test_jitter_shortens_a_pause_and_leaves_those_after_it() -> None:
    backoff = Backoff(1.0, 8.0, jitter=0.5)

    for whole in (1.0, 2.0, 4.0, 8.0, 8.0):
        assert whole / 2 <= backoff.next() <= whole


def test_patience_ends_after_its_limit_and_begins_anew_after_a_success() -> None:
    now, pauses = 100.0, []

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    patience, error = Patience(0.2, lambda: now, pause), ConnectError("away")
    assert not patience.is_tried
    patience.wait(error)
    assert patience.is_tried
    patience.over()
    assert not patience.is_tried
    for _ in range(3):
        patience.wait(error)
    with pytest.raises(ConnectError) as caught:
        patience.wait(error)

    assert caught.value is error
    assert pauses == pytest.approx([0.05, 0.05, 0.1, 0.05])
