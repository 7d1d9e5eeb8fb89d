"""What the commands that import foreign stores show: progress, tables, what is wrong; their exit codes."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from headrace.importing.findings import Finding
    from headrace.importing.progress import Progress

EXIT_FAILURE: Final = 1
EXIT_DAMAGED: Final = 3
EXIT_INTERRUPTED: Final = 130

LINE_EVERY: Final = 2.0
"""Seconds between progress lines where there is no terminal."""
SHOWN_FINDINGS: Final = 20


class Shown(Protocol):
    """Progress while a block runs."""

    def __enter__(self) -> Shown: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, progress: Progress) -> None: ...


def shown_progress(total: int, *, to_stderr: bool) -> Shown:
    """`total`: bytes there are to read."""
    stream = sys.stderr if to_stderr else sys.stdout
    if stream.isatty():
        try:
            return _Bar(total, to_stderr=to_stderr)
        except ImportError:  # rich is not among the packages a server needs
            pass
    return _Lines(total, to_stderr=to_stderr)


class _Bar:
    """A bar with rates, on a terminal."""

    def __init__(self, total: int, *, to_stderr: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._started = time.monotonic()
        self._bars = Progress(
            TextColumn("  {task.description}", markup=False),
            BarColumn(32),
            DownloadColumn(),
            TextColumn("{task.fields[messages]:>11,} messages", style="cyan"),
            TextColumn("{task.fields[rate]:>9,.0f}/s", style="cyan"),
            TimeRemainingColumn(),
            console=Console(stderr=to_stderr),
        )
        self._task = self._bars.add_task("importing", total=total, messages=0, rate=0.0)

    def __enter__(self) -> _Bar:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def show(self, progress: Progress) -> None:
        rate = progress.messages / max(time.monotonic() - self._started, 1e-9)
        self._bars.update(self._task, completed=progress.bytes_read, messages=progress.messages, rate=rate)


class _Lines:
    """A line now and then, where there is no terminal."""

    def __init__(self, total: int, *, to_stderr: bool) -> None:
        self._total = total
        self._stream = sys.stderr if to_stderr else sys.stdout
        self._shown = time.monotonic()

    def __enter__(self) -> _Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._shown >= LINE_EVERY:
            self._shown = now
            share = 100 * progress.bytes_read // max(self._total, 1)
            print(
                f"  {progress.messages:,} messages, {share} %, in {progress.place}",
                file=self._stream,
                flush=True,
            )


def print_findings(found: Sequence[Finding], lost: int | None, *, every: bool) -> None:
    """`lost`: messages that are known to be lost; None: nobody knows."""
    damage = [finding for finding in found if finding.is_damage]
    notes = [finding for finding in found if not finding.is_damage]
    for title, findings in (("damage in the source", damage), ("notes", notes)):
        if not findings:
            continue
        print(f"{title}:")
        count = len(findings) if every else SHOWN_FINDINGS
        for finding in findings[:count]:
            print(f"  {finding}")
        if len(findings) > count:
            print(f"  and {len(findings) - count:,} more; --all lists them")
    if damage and lost is not None:
        print(f"{lost:,} messages are known to be lost" if lost else "no message is known to be lost")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, the others to the right."""
    rows = [[on_one_line(cell) for cell in row] for row in rows]  # names may have anything in them
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *rest]).rstrip())
