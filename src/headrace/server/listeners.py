"""The ports of a server: each is opened where the options ask for it, and who asks is told its address.

Never lives here: accepting (`listener`, `websocket.listener`), TLS (`tls_contexts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from headrace.engine.reasons import CloseReason
from headrace.errors import HeadraceError, StartError
from headrace.protocol.info import address_text
from headrace.server.addresses import reachable_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.conf.leaf_options import LeafNodeOptions
    from headrace.core.service import Service
    from headrace.server.listener import Listener
    from headrace.server.monitor.listener import MonitorHandle
    from headrace.server.mqtt.hubs import HubsServer
    from headrace.server.mqtt.port import MqttPort
    from headrace.server.peers.gateways import GatewayHost
    from headrace.server.peers.host import PeerHost
    from headrace.server.peers.leaf_port import LeafsServer
    from headrace.server.peers.leafs import LeafNodes
    from headrace.server.peers.port import PeersServer
    from headrace.server.peers.routes import Routes, RoutesServer
    from headrace.server.port import LogHost, Runtime
    from headrace.server.reauthorization import ClientsServer
    from headrace.server.snapshot import MonitoredServer, ServerMonitor
    from headrace.server.tls_contexts import Contexts
    from headrace.server.websocket.listener import WebSocketHost, WebSocketListener
    from headrace.server.worker import Worker

    class _MonitorHost(MonitoredServer, Runtime, Protocol):
        @property
        def listeners(self) -> Listeners: ...
        @property
        def services(self) -> Sequence[Service]: ...
        @property
        def worker(self) -> Worker | None: ...

    class _PeerHosts(ClientsServer, Protocol):
        @property
        def peer_hosts(self) -> Sequence[PeerHost[Any]]: ...


class Listeners:
    """The ports of one server for clients and for monitoring, as they are bound."""

    def __init__(self, server: LogHost) -> None:
        self._server = server
        self.client: Listener | None = None
        self.websocket: WebSocketListener | None = None
        self.mqtt: MqttPort | None = None
        self.monitor: MonitorHandle | None = None
        self._has_clients = False

    def accept_clients(self) -> None:
        """Listen on the client ports. Raises: StartError when another program does."""
        options, log = self._server.options, self._server.log
        assert self.client is not None, "it is bound"
        self.client.start()
        self._has_clients = True
        if self.websocket is not None:
            self.websocket.start()
        if self.mqtt is not None:
            self.mqtt.listener.start()
        log.info("Listening for client connections on %s", address_text(self.host, self.port))
        if options.proxy_protocol:
            log.info("PROXY protocol enabled for client connections")
        if options.tls:
            what = "available" if options.allow_non_tls and options.tls.handshake_first != 0 else "required"
            log.info("TLS %s for client connections", what)

    def use(self, contexts: Contexts) -> None:
        """Give these to new connections."""
        if self.client is not None:
            self.client.use(contexts.client.context)
        if self.websocket is not None:
            self.websocket.use(contexts.websocket.context)
        if self.mqtt is not None:
            self.mqtt.listener.use(contexts.mqtt.context)
        if self.monitor is not None and contexts.monitor is not None:
            self.monitor.use(contexts.monitor)

    def reloaded(self) -> None:
        """Take over the options of the server as they are now."""
        if self.mqtt is not None:
            self.mqtt.hubs.reload()

    async def close_monitor(self) -> None:
        """End monitoring."""
        if self.monitor is not None:
            await self.monitor.close()
            self.monitor = None

    # -- addresses --------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True if there is a port for clients."""
        return self.client is not None

    @property
    def awaits_clients(self) -> bool:
        """True if there is a port for clients that accepts none yet."""
        return self.client is not None and not self._has_clients

    @property
    def host(self) -> str:
        """The address of the client port as it is configured, also a name."""
        return self.client.host if self.client else self._server.options.host

    @property
    def port(self) -> int:
        """The client port that is bound."""
        return self.client.port if self.client else self._server.options.port

    @property
    def url(self) -> str:
        """The URL for a client on this machine, without credentials."""
        options = self._server.options
        scheme = "tls" if options.tls and not options.allow_non_tls else "nats"
        host = self.client.local_host if self.client else reachable_host(options.host)
        return f"{scheme}://{address_text(host, self.port)}"

    @property
    def advertised_address(self) -> tuple[str, int]:
        """The address that clients are told to connect to."""
        options = self._server.options
        if not options.client_advertise:
            return options.host, self.port
        from headrace.conf.listen import advertised

        return advertised(options.client_advertise, self.port)

    @property
    def websocket_port(self) -> int | None:
        """The WebSocket port that is bound; None: there is none."""
        return self.websocket.port if self.websocket else None

    @property
    def websocket_url(self) -> str | None:
        """The URL for a WebSocket client on this machine; None: there is no such port."""
        if self.websocket is None:
            return None
        address = address_text(self.websocket.local_host, self.websocket.port)
        return f"{self.websocket.scheme}://{address}"

    @property
    def websocket_urls(self) -> tuple[str, ...]:
        """The addresses that clients over WebSocket are told to connect to: `host:port` each."""
        return () if self.websocket is None else self.websocket.advertised

    @property
    def mqtt_port(self) -> int | None:
        """The MQTT port that is bound; None: there is none."""
        return self.mqtt.listener.port if self.mqtt else None

    @property
    def mqtt_url(self) -> str | None:
        """The URL for an MQTT client on this machine; None: there is no such port."""
        if self.mqtt is None:
            return None
        listener = self.mqtt.listener
        return f"{listener.scheme}://{address_text(listener.local_host, listener.port)}"

    @property
    def monitor_port(self) -> int | None:
        """The port for monitoring that is bound; None: there is none."""
        return self.monitor.port if self.monitor else None

    @property
    def monitor_url(self) -> str | None:
        """The URL where monitoring answers; None: it is off."""
        if self.monitor is None:
            return None
        return f"{self.monitor.scheme}://{address_text(self.monitor.local_host, self.monitor.port)}"


