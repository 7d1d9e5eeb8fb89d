"""The registered connections: for each peer those of its pool, and those of single accounts.

A peer is known by its server_id. Nothing is decided here but which connection of a pool an account uses:
servers compute that on both sides, so the numbers are the protocol's, FNV-1a over the account's name.
Source: cluster specification, B4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.route import RouteSession

DEDICATED: Final = -1
"""Instead of an index in a pool: the account has connections of its own."""

_OFFSET: Final = 2166136261
_PRIME: Final = 16777619


def pool_index(pool_size: int, account: str) -> int:
    """The index, from 0, of the connection of a pool that an account uses; 0 without a pool."""
    if pool_size <= 1:
        return 0
    value = _OFFSET
    for byte in account.encode():
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFF
    return value % pool_size


class Registry:
    """The registered connections of one mesh.

    `pools`: by peer, its connections by index. `dedicated`: by account, then by peer.

    An account that is to have connections of its own is in `dedicated` also while it has none.
    """

    def __init__(self) -> None:
        self.pools: dict[str, list[RouteSession | None]] = {}
        self.dedicated: dict[str, dict[str, RouteSession]] = {}

    def __iter__(self) -> Iterator[RouteSession]:
        yield from self.pooled()
        for connections in self.dedicated.values():
            yield from connections.values()

    def pooled(self) -> Iterator[RouteSession]:
        """All connections of pools."""
        for slots in self.pools.values():
            yield from filter(None, slots)

    def firsts(self) -> Iterator[RouteSession]:
        """One connection for each peer: the first of its pool that is there."""
        for slots in self.pools.values():
            found = next(filter(None, slots), None)
            if found is not None:
                yield found

    def carrying(self, account: str) -> Iterator[RouteSession]:
        """One connection for each peer: the account's own if there is one, else the first of the pool."""
        own = self.dedicated.get(account, {})
        yield from own.values()
        yield from (first for first in self.firsts() if first.remote_id not in own)

    def has(self, peer: str) -> bool:
        """True if a connection to a peer is registered, of whichever kind."""
        return peer in self.pools or any(peer in each for each in self.dedicated.values())

    def remove(self, session: RouteSession) -> bool:
        """Forget a connection. Returns True when it was the last one of its peer's pool."""
        if session.account:
            own = self.dedicated.get(session.account, {})
            if own.get(session.remote_id) is session:
                del own[session.remote_id]
            return False
        slots = self.pools.get(session.remote_id)
        if slots is None or not session.is_registered or slots[session.pool_index] is not session:
            return False
        slots[session.pool_index] = None
        if any(slots):
            self._fit(slots)
            return False
        del self.pools[session.remote_id]
        return True

    def places(self, peer: str, size: int) -> list[RouteSession | None]:
        """A copy of the connections in a pool, by index, of at least that size."""
        slots = self.pools.get(peer, [])
        return [*slots, *[None] * (size - len(slots))]

    def place(self, session: RouteSession) -> None:
        """Put a connection at its `pool_index` of its peer's pool, whatever was there."""
        slots = self.pools[session.remote_id] = self.places(session.remote_id, session.pool_size)
        slots[session.pool_index] = session
        self._fit(slots)

    @staticmethod
    def _fit(slots: list[RouteSession | None]) -> None:
        """Drop the places that a pool had before one of the two servers got other options."""
        del slots[max(each.pool_size for each in slots if each is not None) :]
