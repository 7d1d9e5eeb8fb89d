"""Handshakes a second: as many as configured, and a count of the others."""

from __future__ import annotations

from headrace.server.admission import HandshakeRate


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_as_many_as_the_limit_pass_in_a_window() -> None:
    clock = Clock()
    rate = HandshakeRate(3, clock)

    assert [rate.allows() for _ in range(5)] == [True, True, True, False, False]
    clock.now += 0.9
    assert not rate.allows()
    assert rate.take_rejected() == 3
    assert rate.take_rejected() == 0


def test_a_new_window_begins_with_the_first_handshake_after_the_old_one() -> None:
    clock = Clock()
    rate = HandshakeRate(2, clock)
    for _ in range(4):
        rate.allows()

    clock.now += 1.1

    assert [rate.allows() for _ in range(3)] == [True, True, False]


def test_no_limit_counts_nothing() -> None:
    rate = HandshakeRate(0, Clock())

    assert all(rate.allows() for _ in range(1000))
    assert rate.take_rejected() == 0
