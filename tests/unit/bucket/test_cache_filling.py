"""The cache of a server that stands by, filled beforehand: order, room, budget, failures, other threads."""

from __future__ import annotations

import asyncio
import threading
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace
from shard_model import KEYS, Reads, inline
from test_cache import bucket_of
from test_first_bytes import logs

from harness import depth
from harness.virtual_loop import run
from headrace.bucket import cache_filling
from headrace.bucket.cache_filling import LEAST_FREE, ROUND_S, CacheFiller
from headrace.bucket.changes import Truncate, Unlink, Write, encode
from headrace.bucket.extents import BLOCK, MOST_AT_ONCE
from headrace.bucket.place import ShardPlace
from headrace.bucket.replica import Replica
from headrace.bucket.request_counts import RequestCounts
from headrace.bucket.snapshots import in_thread
from headrace.conf.bucket_options import BucketOptions
from headrace.log.blocking import NotHere, without_waiting
from headrace.log.filesystem import FileMode, RealFileSystem
from headrace.log.recovery import LogRecovery
from headrace.objects.errors import KeyMissing, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from harness.memory_objects import MemoryObjects
    from headrace.bucket.tree import TreeFile

MIB: Final = 1 << 20
RATE: Final = 8 * MIB


class Standby:
    """The files of a server that stands by, in an empty directory, and what fills it."""

    def __init__(
        self,
        directory: Path,
        store: MemoryObjects,
        *,
        cache_bytes: int = 0,
        rate: int = RATE,
        free: Callable[[], int] = lambda: 1 << 50,
        offload: Any = inline,
    ) -> None:
        self.directory = directory
        self.reads = Reads(store)
        self.place = ShardPlace(
            KEYS,
            store,
            self.reads,
            directory,
            RealFileSystem(),
            "b",
            "",
            BucketOptions(url="memory", cache_bytes=cache_bytes, fill_per_second=rate),
            lambda: 0,
            Random(1),
            RequestCounts(0.0),
            offload,
            free_bytes=free,
        )
        self.filler = CacheFiller(self.place)

    async def begin(self, *, tidies: bool = True) -> Replica:
        self.replica = await Replica.load(self.place)
        self.filler.start(self.replica, tidies=tidies)
        return self.replica

    def end(self) -> None:
        self.filler.stop()
        self.replica.close()

    def contents(self) -> dict[str, bytes]:
        """The files as they lie on the disk, whether or not all of them is there."""
        tree = self.replica.tree
        return {file.path: (self.directory / file.path).read_bytes() for file in tree.files.values()}

    def file(self, path: str) -> TreeFile:
        found = self.replica.tree.file_at(path)
        assert found is not None
        return found

    def read(self, path: str, size: int, offset: int) -> bytes:
        handle = self.replica.files.open(self.directory / path, FileMode.READ)
        try:
            return self.replica.files.pread(handle, size, offset)
        finally:
            self.replica.files.close(handle)


async def until(filler: CacheFiller, *states: str) -> float:
    """Return how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while filler.state not in states:
        await asyncio.sleep(0.01)
        assert loop.time() < began + 1000, (filler.state, filler.trouble)
    return loop.time() - began


def large_files(count: int, size: int) -> dict[str, bytes]:
    return {f"f{number}": Random(number).randbytes(size) for number in range(count)}


def test_everything_comes_at_the_rate_that_is_allowed(tmp_path: Path) -> None:
    files = large_files(3, 20 * MIB + 5)
    store, _ = bucket_of(tmp_path / "owner", files)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store)
        replica = await standby.begin()
        assert replica.cache.absent_bytes == sum(map(len, files.values()))
        took = await until(standby.filler, "whole")
        assert standby.contents() == files
        assert replica.cache.absent_bytes == 0
        total = sum(map(len, files.values()))
        assert standby.filler.filled_bytes == total
        assert took == pytest.approx(total / RATE, rel=0.3), "the first and the last batch are not paid for"
        assert sum(end - start for _, start, end in standby.reads.requests) == total, "no byte comes twice"
        standby.end()

    run(main())


def test_many_small_requests_have_a_budget_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files in objects of their own: bytes are few, requests are many."""
    monkeypatch.setattr("headrace.bucket.uploads.SHARED", 1)
    monkeypatch.setattr(cache_filling, "BATCH_RANGES", 10)
    store, _ = bucket_of(tmp_path / "owner", large_files(100, 100))

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, rate=1 << 40)
        await standby.begin()
        took = await until(standby.filler, "whole")
        assert len(standby.reads.requests) == 100
        assert took >= 90 / cache_filling.REQUESTS_PER_S
        standby.end()

    run(main())


