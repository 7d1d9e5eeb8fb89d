"""Servers with `commit: disk`, in virtual time: acknowledged is on the owner's disk, the bucket follows."""

from __future__ import annotations

import asyncio
import logging
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from harness.memory_objects import FAILS, HANGS, PROMPT, Fate, MemoryObjects
from harness.process_files import ProcessFiles
from harness.virtual_loop import VirtualLoop
from headrace.bucket.errors import BucketError, DamagedObject
from headrace.bucket.keys import ShardKeys
from headrace.bucket.place import ShardPlace
from headrace.bucket.request_counts import RequestCounts
from headrace.bucket.shard import RELEASE_S, Role, Shard
from headrace.conf.bucket_options import BucketOptions
from headrace.errors import HeadraceError, StorageError
from headrace.log.committer import InlineCommitter
from headrace.log.filesystem import FileMode, read_file
from headrace.log.port import NewMessage, SyncPolicy
from headrace.log.store import FileStore
from headrace.testing.faultfs import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from harness.memory_objects import Request
    from headrace.bucket.port import Beat
    from headrace.log.committer import Committer
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import MessageLog

STORE = Path("/store")
MAX_LAG_S = 10.0


class NoReads:
    """The bucket for threads, where nothing is to be read."""

    location = "memory"

    def get_range(self, key: str, start: int, end: int) -> bytes:
        raise AssertionError(f"{key} was read from {start} to {end}")


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


class Machine:
    """A disk, and the server that runs on it; `reach` says what becomes of its requests to the bucket."""

    def __init__(self, name: str, objects: dict[str, Any], commit: str = "disk") -> None:
        self.name = name
        self.files = MemoryFileSystem()
        self.objects = objects
        self.options = BucketOptions(url="memory", commit=commit, max_lag=MAX_LAG_S)  # type: ignore[arg-type]
        self.reach: Callable[[Request], Fate] = lambda _: PROMPT
        self.random = Random(name)
        self.log: MessageLog | None = None
        self.reasons: list[str | None] = []
        self.start()

    def start(self) -> None:
        """Make a new process of the server."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.process = loop.process(self.name)
        self.process.call(self._make_shard)

    def _make_shard(self) -> None:
        self.log = None
        self.owns = asyncio.Event()
        self._seen = ProcessFiles(self.files, self.process)
        place = ShardPlace(
            ShardKeys("jetstream"),
            MemoryObjects(self._fate, self.objects),
            NoReads(),  # type: ignore[arg-type]  # whole files are all here
            STORE,
            self._seen,
            self.name,
            "",
            self.options,
            lambda: round(asyncio.get_running_loop().time() * 1e9),
            self.random,
            RequestCounts(0.0),
            at_once,
            InlineCommitter,
        )
        self.shard = Shard(place, self, logging.getLogger(self.name), is_alone=True)

    def _fate(self, request: Request) -> Fate:
        return self.reach(request)

    async def begin(self) -> None:
        """Have the shard stand by. Raises: HeadraceError."""
        await self.process.run(self.shard.start())

    async def stop(self) -> None:
        """End in order."""
        await self.process.run(self.shard.stop())

    async def serving(self) -> None:
        """Begin, and wait until this server owns the shard."""
        await self.begin()
        async with asyncio.timeout(60.0):
            await self.owns.wait()

    def kill(self) -> None:
        """Have the process end at once; what it had written stays."""
        self.process.kill()
        self.files.kill()

    def lose_power(self, seed: int) -> None:
        """Have the process end at once, and lose of what it had not synced what chance says."""
        self.process.kill()
        self.files.crash(Random(seed))

    async def promoted(self, files: FileSystem, committer: Committer) -> None:
        self._store = FileStore(STORE, filesystem=files, sync=SyncPolicy.NEVER)
        self._committer = committer
        self.log = self._store.open(b"log")
        self.owns.set()

    async def demoted(self, reason: str | None) -> None:
        self.reasons.append(reason)
        self.log = None
        if reason is None:
            self._store.close()

    def tell(self, beat: Beat) -> None:
        """Nobody hears it."""

    def tell_object(self, server_id: str, sealed: bytes) -> bool:
        """Nobody hears it."""
        return False

    def publish(self, text: bytes) -> int:
        """Append; return the sequence, which is acknowledged. Raises: StorageError."""
        return self.process.call(self._publish, text)

    def _publish(self, text: bytes) -> int:
        assert self.log is not None
        sequence = self.log.append([NewMessage(b"s", text)])
        told: list[StorageError | None] = []
        self._committer.request(self.log, told.append)
        assert told, "the disk is at hand"
        if told[0] is not None:
            raise told[0]
        return sequence

    def texts(self) -> list[bytes]:
        assert self.log is not None
        return [message.payload for message in self.log.read_from(1, max_messages=10_000).messages]


class TickingLoop(VirtualLoop):
    """A loop with ticks, as that of a server has: `ends` is what the tick that runs is to call at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[Callable[[], object]] | None = None

    def call_at_end_of_tick(self, callback: Callable[[], object]) -> None:
        if self.ends is None:
            self.call_soon(callback)
        else:
            self.ends.append(callback)


