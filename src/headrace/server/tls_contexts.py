"""The TLS of all ports of a server: contexts, made at the start and anew on reload, and checks of peers.

Never lives here: what a context has (`tls`), who uses it, what is checked (`ocsp`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace.errors import StartError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from headrace.conf.options import Options
    from headrace.conf.tls_options import TLSOptions
    from headrace.server.handshakes import PeerCheck
    from headrace.server.monitor.source import OCSPCacheSnapshot
    from headrace.server.ocsp.checks import Checks, ChecksHost


class PortTLS(Struct, frozen=True):
    """The context with which connections of a port are accepted; None: no TLS.

    `expires_ns`: when its certificate does, since the Unix epoch.
    """

    context: ssl.SSLContext | None = None
    expires_ns: int | None = None


_NO_TLS: Final = PortTLS()


class Contexts(Struct, frozen=True):
    """The TLS contexts for new connections.

    Routes and gateways are accepted with one and begun with another: `gateways_begun` by cluster, "" for all
    others. `checks_peers`: some ask responders about the peer.
    """

    client: PortTLS = _NO_TLS
    websocket: PortTLS = _NO_TLS
    mqtt: PortTLS = _NO_TLS
    monitor: ssl.SSLContext | None = None
    routes: PortTLS = _NO_TLS
    routes_begun: ssl.SSLContext | None = None
    gateways: PortTLS = _NO_TLS
    gateways_begun: Mapping[str, ssl.SSLContext] = field(default_factory=dict)
    leafs: PortTLS = _NO_TLS
    checks_peers: bool = False
    concerns: tuple[str, ...] = ()


class ServerTLS:
    """The contexts of one server as they are now, and the checks of peers that some of them ask for."""

    def __init__(self, server: ChecksHost) -> None:
        self._server = server
        self._checks: Checks | None = None
        self.contexts = Contexts()

    def use(self, contexts: Contexts) -> None:
        """Give these to new connections, by what the server's options say now; others keep what they have."""
        self.contexts = contexts
        if contexts.checks_peers and self._checks is None:
            from headrace.server.ocsp.checks import Checks  # asking others takes an HTTP library

            self._checks = Checks(self._server)
        if self._checks is not None:
            self._checks.reload()
        for line in contexts.concerns:
            self._server.log.warning("%s", line)

    async def vet(self, connection: ssl.SSLObject, check: PeerCheck) -> None:
        """Check the peer of a handshake that has ended. Raises: PeerRefused."""
        assert self._checks is not None, "contexts that ask for it have made it"
        await self._checks.check(connection, check)

    def snapshot(self) -> OCSPCacheSnapshot | None:
        """The cache of answers about certificates, as monitoring shows it."""
        return None if self._checks is None else self._checks.snapshot()

    async def close(self) -> None:
        """End the checks, and whoever waits for them."""
        if self._checks is not None:
            await self._checks.close()


def make_contexts(options: Options) -> Contexts:
    """Read all certificates and keys. Raises: StartError, and nothing has changed."""
    websocket = options.websocket.tls if options.websocket else None
    mqtt = options.mqtt.tls if options.mqtt else None
    routes = options.cluster.tls if options.cluster else None
    leafs = options.leafnodes.tls if options.leafnodes else None
    gateways = options.gateway.tls if options.gateway else None
    remotes = (
        {each.name: each.tls for each in options.gateway.gateways if each.tls} if options.gateway else {}
    )
    ports = (options.tls, websocket, mqtt, routes, gateways, leafs)
    configured = [each for each in ports if each is not None]
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
        mqtt=_port_tls(mqtt, CLIENT),
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
    """Return the context of a port, and when its certificate expires.

    `kind`: of connections whose peers may be checked.
    """
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
