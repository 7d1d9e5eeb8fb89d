"""Browsers that ask the WebSocket port for the console's files: their connections, and the bounds on them.

Here lives what a stranger may keep busy: connections, time, bytes. Never lives here: requests and answers
(`headrace.console`), upgrades (`handshake`).
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from headrace import limits
from headrace.console.page_requests import END

if TYPE_CHECKING:
    from headrace.console.site import Answer, ConsoleSite

_LONGEST_LINE: Final = 8 << 10
"""Bytes in which the first line of a request must end; a longer one is for the upgrade's rules to refuse."""


class Pages:
    """All connections of one port that ask for files of its console."""

    def __init__(self, site: ConsoleSite) -> None:
        self.site: Final = site
        self._open: set[_PageConnection] = set()
        self._is_closed = False

    def are_wanted(self, data: bytes) -> bool | None:
        """True if a connection that begins so asks for a file; None: that is not known yet."""
        line, end, _ = data.partition(b"\n")
        if not end and len(line) < _LONGEST_LINE:
            return None
        words = line.removesuffix(b"\r").split(b" ")
        return len(words) > 1 and self.site.has(words[1].decode("latin-1"))

    def serve(self, transport: asyncio.Transport, data: bytes) -> None:
        """Take over a connection that has begun with `data`."""
        if self._is_closed:
            transport.abort()
            return
        busy = sum(not each.is_over for each in self._open)
        connection = _PageConnection(self.site, self._open)
        self._open.add(connection)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if busy >= limits.CONSOLE_CONNECTIONS:
            connection.refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Retry-After: 1\r\n")
        else:
            connection.data_received(data)

    def close(self) -> None:
        """End all connections, and those that still come."""
        self._is_closed = True
        for connection in list(self._open):
            connection.abort()


class _PageConnection(asyncio.Protocol):
    """One browser's connection: requests in turn, each answered when the answer before has been taken.

    `is_over`: the last answer has been given; it only waits for the browser to take it.
    """

    def __init__(self, site: ConsoleSite, among: set[_PageConnection]) -> None:
        self._site = site
        self._among = among
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._received = b""
        self._answered = 0
        self._is_writing = False
        self.is_over = False

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # An answer is taken when nothing of it waits; over TLS a limit of 0 would always be reached.
        self._transport.set_write_buffer_limits(1, 0)
        self._wait(limits.CONSOLE_REQUEST_TIMEOUT)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._among.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            return
        self._received += data
        self._go_on()

    def pause_writing(self) -> None:
        self._is_writing = True

    def resume_writing(self) -> None:
        self._is_writing = False
        transport = self._transport
        if transport is None:
            return
        if self.is_over:
            self._say_goodbye(transport)
            return
        transport.resume_reading()
        self._wait(limits.CONSOLE_REQUEST_TIMEOUT)
        self._go_on()

    # -- requests

    def _go_on(self) -> None:
        """Answer the requests that have come wholly, as far as answers are taken."""
        while not self.is_over and not self._is_writing:
            at = self._received.find(END)
            if at < 0 and len(self._received) <= limits.CONSOLE_HEAD:
                return
            head, self._received = self._received[: at + len(END)], self._received[at + len(END) :]
            if at < 0:
                self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                return
            self._answered += 1
            is_last = self._answered >= limits.CONSOLE_REQUESTS
            self._send(self._site.answer(head, is_last=is_last))

    def refuse(self, status: HTTPStatus, headers: str = "") -> None:
        """Answer with a status, and end the connection."""
        self._send(self._site.refusal(status, headers))

    def _send(self, answer: Answer) -> None:
        transport = self._transport
        if transport is None:
            return
        self.is_over = answer.is_last
        self._wait(limits.CONSOLE_ANSWER_TIMEOUT)
        transport.write(answer.data)
        if self._is_writing:
            transport.pause_reading()
        elif self.is_over:
            self._say_goodbye(transport)
        else:
            self._wait(limits.CONSOLE_REQUEST_TIMEOUT)

    # -- the end

    def _say_goodbye(self, transport: asyncio.Transport) -> None:
        """Close, so that what the browser still sends does not cost it the answer."""
        self._received = b""
        if not transport.can_write_eof():  # TLS says goodbye in its own way
            transport.close()
            return
        transport.write_eof()
        transport.resume_reading()
        self._wait(limits.CONSOLE_GOODBYE)

    def eof_received(self) -> bool:
        """Close what the browser closes: nothing it has asked for waits, or it does not want it."""
        return False

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