def test_logs_open_without_requests_long_before_everything_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = logs(tmp_path / "logs", 3, 10_000, messages=2000, segment=4 * MIB)
    store, _ = bucket_of(tmp_path / "owner", files)
    has_first = asyncio.Event()
    newest = cache_filling.newest_first

    def noted(given: Iterable[TreeFile]) -> Iterator[tuple[TreeFile, int, int]]:
        has_first.set()
        return newest(given)

    monkeypatch.setattr(cache_filling, "newest_first", noted)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, rate=1 << 40)
        replica = await standby.begin()
        await has_first.wait()
        standby.filler.stop()
        assert replica.cache.absent_bytes > sum(map(len, files.values())) // 8, "it is a part of the whole"
        asked = len(standby.reads.requests)
        for number in range(3):
            found = LogRecovery(standby.directory / f"logs/log-{number}", replica.files).run()
            assert found.ledger.messages == 2000
            assert found.from_checkpoint
        assert len(standby.reads.requests) == asked
        standby.filler.start(replica, tidies=True)
        await until(standby.filler, "whole")
        assert standby.contents() == files
        standby.end()

    run(main())


def test_the_newest_files_come_first_and_each_from_its_end(tmp_path: Path) -> None:
    files = large_files(2, 2 * MOST_AT_ONCE + 5)
    store, _ = bucket_of(tmp_path / "owner", files)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store)
        replica = await Replica.load(standby.place)
        partial = replica.cache.partial_files()
        assert [file.path for file in partial] == ["f1", "f0"]
        found = [(file.path, start, end) for file, start, end in cache_filling.newest_first(partial)]
        size = 2 * MOST_AT_ONCE
        one = [(size, size + 5), (MOST_AT_ONCE, size), (0, MOST_AT_ONCE)]
        assert found == [(path, *part) for path in ("f1", "f0") for part in one]
        replica.close()

    run(main())


@pytest.mark.parametrize("tidies", [True, False])
def test_a_cache_is_filled_no_further_than_there_is_room(tmp_path: Path, tidies: bool) -> None:
    files = large_files(10, 4 * MIB)
    store, _ = bucket_of(tmp_path / "owner", files)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, cache_bytes=20 * MIB)
        replica = await standby.begin(tidies=tidies)
        await until(standby.filler, "full")
        assert replica.cache.local_bytes == 16 * MIB
        newest = [f"f{number}" for number in range(6, 10)]
        assert [path for path in files if replica.cache.is_whole(standby.file(path).id)] == newest
        asked = len(standby.reads.requests)
        await asyncio.sleep(10 * ROUND_S)
        assert len(standby.reads.requests) == asked, "nothing is brought to be taken away"
        standby.end()

    run(main())


def test_what_the_owner_writes_has_room_made_for_it(tmp_path: Path) -> None:
    files = large_files(4, 4 * MIB)
    store, _ = bucket_of(tmp_path / "owner", files)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, cache_bytes=20 * MIB)
        replica = await standby.begin()
        await until(standby.filler, "whole")
        change = Write(standby.file("f3").id, 4 * MIB, b"new" * (3 * MIB))
        replica.replay(encode([change]))
        assert replica.cache.local_bytes == 25 * MIB
        await asyncio.sleep(2 * ROUND_S)
        assert replica.cache.local_bytes == 17 * MIB
        assert not replica.cache.is_whole(standby.file("f0").id), "the oldest goes"
        assert standby.contents()["f3"] == files["f3"] + b"new" * (3 * MIB), "the WAL alone has it"
        standby.end()

    run(main())


