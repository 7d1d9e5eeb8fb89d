"""The picture of a run: rate and CPU time of each case as ratios to the peer. Needs matplotlib."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from bench.results import Summary

_MET, _MISSED, _FREE = "#1b7f5c", "#c0392b", "#5b7c99"


def is_available() -> bool:
    """Tell whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def _colours(found: list[Summary], metric: str) -> list[str]:
    colours = []
    for summary in found:
        verdicts = [verdict for verdict in summary.verdicts() if verdict.metric == metric]
        colours.append(_FREE if not verdicts else _MET if verdicts[0].holds else _MISSED)
    return colours


def draw(found: list[Summary], path: Path, versions: str) -> None:
    """Write the chart of the cases that have rates: left the rate, right the CPU time per message."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rated = [summary for summary in found if "memory_kb" not in summary.medians["server"]][::-1]
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 0.34 * len(rated) + 1.6), sharey=True)
    panels = (
        ("rate", "rate ÷ nats-server (longer is better)"),
        ("cpu_ns", "CPU per message ÷ nats-server (shorter is better)"),
    )
    for axis, (metric, title) in zip(axes, panels, strict=True):
        ratios = [summary.ratio(metric) for summary in rated]
        widest = max([*ratios, 1.0])
        axis.barh([summary.case.name for summary in rated], ratios, color=_colours(rated, metric))
        axis.axvline(1.0, color="black", linewidth=1)
        for row, (summary, ratio) in enumerate(zip(rated, ratios, strict=True)):
            bounds = [bound.bound for bound in summary.case.bounds if bound.metric == metric]
            for bound in bounds:
                axis.plot([bound] * 2, [row - 0.4, row + 0.4], color="black", linewidth=2)
            place = max([ratio, *bounds]) + widest * 0.015
            axis.text(place, row, f"{ratio:.2f}×", va="center", fontsize=8)
        axis.set_xlim(0, widest * 1.15)
        axis.margins(y=0.01)
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{versions}; green: target met, red: missed, thick mark: target", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
