"""The context of the service that its parts share: options, log lines, counters, and the turns it works in.

Here is no rule of STAN's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.turns import Turns

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from headrace.conf.streaming_options import StreamingOptions
    from headrace.core.service import Host
    from headrace.log.committer import Committer

    Routes = dict[int, Callable[[Any], None]]
    """The function for each subscription's messages; it takes a `Delivery` or a `Gathered` run."""

_TRACE: Final = 5  # the server's level below DEBUG
NS: Final = 1_000_000_000


class Notes:
    """Log lines in the reference's shape, `STREAM: ` before each; debug and trace by own flags."""

    def __init__(self, logger: logging.Logger, options: StreamingOptions) -> None:
        self._logger = logger
        self.debugging: Final = options.stan_debug
        self.tracing: Final = options.stan_trace

    def info(self, text: str, *arguments: object) -> None:
        self._logger.info("STREAM: " + text, *arguments)

    def warning(self, text: str, *arguments: object) -> None:
        self._logger.warning("STREAM: " + text, *arguments)

    def error(self, text: str, *arguments: object) -> None:
        self._logger.error("STREAM: " + text, *arguments)

    def debug(self, text: str, *arguments: object) -> None:
        if self.debugging:
            self._logger.debug("STREAM: " + text, *arguments)

    def trace(self, text: str, *arguments: object) -> None:
        """Callers on the message path ask `tracing` first."""
        if self.tracing:
            self._logger.log(_TRACE, "STREAM: " + text, *arguments)


class Context(Turns):
    """The parts of the service that all others share: host, options, logger, turns."""

    def __init__(self, options: StreamingOptions, host: Host, committer: Committer, note: Notes) -> None:
        super().__init__(host, committer)
        self.options: Final = options
        self.adopted: Final = frozenset(map(str.encode, options.adopt))
        """The channels that are JetStream streams too: their limits are the streams'."""
        self.note: Final = note


class Counters:
    """The counters of the service for monitoring."""

    __slots__ = ("in_bytes", "in_msgs", "out_bytes", "out_msgs")

    def __init__(self) -> None:
        self.in_msgs = self.in_bytes = self.out_msgs = self.out_bytes = 0

    def received(self, messages: int, size: int) -> None:
        self.in_msgs += messages
        self.in_bytes += size

    def sent(self, messages: int, size: int) -> None:
        self.out_msgs += messages
        self.out_bytes += size
