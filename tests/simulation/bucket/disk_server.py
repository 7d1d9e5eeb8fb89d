"""One server of a shard with `commit: disk`: as `log_server`, but acknowledged is on its disk, which takes
its time to sync, loses power, and is lost.
"""

from __future__ import annotations

import asyncio
import errno
import random
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from harness.process_files import ProcessFiles
from headrace.bucket.backlog import FOLDER
from headrace.bucket.cache import OWN
from headrace.bucket.inheritance import ASIDE
from headrace.bucket.shard import Role
from headrace.log.filesystem import read_file
from headrace.testing.faultfs import Fault
from simulation.bucket.log_server import DIRECTORY, LogServer
from simulation.bucket.server import PROOF_S, World
from simulation.slow_disk import SlowCommitter

if TYPE_CHECKING:
    from headrace.bucket.place import ShardPlace
    from headrace.log.committer import Committer
    from simulation.bucket.disk_ledger import DiskLedger
    from simulation.bucket.log_server import Tenure
    from simulation.bucket.records import Record


WRITES: Final = ("pwrite", "fdatasync", "fsync")


class DiskWorld(World, Protocol):
    """What a server sees of the run."""

    max_lag: float
    """Seconds that the bucket may be behind what is acknowledged."""
    promises: DiskLedger


class DiskServer(LogServer):
    """As `LogServer`, over a backlog on its disk."""

    world: DiskWorld

    def __init__(self, world: DiskWorld, name: str) -> None:
        super().__init__(world, name)
        self.speaks_s = max(PROOF_S, world.max_lag)
        self._disks = 1
        self._chance: Final = random.Random(name)
        self._epoch = 0
        self._files: ProcessFiles | None = None

    @property
    def machine(self) -> str:
        """The name of the server with the number of its disk: what is lost with a disk was of that one."""
        return f"{self.name}.{self._disks}"

    @property
    def epoch(self) -> int:
        """The epoch in which it serves, or did last."""
        return self._epoch

    def fail_disk(self) -> None:
        """Have some of the next writes and syncs of this process fail, or one of them."""
        files, chance = self._files, self.world.chance
        if files is not None:
            files.only = frozenset(chance.choice((("pwrite",), ("fdatasync", "fsync"), WRITES)))
            files.fail_at = files.calls + chance.randrange(1, 10)
            files.failures = chance.choice((1, 1, 2, 8))
            files.error = chance.choice((errno.EIO, errno.ENOSPC))
            files.fault = chance.choice(tuple(Fault))

    def lose_disk(self) -> None:
        super().lose_disk()
        self._disks += 1

    def _place(self) -> ShardPlace:
        place = super()._place()
        options = replace(place.options, commit="disk", max_lag=self.world.max_lag)
        self._files = files = ProcessFiles(self.disk, self.process)
        return replace(place, files=files, options=options, owner=self.machine, syncs=self._syncs)

    def _syncs(self) -> Committer:
        syncs = SlowCommitter(self._chance)
        syncs.later = asyncio.get_running_loop().call_later
        return syncs

    async def promoted(self, files: object, committer: object) -> None:
        assert self.shard is not None
        self._epoch = self.shard.status().epoch
        await super().promoted(files, committer)  # type: ignore[arg-type]

    @property
    def lag_bytes(self) -> int:
        """Bytes of changes that are on this disk alone."""
        return 0 if self.shard is None else self.shard.status().lag_bytes

    def set_aside(self) -> bytes:
        """Return what is in the backlogs that were set aside, and in one that is to be judged yet: a server
        that cannot begin, while a listing is old, has not read of the owners behind it.
        """
        folder = DIRECTORY / OWN
        if not self.disk.is_directory(folder):
            return b""
        begins = self.shard is not None and self.shard.role is Role.STARTING
        kept = (
            name
            for name in self.disk.listdir(folder)
            if name.startswith(FOLDER + ASIDE) or (begins and name == FOLDER)
        )
        return b"".join(
            read_file(self.disk, folder / name / segment)
            for name in kept
            for segment in self.disk.listdir(folder / name)
        )

    def _added(self, term: Tenure, record: Record) -> None:
        super()._added(term, record)
        position = term.committer._backlog.journal.position  # type: ignore[attr-defined]
        self.world.promises.stored(self.machine, self._epoch, record, position)

    def _confirmed(self, term: Tenure, last: int) -> None:
        first = term.durable + 1
        super()._confirmed(term, last)
        for record in term.records.all[first - 1 : last]:
            self.world.promises.promise(self._epoch, record)
