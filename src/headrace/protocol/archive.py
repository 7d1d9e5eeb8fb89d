"""Archives of streams as the Go server makes them (`NATSARC1`): entries with a name, a time, a body.

An entry's body is headers and payload, and the archive says how long each is. What entries of a backup mean
is `headrace.jetstream.state.backup`'s. Pure. Source: backups of the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC: Final = b"NATSARC1"
_LONGEST_NAME: Final = 1 << 20
_LONGEST_NUMBER: Final = 10
"""Bytes of a 64 bit number."""
_LARGEST: Final = (1 << 63) - 1


class BadArchive(ValueError):
    """The bytes are no such archive, or are cut off."""


class ArchiveEntry(NamedTuple):
    """An entry of a backup. `sequence` 0: not a message."""

    name: bytes
    time_ns: int = 0
    sequence: int = 0
    headers: bytes = b""
    payload: bytes = b""

    @property
    def is_end(self) -> bool:
        """The last entry of a backup: without it, it is cut off."""
        return self == ArchiveEntry(b"")


def encode(entry: ArchiveEntry) -> bytes:
    """Return an entry as bytes. `MAGIC` goes before the first one."""
    time_ns = entry.time_ns << 1 if entry.time_ns >= 0 else ~(entry.time_ns << 1)
    numbers = (len(entry.name), time_ns, entry.sequence, len(entry.headers), len(entry.payload))
    return b"".join([*map(_number, numbers), entry.name, entry.headers, entry.payload])


def _number(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


class ArchiveReader:
    """Takes an archive in pieces of any size. `largest`: bytes of one entry's headers and payload."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._rest = b""
        self._has_begun = False

    def feed(self, piece: bytes) -> Iterator[ArchiveEntry]:
        """The entries that are whole now. Raises: BadArchive."""
        self._rest += piece
        if not self._has_begun:
            if len(self._rest) < len(MAGIC):
                return
            if not self._rest.startswith(MAGIC):
                raise BadArchive("not an archive of this format")
            self._rest = self._rest[len(MAGIC) :]
            self._has_begun = True
        at = 0
        while (found := self._entry(at)) is not None:
            entry, at = found
            yield entry
        self._rest = self._rest[at:]

    def _entry(self, at: int) -> tuple[ArchiveEntry, int] | None:
        """The entry there and where the next is; None while it is not whole."""
        numbers: list[int] = []
        for _ in range(5):
            found = self._number(at)
            if found is None:
                return None
            value, at = found
            numbers.append(value)
        name, folded, sequence, headers, payload = numbers
        if name > _LONGEST_NAME or headers + payload > self._largest:
            raise BadArchive(f"an entry of {headers + payload} bytes, with a name of {name}")
        if sequence > _LARGEST:
            raise BadArchive("a sequence beyond the largest")
        end = at + name + headers + payload
        if end > len(self._rest):
            return None
        body = at + name
        time_ns = folded >> 1 ^ -(folded & 1)
        text = self._rest[at:body]
        parts = self._rest[body : body + headers], self._rest[body + headers : end]
        return ArchiveEntry(text, time_ns, sequence, *parts), end

    def _number(self, at: int) -> tuple[int, int] | None:
        value = 0
        for place, byte in enumerate(self._rest[at : at + _LONGEST_NUMBER]):
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value, at + place + 1
        if len(self._rest) - at >= _LONGEST_NUMBER:
            raise BadArchive("a number that does not end")
        return None
