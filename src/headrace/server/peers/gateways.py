"""The gateways of a server: their port, connections to other clusters, and what their machine has to be told.

Here `headrace.cluster.gateways` meets the server. Never lives here: the rules of gateways, and what other
kinds of peers need as well (`host`).
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Final

import headrace
from headrace.cluster.gateway import GatewaySession
from headrace.cluster.gateways import Gateways
from headrace.cluster.port import Address
from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.protocol.peers import ROUTE_PROTOCOL, PeerInfo
from headrace.server.peers.addresses import is_wildcard, machine_addresses
from headrace.server.peers.host import PeerHost, Secured

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from headrace.cluster.port import Wire
    from headrace.conf.options import TLSOptions
    from headrace.conf.peer_options import GatewayOptions
    from headrace.server.monitor.source import GatewaysSnapshot
    from headrace.server.server import Server


class GatewayHost(PeerHost[GatewaySession]):
    """Raises: StartError when the port cannot be used."""

    kind = "gateway"
    tag = "gid"
    port_title = "gateway"

    def __init__(self, server: Server, options: GatewayOptions) -> None:
        super().__init__(server)
        self.options: Final = options
        self.listen(options.host, options.port)
        self.machine: Final = Gateways(self, options)

    def stop(self) -> None:
        """Closes everything, reaches nobody any more."""
        self.machine.stop()

    def start(self) -> None:
        """Accept, and reach the other clusters."""
        server, name = self._server, self.options.name
        server.log.info("Gateway name is %s", name)
        server.log.info("Listening for gateways connections on %s", Address(self.host, self.port))
        if self.options.advertise:
            server.log.info('Advertise address for gateway "%s" is set to %s', name, self.machine.url)
        else:
            server.log.info('Address for gateway "%s" is %s', name, self.machine.url)
        self._bound.start()
        server.accounts.followers.append(self.machine.accounts_changed)
        self.machine.start()

    def snapshot(self) -> GatewaysSnapshot:
        """The gateways as monitoring shows them."""
        from headrace.server.peers.gateway_pictures import gateways_snapshot  # only who is asked loads it

        return gateways_snapshot(self, self._server.contexts.gateways_expires_ns)

    # -- connections ------------------------------------------------------------------------------

    def begin(self, wire: Wire) -> GatewaySession | None:
        return self.machine.accepted(wire)

    def dial(
        self,
        gateway: str,
        address: Address,
        connected: Callable[[Wire], GatewaySession | None],
        failed: Callable[[str | None], object],
    ) -> None:
        """As `headrace.cluster.gateway_port.GatewayPort` says."""
        contexts = self._server.contexts
        own = next((each for each in self.options.gateways if each.name == gateway), None)
        context = contexts.gateways_begun.get(gateway) or contexts.gateways_begun.get("")
        secured = None
        if context is not None:
            tls = own.tls if own is not None and own.tls is not None else self.tls
            names = (url.host for url in own.urls if not _is_address(url.host)) if own is not None else ()
            name = next(iter(names), None) if _is_address(address.host) else None
            secured = Secured(context, tls.timeout if tls is not None else None, name)
        self.connect(address, connected, failed, secured)

    @property
    def tls(self) -> TLSOptions | None:
        return self.options.tls

    @property
    def accepting_context(self) -> ssl.SSLContext | None:
        return self._server.contexts.gateways

    @property
    def own_write_deadline(self) -> float | None:
        return self.options.write_deadline

    @property
    def closes_late(self) -> bool:
        return self.options.write_timeout == "close"

    # -- what the machine is given ----------------------------------------------------------------

    def identity(self) -> PeerInfo:
        server, options = self._server, self.options
        host, port = self.host, self.port
        if options.advertise:
            from headrace.conf.listen import advertised

            host, port = advertised(options.advertise, port)
        elif is_wildcard(host):
            host = machine_addresses()[0]
        return PeerInfo(
            server_id=server.server_id,
            server_name=server.name,
            version=COMPATIBLE_VERSION,
            proto=ROUTE_PROTOCOL,
            git_commit=f"headrace-{headrace.__version__}",
            go=f"python{platform.python_version()}",
            host=host,
            port=port,
            headers=not server.options.no_header_support,
            auth_required=options.user is not None,
            tls_required=options.tls is not None,
            tls_verify=options.tls is not None,
            max_payload=server.options.max_payload,
        )

    def is_taken(self, server_name: str) -> bool:
        routes = self._server.routes
        names = {self._server.name}
        if routes is not None:
            names |= {session.remote.server_name for session in routes.mesh.routes() if session.remote}
        return bool(server_name) and server_name in names

    def tell_routes(self, line: bytes) -> None:
        if self._server.routes is not None:
            for session in self._server.routes.mesh.registry.firsts():
                session.link.send(line)
            self.wake()


def _is_address(host: str) -> bool:
    from ipaddress import ip_address

    try:
        ip_address(host)
    except ValueError:
        return False
    return True
