"""The mark of a store that was closed in order: which of its logs are durable, and what they hold.

A log that is opened is synced first: a process that was killed may have left bytes that the system shows and
the disk does not have. With the mark that is not needed, and a log that nobody uses need not be opened at
all: a start over many logs waits for no disk. Here lives the mark's file, and what it takes to believe it;
never what a log does then (`file`, `segments`).

`FileStore` writes the mark last of all, when every log was synced and closed, and takes it away, durably,
before it opens any. So it is there only while nobody has the store open, whatever a crash does. It says of
each log what the system knew its directory and its last segment by, and is not believed when that is not the
same now: a store that was copied, restored or written by something else is synced like any other.

The file `closed`: 8 bytes "HRCLOSE\\n", u32 version, u32 CRC32C of what follows, little-endian; then a
MessagePack map from the name of a log's directory to `ClosedLog`, whose fields are arrays in their order. A
file that is not such a one says nothing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from msgspec import DecodeError, Struct, msgpack

from headrace.engine.records import crc32c
from headrace.log.filesystem import Identity, read_file, remove_file, replace_file
from headrace.log.port import Limits, LogState  # noqa: TC001 - msgspec reads the annotations
from headrace.log.segment import segment_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.log.filesystem import FileSystem

NAME: Final = "closed"
_MAGIC: Final = b"HRCLOSE\n"
_VERSION: Final = 2
_HEAD: Final = struct.Struct("<8sII")


class ClosedLogState(Struct, frozen=True, array_like=True):
    """The state of a closed log under its limits, and the time of its next expiry."""

    limits: Limits
    state: LogState
    next_expiry: int | None

    def answers(self, limits: Limits, now_ns: int) -> bool:
        """True if the state still holds under these limits, now."""
        return limits == self.limits and (limits.waits_for_expire or not self.has_over(now_ns))

    def has_over(self, now_ns: int) -> bool:
        """True if `expire` may have something to remove."""
        return self.next_expiry is not None and self.next_expiry <= now_ns


class Left(Struct, frozen=True, array_like=True):
    """The end of a closed log: its last segment; None: it must be opened to know."""

    base: int
    held: ClosedLogState | None


class ClosedLog(Struct, frozen=True, array_like=True):
    """A log as it was left, and what the system knew its directory and its last segment by."""

    left: Left
    directory: Identity
    segment: Identity


def closed_log(filesystem: FileSystem, directory: Path, left: Left) -> ClosedLog:
    """Read what a closed log looks like on disk now. Raises: OSError."""
    segment = filesystem.identity(segment_path(directory, left.base))
    return ClosedLog(left, filesystem.identity(directory), segment)


def is_unchanged(filesystem: FileSystem, directory: Path, closed: ClosedLog) -> bool:
    """True if a log has not changed on disk since it was closed."""
    try:
        return closed_log(filesystem, directory, closed.left) == closed
    except OSError:
        return False


def write_mark(filesystem: FileSystem, store: Path, logs: Mapping[str, ClosedLog]) -> None:
    """Says of these logs, by the names of their directories, that they are durable. Raises: OSError."""
    data = msgpack.encode(logs)
    replace_file(filesystem, store / NAME, _HEAD.pack(_MAGIC, _VERSION, crc32c(data)) + data)


def take_mark(filesystem: FileSystem, store: Path) -> dict[str, ClosedLog]:
    """Read the mark and remove it; it is removed durably on return. Raises: OSError."""
    try:
        data = read_file(filesystem, store / NAME)
    except FileNotFoundError:
        return {}
    remove_file(filesystem, store / NAME)
    head, body = data[: _HEAD.size], data[_HEAD.size :]
    if head != _HEAD.pack(_MAGIC, _VERSION, crc32c(body)):
        return {}
    try:
        return msgpack.decode(body, type=dict[str, ClosedLog])
    except DecodeError:  # of another release, which called it the same version
        return {}
