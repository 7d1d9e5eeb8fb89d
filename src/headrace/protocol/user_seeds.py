"""A user's seed: proving by a signature over a server's nonce who one is.

Shape of a seed: base32 without padding of 16 bits (5 bits 18 = seed, 8 bits kind, 3 bits zero), the 32-byte
Ed25519 seed, CRC16-XMODEM little-endian. A credentials file holds a user JWT and the seed it was made for,
each between a line of dashes with its name and one that ends it. No message here shows a seed.
Source: client protocol, section 8.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from headrace.errors import HeadraceError
from headrace.protocol.keypairs import SigningKeyPair
from headrace.protocol.nkeys import KeyKind, has_checksum

_SEED: Final = re.compile(r"S[A-Z2-7]{57}")
_SEED_KIND: Final = 18 << 3
_BLOCK: Final = re.compile(r"-{3,}[^\n]*-{3,}\r?\n([\w\-.=]+)\r?\n-{3,}[^\n]*-{3,}")


class SeedError(HeadraceError):
    """A seed, or a file with one, that is no use."""


def proof_of_seed(seed: str, nonce: str) -> dict[str, str]:
    """CONNECT's `nkey` and `sig`. Raises: SeedError.

    Cost: the first call loads the cryptography package.
    """
    pair = _pair(seed, "the nkey")
    return {"nkey": pair.public, "sig": _signature(pair, nonce)}


def proof_of_file(text: str, path: str, nonce: str) -> dict[str, str]:
    """CONNECT's `jwt` and `sig`, from the text of a credentials file. Raises: SeedError.

    Cost: the first call loads the cryptography package.
    """
    found = _BLOCK.findall(text)
    if len(found) < 2:
        raise SeedError(f"{path} is no credentials file: it must have a JWT and a seed")
    return {"jwt": found[0], "sig": _signature(_pair(found[1], path), nonce)}


def _signature(pair: SigningKeyPair, nonce: str) -> str:
    return base64.urlsafe_b64encode(pair.sign(nonce.encode())).rstrip(b"=").decode()


def _pair(seed: str, where: str) -> SigningKeyPair:
    private = _private(seed)
    if private is None:
        raise SeedError(f"{where} has no seed of a user (SU...)")
    return SigningKeyPair(KeyKind.USER, private)


def _private(seed: str) -> bytes | None:
    """The 32 bytes of a user's seed."""
    if not _SEED.fullmatch(seed):
        return None
    raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    kind = (raw[0] & 7) << 5 | raw[1] >> 3
    if not has_checksum(raw) or raw[0] & 0xF8 != _SEED_KIND or kind != KeyKind.USER:
        return None
    return raw[2:-2]
