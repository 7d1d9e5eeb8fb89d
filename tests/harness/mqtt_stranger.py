"""A raw connection to an MQTT port, from its first byte on: any bytes out, and what comes back."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Self

from harness.mqtt_wire import CONNECT, encoded, text
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

ACCEPTED = "20020000"
"""The CONNACK of 3.1.1 for a new session."""


def connect_packet(
    client_id: str = "c",
    *,
    version: int = 4,
    keep_alive: int = 0,
    user: str = "",
    password: str | bytes = "",
    clean: bool = True,
    will: tuple[str, bytes] | None = None,
) -> bytes:
    """A CONNECT; of 5.0 without properties."""
    flags = (2 if clean else 0) | (0x80 if user else 0) | (0x40 if password else 0) | (4 if will else 0)
    none = b"\0" if version == 5 else b""
    names = b"".join(text(each) for each in (user, password) if each)
    last = none + text(will[0]) + text(will[1]) if will else b""
    head = text("MQTT") + bytes([version, flags]) + keep_alive.to_bytes(2, "big") + none
    return encoded(CONNECT, head + text(client_id) + last + names)


class Stranger:
    """A raw connection to a port of this machine; with a context it is TLS at once."""

    def __init__(
        self, port: int | None, *, context: ssl.SSLContext | None = None, first: bytes = b""
    ) -> None:
        """`first`: sent before the handshake, as a proxy does."""
        assert port is not None, "the server has such a port"
        self.socket: socket.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.address = self.socket.getsockname()
        if first:
            self.socket.sendall(first)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def take(self, count: int) -> bytes:
        """So many bytes, or what came until the server closed."""
        received = b""
        while len(received) < count:
            data = self.socket.recv(count - len(received))
            if not data:
                break
            received += data
        return received

    def rest_or(self, count: int) -> bytes:
        """So many bytes, or what came until the connection ended, in whatever way."""
        try:
            return self.take(count)
        except OSError:  # reset, or an alert of TLS
            return b""

    def rest(self) -> bytes:
        """Everything until the server closes."""
        received = b""
        try:
            while data := self.socket.recv(1 << 16):
                received += data
        except ConnectionResetError:
            pass
        return received

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
