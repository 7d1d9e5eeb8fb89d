"""The log sent to syslog: the system's own, or one elsewhere over UDP, TCP or a Unix socket.

Here lives the sending, in a thread: neither a name that is slow to resolve nor a syslog that does not read
may hold up the server. Lines that it does not take in time are dropped, and counted. Never lives here: what
is logged.
Source: `syslog` and `remote_syslog` of the Go server 2.15.1; the standard library writes the packets.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import sys
from logging.handlers import QueueHandler, QueueListener, SysLogHandler
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from headrace.errors import StartError

if TYPE_CHECKING:
    from headrace.conf.options import Options

WAITING: Final = 10_000
"""Lines that may wait for a syslog that is slow; more are dropped."""

_PATIENCE: Final = 2.0  # seconds a line may take to be sent
_DEFAULT_PORT: Final = 514
_LOCAL: Final = ("/dev/log", "/var/run/syslog", "/var/run/log")
_PRIORITIES: Final = {
    logging.CRITICAL: "critical",
    logging.ERROR: "error",
    logging.WARNING: "warning",
    logging.INFO: "notice",
    logging.DEBUG: "debug",
}


class SyslogHandler(QueueHandler):
    """Formats a record where it is logged, and has a thread send it.

    Raises: StartError from the constructor when there is no such syslog.
    """

    def __init__(self, options: Options) -> None:
        super().__init__(queue.Queue(WAITING))
        self._dropped = 0
        self._is_closed = False
        self._listener = QueueListener(self.queue, _Sender(options.remote_syslog))
        self._listener.start()

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
            if self._dropped:
                self.queue.put_nowait(self._note())
                self._dropped = 0
        except queue.Full:
            self._dropped += 1

    def _note(self) -> logging.LogRecord:
        text = f"{self._dropped} lines were dropped: syslog did not take them in time\n"
        return logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)

    def close(self) -> None:
        """Send the lines that wait, as far as syslog takes them, and close. `logging` may call it twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._listener.stop()
        for handler in self._listener.handlers:
            handler.close()
        super().close()


class _Sender(SysLogHandler):
    """One packet a line. A syslog that is away costs lines, and is tried again with the next one."""

    append_nul = False
    socket: Any  # None until there is one

    def __init__(self, url: str | None) -> None:
        address, kind = _place(url)
        try:
            super().__init__(address, SysLogHandler.LOG_DAEMON, kind)
        except OSError as error:
            raise StartError(f"error connecting to syslog: {error.strerror or error}") from error
        self.ident = f"{os.path.basename(sys.argv[0])}[{os.getpid()}]: "

    def createSocket(self) -> None:  # noqa: N802 - the standard library's name
        if self.socktype is socket.SOCK_STREAM and not isinstance(self.address, str):
            self.unixsocket = False
            self.socket = socket.create_connection(self.address, timeout=_PATIENCE)
            return
        super().createSocket()
        if isinstance(self.address, str) and self.socket.fileno() < 0:
            raise OSError(f"nobody reads {self.address}")
        self.socket.settimeout(_PATIENCE)

    def mapPriority(self, levelName: str) -> str:  # noqa: N802, N803 - the standard library's name
        return _PRIORITIES.get(logging.getLevelNamesMapping().get(levelName, logging.INFO), "notice")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """The line is lost: there is nobody else to tell. The next one has a new connection."""
        if self.socket is not None:
            self.socket.close()
        self.socket = None


def _place(url: str | None) -> tuple[str | tuple[str, int], socket.SocketKind | None]:
    """Address and kind of socket of `remote_syslog`, None for the machine's own."""
    if url is None:
        found = next((path for path in _LOCAL if os.path.exists(path)), _LOCAL[0])
        return found, None
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path, None
    kind = socket.SOCK_STREAM if parts.scheme == "tcp" else socket.SOCK_DGRAM
    return (parts.hostname or "localhost", parts.port or _DEFAULT_PORT), kind
