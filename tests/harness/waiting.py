"""Waiting for a condition with a deadline, the only way tests here wait for anything; and for all at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

S = TypeVar("S")
T = TypeVar("T")

PATIENCE = 30.0
"""Seconds after which a condition that should come true at once is given up; machines may be busy."""
LONG = 300.0
"""The same for what a Java runtime has to do first."""


def at_once(act: Callable[[S], T], whom: Sequence[S]) -> list[T]:
    """What an act gives for each of these, done to all of them at the same time.

    Raises: what one of them raised, with a note which one, when all have ended.
    """

    def named(number: int, each: S) -> T:
        try:
            return act(each)
        except Exception as error:
            error.add_note(f"number {number + 1} of the {len(whom)} that acted at once")
            raise

    with ThreadPoolExecutor(len(whom)) as threads:
        return list(threads.map(named, range(len(whom)), whom))


def wait_until(condition: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """The first true value of `condition`, asked every few milliseconds.

    Raises: AssertionError that names `what` and shows the last value.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s; at last {value!r}")
        time.sleep(0.005)
