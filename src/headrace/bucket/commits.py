"""The two promises of an owner: acknowledged is in the bucket, or it is on this machine's disk.

Here live the journal and the committer of a term for either of them, and when publications are refused. Never
here: who puts objects (`writer`), what else a term does (`owner_term`).
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final, Protocol

from headrace.bucket.committer import COMMIT_TIMEOUT_S, BucketCommitter
from headrace.bucket.disk_committer import DiskCommitter
from headrace.bucket.journal import Journal
from headrace.errors import StorageError

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from headrace.bucket.backlog import BucketBacklog
    from headrace.bucket.place import ShardPlace
    from headrace.bucket.writer import ChangeSource, WalWriter
    from headrace.log.committer import Committer

LOOKS: Final = 10
"""Looks at the lag in the time of `max_lag`."""
LONGEST_LOOK_S: Final = 1.0


class Commits(Protocol):
    """The way of one term from a change that was made to whoever waits for it."""

    @property
    def journal(self) -> Journal: ...
    @property
    def committer(self) -> Committer: ...
    @property
    def source(self) -> ChangeSource:
        """The source of the bucket's writer."""

    @property
    def covered(self) -> int | None:
        """The position that the bucket has at the beginning, if its objects are to say it."""

    @property
    def last_refusal(self) -> str:
        """Why publications were refused last; "": none were."""

    def start(self, writer: WalWriter) -> None:
        """Begin: `writer` takes from the source."""

    def reached(self, position: int) -> None:
        """Note that the bucket has everything up to a position."""

    def fail(self, reason: str) -> None:
        """Tell everybody that nothing more is committed."""

    def note_trouble(self, reason: str | None) -> None:
        """Note why the bucket cannot be used now; None: it can."""

    def lag(self) -> tuple[float, int]:
        """Return how far the bucket is behind: seconds since the first change that it lacks, and bytes."""

    async def flush(self) -> None:
        """Have everything that was recorded given to the writer, as fast as it takes it."""

    async def settle(self) -> None:
        """Give up what is kept of changes: the bucket has them all."""

    def stop(self) -> None:
        """End. Who still waits is told so."""


class BucketCommits:
    """The promise of the bucket: who waits is told when it has the change."""

    covered: Final = None

    def __init__(self, shard: str, log: logging.Logger, lock: AbstractContextManager[object]) -> None:
        """`log`: of what an operator is told of the shard of this name. `lock`: of the shard's files."""
        self.journal: Final = Journal(lock=lock)
        self.source: Final = self.journal
        self.committer: Final = BucketCommitter(self.journal, proved_at=self._proved_at)
        self.last_refusal = ""
        self._shard: Final = shard
        self._log: Final = log
        self._loop: Final = asyncio.get_running_loop()
        self._writer: WalWriter | None = None
        self._refusal: asyncio.TimerHandle | None = None
        self._refused_at: float | None = None
        """The time from which on publications are refused; None: they are not."""

    def start(self, writer: WalWriter) -> None:
        self._writer = writer
        self.journal.when_first, self.journal.when_many = writer.kick, writer.look

    def reached(self, position: int) -> None:
        self.committer.reached(position)

    def fail(self, reason: str) -> None:
        self.committer.fail(reason)

    def note_trouble(self, reason: str | None) -> None:
        """Take nothing more in when the bucket has not answered for long, until it does."""
        if self._refusal is not None:
            self._refusal.cancel()
            self._refusal = None
        if reason is not None:
            self._refusal = self._loop.call_later(COMMIT_TIMEOUT_S, self._refuse, reason)
        elif self._refused_at is not None:
            seconds = self._loop.time() - self._refused_at + COMMIT_TIMEOUT_S
            self._refused_at = None
            self.journal.refuse(None)
            self._log.info("Shard %s: the bucket answers again, after %.0f s", self._shard, seconds)

    def _refuse(self, reason: str) -> None:
        self._refused_at, self.last_refusal = self._loop.time(), reason
        self.journal.refuse(reason)
        self._log.error("Shard %s: nothing is stored until the bucket answers: %s", self._shard, reason)

    def _proved_at(self) -> float:
        assert self._writer is not None, "it was started"
        return self._writer.last_proof

    def lag(self) -> tuple[float, int]:
        writer = self._writer
        assert writer is not None, "it was started"
        return writer.lag_s, self.journal.pending_bytes + writer.pending_bytes

    async def flush(self) -> None:
        """Do nothing: the writer takes from the journal."""

    async def settle(self) -> None:
        """Do nothing: no change is kept."""

    def stop(self) -> None:
        self.committer.stop()
        if self._refusal is not None:
            self._refusal.cancel()


