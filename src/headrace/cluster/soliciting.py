"""Reaching the peers of a mesh: one attempt after the other, until a peer is there or given up.

Never lives here: what happens on the connection (`route`), which servers are told of (`gossip`), where a
connection gets its place (`mesh`). Source: nats-server 2.15.1, cluster specification B8.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from headrace.cluster.attempts import Attempts
from headrace.cluster.route import RouteTarget
from headrace.protocol.peers import GOSSIP

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from headrace.cluster.port import Port, Wire
    from headrace.cluster.registry import Registry
    from headrace.cluster.route import RouteSession
    from headrace.conf.peer_options import ClusterOptions, PeerURL


class SolicitingMesh(Protocol):
    """The mesh as its solicitors see it."""

    @property
    def options(self) -> ClusterOptions:
        """The options that are in force now."""

    def solicited(self, wire: Wire, target: RouteTarget) -> RouteSession:
        """Enter a connection to a peer that was reached."""

    def attempted(self) -> None:
        """Note that an attempt has failed, or was given up."""


class Solicitors:
    """All attempts of a mesh to reach peers: at most one for a URL and an account of those heard of.

    Iterates over the attempts that go on, in the order in which they began.
    """

    def __init__(
        self,
        port: Port[RouteSession],
        mesh: SolicitingMesh,
        registry: Registry,
        sessions: Collection[RouteSession],
    ) -> None:
        self.port: Final = port
        self.mesh: Final = mesh
        self.is_stopped = False
        self._registry = registry
        self._sessions = sessions
        self._running: dict[Solicitor, None] = {}  # ordered, so that what happens can be repeated

    def __iter__(self) -> Iterator[Solicitor]:
        return iter(self._running)

    def __len__(self) -> int:
        return len(self._running)

    def stop(self) -> None:
        """End all attempts, and begin no more."""
        self.is_stopped = True
        for solicitor in list(self._running):
            solicitor.stop()

    def wants(self, target: RouteTarget) -> bool:
        """Return True while this peer is to be reached for this account."""
        if self.is_stopped or (target.account and target.account not in self._registry.dedicated):
            return False
        return not target.is_explicit or target.url in self.mesh.options.routes

    def reach(self, urls: Iterable[PeerURL], accounts: Iterable[str]) -> None:
        """Reach configured peers, for the pool ("") or single accounts."""
        urls = tuple(urls)
        for account in accounts:
            for url in urls:
                self.reach_target(RouteTarget(url, is_explicit=True, account=account))

    def reach_target(self, target: RouteTarget, delay: float = 0.0, *, is_first: bool = True) -> None:
        """Begin to reach a peer, after that many seconds; `is_first`: it was never met."""
        Solicitor(self, target, is_first=is_first).start(delay)

    def reach_next_of_pool(self, session: RouteSession) -> None:
        """Begin the next connection of a pool, whose last one the peer has taken."""
        if session.target is not None and not self.is_stopped:
            self.reach_target(session.target)

    def reach_again(self, session: RouteSession, account: str) -> None:
        """Begin a missing connection to the same peer: for an account, or in the pool ("")."""
        if session.target is None:
            return
        target = replace(session.target, account=account, gossip_mode=GOSSIP)
        if self.wants(target) and not self._is_reaching(target):
            self.reach_target(target)

    def reach_heard_of(self, target: RouteTarget) -> None:
        """Reach a server that a peer told of; an attempt that goes on already gets another try."""
        solicitor = self._for(target)
        if solicitor is not None:
            solicitor.renew()
        elif not self._is_reaching(target):
            self.reach_target(target)

    def _for(self, target: RouteTarget) -> Solicitor | None:
        """The attempt to reach the same URL for the same account."""
        where = (target.url, target.account)
        return next((each for each in self._running if (each.target.url, each.target.account) == where), None)

    def _is_reaching(self, target: RouteTarget) -> bool:
        """Return True while a connection is under way: several peers tell of the same server."""
        where = (target.url, target.account)
        return self._for(target) is not None or any(
            each.remote is None and each.target is not None and (each.target.url, each.account) == where
            for each in self._sessions
        )

    # -- called by solicitors ---------------------------------------------------------------------

    def begun(self, solicitor: Solicitor) -> None:
        """Note an attempt that goes on."""
        self._running[solicitor] = None

    def done(self, solicitor: Solicitor) -> None:
        """Forget an attempt that is over."""
        self._running.pop(solicitor, None)


class Solicitor(Attempts):
    """The attempts to reach one target; `solicitors` has it until it is done."""

    def __init__(self, solicitors: Solicitors, target: RouteTarget, *, is_first: bool) -> None:
        super().__init__(solicitors.port, is_first=is_first)
        self.target: Final = target
        self._solicitors = solicitors
        solicitors.begun(self)

    def stop(self) -> None:
        super().stop()
        self._solicitors.done(self)

    @property
    def is_untried(self) -> bool:
        """True while this may still find a peer that was never met."""
        return self._is_first and not self.attempts

    def _try(self) -> None:
        address = self.target.address
        if not self._solicitors.wants(self.target):
            self._host.log(
                logging.DEBUG, f"Not attempting to connect to route {address}, no longer configured"
            )
            self.stop()
            self._solicitors.mesh.attempted()
            return
        self._host.log(logging.DEBUG, f"Trying to connect to route on {address}")
        self._solicitors.port.dial(address, self._connected, self._failed)

    def _connected(self, wire: Wire) -> RouteSession | None:
        if self._is_done or not self._solicitors.wants(self.target):
            self.stop()
            return None
        self.stop()
        return self._solicitors.mesh.solicited(wire, self.target)

    def _failed(self, reason: str | None) -> None:
        if self._is_done:
            return
        mesh = self._solicitors.mesh
        if reason is None:
            self.stop()
            mesh.attempted()
            return
        self.attempts += 1
        self._tell(logging.ERROR, f"Error trying to connect to route (attempt {self.attempts}): {reason}")
        if self._is_renewed:
            self.attempts = 0
            self._due()
        elif not self.target.is_explicit and self.attempts > max(mesh.options.connect_retries, 0):
            self.stop()
        else:
            self._again(backs_off=mesh.options.connect_backoff)
        mesh.attempted()
