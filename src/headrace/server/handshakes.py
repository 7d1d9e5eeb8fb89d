"""TLS handshakes of connections, accepted and begun, and what is asked about the peer when one has ended.

A peer that must be checked is neither read nor written to until it has been: its protocol gets the connection
afterwards. Never lives here: contexts (`tls`), the check itself (`ocsp`).
Source: as with the Go server 2.15.1 the time of a handshake does not end the check, which has its own.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from headrace.server.alerts import speak_on

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable

    from headrace.conf.tls_options import OCSPPeerOptions

    Vet = Callable[[ssl.SSLObject, "PeerCheck"], Awaitable[None]]
    """Check the peer of a finished handshake. Raises: PeerRefused."""

CLIENT: Final = "Client"
LEAF_NODE: Final = "Leafnode"


class PeerCheck(Struct, frozen=True):
    """The demands of `ocsp_peer` on the other side of a connection.

    `kind`: of connection, as events name it. `role`: the other side is the "client" or the "server" of TLS.
    """

    options: OCSPPeerOptions
    kind: str
    role: str


class PeerRefused(ssl.SSLError):
    """The peer has proved who it is, and may not stay."""

    reason = ""  # OpenSSL's, which had nothing against it

    def __str__(self) -> str:
        return str(self.args[0])


async def secure(
    protocol: Callable[[], asyncio.BaseProtocol],
    sock: socket.socket,
    context: ssl.SSLContext,
    *,
    vet: Vet,
    seconds: float | None,
    peer_name: str | None = None,
    limit: asyncio.Timeout | None = None,
) -> None:
    """Hand a connection to its protocol when its handshake has ended well, within `seconds`.

    `peer_name`: this side connected, to a server whose certificate must have this name; None: it accepted.
    `limit`: the caller's for more than this; what the check of the peer takes is put on top of it.
    Raises: OSError (ssl.SSLError is one); the protocol was not made then, or knows of no connection.
    """
    loop = asyncio.get_running_loop()
    check: PeerCheck | None = getattr(context, "peer_check", None)
    factory = protocol if check is None else _Waiting
    speak_on(sock)
    if peer_name is None:
        transport, waiting = await loop.connect_accepted_socket(
            factory, sock, ssl=context, ssl_handshake_timeout=seconds
        )
    else:
        transport, waiting = await loop.create_connection(
            factory, sock=sock, ssl=context, server_hostname=peer_name, ssl_handshake_timeout=seconds
        )
    if check is None:
        return
    try:
        async with _put_off(limit):
            await vet(transport.get_extra_info("ssl_object"), check)
    except BaseException:
        transport.abort()
        raise
    if cast("_Waiting", waiting).is_over:
        raise ConnectionResetError("connection closed")
    checked = protocol()
    transport.set_protocol(checked)
    checked.connection_made(transport)
    transport.resume_reading()


@asynccontextmanager
async def _put_off(limit: asyncio.Timeout | None) -> AsyncIterator[None]:
    """The time that passes within does not count."""
    ends = limit.when() if limit is not None else None
    if limit is None or ends is None:
        yield
        return
    loop = asyncio.get_running_loop()
    left = ends - loop.time()
    limit.reschedule(None)
    yield
    limit.reschedule(loop.time() + left)


class _Waiting(asyncio.Protocol):
    """The protocol of a connection whose peer is being checked. What the peer sends waits, mostly outside."""

    is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
