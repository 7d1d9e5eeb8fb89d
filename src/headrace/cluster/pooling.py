"""Which connection to a peer an account uses.

Servers compute this on both sides, so the numbers are the protocol's: FNV-1a over the account's name.
Source: cluster specification, B4.
"""

from __future__ import annotations

from typing import Final

DEDICATED: Final = -1
"""The account has connections of its own."""

_OFFSET: Final = 2166136261
_PRIME: Final = 16777619


def pool_index(pool_size: int, account: str) -> int:
    """The connection of a pool that an account uses; 0 when there is but one."""
    if pool_size <= 1:
        return 0
    value = _OFFSET
    for byte in account.encode():
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFF
    return value % pool_size
