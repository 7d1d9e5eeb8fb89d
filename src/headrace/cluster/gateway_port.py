"""What gateways are given by whoever has sockets, clocks and accounts.

Contracts only; the life of a connection is as in `port`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.cluster.port import Host, SessionT_contra

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cluster.port import Address, Wire


class GatewayPort(Host, Protocol[SessionT_contra]):
    """What `Gateways` needs of its server."""

    def dial(
        self,
        gateway: str,
        address: Address,
        connected: Callable[[Wire], SessionT_contra | None],
        failed: Callable[[str | None], object],
    ) -> None:
        """Connects to a server of a cluster, with TLS if that has it, else as `Port.dial`."""

    def is_taken(self, server_name: str) -> bool:
        """Whether this server, or another one of its cluster, has that name."""

    def tell_routes(self, line: bytes) -> None:
        """Sends a line to every other server of the cluster, once to each."""
