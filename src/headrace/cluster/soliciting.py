"""Reaching a peer: one attempt after the other, until it is there or given up.

Never lives here: what happens on the connection (`route`), whether the peer is wanted (`mesh` is asked each
time). Source: nats-server 2.15.1, cluster specification B8.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.cluster.attempts import Attempts
from headrace.cluster.port import Address
from headrace.protocol.peers import GOSSIP

if TYPE_CHECKING:
    from headrace.cluster.mesh import Mesh
    from headrace.cluster.port import Wire
    from headrace.cluster.route import RouteSession
    from headrace.conf.peer_options import PeerURL


class Target(Struct, frozen=True):
    """Whom to reach, and what for.

    `is_explicit`: the configuration names it, so it is tried for ever. `account`: the connection is for this
    account alone; "" for the pool. `gossip_mode`: how the peer was heard of.
    """

    url: PeerURL
    is_explicit: bool = False
    account: str = ""
    gossip_mode: int = GOSSIP

    @property
    def address(self) -> Address:
        return Address(self.url.host, self.url.port)


class Solicitor(Attempts):
    """The attempts to reach one target; `mesh.solicitors` has it until it is done."""

    def __init__(self, mesh: Mesh, target: Target, *, is_first: bool) -> None:
        super().__init__(mesh.port, is_first=is_first)
        self.target: Final = target
        self._mesh = mesh
        mesh.solicitors[self] = None

    def stop(self) -> None:
        super().stop()
        self._mesh.solicitors.pop(self, None)

    @property
    def is_untried(self) -> bool:
        """Whether this may still find a peer that was never met."""
        return self._is_first and not self.attempts

    def _try(self) -> None:
        if not self._mesh.wants(self.target):
            self._mesh.debug(
                f"Not attempting to connect to route {self.target.address}, no longer configured"
            )
            self.stop()
            self._mesh.duplicates.check()
            return
        self._mesh.debug(f"Trying to connect to route on {self.target.address}")
        self._mesh.port.dial(self.target.address, self._connected, self._failed)

    def _connected(self, wire: Wire) -> RouteSession | None:
        if self._is_done or not self._mesh.wants(self.target):
            self.stop()
            return None
        self.stop()
        return self._mesh.solicited(wire, self.target)

    def _failed(self, reason: str | None) -> None:
        if self._is_done:
            return
        if reason is None:
            self.stop()
            self._mesh.duplicates.check()
            return
        self.attempts += 1
        self._tell(logging.ERROR, f"Error trying to connect to route (attempt {self.attempts}): {reason}")
        options = self._mesh.options
        if self._is_renewed:
            self.attempts = 0
            self._due()
        elif not self.target.is_explicit and self.attempts > max(options.connect_retries, 0):
            self.stop()
        else:
            self._again(backs_off=options.connect_backoff)
        self._mesh.duplicates.check()