class DiskCommits:
    """The promise of the disk: who waits is told when the backlog has the change, and the bucket follows.

    `covered`: the position that it has at the beginning. Publications are refused while it is more than
    `max_lag` behind, or while the disk fails.
    """

    def __init__(self, backlog: BucketBacklog, covered: int, place: ShardPlace) -> None:
        self.journal: Final = backlog.journal
        self.source: Final = backlog
        self.covered: Final = covered
        self.committer: Final = DiskCommitter(backlog, place.syncs())
        self._backlog: Final = backlog
        self._max_lag: Final = place.options.max_lag
        self._offload: Final = place.offload
        self._loop: Final = asyncio.get_running_loop()
        self.last_refusal = ""
        self._trouble: str | None = None
        self._due: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._removing: asyncio.Task[None] | None = None
        self._is_writing = False
        self._is_refusing = False
        self._is_stopped = False
        self._thread: Final = threading.get_ident()
        self._soon: Final[Callable[[Callable[[], object]], object]] = getattr(
            self._loop, "call_at_end_of_tick", self._loop.call_soon
        )
        """Calls a function soon: on the loop of a server without a round of it (`server.loop`)."""

    def start(self, writer: WalWriter) -> None:
        backlog = self._backlog
        backlog.kick = writer.kick
        backlog.when_due = lambda seconds: self._kick_in(seconds, writer)
        backlog.when_left = self.journal.when_first = self._note_change
        self._look()
        if backlog.waiting_bytes:
            writer.kick()

    def reached(self, position: int) -> None:
        is_removable = self._backlog.reached(position)
        if self._is_refusing:  # nobody has to wait for the next look
            self._judge()
        if is_removable and (self._removing is None or self._removing.done()):
            self._removing = self._loop.create_task(self._remove())

    def fail(self, reason: str) -> None:
        self._backlog.end(reason)

    def note_trouble(self, reason: str | None) -> None:
        self._trouble = reason

    def lag(self) -> tuple[float, int]:
        return self._backlog.lag_s, self._backlog.waiting_bytes

    async def flush(self) -> None:
        self._backlog.is_hurried = True
        try:
            await self.committer.flush()
        except StorageError as error:  # the writer takes it from memory then
            self._trouble = str(error)

    async def settle(self) -> None:
        self._is_stopped = True
        self.committer.stop()
        if self._removing is not None:
            await self._removing
        if not self._backlog.is_empty:  # notes of a snapshot that was under way
            return
        try:
            await self._offload(self._backlog.remove)
        except OSError as error:  # what stays is known to be in the bucket
            self._trouble = str(error)

    def stop(self) -> None:
        self._is_stopped = True
        self.committer.stop()
        for timer in (self._due, self._looking):
            if timer is not None:
                timer.cancel()
        self._backlog.close()

    # -- what is written, and when --------------------------------------------------------------------

    def _note_change(self) -> None:
        """Have changes written that nobody waits for. Any thread may call it.

        In a turn, or a tick of a server, its end does that, without a round of the loop: most changes have a
        sync asked for by then.
        """
        if self._is_writing:
            return
        is_here = threading.get_ident() == self._thread
        if is_here and self.committer.in_turn:
            return
        self._is_writing = True
        (self._soon if is_here else self._loop.call_soon_threadsafe)(self._write)

    def _write(self) -> None:
        self._is_writing = False
        if self._backlog.has_unasked:
            self.committer.write()

    def _kick_in(self, seconds: float, writer: WalWriter) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = self._loop.call_later(seconds, writer.kick)

    async def _remove(self) -> None:
        try:
            await self._offload(self._backlog.remove_reached)
        except OSError as error:  # the next one tries again; until then it only takes room
            self._trouble = self._trouble or str(error)

    # -- what is refused ------------------------------------------------------------------------------

    def _look(self) -> None:
        """Refuse publications while the bucket is too far behind, or the disk does not take them."""
        self._looking = self._loop.call_later(min(self._max_lag / LOOKS, LONGEST_LOOK_S), self._look)
        self._judge()

    def _judge(self) -> None:
        backlog = self._backlog
        if backlog.trouble is not None and not self._is_stopped:
            self.committer.probe()
        reason = backlog.trouble or self._too_late()
        self.last_refusal = reason or self.last_refusal
        self._is_refusing = reason is not None
        self.journal.refuse(reason)

    def _too_late(self) -> str | None:
        lag = self._backlog.lag_s
        if lag <= self._max_lag:
            return None
        why = self._trouble or "it takes less than is published"
        return (
            f"the bucket is {lag:.1f} s behind what was acknowledged, max_lag is {self._max_lag:g} s: {why}"
        )
