"""Logs whose files are in the bucket alone: opened, read, written to, with a cache that is too small."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest
from shard_model import KEYS, Reads, at_once, inline

from harness.memory_objects import MemoryObjects
from harness.virtual_loop import run
from headrace.bucket.cache import LocalCache
from headrace.bucket.capture import CapturingFileSystem
from headrace.bucket.journal import Journal
from headrace.bucket.snapshots import Snapshotter, Term
from headrace.bucket.tree import Tree
from headrace.log.file import FileLog
from headrace.log.filesystem import RealFileSystem, make_directory
from headrace.log.port import NewMessage, SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.bucket.manifest import Manifest

SEGMENT = 3 << 20


class Server:
    """A server's files: of an empty shard, or of one that begins with a snapshot."""

    def __init__(
        self, directory: Path, store: MemoryObjects, manifest: Manifest | None = None, room: int | None = None
    ) -> None:
        self.directory = directory
        self.tree = manifest.tree() if manifest is not None else Tree()
        self.store = store
        self.journal = Journal()
        self.reads = Reads(store)
        files = RealFileSystem()
        self.cache = LocalCache(
            files, directory, self.reads, KEYS, self.tree, cache_bytes=room, offload=inline
        )
        self.cache.changes = self.journal.lock
        run(self.cache.begin())
        self.files = CapturingFileSystem(files, directory, self.tree, self.journal, self.cache)
        self.snapshotter = Snapshotter(
            store,
            KEYS,
            Term(KEYS.shard, 1, directory.name.encode().ljust(16)),
            tree=self.tree,
            recorder=self.journal,
            files=files,
            directory=directory,
            fences=(),
            wall_ns=lambda: 1,
            admit=at_once,
            offload=inline,
        )
        self._number = 0 if manifest is None else manifest.settled

    def log(self) -> FileLog:
        make_directory(self.files, self.directory / "logs")
        return FileLog(
            self.directory / "logs/a", filesystem=self.files, segment_bytes=SEGMENT, sync=SyncPolicy.NEVER
        )

    def snapshot(self, between: Callable[[], object] = lambda: None) -> Manifest:
        """Take a snapshot; every 10 ms what is recorded is committed."""

        async def main() -> Manifest:
            taking = asyncio.create_task(self.snapshotter.take())
            while not taking.done():
                await asyncio.sleep(0.01)
                between()
                while (taken := self.journal.take(1 << 30)) is not None:
                    self._number += 1
                    self.snapshotter.committed(taken.position, self._number, len(b"".join(taken.parts)))
            return taking.result()

        return run(main())


def payload(number: int) -> bytes:
    return Random(number).randbytes(20_000)


def fill(log: FileLog, first: int, last: int) -> None:
    for number in range(first, last + 1):
        assert log.append([NewMessage(b"a.%d" % (number % 5), payload(number))]) == number


def check(log: FileLog, last: int) -> None:
    for number in range(1, last + 1):
        found = log.read(number)
        assert found is not None
        assert found.payload == payload(number)


@pytest.mark.parametrize("room", [None, 1, 5_000_000])
def test_a_cold_log_is_the_log_that_it_was(tmp_path: Path, room: int | None) -> None:
    store = MemoryObjects()
    warm = Server(tmp_path / "warm", store)
    log = warm.log()
    fill(log, 1, 500)
    first = warm.snapshot()
    fill(log, 501, 700)
    log.close()
    second = warm.snapshot()
    assert second.objects().keys() & first.objects().keys(), "what did not change is not stored again"
    cold = Server(tmp_path / "cold", store, second, room)
    log = cold.log()
    assert log.state().last_sequence == 700
    middle = cold.tree.file_at(f"logs/a/{313:020}.log")
    assert middle is not None
    assert not cold.cache.is_whole(middle.id), "only heads, the first messages and the tail are brought"
    check(log, 700)
    fill(log, 701, 900)
    cold.cache.make_room()
    check(log, 900)
    third = cold.snapshot(cold.cache.make_room)
    cold.cache.make_room()
    check(log, 900)
    log.close()
    again = Server(tmp_path / "again", store, third)
    log = again.log()
    check(log, 900)
    log.close()
    for server in (warm, cold, again):
        server.cache.close()
