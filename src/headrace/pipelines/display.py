"""The display of a run: bars with rates and lag on a terminal, a line for each micro-batch elsewhere.

Only text goes out of here; nothing is measured or decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from headrace.spark.query_state import QueryStatus
from headrace.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.console import Console

    from headrace.spark.query_state import Batch, QueryState


class RunDisplay(Terminal):
    """The display of a run on a terminal. `with RunDisplay() as display: ... display.show(states)`."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._tasks: dict[str, TaskID] = {}
        self._bars: Progress | None = None
        if self.console.is_terminal:
            self._bars = Progress(
                SpinnerColumn(finished_text=" "),
                TextColumn(f"{{task.description:<{self.NAME_WIDTH}}}"),
                BarColumn(28),
                TextColumn("{task.fields[rows]:>12,} rows"),
                TextColumn("{task.fields[written]:>20}"),
                TextColumn("[cyan]{task.fields[rate]:>9,.0f}/s"),
                TextColumn("[yellow]{task.fields[lag]:>14}"),
                TextColumn("[dim]{task.fields[batch]}"),
                console=self.console,
            )

    def __enter__(self) -> RunDisplay:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, states: Sequence[QueryState]) -> None:
        """The queries as they are now."""
        for state in states:
            news = state.news()
            if self._bars is not None:
                self._show_bar(state)
            else:
                for batch in news:
                    self.line((f"  {state.name:<{self.NAME_WIDTH}}", ""), batch_line(batch))

    def _show_bar(self, state: QueryState) -> None:
        assert self._bars is not None
        fields: dict[str, Any] = {
            "rows": state.rows,
            "written": _written(state.written).strip(),
            "rate": state.process_rate if state.status is QueryStatus.RUNNING else 0.0,
            "lag": "" if state.lag is None else f"lag {state.lag:,}",
            "batch": _batch_note(state),
        }
        task = self._tasks.get(state.name)
        if task is None:
            task = self._tasks[state.name] = self._bars.add_task(state.name, total=None, **fields)
        self._bars.update(task, completed=state.rows, total=state.total, **fields)


def batch_line(batch: Batch) -> str:
    """One micro-batch in words."""
    lag = "" if batch.lag is None else f"  lag {batch.lag:,}"
    return (
        f"batch {batch.number}  {batch.rows:,} rows{_written(batch.written)}  "
        f"{batch.rows_per_second:,.0f}/s{lag}  {batch.seconds * 1000:,.0f} ms"
    )


def _written(rows: int | None) -> str:
    return "" if rows is None else f"  {rows:,} written"


def _batch_note(state: QueryState) -> str:
    if state.status is not QueryStatus.RUNNING or state.last is None:
        return state.status.value
    return f"batch {state.last.number}, {state.last.seconds * 1000:,.0f} ms"
