"""The file system of an owner: what it records, what it does not, and what it refuses."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.captured import ROOT, Owner, Standby, recorded_image, shown
from headrace.bucket.capture import AllHere, CapturingFileSystem
from headrace.bucket.changes import (
    Create,
    Mkdir,
    Rename,
    Rmdir,
    SnapshotBegun,
    Truncate,
    Unlink,
    Write,
)
from headrace.bucket.journal import Journal
from headrace.bucket.tree import Tree
from headrace.log.filesystem import FileMode, RealFileSystem, replace_file
from headrace.testing.faultfs import Fault, FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.bucket.tree import TreeFile
    from headrace.log.filesystem import FileSystem

F, G, D = ROOT / "f", ROOT / "g", ROOT / "d"


def test_every_change_is_recorded_in_its_order() -> None:
    owner = Owner()
    files = owner.files
    files.mkdir(D)
    log = files.open(D / "1.log", FileMode.CREATE)
    files.pwrite(log, b"head", 0)
    files.pwrite(log, bytearray(b"bo"), 4)
    files.truncate(log, 5)
    files.truncate(log, 5)  # no change
    files.reserve(log, 5, 10)
    replace_file(files, D / "checkpoint", b"data")
    files.rename(D, ROOT / "e")
    files.unlink(ROOT / "e" / "1.log")
    files.pwrite(log, b"nobody reads this", 0)
    files.close(log)
    files.unlink(ROOT / "e" / "checkpoint")
    files.rmdir(ROOT / "e")
    files.note(SnapshotBegun())

    assert owner.take_changes() == [
        Mkdir("d"),
        Create("d/1.log"),
        Write(1, 0, b"head"),
        Write(1, 4, b"bo"),
        Truncate(1, 5),
        Truncate(1, 15),
        Create("d/checkpoint.new"),
        Write(2, 0, b"data"),
        Rename("d/checkpoint.new", "d/checkpoint"),
        Rename("d", "e"),
        Unlink("e/1.log"),
        Unlink("e/checkpoint"),
        Rmdir("e"),
        SnapshotBegun(),
    ]
    assert not owner.tree.files


def test_reading_and_asking_record_nothing() -> None:
    owner = Owner()
    files = owner.files
    files.mkdir(D)
    handle = files.open(D / "f", FileMode.APPEND)
    files.write(handle, b"ab")
    files.write(handle, b"cd")
    owner.take()

    assert files.pread(handle, 9, 1) == b"bcd"
    assert files.size(handle) == 4
    assert files.listdir(D) == ["f"]
    assert files.listdir(ROOT) == ["d"]
    assert files.is_directory(D)
    assert not files.is_directory(D / "f")
    assert files.identity(D / "f") == owner.inner.identity(D / "f")
    reader = files.open(D / "f", FileMode.READ)
    files.forget_read(reader)
    files.close(reader)
    assert owner.journal.take(1) is None


def test_a_buffer_that_is_used_again_does_not_change_what_was_recorded() -> None:
    owner = Owner()
    handle = owner.files.open(F, FileMode.CREATE)
    buffer = bytearray(b"first")
    owner.files.pwrite(handle, memoryview(buffer), 0)
    buffer[:] = b"other"

    assert owner.take_changes()[-1] == Write(1, 0, b"first")


def test_locks_and_the_mark_of_a_closed_store_stay_here() -> None:
    owner = Owner()
    owner.files.close(owner.files.lock(ROOT / "lock"))
    replace_file(owner.files, ROOT / "closed", b"mark")
    assert owner.take_changes() == []
    assert recorded_image(owner.inner) == {}
    handle = owner.files.open(ROOT / "closed", FileMode.READ)
    assert owner.files.pread(handle, 9, 0) == b"mark"
    owner.files.close(handle)
    owner.files.unlink(ROOT / "closed")

    owner.files.mkdir(ROOT / "lock-er")
    owner.files.mkdir(D)
    owner.files.mkdir(D / "closed")  # a log of that name
    owner.files.close(owner.files.open(D / "closed" / "1.log", FileMode.CREATE))
    owner.files.rename(D / "closed", D / "gone")

    assert owner.take_changes() == [
        Mkdir("lock-er"),
        Mkdir("d"),
        Mkdir("d/closed"),
        Create("d/closed/1.log"),
        Rename("d/closed", "d/gone"),
    ]


def test_files_elsewhere_are_only_handed_on(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    journal = Journal()
    files = CapturingFileSystem(RealFileSystem(), inside, Tree(), journal)
    files.mkdir(inside)
    files.mkdir(tmp_path / "inner")
    handle = files.open(tmp_path / "inner" / "f", FileMode.CREATE)
    files.pwrite(handle, b"x", 0)
    files.reserve(handle, 1, 1)
    files.truncate(handle, 1)
    assert files.descriptor(handle) is not None
    assert files.pread(handle, 2, 0) == b"x"
    files.close(handle)
    appended = files.open(tmp_path / "inner" / "f", FileMode.APPEND)
    files.write(appended, b"y")
    files.close(appended)
    files.rename(tmp_path / "inner" / "f", tmp_path / "g")
    assert files.listdir(tmp_path / "inner") == []
    files.rmdir(tmp_path / "inner")
    with pytest.raises(OSError, match="cross-device") as refused:
        files.rename(tmp_path / "g", inside / "g")
    assert refused.value.errno == errno.EXDEV
    files.unlink(tmp_path / "g")

    assert journal.position == 0


def test_syncs_are_those_of_the_bucket_or_the_backlog() -> None:
    counted = FaultyFileSystem(MemoryFileSystem(), only=("fsync", "fdatasync", "fsync_dir"))
    files = CapturingFileSystem(counted, ROOT, Tree(), Journal())
    handle = files.open(F, FileMode.CREATE)
    files.fsync(handle)
    files.fdatasync(handle)
    files.fsync_dir(ROOT)

    assert counted.calls == 0


CHANGES: dict[str, Callable[[FileSystem, int, int], object]] = {
    "create": lambda files, *_: files.open(ROOT / "new", FileMode.CREATE),
    "pwrite": lambda files, log, _: files.pwrite(log, b"more", 1),
    "write": lambda files, _, draft: files.write(draft, b"more"),
    "reserve": lambda files, log, _: files.reserve(log, 4, 100),
    "truncate up": lambda files, log, _: files.truncate(log, 100),
    "truncate": lambda files, log, _: files.truncate(log, 1),
    "rename": lambda files, *_: files.rename(F, G),
    "unlink": lambda files, *_: files.unlink(F),
    "mkdir": lambda files, *_: files.mkdir(ROOT / "e"),
    "rmdir": lambda files, *_: files.rmdir(D),
}
ADDS = {"create", "pwrite", "write", "reserve", "truncate up", "mkdir"}


def filled(inner: FileSystem) -> tuple[Owner, int, int]:
    owner = Owner(inner)
    log = owner.files.open(F, FileMode.CREATE)
    owner.files.pwrite(log, b"data", 0)
    draft = owner.files.open(G, FileMode.APPEND)
    owner.files.write(draft, b"draft")
    owner.files.mkdir(D)
    return owner, log, draft


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("is_over", [False, True])
def test_what_is_refused_changes_nothing(name: str, *, is_over: bool) -> None:
    owner, log, draft = filled(MemoryFileSystem())
    before = recorded_image(owner.inner), shown(owner.tree), owner.journal.position
    if is_over:
        owner.journal.end("lost")
    else:
        owner.journal.refuse("away")

    if is_over or name in ADDS:
        with pytest.raises(OSError, match="lost" if is_over else "away"):
            CHANGES[name](owner.files, log, draft)
        assert (recorded_image(owner.inner), shown(owner.tree), owner.journal.position) == before
    else:
        CHANGES[name](owner.files, log, draft)
        assert owner.journal.position == before[2] + 1


@pytest.mark.parametrize("name", CHANGES)
def test_what_fails_locally_is_not_recorded(name: str) -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    owner, log, draft = filled(faulty)
    before = recorded_image(faulty.inner), shown(owner.tree), owner.journal.position
    faulty.fail_at, faulty.calls, faulty.only = 1, 0, frozenset({name.split(maxsplit=1)[0], "open"})

    with pytest.raises(OSError, match="error"):
        CHANGES[name](owner.files, log, draft)

    assert (recorded_image(faulty.inner), shown(owner.tree), owner.journal.position) == before


@pytest.mark.parametrize("kind", ["write", "pwrite"])
def test_of_a_write_what_went_in_is_recorded(kind: str) -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    owner, log, draft = filled(faulty)
    owner.take()
    faulty.fail_at, faulty.calls, faulty.fault, faulty.only = 1, 0, Fault.SHORT, frozenset({kind})

    taken = owner.files.pwrite(log, b"abcd", 4) if kind == "pwrite" else owner.files.write(draft, b"abcd")

    assert taken == 2
    assert owner.take_changes() == [Write(1, 4, b"ab") if kind == "pwrite" else Write(2, 5, b"ab")]


def test_names_are_those_of_the_tree() -> None:
    """What an earlier life of the directory left is not seen, and in nobody's way."""
    inner = MemoryFileSystem()
    inner.mkdir(D)
    for path in (F, D / "old"):
        stale = inner.open(path, FileMode.APPEND)
        inner.write(stale, b"stale")
    owner = Owner(inner)
    files = owner.files

    assert files.listdir(ROOT) == []
    assert not files.is_directory(D)
    for refused in (
        lambda: files.open(F, FileMode.READ),
        lambda: files.open(F, FileMode.UPDATE),
        lambda: files.unlink(F),
        lambda: files.rename(F, G),
        lambda: files.listdir(D),
        lambda: files.rmdir(D),
    ):
        with pytest.raises(FileNotFoundError):
            refused()
    files.mkdir(D)
    assert files.listdir(D) == []
    handle = files.open(F, FileMode.CREATE)
    assert files.size(handle) == 0
    assert owner.take_changes() == [Mkdir("d"), Create("f")]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda files: files.open(D, FileMode.READ), IsADirectoryError),
        (lambda files: files.unlink(D), IsADirectoryError),
        (lambda files: files.mkdir(D), FileExistsError),
        (lambda files: files.mkdir(F), FileExistsError),
        (lambda files: files.rmdir(F), NotADirectoryError),
        (lambda files: files.listdir(F), NotADirectoryError),
        (lambda files: files.open(ROOT / "none" / "f", FileMode.CREATE), FileNotFoundError),
        (lambda files: files.open(Path("/d/../f"), FileMode.READ), OSError),
    ],
)
def test_calls_that_cannot_be(call: Callable[[FileSystem], object], error: type[OSError]) -> None:
    owner, *_ = filled(MemoryFileSystem())
    before = shown(owner.tree), owner.journal.position

    with pytest.raises(error):
        call(owner.files)

    assert (shown(owner.tree), owner.journal.position) == before


