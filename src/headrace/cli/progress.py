"""Progress of long work: a bar with rate and remaining time on a terminal, else a line now and then.

Goes to standard error, so that what is printed can be piped. Never lives here: the work.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import TracebackType

LINE_EVERY: Final = 2.0
"""Seconds between lines where there is no terminal."""

BAR_AFTER: Final = 0.5
"""Seconds of work before there is a bar: what draws it takes a tenth of one to load."""


class ProgressBars:
    """The progress bar of one command.

    `show(done, total)` as often as one likes; the bar appears once the work has taken half a second.

    `what` is said of it, such as `merging orders`; `unit` is that of the number beside it.
    """

    def __init__(self, what: str, *, unit: str, is_shown: bool = True) -> None:
        self._what = what
        self._is_shown = is_shown
        self._unit = unit
        self._bars: Any = None
        self._task: Any = None
        self._started = self._shown = time.monotonic()
        self._may_have_bar = is_shown and sys.stderr.isatty()

    def __enter__(self) -> ProgressBars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def _begin(self) -> None:
        self._may_have_bar = False
        try:
            self._bars = self._bar()
        except ImportError:  # rich is not among the packages a server needs
            return
        self._bars.start()

    def _bar(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        return Progress(
            TextColumn("  {task.description}", markup=False),
            BarColumn(32),
            TaskProgressColumn(),
            TextColumn("{task.fields[count]:>13,} {task.fields[unit]}", style="cyan"),
            TextColumn("{task.fields[rate]:>11,.0f}/s", style="cyan"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )

    def show(self, done: int, total: int, *, count: int | None = None, place: str = "") -> None:
        """Show the progress.

        `count`: how many of the unit, where `done` is something else; `place`: where it is now.
        """
        now = time.monotonic()
        if self._may_have_bar and now - self._started >= BAR_AFTER:
            self._begin()
        number = done if count is None else count
        rate = number / max(now - self._started, 1e-9)
        words = f"{self._what} {place}".rstrip()
        if self._bars is not None:
            if self._task is None:
                self._task = self._bars.add_task(words, total=total, unit=self._unit, count=0, rate=0.0)
            self._bars.update(
                self._task, description=words, completed=done, total=total, count=number, rate=rate
            )
        elif self._is_shown and now - self._shown >= LINE_EVERY:
            self._shown = now
            share = 100 * done // max(total, 1)
            line = f"  {words}: {number:,} {self._unit}, {share} %, {rate:,.0f}/s"
            print(line, file=sys.stderr, flush=True)
