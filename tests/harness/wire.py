"""A raw client connection for tests: exact bytes, and a deadline on everything."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any, Self

from harness.waiting import PATIENCE

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

QUIET = b'{"verbose":false,"pedantic":false}'
_LINE_END = b"\r\n"


class Conversation:
    """What a test can do over any connection that carries the client protocol."""

    socket: socket.socket

    def send(self, data: bytes) -> None:
        raise NotImplementedError

    def take_through(self, marker: bytes) -> bytes:
        raise NotImplementedError

    def sync(self) -> bytes:
        """What came before the answer to a PING sent now."""
        self.send(b"PING\r\n")
        return self.take_through(b"PONG\r\n")[: -len(b"PONG\r\n")]

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Wire(Conversation):
    """`received` holds what has come and was not asked for yet; `closed` is set once the peer has closed."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        greeted: bool = True,
        receive_buffer: int | None = None,
    ) -> None:
        self.socket: socket.socket | ssl.SSLSocket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(address)
        except BaseException:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self.closed = False
        self.info: dict[str, Any] = {}
        if greeted:
            self.take_info()

    # -- out

    def send(self, data: bytes) -> None:
        """Send bytes. A peer that has closed is no error: what it said before is still to be read."""
        try:
            self.socket.settimeout(PATIENCE)
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def connect(self, options: bytes = b"") -> None:
        """CONNECT (not verbose unless asked for) and PING; returns after the PONG."""
        self.send(b"CONNECT " + (options or QUIET) + b"\r\nPING\r\n")
        self.take_through(b"PONG\r\n")

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def upgrade(self, context: ssl.SSLContext, name: str = "localhost") -> None:
        """TLS from here on."""
        self.socket = context.wrap_socket(self.socket, server_hostname=name)  # type: ignore[arg-type]

    # -- in

    def fill(self, seconds: float) -> bool:
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
        if not data:
            self.closed = True
            return False
        self.received += data
        return True

    def take(self) -> bytes:
        """All that has come."""
        data = bytes(self.received)
        self.received.clear()
        return data

    def take_through(self, marker: bytes, seconds: float = PATIENCE) -> bytes:
        """Return all bytes up to and with `marker`.

        Raises: AssertionError when it does not come.
        """
        deadline = time.monotonic() + seconds
        while (at := self.received.find(marker)) < 0:
            if not self.fill(deadline - time.monotonic()) and (self.closed or time.monotonic() > deadline):
                state = "closed" if self.closed else "open"
                raise AssertionError(f"{marker!r} did not come ({state}): {bytes(self.received[-500:])!r}")
        data = bytes(self.received[: at + len(marker)])
        del self.received[: at + len(marker)]
        return data

    def take_line(self) -> bytes:
        return self.take_through(_LINE_END)

    def take_info(self) -> dict[str, Any]:
        line = self.take_line()
        assert line.startswith(b"INFO "), line
        self.info = json.loads(line[5:])
        return self.info

    def take_message(self) -> tuple[list[bytes], bytes]:
        """Return the next MSG or HMSG: the words of its line, and headers with payload.

        A PING before it is answered: on a busy machine a server's first one may come.
        """
        line = self.take_line()
        while line == b"PING\r\n":
            self.send(b"PONG\r\n")
            line = self.take_line()
        assert line.startswith((b"MSG ", b"HMSG ")), line
        words = line.split()
        size = int(words[-1]) + 2
        while len(self.received) < size:
            assert self.fill(PATIENCE), f"payload incomplete: {bytes(self.received[:100])!r}"
        body = bytes(self.received[: size - 2])
        del self.received[:size]
        return words, body

    def take_rest(self, seconds: float = PATIENCE) -> bytes:
        """Return all bytes until the peer closes.

        Raises: AssertionError when it does not.
        """
        deadline = time.monotonic() + seconds
        while not self.closed:
            assert time.monotonic() < deadline, f"still open: {bytes(self.received[-500:])!r}"
            self.fill(deadline - time.monotonic())
        return self.take()
