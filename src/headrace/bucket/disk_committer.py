"""The committer of a shard with `commit: disk`: durable means that this machine's disk has it.

Here lives who is told by which sync: all that was recorded, of all logs, is in the one backlog, so each
request waits for a sync of that; and when changes are written for which nobody asks for a sync. Never here:
what is synced (`backlog`), when (`headrace.log.committer`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.bucket.backlog import BucketBacklog
    from headrace.errors import StorageError
    from headrace.log.committer import Committer
    from headrace.log.port import Done, Syncable


class DiskCommitter:
    """A `Committer` over a backlog, for one term of an owner; all of it on the loop's thread.

    `syncs`: syncs the backlog, each time for all who asked meanwhile; it is this committer's to stop.
    """

    syncs: Final = False
    marks: Final = None

    def __init__(self, backlog: BucketBacklog, syncs: Committer) -> None:
        self.in_turn = False
        """True until the end of a turn, when changes are written for which nobody has asked for a sync."""
        self._backlog: Final = backlog
        self._syncs: Final = syncs
        self._is_stopped = False

    def request(self, log: Syncable, done: Done) -> None:
        """Call `done` when all that was recorded by now is on disk, or with a StorageError.

        Raises: LogClosed after `stop`.
        """
        del log
        self._request(done)

    def _request(self, done: Done) -> None:
        self._backlog.asked = self._backlog.journal.position  # before: others may record while it begins
        self._syncs.request(self._backlog, done)

    async def flush(self) -> None:
        """Wait until all that was recorded is on disk. Raises: StorageError."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: StorageError | None) -> None:
            if waiting.done():  # who waited has gone
                return
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)

        self._request(done)
        await waiting

    def probe(self) -> None:
        """Have what was recorded synced although nobody waits for it."""
        self._request(lambda _: None)

    def begin_turn(self) -> None:
        self.in_turn = True
        self._syncs.begin_turn()

    def end_turn(self, *, is_last: bool) -> None:
        self.in_turn = False
        self._syncs.end_turn(is_last=is_last)
        if self._backlog.has_unasked:
            self.write()

    def write(self) -> None:
        """Write what was recorded, so that a killed process loses nothing of it; have much of it synced."""
        if not self._is_stopped and not self._backlog.write():
            self.probe()

    def fail(self, reason: str) -> None:
        """Tell everybody who waits, and who asks later, that nothing more is committed."""
        self._backlog.end(reason)

    def stop(self) -> None:
        """Sync what was asked for, and tell everybody. Safe to call twice."""
        self._is_stopped = True
        self._syncs.stop()
