"""The ports of a server that have TLS: their contexts, made at the start and anew on reload.

Here lives what concerns several listeners. Never lives here: accepting (`listener`, `websocket.listener`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.engine.reasons import CloseReason
from headrace.errors import StartError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from headrace.conf.options import Options, TLSOptions
    from headrace.server.peers.gateways import GatewayHost
    from headrace.server.peers.leafs import LeafNodes
    from headrace.server.peers.routes import Routes
    from headrace.server.server import Server
    from headrace.server.websocket.listener import WebSocketListener


@dataclass(frozen=True, slots=True)
class Contexts:
    """For new connections; None: no TLS. `expires_ns`: when the certificate of the client port does, since
    the Unix epoch; `websocket_expires_ns` that of the WebSocket port, and so on. Routes and gateways are
    accepted with one context and begun with another: `gateways_begun` by cluster, "" for all others."""

    client: ssl.SSLContext | None = None
    websocket: ssl.SSLContext | None = None
    monitor: ssl.SSLContext | None = None
    routes: ssl.SSLContext | None = None
    routes_begun: ssl.SSLContext | None = None
    gateways: ssl.SSLContext | None = None
    gateways_begun: Mapping[str, ssl.SSLContext] = field(default_factory=dict)
    leafs: ssl.SSLContext | None = None
    expires_ns: int | None = None
    websocket_expires_ns: int | None = None
    routes_expires_ns: int | None = None
    gateways_expires_ns: int | None = None
    leafs_expires_ns: int | None = None
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
    if not configured and options.https_port is None:
        return Contexts()
    from headrace.server import tls  # ssl is only set up where it is asked for

    begun = {**({"": gateways} if gateways else {}), **remotes}
    return Contexts(
        client=tls.server_context(options.tls) if options.tls else None,
        websocket=tls.server_context(websocket) if websocket else None,
        monitor=None if options.https_port is None else _monitor_context(options.tls),
        routes=tls.server_context(routes) if routes else None,
        routes_begun=tls.client_context(routes) if routes else None,
        gateways=tls.server_context(gateways) if gateways else None,
        gateways_begun={name: tls.client_context(each) for name, each in begun.items()},
        expires_ns=tls.certificate_expires_ns(options.tls) if options.tls else None,
        websocket_expires_ns=tls.certificate_expires_ns(websocket) if websocket else None,
        routes_expires_ns=tls.certificate_expires_ns(routes) if routes else None,
        gateways_expires_ns=tls.certificate_expires_ns(gateways) if gateways else None,
        leafs=tls.server_context(leafs) if leafs else None,
        leafs_expires_ns=tls.certificate_expires_ns(leafs) if leafs else None,
        concerns=tuple(dict.fromkeys(line for each in configured for line in tls.concerns(each))),
    )


def _monitor_context(options: TLSOptions | None) -> ssl.SSLContext:
    """The certificates of clients' TLS; as with the Go server, readers of monitoring need none.

    Raises: StartError when there are none to use.
    """
    if options is None:
        raise StartError("TLS cert and key required for HTTPS")
    from headrace.server import tls

    context = tls.server_context(options)
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
        from headrace.server.listener import listen
        from headrace.server.websocket.listener import WebSocketListener
    except ImportError as error:
        raise StartError(f"websocket needs the websockets package: {error}") from error
    try:
        sock = listen(options.host, options.port)
    except StartError as error:
        raise StartError(f"Unable to listen for websocket connections: {error}") from error
    listener = WebSocketListener(server, options, server.contexts.websocket, sock)
    server.log.info(
        "Listening for websocket clients on %s://%s:%d", listener.scheme, options.host, listener.port
    )
    if options.tls is None:
        server.log.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")
    return listener


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


def open_leafs(server: Server) -> LeafNodes | None:
    """What leaf nodes connect to, and whom this server connects to as one; None when there is neither.

    Raises: StartError.
    """
    options = server.options.leafnodes
    if options is None or not (options.port or options.remotes):
        return None
    from headrace.server.peers.leafs import LeafNodes  # most servers have no leaf nodes

    return LeafNodes(server, options)


def drop_unpinned(server: Server) -> None:
    """Ends the connections of clients whose keys `pinned_certs` does not list any more."""
    for session in server.sessions.values():
        options = session.access.tls
        if not (session.tls_version and options is not None and options.pinned_certs):
            continue
        from headrace.server.tls import is_pinned

        if not is_pinned(session.peer_certificates, options.pinned_certs):
            session.debug("certificate not pinned any more")
            session.link.doom(CloseReason.TLS_HANDSHAKE_ERROR)
            server.after_tick()
