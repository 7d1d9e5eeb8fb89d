"""The registered connections: for each peer those of its pool, and those of single accounts.

A peer is known by its server_id. Nothing is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.route import RouteSession


class Registry:
    """`pools`: by peer, its connections by index. `dedicated`: by account, then by peer.

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
        """Those of pools."""
        for slots in self.pools.values():
            yield from filter(None, slots)

    def firsts(self) -> Iterator[RouteSession]:
        """One for each peer: the first of its pool that is there."""
        for slots in self.pools.values():
            found = next(filter(None, slots), None)
            if found is not None:
                yield found

    def carrying(self, account: str) -> Iterator[RouteSession]:
        """One for each peer to which this account has one of its own, else the first of the pool."""
        own = self.dedicated.get(account, {})
        yield from own.values()
        yield from (first for first in self.firsts() if first.remote_id not in own)

    def remove(self, session: RouteSession) -> bool:
        """True when it was the last one of its peer's pool."""
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
        """What is in a pool of at least that size: a copy."""
        slots = self.pools.get(peer, [])
        return [*slots, *[None] * (size - len(slots))]

    def place(self, session: RouteSession) -> None:
        """The connection has this index in its peer's pool, whatever was there."""
        slots = self.pools[session.remote_id] = self.places(session.remote_id, session.pool_size)
        slots[session.pool_index] = session
        self._fit(slots)

    @staticmethod
    def _fit(slots: list[RouteSession | None]) -> None:
        """Gives up places that a pool had before one of the two servers got other options."""
        del slots[max(each.pool_size for each in slots if each is not None) :]
