"""Encryption at rest: bodies of records and checkpoints, by AES-256-GCM or ChaCha20-Poly1305.

Here lives what is done with a key; never where a key comes from, nor files. A record's header stays readable
(sequence, time, lengths); subject, reply, headers and payload do not, and both are authenticated together.

Each segment has a key of its own (HKDF-SHA256 of the log's key over the segment's salt and base), and each
body a random nonce of 12 bytes in front and a tag of 16 behind: so no key meets more than the few million
bodies of one segment, where random nonces are safe, also when a sequence is used again after a crash.
`cryptography` is imported when a cipher is made: a server without one does not load it.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

Algorithm: TypeAlias = Literal["aes-gcm", "chacha20-poly1305"]

ALGORITHMS: Final[tuple[Algorithm, ...]] = ("aes-gcm", "chacha20-poly1305")
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
OVERHEAD: Final = NONCE_BYTES + 16
"""Bytes that a sealed body is longer than the plain one."""
CHECK_BYTES: Final = 8
SEGMENTS_KEPT: Final = 64
"""Keys of segments kept derived; deriving one takes some 20 us."""


class SegmentCipher:
    """Seals and opens what belongs to one segment."""

    def __init__(self, aead: AESGCM | ChaCha20Poly1305, check: bytes) -> None:
        self._aead = aead
        self.check: Final = check
        """Bytes by which another key is told from this one; they say nothing about either."""

    def seal(self, plain: bytes, header: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, plain, header)

    def open(self, sealed: bytes, header: bytes) -> bytes | None:
        """Decrypt and authenticate a record; None when it was not sealed with this key and header."""
        from cryptography.exceptions import InvalidTag

        if len(sealed) < OVERHEAD:
            return None
        try:
            return self._aead.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], header)
        except InvalidTag:
            return None


class Cipher:
    """A log's key. `key`: 32 bytes, random. `previous`: keys that files may still be sealed with, which only
    `key_rotation` looks at. Raises: ValueError for another length or algorithm.
    """

    def __init__(
        self, key: bytes, algorithm: Algorithm = "aes-gcm", previous: tuple[Cipher, ...] = ()
    ) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        if algorithm not in ALGORITHMS:
            raise ValueError(f"unknown encryption {algorithm!r}: aes-gcm or chacha20-poly1305")
        self.algorithm: Final[Algorithm] = algorithm
        self.previous: Final = previous
        self._key: Final = key
        self._make: Final = AESGCM if algorithm == "aes-gcm" else ChaCha20Poly1305
        self._name: Final = algorithm.encode()
        self._segments: OrderedDict[tuple[int, int], SegmentCipher] = OrderedDict()

    def segment(self, salt: int, base: int) -> SegmentCipher:
        found = self._segments.get((salt, base))
        if found is None:
            found = self._derive(b"segment" + struct.pack("<IQ", salt, base))
            if len(self._segments) >= SEGMENTS_KEPT:
                self._segments.popitem(last=False)
            self._segments[(salt, base)] = found
        return found

    def checkpoint(self) -> SegmentCipher:
        """Return the cipher for checkpoints, which name subjects."""
        return self._derive(b"checkpoint")

    def _derive(self, purpose: bytes) -> SegmentCipher:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = b"headrace log " + self._name + b" " + purpose
        derived = HKDF(SHA256(), KEY_BYTES + CHECK_BYTES, salt=None, info=info).derive(self._key)
        return SegmentCipher(self._make(derived[:KEY_BYTES]), derived[KEY_BYTES:])
