"""The way to a connection with another server whose bytes flow, with TLS or without.

Who connects dials first: a name to addresses, one of them at random, a second for each attempt. A connection
to a peer only exists once its handshake is over: before that there is nobody to speak to. Never lives here:
when to try again (`headrace.cluster.soliciting`).
Source: nats-server 2.15.1: on routes TLS comes before the first INFO; its words for what went wrong.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from typing import TYPE_CHECKING, Any

from headrace import limits
from headrace.engine.reasons import CloseReason
from headrace.server.transport import AsyncioTransport, EpollTransport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from headrace.cluster.port import Address
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.port import Runtime

    _Enter = Callable[[], PeerConnection[Any] | None]
    """Makes the connection and its session; None: it is not wanted any more."""
    _IsOwn = Callable[[str, int], bool]


class DialError(Exception):
    """Why a peer could not be reached; without a text: every address of its name is this server's own."""


async def connect(
    address: Address, is_own: _IsOwn, seconds: float = limits.ROUTE_DIAL_TIMEOUT
) -> tuple[socket.socket, tuple[str, int]]:
    """A connected, non-blocking socket and the address it is connected to. Raises: DialError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise DialError(f"dial tcp: lookup {address.host}: i/o timeout") from None
    except OSError:
        raise DialError(f"dial tcp: lookup {address.host}: no such host") from None
    others = [each for each in found if not is_own(str(each[4][0]), address.port)]
    if not others:
        raise DialError
    family, _, _, _, place = random.choice(others)
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(seconds):
            await loop.sock_connect(sock, place)
    except BaseException as error:
        sock.close()
        where = f"dial tcp {address}"
        if isinstance(error, TimeoutError):
            raise DialError(f"{where}: i/o timeout") from None
        if isinstance(error, OSError):
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise DialError(f"{where}: connect: {reason}") from None
        raise
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock, (str(place[0]), address.port)


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