def test_a_disk_with_little_room_is_left_to_others(tmp_path: Path) -> None:
    files = large_files(3, 4 * MIB)
    store, _ = bucket_of(tmp_path / "owner", files)
    free = [LEAST_FREE + 6 * MIB, LEAST_FREE - 1]

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, free=lambda: free.pop(0) if len(free) > 1 else free[0])
        await standby.begin()
        await until(standby.filler, "full")
        assert not standby.reads.requests, "nothing fits"
        free[:] = [1 << 50]
        await until(standby.filler, "whole")
        assert standby.contents() == files
        standby.end()

    run(main())


def test_a_disk_that_tells_nothing_is_named(tmp_path: Path) -> None:
    store, _ = bucket_of(tmp_path / "owner", large_files(1, 100))

    def fail() -> int:
        raise OSError(5, "Input/output error")

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, free=fail)
        await standby.begin()
        await asyncio.sleep(1)
        assert standby.filler.trouble == "[Errno 5] Input/output error"
        standby.end()

    run(main())


def test_nothing_is_brought_where_nothing_is_wanted_until_a_reload_says_so(tmp_path: Path) -> None:
    files = large_files(1, 4 * MIB)
    store, _ = bucket_of(tmp_path / "owner", files)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, rate=0)
        await standby.begin()
        await asyncio.sleep(5 * ROUND_S)
        assert standby.filler.state == "off"
        assert not standby.reads.requests
        standby.filler.bytes_per_second = RATE
        assert await until(standby.filler, "whole") <= 2 * ROUND_S
        assert standby.contents() == files
        standby.end()

    run(main())


def test_bytes_that_cannot_be_had_are_named_and_asked_for_again(tmp_path: Path) -> None:
    files = large_files(3, 4 * MIB)
    store, _ = bucket_of(tmp_path / "owner", files)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store)

        def fail(_key: str) -> None:
            raise StoreError("not reachable")

        standby.reads.fail = fail
        await standby.begin()
        await asyncio.sleep(100)
        assert standby.filler.trouble == "[Errno 5] not reachable"
        assert len(standby.reads.requests) < 100, "pauses get longer"
        standby.reads.fail = lambda _key: None
        asked = len(standby.reads.requests)
        with without_waiting(), pytest.raises(NotHere) as absent:  # and not a failure that is over
            standby.read("f0", 10, 0)
        absent.value.arrival.result(60)
        assert len(standby.reads.requests) == asked + 1
        await until(standby.filler, "whole")
        assert standby.contents() == files
        await asyncio.sleep(ROUND_S)
        assert not standby.filler.trouble
        standby.end()

    run(main())


def test_one_object_that_is_gone_keeps_nothing_else_away(tmp_path: Path) -> None:
    files = large_files(3, 4 * MIB)
    store, manifest = bucket_of(tmp_path / "owner", files)
    (gone,) = {extent.object for file in manifest.files if file.path == "f1" for extent in file.extents}

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store)

        def fail(key: str) -> None:
            if key.endswith(gone):
                raise KeyMissing(f"{key} is not there")

        standby.reads.fail = fail
        replica = await standby.begin()
        await asyncio.sleep(3 * ROUND_S)
        assert [file.path for file in replica.cache.partial_files()] == ["f1"]
        assert standby.filler.state == "filling"
        assert gone in standby.filler.trouble
        standby.end()

    run(main())


