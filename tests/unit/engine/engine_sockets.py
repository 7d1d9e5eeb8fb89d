"""Engine links on real sockets, served by a Poller without an event loop."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from engine_peers import QUIET, Broker, Peer

from headrace.engine.reasons import CloseReason
from headrace.server.epoll import Poller

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.engine.client import ClientLink

PATIENCE = 20.0
"""Seconds for what loopback brings about at once."""

SMALL = 65_536
"""Bytes of socket buffers that a test means to fill."""


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """A connected pair over loopback: (the client's end, the server's, which does not block)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        served, _ = listener.accept()
    served.setblocking(False)
    return client, served


class PolledBroker(Broker):
    """A broker whose peers have sockets; closes links as a server does, once nothing is left to write."""

    def __init__(self, **router_options: Any) -> None:
        super().__init__(**router_options)
        self.poller = Poller(self.router)
        self._draining: list[ClientLink] = []
        self._clients: list[socket.socket] = []

    def connect(
        self, hello: bytes = QUIET, *, buffer: int | None = None, **limits: Any
    ) -> tuple[Peer, socket.socket]:
        client, served = tcp_pair()
        if buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            served.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        peer = self.peer(b"", **limits)
        self.poller.add(peer.link, served.detach())
        self._clients.append(client)
        client.sendall(hello)
        return peer, client

    def poll(self) -> None:
        for link in [*self.poller.poll(), *self._draining]:
            self.closed.append(link) if link not in self.closed else None
            unflushed = link.reason in (CloseReason.WRITE_ERROR, CloseReason.SLOW_CONSUMER_PENDING_BYTES)
            if unflushed or self.poller.flush(link):
                if link in self._draining:
                    self._draining.remove(link)
                self.poller.close(link)
                link.detach()
            elif link not in self._draining:
                self._draining.append(link)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = monotonic() + PATIENCE
        while not condition():
            assert monotonic() < deadline, "it never happened"
            self.poll()

    def stop(self) -> None:
        for peer in self._peers:
            self.poller.close(peer.link)
        for client in self._clients:
            client.close()
        assert len(self.poller) == 0
        super().stop()


def read(broker: PolledBroker, client: socket.socket, size: int) -> bytes:
    """So many bytes, polling meanwhile."""
    client.setblocking(False)
    got = bytearray()

    def come() -> bool:
        with suppress(BlockingIOError):
            got.extend(client.recv(1 << 20))
        return len(got) >= size

    broker.until(come)
    return bytes(got)


def read_to_end(broker: PolledBroker, client: socket.socket) -> bytes:
    client.setblocking(False)
    got = bytearray()

    def ended() -> bool:
        with suppress(BlockingIOError):
            data = client.recv(1 << 20)
            got.extend(data)
            return not data
        return False

    broker.until(ended)
    return bytes(got)


def reset(client: socket.socket) -> None:
    """Closes with a reset in place of a FIN."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
