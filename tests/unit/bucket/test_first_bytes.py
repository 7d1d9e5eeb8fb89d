"""The logs of a shard on an empty disk: what opening them reads is brought before, many ranges at once."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from test_cache import Cold, bucket_of

from headrace.bucket.cache import THREADS
from headrace.bucket.first_bytes import FirstBytes
from headrace.errors import StorageError
from headrace.log.port import NewMessage, SyncPolicy
from headrace.log.store import FileStore
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

MANY: Final = 100
COUNT: Final = 130 * (THREADS + 4)


def logs(
    directory: Path,
    count: int,
    size: int,
    *,
    messages: int = 20,
    segment: int = 64 << 20,
    near: int | None = None,
) -> dict[str, bytes]:
    """The files of a store of so many logs, each of messages of so many bytes, as a kill leaves them.

    `near`: bytes between two checkpoints of a log.
    """
    store = FileStore(directory, sync=SyncPolicy.NEVER, segment_bytes=segment, checkpoint_bytes=near)
    for number in range(count):
        log, random = store.open(b"log-%d" % number), Random(number)
        for _ in range(messages):
            log.append([NewMessage(b"s", random.randbytes(size))])
    files = {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in {"lock", "closed"}
    }
    store.close()
    return files


def cold_with(directory: Path, files: dict[str, bytes]) -> Cold:
    return Cold(directory / "cold", *bucket_of(directory / "warm", files))


def bring(cold: Cold) -> None:
    FirstBytes(cold.tree, cold.cache, cold.directory, cold.files, None).bring()


def opened(cold: Cold, count: int) -> list[int]:
    """Open all logs; return how many messages each has."""
    store = FileStore(cold.directory, filesystem=cold.files, sync=SyncPolicy.NEVER)
    try:
        return [store.open(b"log-%d" % number).state().messages for number in range(count)]
    finally:
        store.close()


def test_many_small_logs_are_asked_for_together(tmp_path: Path) -> None:
    cold = cold_with(tmp_path, logs(tmp_path / "logs", MANY, 1000))
    bring(cold)
    assert len(cold.reads.requests) <= 4
    assert opened(cold, MANY) == [20] * MANY
    assert len(cold.reads.requests) <= 4, "nothing was left to ask for"
    cold.cache.close()


def test_without_it_each_log_is_waited_for(tmp_path: Path) -> None:
    """So the test before tells something."""
    cold = cold_with(tmp_path, logs(tmp_path / "logs", MANY, 1000))
    assert opened(cold, MANY) == [20] * MANY
    assert len(cold.reads.requests) >= MANY
    cold.cache.close()


def test_what_is_apart_in_the_bucket_is_asked_for_at_once(tmp_path: Path) -> None:
    files = logs(tmp_path / "logs", 1, 10_000, messages=COUNT, segment=1_300_000)
    cold = cold_with(tmp_path, files)
    together = threading.Event()

    def hold(_key: str) -> None:
        if len(cold.reads.requests) >= THREADS:
            together.set()
        assert together.wait(60), "one is asked for after the other"

    cold.reads.fail = hold
    bring(cold)
    asked = len(cold.reads.requests)
    assert opened(cold, 1) == [COUNT]
    assert len(cold.reads.requests) == asked
    assert cold.cache.fetched < sum(map(len, files.values())), "a log is not downloaded"
    cold.cache.close()


def test_a_bucket_that_does_not_answer_is_told_to_who_opens(tmp_path: Path) -> None:
    cold = cold_with(tmp_path, logs(tmp_path / "logs", 2, 1000))

    def fail(_key: str) -> None:
        raise StoreError("not reachable")

    cold.reads.fail = fail
    bring(cold)
    with pytest.raises(StorageError, match="not reachable"):
        opened(cold, 2)
    cold.reads.fail = lambda _key: None
    assert opened(cold, 2) == [20, 20]
    cold.cache.close()


def test_damage_of_one_log_is_told_of_that_one_alone(tmp_path: Path) -> None:
    files = logs(tmp_path / "logs", 2, 1000)
    store, manifest = bucket_of(tmp_path / "warm", files)
    (extent,) = next(file for file in manifest.files if "log-1" in file.path and file.size > 9999).extents
    key = next(key for key in store.objects if key.endswith(extent.object))
    data, at = store.objects[key]
    store.objects[key] = data[: extent.offset] + b"?" + data[extent.offset + 1 :], at
    cold = Cold(tmp_path / "cold", store, manifest)
    bring(cold)
    assert opened(cold, 1) == [20]
    with pytest.raises(StorageError, match="checksum"):
        opened(cold, 2)
    cold.cache.close()


@pytest.mark.parametrize(("room", "part"), [(1, 0.15), (300_000, 0.3)])
def test_no_more_is_brought_than_there_is_room_for(tmp_path: Path, room: int, part: float) -> None:
    store, manifest = bucket_of(tmp_path / "warm", logs(tmp_path / "logs", 30, 1000))
    cold = Cold(tmp_path / "cold", store, manifest, room)
    bring(cold)
    assert 0 < cold.cache.fetched <= part * sum(file.size for file in cold.tree.files.values())
    assert opened(cold, 30) == [20] * 30
    cold.cache.close()


@pytest.mark.parametrize("near", [None, 4 << 20])
def test_of_a_segment_that_was_written_the_end_is_read(tmp_path: Path, near: int | None) -> None:
    """After a kill, what is behind its last checkpoint; and the first messages of the log."""
    files = logs(tmp_path / "logs", 1, 1000, messages=32_000, near=near)
    total = sum(map(len, files.values()))
    cold = cold_with(tmp_path, files)
    bring(cold)
    asked = len(cold.reads.requests)
    assert opened(cold, 1) == [32_000]
    assert len(cold.reads.requests) == asked, "nothing was left to ask for"
    assert cold.cache.fetched / total > 0.9 if near is None else cold.cache.fetched / total < 0.5
    cold.cache.close()


def test_logs_that_are_here_are_left_alone(tmp_path: Path) -> None:
    cold = cold_with(tmp_path, logs(tmp_path / "logs", 3, 1000) | {"other/file": b"x" * 1000})
    bring(cold)
    asked = len(cold.reads.requests)
    bring(cold)
    assert len(cold.reads.requests) == asked
    assert cold.read("other/file") == b"x" * 1000
    assert len(cold.reads.requests) == asked + 1, "what is no log is not foreseen"
    cold.cache.close()


def test_a_cache_that_was_closed_lets_nobody_wait(tmp_path: Path) -> None:
    cold = cold_with(tmp_path, logs(tmp_path / "logs", 2, 1000))
    cold.cache.close()
    bring(cold)
    assert not cold.reads.requests


@pytest.mark.parametrize("seed", range(8))
def test_ranges_of_many_files_are_what_they_were(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    files = {
        f"f{number}": random.randbytes(random.choice((10, 5_000, 300_000, 2_500_000))) for number in range(12)
    }
    cold = cold_with(tmp_path, files)
    wanted = []
    for _ in range(20):
        file = random.choice(list(cold.tree.files.values()))
        start = random.randrange(file.size)
        wanted.append((file, start, random.randint(start, file.size)))
    for begun in cold.cache.bring(wanted[:10]).arrivals + cold.cache.bring(wanted).arrivals:
        begun.result(60)
    asked = len(cold.reads.requests)
    for file, start, end in wanted:
        handle = cold.open(file.path)
        assert cold.files.pread(handle, end - start, start) == files[file.path][start:end]
        cold.files.close(handle)
    assert all(cold.read(path) == data for path, data in files.items())
    assert len(set(cold.reads.requests[:asked])) == asked, "nothing is asked for twice"
    cold.cache.close()