def run(main: Coroutine[Any, Any, None], loop: VirtualLoop | None = None) -> None:
    """Run it on a loop of its own; tasks of killed processes never end, and are thrown away."""
    loop = loop or VirtualLoop()
    loop.run(main)
    assert not loop.mistakes, loop.mistakes


def numbered(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def after(seconds: float) -> Callable[[Request], Fate]:
    """The bucket cannot be reached from a time of the loop on."""
    return lambda request: FAILS if request.at >= seconds else PROMPT


def away(_: Request) -> Fate:
    return FAILS


def test_acknowledged_is_on_the_disk_and_the_bucket_follows() -> None:
    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        for number in range(10):
            machine.publish(b"%d" % number)
        assert machine.shard.status().lag_bytes > 0
        assert machine.shard.status().lag_s < 0.1
        await asyncio.sleep(1.0)
        assert machine.shard.status().lag_bytes == 0

        other = Machine("b", machine.objects)
        machine.kill()
        await other.serving()
        assert other.texts() == numbered(*range(10))

    run(main())


@pytest.mark.parametrize("how", ["killed", "power"])
@pytest.mark.parametrize("seed", range(8))
def test_a_server_alone_loses_nothing_whatever_the_bucket_has(how: str, seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        machine = Machine("a", {})
        published: list[bytes] = []
        for life in range(6):
            await machine.serving()
            assert machine.texts() == published
            now = asyncio.get_running_loop().time()
            if random.random() < 0.7:
                machine.reach = after(now + random.uniform(0, 2))
            for number in range(random.randrange(1, 30)):
                published.append(b"%d %d" % (life, number))
                machine.publish(published[-1])
                await asyncio.sleep(random.choice([0, 0.01, 0.3]))
            if how == "killed":
                machine.kill()
            else:
                machine.lose_power(random.randrange(1000))
            machine.reach = lambda _: PROMPT
            machine.start()
        await machine.serving()
        assert machine.texts() == published

    run(main())


@pytest.mark.parametrize("calls", range(1, 40))
def test_a_start_that_dies_at_any_request_loses_nothing(calls: int) -> None:
    """The process ends in the midst of its claim, with its fence or without."""

    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        machine.publish(b"1")
        await asyncio.sleep(1.0)
        machine.reach = away
        machine.publish(b"2")
        machine.kill()

        asked = 0

        def reach(_: Request) -> Fate:
            nonlocal asked
            asked += 1
            return PROMPT if asked <= calls else HANGS

        machine.reach = reach
        machine.start()
        starting = asyncio.get_running_loop().create_task(machine.serving())
        await asyncio.sleep(3.0)
        starting.cancel()
        machine.lose_power(calls)
        machine.reach = lambda _: PROMPT
        machine.start()
        await machine.serving()
        assert machine.texts() == numbered(1, 2)

    run(main())


def test_another_server_came_between_and_what_it_lacks_is_set_aside(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        machine.publish(b"1")
        await asyncio.sleep(1.0)
        machine.reach = away
        machine.publish(b"2")
        machine.kill()
        other = Machine("b", machine.objects)
        await other.serving()
        other.publish(b"3")
        await other.stop()
        assert "bytes in 1 commits" not in caplog.text

        machine.reach = lambda _: PROMPT
        machine.start()
        await machine.serving()
        assert machine.texts() == numbered(1, 3)
        (folder,) = [name for name in machine.files.listdir(STORE / ".bucket") if "lost" in name]
        assert folder == "backlog.lost-2"
        (line,) = [record for record in caplog.records if "are lost to it" in record.message]
        assert line.levelname == "ERROR"
        assert "at most" in line.message
        assert "bytes in 1 commits" in line.message
        machine.publish(b"4")
        machine.kill()
        machine.start()
        await machine.serving()
        assert machine.texts() == numbered(1, 3, 4)

    with caplog.at_level(logging.INFO):
        run(main())


def test_an_owner_that_lost_the_shard_while_it_ran_sets_its_backlog_aside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        machine.publish(b"1")
        await asyncio.sleep(1.0)
        machine.reach = away
        machine.publish(b"2")
        other = Machine("b", machine.objects)
        await other.serving()
        assert other.texts() == numbered(1)
        machine.reach = lambda _: PROMPT
        await asyncio.sleep(5.0)
        assert machine.log is None
        assert "are lost to it" in caplog.text
        assert machine.shard.role is Role.STANDBY

    run(main())


def test_publications_are_refused_once_the_bucket_is_too_far_behind() -> None:
    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        machine.publish(b"1")
        await asyncio.sleep(1.0)
        machine.reach = away
        machine.publish(b"2")
        await asyncio.sleep(MAX_LAG_S - 1.5)
        machine.publish(b"3")
        await asyncio.sleep(3.0)
        with pytest.raises(
            StorageError, match=r"the bucket is 1\d\.\d s behind .* max_lag is 10 s: .*failed"
        ):
            machine.publish(b"4")
        assert machine.shard.status().lag_s > MAX_LAG_S
        machine.reach = lambda _: PROMPT
        await asyncio.sleep(5.0)
        machine.publish(b"5")
        assert machine.texts() == numbered(1, 2, 3, 5)

    run(main())


def test_an_end_in_order_leaves_no_backlog_and_one_without_the_bucket_keeps_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        machine.publish(b"1")
        await machine.stop()
        assert machine.files.listdir(STORE / ".bucket" / "backlog") == []
        assert machine.files.open_handles == 0

        machine.start()
        await machine.serving()
        assert machine.texts() == numbered(1)
        machine.reach = away
        machine.publish(b"2")
        began = asyncio.get_running_loop().time()
        await machine.stop()
        assert asyncio.get_running_loop().time() - began < RELEASE_S + 1
        assert "wait on this disk for the next start" in caplog.text

        machine.reach = lambda _: PROMPT
        machine.start()
        await machine.serving()
        assert machine.texts() == numbered(1, 2)

    run(main())


def test_another_promise_does_not_pass_a_backlog_over() -> None:
    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        await asyncio.sleep(1.0)
        machine.reach = away
        machine.publish(b"1")
        machine.kill()
        machine.reach = lambda _: PROMPT
        machine.options = BucketOptions(url="memory", commit="bucket")
        machine.start()
        with pytest.raises(BucketError, match="start with commit: disk once more"):
            await machine.begin()

        machine.options = BucketOptions(url="memory", commit="disk")
        machine.start()
        await machine.serving()
        await machine.stop()
        machine.options = BucketOptions(url="memory", commit="bucket")
        machine.start()
        await machine.serving()
        assert machine.texts() == numbered(1)

    run(main())


def test_a_damaged_backlog_ends_the_start() -> None:
    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        await asyncio.sleep(1.0)
        machine.reach = away
        for number in range(5):
            machine.publish(b"%d" % number)
        machine.kill()
        folder = STORE / ".bucket" / "backlog"
        (name,) = machine.files.listdir(folder)
        data = read_file(machine.files, folder / name)
        handle = machine.files.open(folder / name, FileMode.UPDATE)
        at = data.rindex(b"HRbr", 0, data.rindex(b"HRbr"))
        machine.files.pwrite(handle, b"\0", at)
        machine.files.close(handle)
        machine.reach = lambda _: PROMPT
        machine.start()
        with pytest.raises(DamagedObject, match="were acknowledged and are damaged"):
            await machine.begin()

    run(main())


def test_a_disk_that_fails_refuses_until_it_does_not() -> None:
    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        machine.publish(b"1")
        machine.files.capacity = machine.files.used() + 10
        with pytest.raises(StorageError, match="No space left on device"):
            machine.publish(b"2" * 1000)
        machine.files.capacity = None
        await asyncio.sleep(2.0)
        machine.publish(b"3")
        machine.lose_power(1)
        machine.start()
        await machine.serving()
        assert [text[:1] for text in machine.texts()] == numbered(1, 3)

    run(main())


@pytest.mark.parametrize("in_tick", [True, False])
def test_changes_that_nobody_waits_for_outlive_a_kill_behind_their_tick(*, in_tick: bool) -> None:
    loop = TickingLoop()

    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        machine.reach = away
        assert machine.log is not None
        machine.publish(b"0")
        await asyncio.sleep(1)
        loop.ends = ends = [] if in_tick else None
        machine.process.call(machine.log.append, [NewMessage(b"s", b"1")])
        if ends is None:
            await asyncio.sleep(0)
        else:
            loop.ends = None
            machine.process.call(ends.pop())
            assert not ends, "it is written once"
        machine.kill()
        machine.reach = lambda _: PROMPT
        machine.start()
        await machine.serving()
        assert machine.texts() == numbered(0, 1)

    run(main(), loop)


@pytest.mark.parametrize("call", range(1, 13))
def test_a_disk_that_fails_once_at_a_start_keeps_nobody_from_serving_for_long(call: int) -> None:
    async def main() -> None:
        machine = Machine("a", {})
        seen = machine._seen
        seen.only, seen.fail_at = frozenset({"mkdir", "pwrite", "truncate", "fsync", "fsync_dir"}), call
        try:
            await machine.begin()
        except HeadraceError:
            machine.kill()
            machine.start()
            await machine.begin()
        async with asyncio.timeout(60.0):
            await machine.owns.wait()
        machine.publish(b"0")
        assert machine.texts() == numbered(0)

    run(main())


def test_a_restart_does_not_begin_the_lag_anew() -> None:
    """Else each restart would let a lost machine take `max_lag` once more."""

    async def main() -> None:
        machine = Machine("a", {})
        await machine.serving()
        await asyncio.sleep(1)
        machine.reach = away
        machine.publish(b"0")
        await asyncio.sleep(7)
        machine.publish(b"1")
        machine.kill()
        await asyncio.sleep(100)
        claimed = set(islice(count(1 + max(int(key[-20:]) for key in machine.objects if "/wal/" in key)), 16))
        machine.reach = lambda request: (
            FAILS if request.operation == "create" and int(request.key[-20:]) not in claimed else PROMPT
        )
        machine.start()
        await machine.serving()
        assert 7.0 <= machine.shard.status().lag_s < 8.0, "the time of nobody is nobody's"
        machine.publish(b"2")
        await asyncio.sleep(MAX_LAG_S - 7.0 + 1.1)
        with pytest.raises(StorageError, match="behind what was acknowledged"):
            machine.publish(b"3")
        machine.reach = lambda _: PROMPT
        for _ in range(5000):
            if not machine.shard.status().lag_bytes:
                break
            await asyncio.sleep(0.001)
        machine.publish(b"4")  # at once, and not with the next look at the lag
        assert machine.texts() == numbered(0, 1, 2, 4)

    run(main())
