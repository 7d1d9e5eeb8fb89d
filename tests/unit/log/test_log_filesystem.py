"""The file-system port: the real side and the one in memory behave alike, and faults are what they say."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.log.filesystem import (
    FileMode,
    FileSystem,
    RealFileSystem,
    make_directory,
    pwrite_all,
    read_file,
    replace_file,
    write_all,
)
from headrace.testing.faultfs import SECTOR, Fault, FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path("/store")


@pytest.fixture(params=["real", "memory", "faulty"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, Path]:
    if request.param == "real":
        return RealFileSystem(), tmp_path
    memory = MemoryFileSystem()
    memory.mkdir(ROOT)
    return (memory if request.param == "memory" else FaultyFileSystem(memory)), ROOT


def written(files: FileSystem, path: Path, *parts: bytes, synced: bool = False) -> int:
    """A file with these parts, written one by one; its handle."""
    handle = files.open(path, FileMode.APPEND)
    for part in parts:
        assert files.write(handle, part) == len(part)
    if synced:
        files.fsync(handle)
        files.fsync_dir(path.parent)
    return handle


class TestCalls:
    """Run over every side."""

    def test_append_and_read_back(self, place: tuple[FileSystem, Path]) -> None:
        files, root = place
        handle = written(files, root / "a", b"one", b"two")

        assert files.size(handle) == 6
        assert files.pread(handle, 100, 0) == b"onetwo"
        assert files.pread(handle, 2, 2) == b"et"
        assert files.pread(handle, 5, 6) == b""
        files.fsync(handle)
        files.fdatasync(handle)
        files.close(handle)
        assert read_file(files, root / "a") == b"onetwo"

    def test_append_goes_on_at_the_end(self, place: tuple[FileSystem, Path]) -> None:
        files, root = place
        first, second = written(files, root / "a", b"one"), written(files, root / "a", b"two")
        files.write(first, memoryview(b"three"))
        files.truncate(second, 7)
        files.write(second, bytearray(b"4"))

        assert read_file(files, root / "a") == b"onetwot4"

    def test_update_in_place(self, place: tuple[FileSystem, Path]) -> None:
        files, root = place
        files.close(written(files, root / "a", b"0123456789"))
        handle = files.open(root / "a", FileMode.UPDATE)
        files.pwrite(handle, b"xx", 3)
        files.pwrite(handle, b"yyy", 12)
        files.truncate(handle, 14)

        assert files.pread(handle, 100, 0) == b"012xx56789\0\0yy"
        files.truncate(handle, 20)
        assert files.size(handle) == 20
        assert files.pread(handle, 100, 13) == b"y" + bytes(6)

    def test_names(self, place: tuple[FileSystem, Path]) -> None:
        files, root = place
        files.mkdir(root / "d")
        files.close(written(files, root / "d" / "a", b"a"))
        files.close(written(files, root / "d" / "b", b"b"))
        files.rename(root / "d" / "a", root / "d" / "c")
        files.rename(root / "d" / "c", root / "d" / "b")
        files.fsync_dir(root / "d")

        assert files.listdir(root / "d") == ["b"]
        assert read_file(files, root / "d" / "b") == b"a"
        files.rename(root / "d", root / "e")
        assert files.is_directory(root / "e")
        assert not files.is_directory(root / "d")
        assert not files.is_directory(root / "e" / "b")
        files.unlink(root / "e" / "b")
        files.rmdir(root / "e")
        assert files.listdir(root) == []

    def test_a_file_without_a_name_lives_as_long_as_its_handle(self, place: tuple[FileSystem, Path]) -> None:
        files, root = place
        handle = written(files, root / "a", b"one")
        files.unlink(root / "a")

        assert files.pread(handle, 10, 0) == b"one"
        assert files.listdir(root) == []

    def test_a_lock_holds_until_it_is_closed(self, place: tuple[FileSystem, Path]) -> None:
        files, root = place
        handle = files.lock(root / "lock")

        with pytest.raises(BlockingIOError):
            files.lock(root / "lock")
        files.close(handle)
        files.close(files.lock(root / "lock"))

    @pytest.mark.parametrize(
        ("call", "error"),
        [
            (lambda f, r: f.open(r / "none", FileMode.READ), FileNotFoundError),
            (lambda f, r: f.open(r / "none", FileMode.UPDATE), FileNotFoundError),
            (lambda f, r: f.open(r / "none" / "a", FileMode.APPEND), FileNotFoundError),
            (lambda f, r: f.open(r / "file" / "a", FileMode.APPEND), NotADirectoryError),
            (lambda f, r: f.open(r / "directory", FileMode.UPDATE), IsADirectoryError),
            (lambda f, r: f.unlink(r / "none"), FileNotFoundError),
            (lambda f, r: f.rename(r / "none", r / "b"), FileNotFoundError),
            (lambda f, r: f.rename(r / "file", r / "directory"), IsADirectoryError),
            (lambda f, r: f.rename(r / "directory", r / "file"), NotADirectoryError),
            (lambda f, r: f.rename(r / "empty", r / "directory"), OSError),
            (lambda f, r: f.listdir(r / "none"), FileNotFoundError),
            (lambda f, r: f.listdir(r / "file"), NotADirectoryError),
            (lambda f, r: f.mkdir(r / "directory"), FileExistsError),
            (lambda f, r: f.mkdir(r / "file"), FileExistsError),
            (lambda f, r: f.mkdir(r / "none" / "a"), FileNotFoundError),
            (lambda f, r: f.rmdir(r / "directory"), OSError),
            (lambda f, r: f.rmdir(r / "none"), FileNotFoundError),
            (lambda f, r: f.fsync_dir(r / "none"), FileNotFoundError),
            (lambda f, r: f.lock(r / "none" / "lock"), FileNotFoundError),
            (lambda f, r: f.write(f.open(r / "file", FileMode.READ), b"x"), OSError),
            (lambda f, r: f.truncate(f.open(r / "file", FileMode.READ), 0), OSError),
            (lambda f, r: f.pread(99_999, 1, 0), OSError),
            (lambda f, r: f.close(99_999), OSError),
        ],
    )
    def test_errors(
        self, place: tuple[FileSystem, Path], call: Callable[[FileSystem, Path], object], error: type[OSError]
    ) -> None:
        files, root = place
        for name in ("directory", "directory/inner", "empty"):
            files.mkdir(root / name)
        files.close(written(files, root / "file", b"x"))

        with pytest.raises(error):
            call(files, root)

        assert sorted(files.listdir(root)) == ["directory", "empty", "file"]
        assert read_file(files, root / "file") == b"x"

    def test_replace_file(self, place: tuple[FileSystem, Path]) -> None:
        files, root = place
        files.close(written(files, root / "a.new", b"left by a cut-off attempt"))
        for data in (b"one", b"", b"three"):
            replace_file(files, root / "a", data)
            assert read_file(files, root / "a") == data
            assert files.listdir(root) == ["a"]

    def test_make_directory(self, place: tuple[FileSystem, Path]) -> None:
        files, root = place
        for _ in range(2):
            make_directory(files, root / "a" / "b" / "c")
        assert files.is_directory(root / "a" / "b" / "c")
        files.close(written(files, root / "file"))
        for wrong in (root / "file", root / "file" / "a"):
            with pytest.raises(OSError, match=r"exists|[Nn]ot a directory"):
                make_directory(files, wrong)


class TestReal:
    def test_only_the_owner_may_look(self, tmp_path: Path) -> None:
        files = RealFileSystem()
        make_directory(files, tmp_path / "d")
        files.close(files.open(tmp_path / "d" / "a", FileMode.APPEND))
        files.close(files.lock(tmp_path / "d" / "lock"))

        modes = {p.name: p.stat().st_mode & 0o777 for p in [tmp_path / "d", *(tmp_path / "d").iterdir()]}
        assert modes == {"d": 0o700, "a": 0o600, "lock": 0o600}

    def test_a_lock_keeps_other_processes_out_and_ends_with_its_holder(self, tmp_path: Path) -> None:
        code = (
            "import sys, pathlib; from headrace.log.filesystem import RealFileSystem\n"
            "RealFileSystem().lock(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "lock")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(BlockingIOError):
                RealFileSystem().lock(tmp_path / "lock")
            holder.kill()
            holder.wait()
        RealFileSystem().close(RealFileSystem().lock(tmp_path / "lock"))

    def test_handles_are_not_inherited(self, tmp_path: Path) -> None:
        files = RealFileSystem()
        for handle in (files.open(tmp_path / "a", FileMode.APPEND), files.lock(tmp_path / "lock")):
            assert not os.get_inheritable(handle)
            files.close(handle)


class Grudging(MemoryFileSystem):
    """Takes a few bytes a call."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def write(self, handle: int, data: bytes | bytearray | memoryview) -> int:
        return super().write(handle, data[: self.most])

    def pwrite(self, handle: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        return super().pwrite(handle, data[: self.most], offset)


class TestShortWrites:
    def test_all_is_written(self) -> None:
        files = Grudging(3)
        handle = files.open(Path("/a"), FileMode.APPEND)
        write_all(files, handle, b"0123456789")
        update = files.open(Path("/a"), FileMode.UPDATE)
        pwrite_all(files, update, b"abcdefgh", 5)

        assert read_file(files, Path("/a")) == b"01234abcdefgh"

    def test_no_progress_is_an_error_and_not_a_loop(self) -> None:
        files = Grudging(0)
        handle, update = files.open(Path("/a"), FileMode.APPEND), files.open(Path("/a"), FileMode.UPDATE)

        with pytest.raises(OSError, match="no bytes"):
            write_all(files, handle, b"x")
        with pytest.raises(OSError, match="no bytes"):
            pwrite_all(files, update, b"x", 0)


def crashed(build: Callable[[MemoryFileSystem], object], runs: int = 300) -> Iterator[MemoryFileSystem]:
    """What the power may leave of what `build` did, many times over."""
    for seed in range(runs):
        files = MemoryFileSystem()
        files.mkdir(ROOT)
        files.fsync_dir(ROOT.parent)
        build(files)
        files.crash(Random(seed))
        yield files


def content(files: MemoryFileSystem, path: Path) -> bytes | None:
    try:
        return read_file(files, path)
    except FileNotFoundError:
        return None


class TestPowerLoss:
    PATH = ROOT / "a"

    def outcomes(self, build: Callable[[MemoryFileSystem], object]) -> Counter[bytes | None]:
        return Counter(content(files, self.PATH) for files in crashed(build))

    def test_what_is_synced_stays(self) -> None:
        assert self.outcomes(lambda f: written(f, self.PATH, b"one", b"two", synced=True)) == {b"onetwo": 300}

    def test_an_unsynced_name_may_be_lost_with_its_synced_file(self) -> None:
        def build(files: MemoryFileSystem) -> None:
            files.fsync(written(files, self.PATH, b"one"))

        assert set(self.outcomes(build)) == {None, b"one"}

    def test_unsynced_writes_are_lost_cut_torn_and_reordered(self) -> None:
        def build(files: MemoryFileSystem) -> None:
            handle = written(files, self.PATH, b"0", synced=True)
            for part in (b"11", b"22", b"33"):
                files.write(handle, part)

        found = self.outcomes(build)
        assert {b"0", b"011", b"01122", b"0112233"} <= set(found)
        assert {b"01", b"0\0\x0022", b"0\0\0\0\x0033"} <= set(found)
        assert None not in found
        assert all(one is not None and one.startswith(b"0") for one in found)

    def test_a_large_write_is_torn_between_sectors(self) -> None:
        data = b"x" * (SECTOR * 4)
        found = self.outcomes(lambda f: (written(f, self.PATH, synced=True), written(f, self.PATH, data)))

        holes = {one for one in found if one and len(one) == len(data) and b"\0" in one}
        assert len(holes) > 3
        for one in holes:
            assert all(len(set(one[n : n + SECTOR])) == 1 for n in range(0, len(one), SECTOR))

    def test_truncation_may_be_lost(self) -> None:
        def build(files: MemoryFileSystem) -> None:
            files.truncate(written(files, self.PATH, b"0123", synced=True), 2)

        assert set(self.outcomes(build)) == {b"0123", b"01"}

    def test_a_rename_is_whole_and_may_be_lost(self) -> None:
        def build(files: MemoryFileSystem) -> None:
            written(files, self.PATH, b"old", synced=True)
            files.fsync(written(files, ROOT / "b", b"new"))
            files.rename(ROOT / "b", self.PATH)

        assert set(self.outcomes(build)) == {b"old", b"new"}

    def test_replace_file_leaves_the_old_or_the_new(self) -> None:
        for seed in range(100):
            faulty = FaultyFileSystem(MemoryFileSystem())
            replace_file(faulty, Path("/a"), b"old")
            faulty.fail_at, faulty.calls = 1 + seed % 12, 0
            done = True
            try:
                replace_file(faulty, Path("/a"), b"the new one")
            except OSError:
                done = False
            assert isinstance(faulty.inner, MemoryFileSystem)
            faulty.inner.crash(Random(seed))

            left = content(faulty.inner, Path("/a"))
            assert left == b"the new one" if done else left in (b"old", b"the new one")
            assert done == (not faulty.failed)

    def test_a_deletion_may_be_lost(self) -> None:
        def build(files: MemoryFileSystem) -> None:
            written(files, self.PATH, b"one", synced=True)
            files.unlink(self.PATH)

        assert set(self.outcomes(build)) == {None, b"one"}

    def test_a_directory_that_is_lost_takes_its_files_along(self) -> None:
        def build(files: MemoryFileSystem) -> None:
            files.mkdir(ROOT / "d")
            written(files, ROOT / "d" / "a", b"one", synced=True)

        left = {files.is_directory(ROOT / "d"): content(files, ROOT / "d" / "a") for files in crashed(build)}
        assert left == {True: b"one", False: None}

    def test_make_directory_survives(self) -> None:
        for files in crashed(lambda f: make_directory(f, ROOT / "x" / "y" / "z"), 50):
            assert files.is_directory(ROOT / "x" / "y" / "z")

    def test_handles_and_locks_are_gone(self) -> None:
        files = MemoryFileSystem()
        handle, _ = written(files, Path("/a"), b"x", synced=True), files.lock(Path("/lock"))
        files.crash(Random(1))

        assert files.open_handles == 0
        with pytest.raises(OSError, match="Bad file descriptor"):
            files.write(handle, b"x")
        files.lock(Path("/lock"))

    def test_a_killed_process_loses_nothing_that_was_written(self) -> None:
        files = MemoryFileSystem()
        written(files, Path("/a"), b"one")
        files.lock(Path("/lock"))
        files.kill()

        assert read_file(files, Path("/a")) == b"one"
        files.lock(Path("/lock"))

    def test_what_survived_one_crash_survives_the_next(self) -> None:
        for files in crashed(lambda f: written(f, self.PATH, b"one", b"two")):
            before = content(files, self.PATH)
            files.crash(Random(0))
            assert content(files, self.PATH) == before

    def test_a_failed_fsync_loses_its_data_even_if_the_next_succeeds(self) -> None:
        for seed in range(50):
            memory = MemoryFileSystem()
            files = FaultyFileSystem(memory, only=["fsync", "fdatasync"])
            handle = written(files, Path("/a"), b"safe", synced=True)
            files.fail_at = files.calls + 1
            files.write(handle, b"lost")
            with pytest.raises(OSError, match="Input/output"):
                files.fsync(handle)
            files.write(handle, b"late")
            files.fsync(handle)
            assert read_file(files, Path("/a")) == b"safelostlate"

            memory.crash(Random(seed))

            assert read_file(memory, Path("/a")) == b"safe\0\0\0\0late"


class TestFaults:
    def test_the_nth_call_fails_and_nothing_of_it_happens(self) -> None:
        calls: list[Callable[[FileSystem], object]] = [
            lambda f: f.mkdir(ROOT),
            lambda f: f.open(ROOT / "a", FileMode.APPEND),
            lambda f: f.lock(ROOT / "lock"),
            lambda f: f.rename(ROOT / "a", ROOT / "b"),
            lambda f: f.unlink(ROOT / "b"),
            lambda f: f.fsync_dir(ROOT),
            lambda f: f.listdir(ROOT),
        ]
        for number, call in enumerate(calls, 1):
            files = FaultyFileSystem(MemoryFileSystem(), number, errno.EACCES)
            for earlier in calls[: number - 1]:
                earlier(files)
            names = files.inner.listdir(ROOT) if number > 1 else []
            with pytest.raises(PermissionError):
                call(files)
            assert (files.inner.listdir(ROOT) if number > 1 else []) == names
            call(files)
            assert len(files.failed) == 1
            assert files.calls == number + 1

    @pytest.mark.parametrize(
        ("fault", "taken"), [(Fault.RAISE, b""), (Fault.PARTIAL, b"0123"), (Fault.SHORT, b"0123")]
    )
    def test_writes_fail_whole_or_by_half(self, fault: Fault, taken: bytes) -> None:
        files = FaultyFileSystem(MemoryFileSystem(), 2, errno.ENOSPC, fault=fault)
        handle = files.open(Path("/a"), FileMode.APPEND)

        with pytest.raises(OSError, match="No space left"):
            write_all(files, handle, b"01234567")

        assert read_file(files.inner, Path("/a")) == taken
        write_all(files, handle, b"89")
        assert read_file(files.inner, Path("/a")) == taken + b"89"

    def test_only_some_names_count_and_failures_go_on(self) -> None:
        files = FaultyFileSystem(MemoryFileSystem(), 2, failures=3, only=["write"])
        handle = files.open(Path("/a"), FileMode.APPEND)
        outcomes = []
        for _ in range(6):
            try:
                outcomes.append(files.write(handle, b"x"))
            except OSError as error:
                outcomes.append(error.errno)
            files.fsync(handle)

        assert outcomes == [1, errno.EIO, errno.EIO, errno.EIO, 1, 1]
        assert (files.calls, files.failed) == (6, ["write"] * 3)

    def test_a_full_disk_takes_what_fits_and_recovers(self) -> None:
        files = MemoryFileSystem(capacity=10)
        handle = files.open(Path("/a"), FileMode.APPEND)
        files.write(handle, b"0123456")

        assert files.write(handle, b"789xxxx") == 3
        for refused in (lambda: files.write(handle, b"x"), lambda: files.truncate(handle, 11)):
            with pytest.raises(OSError, match="No space left") as full:
                refused()
            assert full.value.errno == errno.ENOSPC
        files.truncate(handle, 4)
        assert files.write(handle, b"abc") == 3
        files.capacity = None
        assert files.write(handle, b"x" * 100) == 100
        assert files.used() == 107
