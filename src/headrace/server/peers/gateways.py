"""The gateways of a server: their port, connections to other clusters, and the server as they see it.

Here `headrace.cluster.gateways` meets the server. Never lives here: the rules of gateways, and what other
kinds of peers need as well (`host`, `machine_port`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cluster.gateway import GatewaySession
from headrace.cluster.gateways import Gateways
from headrace.server.addresses import is_address
from headrace.server.peers.host import PeerHost, PeerTLS
from headrace.server.peers.machine_port import MachinePort

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cluster.port import Address, Wire
    from headrace.conf.peer_options import GatewayOptions
    from headrace.protocol.peers import PeerInfo
    from headrace.server.monitor.source import GatewaysSnapshot
    from headrace.server.peers.port import PeersServer
    from headrace.server.tls_contexts import PortTLS


class GatewayHost(PeerHost[GatewaySession]):
    """The gateways of a server. Raises: StartError when the port cannot be used."""

    kind = "gateway"
    tag = "gid"
    port_title = "gateway"
    options: GatewayOptions
    machine: Gateways

    def __init__(self, server: PeersServer, options: GatewayOptions) -> None:
        super().__init__(server)
        self.options = options
        self.bind(options.host, options.port)
        self.machine = Gateways(GatewaysPort(server, self), options)

    def _announce(self) -> None:
        log, name = self._server.log, self.options.name
        log.info("Gateway name is %s", name)
        log.info("Listening for gateways connections on %s", self.address)
        if self.options.advertise:
            log.info('Advertise address for gateway "%s" is set to %s', name, self.machine.url)
        else:
            log.info('Address for gateway "%s" is %s', name, self.machine.url)

    def snapshot(self) -> GatewaysSnapshot:
        """The gateways as monitoring shows them."""
        from headrace.server.peers.snapshots import gateways_snapshot  # only who is asked loads it

        return gateways_snapshot(self)

    @property
    def _port_tls(self) -> PortTLS:
        return self.contexts.gateways


class GatewaysPort(MachinePort[GatewaySession]):
    """The server as its gateways see it: `headrace.cluster.port.GatewayPort`."""

    _host: GatewayHost

    def identity(self) -> PeerInfo:
        return self._identity(self._host.advertised, has_users=self._host.options.user is not None)

    def dial(
        self,
        gateway: str,
        address: Address,
        connected: Callable[[Wire], GatewaySession | None],
        failed: Callable[[str | None], object],
    ) -> None:
        host = self._host
        begun = host.contexts.gateways_begun
        own = next((each for each in host.options.gateways if each.name == gateway), None)
        context = begun.get(gateway) or begun.get("")
        secured = None
        if context is not None:
            tls = own.tls if own is not None and own.tls is not None else host.tls
            names = (url.host for url in own.urls if not is_address(url.host)) if own is not None else ()
            name = next(iter(names), None) if is_address(address.host) else None
            secured = PeerTLS(context, tls.timeout if tls is not None else None, name)
        host.connect(address, connected, failed, secured)

    def is_taken(self, server_name: str) -> bool:
        routes = self._server.routes
        names = {self._server.name}
        if routes is not None:
            names |= {session.remote.server_name for session in routes.mesh.routes() if session.remote}
        return bool(server_name) and server_name in names

    def tell_routes(self, line: bytes) -> None:
        routes = self._server.routes
        if routes is not None:
            for session in routes.mesh.registry.firsts():
                session.link.send(line)
            self.wake()
