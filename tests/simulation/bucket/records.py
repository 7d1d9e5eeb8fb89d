"""A state that a shard's log drives: numbered records with ids and keys, in place of changes of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from headrace.bucket.journal import JournalSpan
from headrace.bucket.wal_object import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.bucket.wal_object import WalObject


class Broken(Exception):
    """The log of a shard cannot be what one owner after the other wrote."""


class Record(msgspec.Struct, frozen=True, array_like=True):
    """A message: `identity` is its publisher's, `key` its subject."""

    sequence: int
    identity: str
    key: str
    value: str


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Record]).decode


class Records:
    """All records, by sequence from 1; the sequence by identity, and of the newest of each key."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.all: Final[list[Record]] = []
        self.by_identity: Final[dict[str, int]] = {}
        self.by_key: Final[dict[str, list[int]]] = {}
        for record in records:
            self.add(record)

    @classmethod
    def unpack(cls, data: bytes) -> Records:
        return cls(_decode(data))

    def pack(self) -> bytes:
        return _encode(self.all)

    def add(self, record: Record) -> None:
        """Raises: Broken."""
        if record.sequence != len(self.all) + 1 or record.identity in self.by_identity:
            raise Broken(f"{record} behind {self.all[-1:]}")
        self.all.append(record)
        self.by_identity[record.identity] = record.sequence
        self.by_key.setdefault(record.key, []).append(record.sequence)

    def apply(self, wal_object: WalObject) -> None:
        """Raises: Broken."""
        if wal_object.payload and wal_object.kind == Kind.COMMIT:
            for record in _decode(wal_object.payload):
                self.add(record)

    def newest(self, key: str, last: int) -> Record | None:
        """Return the newest record of a key among those up to a sequence."""
        for sequence in reversed(self.by_key.get(key, ())):
            if sequence <= last:
                return self.all[sequence - 1]
        return None


class RecordJournal:
    """Records that wait for their commit (`headrace.bucket.writer.ChangeSource`). Positions are sequences."""

    def __init__(self, position: int) -> None:
        self.position = position
        self._waiting: list[Record] = []

    def record(self, record: Record) -> None:
        self._waiting.append(record)
        self.position = record.sequence

    @property
    def pending_bytes(self) -> int:
        """So much for each that few of them are a burst, whose rest is waited for."""
        return 4000 * len(self._waiting)

    def watch(self, _size: int) -> None:
        """Do nothing: the writer looks after each record anyway."""

    def take(self, _most_bytes: int) -> JournalSpan | None:
        if not self._waiting:
            return None
        taken = JournalSpan((_encode(self._waiting),), self.position, is_cut=False)
        self._waiting = []
        return taken
