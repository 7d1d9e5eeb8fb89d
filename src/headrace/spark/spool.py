"""Captured messages on local disk: Arrow IPC segments that tasks read while they grow.

A segment file is an Arrow IPC stream (schema, then record batches, no end mark while it is written).
Record batches are appended whole with one unbuffered write each, so whoever was told a byte range can
read it from another process. Nothing is synced: a spool lives as long as its query, never longer.
No socket and no Spark session here.

Folder: `headrace-capture-<random>/`, with `lock` (held by the living owner) and `<first sequence>.arrow`.
"""

from __future__ import annotations

import bisect
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import pyarrow as pa

from headrace.spark.errors import DataLossError, SpoolFullError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator

SEGMENT_BYTES: Final = 64 << 20
"""Size at which a segment is closed and the next begun; whole segments are what `discard_below` frees."""

_PREFIX: Final = "headrace-capture-"
_LOCK: Final = "lock"
_JANITOR: Final = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


@dataclass(frozen=True, slots=True)
class SpoolSlice:
    """Rows of one segment: of the record batches in [start, end), less `skip` rows, at most `rows`."""

    path: str
    start: int
    end: int
    skip: int
    rows: int


@dataclass(slots=True)
class _Segment:
    path: Path
    file: BinaryIO
    firsts: list[int] = field(default_factory=list)  # first sequence of each record batch
    starts: list[int] = field(default_factory=list)  # its byte position
    size: int = 0
    next: int = 0


class Spool:
    """The segments of one capture; sequences count from 1 without a gap."""

    def __init__(self, folder: SpoolFolder, schema: pa.Schema, max_bytes: int) -> None:
        self._folder = folder
        self._schema = schema
        self._max_bytes = max_bytes
        self._segment_bytes = min(SEGMENT_BYTES, max_bytes // 4)  # so that a small spool can free some, too
        self._segments: list[_Segment] = []
        self.next = 1
        self.size = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Store the rows with the next sequences. Raises: SpoolFullError, after which the spool is over."""
        body = batch.serialize()
        if self.size + body.size > self._max_bytes:
            raise SpoolFullError(
                f"the spool in {self._folder.path} holds {self.size} bytes of messages that Spark has not "
                f"finished and may hold {self._max_bytes} (option spoolMaxBytes); make the query faster or "
                "the limit higher"
            )
        try:
            segment = self._writable()
            segment.firsts.append(self.next)
            segment.starts.append(segment.size)
            self._write(segment, body)
        except OSError as error:
            raise SpoolFullError(
                f"cannot write captured messages to {self._folder.path} (option spoolDir): {error}"
            ) from error
        self.next += batch.num_rows
        segment.next = self.next

    def slices(self, first: int, end: int) -> tuple[SpoolSlice, ...]:
        """Return the slices of files with the sequences [first, end).

        Raises: DataLossError if they are not here.
        """
        if first >= end:
            return ()
        found = []
        at = first
        for segment in self._segments:
            if not segment.firsts or segment.next <= at or segment.firsts[0] > at:
                continue
            stop = min(end, segment.next)
            low = bisect.bisect_right(segment.firsts, at) - 1
            high = bisect.bisect_left(segment.firsts, stop)
            byte_end = segment.starts[high] if high < len(segment.starts) else segment.size
            found.append(
                SpoolSlice(
                    str(segment.path), segment.starts[low], byte_end, at - segment.firsts[low], stop - at
                )
            )
            at = stop
            if at == end:
                return tuple(found)
        raise DataLossError(f"sequences {at} to {end - 1} are not in the spool {self._folder.path}")

    def discard_below(self, sequence: int) -> None:
        """Free the segments whose rows all come before `sequence`; the one being written stays."""
        while len(self._segments) > 1 and self._segments[0].next <= sequence:
            segment = self._segments.pop(0)
            segment.file.close()
            segment.path.unlink(missing_ok=True)
            self.size -= segment.size

    def close(self) -> None:
        for segment in self._segments:
            segment.file.close()
        self._folder.remove()

    def _writable(self) -> _Segment:
        if self._segments and self._segments[-1].size < self._segment_bytes:
            return self._segments[-1]
        path = self._folder.path / f"{self.next:020}.arrow"
        segment = _Segment(path, path.open("xb", buffering=0))
        self._segments.append(segment)
        self._write(segment, self._schema.serialize())
        return segment

    def _write(self, segment: _Segment, data: pa.Buffer) -> None:
        view = memoryview(data)
        while view:
            view = view[segment.file.write(view) :]
        segment.size += data.size
        self.size += data.size


def read_slices(slices: tuple[SpoolSlice, ...], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows, in order; memory-mapped, so nothing is copied here. Raises: DataLossError."""
    for part in slices:
        try:
            source = pa.memory_map(part.path)
        except OSError as error:
            raise DataLossError(
                f"cannot read captured messages from {part.path}: {error}. If this executor runs on another "
                "host than the driver, set option spoolDir to a directory that all hosts share"
            ) from error
        with source:
            source.seek(part.start)
            body = source.read_buffer(part.end - part.start)
            yield from _cut(pa.ipc.MessageReader.open_stream(pa.BufferReader(body)), part, schema)


def _cut(messages: Any, part: SpoolSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    skip, wanted = part.skip, part.rows
    while wanted:
        batch = pa.ipc.read_record_batch(messages.read_next_message(), schema)
        rows = batch.slice(skip, wanted)
        skip = max(skip - batch.num_rows, 0)
        if rows.num_rows:
            wanted -= rows.num_rows
            yield rows


class SpoolFolder:
    """A folder of our own that disappears with its owner.

    Spark ends sources with SIGKILL, so a process that outlives the owner removes the folder; should that
    one be killed as well, the next capture in the same place sweeps up, seeing that nobody holds the lock.
    """

    def __init__(self, path: Path, lock: int, janitor: subprocess.Popen[bytes]) -> None:
        self.path = path
        self._lock = lock
        self._janitor = janitor

    @classmethod
    def create(cls, parent: str | None) -> SpoolFolder:
        """Make one in `parent` (None: the system's place). Raises: OSError."""
        base = Path(parent or tempfile.gettempdir()).resolve()
        base.mkdir(parents=True, exist_ok=True)
        _sweep(base)
        made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=base))
        lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        _try_lock(lock)
        path = made.rename(base / made.name.removeprefix("."))  # only now can others see and sweep it
        janitor = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _JANITOR, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return cls(path, lock, janitor)

    def remove(self) -> None:
        """Remove it now. A second time does nothing."""
        if self._janitor.stdin is None or self._janitor.stdin.closed:
            return
        self._janitor.stdin.close()
        self._janitor.wait()
        os.close(self._lock)


def _sweep(base: Path) -> None:
    for folder in base.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR)
        except OSError:  # another user's, or being made or removed at this moment
            continue
        try:
            if _try_lock(lock):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _try_lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        return False  # nothing is swept there
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
