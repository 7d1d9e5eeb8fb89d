"""Reaching a hub over WebSocket: its answer and the end of the time for it."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from websockets.utils import accept_key

from headrace.conf.leaf_options import LeafRemote
from headrace.conf.peer_options import PeerURL
from headrace.server.peers.leaf_websocket import HubAttempt, reach

if TYPE_CHECKING:
    import pytest

    from headrace.server.server import Server

SECONDS = 60.0
ANSWER = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: %s\r\n\r\n"
)


def test_an_answer_in_the_turn_in_which_its_time_ends_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop was busy with something else until both had come."""
    entered: list[None] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = cast("Server", SimpleNamespace(loop=loop))
        own, hub = socket.socketpair()
        with own, hub:
            hub.setblocking(False)
            remote = LeafRemote(first_info_timeout=SECONDS)
            attempt = HubAttempt(remote, PeerURL("hub", 80, scheme="ws"), lambda: entered.append(None), 1.0)
            reaching = loop.create_task(reach(server, own, attempt))
            request = (await loop.sock_recv(hub, 4096)).decode()
            (key,) = [line[19:] for line in request.split("\r\n") if line.startswith("Sec-WebSocket-Key: ")]
            hub.send((ANSWER % accept_key(key)).encode())
            clock = loop.time
            monkeypatch.setattr(loop, "time", lambda: clock() + SECONDS)
            await reaching

    asyncio.run(run())
    assert entered == [None]
