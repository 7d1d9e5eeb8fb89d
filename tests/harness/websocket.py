"""A raw WebSocket connection for tests: frames as bytes, and what comes back as frames."""

from __future__ import annotations

import base64
import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.waiting import PATIENCE
from harness.wire import Conversation

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


@dataclass(frozen=True, slots=True)
class Received:
    """One frame from the server. `is_compressed`: its first reserved bit is set."""

    opcode: int
    data: bytes
    is_compressed: bool = False


def frame(
    data: bytes,
    opcode: int = BINARY,
    *,
    final: bool = True,
    reserved: int = 0,
    mask: bytes | None = b"\1\2\3\4",
) -> bytes:
    """A frame as a client sends it; without a mask as it must not."""
    head = bytes([(0x80 if final else 0) | reserved << 4 | opcode])
    bit = 0x80 if mask else 0
    if len(data) < 126:
        head += bytes([bit | len(data)])
    elif len(data) < 1 << 16:
        head += bytes([bit | 126]) + struct.pack("!H", len(data))
    else:
        head += bytes([bit | 127]) + struct.pack("!Q", len(data))
    if mask is None:
        return head + data
    key = (mask * (len(data) // 4 + 1))[: len(data)]
    masked = int.from_bytes(data, "big") ^ int.from_bytes(key, "big")
    return head + mask + masked.to_bytes(len(data), "big")


def request(port: int, *, path: str = "/", **changes: str | None) -> bytes:
    """An upgrade request. Names of headers to change have underscores for hyphens; None leaves one out."""
    headers: dict[str, str | None] = {
        "Host": f"127.0.0.1:{port}",
        "Upgrade": "websocket",
        "Connection": "keep-alive, Upgrade",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Version": "13",
    }
    names = {name.lower(): name for name in headers}
    for name, value in changes.items():
        shown = name.replace("_", "-")
        headers[names.get(shown.lower(), shown)] = value
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if value is not None]
    return f"GET {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1")


class WebSocket(Conversation):
    """`response` is the head of the answer to the upgrade; `closed` is set once the peer has closed."""

    def __init__(
        self,
        port: int,
        upgrade: bytes | None = None,
        *,
        context: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
    ) -> None:
        self.socket: socket.socket | ssl.SSLSocket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")  # type: ignore[arg-type]
        self.received = bytearray()
        self.closed = False
        self.close_frame: Received | None = None
        self.response = ""
        if upgrade != b"":
            self.send_raw(upgrade or request(port))
            self.response = self.take_response()

    @property
    def status(self) -> int:
        return int(self.response.split()[1])

    def send_raw(self, data: bytes) -> None:
        """Send bytes. A peer that has closed is no error: what it said before is still to be read."""
        try:
            self.socket.settimeout(PATIENCE)
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def send(self, data: bytes) -> None:
        """One binary message."""
        self.send_raw(frame(data))

    def fill(self, seconds: float = PATIENCE) -> bool:
        """Read once; False when nothing came in that time or the peer has closed."""
        if self.closed:
            return False
        self.socket.settimeout(max(seconds, 0.001))
        try:
            data = self.socket.recv(1 << 20)
        except TimeoutError:
            return False
        except OSError:  # a reset, or a TLS end without goodbye
            data = b""
        self.closed = not data
        self.received += data
        return bool(data)

    def take_response(self) -> str:
        while b"\r\n\r\n" not in self.received:
            assert self.fill(), f"no response: {bytes(self.received[:200])!r}"
        head, _, rest = bytes(self.received).partition(b"\r\n\r\n")
        self.received[:] = rest
        return head.decode("latin-1")

    def take_frame(self, seconds: float = PATIENCE) -> Received:
        """The next frame. Raises: AssertionError when none comes."""
        deadline = time.monotonic() + seconds
        while (found := self._frame()) is None:
            assert self.fill(deadline - time.monotonic()), f"no frame: {bytes(self.received[:200])!r}"
        if found.opcode == CLOSE:
            self.close_frame = found
        return found

    def frames_so_far(self) -> Iterator[Received]:
        """Yield the frames that have come already."""
        while (found := self._frame()) is not None:
            yield found

    def _frame(self) -> Received | None:
        data = self.received
        if len(data) < 2:
            return None
        size, at = data[1] & 0x7F, 2
        assert not data[1] & 0x80, "a server masks nothing"
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(data) < 2 + width:
                return None
            size, at = int.from_bytes(data[2 : 2 + width], "big"), 2 + width
        if len(data) < at + size:
            return None
        found = Received(data[0] & 0x0F, bytes(data[at : at + size]), bool(data[0] & 0x40))
        del data[: at + size]
        return found

    def take_through(self, marker: bytes, seconds: float = PATIENCE) -> bytes:
        """What binary messages bring, up to one that ends with `marker`."""
        text = b""
        deadline = time.monotonic() + seconds
        while not text.endswith(marker):
            found = self.take_frame(deadline - time.monotonic())
            assert found.opcode == BINARY, found
            text += found.data
        return text

    def take_end(self) -> tuple[bytes, int | None]:
        """What messages bring until the peer closes, and the code it closes with (None: it gives none)."""
        text = b""
        while True:
            found = self._frame()
            if found is None:
                if not self.fill():
                    assert self.closed, f"still open: {text[-200:]!r}"
                    break
            elif found.opcode == CLOSE:
                self.close_frame = found
            elif found.opcode == BINARY:
                text += found.data
        if self.close_frame is None or not self.close_frame.data:
            return text, None
        return text, int.from_bytes(self.close_frame.data[:2], "big")

    def connect(self, options: bytes = b'{"verbose":false,"pedantic":false}') -> None:
        """INFO, CONNECT and PING; returns after the PONG."""
        self.take_through(b"\r\n")
        self.send(b"CONNECT " + options + b"\r\nPING\r\n")
        self.take_through(b"PONG\r\n")
