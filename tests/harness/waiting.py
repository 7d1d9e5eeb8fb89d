"""Waiting for a condition with a deadline, the only way tests here wait for anything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds after which a condition that should come true at once is given up."""


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
