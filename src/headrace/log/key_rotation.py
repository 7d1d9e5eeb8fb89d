"""Key rotation: a store is rewritten with another key, with another algorithm, or without encryption.

Here lives the rewriting, done before any log is opened, so that an open log knows one key only. Never
here: where keys come from, records (`headrace.engine.records`), what is said about it.

1. Every segment of every log is looked at by its header. One that no key fits ends it; nothing has changed.
2. Log by log, first the checkpoint: sealed once more, or where bodies become longer, one that counts on no
   file, so that the log is read as a whole and yet knows which sequences were given.
3. Then each segment is written beside itself, made durable and renamed: a record keeps its place among the
   others, its checksum is begun with the same salt. What is damaged stays byte for byte, or becomes zeros
   where it was plain. Bodies that were sealed keep their length: offsets, indexes and checkpoint stay true.

Each step leaves a log that can be read with both keys, and a second run goes on where the first was cut off.
It needs room for one segment more. The old bytes are given back to the file system, not overwritten.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.engine.sequence_set import SequenceSet
from headrace.errors import StorageError
from headrace.log.encryption import OVERHEAD
from headrace.log.filesystem import (
    DRAFT,
    FileMode,
    read_file,
    remove_file,
    replace_file,
    storage_errors,
    write_all,
)
from headrace.log.ledger import Checkpoint
from headrace.log.outline import Outline
from headrace.log.recovery import CHECKPOINT, LogRecovery
from headrace.log.segment import (
    BEGINNING,
    CEILING,
    HEADER_BYTES,
    SEALED,
    Header,
    Segment,
    base_of,
    load_packed,
    packer_of,
    read_records,
    segment_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem

TOLD_EVERY: Final = 1 << 30
"""Bytes between two lines about how far it is."""
_NAMES: Final = {"aes-gcm": "AES-GCM", "chacha20-poly1305": "ChaCha20-Poly1305"}
_ON_NO_FILE: Final = 1 << 62
"""An offset that no segment reaches: a checkpoint with it does not fit."""


class Conversion(Struct, frozen=True):
    """Progress of a conversion, reported before the first segment of a log and after each.

    `done` and `total`: bytes of segments, of all logs.
    """

    log: bytes
    was_plain: bool
    """True if a part of the log was not sealed at all."""
    is_begun: bool
    """True for the first report about a log."""
    done: int
    total: int


class Told:
    """Says in a log how a conversion goes on: log by log, now and then, and once at the end.

    `shown`: what a log of messages is called there. `says`: takes a line.
    """

    def __init__(self, cipher: Cipher, shown: Callable[[bytes], str], says: Callable[[str], object]) -> None:
        self._cipher = cipher
        self._shown = shown
        self._says = says
        self._next = TOLD_EVERY
        self.has_converted = False

    def __call__(self, at: Conversion) -> None:
        self.has_converted = True
        if at.is_begun:
            name = self._shown(at.log)
            algorithm = _NAMES[self._cipher.algorithm]
            self._says(f"Encrypting {name}" if at.was_plain else f"Converting to {algorithm} for {name}")
        elif at.done >= self._next:
            self._next = at.done + TOLD_EVERY
            self._says(f"Encrypted {at.done >> 20} of {at.total >> 20} MB")

    def end(self) -> None:
        """Log that everything is encrypted with the present key, if a segment was converted."""
        if self.has_converted:
            self._says("All that is stored is encrypted with the key and cipher of the configuration now")


class _Outdated(Struct, frozen=True):
    """A segment that is not sealed with the key. `cipher`: the one it is sealed with, if it is."""

    path: Path
    header: Header
    cipher: Cipher | None
    size: int


def convert(
    logs: Mapping[bytes, Path], filesystem: FileSystem, cipher: Cipher, told: Callable[[Conversion], object]
) -> None:
    """Seal everything in the directories of logs with `cipher`. Nobody may have one of them open.

    Raises: StorageError; when no key fits a segment, before anything is changed.
    """
    look = _Look(filesystem, cipher)
    found = {name: outdated for name, directory in logs.items() if (outdated := look.at(directory))}
    sealing = _Sealing(filesystem, cipher)
    done, total = 0, sum(segment.size for outdated in found.values() for segment in outdated)
    for name, outdated in found.items():
        directory = logs[name]
        was_plain = any(segment.cipher is None for segment in outdated)
        told(Conversion(name, was_plain, is_begun=True, done=done, total=total))
        with storage_errors(f"cannot encrypt {directory.name}"):
            sealing.remove_drafts(directory)
            sealing.checkpoint(directory, grows=was_plain)
            for segment in outdated:
                sealing.segment(segment)
                done += segment.size
                told(Conversion(name, was_plain, is_begun=False, done=done, total=total))
            filesystem.fsync_dir(directory)


class _Look:
    """The parts of logs that are not sealed with the key."""

    def __init__(self, filesystem: FileSystem, cipher: Cipher) -> None:
        self._fs = filesystem
        self._cipher = cipher
        self._keys = (cipher, *cipher.previous)

    def at(self, directory: Path) -> list[_Outdated]:
        """The segments of a log that are to be sealed. Raises: StorageError."""
        found = []
        with storage_errors(f"cannot read the log in {directory.name}"):
            names = self._fs.listdir(directory)
            for base in sorted(base for name in names if (base := base_of(name)) is not None):
                segment = self._segment(directory, base)
                if segment is not None:
                    found.append(segment)
        return found

    def _segment(self, directory: Path, base: int) -> _Outdated | None:
        """Return how a segment is outdated; None: it has the right key, or that cannot be known."""
        path = segment_path(directory, base)
        handle = self._fs.open(path, FileMode.READ)
        try:
            size, start = self._fs.size(handle), self._fs.pread(handle, BEGINNING, 0)
        finally:
            self._fs.close(handle)
        header = Header.read(start)
        if header is None or header.base != base:
            return self._without_header(directory, base)
        if not header.flags & SEALED:
            return _Outdated(path, header, None, size)
        for one in self._keys:
            if one.segment(header.salt, base).check == header.check:
                return None if one is self._cipher else _Outdated(path, header, one, size)
        raise StorageError(f"{directory.name}/{path.name} is encrypted with another key or algorithm")

    def _without_header(self, directory: Path, base: int) -> _Outdated | None:
        """One whose header is damaged in both places, by what recovery makes of it with each key."""
        for one in self._keys:
            segment = LogRecovery(directory, self._fs, one).without_header(base)
            if segment is None:
                return None  # recovery says what is lost
            if not segment.is_sealed or self._opens(one, segment):
                key = one if segment.is_sealed else None
                is_done = key is self._cipher
                return None if is_done else _Outdated(segment.path, segment.header, key, segment.size)
        return None

    def _opens(self, cipher: Cipher, segment: Segment) -> bool:
        """True if a key opens any record of a segment that is not compressed."""
        scan = segment.scan(segment.base, CEILING, 0, cipher)
        found: list[Outline] = []
        data = read_records(self._fs, segment)
        scan.outline(data, True, Outline, 0, CEILING, None, SequenceSet(), 0, found, 1)
        return bool(found)


class _Sealing:
    """Puts what is sealed with the key in the place of what is not. All methods raise OSError."""

    def __init__(self, filesystem: FileSystem, cipher: Cipher) -> None:
        self._fs = filesystem
        self._cipher = cipher

    def remove_drafts(self, directory: Path) -> None:
        for name in self._fs.listdir(directory):
            if name.endswith(DRAFT):
                self._fs.unlink(directory / name)

    def checkpoint(self, directory: Path, *, grows: bool) -> None:
        """Encrypt the checkpoint of a log. `grows`: what it says of files is not true any more."""
        path = directory / CHECKPOINT
        try:
            data = read_file(self._fs, path)
        except FileNotFoundError:
            return
        try:
            saved = Checkpoint(self._opened(data))
        except ValueError:  # recovery would pass over it, and it may be plain
            remove_file(self._fs, path)
            return
        offset, entries = (_ON_NO_FILE, {}) if grows else (saved.offset, saved.segments)
        plain = saved.ledger.dump(saved.salt, saved.base, offset, entries.values(), saved.weights)
        replace_file(self._fs, path, self._cipher.checkpoint().seal(plain, b""))

    def _opened(self, checkpoint: bytes) -> bytes:
        """One that no key opens is plain, or damaged."""
        for one in (self._cipher, *self._cipher.previous):
            plain = one.checkpoint().open(checkpoint, b"")
            if plain is not None:
                return plain
        return checkpoint

    def segment(self, old: _Outdated) -> None:
        """Durable but for its name."""
        path = old.path
        check = self._cipher.segment(old.header.salt, old.header.base).check
        new = replace(old.header, flags=old.header.flags | SEALED, check=check)
        draft = path.with_name(path.name + DRAFT)
        source = self._fs.open(path, FileMode.READ)
        try:
            target = self._fs.open(draft, FileMode.APPEND)
            try:
                write = partial(write_all, self._fs, target)
                copy = self._frames if new.is_packed else self._records
                copy(old, new, source, write)
                self._fs.fsync(target)
            finally:
                self._fs.close(target)
        finally:
            self._fs.close(source)
        self._fs.rename(draft, path)

    def _records(self, old: _Outdated, new: Header, source: int, write: Callable[[bytes], object]) -> None:
        data = self._fs.pread(source, max(old.size - HEADER_BYTES, 0), HEADER_BYTES)
        scan = Segment(old.path, old.header, old.size).scan(new.base, CEILING, 0, old.cipher)
        seal = self._cipher.segment(new.salt, new.base).seal
        blanks = old.cipher is None  # what is damaged would stay there to be read
        write(new.pack() + scan.resealed(data, new.again(), seal, OVERHEAD, blanks))

    def _frames(self, old: _Outdated, new: Header, source: int, write: Callable[[bytes], object]) -> None:
        """Convert the frames of a compressed segment: their bodies are plain, and each frame is sealed."""
        write(new.beginning())
        packed = load_packed(self._fs, source, old.header, old.cipher)
        if packed is None:  # nothing in it can be found; recovery says what is lost
            write(self._fs.pread(source, max(old.size - BEGINNING, 0), BEGINNING))
            return
        segment = Segment(old.path, new, old.size)
        scan = segment.scan(new.base, CEILING, 0, None)
        packer = packer_of(segment, self._cipher, write)
        packer.add(scan.resealed(packed.read(self._fs, source, packed.size, 0), new.again()))
        packer.finish(None)
