"""The picture of a run: rate and CPU time of each case as ratios to each peer. Needs matplotlib."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from bench.sides import SIDES

if TYPE_CHECKING:
    from pathlib import Path

    from bench.results import Summary
    from bench.sides import Side

    Row = tuple[Summary, Side]

_LINEAR_MAX = 20.0
"""Ratio from which a panel has a logarithmic axis."""
_MET, _MISSED, _FREE = "#1b7f5c", "#c0392b", "#5b7c99"


def is_available() -> bool:
    """Tell whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def _colours(rows: list[Row], metric: str) -> list[str]:
    colours = []
    for summary, peer in rows:
        held = [
            verdict.holds
            for verdict in summary.verdicts()
            if verdict.bound.metric == metric and verdict.bound.peer == peer
        ]
        colours.append(_FREE if not held else _MET if held[0] else _MISSED)
    return colours


def _name(summary: Summary, peer: Side) -> str:
    alone = len(summary.case.peers) == 1
    return summary.case.name if alone else f"{summary.case.name} ÷ {SIDES[peer].label}"


def draw(found: list[Summary], path: Path, versions: str) -> None:
    """Write the chart of the cases that have rates: left the rate, right the CPU time per message."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rated = [
        (summary, peer) for summary in found for peer in summary.case.peers if "rate" in summary.case.metrics
    ][::-1]
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 0.34 * len(rated) + 1.6), sharey=True)
    panels = (
        ("rate", "rate ÷ nats-server (longer is better)"),
        ("cpu_ns", "CPU per message ÷ nats-server (shorter is better)"),
    )
    for axis, (metric, title) in zip(axes, panels, strict=True):
        ratios = [summary.ratio(metric, peer) for summary, peer in rated]
        widest = max([*ratios, 1.0])
        if widest > _LINEAR_MAX:
            # Linear, one long bar would hide what the others say.
            axis.set_xscale("log")
        axis.barh([_name(summary, peer) for summary, peer in rated], ratios, color=_colours(rated, metric))
        axis.axvline(1.0, color="black", linewidth=1)
        for row, ((summary, peer), ratio) in enumerate(zip(rated, ratios, strict=True)):
            bounds = [
                bound.bound for bound in summary.case.bounds if bound.metric == metric and bound.peer == peer
            ]
            for bound in bounds:
                axis.plot([bound] * 2, [row - 0.4, row + 0.4], color="black", linewidth=2)
            end = max([ratio, *bounds])
            place = end * 1.05 if widest > _LINEAR_MAX else end + widest * 0.015
            axis.text(place, row, f"{ratio:.2f}×", va="center", fontsize=8)
        if widest > _LINEAR_MAX:
            axis.set_xlim(min(ratios) / 2, widest * 2)
        else:
            axis.set_xlim(0, widest * 1.15)
        axis.margins(y=0.01)
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{versions}; green: target met, red: missed, thick mark: target", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
