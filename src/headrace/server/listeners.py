"""The ports of a server beside that of its clients: each is opened where the options ask for it.

Never lives here: accepting (`listener`, `websocket.listener`), TLS (`tls_contexts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from headrace.conf.peer_options import address_text
from headrace.engine.reasons import CloseReason
from headrace.errors import StartError
from headrace.server.snapshot import ServerMonitor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.conf.leaf_options import LeafNodeOptions
    from headrace.core.service import Service
    from headrace.server.monitor.listener import MonitorHandle
    from headrace.server.peers.gateways import GatewayHost
    from headrace.server.peers.host import PeerHost
    from headrace.server.peers.leafs import LeafNodes, LeafsServer
    from headrace.server.peers.port import PeersServer
    from headrace.server.peers.routes import Routes, RoutesServer
    from headrace.server.port import Runtime
    from headrace.server.snapshot import MonitoredServer
    from headrace.server.standing import ClientsHost
    from headrace.server.websocket.listener import WebSocketHost, WebSocketListener
    from headrace.server.worker import Worker

    class _MonitorHost(MonitoredServer, Runtime, Protocol):
        @property
        def services(self) -> Sequence[Service]: ...
        @property
        def worker(self) -> Worker | None: ...

    class _PeerHosts(ClientsHost, Protocol):
        @property
        def peer_hosts(self) -> Sequence[PeerHost[Any]]: ...


def open_websocket(server: WebSocketHost) -> WebSocketListener | None:
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
    listener = WebSocketListener(server, options, server.tls.contexts.websocket.context, sock)
    server.log.info(
        "Listening for websocket clients on %s://%s:%d", listener.scheme, options.host, listener.port
    )
    if options.tls is None:
        server.log.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")
    return listener


async def open_monitor(server: _MonitorHost) -> MonitorHandle | None:
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

    host, context = options.http_host or options.host, server.tls.contexts.monitor
    monitor = await start_monitor(
        _monitor_source(server),
        host,
        port,
        options.http_base_path,
        streaming=source_among(server.services),
        secured=None if context is None else Secured(context, server.tls.vet),
        authorization=options.http_authorization,
        report=report,
    )
    server.log.info("Starting %s monitor on %s", monitor.scheme, address_text(host, monitor.port))
    return monitor


def _monitor_source(server: _MonitorHost) -> ServerMonitor:
    if server.worker is None:
        return ServerMonitor(server)
    from headrace.server.monitor.pictures import SpreadMonitor  # most servers are one process

    return SpreadMonitor(server, server.worker)


def open_routes(server: RoutesServer) -> Routes | None:
    """The cluster's port, bound; None when there is none. Raises: StartError."""
    options = server.options.cluster
    if options is None or not options.port:
        return None
    from headrace.server.peers.routes import Routes  # most servers have no peers

    return Routes(server, options)


def open_gateways(server: PeersServer) -> GatewayHost | None:
    """The gateway port, bound; None when there is none. Raises: StartError."""
    options = server.options.gateway
    if options is None:
        return None
    from headrace.server.peers.gateways import GatewayHost  # most servers are of a cluster that is alone

    return GatewayHost(server, options)


def open_leafs(server: LeafsServer, options: LeafNodeOptions | None) -> LeafNodes | None:
    """What leaf nodes connect to, and whom this server connects to as one; None when there is neither.

    Raises: StartError.
    """
    if options is None or not (options.port or options.remotes):
        return None
    from headrace.server.peers.leafs import LeafNodes  # most servers have no leaf nodes

    return LeafNodes(server, options)


def drop_unpinned(server: _PeerHosts) -> None:
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