def open_websocket(server: WebSocketHost) -> WebSocketListener | None:
    """The WebSocket port, bound; None when none is configured. Raises: StartError."""
    options, contexts = server.options.websocket, server.tls.contexts
    if options is None:
        return None
    if options.tls is None and not options.no_tls:
        raise StartError("websocket requires TLS configuration")
    if options.console is not None:
        from headrace.conf.console_options import console_problem

        problem = console_problem(options)
        if problem is not None:
            raise StartError(problem)
    try:
        from headrace.server.websocket.listener import WebSocketListener
    except ImportError as error:
        raise StartError(f"websocket needs the websockets package: {error}") from error
    from headrace.server.websocket.binding import bind_websocket

    sock = bind_websocket(options)
    try:
        listener = WebSocketListener(server, options, contexts.websocket.context, sock)
    except HeadraceError as error:
        sock.close()
        raise StartError(str(error)) from error
    server.log.info(
        "Listening for websocket clients on %s://%s:%d", listener.scheme, options.host, listener.port
    )
    if options.tls is None:
        server.log.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")
    if listener.console_url is not None:
        server.log.info("Console at %s", listener.console_url)
    return listener


def open_mqtt(server: HubsServer) -> MqttPort | None:
    """The MQTT port, bound; None when none is configured. Raises: StartError."""
    if server.options.mqtt is None:
        return None
    from headrace.server.mqtt.port import MqttPort  # most servers have no such port

    return MqttPort(server)


async def open_monitor(server: _MonitorHost) -> MonitorHandle | None:
    """Open the monitoring port; None when monitoring is off. Raises: StartError."""
    options = server.options
    port = options.http_port if options.https_port is None else options.https_port
    if port is None:
        return None
    # aiohttp is only loaded where it is asked for
    from headrace.server.monitor.listener import MonitorTLS, start_monitor
    from headrace.server.monitor.streaming import source_among

    def report(text: str, address: str) -> None:
        if server.log_limits.admits(text, address):
            server.log.error("%s", text)

    host, context = options.http_host or options.host, server.tls.contexts.monitor
    websocket = server.listeners.websocket
    monitor = await start_monitor(
        _monitor_source(server),
        host,
        port,
        options.http_base_path,
        streaming=source_among(server.services),
        secured=None if context is None else MonitorTLS(context, server.tls.vet),
        authorization=options.http_authorization,
        report=report,
        console=None if websocket is None or websocket.console_url is None else websocket.console_url_for,
    )
    server.log.info("Starting %s monitor on %s", monitor.scheme, address_text(host, monitor.port))
    return monitor


def _monitor_source(server: _MonitorHost) -> ServerMonitor:
    from headrace.server.snapshot import ServerMonitor  # only where monitoring is asked for

    if server.worker is None:
        return ServerMonitor(server)
    from headrace.server.monitor.aggregate import AggregatedMonitor  # most servers are one process

    return AggregatedMonitor(server, server.worker)


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
    """Open the port for leaf nodes, and prepare links to hubs; None when there is neither.

    Raises: StartError.
    """
    if options is None or not (options.port or options.remotes):
        return None
    from headrace.server.peers.leafs import LeafNodes  # most servers have no leaf nodes

    return LeafNodes(server, options)


def drop_unpinned(server: _PeerHosts) -> None:
    """End the connections of clients and servers whose keys `pinned_certs` does not list any more."""
    for host in server.peer_hosts:
        for connection in host.connections:
            if not connection.is_pinned:
                connection.debug("certificate not pinned any more")
                connection.link.doom(CloseReason.TLS_HANDSHAKE_ERROR)
                server.ticks.wake()
    for session in server.clients:
        options = session.access.tls
        if not (session.tls_version and options is not None and options.pinned_certs):
            continue
        from headrace.server.tls import is_pinned

        if not is_pinned(session.credentials.peer_certificates, options.pinned_certs):
            session.debug("certificate not pinned any more")
            session.end(CloseReason.TLS_HANDSHAKE_ERROR)
