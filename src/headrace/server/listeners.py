"""The ports of a server beside that of its clients, and the TLS of all: contexts, made at the start and anew
on reload.

Here lives what concerns several listeners. Never lives here: accepting (`listener`, `websocket.listener`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace.conf.peer_options import address_text
from headrace.engine.reasons import CloseReason
from headrace.errors import StartError
from headrace.server.snapshot import ServerMonitor

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from headrace.conf.leaf_options import LeafNodeOptions
    from headrace.conf.options import Options, TLSOptions
    from headrace.server.monitor.listener import MonitorHandle
    from headrace.server.peers.gateways import GatewayHost
    from headrace.server.peers.leafs import LeafNodes
    from headrace.server.peers.routes import Routes
    from headrace.server.server import Server
    from headrace.server.websocket.listener import WebSocketListener


class PortTLS(Struct, frozen=True):
    """What connections of a port are accepted with; None: no TLS.

    `expires_ns`: when its certificate does, since the Unix epoch.
    """

    context: ssl.SSLContext | None = None
    expires_ns: int | None = None


_NO_TLS: Final = PortTLS()


class Contexts(Struct, frozen=True):
    """For new connections. Routes and gateways are accepted with one context and begun with another:
    `gateways_begun` by cluster, "" for all others. `checks_peers`: some ask responders about the peer."""

    client: PortTLS = _NO_TLS
    websocket: PortTLS = _NO_TLS
    monitor: ssl.SSLContext | None = None
    routes: PortTLS = _NO_TLS
    routes_begun: ssl.SSLContext | None = None
    gateways: PortTLS = _NO_TLS
    gateways_begun: Mapping[str, ssl.SSLContext] = field(default_factory=dict)
    leafs: PortTLS = _NO_TLS
    checks_peers: bool = False
    concerns: tuple[str, ...] = ()


def make_contexts(options: Options) -> Contexts:
    """Reads all certificates and keys. Raises: StartError, and nothing has changed."""
    websocket = options.websocket.tls if options.websocket else None
    routes = options.cluster.tls if options.cluster else None
    leafs = options.leafnodes.tls if options.leafnodes else None
    gateways = options.gateway.tls if options.gateway else None
    remotes = (
        {each.name: each.tls for each in options.gateway.gateways if each.tls} if options.gateway else {}
    )
    configured = [each for each in (options.tls, websocket, routes, gateways, leafs) if each is not None]
    configured += remotes.values()
    hubs = options.leafnodes.remotes if options.leafnodes else ()
    towards = [each.tls.files for each in hubs if each.tls is not None and each.tls.files is not None]
    checks_peers = any(each.ocsp_peer is not None for each in (*configured, *towards))
    if not configured and options.https_port is None:
        return Contexts(checks_peers=checks_peers)
    from headrace.server import tls  # ssl is only set up where it is asked for
    from headrace.server.handshakes import CLIENT, LEAF_NODE

    begun = {**({"": gateways} if gateways else {}), **remotes}
    return Contexts(
        client=_port_tls(options.tls, CLIENT),
        websocket=_port_tls(websocket, CLIENT),
        monitor=None
        if options.https_port is None
        else _monitor_context(options.tls, checks_peers=checks_peers),
        routes=_port_tls(routes),
        routes_begun=tls.client_context(routes) if routes else None,
        gateways=_port_tls(gateways),
        gateways_begun={name: tls.client_context(each) for name, each in begun.items()},
        leafs=_port_tls(leafs, LEAF_NODE),
        checks_peers=checks_peers,
        concerns=tuple(dict.fromkeys(line for each in configured for line in tls.concerns(each))),
    )


def _port_tls(options: TLSOptions | None, kind: str = "") -> PortTLS:
    """`kind`: of connections whose peers may be checked."""
    if options is None:
        return _NO_TLS
    from headrace.server import tls

    return PortTLS(tls.server_context(options, kind), tls.certificate_expires_ns(options))


def _monitor_context(options: TLSOptions | None, *, checks_peers: bool) -> ssl.SSLContext:
    """The certificates of clients' TLS; as with the Go server, readers of monitoring need none, unless
    responders are asked about any peers' certificates.

    Raises: StartError when there are none to use.
    """
    if options is None:
        raise StartError("TLS cert and key required for HTTPS")
    from headrace.server import tls
    from headrace.server.handshakes import CLIENT

    context = tls.server_context(options, CLIENT)
    if not checks_peers:
        context.verify_mode = tls.NO_CLIENT_CERTIFICATE
    return context


def open_websocket(server: Server) -> WebSocketListener | None:
    """The WebSocket port, bound; None when none is configured. Raises: StartError."""
    options = server.options.websocket
    if options is None:
        return None
    if options.tls is None and not options.no_tls:
        raise StartError("websocket requires TLS configuration")
    try:
        from headrace.server.listener import bind
        from headrace.server.websocket.listener import WebSocketListener
    except ImportError as error:
        raise StartError(f"websocket needs the websockets package: {error}") from error
    try:
        sock = bind(options.host, options.port)
    except StartError as error:
        raise StartError(f"Unable to listen for websocket connections: {error}") from error
    listener = WebSocketListener(server, options, server.contexts.websocket.context, sock)
    server.log.info(
        "Listening for websocket clients on %s://%s:%d", listener.scheme, options.host, listener.port
    )
    if options.tls is None:
        server.log.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")
    return listener


async def open_monitor(server: Server) -> MonitorHandle | None:
    """What answers monitoring, listening; None when it is off. Raises: StartError."""
    options = server.options
    port = options.http_port if options.https_port is None else options.https_port
    if port is None:
        return None
    # aiohttp is only loaded where it is asked for
    from headrace.server.monitor.listener import Secured, start_monitor
    from headrace.server.monitor.streaming import source_among

    def report(text: str, address: str) -> None:
        if server.log_limits.admits(text, address):
            server.log.error("%s", text)

    host, context = options.http_host or options.host, server.contexts.monitor
    monitor = await start_monitor(
        _monitor_source(server),
        host,
        port,
        options.http_base_path,
        streaming=source_among(server.services),
        secured=None if context is None else Secured(context, server.vet),
        authorization=options.http_authorization,
        report=report,
    )
    server.log.info("Starting %s monitor on %s", monitor.scheme, address_text(host, monitor.port))
    return monitor


def _monitor_source(server: Server) -> ServerMonitor:
    if server.worker is None:
        return ServerMonitor(server)
    from headrace.server.monitor.pictures import SpreadMonitor  # most servers are one process

    return SpreadMonitor(server, server.worker)


def open_routes(server: Server) -> Routes | None:
    """The cluster's port, bound; None when there is none. Raises: StartError."""
    options = server.options.cluster
    if options is None or not options.port:
        return None
    from headrace.server.peers.routes import Routes  # most servers have no peers

    return Routes(server, options)


