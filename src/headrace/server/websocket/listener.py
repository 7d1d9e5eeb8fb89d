"""The WebSocket port: accepting, TLS and the upgrade within a time, and handing over to a session.

What a client may do once its bytes flow is the session's business.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from headrace import limits
from headrace.conf.listen import advertised
from headrace.engine.reasons import CloseReason
from headrace.protocol.info import address_text
from headrace.server.acceptor import Acceptor
from headrace.server.addresses import is_wildcard, reachable
from headrace.server.handshakes import secure
from headrace.server.tls import failure
from headrace.server.websocket.access import WebSocketAccess
from headrace.server.websocket.connections import CarriedClient, LeafNode
from headrace.server.websocket.deflate import DeflateFactory
from headrace.server.websocket.handshake import Handshake
from headrace.server.websocket.request import UpgradeRules
from headrace.server.websocket.transport import READ_SIZE, WebSocketTransport

if TYPE_CHECKING:
    import socket
    import ssl

    from websockets.server import ServerProtocol

    from headrace.conf.console_options import ConsoleOptions
    from headrace.conf.options import Options
    from headrace.conf.websocket_options import WebSocketOptions
    from headrace.server.listener import ListenerHost
    from headrace.server.mqtt.port import MqttPort
    from headrace.server.peers.leafs import LeafNodes
    from headrace.server.port import Addresses, InfoHost
    from headrace.server.session import ClientSession
    from headrace.server.tls_contexts import ServerTLS
    from headrace.server.websocket.pages import Pages
    from headrace.server.websocket.request import UpgradeRequest
    from headrace.server.websocket.transport import WebSocketConnection

    class _Listeners(Addresses, Protocol):
        @property
        def mqtt(self) -> MqttPort | None: ...

    class WebSocketHost(ListenerHost, InfoHost, Protocol):
        """A server, as its WebSocket port sees it."""

        @property
        def leafs(self) -> LeafNodes | None: ...
        @property
        def listeners(self) -> _Listeners: ...
        @property
        def tls(self) -> ServerTLS: ...


_TOO_MANY: Final = "maximum connections exceeded"


class WebSocketListener(Acceptor):
    """The WebSocket port of one server. `context` None: no TLS."""

    _server: WebSocketHost

    def __init__(
        self,
        server: WebSocketHost,
        options: WebSocketOptions,
        context: ssl.SSLContext | None,
        sock: socket.socket,
    ) -> None:
        super().__init__(server, sock, options.host)
        self.context = context
        self._options = options
        self._access = WebSocketAccess(server, options, self.port)
        self._access_here = self._access
        if options.console is not None and options.console.operator_secret:
            from headrace.server.websocket.operator_access import OperatorAccess

            secret = options.console.operator_secret
            self._access_here = OperatorAccess(server, options, self.port, secret)
        self._pages = None if options.console is None else _pages(server, options, options.console)
        hosts = None if self._pages is None else self._pages.site.hosts
        self._rules = UpgradeRules(options, self._takes_leafs, hosts, takes_mqtt=self._takes_mqtt)
        self._extensions = [DeflateFactory()] if options.compression else []
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._seconds = options.handshake_timeout or limits.WEBSOCKET_HANDSHAKE_TIMEOUT

    def use(self, context: ssl.SSLContext | None) -> None:
        """Use these certificates for new connections."""
        self.context = context

    def close(self) -> None:
        """Refuse connections from now on, and end those of pages."""
        super().close()
        if self._pages is not None:
            self._pages.close()

    @property
    def console_url(self) -> str | None:
        """The URL of the console for a browser on this machine; None: there is none."""
        return None if self._options.console is None else self.console_url_for(self.local_host)

    def console_url_for(self, host: str | None) -> str:
        """Return the URL of the console for a browser that knows this machine by a name.

        `host` None: it says none. Of the port itself where that is for one address, or advertised.
        """
        options, port = self._options, self.port
        assert options.console is not None, "there is a console"
        if options.advertise:
            host, port = advertised(options.advertise, port)
        elif host is None or not is_wildcard(options.host):
            host = self.local_host
        scheme = "http" if options.tls is None else "https"
        return f"{scheme}://{address_text(host, port)}{options.console.path}/"

    @property
    def operator_url(self) -> str | None:
        """The URL of the console that signs the operator of this run in; None: there is none."""
        console_url = self.console_url
        if console_url is None or self._access_here is self._access:
            return None
        from headrace.server.websocket.operator_access import operator_url

        return operator_url(console_url, self._server.options)

    @property
    def scheme(self) -> str:
        return "ws" if self._options.tls is None else "wss"

    @property
    def advertised(self) -> tuple[str, ...]:
        """The addresses that clients are told to connect to, `host:port` each."""
        host, port = self._options.host, self.port
        if self._options.advertise:
            host, port = advertised(self._options.advertise, port)
        return reachable(host, port)

    def _open(self, sock: socket.socket, address: tuple[str, int]) -> None:
        self._run(self._upgrade(sock, address), sock)

    async def _upgrade(self, sock: socket.socket, address: tuple[str, int]) -> None:
        log, whence = self._server.log, f"{address[0]}:{address[1]}"

        def upgraded(transport: asyncio.Transport, protocol: ServerProtocol, upgrade: UpgradeRequest) -> None:
            self._admit(transport, protocol, upgrade, address)

        def report(reason: str) -> None:
            log.error("%s - websocket handshake error: %s", whence, reason)

        handshake = Handshake(
            self._rules,
            extensions=self._extensions,
            headers=self._options.headers,
            max_size=max_message(self._server.options),
            upgraded=upgraded,
            report=report,
            pages=self._pages,
        )
        server = self._server
        try:
            async with asyncio.timeout(self._seconds) as limit:
                if self.context is None:
                    await server.loop.connect_accepted_socket(lambda: handshake, sock)
                else:
                    await secure(
                        lambda: handshake,
                        sock,
                        self.context,
                        vet=server.tls.vet,
                        seconds=self._seconds,
                        limit=limit,
                    )
                await handshake.done
        except TimeoutError:
            report("timeout")
            handshake.give_up()
        except OSError as error:  # ssl.SSLError is one
            if not self._is_abandoned:
                log.error("websocket: TLS handshake error from %s: %s", whence, failure(error))
            sock.close()

    def _access_of(self, upgrade: UpgradeRequest, address: str) -> WebSocketAccess:
        if self._access_here is self._access:
            return self._access
        from headrace.server.websocket.operator_access import is_of_this_machine

        return self._access_here if is_of_this_machine(address, upgrade) else self._access

    def _takes_leafs(self) -> bool:
        leafs = self._server.leafs
        return leafs is not None and leafs.listener is not None

    def _takes_mqtt(self) -> bool:
        return self._server.listeners.mqtt is not None

    def _new_session(self, upgrade: UpgradeRequest, address: tuple[str, int]) -> ClientSession:
        clients, mqtt = self._server.clients, self._server.listeners.mqtt
        if upgrade.is_mqtt and mqtt is not None:
            return mqtt.carried_session(*address)
        return clients.new_session(self._access_of(upgrade, address[0]), *address)

    def _admit_leaf(
        self, transport: asyncio.Transport, protocol: ServerProtocol, address: tuple[str, int]
    ) -> None:
        leafs = self._server.leafs
        entered = leafs.entered(address) if leafs is not None else None
        if entered is None:  # the server is stopping
            transport.abort()
            return
        protocol.max_message_size = limits.WEBSOCKET_MAX_MESSAGE  # servers put what waits into one message
        self._carry(LeafNode(self._server, entered), transport, protocol)

    def _carry(
        self,
        connection: WebSocketConnection,
        transport: asyncio.Transport,
        protocol: ServerProtocol,
        *,
        is_browser: bool = False,
    ) -> None:
        server = self._server
        carrier = WebSocketTransport(
            connection,
            protocol,
            buffer=self._buffer,
            is_browser=is_browser,
            after_tick=server.ticks.wake,
            on_stalled=server.ticks.note_stalled,
        )
        transport.set_protocol(carrier)
        carrier.connection_made(transport)

    def _admit(
        self,
        transport: asyncio.Transport,
        protocol: ServerProtocol,
        upgrade: UpgradeRequest,
        address: tuple[str, int],
    ) -> None:
        if upgrade.is_leaf:
            self._admit_leaf(transport, protocol, address)
            return
        server = self._server
        session = self._new_session(upgrade, address)
        session.stand_ins = upgrade.credentials
        if upgrade.forwarded_for:
            session.behind = f"{upgrade.forwarded_for}/"
        session.link.send(session.words.greeting(session))
        # A CONNECT of MQTT has a will, which may be as large as a message.
        most = session.link.max_payload if upgrade.is_mqtt else 0
        client = CarriedClient(server, session, max(most, limits.WEBSOCKET_BEFORE_CONNECT))
        self._carry(client, transport, protocol, is_browser=upgrade.is_browser)
        if server.clients.is_full or not server.clients.admits(session):
            session.error(_TOO_MANY)
            session.refuse(_TOO_MANY, CloseReason.MAX_CONNECTIONS_EXCEEDED)


def _pages(server: WebSocketHost, options: WebSocketOptions, console: ConsoleOptions) -> Pages:
    """Return what serves the console of a port. Raises: HeadraceError without the files of the page."""
    from headrace.console.settings import settings  # who serves no page loads none
    from headrace.console.site import ConsoleSite, HostNames
    from headrace.server.websocket.pages import Pages

    names = [*console.hosts, options.host]
    if options.advertise:
        names.append(advertised(options.advertise, 0)[0])
    document = settings(console, server_name=server.name)
    return Pages(ConsoleSite(console.path, document, HostNames(names)))


def max_message(options: Options) -> int:
    """The largest WebSocket message, in bytes: some payloads, or control lines, as large as may be."""
    largest = max(options.max_payload, options.max_control_line)
    return min(largest * limits.WEBSOCKET_MESSAGE_PAYLOADS, limits.WEBSOCKET_MAX_MESSAGE)
