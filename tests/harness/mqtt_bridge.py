"""A bridge from TCP to WebSocket, for clients of MQTT that speak over TCP only.

What its clients send goes to the server in frames that have nothing to do with packets: parts of one,
several, messages of several frames, empty ones, a PING between them. What the server sends comes out
as it was.
"""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from select import select
from typing import TYPE_CHECKING, Self

from harness.waiting import PATIENCE
from harness.websocket import BINARY, CLOSE, CONT, PING, PONG, WebSocket, frame, request

if TYPE_CHECKING:
    from types import TracebackType

_LOOK = 0.2
"""Seconds after which a connection sees that the bridge ends."""


def framed(data: bytes, rng: random.Random) -> bytes:
    """The frames of some bytes."""
    parts = []
    while data:
        size = rng.choice((1, 2, 3, 7, 50, len(data)))
        parts.append(data[:size])
        data = data[size:]
    frames = []
    goes_on = False
    for part in parts:
        final = rng.random() < 0.7
        frames.append(frame(part, CONT if goes_on else BINARY, final=final))
        goes_on = not final
        if rng.random() < 0.1:
            frames.append(frame(b"still there?", PING))
    if goes_on:
        frames.append(frame(b"", CONT))
    return b"".join(frames)


class MqttBridge:
    """A port for TCP before the WebSocket port of a server. `trouble`: what went wrong in a connection."""

    def __init__(self, server_port: int, seed: int) -> None:
        self._server_port = server_port
        self._rng = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_over = False
        self._threads: list[threading.Thread] = []
        self.trouble: list[Exception] = []
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(
                target=self._carry, args=(client, random.Random(self._rng.random())), daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _carry(self, client: socket.socket, rng: random.Random) -> None:
        try:
            with client, WebSocket(self._server_port, request(self._server_port, path="/mqtt")) as server:
                assert server.status == 101, server.response
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pump(client, server, rng)
        except Exception as error:  # noqa: BLE001 - said where the bridge is closed
            self.trouble.append(error)

    def _pump(self, client: socket.socket, server: WebSocket, rng: random.Random) -> None:
        while not self._is_over:
            readable, _, _ = select([client, server.socket], [], [], _LOOK)
            if client in readable:
                try:
                    data = client.recv(1 << 16)
                except ConnectionResetError:
                    return
                if not data:
                    return
                server.send_raw(framed(data, rng))
            if server.socket in readable:
                server.fill(0)
                for received in server.frames_so_far():
                    if received.opcode == CLOSE:
                        return
                    if received.opcode == BINARY:
                        with suppress(OSError):  # the client is gone, which is seen above
                            client.sendall(received.data)
                    else:
                        assert received.opcode == PONG, received
                if server.closed:
                    return

    def close(self) -> None:
        """End all connections. Raises: the first error of one of them."""
        self._is_over = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._accepting, *self._threads):
            thread.join(PATIENCE)
        if self.trouble:
            raise self.trouble[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
