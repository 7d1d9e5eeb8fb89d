"""The bytes of a log's files that opening it reads, for who can bring many of them at once.

Where files are elsewhere, each read waits for its answer, and opening makes one read after the other. Names
and sizes of the files tell most of them beforehand; a checkpoint tells the rest. Nothing here is needed: what
is not foreseen is read when opening comes to it, as messages that were removed since the checkpoint, and the
first ones of a segment that is compressed. Never here: where bytes come from; opening itself (`recovery`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.engine.records import HEADER_BYTES as RECORD_HEADER_BYTES
from headrace.log.encryption import OVERHEAD
from headrace.log.filesystem import FileMode, read_file
from headrace.log.index import SPACING, SparseIndex
from headrace.log.ledger import Checkpoint
from headrace.log.packing import TAIL
from headrace.log.recovery import CHECKPOINT
from headrace.log.retention import FRONT
from headrace.log.segment import BEGINNING, HEADER_BYTES, INDEX_SUFFIX, Header, base_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem

LARGEST_FRONT: Final = 32 << 20
"""Bytes of first messages that are foreseen at most: of larger ones opening reads on by itself."""


class FirstRead(NamedTuple):
    """The bytes [start, end) of a file of a log's directory, by its name."""

    name: str
    start: int
    end: int


def is_log(sizes: Mapping[str, int]) -> bool:
    """True if a directory with files of these names and sizes holds a log."""
    return any(base_of(name) is not None for name in sizes)


def reads_by_name(sizes: Mapping[str, int]) -> Iterator[FirstRead]:
    """Yield what opening a log reads whatever is in it: heads of segments, indexes, the checkpoint."""
    for name, size in sizes.items():
        if base_of(name) is not None:
            yield FirstRead(name, 0, min(BEGINNING, size))
        elif name == CHECKPOINT or name.endswith(INDEX_SUFFIX):
            yield FirstRead(name, 0, size)


def reads_by_contents(
    directory: Path, sizes: Mapping[str, int], filesystem: FileSystem, cipher: Cipher | None
) -> Iterator[FirstRead]:
    """Yield what it reads besides, once the reads by name are at hand.

    That is what was written since the checkpoint, or all without one; the first message; the tables of
    compressed segments. Raises: OSError.
    """
    saved = _checkpoint(directory, sizes, filesystem, cipher)
    bases = {base: name for name in sizes if (base := base_of(name)) is not None}
    if saved is None:
        yield from (FirstRead(name, 0, sizes[name]) for name in bases.values())
        return
    first = max((base for base in bases if base <= saved.ledger.floor), default=0)
    front = _front_bytes(saved)
    for base, name in sorted(bases.items()):
        size, path = sizes[name], directory / name
        if base > saved.base:
            yield FirstRead(name, 0, size)
            continue
        if base == saved.base:
            yield FirstRead(name, HEADER_BYTES + max(saved.offset - SPACING, 0), size)
        header = _header(path, filesystem)
        if header is not None and header.is_packed:
            yield FirstRead(name, max(size - TAIL, 0), size)
        elif header is not None and base >= first and front > 0:
            start = HEADER_BYTES + _offset_of(saved, path, header, size, filesystem)
            yield FirstRead(name, start, min(start + front, size))
            front -= size - start


def _front_bytes(saved: Checkpoint) -> int:
    """Return about the bytes from the mark of an index in front of the first messages to their end."""
    ledger = saved.ledger
    mean = ledger.bytes // max(ledger.messages, 1) + RECORD_HEADER_BYTES + OVERHEAD
    return min(2 * SPACING + (FRONT + 1) * mean, LARGEST_FRONT)


def _checkpoint(
    directory: Path, sizes: Mapping[str, int], filesystem: FileSystem, cipher: Cipher | None
) -> Checkpoint | None:
    """Return a log's checkpoint; None: there is none that can be read."""
    if CHECKPOINT not in sizes:
        return None
    data = read_file(filesystem, directory / CHECKPOINT)
    opened = data if cipher is None else cipher.checkpoint().open(data, b"")
    try:
        return Checkpoint(opened or b"")
    except ValueError:
        return None


def _header(path: Path, filesystem: FileSystem) -> Header | None:
    handle = filesystem.open(path, FileMode.READ)
    try:
        return Header.read(filesystem.pread(handle, BEGINNING, 0))
    finally:
        filesystem.close(handle)


def _offset_of(saved: Checkpoint, path: Path, header: Header, size: int, filesystem: FileSystem) -> int:
    """Return the offset, in the segment that holds it, of the first message; 0 if no index tells."""
    end = HEADER_BYTES + saved.offset if header.base == saved.base else size
    try:
        data = read_file(filesystem, path.with_suffix(INDEX_SUFFIX))
    except FileNotFoundError:
        return 0
    index = SparseIndex.load(data, header.salt, header.base, end)
    return 0 if index is None else index.before_sequence(saved.ledger.floor)[0]
