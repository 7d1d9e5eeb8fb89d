"""The report on a table of operations: traffic, slow consumers and lag as charts, in one HTML or PNG file.

Reads the table that the ready-made pipeline `operations` writes. Counters of servers become rates here: the
difference of two reports by their time; a counter that fell began again at 0 with its server.
Nothing is asked of a server.
"""

from __future__ import annotations

import base64
import io
from collections import defaultdict
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from headrace.errors import HeadraceError
from headrace.pipelines.table_files import open_table, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from matplotlib.axes import Axes

    Points = list[tuple[datetime, float]]

COLUMNS: Final = (
    "time", "kind", "server", "account", "client", "reason", "in_messages", "in_bytes", "out_messages",
    "out_bytes", "slow_consumers", "connections", "query", "lag", "rows_per_second", "status",
)  # fmt: skip

SHOWN_EVENTS: Final = 50
"""Slow consumers and failures listed in the HTML, the newest ones."""

_COUNTERS: Final = ("in_messages", "in_bytes", "out_messages", "out_bytes", "slow_consumers")
_SLOW: Final = "slow consumer"
_NAME_WIDTH: Final = 24


@dataclass(slots=True)
class Operations:
    """The series of a table of operations, by name: of servers `counted[counter][server]` are growths since
    the point before, of queries `lag[query]`.
    """

    counted: dict[str, dict[str, Points]] = field(
        default_factory=lambda: {name: defaultdict(list) for name in _COUNTERS}
    )
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    connections: dict[str, Points] = field(default_factory=lambda: defaultdict(list))
    lag: dict[str, Points] = field(default_factory=lambda: defaultdict(list))
    events: list[tuple[datetime, str, str]] = field(default_factory=list)
    rows: int = 0

    def total(self, counter: str, server: str) -> float:
        """Return the total growth of a counter."""
        return sum(value for _, value in self.counted[counter][server])

    def rates(self, counter: str, server: str) -> Points:
        """Growth for each second."""
        points = self.counted[counter][server]
        return [
            (time, value / seconds)
            for (time, value), seconds in zip(points, self.seconds[server], strict=True)
        ]


def read_operations(folder: Path) -> Operations:
    """Read the table of operations of a pipeline. Cost: one pass over the columns above.

    Raises: TableError, HeadraceError if it is another table.
    """
    table = open_table(str(folder), "time")
    missing = [name for name in COLUMNS if name not in table.schema.names]
    if missing:
        raise HeadraceError(
            f"{folder} is no table of the pipeline 'operations': it has no column {', '.join(missing)}"
        )
    rows: list[dict[str, Any]] = []
    for batch in read_rows(table, 0, table.rows, list(COLUMNS)):
        rows += batch.to_pylist()
    return operations_of(sorted(rows, key=lambda row: row["time"]))


def operations_of(rows: Iterable[Mapping[str, Any]]) -> Operations:
    """Return the operations that rows in order of their time tell."""
    found = Operations()
    of_server: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found.rows += 1
        if row["kind"] == "statsz":
            of_server[row["server"]].append(row)
            found.connections[row["server"]].append((row["time"], row["connections"] or 0))
        elif row["kind"] == "query":
            if row["lag"] is not None:
                found.lag[row["query"]].append((row["time"], row["lag"]))
            if row["status"] == "failed":
                found.events.append((row["time"], "query failed", f"{row['query']}: {row['reason']}"))
        elif _SLOW in (row["reason"] or "").lower():
            who = f"{row['client'] or 'a client'} of account {row['account']}: {row['reason']}"
            found.events.append((row["time"], "slow consumer", who))
    for server, stats in of_server.items():
        _count(found, server, stats)
    return found


def _count(found: Operations, server: str, stats: list[Mapping[str, Any]]) -> None:
    for before, after in pairwise(stats):
        seconds = (after["time"] - before["time"]).total_seconds()
        if seconds <= 0:
            continue
        found.seconds[server].append(seconds)
        for counter in _COUNTERS:
            now, was = after[counter] or 0, before[counter] or 0
            found.counted[counter][server].append((after["time"], now - was if now >= was else now))


