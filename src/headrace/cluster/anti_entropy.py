"""Anti-entropy of the mesh: now and then peers hear again of other peers, and missing connections are made.

An INFO about a new server goes once to each peer. On a connection that is dead, and not yet known to be, it
is lost; so may be the attempt that it would have caused. Without anti-entropy such a hole in the mesh would
stay until one of the two servers starts again. Peers that know what they are told ignore it, the Go
server's too.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from headrace import limits
from headrace.cluster import gossip

if TYPE_CHECKING:
    from headrace.cluster.mesh import Mesh
    from headrace.cluster.port import Timer
    from headrace.cluster.route import RouteSession


class AntiEntropy:
    """Anti-entropy of one mesh. `_turn`: index of the peer that the others hear of next."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._turn = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        """From now on, until `stop`."""
        seconds = limits.ROUTE_ANTI_ENTROPY * (1 + self._mesh.port.random() / 5)
        self._timer = self._mesh.port.call_later(seconds, self._due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self.start()
        self._mesh.reconfiguration.give_back()
        firsts = sorted(self._mesh.registry.firsts(), key=lambda first: first.remote_id)
        self._remind(firsts)
        for first in firsts:
            if not first.is_unpooled:
                self._close_gaps(first)
        self._mesh.port.wake()

    def _remind(self, firsts: list[RouteSession]) -> None:
        """The next few peers are told of to all others."""
        count = min(limits.ROUTE_REMINDERS, len(firsts))
        for about in (firsts[(self._turn + n) % len(firsts)] for n in range(count)):
            gossip.tell(about, (each for each in firsts if each is not about))
        self._turn += count

    def _close_gaps(self, first: RouteSession) -> None:
        """Connections to a peer that should be there and are not, nor on their way."""
        mesh = self._mesh
        slots = mesh.registry.pools[first.remote_id]
        accounts = mesh.pinned_accounts(mesh.options)
        missing = [each for each in accounts if first.remote_id not in mesh.registry.dedicated[each]]
        if not all(slots):
            missing.append("")
        for account in islice(missing, limits.ROUTE_REMINDERS):
            mesh.close_gap(first, account)
