"""Log lines in the reference server's shape, and the file they go to.

    [4711] 2026/11/21 02:22:20.123456 [INF] Server is ready

Test tools parse these lines. Only formatting and files live here; what is logged is decided where it
happens, and never is a payload (unless tracing), a token or a password.
"""

from __future__ import annotations

import datetime
import logging
import os
import sys
from typing import TYPE_CHECKING, Final

from headrace.errors import StartError
from headrace.server.log_text import printable

if TYPE_CHECKING:
    from headrace.conf.options import Options

LOGGER_NAME: Final = "headrace.server"
TRACE: Final = 5
_RELAYED: Final = "relayed_line"
_KEPT_FILES: Final = (
    10  # rotated log files kept when log_size_limit is set, unless log_max_num says otherwise
)

_LABELS = {
    TRACE: "TRC",
    logging.DEBUG: "DBG",
    logging.INFO: "INF",
    logging.WARNING: "WRN",
    logging.ERROR: "ERR",
    logging.CRITICAL: "FTL",
}


class LineFormatter(logging.Formatter):
    """One record, one line; what peers sent cannot start a line of its own or move a cursor."""

    def __init__(self, *, with_time: bool = True, utc: bool = False) -> None:
        super().__init__()
        self._with_time = with_time
        self._zone = datetime.UTC if utc else None
        self._pid = os.getpid()
        self._second = 0, ""
        """The last second of which something was said, and how it is written."""

    def text(self, record: logging.LogRecord) -> str:
        """The text of a record; the lines of a traceback after it are indented."""
        text = printable(record.getMessage())
        if not record.exc_info:
            return text
        # What a peer said may stand in an exception too; an indented line is none of ours.
        return "\n    ".join([text, *map(printable, self.formatException(record.exc_info).split("\n"))])

    def format(self, record: logging.LogRecord) -> str:
        relayed: str | None = record.__dict__.get(_RELAYED)
        if relayed is not None:
            return relayed
        time = ""
        if self._with_time:
            second = int(record.created)
            said, text = self._second
            if said != second:
                text = datetime.datetime.fromtimestamp(second, self._zone).strftime("%Y/%m/%d %H:%M:%S")
                self._second = second, text
            time = f"{text}.{int((record.created - second) * 1e6):06d} "
        return f"[{self._pid}] {time}[{_LABELS.get(record.levelno, record.levelname)}] {self.text(record)}"


class SyslogFormatter(LineFormatter):
    """A record as one line; time, process and level are added by syslog."""

    def format(self, record: logging.LogRecord) -> str:
        relayed: str | None = record.__dict__.get(_RELAYED)
        if relayed is not None:
            return relayed
        return self.text(record).replace("\n", " ") + "\n"


def make_formatter(options: Options) -> LineFormatter:
    """Return the formatter for the handler that `make_handler` makes."""
    goes_to_syslog = not options.log_file and (options.syslog or options.remote_syslog)
    kind = SyslogFormatter if goes_to_syslog else LineFormatter
    return kind(with_time=options.logtime, utc=options.logtime_utc)


def relay(level: int, line: str) -> None:
    """Write a line that a process of this server has formatted already."""
    record = logging.makeLogRecord(
        {"levelno": level, "levelname": logging.getLevelName(level), "msg": line, _RELAYED: line}
    )
    for handler in logging.getLogger(LOGGER_NAME).handlers:
        handler.handle(record)


def install(options: Options) -> logging.Handler:
    """Send the server's log to stderr, the configured file or syslog; returns the handler.

    Raises: StartError when the file cannot be opened, or there is no syslog.
    """
    handler = make_handler(options)
    logger = logging.getLogger(LOGGER_NAME)
    logger.addHandler(handler)
    logger.propagate = False
    set_level(options)
    return handler


def make_handler(options: Options) -> logging.Handler:
    """The handler that writes the log as configured, not installed yet.

    Raises: StartError when the file cannot be opened.
    """
    handler: logging.Handler
    if options.log_file:
        from headrace.server.log_file import LogFile  # most servers write to stderr

        try:
            handler = LogFile(
                options.log_file,
                maxBytes=options.log_size_limit,
                backupCount=_kept_files(options),
                encoding="utf-8",
                errors="backslashreplace",
            )
        except OSError as error:
            raise StartError(f"error opening log file {options.log_file!r}: {error.strerror}") from error
    elif options.syslog or options.remote_syslog:
        from headrace.server.syslog import SyslogHandler  # only who asks for it pays for loading it

        handler = SyslogHandler(options)
    else:
        sys.stderr.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(make_formatter(options))
    return handler


def _kept_files(options: Options) -> int:
    """Rotated files; log_max_num counts the one that is written too."""
    if not options.log_size_limit:
        return 0
    # Without any the file could not be rotated and would have no limit.
    return max(options.log_max_num - 1, 1) if options.log_max_num else _KEPT_FILES


def set_level(options: Options) -> None:
    level = TRACE if options.trace else logging.DEBUG if options.debug else logging.INFO
    logging.getLogger(LOGGER_NAME).setLevel(level)


def reopen(handler: logging.Handler) -> bool:
    """Go on in a new file after the old one was moved away (SIGUSR1); False when the log is not a file."""
    if not isinstance(handler, logging.FileHandler):
        return False
    handler.acquire()
    try:
        handler.close()
        handler.stream = handler._open()
    finally:
        handler.release()
    return True


def swap(old: logging.Handler, new: logging.Handler) -> None:
    """Go on with another handler; no line is lost or written twice."""
    logger = logging.getLogger(LOGGER_NAME)
    logger.addHandler(new)
    logger.removeHandler(old)
    old.close()


def uninstall() -> None:
    """Take out the handler that was installed, or what it was swapped for."""
    logger = logging.getLogger(LOGGER_NAME)
    for handler in list(logger.handlers):
        if isinstance(handler.formatter, LineFormatter):
            logger.removeHandler(handler)
            handler.close()
