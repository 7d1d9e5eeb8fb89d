"""The files of a stream's messages: which there are, and each as the records in it.

    msgs/N.blk  N.key  index.db        __new_msgs__/  (a purge that was not finished: it is what counts)

A block is, from the outside, enciphered, then compressed, then records. Source: nats-server 2.15
(filestore.go).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.engine import message_blocks
from headrace.engine.s2 import Stream
from headrace.importing.findings import Finding, Severity, SourceUnusable
from headrace.jetstream.importing.crypt import WrongKey
from headrace.jetstream.importing.detecting import MESSAGES
from headrace.jetstream.importing.stream_index import Varints
from headrace.protocol.s2 import STREAM_BEGIN

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.jetstream.importing.crypt import Keys

_PURGED: Final = "__new_msgs__"
_BLOCK: Final = re.compile(r"([1-9][0-9]{0,9})\.blk")
_COMPRESSED: Final = b"cmp"
_S2: Final = b"\x01"
_CHUNK_HEAD: Final = 4
_CHECKSUM: Final = 8
_LARGEST: Final = 1 << 30
"""Bytes of a file, and of a block that is decompressed: nats-server writes blocks of some megabytes."""


class DamagedRange(NamedTuple):
    """Damaged bytes of a block, without its encryption and compression.

    `records`: how many of the block's records are before them. `is_cut`: the block ends within a record.
    """

    offset: int
    length: int
    records: int
    is_cut: bool


class MessageBlock(NamedTuple):
    """A block as it was read. `found`: parts of the file that could not even be made plain."""

    records: list[tuple[int, int, int, bytes, bytes, bytes]]
    places: list[DamagedRange]
    size: int
    checksum: bytes
    """The last one in it, by which an index names its end; zeros in a block without any."""
    found: list[Finding]


class BlockFiles:
    """The message blocks of one stream.

    `account` and `stream` are what its keys are made for; `shown` is how files are named.
    """

    def __init__(self, directory: Path, account: str, stream: str, keys: Keys, shown: str) -> None:
        purged = directory / _PURGED
        self.directory: Final = purged if _has_blocks(purged) else directory / MESSAGES
        self._account = account
        self._stream = stream
        self._keys = keys
        self._shown = f"{shown}/{self.directory.name}"
        names = (path.name for path in _listed(self.directory))
        self.numbers: Final = sorted(int(match[1]) for name in names if (match := _BLOCK.fullmatch(name)))

    def name(self, number: int) -> str:
        """Return the name of a block's file in findings."""
        return f"{self._shown}/{number}.blk"

    def size(self, number: int) -> int:
        """Return the bytes of a block's file. Raises: SourceUnusable."""
        try:
            return self._path(number).stat().st_size
        except OSError as error:
            raise _unreadable(error) from error

    def read(self, number: int, *, bodies: bool = True) -> MessageBlock:
        """Read a block. Raises: SourceUnusable when the disk fails."""
        data = read_file(self._path(number))
        key = hashlib.sha256(f"{self._stream}-{number}".encode()).digest()
        try:
            plain, chunks = decompressed(self._deciphered(number, data))
        except (WrongKey, ValueError) as error:
            return MessageBlock([], [], len(data), b"", [self._damage(number, str(error), 0, len(data))])
        records, places = message_blocks.scan(key, plain, bodies)
        checksum = plain[-_CHECKSUM:].rjust(_CHECKSUM, b"\0")
        found = [self._damage(number, "a compressed part is damaged", *chunk) for chunk in chunks]
        return MessageBlock(records, [DamagedRange(*place) for place in places], len(data), checksum, found)

    def _damage(self, number: int, text: str, offset: int, length: int) -> Finding:
        return Finding(Severity.DAMAGED, self.name(number), text, offset, length)

    def _deciphered(self, number: int, data: bytes) -> bytes:
        """Return the bytes of a block, decrypted. As in nats-server, a block without a key file is not
        encrypted.

        Raises: WrongKey, SourceUnusable.
        """
        key_file = self._path(number).with_suffix(".key")
        if not key_file.is_file():
            return data
        opened = self._keys.open(self._account, f"{self._stream}:{number}", read_file(key_file))
        return opened.decipher(data)

    def _path(self, number: int) -> Path:
        return self.directory / f"{number}.blk"


def decompressed(block: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """A block without its compression, if it has one, and the chunks of it (offset, length) that are damaged.

    How large it was is not to be relied on: servers before 2.12 wrote another size there. Raises: ValueError.
    """
    if not block.startswith(_COMPRESSED) or block[3:4] != _S2:
        return block, []
    at = Varints(block, 4)
    at.unsigned()
    end = len(block) - _CHECKSUM
    parts: list[bytes] = []
    damaged: list[tuple[int, int]] = []
    stream = _begun()
    plain = 0
    while at.at < end:
        offset = at.at
        size = _CHUNK_HEAD + int.from_bytes(block[offset + 1 : offset + _CHUNK_HEAD], "little")
        chunk = block[offset : min(offset + size, end)]
        at.at += size
        try:
            parts.append(stream.decompress(chunk))
        except ValueError:
            stream = _begun()
            damaged.append((offset, len(chunk)))
            continue
        plain += len(parts[-1])
        if plain > _LARGEST:
            raise ValueError("decompressed, it is larger than a block can be")
    if stream.held:
        damaged.append((offset, len(chunk)))
    return b"".join(parts) + block[end:], damaged


def _begun() -> Stream:
    stream = Stream()
    stream.decompress(STREAM_BEGIN)
    return stream


def read_file(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises: SourceUnusable, also for a pipe, which has no end, and for what is too large.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise SourceUnusable(f"cannot read {path}: it is no regular file")
            if status.st_size > _LARGEST:
                raise SourceUnusable(
                    f"cannot read {path}: nats-server has no file of {status.st_size:,} bytes"
                )
            return file.read()
    except OSError as error:
        raise _unreadable(error) from error


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _has_blocks(directory: Path) -> bool:
    return any(_BLOCK.fullmatch(path.name) for path in _listed(directory))


def _listed(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> SourceUnusable:
    return SourceUnusable(f"cannot read {error.filename}: {error.strerror}")
