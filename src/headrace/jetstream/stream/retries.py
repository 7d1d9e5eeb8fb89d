"""Work on the log of a stream that was decided and a disk refuses: it is noted, and tried again.

A configuration that is in effect, a consumer that is gone, a message that rolls up others: none of them is
taken back because a removal that follows from it failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jetstream.ports import Effects, StreamPort

    Work = Callable[[], object]

_AGAIN_S: Final = 1.0
"""Seconds until work that failed is tried again."""


class LogRetries:
    """The work of one stream that failed."""

    def __init__(self, stream: StreamPort, effects: Effects) -> None:
        self._stream = stream
        self._effects = effects
        self._failed: list[tuple[str, Work]] = []

    def do(self, what: str, work: Work) -> None:
        """Do `work`, which may be done twice; after an error of the log it is done again later."""
        try:
            work()
        except LogError as error:
            self._effects.note.error("stream %s: %s failed: %s", self._stream.name, what, error)
            if not self._failed:
                self._effects.later(_AGAIN_S, self._again)
            self._failed.append((what, work))

    def _again(self) -> None:
        failed, self._failed = self._failed, []
        if self._stream.is_closed:
            return
        for place, (what, work) in enumerate(failed, 1):
            self.do(what, work)
            if self._failed:  # one try is enough for now; the next begins with another
                self._failed = failed[place:] + self._failed
                return
