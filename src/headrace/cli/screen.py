"""A terminal that a command has for itself: a screen that is drawn again and again, keys, its size.

By ANSI codes, without a library for windows. However the command ends, the terminal is as it was: after an
error, Ctrl-C, and while it is stopped with Ctrl-Z. Never lives here: what is drawn, what keys mean.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final, Self

from headrace.cli.text_table import cell_width

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType, TracebackType

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
"""The other screen, without a cursor, empty."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST: Final = "\x1b[J"
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"
_BYTES: Final = 64


class Screen:
    """The screen, for a `with`. Standard input and standard output are terminals."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()

    @property
    def size(self) -> tuple[int, int]:
        """The width and the height in cells."""
        # Not by the variables COLUMNS and LINES: they do not follow when the window changes.
        try:
            found = os.get_terminal_size(self._output)
        except OSError:
            found = get_terminal_size()
        return (found.columns or 80), (found.lines or 24)

    def draw(self, lines: Sequence[str], bold: int = -1) -> None:
        """Show lines; those that do not fit are left out, and what is too wide is cut. `bold`: one of them.

        Control characters in lines must be escaped already.
        """
        width, height = self.size
        shown = [clipped(line, width) for line in lines[:height]]
        if 0 <= bold < len(shown):
            shown[bold] = f"{_BOLD}{shown[bold]}{_PLAIN}"
        # No line end behind the last: it would scroll a screen that is full.
        self._write(_HOME + "\r\n".join(f"{line}{_REST_OF_LINE}" for line in shown) + _REST)

    def wait(self, seconds: float) -> str:
        """Wait for keys; return them, or "" when the time is over or the size has changed.

        Raises: EOFError if the terminal is gone.
        """
        ready, _, _ = select.select([self._input, self._wakes], [], [], max(seconds, 0))
        if self._wakes in ready:
            os.read(self._wakes, _BYTES)
        if self._input not in ready:
            return ""
        data = os.read(self._input, _BYTES)
        if not data:
            raise EOFError("the terminal is gone")
        return data.decode("utf-8", "replace")

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self._output, data) :]

    def _take(self) -> None:
        tty.setcbreak(self._input)  # Ctrl-C and Ctrl-Z stay what they are
        self._write(_ENTER)

    def _give_back(self) -> None:
        self._write(_LEAVE)
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        """The wait ends, as after any signal that has a handler."""

    def _stopped(self, number: int, _frame: FrameType | None) -> None:
        """Give the terminal back while the process is stopped."""
        self._give_back()
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        signal.raise_signal(number)
        # Here it goes on again.
        signal.signal(number, self._stopped)
        self._take()

    def __enter__(self) -> Self:
        self._before: list[Any] = termios.tcgetattr(self._input)
        self._wakes, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        # A signal that comes just before the wait, or to another thread, does not interrupt it by itself.
        self._wakes_before = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self._handlers = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, self._resized),
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, self._stopped),
        }
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakes_before)
        os.close(self._wakes)
        os.close(self._waker)
        self._give_back()


def clipped(text: str, width: int) -> str:
    """Return the beginning of a text that takes at most `width` cells."""
    if len(text) <= width and text.isascii():
        return text
    taken = 0
    for end, char in enumerate(text):
        taken += cell_width(char)
        if taken > width:
            return text[:end]
    return text
