"""The picture of the result: mean departure delay by scheduled hour, one row per carrier.

Takes plain rows and writes a PNG; no Spark, no screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

LEAST_FLIGHTS: Final = 20
"""A cell with fewer departures says nothing about its hour and is left grey."""

_HOTTEST: Final = 40.0  # minutes at which the colour is deepest; a few cells lie above
_DARK: Final = 26.0  # above this, white figures are easier to read
_GREY: Final = "#eceef0"


def draw_delays(
    rows: Sequence[Mapping[str, Any]], airlines: Mapping[str, str], total: int, path: Path
) -> None:
    """Draw the rows of the delay table. Units: minutes."""
    departed: dict[str, int] = {}
    weighted: dict[str, float] = {}
    for row in rows:
        count = _departures(row)
        departed[row["carrier"]] = departed.get(row["carrier"], 0) + count
        weighted[row["carrier"]] = weighted.get(row["carrier"], 0.0) + count * (row["mean_delay"] or 0.0)
    means = {carrier: weighted[carrier] / max(departed[carrier], 1) for carrier in departed}
    carriers = sorted(means, key=lambda carrier: means[carrier], reverse=True)
    told = [row["hour"] for row in rows if _departures(row) >= LEAST_FLIGHTS] or [row["hour"] for row in rows]
    hours = list(range(min(told), max(told) + 1))
    figure = Figure(figsize=(13, 7.2), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    grid, bars = figure.subplots(1, 2, sharey=True, width_ratios=(7, 1.6))
    _draw_grid(figure, grid, rows, carriers, hours)
    grid.set_yticks(range(len(carriers)), [f"{airlines.get(c, c)}  ({c})" for c in carriers])
    _draw_bars(bars, [means[carrier] for carrier in carriers], [departed[carrier] for carrier in carriers])
    figure.suptitle(
        "How late flights left, by carrier and hour", x=0.008, ha="left", fontsize=17, fontweight="bold"
    )
    grid.set_title(
        f"Mean departure delay in minutes by carrier and scheduled hour, {total:,} flights from New York "
        "City, 2013\nEarly departures count as negative; cancelled flights have no delay and are left out",
        loc="left", fontsize=10.5, color="#444444", pad=12,
    )  # fmt: skip
    figure.savefig(path)


def _draw_grid(
    figure: Figure, axes: Axes, rows: Sequence[Mapping[str, Any]], carriers: list[str], hours: list[int]
) -> None:
    values = np.full((len(carriers), len(hours)), np.nan)
    for row in rows:
        if _departures(row) >= LEAST_FLIGHTS:
            values[carriers.index(row["carrier"]), row["hour"] - hours[0]] = row["mean_delay"]
    axes.set_facecolor(_GREY)
    image = axes.imshow(
        values, aspect="auto", cmap="RdYlBu_r", norm=TwoSlopeNorm(vcenter=0.0, vmin=-10.0, vmax=_HOTTEST)
    )
    for (line, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            colour = "white" if value > _DARK or value < -7 else "#222222"
            axes.text(column, line, f"{round(value)}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(hours)), [f"{hour:02d}" for hour in hours])
    axes.set_xlabel("Scheduled departure, hour of day (New York local time)")
    axes.set_xticks(np.arange(-0.5, len(hours)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(carriers)), minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.55, aspect=45, pad=0.02, extend="both")
    bar.set_label(f"Mean departure delay (minutes); grey: fewer than {LEAST_FLIGHTS} departures")
    bar.set_ticks([-10, -5, 0, 10, 20, 30, 40])
    bar.outline.set_visible(False)


def _departures(row: Mapping[str, Any]) -> int:
    return int(row["flights"] - row["cancelled"])


def _draw_bars(axes: Axes, means: list[float], departed: list[int]) -> None:
    axes.barh(range(len(means)), means, color="#4a6fa5", height=0.72)
    reach = max([*means, 1.0])
    for line, (mean, count) in enumerate(zip(means, departed, strict=True)):
        axes.text(max(mean, 0) + reach * 0.04, line, f"{mean:.1f}", va="center", fontsize=8.5)
        axes.text(
            1.0, line, f"{count:,}", va="center", ha="right", fontsize=8, color="#666666",
            transform=axes.get_yaxis_transform(),
        )  # fmt: skip
    axes.set_xlim(min([*means, 0.0]) * 1.3, reach * 1.95)
    axes.axvline(0, color="#444444", linewidth=0.8)
    axes.set_title("All hours (min)", loc="left", fontsize=9, color="#444444", pad=6)
    axes.set_title("departures", loc="right", fontsize=9, color="#444444", pad=6)
    axes.set_xticks([])
    axes.tick_params(which="both", length=0, labelleft=False)
    axes.spines[:].set_visible(False)
