"""The contract between gateways and whoever has sockets, clocks and accounts.

Contracts only; the life of a connection is as in `port`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.cluster.port import ClusterHost, SessionT_contra

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cluster.port import Address, Wire


class GatewayPort(ClusterHost, Protocol[SessionT_contra]):
    """The server as `Gateways` sees it."""

    def dial(
        self,
        gateway: str,
        address: Address,
        connected: Callable[[Wire], SessionT_contra | None],
        failed: Callable[[str | None], object],
    ) -> None:
        """Connect to a server of a cluster, with TLS if that has it, else as `Port.dial`."""

    def is_taken(self, server_name: str) -> bool:
        """Return True for the name of this server, or of another one of its cluster."""

    def tell_routes(self, line: bytes) -> None:
        """Send a line to every other server of the cluster, once to each."""
