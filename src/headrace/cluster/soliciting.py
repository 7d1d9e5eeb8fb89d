"""Reaching a peer: one attempt after the other, until it is there or given up.

Never lives here: what happens on the connection (`route`), whether the peer is wanted (`mesh` is asked each
time). Source: nats-server 2.15.1, cluster specification B8.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.cluster.port import Address
from headrace.protocol.peers import GOSSIP

if TYPE_CHECKING:
    from headrace.cluster.mesh import Mesh
    from headrace.cluster.port import Timer, Wire
    from headrace.cluster.route import RouteSession
    from headrace.conf.peer_options import PeerURL

_FIRST_REPORTS: Final = 3600
"""Of a peer that was never reached every so many failures are errors in the log; of others each."""


@dataclass(frozen=True, slots=True)
class Target:
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


class Solicitor:
    """The attempts to reach one target; `mesh.solicitors` has it until it is done.

    `is_first`: it was not reached before, so that failures are told less often.
    """

    def __init__(self, mesh: Mesh, target: Target, *, is_first: bool) -> None:
        self.target: Final = target
        self.attempts = 0
        self._mesh = mesh
        self._is_first = is_first
        self._delay = limits.ROUTE_RETRY
        self._timer: Timer | None = None
        self._is_done = False
        mesh.solicitors[self] = None

    def start(self, delay: float = 0.0) -> None:
        """Begins after that many seconds."""
        if delay:
            self._timer = self._mesh.port.call_later(delay, self._try)
        else:
            self._try()

    def stop(self) -> None:
        """No more attempts; one that is under way comes to nothing."""
        self._is_done = True
        self._mesh.solicitors.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_untried(self) -> bool:
        """Whether this may still find a peer that was never met."""
        return self._is_first and not self.attempts

    def _try(self) -> None:
        self._timer = None
        if not self._mesh.wants(self.target):
            self._mesh.debug(
                f"Not attempting to connect to route {self.target.address}, no longer configured"
            )
            self.stop()
            self._mesh.rivals.check()
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
            self._mesh.rivals.check()
            return
        self.attempts += 1
        every = _FIRST_REPORTS if self._is_first else 1
        is_told = self.attempts == 1 or self.attempts % every == 0
        self._mesh.port.log(
            logging.ERROR if is_told else logging.DEBUG,
            f"Error trying to connect to route (attempt {self.attempts}): {reason}",
        )
        retries = self._mesh.options.connect_retries
        if not self.target.is_explicit and self.attempts > max(retries, 0):
            self.stop()
        else:
            self._timer = self._mesh.port.call_later(self._delay, self._try)
        self._mesh.rivals.check()
        if self._mesh.options.connect_backoff:
            self._delay = min(2 * self._delay, limits.ROUTE_RETRY_MOST)
