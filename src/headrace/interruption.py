"""INT and TERM while there is no event loop yet that could handle them.

Here lives what becomes of such a signal: an exception that ends the start. Never lives here: what the process
says when it ends (`app`), and signals of a server that runs.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNALLED: Final = 128
"""The base of exit codes: with the number of a signal added, the code of a program that it has ended."""

_NAMES: Final = {signal.SIGINT: "interrupt", signal.SIGTERM: "terminated"}


class Interrupted(KeyboardInterrupt):
    """A signal ended the start; the text is its name as log lines have it."""

    def __init__(self, number: int) -> None:
        super().__init__(_NAMES[signal.Signals(number)])
        self.number: Final = number


def end_starts() -> None:
    """Raise Interrupted at INT and TERM in the main thread, until another handler is set."""
    on_end(_interrupt)


def on_end(handle: Callable[[int], None]) -> dict[int, object]:
    """Have INT and TERM handled by a function of their number, in the main thread, whatever it does; return
    what handled them before.
    """
    return {number: signal.signal(number, lambda number, _: handle(number)) for number in _NAMES}


def terminate_as_interrupt() -> list[int]:
    """Make TERM to the program what INT is to it; return a list that has TERM once it came.

    A shell ignores INT for what a script starts with `&`; TERM ends that, too.
    """
    came: list[int] = []

    def handle(number: int, _frame: object) -> None:
        came.append(number)
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, handle)
    return came


def _interrupt(number: int) -> None:
    raise Interrupted(number)
