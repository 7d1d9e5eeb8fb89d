"""The committer of a shard: durable means that the bucket has it.

Here lives who waits for what. Never here: putting objects (`writer`), which tells how far they go. A commit
covers all that was recorded of all logs, so the log that is named in a request makes no difference.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.errors import LogClosed, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.bucket.journal import Journal
    from headrace.log.port import Done, Syncable

COMMIT_TIMEOUT_S: Final = 4.0
"""Seconds after which who waits for a commit is told that it failed. It may still happen then."""

PROVEN_S: Final = 2.5
"""Seconds after the last proof that this server is the owner after which all who wait are told the same: a
moment later its services may say nothing any more (PROOF_S). To the other servers it does not say any more
that it is the owner."""

PROOF_S: Final = 3.0
"""Seconds after the last proof that this server is the owner for which its services may speak. With
`commit: disk` they do so for `max_lag` if that is longer: without the bucket there is no proof."""


class _Request(NamedTuple):
    position: int
    deadline: float
    done: Done


class BucketCommitter:
    """A `Committer` over a journal, for one term of an owner; all of it on the loop's thread.

    `proved_at`: gives the loop's time of the last proof that this server is the owner; None: it needs none.
    `reached` and `fail` are for who puts the objects. Who waits is told in the order of the requests: by
    `reached`, which no service calls; else in the loop's next round. In a turn all are told at its end.
    """

    syncs: Final = False
    marks: Final = None

    def __init__(
        self,
        journal: Journal,
        *,
        timeout_s: float = COMMIT_TIMEOUT_S,
        proved_at: Callable[[], float] | None = None,
    ) -> None:
        self._journal: Final = journal
        self._timeout: Final = timeout_s
        self._proved_at: Final = proved_at
        self._loop: Final = asyncio.get_running_loop()
        self._durable = 0
        """The position up to which the bucket has everything."""
        self._waiting: deque[_Request] = deque()
        self._finished: deque[tuple[Done, StorageError | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Handle | None = None
        self._in_turn = False
        self._failure: str | None = None
        self._stopped = False

    def request(self, log: Syncable, done: Done) -> None:
        """Call `done` when the bucket has everything that was recorded by now, or with a StorageError when it
        has not within the timeout, or never will.

        Raises: LogClosed after `stop`.
        """
        del log
        if self._stopped:
            raise LogClosed("the committer is stopped")
        position = self._journal.position
        if self._failure is not None:
            self._finish(done, StorageError(self._failure))
        elif position <= self._durable:
            self._finish(done, None)
        else:
            self._waiting.append(_Request(position, self._loop.time() + self._timeout, done))
            if self._timer is None:
                self._timer = self._loop.call_at(self._next_end(), self._give_up)

    def begin_turn(self) -> None:
        self._in_turn = True

    def end_turn(self, *, is_last: bool) -> None:
        del is_last
        self._in_turn = False
        if self._finished:
            self._tell()

    def reached(self, position: int) -> None:
        """Note that the bucket has everything up to a position."""
        self._durable = max(self._durable, position)
        waiting = self._waiting
        if self._in_turn or self._finished:
            while waiting and waiting[0].position <= position:
                self._finish(waiting.popleft().done, None)
            return
        while waiting and waiting[0].position <= position:
            done = waiting.popleft().done
            try:
                done(None)
            except Exception as error:  # noqa: BLE001 -- the others are told all the same, and more is put
                self._loop.call_exception_handler({"message": "who waited failed", "exception": error})

    def fail(self, reason: str) -> None:
        """Tell everybody who waits, and who asks later, that nothing more is committed."""
        self._failure = reason
        self._fail_all(StorageError(reason))

    def stop(self) -> None:
        """Tell everybody who waits that the bucket has not confirmed it. Safe to call twice."""
        self._stopped = True
        self._fail_all(StorageError("the server ends, and the bucket has not confirmed this yet"))
        self._tell()

    def _fail_all(self, error: StorageError) -> None:
        while self._waiting:
            self._finish(self._waiting.popleft().done, error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        """Tell those whose time is over; look again when the next one's is."""
        self._timer = None
        waiting, now = self._waiting, self._loop.time()
        if self._proved_until() <= now:
            self._fail_all(StorageError("the bucket does not answer, and has not confirmed this"))
        while waiting and waiting[0].deadline <= now:
            late = StorageError(f"the bucket has not confirmed this within {self._timeout:g} s")
            self._finish(waiting.popleft().done, late)
        if waiting:
            self._timer = self._loop.call_at(self._next_end(), self._give_up)

    def _next_end(self) -> float:
        """Return the loop's time at which somebody who waits now may have waited for too long."""
        return min(self._waiting[0].deadline, self._proved_until())

    def _proved_until(self) -> float:
        return float("inf") if self._proved_at is None else self._proved_at() + PROVEN_S

    def _finish(self, done: Done, error: StorageError | None) -> None:
        self._finished.append((done, error))
        if not self._in_turn and self._telling is None:
            self._telling = self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        while self._finished:
            done, error = self._finished.popleft()
            try:
                done(error)
            except BaseException:  # the loop reports it; the others are told all the same
                if self._finished:
                    self._telling = self._loop.call_soon(self._tell)
                raise
