"""Log lines about publications that cannot be stored: the first of them, then a count.

A store that fails fails each publication, and a line for each would fill the disk that may be the reason.
Here lives the counting, by what refuses. Never here: why something is refused, who is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

REPORT_S: Final = 10.0
"""Seconds between two lines about one stream or channel that refuses; the later ones have a count."""


class Refusals:
    """The refusals of one service. `later` calls a function so many seconds from now, `error` logs a line."""

    def __init__(
        self, later: Callable[[float, Callable[[], object]], object], error: Callable[[str, str], object]
    ) -> None:
        self._later: Final = later
        self._error: Final = error
        self._counts: Final[dict[str, tuple[int, str]]] = {}
        """The number that was not logged, and the last reason, by what refused in this interval."""

    def refused(self, what: str, reason: object, messages: int = 1) -> None:
        """Log that a stream or channel has refused messages, or count them if it did just now."""
        if what in self._counts:
            count, _ = self._counts[what]
            self._counts[what] = count + messages, str(reason)
            return
        self._error("%s", f"{what}: {_counted(messages)} could not be stored: {reason}")
        self._counts[what] = 0, ""
        self._later(REPORT_S, lambda: self._report(what))

    def _report(self, what: str) -> None:
        """Say how many were refused since the last line; forget what refuses nothing any more."""
        count, reason = self._counts.pop(what)
        if count:
            self._error("%s", f"{what}: {count:,} more could not be stored: {reason}")
            self._counts[what] = 0, ""
            self._later(REPORT_S, lambda: self._report(what))


def _counted(messages: int) -> str:
    return "a message" if messages == 1 else f"{messages:,} messages"