def open_gateways(server: Server) -> GatewayHost | None:
    """The gateway port, bound; None when there is none. Raises: StartError."""
    options = server.options.gateway
    if options is None:
        return None
    from headrace.server.peers.gateways import GatewayHost  # most servers are of a cluster that is alone

    return GatewayHost(server, options)


def open_leafs(server: Server, options: LeafNodeOptions | None) -> LeafNodes | None:
    """What leaf nodes connect to, and whom this server connects to as one; None when there is neither.

    Raises: StartError.
    """
    if options is None or not (options.port or options.remotes):
        return None
    from headrace.server.peers.leafs import LeafNodes  # most servers have no leaf nodes

    return LeafNodes(server, options)


def drop_unpinned(server: Server) -> None:
    """Ends the connections of clients and servers whose keys `pinned_certs` does not list any more."""
    for host in server.peer_hosts:
        for connection in host.connections:
            if not connection.is_pinned:
                connection.debug("certificate not pinned any more")
                connection.link.doom(CloseReason.TLS_HANDSHAKE_ERROR)
                server.after_tick()
    for session in server.sessions.values():
        options = session.access.tls
        if not (session.tls_version and options is not None and options.pinned_certs):
            continue
        from headrace.server.tls import is_pinned

        if not is_pinned(session.peer_certificates, options.pinned_certs):
            session.debug("certificate not pinned any more")
            session.link.doom(CloseReason.TLS_HANDSHAKE_ERROR)
            server.after_tick()
