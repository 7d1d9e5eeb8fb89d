"""A port of this machine that serves the files of the console, a thread for each connection.

Here lives the socket, with the same bounds as those of a server. Never lives here: answers
(`headrace.console.site`).
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.cli.outcomes import CommandError
from headrace.conf.console_options import FIRST_PORT, LAST_PORT
from headrace.console.page_requests import END

if TYPE_CHECKING:
    from headrace.console.site import Answer, ConsoleSite

_HOST: Final = "127.0.0.1"
_READ: Final = 4096


class ConsoleServer(socketserver.ThreadingTCPServer):
    """The port. `port` None: the first free one of those for consoles. Raises: CommandError."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, site: ConsoleSite, port: int | None) -> None:
        self.site: Final = site
        self.places: Final = threading.BoundedSemaphore(limits.CONSOLE_CONNECTIONS)
        ports = range(FIRST_PORT, LAST_PORT + 1) if port is None else (port,)
        for each in ports:
            try:
                super().__init__((_HOST, each), _Browser)
            except OSError as error:
                problem = error
            else:
                break
        else:
            raise CommandError(f"cannot listen on {_HOST}:{ports[-1]}: {problem.strerror or problem}")

    @property
    def origin(self) -> str:
        """The origin of the page."""
        return f"http://{_HOST}:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """The URL of the page."""
        return f"{self.origin}{self.site.path}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Pass a browser over that goes away within an answer; a mistake of ours is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came


class _Browser(socketserver.BaseRequestHandler):
    """One connection: requests in turn."""

    server: ConsoleServer
    request: socket.socket

    def handle(self) -> None:
        if not self.server.places.acquire(blocking=False):
            self._send(self.server.site.refusal(HTTPStatus.SERVICE_UNAVAILABLE, "Retry-After: 1\r\n"))
            return
        try:
            self._answer_all()
        finally:
            self.server.places.release()

    def _answer_all(self) -> None:
        site, rest = self.server.site, b""
        for count in range(1, limits.CONSOLE_REQUESTS + 1):
            head, rest = self._head(rest)
            if head is None:
                return
            if not head:
                self._send(site.refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
                return
            answer = site.answer(head, is_last=count == limits.CONSOLE_REQUESTS)
            self._send(answer)
            if answer.is_last:
                return

    def _head(self, data: bytes) -> tuple[bytes | None, bytes]:
        """Return the next head, and what stands behind it; None: none came, b"": it is too large."""
        with _Deadline(self.request, limits.CONSOLE_REQUEST_TIMEOUT):
            while END not in data:
                if len(data) > limits.CONSOLE_HEAD:
                    return b"", b""
                try:
                    more = self.request.recv(_READ)
                except OSError:  # the time is over, or it is gone
                    return None, b""
                if not more:
                    return None, b""
                data += more
        head, _, rest = data.partition(END)
        return head + END, rest

    def finish(self) -> None:
        """Read what the browser still sends, for a moment: else it might not read the last answer."""
        with _Deadline(self.request, limits.CONSOLE_GOODBYE), suppress(OSError):
            self.request.shutdown(socket.SHUT_WR)
            while self.request.recv(_READ):
                pass

    def _send(self, answer: Answer) -> None:
        self.request.settimeout(limits.CONSOLE_ANSWER_TIMEOUT)
        self.request.sendall(answer.data)


class _Deadline:
    """A time for all reads in a block, however slowly bytes come: then the socket is shut down."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        sock.settimeout(seconds)
        self._timer = threading.Timer(seconds, self._end, (sock,))
        self._timer.daemon = True

    @staticmethod
    def _end(sock: socket.socket) -> None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # it has ended by itself
            return

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
