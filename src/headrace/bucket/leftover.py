"""The leftover of a backlog: what an earlier process of this server had on its disk.

Here lives what can be said of the files alone: whose they are, which records go on from a position, and what
is damaged. Never here: whether the bucket's log still allows them (`inheritance`).

Records are believed one behind the other, from the position that the bucket has. Where the next one is
missing, the rest was never durable, unless something on disk says that it was: each record says up to where
all was durable when it was written, and so does each segment. Then bytes are damaged that were acknowledged,
and nothing is guessed. A segment ends what earlier ones have behind its base: they were given up there.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.bucket.backlog import BacklogRecord, BacklogSegment
from headrace.bucket.backlog_format import HEAD_BYTES, SegmentHead, read_head, records_of
from headrace.bucket.errors import CacheFailed, DamagedObject, NotOurs
from headrace.log.filesystem import FileMode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from headrace.log.filesystem import FileSystem


class Leftover:
    """The segments of a folder, and their records. `last_number`: the highest number of a segment."""

    def __init__(
        self,
        folder: Path,
        *,
        heads: Iterable[SegmentHead] = (),
        segments: Iterable[BacklogSegment] = (),
        records: Iterable[BacklogRecord] = (),
        last_number: int = 0,
        durable: int = 0,
    ) -> None:
        self.folder: Final = folder
        self.heads: Final = tuple(heads)
        self.segments: Final = tuple(segments)
        self.records: Final = tuple(records)
        self.last_number: Final = last_number
        self._durable: Final = durable
        """The position up to which all was durable, here or in the bucket, as far as the files say."""

    @property
    def first_epoch(self) -> int:
        """The epoch of the first owner whose segments are here; 0: there are none."""
        return min((head.epoch for head in self.heads), default=0)

    @property
    def writers(self) -> frozenset[bytes]:
        """The ids of the claims whose owner wrote here, or was about to."""
        return frozenset(head.writer for head in self.heads)

    def is_of(self, epoch: int, writer: bytes) -> bool:
        """True if the owner of an epoch wrote here, or was about to."""
        return any((head.epoch, head.writer) == (epoch, writer) for head in self.heads)

    def behind(self, position: int) -> list[BacklogRecord]:
        """Return the records that go on from a position. Raises: DamagedObject if durable ones miss."""
        found: list[BacklogRecord] = []
        end = position
        for record in self.records:
            if record.end <= end:
                continue
            if record.start != end:
                break
            found.append(record)
            end = record.end
        if self._durable > end:
            raise DamagedObject(
                f"{self.folder}: changes behind position {end} were acknowledged and are damaged, up to "
                f"{self._durable}: move the folder away to go on with what the bucket has"
            )
        return found

    def close(self, files: FileSystem) -> None:
        """Close segments that were opened to read records of them."""
        for segment in self.segments:
            if segment.handle >= 0:
                files.close(segment.handle)
                segment.handle = -1

    def lost_behind(self, position: int) -> LostRecords:
        """Return what there is behind a position, whether it goes on from there or not."""
        lost = [record for record in self.records if record.end > position]
        times = [record.time_ns for record in lost]
        size = sum(record.size for record in lost)
        return LostRecords(len(lost), size, min(times, default=0), max(times, default=0))


class LostRecords(NamedTuple):
    """Groups of changes that are in no bucket: how many, their bytes, the times of the first and the last."""

    groups: int
    bytes: int
    first_ns: int
    last_ns: int


def read_leftover(files: FileSystem, folder: Path, shard: str, url: str) -> Leftover:
    """Read the segments of a folder, which may be missing. `url`: the digest of the bucket's.

    Raises: CacheFailed; NotOurs for one of another shard or bucket; DamagedObject, NewerFormat.
    """
    try:
        if not files.is_directory(folder):
            return Leftover(folder)
        names = sorted(name for name in files.listdir(folder) if name.isdecimal())
        files.fsync_dir(folder)
        return _read(files, folder, names, shard, url)
    except OSError as error:
        raise CacheFailed(f"{folder}: {error.strerror or error}") from error


def _read(files: FileSystem, folder: Path, names: list[str], shard: str, url: str) -> Leftover:
    heads: list[SegmentHead] = []
    segments: list[BacklogSegment] = []
    records: list[BacklogRecord] = []
    durable = 0
    for name in names:
        path = folder / name
        data = _durable_bytes(files, path)
        if len(data) <= HEAD_BYTES and not _is_begun(data, path):
            segments.append(BacklogSegment(path, 0, 0))
            continue
        head = read_head(data, str(path))
        if (head.shard, head.url) != (shard, url):
            raise NotOurs(f"{path} is of another bucket, or of shard {head.shard}: move it away")
        segment = BacklogSegment(path, head.seed, head.base)
        while records and records[-1].end > head.base:
            records.pop()
        durable = max(durable, head.base)
        for at, one in records_of(data, head):
            records.append(
                BacklogRecord(one.start, one.end, one.is_cut, one.size, one.time_ns, 0.0, None, segment, at)
            )
            segment.end = max(segment.end, one.end)
            durable = max(durable, one.synced)
        heads.append(head)
        segments.append(segment)
    return Leftover(
        folder,
        heads=heads,
        segments=segments,
        records=records,
        last_number=int(names[-1]) if names else 0,
        durable=durable,
    )


def _is_begun(data: bytes, path: Path) -> bool:
    """True if a segment without records has its head: one that was cut off has nothing in it."""
    with contextlib.suppress(DamagedObject):
        read_head(data, str(path))
        return True
    return False


def _durable_bytes(files: FileSystem, path: Path) -> bytes:
    """Return a file as it is on the disk: a killed process may have left what was not synced, and what a sync
    that failed has dropped.
    """
    handle = files.open(path, FileMode.READ)
    try:
        files.fsync(handle)
        files.forget_read(handle)
        return files.pread(handle, files.size(handle), 0)
    finally:
        files.close(handle)
