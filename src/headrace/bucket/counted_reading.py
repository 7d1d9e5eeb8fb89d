"""Reads of a bucket by threads, counted with the requests of the event loop.

The client below tries again by itself (`opening.READ_RETRIES`): a read counts once, with its last outcome.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from headrace.bucket.requests import outcome_of
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    import asyncio

    from headrace.bucket.request_counts import RequestCounts, RequestOutcome


class RangeReads(Protocol):
    """The ranges of objects, for threads that may wait."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes [start, end), fewer at the object's end. Raises: KeyMissing, StoreError."""


class CountedReads:
    """Reads that are counted on an event loop, by any thread. What is read when it is closed counts not."""

    def __init__(self, reads: RangeReads, counts: RequestCounts, loop: asyncio.AbstractEventLoop) -> None:
        self._reads: Final = reads
        self._counts: Final = counts
        self._loop: Final = loop

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes [start, end), fewer at the object's end. Raises: KeyMissing, StoreError."""
        began = self._loop.time()
        try:
            data = self._reads.get_range(key, start, end)
        except StoreError as error:
            self._count(outcome_of(error), began, 0)
            raise
        self._count("ok", began, len(data))
        return data

    def _count(self, outcome: RequestOutcome, began: float, received: int) -> None:
        now = self._loop.time()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._note, outcome, now, now - began, received)

    def _note(self, outcome: RequestOutcome, now: float, seconds: float, received: int) -> None:
        self._counts.count("get", outcome, now, seconds, received=received)
