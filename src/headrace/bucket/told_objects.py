"""WAL objects that an owner tells its standbys of once they are in the bucket, so that these ask for none.

Here live how such an object is sealed, which servers are told, and what a server that stands by keeps of it.
Never here: messages between servers (`bucket.port.ShardHost`), the judgement of an object (`follower`).

An object is told when it and all before it are in the bucket. Then it is a part of the log for ever (ADR
0038): it may come late, twice, out of order, or of an owner of the past. It is taken where it is the next
number of the epoch and the writer that the reader is at. Else the reader asks the bucket, as for one that got
lost.

An object is sealed with a key made of its writer's id, which stands in the bucket alone: whoever may not read
the bucket can neither read such a message nor make one. The bytes, with numbers in little-endian order: epoch
(8), number (8), the object as it is in the bucket by AES-256-GCM. The nonce is the number, which a writer
uses once; the two numbers and the name of the shard are authenticated.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.bucket.wal_object import WalObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from headrace.bucket.follower import Point

LARGEST_TOLD: Final = 512 << 10
"""Bytes of an object that is told; of a larger one its request is a small part of the cost."""
MOST_HEARERS: Final = 8
"""Servers that are told; others ask the bucket."""
HEARER_S: Final = 1.25
"""Seconds after its last sign of life for which a server is told: one that stands still is told no more."""
MOST_UNHEARD: Final = 16 << 20
"""Bytes that a server is told between two of its signs of life: as many may wait on the way to it."""
MOST_AHEAD: Final = 64
"""Numbers beyond the next one that are kept."""
MOST_KEPT: Final = 16 << 20
"""Bytes of objects that are kept for a reader."""

_HEAD: Final = struct.Struct("<QQ")
_NONCE: Final = struct.Struct("<QI")


class _Cipher:
    """The cipher of one writer. `cryptography` is imported here: who tells nobody does not load it."""

    def __init__(self, shard: str, writer: bytes) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._refusal: Final[type[Exception]] = InvalidTag
        self.writer: Final = writer
        self._shard: Final = shard.encode()
        self._aead: Final[AESGCM] = AESGCM(sha256(b"headrace: objects that are told\0" + writer).digest())

    def sealed(self, epoch: int, number: int, data: bytes) -> bytes:
        head = _HEAD.pack(epoch, number)
        return head + self._aead.encrypt(_NONCE.pack(number, 0), data, head + self._shard)

    def opened(self, sealed: bytes) -> bytes | None:
        """Return the bytes of an object; None: another has sealed them, or they were changed since."""
        head, number = sealed[: _HEAD.size], _HEAD.unpack_from(sealed)[1]
        try:
            return self._aead.decrypt(
                _NONCE.pack(number, 0), memoryview(sealed)[_HEAD.size :], head + self._shard
            )
        except self._refusal:
            return None


class _Hearer:
    """A server that stands by: when it was heard last, and bytes that it was told since."""

    def __init__(self, heard_at: float) -> None:
        self.heard_at = heard_at
        self.told = 0


class ObjectTeller:
    """The objects of one claim, told to the servers that were heard lately.

    `tell(server, sealed)`: sends; False if that server cannot be told so much. Times are seconds.
    """

    def __init__(self, shard: str, epoch: int, writer: bytes, tell: Callable[[str, bytes], bool]) -> None:
        self._shard: Final = shard
        self._epoch: Final = epoch
        self._writer: Final = writer
        self._tell: Final = tell
        self._hearers: Final[dict[str, _Hearer]] = {}
        self._cipher: _Cipher | None = None

    def heard(self, server: str, now: float) -> None:
        """Take a sign of life of a server that stands by."""
        hearer = self._hearers.get(server)
        if hearer is not None:
            hearer.heard_at, hearer.told = now, 0
        elif len(self._hearers) < MOST_HEARERS:
            self._hearers[server] = _Hearer(now)

    def confirmed(self, number: int, data: bytes, now: float) -> set[str]:
        """Tell of an object that is in the bucket with all before it; return the servers that were told."""
        if len(data) > LARGEST_TOLD or not self._hearers:
            return set()
        for server in [each for each, hearer in self._hearers.items() if now - hearer.heard_at > HEARER_S]:
            del self._hearers[server]
        able = [each for each, hearer in self._hearers.items() if hearer.told + len(data) <= MOST_UNHEARD]
        if not able:
            return set()
        if self._cipher is None:
            self._cipher = _Cipher(self._shard, self._writer)
        sealed = self._cipher.sealed(self._epoch, number, data)
        told = {server for server in able if self._tell(server, sealed)}
        for server in told:
            self._hearers[server].told += len(data)
        return told


class ToldNumber(NamedTuple):
    """The epoch and the number that a sealed object claims to have."""

    epoch: int
    number: int


class ToldObjects:
    """The objects of a shard that a reader was told of and has not come to yet, sealed."""

    def __init__(self, shard: str) -> None:
        self._shard: Final = shard
        self._kept: Final[dict[int, bytes]] = {}
        self.size = 0
        """Bytes that are kept."""
        self._cipher: _Cipher | None = None

    def keep(self, sealed: bytes, point: Point) -> ToldNumber | None:
        """Keep an object if it may become the next one; return what it claims to be, None for what is none.

        What it claims is proved by `take` alone.
        """
        if len(sealed) <= _HEAD.size:
            return None
        said = ToldNumber(*_HEAD.unpack_from(sealed))
        if self._kept:
            for number in [each for each in self._kept if each <= point.number]:
                self._drop(number)
        is_near = point.number < said.number <= point.number + MOST_AHEAD and said.epoch >= point.epoch
        if is_near and len(sealed) <= LARGEST_TOLD + 1024:
            self._drop(said.number)
            if self.size + len(sealed) <= MOST_KEPT:
                self._kept[said.number] = sealed
                self.size += len(sealed)
        return said

    def take(self, point: Point) -> WalObject | None:
        """Return the object behind a point, of the same epoch and writer; None: it is to be asked for.

        Raises: DamagedObject, NewerFormat.
        """
        number = point.number + 1
        sealed = self._drop(number)
        if sealed is None or _HEAD.unpack_from(sealed)[0] != point.epoch:
            return None
        cipher = self._cipher
        if cipher is None or cipher.writer != point.writer:
            cipher = self._cipher = _Cipher(self._shard, point.writer)
        data = cipher.opened(sealed)
        return None if data is None else WalObject.unpack(data, self._shard, number)

    def _drop(self, number: int) -> bytes | None:
        sealed = self._kept.pop(number, None)
        if sealed is not None:
            self.size -= len(sealed)
        return sealed
