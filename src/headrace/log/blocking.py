"""Reads that may not wait: what they raise where bytes of a file are not on this machine yet.

The files of a log may be a cache of what is stored elsewhere (`headrace.bucket`). A read then takes as long
as that store does. Whoever reads on an event loop says so here, and is told what to wait for instead. Never
lives here: where the bytes come from.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from headrace.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

_WAITS: Final[ContextVar[bool]] = ContextVar("waits", default=True)


class NotHere(LogError):
    """A read lacks bytes that are on their way. `arrival`: done when they are here, or cannot be had.

    Read again then: the read has them, lacks others, or raises StorageError for what could not be had.
    """

    def __init__(self, arrival: Future[None]) -> None:
        super().__init__("the bytes that a read needs have not arrived yet")
        self.arrival: Final = arrival


@contextmanager
def without_waiting() -> Iterator[None]:
    """Have reads of logs raise NotHere in this context where they would wait for bytes to arrive."""
    token = _WAITS.set(False)
    try:
        yield
    finally:
        _WAITS.reset(token)


def may_wait() -> bool:
    """True if reads in this context may wait for bytes to arrive."""
    return _WAITS.get()
