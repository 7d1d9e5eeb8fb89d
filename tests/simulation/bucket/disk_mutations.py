"""Rules of `commit: disk` broken on purpose; the simulation has to find each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from headrace.bucket.backlog import BucketBacklog
from headrace.bucket.commits import DiskCommits
from headrace.bucket.disk_committer import DiskCommitter
from headrace.bucket.inheritance import Inheritance
from headrace.bucket.leftover import Leftover
from simulation.bucket.log_server import LogServer
from simulation.bucket.mutations import broken_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from headrace.log.port import Done


def _tell_at_once(self: DiskCommitter, done: Done) -> None:
    self._backlog.asked = self._backlog.journal.position
    self._syncs.request(self._backlog, lambda _: None)
    done(None)


async def _nothing(*_args: Any) -> None:
    return None


_REACHED: Final = BucketBacklog.reached

DISK_MUTATIONS: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    "an acknowledgement does not wait for the sync of the backlog": broken_by(
        mock.patch.object(DiskCommitter, "_request", _tell_at_once)
    ),
    "a start does not look at the backlog": broken_by(mock.patch.object(Inheritance, "read", _nothing)),
    "a backlog goes on although another server has claimed since": broken_by(
        mock.patch.object(Inheritance, "_judge", _nothing),
        mock.patch.object(Leftover, "is_of", return_value=True),
    ),
    "a claim is not written down before its fence": broken_by(
        mock.patch.object(Inheritance, "announce", _nothing)
    ),
    "publications go on however far the bucket is behind": broken_by(
        mock.patch.object(DiskCommits, "_too_late", return_value=None),
        mock.patch.object(LogServer, "is_proven", True),  # else a server that is cut off is silent by then
    ),
    "a segment is removed before the bucket has it": broken_by(
        mock.patch.object(BucketBacklog, "reached", lambda self, _: _REACHED(self, self.journal.position))
    ),
}
"""What is broken while the context is entered."""