def test_the_next_start_knows_what_was_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were brought just now are not noted (`YOUNG_NS`), but in the next round."""
    monkeypatch.setattr("headrace.bucket.cache_index.YOUNG_NS", 10**12)
    files = large_files(3, 2 * MIB)
    store, _ = bucket_of(tmp_path / "owner", files)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store)
        await standby.begin()
        await until(standby.filler, "whole")
        await asyncio.sleep(ROUND_S / 2)
        monkeypatch.setattr("headrace.bucket.cache_index.YOUNG_NS", -(10**12))
        await asyncio.sleep(ROUND_S)
        standby.end()
        again = Standby(tmp_path / "cold", store)
        replica = await again.begin()
        assert replica.cache.absent_bytes == 0
        assert again.contents() == files
        again.end()
        assert not again.reads.requests

    run(main())


def test_who_waits_is_told_that_the_cache_was_closed(tmp_path: Path) -> None:
    """On a thread: a server that ends does not wait for a bucket that does not answer."""
    store, _ = bucket_of(tmp_path / "owner", large_files(2, 4 * MIB))
    answers = threading.Event()

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store)
        asked = threading.Event()

        def hang(_key: str) -> None:
            asked.set()
            assert answers.wait(60)

        standby.reads.fail = hang
        replica = await Replica.load(standby.place)
        begun = replica.cache.bring(cache_filling.newest_first(replica.cache.partial_files()))
        assert asked.wait(60)
        assert not any(arrival.done() for arrival in begun.arrivals)
        replica.close()
        for arrival in begun.arrivals:
            with pytest.raises(OSError, match="not read any more"):
                arrival.result(0)
        answers.set()

    run(main())


def test_a_mistake_in_it_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = bucket_of(tmp_path / "owner", large_files(1, 100))
    heard: list[dict[str, Any]] = []

    async def main() -> None:
        has_heard = asyncio.Event()

        def hear(_loop: object, context: dict[str, Any]) -> None:
            heard.append(context)
            has_heard.set()

        asyncio.get_running_loop().set_exception_handler(hear)
        standby = Standby(tmp_path / "cold", store)
        monkeypatch.setattr(CacheFiller, "_step", lambda *_: 1 / 0)
        await standby.begin()
        await asyncio.wait_for(has_heard.wait(), 60)
        standby.end()

    asyncio.run(main())
    assert [type(context["exception"]) for context in heard] == [ZeroDivisionError]


@pytest.mark.parametrize("seed", depth.seeds(40))
def test_an_owner_writes_while_the_cache_is_filled(tmp_path: Path, seed: int) -> None:
    """The changes of an owner come while threads install bytes of before: the files are what it wrote."""
    random = Random(seed)
    files = large_files(4, random.randrange(BLOCK, 3 * BLOCK))
    store, _ = bucket_of(tmp_path / "owner", files)
    wanted = {path: bytearray(data) for path, data in files.items()}

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, rate=1 << 40, offload=in_thread)
        replica = await standby.begin()
        for _ in range(300):
            path = random.choice(list(wanted))
            file, data = standby.file(path), wanted[path]
            kind = random.random()
            if kind < 0.8:
                at, new = random.randrange(len(data) + BLOCK // 8), random.randbytes(random.randrange(5000))
                data.extend(bytes(max(at - len(data), 0)) if new else b"")
                data[at : at + len(new)] = new
                replica.replay(encode([Write(file.id, at, new)]))
            elif kind < 0.99:
                size = random.randrange(max(len(data) - BLOCK // 4, 0), len(data) + 1000)
                data[size:] = bytes(max(size - len(data), 0))
                replica.replay(encode([Truncate(file.id, size)]))
            elif len(wanted) > 1:
                del wanted[path]
                replica.replay(encode([Unlink(path)]))
            if random.random() < 0.05:
                await asyncio.sleep(0.001)
        async with asyncio.timeout(60):
            await until(standby.filler, "whole")
        assert standby.contents() == wanted
        assert not standby.filler.trouble
        standby.end()

    asyncio.run(main())


def test_a_write_waits_for_bytes_of_before_that_are_being_installed(tmp_path: Path) -> None:
    """Else they would lie over it: they are compared with what is here, and written, in one go."""
    store, _ = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})

    class Slow(RealFileSystem):
        """Tells of a write of an owner when it has been made, and not been noted yet."""

        when_written: Callable[[], object] = staticmethod(lambda: None)

        def pwrite(self, handle: int, data: Any, offset: int) -> int:
            taken = super().pwrite(handle, data, offset)
            if bytes(data) == b"new":
                self.when_written()
            return taken

    async def main() -> None:
        standby, files = Standby(tmp_path / "cold", store), Slow()
        standby.place = replace(standby.place, files=files)
        replica = await Replica.load(standby.place)
        file = replica.tree.file_at("f")
        assert file is not None

        def others() -> None:
            for arrival in replica.cache.bring([(file, 0, 1000)]).arrivals:
                arrival.result(60)

        thread = threading.Thread(target=others)

        def bring() -> None:
            thread.start()
            thread.join(0.2)  # without the lock it has ended by then

        files.when_written = bring
        replica.replay(encode([Write(file.id, 10, b"new")]))
        thread.join(60)
        assert (tmp_path / "cold/f").read_bytes() == b"1" * 10 + b"new" + b"1" * 987
        replica.close()

    asyncio.run(main())


def test_a_cache_that_was_closed_writes_nothing_any_more(tmp_path: Path) -> None:
    """What it had asked for arrives late, when another one has the directory, and newer bytes."""
    store, _ = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})
    asked, answers = threading.Event(), threading.Event()

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store)

        def hang(_key: str) -> None:
            asked.set()
            assert answers.wait(60)

        standby.reads.fail = hang
        first = await Replica.load(standby.place)
        first.cache.bring(cache_filling.newest_first(first.cache.partial_files()))
        assert asked.wait(60)
        first.close()
        standby.reads.fail = lambda _key: None
        second = await Replica.load(standby.place)
        file = second.tree.file_at("f")
        assert file is not None
        second.replay(encode([Write(file.id, 10, b"new")]))
        answers.set()
        first.cache._pool.shutdown(wait=True)
        assert (tmp_path / "cold/f").read_bytes()[:13] == bytes(10) + b"new", "the rest has not come yet"
        first.cache.make_room()
        await first.cache.save()
        assert not (tmp_path / "cold/.bucket/index").exists()
        for arrival in second.cache.bring([(file, 0, 1000)]).arrivals:
            arrival.result(60)
        assert (tmp_path / "cold/f").read_bytes() == b"1" * 10 + b"new" + b"1" * 987
        second.close()

    run(main())


def test_bytes_that_come_after_the_cache_was_closed_are_not_taken_for_here(tmp_path: Path) -> None:
    """They are written nowhere: who reads the file then is to get an error, and not the zeros of a hole."""
    store, _ = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})
    asked, answers = threading.Event(), threading.Event()

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store)

        def hang(_key: str) -> None:
            asked.set()
            assert answers.wait(60)

        standby.reads.fail = hang
        replica = await Replica.load(standby.place)
        handle = replica.files.open(tmp_path / "cold/f", FileMode.READ)
        replica.cache.bring(cache_filling.newest_first(replica.cache.partial_files()))
        assert asked.wait(60)
        replica.close()
        answers.set()
        replica.cache._pool.shutdown(wait=True)
        assert replica.cache.absent_bytes == 1000
        with pytest.raises(OSError, match="not read any more"):
            replica.files.pread(handle, 10, 0)
        replica.files.close(handle)

    run(main())


def test_filling_that_was_turned_off_goes_on_when_a_reload_says_so(tmp_path: Path) -> None:
    """At once, whatever the rate was when it began to wait."""
    files = large_files(2, 16 * MIB)
    store, _ = bucket_of(tmp_path / "owner", files)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, rate=1)
        await standby.begin()
        await asyncio.sleep(ROUND_S)
        assert standby.filler.filled_bytes == 16 * MIB, "the rest is to come in half a year"
        standby.filler.bytes_per_second = 0
        await until(standby.filler, "off")
        await asyncio.sleep(5 * ROUND_S)
        assert standby.filler.filled_bytes == 16 * MIB
        standby.filler.bytes_per_second = RATE
        assert await until(standby.filler, "whole") < 2 * ROUND_S
        assert standby.contents() == files
        standby.end()

    run(main())


def test_room_is_made_while_filling_takes_long(tmp_path: Path) -> None:
    files = large_files(8, 4 * MIB)
    store, _ = bucket_of(tmp_path / "owner", files)

    async def main() -> None:
        standby = Standby(tmp_path / "cold", store, cache_bytes=40 * MIB, rate=1)
        replica = await standby.begin()
        await asyncio.sleep(2)
        assert (standby.filler.filled_bytes, standby.filler.state) == (16 * MIB, "filling")
        replica.replay(encode([Write(standby.file("f7").id, 4 * MIB, b"new." * (7 * MIB))]))
        assert replica.cache.local_bytes == 44 * MIB
        await asyncio.sleep(2 * ROUND_S)
        assert replica.cache.local_bytes <= 40 * MIB
        standby.end()

    run(main())
