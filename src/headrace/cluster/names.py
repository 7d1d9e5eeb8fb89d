"""Names of clusters, which must be the same at both ends of a route, and the hashes of names in subjects.

A name that was made up gives way to a configured one, and to a made-up one that is greater.
Source: cluster specification, B7.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

_DIGITS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_HASH_LEN: Final = 6


def gateway_hash(name: str) -> bytes:
    """The hash of a cluster's name, or of a server's id, in `_GR_.` subjects: six letters and digits.

    Source: gateway specification, section 4.
    """
    digest = sha256(name.encode("utf-8", "replace")).digest()
    return bytes(_DIGITS[byte % len(_DIGITS)] for byte in digest[:_HASH_LEN])


class ClusterName:
    """The name of a cluster. `is_dynamic`: nobody configured it, so it may give way."""

    __slots__ = ("is_dynamic", "text")

    def __init__(self, text: str, *, is_dynamic: bool) -> None:
        self.text = text
        self.is_dynamic = is_dynamic

    def gives_way_to(self, other: str, *, is_dynamic: bool) -> bool:
        """Return True when this server takes on the other name, which is not its own."""
        return self.is_dynamic and (not is_dynamic or self.text < other)
