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
    from headrace.cluster.port import ClusterHost
    from headrace.cluster.reconfiguration import Reconfiguration
    from headrace.cluster.registry import Registry
    from headrace.cluster.route import RouteSession
    from headrace.cluster.soliciting import Solicitors
    from headrace.core.service import Timer


class AntiEntropy:
    """Anti-entropy of one mesh. `_turn`: index of the peer that the others hear of next."""

    def __init__(
        self, host: ClusterHost, registry: Registry, solicitors: Solicitors, reconfiguration: Reconfiguration
    ) -> None:
        self._host = host
        self._registry = registry
        self._solicitors = solicitors
        self._reconfiguration = reconfiguration
        self._turn = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Run a round every `limits.ROUTE_ANTI_ENTROPY` seconds, until `stop`."""
        seconds = limits.ROUTE_ANTI_ENTROPY * (1 + self._host.random() / 5)
        self._timer = self._host.call_later(seconds, self._due)

    def stop(self) -> None:
        """Run no more rounds."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self.start()
        self._reconfiguration.give_back()
        firsts = sorted(self._registry.firsts(), key=lambda first: first.remote_id)
        self._remind(firsts)
        for first in firsts:
            if not first.is_unpooled:
                self._close_gaps(first)
        self._host.wake()

    def _remind(self, firsts: list[RouteSession]) -> None:
        """Tell all others of the next few peers."""
        count = min(limits.ROUTE_REMINDERS, len(firsts))
        for about in (firsts[(self._turn + n) % len(firsts)] for n in range(count)):
            gossip.tell(about, (each for each in firsts if each is not about))
        self._turn += count

    def _close_gaps(self, first: RouteSession) -> None:
        """Begin connections to a peer that should be there and are neither there nor under way."""
        registry, peer = self._registry, first.remote_id
        accounts = self._reconfiguration.pinned_accounts()
        missing = [each for each in accounts if peer not in registry.dedicated[each]]
        if not all(registry.pools[peer]):
            missing.append("")
        for account in islice(missing, limits.ROUTE_REMINDERS):
            self._solicitors.reach_again(first, account)
