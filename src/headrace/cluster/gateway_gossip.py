"""Gossip about gateways: servers of a cluster tell each other of other clusters, and those of its servers.

A cluster is told of by its name and the addresses of its servers. Never lives here: which clusters are known
and reached (`gateways`), gossip about routes (`gossip`). Source: gateway specification, section 5.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from headrace.protocol.peers import TELL_OF_GATEWAY, PeerInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.cluster.gateway import GatewaySession
    from headrace.cluster.port import GatewayPort
    from headrace.cluster.route import RouteSession


class GossipingGateways(Protocol):
    """The gateways of a server, as their gossip sees them."""

    @property
    def is_stopped(self) -> bool:
        """True once other clusters are told nothing any more."""

    @property
    def url(self) -> str:
        """The address, `host:port`, at which servers of other clusters reach this one."""

    @property
    def outbound(self) -> dict[str, GatewaySession]:
        """The registered connection to each cluster."""

    @property
    def inbound(self) -> Iterable[GatewaySession]:
        """The registered connections from servers of other clusters."""

    def info(self) -> PeerInfo:
        """This server's INFO as of now."""

    def heard_of(self, info: PeerInfo) -> None:
        """Reach a cluster that a peer told of, unless it is known."""


class GatewayGossip:
    """The gossip of one server. It is told of its routes by the mesh."""

    def __init__(self, port: GatewayPort[GatewaySession], gateways: GossipingGateways) -> None:
        self._port: Final = port
        self._gateways: Final = gateways
        self._urls: Counter[str] = Counter()

    def start(self) -> None:
        """Count this server among those of its cluster."""
        self._urls[self._gateways.url] += 1

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of this cluster's servers, `host:port`."""
        return tuple(self._urls)

    def tell_routes(self, info: PeerInfo) -> None:
        """Tell the other servers of this cluster where another cluster is."""
        told = PeerInfo(
            server_id=self._id_on_routes,
            server_name=self._port.identity().server_name,
            gateway=info.gateway,
            gateway_urls=info.gateway_urls,
            gateway_cmd=TELL_OF_GATEWAY,
        )
        self._port.tell_routes(told.line())

    def route_added(self, session: RouteSession, info: PeerInfo) -> None:
        """Tell other clusters where a new server of this cluster is, and tell the server of them."""
        if info.gateway_url:
            self._urls[info.gateway_url] += 1
            if self._urls[info.gateway_url] == 1:
                self._tell_clusters()
        for each in self._gateways.outbound.values():
            if each.other is not None:
                session.link.send(each.other.told_by(self._id_on_routes))

    def route_removed(self, info: PeerInfo) -> None:
        """Tell other clusters that a server of this cluster has gone."""
        if not info.gateway_url or self._gateways.is_stopped or not self._urls[info.gateway_url]:
            return
        self._urls[info.gateway_url] -= 1
        if not self._urls[info.gateway_url]:
            del self._urls[info.gateway_url]
            self._tell_clusters()

    def heard_over_route(self, info: PeerInfo, session: RouteSession) -> None:
        """Act on what a server of this cluster says of gateways."""
        if info.gateway_cmd == TELL_OF_GATEWAY:
            self._gateways.heard_of(info)
        else:
            session.log(logging.ERROR, f"Unknown command {info.gateway_cmd} from server {session.remote_id}")

    def _tell_clusters(self) -> None:
        line = self._gateways.info().line()
        for session in self._gateways.inbound:
            session.link.send(line)
        self._port.wake()

    @property
    def _id_on_routes(self) -> str:
        """The id by which servers of this cluster know that an INFO is not about who sends it."""
        return f"GW{self._port.identity().server_id}"
