"""Captured files of logs that sync: syncs on threads, room that is reserved, marks."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

from harness.captured import ROOT, Owner, Standby, recorded_image, shown
from headrace.bucket.changes import Truncate, Write, decode
from headrace.log.committer import ThreadCommitter
from headrace.log.port import Limits, NewMessage, SyncPolicy
from headrace.log.store import FileStore
from headrace.testing.faultfs import image_of

if TYPE_CHECKING:
    from headrace.bucket.changes import Change
    from headrace.errors import StorageError

NAMES = [b"a", b"b", b"c"]


class Disk(Owner):
    """A store whose changes are recorded. It may be closed and opened again."""

    def open(self) -> FileStore:
        return FileStore(ROOT / "store", filesystem=self.files, segment_bytes=4096)


@pytest.mark.parametrize("seed", range(6))
def test_a_standby_of_logs_that_are_synced_on_threads_has_the_same_files(seed: int) -> None:
    random, disk, standby = Random(seed), Disk(), Standby()

    async def main() -> None:
        told: list[StorageError | None] = []
        loop = asyncio.get_running_loop()
        committer = ThreadCommitter.on(loop, SyncPolicy.GROUP, 1.0, told.append)
        store = disk.open()
        for _ in range(150):
            log = store.open(random.choice(NAMES), Limits(max_messages=40, max_messages_per_subject=9))
            subject = random.choice([b"x", b"y", b"z"])
            log.append([NewMessage(subject, random.randbytes(random.randrange(900)))])
            if random.random() < 0.2:
                log.delete(log.state().first_sequence, erase=random.random() < 0.5)
            committer.request(log, told.append)
            if random.random() < 0.3:
                await asyncio.sleep(0)
                standby.mirror.apply(disk.take())
        committer.stop()
        assert told == [None] * 150
        store.close()

    asyncio.run(main())
    disk.open().close()
    standby.mirror.apply(disk.take())

    assert image_of(standby.inner, ROOT) == recorded_image(disk.inner)
    assert shown(standby.tree) == shown(disk.tree)


def test_room_that_is_reserved_is_a_size() -> None:
    disk = Disk()
    store = disk.open()
    log = store.open(b"a")
    for _ in range(300):
        log.append([NewMessage(b"x", bytes(100))])
    changes: list[Change] = decode(disk.take())
    store.close()

    written = sum(len(change.data) for change in changes if type(change) is Write)
    assert written < 300 * 200
    assert any(type(change) is Truncate and change.size and change.size % 4096 == 0 for change in changes)


def test_a_standby_trusts_no_mark_of_another_machine() -> None:
    disk, standby = Disk(), Standby()
    store = disk.open()
    store.open(b"a").append([NewMessage(b"x", b"1")])
    store.close()
    assert ROOT / "store" / "closed" in image_of(disk.inner, ROOT)

    standby.mirror.apply(disk.take())

    assert ROOT / "store" / "closed" not in image_of(standby.inner, ROOT)
    assert image_of(standby.inner, ROOT)
