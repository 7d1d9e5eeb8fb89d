"""The bridge: the one server that carries messages between peers that cannot speak to each other.

A server of 1.x and one that speaks only 2.x are never connected. One that speaks both is connected to either,
and of all such servers exactly one may pass on what they say, or it would arrive twice: the bridge. It tells
each side what the other wants; what then goes where is the engine's (`engine.remote`).

The bridge is the server that speaks both and has run for longest, so that one that joins, or comes back,
takes nothing over. It is known by what all such servers say in their INFO, so no votes are needed. A server
that knows of no older one waits before it begins (`limits.ROUTE_BRIDGE_WAIT`): a mesh that forms, or whose
bridge was lost for a moment, has found itself by then. One that meets an older server stops at once.

Source: cluster specification, A3 (nothing that came over a route goes to another one), and ADR 0026.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace import limits

if TYPE_CHECKING:
    from headrace.cluster.port import ClusterHost
    from headrace.cluster.registry import Registry
    from headrace.cluster.route import RouteSession
    from headrace.core.service import Timer

_NO_SIDE, _LEGACY_SIDE, _MODERN_SIDE = 0, 1, 2
"""Sides as `RouteLink.take_side` takes them."""


class Bridge:
    """The bridge of one mesh.

    `speaks_both`: this server speaks both protocols, so it may become the bridge. `is_on`: this server is
    the bridge, whether or not there are peers on both sides.
    """

    def __init__(self, host: ClusterHost, registry: Registry, *, speaks_both: bool) -> None:
        self.is_on = False
        self._host: Final = host
        self._registry: Final = registry
        self._speaks_both: Final = speaks_both
        self._timer: Timer | None = None
        self._is_needed = False

    def start(self) -> None:
        """Become the bridge after a while, unless an older server is met."""
        self._weigh()

    def stop(self) -> None:
        """Cancel the wait. No connection may be registered, and no peer leave, after this."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def met(self, session: RouteSession) -> None:
        """Give a newly registered connection its side, before any interest is told on it."""
        self._weigh()
        session.link.take_side(self._side_of(session))
        self._note()

    def left(self) -> None:
        """Decide anew, since a peer is gone."""
        self._weigh()
        self._note()

    def _weigh(self) -> None:
        if not self._speaks_both:
            return
        own = self._host.identity()
        age = own.started_ns, own.server_id
        if any(_is_older(session, age) for session in self._registry.firsts()):
            self.stop()
            self._turn(is_on=False)
        elif not self.is_on and self._timer is None:
            self._timer = self._host.call_later(limits.ROUTE_BRIDGE_WAIT, self._due)

    def _due(self) -> None:
        self._timer = None
        self._turn(is_on=True)

    def _turn(self, *, is_on: bool) -> None:
        if is_on == self.is_on:
            return
        self.is_on = is_on
        for session in self._registry:
            session.link.take_side(self._side_of(session))
        self._note()
        self._host.wake()

    def _side_of(self, session: RouteSession) -> int:
        if not self.is_on:
            return _NO_SIDE
        if session.is_legacy:
            return _LEGACY_SIDE
        speaks_both = session.remote is not None and session.remote.legacy_routes
        return _NO_SIDE if speaks_both else _MODERN_SIDE

    def _note(self) -> None:
        """Log it when messages are carried from now on, or no longer."""
        sides = {self._side_of(session) for session in self._registry.firsts()}
        is_needed = {_LEGACY_SIDE, _MODERN_SIDE} <= sides
        if is_needed != self._is_needed:
            self._is_needed = is_needed
            begins = "Carrying" if is_needed else "No longer carrying"
            self._host.log(logging.INFO, f"{begins} messages between routes of 1.x and of 2.x")


def _is_older(session: RouteSession, age: tuple[int, str]) -> bool:
    """Return True when the peer speaks both protocols, and is older than this server.

    `age`: when this server started, in ns, and its server_id.
    """
    peer = session.remote
    return peer is not None and peer.legacy_routes and (peer.started_ns, peer.server_id) < age
