"""The way from a connected socket to a connection whose bytes flow, with TLS or without, whoever connected.

A connection to a peer only exists once its handshake is over: before that there is nobody to speak to.
Source: nats-server 2.15.1: on routes TLS comes before the first INFO.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.engine.reasons import CloseReason
from headrace.server.transport import AsyncioTransport, EpollTransport

if TYPE_CHECKING:
    import asyncio
    import socket
    import ssl
    from collections.abc import Callable

    from headrace.server.peers.connection import PeerConnection
    from headrace.server.port import Runtime

    _Enter = Callable[[], PeerConnection[Any] | None]
    """Makes the connection and its session; None: it is not wanted any more."""


def open_over_epoll(server: Runtime, sock: socket.socket, enter: _Enter) -> None:
    """Open a connection without TLS over the poller. A socket that cannot be watched ends its connection."""
    assert server.ticks.poller is not None
    connection = enter()
    if connection is None:
        sock.close()
        return
    try:
        transport = EpollTransport(server.ticks.poller, connection.link, sock.fileno())
    except OSError as error:
        sock.close()
        connection.error(f"cannot be watched: {error}")
        connection.over(CloseReason.READ_ERROR)
        return
    sock.detach()
    connection.opened(transport)
    transport.flush()


async def open_over_asyncio(
    server: Runtime,
    sock: socket.socket,
    enter: _Enter,
    context: ssl.SSLContext | None = None,
    *,
    peer_name: str | None = None,
    handshake_seconds: float | None = None,
) -> None:
    """Open a connection with TLS over asyncio.

    `peer_name`: this side connected, to a server whose certificate must have this name; None: it accepted.

    Raises: OSError (ssl.SSLError is one) when the handshake fails; nothing was entered then.
    """

    def protocol() -> _LateTransport:
        return _LateTransport(server, enter)

    if context is not None:
        from headrace.server.handshakes import secure

        await secure(
            protocol, sock, context, vet=server.tls.vet, seconds=handshake_seconds, peer_name=peer_name
        )
    elif peer_name is None:
        await server.loop.connect_accepted_socket(protocol, sock)
    else:
        await server.loop.create_connection(protocol, sock=sock)


class _LateTransport(AsyncioTransport):
    """Gets its link when the handshake is over."""

    __slots__ = ("_enter", "_server")

    def __init__(self, server: Runtime, enter: _Enter) -> None:
        self._server = server
        self._enter = enter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = self._enter()
        if connection is None:
            transport.close()
            return

        def connected(made: asyncio.Transport) -> None:
            tls = made.get_extra_info("ssl_object")
            if tls is None or connection.secured(tls):
                connection.opened(self)

        super().__init__(connection.link, self._server.ticks.wake, connected, self._server.ticks.note_stalled)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if hasattr(self, "_link"):  # else it was not wanted
            super().connection_lost(exc)
