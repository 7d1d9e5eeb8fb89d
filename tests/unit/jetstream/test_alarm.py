"""The alarm of a consumer's parts: one timer however often it is set, ringing when it was set for last."""

from __future__ import annotations

from random import Random

import pytest

from harness.js_account import SECOND, START, TableHost
from headrace.jetstream.alarm import Alarm
from headrace.log.committer import InlineCommitter
from headrace.turns import Turns


class Rung:
    """An alarm, and when it rang."""

    def __init__(self) -> None:
        self.host = TableHost()
        self.at: list[int] = []
        self.alarm = Alarm(
            Turns(self.host, InlineCommitter()), lambda: self.at.append((self.host.now - START) // SECOND)
        )

    def after(self, seconds: int) -> int:
        return START + seconds * SECOND

    def pass_time(self, until: int) -> list[int]:
        """Every second until then."""
        while self.host.now < self.after(until):
            self.host.pass_time(1)
        return self.at

    @property
    def timers(self) -> int:
        return sum(timer.function is not None for _, _, timer in self.host._timers)


@pytest.fixture
def rung() -> Rung:
    return Rung()


def test_rings_once(rung: Rung) -> None:
    rung.alarm.at(rung.after(3))
    assert rung.pass_time(10) == [3]
    assert rung.alarm.due_ns == 0


def test_rings_later_when_it_is_set_later(rung: Rung) -> None:
    rung.alarm.at(rung.after(3))
    rung.alarm.at(rung.after(5))
    assert rung.timers == 1
    assert rung.pass_time(10) == [5]


def test_rings_earlier_when_it_is_set_earlier(rung: Rung) -> None:
    rung.alarm.at(rung.after(5))
    rung.alarm.at(rung.after(3))
    assert rung.timers == 1
    assert rung.pass_time(10) == [3]


def test_by_changes_nothing_that_is_earlier(rung: Rung) -> None:
    rung.alarm.by(rung.after(3))
    rung.alarm.by(rung.after(5))
    rung.alarm.by(rung.after(2))
    assert rung.pass_time(10) == [2]


def test_at_rest_it_does_not_ring(rung: Rung) -> None:
    rung.alarm.by(rung.after(3))
    rung.alarm.rest()
    assert rung.alarm.due_ns == 0
    assert rung.pass_time(10) == []
    assert rung.timers == 0


def test_it_can_be_set_again_after_a_rest(rung: Rung) -> None:
    rung.alarm.by(rung.after(3))
    rung.alarm.rest()
    rung.alarm.by(rung.after(4))
    rung.alarm.rest()
    rung.alarm.by(rung.after(2))
    assert rung.pass_time(10) == [2]


def test_cancelled_it_leaves_no_timer(rung: Rung) -> None:
    rung.alarm.by(rung.after(3))
    rung.alarm.rest()
    rung.alarm.cancel()
    assert (rung.timers, rung.pass_time(10)) == (0, [])


def test_it_can_be_set_while_it_rings() -> None:
    rung = Rung()
    again = [rung.after(6)]
    alarm = Alarm(Turns(rung.host, InlineCommitter()), lambda: (rung.at.append(1), alarm.at(again.pop()))[0])
    alarm.at(rung.after(3))
    rung.pass_time(5)
    assert (rung.at, alarm.due_ns) == ([1], rung.after(6))


@pytest.mark.parametrize("seed", range(50))
def test_as_one_that_sets_a_timer_each_time(rung: Rung, seed: int) -> None:
    random = Random(seed)
    due = 0
    expected: list[int] = []
    for now in range(60):
        if due and due <= now:
            expected.append(due)
            due = 0
        choice = random.choice(["at", "by", "rest", "cancel", "none", "none"])
        after = now + random.randrange(1, 9)
        if choice == "at":
            rung.alarm.at(rung.after(after))
            due = after
        elif choice == "by":
            rung.alarm.by(rung.after(after))
            due = min(due or after, after)
        elif choice == "rest":
            rung.alarm.rest()
            due = 0
        elif choice == "cancel":
            rung.alarm.cancel()
            due = 0
        rung.host.pass_time(1)
        assert rung.timers <= 1
    assert rung.pass_time(70) == [*expected, *[due][: bool(due)]]