def test_a_directory_with_files_is_not_removed() -> None:
    owner = Owner()
    owner.files.mkdir(D)
    owner.files.close(owner.files.open(D / "f", FileMode.CREATE))

    with pytest.raises(OSError, match="not empty"):
        owner.files.rmdir(D)


class Elsewhere(AllHere):
    """A residence in which the file with the number 1 is not wholly here."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def is_whole(self, number: int) -> bool:
        return number != 1

    def pread(self, file: TreeFile, handle: int, size: int, offset: int) -> bytes:
        return b"from the bucket"[offset : offset + size]

    def opened(self, number: int) -> None:
        self.told.append(("opened", number))

    def closed(self, number: int) -> None:
        self.told.append(("closed", number))

    def created(self, number: int) -> None:
        self.told.append(("created", number))

    def wrote(self, number: int, start: int, end: int) -> None:
        self.told.append(("wrote", number, start, end))

    def truncated(self, number: int, size: int) -> None:
        self.told.append(("truncated", number, size))

    def removed(self, number: int) -> None:
        self.told.append(("removed", number))


def test_the_residence_reads_what_is_not_here_and_hears_of_every_change(tmp_path: Path) -> None:
    residence = Elsewhere()
    files = CapturingFileSystem(RealFileSystem(), tmp_path, Tree(), Journal(), residence)
    one = files.open(tmp_path / "1", FileMode.CREATE)
    two = files.open(tmp_path / "2", FileMode.CREATE)
    files.pwrite(one, b"abc", 2)
    files.truncate(one, 9)

    assert files.pread(one, 4, 5) == b"the "
    assert files.descriptor(one) is None
    assert files.descriptor(two) is not None
    files.close(one)
    files.rename(tmp_path / "2", tmp_path / "1")
    files.unlink(tmp_path / "1")
    assert residence.told == [
        ("created", 1),
        ("opened", 1),
        ("created", 2),
        ("opened", 2),
        ("wrote", 1, 2, 5),
        ("truncated", 1, 9),
        ("closed", 1),
        ("removed", 1),
        ("removed", 2),
    ]
    files.close(two)


def test_where_all_is_here_nothing_is_read_from_elsewhere() -> None:
    owner, *_ = filled(MemoryFileSystem())

    with pytest.raises(OSError, match="f is not here"):
        AllHere().pread(owner.tree.files[1], 0, 1, 0)


def test_a_standby_has_the_same_files() -> None:
    owner, *_ = filled(MemoryFileSystem())
    owner.files.rename(F, D / "f")
    owner.files.unlink(G)
    standby = Standby()

    standby.mirror.apply(owner.take())

    assert recorded_image(standby.inner) == recorded_image(owner.inner) == {D / "f": b"data"}
    assert shown(standby.tree) == shown(owner.tree)


def test_changes_are_in_one_order_for_all_threads() -> None:
    """Threads that write to files, remove them and take objects: a standby ends with what is here."""
    from concurrent.futures import ThreadPoolExecutor

    owner, standby = Owner(), Standby()
    payloads: list[bytes] = []

    def work(thread: int) -> None:
        for number in range(60):
            path = ROOT / f"{(thread + number) % 3}-{thread}"
            handle = owner.files.open(path, FileMode.APPEND)
            owner.files.write(handle, b"%d" % number * (number % 7))
            owner.files.truncate(handle, number % 5)
            owner.files.close(handle)
            if number % 4 == 0:
                owner.files.rename(path, ROOT / f"to-{thread}")

    def take() -> None:
        for _ in range(200):
            payloads.append(owner.take())

    with ThreadPoolExecutor(5) as pool:
        done = [pool.submit(work, thread) for thread in range(4)] + [pool.submit(take)]
        for one in done:
            one.result()
    for payload in [*payloads, owner.take()]:
        standby.mirror.apply(payload)

    assert recorded_image(standby.inner) == recorded_image(owner.inner)
    assert shown(standby.tree) == shown(owner.tree)
