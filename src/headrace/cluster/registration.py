"""The registration of a route: the place that a connection gets when its peer has introduced itself, or none.

A place is one of a peer's pool, or that of a single account. Where a peer has two connections for one place,
one of them is closed. Never lives here: what follows from a new connection (`mesh`), the places (`registry`).

Source: cluster specification B4 and B5; the rules for redundant connections from nats-server 2.15.1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from headrace.cluster import gossip
from headrace.cluster.registry import DEDICATED
from headrace.cluster.route import RouteTarget
from headrace.engine.reasons import CloseReason
from headrace.protocol.peers import OURS

if TYPE_CHECKING:
    from headrace.cluster.port import ClusterHost
    from headrace.cluster.registry import Registry
    from headrace.cluster.route import RouteSession
    from headrace.conf.peer_options import ClusterOptions
    from headrace.protocol.peers import PeerInfo


class RegisteringMesh(Protocol):
    """The mesh as registration sees it."""

    @property
    def options(self) -> ClusterOptions:
        """The options that are in force now."""

    @property
    def server_id(self) -> str:
        """The id of this server, which stays the same."""

    @property
    def is_stopped(self) -> bool:
        """True once no connection is registered any more."""

    def registered(self, session: RouteSession, info: PeerInfo, *, is_first: bool) -> None:
        """Let interest and messages pass on a connection that has its place.

        `is_first`: it is the first one of its peer's pool, or of its peer for its account.
        """


class Registration:
    """The way of a mesh's connections into its registry."""

    def __init__(self, host: ClusterHost, mesh: RegisteringMesh, registry: Registry) -> None:
        self._host: Final = host
        self._mesh: Final = mesh
        self._registry: Final = registry

    def introduced(self, session: RouteSession, info: PeerInfo) -> None:
        """Give a connection its place, or close it, when the peer's first INFO came."""
        account, options = session.account, self._mesh.options
        if session.target is None:
            session.target = RouteTarget(gossip.url_to(info, info.host, info.port, options))
        if self._mesh.is_stopped:
            session.close(CloseReason.SERVER_SHUTDOWN)
        elif account and self._host.interest(account) is None:
            session.refuse_loudly(
                f'Unable to lookup account "{account}": account missing', CloseReason.MISSING_ACCOUNT
            )
        elif info.route_pool_size < 1 or options.pool_size < 1:
            if account:
                session.may_reconnect = False
                session.violates(
                    f'Not possible to have a dedicated route for account "{account}" between those servers'
                )
            else:
                session.is_unpooled = True
                self._add_unpooled(session, info)
        elif account:
            self._add_dedicated(session, info)
        else:
            self._add_pooled(session, info)

    def _add_unpooled(self, session: RouteSession, info: PeerInfo) -> None:
        slots = self._registry.pools.get(info.server_id)
        if slots is None:
            self._register(session, info, 0)
            return
        existing = slots[0]
        if existing is not None and self._prevails(session, existing, info):
            self._replace(session, existing, info)
        else:
            self._close_redundant(session, existing, may_reconnect=False)

    def _add_dedicated(self, session: RouteSession, info: PeerInfo) -> None:
        account = session.account
        connections = self._registry.dedicated.get(account)
        if connections is None:
            session.violates(f'No route for account "{account}"')
            return
        existing = connections.get(info.server_id)
        if existing is None:
            self._register(session, info, DEDICATED)
        elif self._prevails(session, existing, info):
            self._replace(session, existing, info)
        else:
            self._close_redundant(session, existing, may_reconnect=False)

    def _add_pooled(self, session: RouteSession, info: PeerInfo) -> None:
        size = max(self._mesh.options.pool_size, info.route_pool_size)
        index = info.route_pool_idx
        if session.was_solicited and index:
            session.violates(f"Route pool index should not be set but is set to {index}")
            return
        if not 0 <= index < size:
            session.violates(f"Invalid route pool index: {index} - pool size is {info.route_pool_size}")
            return
        slots = self._registry.places(info.server_id, size)
        session.pool_size = size
        if session.was_solicited:
            for other in filter(None, slots):
                other.take_target_of(session)
            if None not in slots[:size]:
                self._debug(f'Route pool size reached, closing extra connection to "{info.server_id}"')
                self._close_redundant(session, None, may_reconnect=False)
                return
            self._register(session, info, slots.index(None))
            return
        existing = slots[index]
        if existing is None:
            solicited = next((each for each in slots if each is not None and each.is_solicited), None)
            if solicited is not None:
                session.take_target_of(solicited)
            self._register(session, info, index)
        elif self._prevails(session, existing, info):
            self._replace(session, existing, info)
        else:
            self._close_redundant(session, existing, may_reconnect=True)

    def _prevails(self, session: RouteSession, existing: RouteSession, info: PeerInfo) -> bool:
        """Return True when a connection takes the place of one to the same peer; else it is closed.

        When two servers connect to each other at the same time, each may have registered what it began
        itself, and each would close what the other began: none would be left. So the one begun by the
        server with the lower id stays. The Go server does not give way; but a place in a pool that it asks
        for is free at its side, so what is registered for it here never will be there.
        """
        if session.was_solicited == existing.was_solicited:
            return False
        is_lower = self._mesh.server_id < info.server_id
        if info.git_commit.startswith(OURS):
            return session.was_solicited == is_lower and not existing.has_answered
        is_pooled = not session.account and not session.is_unpooled
        return is_pooled and existing.was_solicited

    def _close_redundant(
        self, session: RouteSession, existing: RouteSession | None, *, may_reconnect: bool
    ) -> None:
        """Close a connection whose peer has another one, which keeps where to reach the peer again."""
        self._debug(f'Detected duplicate remote route "{session.remote_id}"')
        session.may_reconnect = may_reconnect
        if existing is not None:
            if session.is_solicited:
                existing.take_target_of(session)
            existing.retries = True
        session.close(CloseReason.DUPLICATE_ROUTE)

    def _replace(self, session: RouteSession, existing: RouteSession, info: PeerInfo) -> None:
        if existing.is_solicited:
            session.take_target_of(existing)
        self._register(session, info, existing.pool_index)
        existing.is_registered = False
        self._close_redundant(existing, session, may_reconnect=False)

    def _register(self, session: RouteSession, info: PeerInfo, index: int) -> None:
        peer, is_first = info.server_id, True
        session.pool_index = index
        session.is_registered = True
        self._debug(f'Registering remote route "{peer}"')
        session.send_delayed_info(index)
        if session.account:
            self._registry.dedicated[session.account][peer] = session
        else:
            self._registry.place(session)
            slots = self._registry.pools[peer]
            count = sum(each is not None for each in slots)
            is_first = count == 1
            session.starts_next = session.was_solicited and not session.is_unpooled and count < len(slots)
        self._mesh.registered(session, info, is_first=is_first)

    def _debug(self, text: str) -> None:
        self._host.log(logging.DEBUG, text)
