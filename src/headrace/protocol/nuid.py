"""Short texts of digits and letters: random ones that nobody else has, and hashes of longer names.

Source: NATS unique ids (NUID, 22 of them); the Go server's short hashes (gateway specification, 4).
"""

from __future__ import annotations

import os
import string
from typing import Final

_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_NUID_LENGTH: Final = 22


def new_nuid() -> str:
    """22 letters and digits that tell one thing from all others."""
    return random_name(_NUID_LENGTH)


def random_name(length: int) -> str:
    """Return a random name of `length` letters and digits."""
    found = ""
    while len(found) < length:  # what is above the alphabet is drawn again: each letter is as likely
        found += "".join(_ALPHABET[b & 63] for b in os.urandom(length) if b & 63 < len(_ALPHABET))
    return found[:length]


def short_hash(text: str, length: int = 8) -> str:
    """Return `length` letters and digits (32 at most) that stand for a longer name."""
    import hashlib

    digest = hashlib.sha256(text.encode()).digest()[:length]
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest)
