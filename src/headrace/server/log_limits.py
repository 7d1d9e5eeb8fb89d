"""Errors that peers can cause over and over do not flood the log: the first lines, then a count.

Here lives the counting. Lines are of one kind when they begin with the same two words, such as
`authentication error`, which are ours: what a peer said comes later in a line. Never lives here: what is
logged, trace and debug lines, the log itself (`logs`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

WINDOW: Final = 10.0
"""Seconds over which lines are counted; what was left out in one is said at its end."""

LINES_OF_SOURCE: Final = 30
"""Lines of one kind about one address in a window; more are counted."""

LINES_OF_KIND: Final = 100
"""Lines of one kind in a window; more are counted."""

LINES: Final = 500
"""Limited lines of all kinds in a window; more are counted."""

_WORDS_OF_KIND: Final = 2


class LogLimits:
    """Says whether a line is still to be written, and writes one about those that were not.

    `clock` gives seconds, `call_later` calls a function so many seconds from now. Holds at most LINES
    counters, whatever peers do.
    """

    def __init__(
        self,
        log: Logger,
        clock: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._log = log
        self._clock = clock
        self._call_later = call_later
        self._ends = clock()
        self._lines = 0
        self._written: Counter[tuple[str, str] | str] = Counter()
        self._left_out: Counter[str] = Counter()

    def admits(self, text: str, source: str) -> bool:
        """Count a line that an address has caused; True if it is to be written."""
        now = self._clock()
        if now >= self._ends:
            self.flush()
            self._ends = now + WINDOW
        kind = _kind(text)
        written = self._written
        if self._lines < LINES and written[kind] < LINES_OF_KIND and written[kind, source] < LINES_OF_SOURCE:
            self._lines += 1
            written[kind] += 1
            written[kind, source] += 1
            return True
        if not self._left_out:
            self._call_later(self._ends - now, self.flush)
        # A kind of which nothing was written has only met the limit of all kinds.
        self._left_out[kind if written[kind] else ""] += 1
        return False

    def flush(self) -> None:
        """Say what was left out, and begin a new window."""
        for kind, count in self._left_out.items():
            what = f'errors that begin with "{kind}"' if kind else "errors of other kinds"
            self._log.warning("%d more %s were not logged", count, what)
        self._left_out.clear()
        self._written.clear()
        self._lines = 0


def _kind(text: str) -> str:
    return " ".join(text.split(None, _WORDS_OF_KIND)[:_WORDS_OF_KIND]).rstrip(":")
