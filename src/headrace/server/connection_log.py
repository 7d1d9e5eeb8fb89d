"""The lines of connections in the log and the trace, each with who it is about in front.

Here live levels and the limit on repeated lines. Never lives here: the words of one kind (`label`), what is
worth a line.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.server.log_text import headers_of, shown, traced_payload
from headrace.server.logs import TRACE

if TYPE_CHECKING:
    from headrace.server.port import LogHost


class ConnectionLog:
    """A session's way to speak. `label` is the head of its lines, `address` where it comes from."""

    __slots__ = ()

    _server: LogHost

    @property
    def address(self) -> str:
        raise NotImplementedError

    @property
    def label(self) -> str:
        raise NotImplementedError

    def debug(self, text: str) -> None:
        if self._server.options.debug:
            self._server.log.debug("%s %s", self.label, text)

    def error(self, text: str) -> None:
        """An error line, unless there were too many like it just now."""
        self._say(logging.ERROR, text)

    def notice(self, text: str) -> None:
        """Log a line as `error` does, for what is no mistake of the client's."""
        self._say(logging.INFO, text)

    def _say(self, level: int, text: str, error: Exception | None = None) -> None:
        if self._server.log_limits.admits(text, self.address):
            self._server.log.log(level, "%s %s", self.label, text, exc_info=error)

    def _trace_line(self, direction: str, text: str) -> None:
        self._server.log.log(TRACE, "%s %s [%s]", self.label, direction, text)

    def trace(self, op: str, arguments: bytes, payload: bytes | None) -> None:
        """An op came in."""
        self._trace_line("<<-", f"{op} {shown(arguments.strip())}".rstrip())
        if payload and self._server.options.trace_headers:
            payload = headers_of(op, arguments, payload)
        if payload:
            limit = self._server.options.max_traced_msg_len or len(payload)
            shortened = traced_payload(payload, limit)
            self._server.log.log(TRACE, "%s <<- MSG_PAYLOAD: [%s]", self.label, shortened)

    def trace_delivery(self, subject: bytes, sid: bytes, reply: bytes, headers: int, size: int) -> None:
        op = "HMSG" if headers else "MSG"
        words = [op, shown(subject), shown(sid), shown(reply), str(headers) if headers else "", str(size)]
        self._trace_line("->>", " ".join(word for word in words if word))
