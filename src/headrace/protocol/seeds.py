"""Seeds: the private halves of nkeys as text, of every kind.

Shape of a seed: base32 without padding of 16 bits (5 bits 18 = seed, 8 bits kind, 3 bits zero), the 32
private bytes, CRC16-XMODEM little-endian: 58 characters, `S` and the letter of the kind first. No message
here shows a seed. Never lives here: what is signed or encrypted by one (`keypairs`), how a user is proved
(`user_seeds`).
Source: client protocol, section 8.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from headrace.errors import HeadraceError
from headrace.protocol.nkeys import KeyKind, has_checksum, with_checksum

PRIVATE_BYTES: Final = 32
"""Bytes of a private key of any kind."""
_SEED: Final = re.compile(r"\bS[A-Z2-7]{57}\b")
_SEED_KIND: Final = 18 << 3


class SeedError(HeadraceError):
    """A seed, or a file with one, that cannot be used."""


def is_seed(text: str) -> bool:
    """True if a text has the form of a seed; its checksum may be wrong."""
    return _SEED.fullmatch(text) is not None


def encode_seed(kind: KeyKind, private: bytes) -> str:
    """Return the text form of 32 private bytes. Raises: ValueError for another length."""
    if len(private) != PRIVATE_BYTES:
        raise ValueError(f"a private key has {PRIVATE_BYTES} bytes, not {len(private)}")
    body = bytes([_SEED_KIND | kind >> 5, (kind & 31) << 3]) + private
    return base64.b32encode(with_checksum(body)).decode().rstrip("=")


def decode_seed(seed: str, where: str, what: str = "seed") -> tuple[KeyKind, bytes]:
    """Return the kind and the 32 private bytes of a seed.

    Raises: SeedError that names `where` the seed was found and `what` it should be.
    """
    if not is_seed(seed):
        raise SeedError(f"{where} has no {what}")
    raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    if not has_checksum(raw):
        raise SeedError(f"{where}: the checksum of the seed is wrong")
    if raw[0] & 0xF8 == _SEED_KIND:
        try:
            return KeyKind((raw[0] & 7) << 5 | raw[1] >> 3), raw[2:-2]
        except ValueError:
            pass
    raise SeedError(f"{where}: the seed is of no known kind")


def seed_in(text: str) -> str:
    """Return the seed in the text of a file that has nothing else but comments; "" for none."""
    match = _SEED.search(text)
    return "" if match is None else match[0]
