"""Deadlines behind one timer: each is met once, not early, whatever happens to the others meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.server.deadlines import SLOTS, Deadlines

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable


class Clock:
    """The part of an event loop that deadlines use; `advance` is how time passes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[_Timer] = []
        self.failures: list[BaseException] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], object]) -> _Timer:
        timer = _Timer(self.now + seconds, call)
        self.timers.append(timer)
        return timer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context["exception"])

    @property
    def armed(self) -> list[_Timer]:
        return [timer for timer in self.timers if timer.is_set]

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [timer for timer in self.armed if timer.when <= end]:
            timer = min(due, key=lambda each: each.when)
            self.now = max(self.now, timer.when)
            timer.is_set = False
            timer.call()
        self.now = end


class _Timer:
    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self.when = when
        self.call = call
        self.is_set = True

    def cancel(self) -> None:
        self.is_set = False


@pytest.fixture
def clock() -> Clock:
    return Clock()


def deadlines_of(clock: Clock) -> Deadlines:
    deadlines = Deadlines(clock.time)
    deadlines.begin(cast("AbstractEventLoop", clock))
    return deadlines


@given(
    st.lists(st.tuples(st.floats(0, 5), st.booleans(), st.floats(0, 1)), max_size=40),
)
def test_each_is_met_once_within_a_slot_and_dropped_ones_never(
    plan: list[tuple[float, bool, float]],
) -> None:
    clock = Clock()
    deadlines = deadlines_of(clock)
    met: dict[int, float] = {}
    wanted: dict[int, float] = {}
    for owner, (seconds, is_dropped, pause) in enumerate(plan):

        def note(owner: int = owner) -> None:
            assert owner not in met
            met[owner] = clock.now

        slot = deadlines.set(owner, seconds, note)
        wanted[owner] = clock.now + seconds
        assert len(clock.armed) == 1
        if is_dropped:
            deadlines.drop(owner, slot)
            del wanted[owner]
        clock.advance(pause)
    clock.advance(6)

    assert met.keys() == wanted.keys()
    for owner, when in met.items():
        assert wanted[owner] <= when <= wanted[owner] + 1 / SLOTS + 1e-6
    assert not clock.armed


def test_an_earlier_one_is_not_late_because_of_a_later_one(clock: Clock) -> None:
    deadlines = deadlines_of(clock)
    met: list[str] = []
    deadlines.set("later", 10, lambda: met.append("later"))
    deadlines.set("sooner", 1, lambda: met.append("sooner"))

    clock.advance(1.1)
    assert met == ["sooner"]
    clock.advance(9)
    assert met == ["sooner", "later"]


def test_dropped_slots_wake_nobody(clock: Clock) -> None:
    deadlines = deadlines_of(clock)
    woken: list[float] = []
    for _ in range(100):
        deadlines.drop("gone", deadlines.set("gone", 2, lambda: woken.append(clock.now)))
        clock.advance(0.02)
    set_before = len(clock.timers)
    clock.advance(5)

    assert not woken
    assert len(clock.timers) - set_before <= 1
    assert not clock.armed


def test_a_mistake_at_one_does_not_keep_the_others(clock: Clock) -> None:
    deadlines = deadlines_of(clock)
    mistake = ValueError("ours")
    met: list[str] = []

    def fail() -> None:
        raise mistake

    for owner, call in (("a", lambda: met.append("a")), ("b", fail), ("c", lambda: met.append("c"))):
        deadlines.set(owner, 1, call)
    clock.advance(2)

    assert sorted(met) == ["a", "c"]
    assert clock.failures == [mistake]


def test_one_may_drop_or_set_others_or_close_all(clock: Clock) -> None:
    deadlines = deadlines_of(clock)
    met: list[str] = []
    slots: dict[str, int] = {}

    def first() -> None:
        met.append("first")
        for owner in ("first", "second"):
            deadlines.drop(owner, slots[owner])
        deadlines.set("again", 0, again)

    def again() -> None:
        met.append("again")
        deadlines.close()

    slots["second"] = deadlines.set("second", 1, lambda: met.append("second"))
    slots["first"] = deadlines.set("first", 1, first)
    deadlines.set("last", 3, lambda: met.append("last"))
    clock.advance(5)

    assert met == ["first", "again"]
    assert not clock.armed
    deadlines.drop("last", 1)  # of what is gone nothing is said
