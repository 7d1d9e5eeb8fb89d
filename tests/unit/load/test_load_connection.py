"""The connection of a load against a server that does not take what it is sent."""

from __future__ import annotations

import select
import socket
import threading
from typing import Final

from harness.waiting import PATIENCE
from headrace.client.errors import ConnectionLostError
from headrace.client.options import ConnectOptions, resolve_addresses
from headrace.load.connection import LoadConnection

REQUEST: Final = b"MSG s 1 r 0\r\n\r\n"
ANSWER: Final = b"x" * 1000
FRAME: Final = len(b"PUB r 1000\r\n\r\n") + len(ANSWER)
PUSHED: Final = 8 << 20
"""More bytes of requests than a reader has room for, and the system between both sides."""
WANTED: Final = 5_000
"""Answers that the server takes in the end."""
INFO: Final = b'INFO {"server_id":"S","version":"2.15.1","proto":1,"headers":true,"max_payload":1024}\r\n'


class PushingServer(threading.Thread):
    """A server that sends requests, and takes answers only when no more can be sent."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.is_blocked = threading.Event()
        self.taken = 0
        """Bytes of answers."""

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self) -> None:
        peer, _ = self.listener.accept()
        with self.listener, peer:
            peer.sendall(INFO)
            for _ in range(2):  # of the handshake and of `flush`
                said = b""
                while b"PING\r\n" not in said:
                    said += peer.recv(4096)
                peer.sendall(b"PONG\r\n")
            peer.setblocking(False)
            self._push(peer)
            self.is_blocked.set()
            peer.setblocking(True)
            while self.taken < WANTED * FRAME:
                self.taken += len(peer.recv(1 << 16))

    def _push(self, peer: socket.socket) -> None:
        """Send until nothing can be sent for a while."""
        data = memoryview(REQUEST * (PUSHED // len(REQUEST)))
        while data and select.select([], [peer], [], 0.5)[1]:
            data = data[peer.send(data) :]


def test_a_server_that_takes_no_answers_is_not_read_on() -> None:
    server = PushingServer()
    server.start()
    connection = LoadConnection(resolve_addresses(server.url), ConnectOptions(timeout=PATIENCE))
    try:
        connection.count(b"s", answer=ANSWER)
        connection.flush()
        while not server.is_blocked.is_set():
            connection.step(0.01)
        while server.is_alive():
            connection.step(0.01)
    except ConnectionLostError:
        assert server.taken >= WANTED * FRAME, "the connection was given up before its end"
    finally:
        connection.close()

    assert connection.reader.messages >= WANTED
