"""Deadlines of many connections behind one timer of the event loop.

Most deadlines are moved or dropped before they come: a timer of asyncio for each of them is a large part of
what a short connection costs. Never lives here: what is due, and after which time (`session`).
"""

from __future__ import annotations

from heapq import heappop, heappush
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable, Hashable

SLOTS: Final = 64
"""The slots of a second. All deadlines of a slot are met at its end: late by 1/64 s at most, never early."""


class Deadlines:
    """The deadlines of clients: one at most for each owner and slot, from `begin` on. `set` and `drop` cost
    two look-ups.

    A slot that was used stays until its time has come, also when nothing is left in it: who comes next in it
    need not order it again. Those who are served at a time must fit into memory, not those who ever were.
    """

    _loop: AbstractEventLoop

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._slots: dict[int, dict[Hashable, Callable[[], object]]] = {}
        self._order: list[int] = []  # a heap of the same slots
        self._timer: TimerHandle | None = None

    def begin(self, loop: AbstractEventLoop) -> None:
        self._loop = loop

    def set(self, owner: Hashable, seconds: float, call: Callable[[], object]) -> int:
        """Call `call` when the time is over; return what `drop` is to be given for that not to happen."""
        slot = int((self._clock() + seconds) * SLOTS) + 1
        due = self._slots.get(slot)
        if due is None:
            due = self._slots[slot] = {}
            heappush(self._order, slot)
            if self._order[0] == slot:
                self._wait_for(slot)
        due[owner] = call
        return slot

    def drop(self, owner: Hashable, slot: int) -> None:
        """Drop the deadline of an owner in a slot; safe to call when it has passed."""
        due = self._slots.get(slot)
        if due is not None:
            due.pop(owner, None)

    def close(self) -> None:
        """Meet no deadline from here on."""
        if self._timer is not None:
            self._timer.cancel()
        self._slots.clear()
        self._order.clear()

    def _wait_for(self, slot: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(slot / SLOTS - self._clock(), self._meet)

    def _meet(self) -> None:
        self._timer = None
        now = int(self._clock() * SLOTS)
        order, slots = self._order, self._slots
        while order and (order[0] <= now or not slots[order[0]]):
            due = slots[order[0]]
            while due:  # taken out one by one: each call may drop others, or close all
                self._call(due.popitem()[1])
            if order:
                del slots[heappop(order)]
        if order:
            self._wait_for(order[0])

    def _call(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 -- as the loop does it: the other deadlines are met
            self._loop.call_exception_handler({"message": "Exception at a deadline", "exception": error})
