"""INT and TERM while there is no event loop yet that could handle them.

Here lives what becomes of such a signal: an exception that ends the start. Never lives here: what the process
says when it ends (`app`), and signals of a server that runs.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES: Final = {signal.SIGINT: "interrupt", signal.SIGTERM: "terminated"}


class Interrupted(KeyboardInterrupt):
    """A signal ended the start; the text is its name as log lines have it."""

    def __init__(self, number: int) -> None:
        super().__init__(_NAMES[signal.Signals(number)])
        self.number: Final = number


def end_starts() -> None:
    """From now on INT and TERM raise Interrupted in the main thread, until somebody else handles them."""
    on_end(_interrupt)


def on_end(handle: Callable[[int], None]) -> None:
    """Has INT and TERM handled by a function of their number, in the main thread, whatever it does."""
    for number in _NAMES:
        signal.signal(number, lambda number, _: handle(number))


def _interrupt(number: int) -> None:
    raise Interrupted(number)
