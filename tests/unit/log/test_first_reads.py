"""What opening a log reads, and what is foreseen of it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from headrace.log.encryption import KEY_BYTES, Cipher
from headrace.log.file import FileLog
from headrace.log.filesystem import FileMode, RealFileSystem
from headrace.log.first_reads import FirstRead, is_log, reads_by_contents, reads_by_name
from headrace.log.port import NO_LIMITS, Limits, NewMessage, SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BLOCK: Final = 1 << 20
"""Bytes that are brought together, as from a bucket."""
SEGMENT: Final = 4 << 20
CIPHER: Final = Cipher(bytes(KEY_BYTES))


class Watched(RealFileSystem):
    """A file system that tells which blocks of files are read."""

    def __init__(self) -> None:
        self.blocks: set[tuple[str, int]] = set()
        self._names: dict[int, str] = {}

    def open(self, path: Path, mode: FileMode) -> int:
        handle = super().open(path, mode)
        self._names[handle] = path.name
        return handle

    def descriptor(self, handle: int) -> int | None:
        """Nobody reads by it."""
        return None

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        end = min(offset + size, self.size(handle))
        self.blocks |= blocks([FirstRead(self._names[handle], offset, end)])
        return super().pread(handle, size, offset)


def blocks(reads: Iterable[FirstRead]) -> set[tuple[str, int]]:
    return {(name, block) for name, start, end in reads for block in range(start // BLOCK, -(-end // BLOCK))}


def opened(
    directory: Path, limits: Limits, cipher: Cipher | None, filesystem: RealFileSystem | None = None
) -> FileLog:
    return FileLog(
        directory,
        limits=limits,
        filesystem=filesystem,
        segment_bytes=SEGMENT,
        sync=SyncPolicy.NEVER,
        cipher=cipher,
    )


@pytest.mark.parametrize("cipher", [None, CIPHER], ids=["plain", "encrypted"])
@pytest.mark.parametrize(
    "limits",
    [NO_LIMITS, Limits(max_messages=500), Limits(max_messages=1000, compresses=True)],
    ids=["all", "the last ones", "compressed"],
)
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("count", [3, 1200])
def test_all_that_opening_reads_is_foreseen(
    tmp_path: Path, limits: Limits, cipher: Cipher | None, count: int, is_closed: bool
) -> None:
    random = Random(count)
    log = opened(tmp_path / "log", limits, cipher)
    for number in range(count):
        log.append([NewMessage(b"s.%d" % (number % 7), random.randbytes(5_000) + bytes(5_000))])
    if is_closed:
        log.close()
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "log").iterdir()}
    assert is_log(sizes)
    files = RealFileSystem()
    foreseen = {
        *reads_by_name(sizes),
        *reads_by_contents(tmp_path / "log", sizes, files, cipher),
    }
    watched = Watched()
    again = opened(tmp_path / "log", limits, cipher, watched)
    assert again.state().last_sequence == count
    assert again.read(again.state().first_sequence) is not None
    missed = watched.blocks - blocks(foreseen)
    if limits.compresses or (limits.max_messages and not is_closed):  # as the module says
        assert all(block and name.endswith(".log") for name, block in missed)
    else:
        assert not missed
    most = sum(read.end - read.start for read in foreseen)
    assert most <= 2 * SEGMENT + len(sizes) * BLOCK, "it is not all of a large log"
    again.close()
    log.close()
