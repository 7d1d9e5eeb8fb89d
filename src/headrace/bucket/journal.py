"""The journal: changes of files that were made and are not in the bucket yet, in their order.

Here live the order, the positions and what is refused. Never here: when an object is put (`writer`), what a
change does (`tree`).

A position counts changes: the position of now is that of the last change that was recorded. An object of the
write-ahead log covers all changes up to a position; it ends at a cut, where there is one, so that a snapshot
can say which objects it makes needless.
"""

from __future__ import annotations

import errno
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.bucket.changes import WRITE_OVERHEAD, Change, Write, encode_parts, weight

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

MOST_PENDING: Final = 256 << 20
"""Bytes of changes that wait to be taken; above it whatever adds to them is refused until some are."""


class JournalSpan(NamedTuple):
    """The payload of one object in pieces, and the position up to which it covers the journal.

    `is_cut`: it ends at a cut; what was recorded later comes in later objects. `is_last`: no change waited
    behind it.
    """

    parts: Sequence[bytes | memoryview]
    position: int
    is_cut: bool
    is_last: bool = False


class Journal:
    """The changes that wait. Any thread may record; `lock` is held from a change of a file until it is
    recorded, so that both have one order.

    `when_first`: called with each change that is recorded while none waits, by the thread that records it;
    `when_many`: called so once the bytes that `watch` was told of wait.
    `position`: that of the last change of an earlier journal, where this one goes on with it. `lock`: the one
    under which the files were changed before there was this journal; None: there were no others.
    """

    def __init__(
        self,
        when_first: Callable[[], object] = lambda: None,
        *,
        position: int = 0,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self.lock: Final[AbstractContextManager[object]] = lock or threading.RLock()
        self.when_first = when_first
        self.when_many: Callable[[], object] = lambda: None
        self._watched = sys.maxsize
        """Bytes that have to wait for `when_many` to be called."""
        self.position = position
        """The number of changes that were recorded, by this journal and those that it goes on with."""
        self.pending_bytes = 0
        """Bytes of changes that wait to be taken, about."""
        self._waiting: deque[Change] = deque()
        self._cuts: deque[int] = deque()
        self._refusal: str | None = None
        self._ended: str | None = None

    # ---- recording --------------------------------------------------------------------------

    def check(self, *, adds: bool) -> None:
        """Raise OSError (EIO, with the reason) if a change may not be made now. Call it before the change.

        `adds`: it makes files larger or more of them. What only takes away is refused after `end` alone.
        """
        if self._ended is not None:
            raise OSError(errno.EIO, self._ended)
        if adds and self._refusal is not None:
            raise OSError(errno.EIO, self._refusal)
        if adds and self.pending_bytes > MOST_PENDING:
            raise OSError(errno.EIO, f"{self.pending_bytes >> 20} MiB wait for the bucket")

    def record(self, change: Change) -> None:
        """Add a change that was made. With the lock."""
        waiting = self._waiting
        is_first = not waiting
        waiting.append(change)
        self.position += 1
        self.pending_bytes += len(change.data) + WRITE_OVERHEAD if type(change) is Write else weight(change)
        if is_first:
            self.when_first()
        if self.pending_bytes >= self._watched:
            self._watched = sys.maxsize
            self.when_many()

    def cut(self) -> int:
        """Have the object that covers the last change end there; return the position. With the lock."""
        if not self._cuts or self._cuts[-1] != self.position:
            self._cuts.append(self.position)
        return self.position

    def refuse(self, reason: str | None) -> None:
        """Refuse from now on whatever adds; None: no more."""
        self._refusal = reason

    def end(self, reason: str) -> None:
        """Refuse every change from now on, and forget those that wait."""
        with self.lock:
            self._ended = reason
            self._waiting.clear()
            self.pending_bytes = 0

    # ---- taking -----------------------------------------------------------------------------

    def watch(self, size: int) -> None:
        """Have `when_many` called, once, when so many bytes wait."""
        with self.lock:
            self._watched = size

    def take(self, most_bytes: int) -> JournalSpan | None:
        """Take changes for one object: about `most_bytes` at most, one change at least; None: none waits."""
        with self.lock:
            waiting = self._waiting
            position = self.position - len(waiting)
            while self._cuts and self._cuts[0] <= position:
                self._cuts.popleft()  # it is the end of an object that was taken
            end = self._cuts[0] if self._cuts else self.position
            taken: list[Change] = []
            size = 0
            if not self._cuts and self.pending_bytes <= most_bytes:
                taken, size, position = list(waiting), self.pending_bytes, self.position
                waiting.clear()
            while position < end and waiting and (not taken or size + weight(waiting[0]) <= most_bytes):
                change = waiting.popleft()
                size += weight(change)
                position += 1
                taken.append(change)
            self.pending_bytes -= size
            is_cut = bool(self._cuts) and position == self._cuts[0]
            is_last = not waiting
        return JournalSpan(encode_parts(taken), position, is_cut, is_last) if taken else None
