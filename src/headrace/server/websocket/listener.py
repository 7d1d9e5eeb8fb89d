"""The WebSocket port: accepting, TLS and the upgrade within a time, and handing over to a session.

What a client may do once its bytes flow is the session's business.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.engine.reasons import CloseReason
from headrace.server.acceptor import Acceptor
from headrace.server.tls import failure
from headrace.server.websocket.access import WebSocketAccess
from headrace.server.websocket.deflate import DeflateFactory
from headrace.server.websocket.handshake import Handshake
from headrace.server.websocket.request import Gate
from headrace.server.websocket.transport import WebSocketTransport

if TYPE_CHECKING:
    import socket
    import ssl

    from websockets.server import ServerProtocol

    from headrace.conf.options import Options, WebSocketOptions
    from headrace.server.server import Server
    from headrace.server.websocket.request import Upgrade

_READ_SIZE: Final = 64 << 10
_TOO_MANY: Final = "maximum connections exceeded"


class WebSocketListener(Acceptor):
    """The WebSocket port of one server. `context` None: no TLS."""

    def __init__(
        self,
        server: Server,
        options: WebSocketOptions,
        context: ssl.SSLContext | None,
        sock: socket.socket,
    ) -> None:
        super().__init__(server, sock)
        self.context = context
        self._options = options
        self._access = WebSocketAccess(server, options, self.port)
        self._gate = Gate(options)
        self._extensions = [DeflateFactory()] if options.compression else []
        self._buffer = memoryview(bytearray(_READ_SIZE))
        self._seconds = options.handshake_timeout or limits.WEBSOCKET_HANDSHAKE_TIMEOUT

    def use(self, context: ssl.SSLContext | None) -> None:
        """From now on for new connections."""
        self.context = context

    @property
    def scheme(self) -> str:
        return "ws" if self._options.tls is None else "wss"

    def _open(self, sock: socket.socket, address: tuple[str, int]) -> None:
        self._run(self._upgrade(sock, address), sock)

    async def _upgrade(self, sock: socket.socket, address: tuple[str, int]) -> None:
        log, whence = self._server.log, f"{address[0]}:{address[1]}"

        def upgraded(transport: asyncio.Transport, protocol: ServerProtocol, upgrade: Upgrade) -> None:
            self._admit(transport, protocol, upgrade, address)

        def report(reason: str) -> None:
            log.error("%s - websocket handshake error: %s", whence, reason)

        handshake = Handshake(
            self._gate,
            extensions=self._extensions,
            headers=self._options.headers,
            max_size=max_message(self._server.options),
            upgraded=upgraded,
            report=report,
        )
        try:
            async with asyncio.timeout(self._seconds):
                await self._server.loop.connect_accepted_socket(
                    lambda: handshake,
                    sock,
                    ssl=self.context,
                    ssl_handshake_timeout=self._seconds if self.context else None,
                )
                await handshake.done
        except TimeoutError:
            report("timeout")
            handshake.give_up()
        except OSError as error:  # ssl.SSLError is one
            if not self._is_abandoned:
                log.error("websocket: TLS handshake error from %s: %s", whence, failure(error))
            sock.close()

    def _admit(
        self,
        transport: asyncio.Transport,
        protocol: ServerProtocol,
        upgrade: Upgrade,
        address: tuple[str, int],
    ) -> None:
        server = self._server
        session = server.new_session(self._access, address[0], address[1])
        session.stand_ins = upgrade.credentials
        if upgrade.forwarded_for:
            session.behind = f"{upgrade.forwarded_for}/"
        session.link.send(session.info())
        carrier = WebSocketTransport(
            session,
            protocol,
            buffer=self._buffer,
            is_browser=upgrade.is_browser,
            after_tick=server.after_tick,
            on_stalled=server.note_stalled,
        )
        transport.set_protocol(carrier)
        carrier.connection_made(transport)
        if server.is_full or not server.admits(session):
            session.error(_TOO_MANY)
            session.refuse(_TOO_MANY, CloseReason.MAX_CONNECTIONS_EXCEEDED)


def max_message(options: Options) -> int:
    """The largest WebSocket message, in bytes: some payloads, or control lines, as large as may be."""
    largest = max(options.max_payload, options.max_control_line)
    return min(largest * limits.WEBSOCKET_MESSAGE_PAYLOADS, limits.WEBSOCKET_MAX_MESSAGE)
