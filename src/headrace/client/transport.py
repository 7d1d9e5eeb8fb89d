"""A non-blocking socket, plain or TLS, that can be waited for with a time limit.

Owns the descriptor and nothing else: no frame is known here, nothing is retried. The client above
decides what to read and write. Source: ADR 0001 (sans-I/O codecs).
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


class SocketStream:
    """Bytes in and out of one connected socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, selectors.EVENT_READ)
        self._events = selectors.EVENT_READ
        self._tls: ssl.SSLSocket | None = None
        self._waits: tuple[type[OSError], ...] = (BlockingIOError,)
        self._farewells: tuple[type[OSError], ...] = ()
        """Errors of TLS that mean: nothing yet; and the end of peers that close without the TLS farewell."""

    def start_tls(self, context: ssl.SSLContext, host: str, timeout: float) -> None:
        """Hand-shake on the open connection. Raises: OSError (which ssl.SSLError is)."""
        self._selector.unregister(self._socket)
        self._socket.settimeout(timeout)
        import ssl  # loaded with the context

        self._socket = self._tls = context.wrap_socket(self._socket, server_hostname=host)
        self._waits = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        self._farewells = (ssl.SSLEOFError,)
        self._socket.setblocking(False)
        self._selector.register(self._socket, self._events)

    @property
    def peer_certificate_ends(self) -> float | None:
        """The seconds since 1970 UTC at which the peer's certificate ends; None if none was verified."""
        found = None if self._tls is None else self._tls.getpeercert()
        ends = (found or {}).get("notAfter")
        if not isinstance(ends, str):
            return None
        import ssl  # loaded with the context

        return ssl.cert_time_to_seconds(ends)

    def wait(
        self, timeout: float | None, *, to_write: bool = False, to_read: bool = True
    ) -> tuple[bool, bool]:
        """Wait until the socket is readable or writable; return which. `timeout`: seconds, None: no limit.

        One of both is waited for at least.
        """
        if to_read and self._tls is not None and self._tls.pending():
            return True, to_write
        events = (selectors.EVENT_READ if to_read else 0) | (selectors.EVENT_WRITE if to_write else 0)
        if events != self._events:
            self._selector.modify(self._socket, events)
            self._events = events
        ready = 0
        for _key, mask in self._selector.select(timeout):
            ready |= mask
        return bool(ready & selectors.EVENT_READ), bool(ready & selectors.EVENT_WRITE)

    def read(self, most: int) -> bytes | None:
        """Read the bytes that have arrived; None if there are none, empty if the peer closed.

        Raises: OSError.
        """
        try:
            return self._socket.recv(most)
        except self._waits:
            return None
        except self._farewells:
            return b""

    def read_into(self, room: memoryview) -> int | None:
        """Read into a buffer and return the number of bytes; None if none has arrived, 0 if the peer closed.

        Raises: OSError.
        """
        try:
            return self._socket.recv_into(room)
        except self._waits:
            return None
        except self._farewells:
            return 0

    def write(self, data: memoryview) -> int:
        """Write, and return how many bytes the system took, possibly none. Raises: OSError."""
        try:
            return self._socket.send(data)
        except self._waits:
            return 0

    def close(self) -> None:
        self._selector.close()
        with contextlib.suppress(OSError):  # the peer may have closed first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def open_stream(host: str, port: int, timeout: float) -> SocketStream:
    """Connect over TCP. Raises: OSError, TimeoutError."""
    # As bytes the system is given it as it is: a text is first looked at as the name of another script.
    name = host.encode() if host.isascii() else host
    sock = socket.create_connection((name, port), timeout)  # type: ignore[arg-type]  # bytes are fine
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return SocketStream(sock)
