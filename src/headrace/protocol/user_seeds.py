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

_SEED: Final = re.compile(r"\bS[A-Z2-7]{57}\b")
_SEED_KIND: Final = 18 << 3
_BLOCK: Final = re.compile(r"-{3,}[^\n]*-{3,}\s+([\w\-.=]+)\s+-{3,}[^\n]*-{3,}")


class SeedError(HeadraceError):
    """A seed, or a file with one, that cannot be used."""


def find_seed(text: str, where: str) -> str:
    """Return the seed in the text of a file that has nothing else but comments. Raises: SeedError."""
    match = _SEED.search(text)
    seed = "" if match is None else match[0]
    _private(seed, where)
    return seed


def read_credentials(text: str, where: str) -> tuple[str, str]:
    """Return the JWT and the seed in the text of a credentials file. Raises: SeedError."""
    found = _BLOCK.findall(text)
    if len(found) < 2:
        missing = "USER NKEY SEED" if found else "NATS USER JWT"
        raise SeedError(f"{where} has no {missing}: is it a credentials file?")
    _private(found[1], where)
    return found[0], found[1]


def prove(seed: str, nonce: str, *, jwt: str | None = None, where: str = "the seed") -> dict[str, str]:
    """Return the fields that CONNECT has for a signed nonce: `sig`, and the `jwt` or else the `nkey`.

    Raises: SeedError that names `where` the seed was found.

    Cost: the first call loads the cryptography package.
    """
    pair = SigningKeyPair(KeyKind.USER, _private(seed, where))
    signature = base64.urlsafe_b64encode(pair.sign(nonce.encode())).rstrip(b"=").decode()
    return {"nkey": pair.public, "sig": signature} if jwt is None else {"jwt": jwt, "sig": signature}


def _private(seed: str, where: str) -> bytes:
    """Return the 32 private bytes of a user's seed. Raises: SeedError."""
    if not _SEED.fullmatch(seed):
        raise SeedError(f"{where} has no seed of a user (SU...)")
    raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    if not has_checksum(raw):
        raise SeedError(f"{where}: the checksum of the seed is wrong")
    if raw[0] & 0xF8 != _SEED_KIND or (raw[0] & 7) << 5 | raw[1] >> 3 != KeyKind.USER:
        raise SeedError(f"{where}: the seed is not one of a user (SU...)")
    return raw[2:-2]
