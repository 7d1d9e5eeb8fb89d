"""The inheritance of an owner: the backlog that an earlier one on this machine left, and what becomes of it.

Here lives the decision, and the way on. If that owner's claim is the last one in the bucket, its backlog
goes on behind what the bucket has, and the next owner on this machine inherits it: nothing acknowledged is
lost. If another server has claimed since, the bucket has another future, and the backlog is set aside. Never
here: the files (`leftover`), the term that follows (`owner_term`).

A claim is written into the backlog before it is made in the bucket, with the epoch that it has if nobody else
comes between. So a server that dies in the middle of it knows its own fence again.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.bucket.backlog import FOLDER, BucketBacklog, read_back
from headrace.bucket.backlog_format import SegmentHead, url_digest
from headrace.bucket.cache import OWN
from headrace.bucket.errors import BucketError, CacheFailed
from headrace.bucket.journal import Journal
from headrace.bucket.leftover import Leftover, read_leftover

if TYPE_CHECKING:
    import logging
    from pathlib import Path

    from headrace.bucket.backlog import BacklogRecord
    from headrace.bucket.claim import Claim
    from headrace.bucket.follower import Point
    from headrace.bucket.place import ShardPlace
    from headrace.bucket.replica import Replica

ASIDE: Final = ".lost-"
"""Stands between the name of a backlog that was set aside and the epoch of who came between."""
MOST_PACE_S: Final = 0.5
"""Seconds that changes wait for others at most before they are put."""
PACES: Final = 20
"""Such waits in `max_lag`."""


class Inheritance:
    """The backlog on this machine of one shard, as it was when the server had begun to stand by."""

    def __init__(self, place: ShardPlace, log: logging.Logger) -> None:
        self._place: Final = place
        self._log: Final = log
        self._folder: Final = place.directory / OWN / FOLDER
        self._url: Final = url_digest(place.options.url)
        self._left = Leftover(self._folder)
        self._has_named = False
        """True once backlogs that were set aside have been named in the log."""

    @property
    def is_late(self) -> bool:
        """True if owners acknowledge before the bucket has it."""
        return self._place.options.commit == "disk"

    async def read(self) -> None:
        """Read what is on the disk now, and believe it from now on. Raises: BucketError."""
        place = self._place
        self._left = await place.offload(
            lambda: read_leftover(place.files, self._folder, place.keys.shard, self._url)
        )

    async def name_lost(self) -> None:
        """Name the backlogs that were set aside in the log, once. Raises: CacheFailed."""
        if self._has_named:
            return
        try:
            found = await self._place.offload(self._set_aside_before)
        except OSError as error:
            raise CacheFailed(f"{self._folder.parent}: {error.strerror or error}") from error
        self._has_named = True
        if found:
            self._log.warning(
                "Shard %s: another server took over without these acknowledged changes, kept in %s; "
                "no program reads them: remove the folders when nobody needs them",
                self._place.keys.shard,
                ", ".join(map(str, found)),
            )

    def _set_aside_before(self) -> list[Path]:
        """Return the folders of backlogs that were set aside. Raises: OSError."""
        files, parent = self._place.files, self._folder.parent
        if not files.is_directory(parent):
            return []
        return [
            parent / name for name in sorted(files.listdir(parent)) if name.startswith(f"{FOLDER}{ASIDE}")
        ]

    async def judge(self, replica: Replica) -> None:
        """Set the backlog aside if another owner came since, as far as was read. Raises: CacheFailed."""
        await self._judge(replica, replica.point)

    def check(self, replica: Replica) -> list[BacklogRecord]:
        """Return what there is to inherit. Raises: BucketError if it is damaged, or cannot be inherited."""
        if not self._left.is_of(replica.point.epoch, replica.point.writer):
            return []
        found = self._left.behind(replica.position)
        if found and not self.is_late:
            raise BucketError(
                f"{self._folder} has changes that were acknowledged with commit: disk, and are not in the "
                "bucket yet: start with commit: disk once more"
            )
        return found

    async def announce(self, replica: Replica, writer: bytes) -> None:
        """Write down a claim that is about to be made, where there is a backlog. Raises: BucketError."""
        if not self._left.segments:
            return
        found = self.check(replica)
        backlog = self._backlog(replica.point.epoch + 1, writer, replica, found, keeps=False)
        try:
            await self._place.offload(backlog.begin)
        finally:
            backlog.close()
        await self.read()

    async def resume(self, replica: Replica, claim: Claim) -> BucketBacklog | None:
        """Return the backlog of a term that begins; what it inherits is made in the files of the replica.

        None with `commit: bucket`. Raises: BucketError.
        """
        await self._judge(replica, replica.predecessor)
        if not self.is_late:
            return None
        place, found = self._place, self._left.behind(replica.position)
        backlog = self._backlog(claim.epoch, claim.writer, replica, found)
        try:
            for record in found:
                replica.replay(await place.offload(partial(read_back, place.files, record)))
            await place.offload(backlog.begin)
        except BaseException:
            backlog.close()
            raise
        if found:
            size, shard = sum(record.size for record in found), place.keys.shard
            self._log.info("Shard %s: %d bytes of changes were on this disk alone", shard, size)
        return backlog

    def _backlog(
        self, epoch: int, writer: bytes, replica: Replica, found: list[BacklogRecord], *, keeps: bool = True
    ) -> BucketBacklog:
        """Make the backlog of a claim, behind records that were found. `keeps`: it gets these, too."""
        place, left, loop = self._place, self._left, asyncio.get_running_loop()
        end = found[-1].end if found else replica.position
        _wait_on(found, loop.time())
        return BucketBacklog(
            place.files,
            self._folder,
            SegmentHead(place.keys.shard, self._url, left.last_number, epoch, writer, end),
            Journal(position=end, lock=replica.cache.changes),
            found=found if keeps else (),
            segments=left.segments if keeps else (),
            pace_s=min(place.options.max_lag / PACES, MOST_PACE_S),
            clock=loop.time,
            wall_ns=place.wall_ns,
        )

    async def _judge(self, replica: Replica, last: Point) -> None:
        """Set the backlog aside if the last claim is somebody else's, and later than its beginning."""
        left = self._left
        if not left.heads or last.epoch < left.first_epoch or left.is_of(last.epoch, last.writer):
            return
        known = max((replica.covered.get(writer, 0) for writer in left.writers), default=0)
        lost = left.lost_behind(known)
        try:
            aside = await self._place.offload(partial(self._set_aside, last.epoch))
        except OSError as error:
            raise CacheFailed(f"{self._folder}: {error.strerror or error}") from error
        self._left = Leftover(self._folder)
        shard = self._place.keys.shard
        if not lost.groups:
            self._log.info("Shard %s: another server took it over, with all that was here", shard)
            return
        self._log.error(
            "Shard %s: another server took it over (epoch %d) before the bucket had all that was "
            "acknowledged here: at most %d bytes in %d commits, of %s to %s, are lost to it, and kept in %s",
            shard,
            last.epoch,
            lost.bytes,
            lost.groups,
            _shown(lost.first_ns),
            _shown(lost.last_ns),
            aside,
        )

    def _set_aside(self, epoch: int) -> Path:
        """Rename the folder, durably; return its new path. Raises: OSError."""
        files, parent = self._place.files, self._folder.parent
        taken = set(files.listdir(parent))
        name = f"{FOLDER}{ASIDE}{epoch}"
        while name in taken:
            name += "+"
        files.rename(self._folder, parent / name)
        files.fsync_dir(parent)
        return parent / name


def _wait_on(found: list[BacklogRecord], now: float) -> None:
    """Have the records of an earlier owner go on to wait where it ended: what it may be behind is used up.

    Times between two of them count, by the clock of that owner; one that was set back counts as none.
    """
    waited_ns = 0
    later_ns = found[-1].time_ns if found else 0
    for record in reversed(found):
        waited_ns += max(later_ns - record.time_ns, 0)
        later_ns = record.time_ns
        record.since = now - waited_ns / 1e9


def _shown(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds")
