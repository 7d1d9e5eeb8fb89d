"""The display of a running demonstration: bars with rates on a terminal, plain lines elsewhere.

Only text goes out of here; nothing is measured or decided.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from headrace.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

LINE_EVERY: Final = 2.0
"""Seconds between progress lines where there is no terminal."""


class Display(Terminal):
    """The whole output of one run."""

    NAME_WIDTH = 11
    WIDTH_WITHOUT_TERMINAL = 100

    def say(self, text: str = "") -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    def checked(self, good: bool, text: str) -> None:
        self.line(("  ok    ", "bold green") if good else ("  WRONG ", "bold red"), text)

    def table(self, title: str, columns: Mapping[str, bool], rows: Sequence[Sequence[str]]) -> None:
        """A table; `columns` says of each name whether it is right-aligned."""
        table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
        for name, right in columns.items():
            table.add_column(name, justify="right" if right else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        self.console.print(table)


class CounterDisplay:
    """Counts that grow towards one total, shown while they do: `with CounterDisplay(...) as counters`."""

    def __init__(self, display: Display, total: int, names: Sequence[str]) -> None:
        self._display = display
        self._total = total
        self._names = tuple(names)
        self._started = self._shown = time.monotonic()
        self._ended: dict[str, float] = {}
        self._last: dict[str, int] = {}
        self._said: dict[str, int] = {}
        self._bars: Progress | None = None
        if display.console.is_terminal:
            self._bars = Progress(
                TextColumn("  {task.description:<11}"),
                BarColumn(32),
                TextColumn("{task.completed:>9,.0f} / {task.total:,.0f}"),
                TextColumn("[cyan]{task.fields[rate]:>9,.0f}/s"),
                console=display.console,
            )

    def __enter__(self) -> CounterDisplay:
        if self._bars is not None:
            for name in self._names:
                self._bars.add_task(name, total=self._total, rate=0.0)
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()
        else:
            self._line()

    def show(self, counts: Sequence[int]) -> None:
        """The counts now, in the order of the names."""
        now = time.monotonic()
        for place, (name, count) in enumerate(zip(self._names, counts, strict=True)):
            if count >= self._total:
                self._ended.setdefault(name, now)
            rate = count / max(self._ended.get(name, now) - self._started, 1e-9)
            self._last[name] = count
            if self._bars is not None:
                task = self._bars.tasks[place]
                self._bars.update(task.id, completed=count, rate=rate)
        if self._bars is None and now - self._shown >= LINE_EVERY:
            self._shown = now
            self._line()

    def _line(self) -> None:
        if self._said == self._last:
            return
        self._said = dict(self._last)
        parts = []
        for name, count in self._last.items():
            if not count:  # Spark tells with the end of its first batch
                continue
            rate = count / max(self._ended.get(name, time.monotonic()) - self._started, 1e-9)
            parts.append(f"{name} {count:,} ({rate:,.0f}/s)")
        if parts:
            self._display.say(f"  {', '.join(parts)} of {self._total:,}")