def write_report(folder: Path, out: Path) -> Operations:
    """Write the report on a table to `out`, HTML or PNG by its name's end.

    Raises: HeadraceError for another kind of file, or a table that cannot be read; OSError.
    """
    if out.suffix not in (".html", ".png"):
        raise HeadraceError(f"{out}: a report is written as .html or .png")
    found = read_operations(folder)
    picture = draw(found)
    out.write_bytes(picture if out.suffix == ".png" else _html(folder, found, picture).encode())
    return found


def draw(found: Operations) -> bytes:
    """The charts as PNG."""
    figure = Figure(figsize=(11, 12), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    messages, sizes, slow, lag = figure.subplots(4, 1, sharex=True)
    servers = list(found.seconds)
    for axes, title, counters, scale in (
        (messages, "Messages per second", ("in_messages", "out_messages"), 1),
        (sizes, "MB per second", ("in_bytes", "out_bytes"), 1e6),
    ):
        series = {
            f"{_short(server)} {counter.partition('_')[0]}": [
                (time, rate / scale) for time, rate in found.rates(counter, server)
            ]
            for server in servers
            for counter in counters
        }
        _lines(axes, title, series, "no reports of servers")
    _lines(
        slow,
        "Slow consumers cut off",
        {_short(server): _summed(found.counted["slow_consumers"][server]) for server in servers},
        "no reports of servers",
    )
    _lines(lag, "Lag of queries, messages", dict(found.lag), "no reports of pipelines (--report SUBJECT)")
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    lag.xaxis.set_major_locator(locator)
    lag.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    lag.set_xlabel("UTC")
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _lines(axes: Axes, title: str, series: Mapping[str, Points], otherwise: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    drawn = {name: points for name, points in series.items() if points}
    for name, points in drawn.items():
        marker = "o" if len(points) < 30 else ""
        axes.plot(
            date2num([time for time, _ in points]),  # type: ignore[no-untyped-call]
            [value for _, value in points], label=name, marker=marker,
            markersize=3, linewidth=1.4,
        )  # fmt: skip
    if drawn:
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", fontsize=8, frameon=False, ncols=4)
    else:
        axes.text(0.5, 0.5, otherwise, transform=axes.transAxes, ha="center", color="#777777")


def _summed(points: Points) -> Points:
    total, found = 0.0, []
    for time, value in points:
        total += value
        found.append((time, total))
    return found


def _short(server: str) -> str:
    """Servers without a name have 56 letters as one."""
    return server if len(server) <= _NAME_WIDTH else f"{server[:8]}…"


def _html(folder: Path, found: Operations, picture: bytes) -> str:
    def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
        cells: Callable[[str, Iterable[object]], str] = lambda tag, row: "".join(  # noqa: E731
            f"<{tag}>{escape(str(one))}</{tag}>" for one in row
        )
        body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
        return f"<table><tr>{cells('th', head)}</tr>{body}</table>"

    servers = [
        (
            server, *(f"{found.total(counter, server):,.0f}" for counter in _COUNTERS),
            f"{max((rate for _, rate in found.rates('in_messages', server)), default=0):,.0f}",
            f"{found.connections[server][-1][1]:,.0f}",
        )
        for server in found.seconds
    ]  # fmt: skip
    queries = [
        (query, f"{points[-1][1]:,.0f}", f"{max(lag for _, lag in points):,.0f}")
        for query, points in found.lag.items()
    ]
    events = [
        (f"{time:%Y-%m-%d %H:%M:%S}", what, who) for time, what, who in reversed(found.events[-SHOWN_EVENTS:])
    ]
    parts = [
        f'<img alt="charts" src="data:image/png;base64,{base64.b64encode(picture).decode()}">',
        "<h2>Servers</h2>",
        table(
            ("server", "messages in", "bytes in", "messages out", "bytes out", "slow consumers",
             "most messages in a second", "connections now"),
            servers,
        ),
        "<h2>Queries</h2>", table(("query", "lag now", "most lag"), queries),
        "<h2>Slow consumers and failures</h2>", table(("time (UTC)", "what", "who"), events),
    ]  # fmt: skip
    style = (
        "body{font:14px sans-serif;margin:2em;color:#222}img{max-width:100%}table{border-collapse:collapse}"
        "td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}"
    )
    return (
        f'<!doctype html><meta charset="utf-8"><title>{escape(folder.name)}</title><style>{style}</style>'
        f"<h1>Operations</h1><p>{found.rows:,} events in {escape(str(folder))}</p>{''.join(parts)}\n"
    )
