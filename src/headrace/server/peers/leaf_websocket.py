"""Reaching a hub over WebSocket: through a proxy if there is one, TLS, the upgrade, and then a leaf link.

Never lives here: the HTTP of it (`headrace.server.websocket.dialing`), leaf links over TCP (`leafs`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from headrace.errors import ProtocolError
from headrace.server.handshakes import secure
from headrace.server.peers.leafs import client_context, server_name
from headrace.server.websocket.connections import LeafNode
from headrace.server.websocket.dialing import Early, UpgradeAttempt, leaf_upgrade, open_tunnel
from headrace.server.websocket.transport import READ_SIZE, WebSocketTransport

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from websockets.client import ClientProtocol

    from headrace.cluster.leaf import LeafSession
    from headrace.conf.leaf_options import LeafRemote
    from headrace.conf.peer_options import PeerURL
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.port import Runtime


class HubAttempt(NamedTuple):
    """One attempt. `enter` makes the connection once the hub agrees; `seconds`: what a tunnel may take."""

    remote: LeafRemote
    url: PeerURL
    enter: Callable[[], PeerConnection[LeafSession] | None]
    seconds: float


async def reach(server: Runtime, sock: socket.socket, hub: HubAttempt) -> None:
    """Make a leaf link of a socket that is connected to the hub, or to the remote's proxy.

    Raises: ProtocolError, OSError (ssl.SSLError is one), StartError; the socket is closed then.
    """
    try:
        proxy = hub.remote.proxy
        if proxy is not None:
            await open_tunnel(sock, proxy, hub.url, proxy.timeout or hub.seconds)
        await _upgrade(server, sock, hub)
    except BaseException:
        sock.close()
        raise


async def _upgrade(server: Runtime, sock: socket.socket, hub: HubAttempt) -> None:
    remote, url = hub.remote, hub.url

    def upgraded(transport: asyncio.Transport, protocol: ClientProtocol, early: Early) -> None:
        connection = hub.enter()
        if connection is None:
            transport.abort()
            return
        connection.session.is_over_websocket = True
        carrier = WebSocketTransport(
            LeafNode(server, connection),
            protocol,
            buffer=memoryview(bytearray(READ_SIZE)),
            is_browser=False,
            after_tick=server.ticks.wake,
            on_stalled=server.ticks.note_stalled,
        )
        transport.set_protocol(carrier)
        carrier.connection_made(transport)
        carrier.take_early(early.frames, early.rest)

    is_secure = url.scheme == "wss" or remote.tls is not None
    upgrade = UpgradeAttempt(
        leaf_upgrade(remote, url, is_secure=is_secure),
        asks_no_masking=remote.ws_no_masking,
        upgraded=upgraded,
    )
    files = remote.tls.files if remote.tls is not None else None
    try:
        async with asyncio.timeout(remote.first_info_timeout) as limit:
            if is_secure:
                await secure(
                    lambda: upgrade,
                    sock,
                    client_context(remote),
                    vet=server.tls.vet,
                    seconds=files.timeout if files is not None else None,
                    peer_name=server_name(url, remote),
                    limit=limit,
                )
            else:
                await server.loop.create_connection(lambda: upgrade, sock=sock)
            await upgrade.done
    except TimeoutError:
        if upgrade.has_succeeded:  # in the same turn of the loop
            return
        upgrade.give_up()
        raise ProtocolError("i/o timeout") from None
