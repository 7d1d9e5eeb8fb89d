"""How a long run tells where it is: a bar with rates on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

BAR_WIDTH = 24


def short_number(value: float) -> str:
    """Give a number with three digits and a unit: 8.41 M, 38.0 k, 512."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def cpu_text(ns: float) -> str:
    """Give a CPU time: 43 ns, 21.4 µs, 1.20 ms."""
    if ns < 10_000:
        return f"{ns:,.0f} ns"
    return f"{ns / 1000:,.1f} µs" if ns < 1_000_000 else f"{ns / 1e6:,.2f} ms"


def duration(seconds: float) -> str:
    """Give minutes and seconds: 3:07."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def bar(done: int, total: int, width: int = BAR_WIDTH) -> str:
    """Give a bar of `width` places."""
    filled = width * done // max(total, 1)
    return "█" * filled + "░" * (width - filled)


class Progress:
    """Counts steps and shows the last one."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._total = total
        self._done = 0
        self._start = time.monotonic()

    def begin(self, text: str) -> None:
        """Show what is running now; nothing where there is no terminal."""
        if self._terminal:
            self._show(text)

    def step(self, text: str) -> None:
        """Count one step and show its outcome."""
        self._done += 1
        if self._terminal:
            self._show(text)
        else:
            print(f"[{self._done}/{self._total}] {text}", file=self._stream, flush=True)

    def line(self, text: str) -> None:
        """Print a line that stays."""
        clear = "\r\x1b[K" if self._terminal else ""
        print(f"{clear}{text}", file=self._stream, flush=True)

    def close(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=self._stream, flush=True)

    def _show(self, text: str) -> None:
        elapsed = time.monotonic() - self._start
        left = elapsed / self._done * (self._total - self._done) if self._done else 0.0
        head = f"{bar(self._done, self._total)} {self._done}/{self._total} {duration(elapsed)}"
        if left:
            head += f", {duration(left)} left"
        columns = shutil.get_terminal_size().columns
        print(f"\r\x1b[K{f'{head}  {text}'[: columns - 1]}", end="", file=self._stream, flush=True)
