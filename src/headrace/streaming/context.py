"""What the parts of the service share: the host, time, the committer, log lines, and the end of a turn.

A turn is one entry from outside: a batch of deliveries, a timer, a commit. Whatever it set going (messages to
append, subscriptions to serve, state to write) is done at its end by `settle`, once, however many parts asked
for it. Here is no rule of STAN's.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import StorageError

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from headrace.core.service import Host, Timer
    from headrace.log.committer import Committer
    from headrace.log.port import MessageLog
    from headrace.streaming.options import StreamingOptions

    Routes = dict[int, Callable[[Any], None]]
    """What each subscription's messages are handed to: a `Delivery`, or a `Gathered` run of them."""

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


class Context:
    def __init__(self, options: StreamingOptions, host: Host, committer: Committer, note: Notes) -> None:
        self.options: Final = options
        self.host: Final = host
        self.note: Final = note
        self._committer = committer
        self._work: Callable[[], bool] = lambda: False
        self._settling = False
        self._stopped = False
        self._numbers = itertools.count()
        self._commits: dict[int, tuple[MessageLog, Callable[[StorageError | None], None]]] = {}

    def on_settle(self, work: Callable[[], bool]) -> None:
        """`work` does one round of what is due and says whether there may be more."""
        self._work = work

    def settle(self) -> None:
        """The end of a turn; within one it does nothing, since the turn itself ends here."""
        if self._settling or self._stopped:
            return
        self._settling = True
        try:
            while self._work():
                pass
        finally:
            self._settling = False

    def later(self, seconds: float, function: Callable[[], object]) -> Timer:
        def turn() -> None:
            if not self._stopped:
                function()
                self.settle()

        return self.host.call_later(seconds, turn)

    def commit(self, log: MessageLog, done: Callable[[StorageError | None], None]) -> None:
        """Calls `done`, in a turn, when what was appended to `log` is durable; perhaps at once."""

        number = next(self._numbers)
        self._commits[number] = log, done

        def turn(error: StorageError | None) -> None:
            if self._commits.pop(number, None) is not None:
                done(error)
                self.settle()

        self._committer.request(log, turn)

    def finish_commits(self) -> None:
        """Does what the committer has not done yet, at once: whoever waits is answered.

        For the end, and for when too much waits: everything else stands still meanwhile.
        """
        while self._commits:
            number = next(iter(self._commits))
            log, done = self._commits.pop(number)
            error = None
            try:
                log.sync()
            except StorageError as failure:
                error = failure
            done(error)
            self.settle()

    def now_ns(self) -> int:
        return self.host.now_ns()

    def stop(self) -> None:
        """Timers that are still set do nothing any more."""
        self._stopped = True
