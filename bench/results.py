"""Numbers of a run: what is stored, medians, ratios and verdicts. Runs nothing and draws nothing.

A result file is JSON: where it comes from, how each side was started, and for each case the
report of every repetition of each side, as the load gave it. Everything else is computed here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.cases import CHURN_PACE_MIN, Bound, Case
from bench.errors import BenchError
from bench.sides import SIDES

if TYPE_CHECKING:
    from pathlib import Path

    from bench.generator import Report
    from bench.sides import Side

SCHEMA = 1
GENERATOR_BUSY = 0.90
"""Share of a core from which the load generator may be the slower side."""

FSYNC_DIFFERS = 1.5
"""Ratio of the fsync times before the measurements of two sides from which the disk was not the same."""

OTHERS_BUSY = 0.20
"""Cores used by other processes of the machine from which its figures are marked as disturbed."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a result."""

    created: str
    commit: str | None
    dirty: bool
    python: str
    machine: dict[str, str | int]
    command: str


@dataclass(frozen=True, slots=True)
class SideInfo:
    """What ran on one side: the start command without directories, and its version."""

    command: str
    version: str


@dataclass(slots=True)
class Run:
    """One run: settings, and per case and side the report of each repetition."""

    origin: Origin
    transport: str
    quick: bool
    reps: int
    seconds: float
    sides: dict[Side, SideInfo]
    cases: dict[str, dict[Side, list[Report]]] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"


def run_from_json(text: str) -> Run:
    """Give the run of a result file. Raises: BenchError if its schema is another one."""
    data: dict[str, Any] = json.loads(text)
    if data.pop("schema", None) != SCHEMA:
        raise BenchError(f"a result file of another schema than {SCHEMA}")
    data["origin"] = Origin(**data["origin"])
    data["sides"] = {side: SideInfo(**info) for side, info in data["sides"].items()}
    return Run(**data)


def load_run(path: Path) -> Run | None:
    """Give the run stored in a file, or None when there is no such file."""
    return run_from_json(path.read_text(encoding="utf-8")) if path.exists() else None


def derive(case: Case, report: Report) -> dict[str, float]:
    """Give the figures of one repetition.

    Units: rate per second; cpu_ns per counted thing; cores = CPU seconds per second, of the server,
    of the load, and of everything else on the machine with the time stolen from it, and of the server when
    nothing happens; memory in KiB for the whole process and per counted thing; latencies in µs.
    """
    count, seconds = report[case.counts], report["seconds"]
    if count <= 0 or seconds <= 0:
        raise BenchError(f"{case.name}: nothing was counted")
    figures = {
        "count": count,
        "rate": count / seconds,
        "cpu_ns": report["server_cpu_ns"] / count,
        "server_cores": report["server_cpu_ns"] / 1e9 / seconds,
        "load_cores": report["load_cpu_ns"] / 1e9 / seconds,
    }
    ours = report["server_cpu_ns"] + report["load_cpu_ns"]
    figures["other_cores"] = max(0.0, (report["machine_cpu_ns"] - ours) / 1e9 / seconds)
    figures.update({key: value for key, value in report.items() if key.endswith("_us")})
    if "idle_cpu_ns" in report:
        figures["idle_cores"] = report["idle_cpu_ns"] / 1e9 / report["idle_seconds"]
    if "pss_after_kb" in report:
        figures["memory_kb"] = report["pss_after_kb"]
        figures["each_kb"] = (report["pss_after_kb"] - report["pss_before_kb"]) / count
    if case.churn:
        figures["churn_per_s"] = report["churned"] / report["churn_seconds"]
    return figures


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one bound of a case holds."""

    bound: Bound
    ratio: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """Medians of a case on each side, with the extremes of the repetitions."""

    case: Case
    reps: int
    medians: dict[Side, dict[str, float]]
    extremes: dict[Side, dict[str, tuple[float, float]]]

    def ratio(self, metric: str, peer: Side | None = None) -> float:
        """Give our median over that of a peer, the first one for None."""
        return self.medians[self.case.ours][metric] / self.medians[peer or self.case.peers[0]][metric]

    def verdicts(self) -> tuple[Verdict, ...]:
        ratios = [(bound, self.ratio(bound.metric, bound.peer)) for bound in self.case.bounds]
        return tuple(Verdict(bound, ratio, bound.holds(ratio)) for bound, ratio in ratios)

    @property
    def holds(self) -> bool | None:
        """True when every bound holds; None for a case without a target."""
        verdicts = self.verdicts()
        return all(verdict.holds for verdict in verdicts) if verdicts else None

    @property
    def other_cores(self) -> float:
        """Give the cores that other processes used, on the side where they used more."""
        return max(self.medians[side]["other_cores"] for side in self.case.sides)

    def remarks(self) -> tuple[str, ...]:
        """Give what a reader must know before believing the figures."""
        found: list[str] = []
        fill = self.case.fill
        if fill is not None and self.medians[self.case.ours]["count"] != fill.messages:
            found.append(
                f"{self.medians[self.case.ours]['count']:,.0f} messages were read, not {fill.messages:,}"
            )
        fsyncs = {side: self.medians[side]["fsync_us"] for side in self.case.sides if self.case.stores}
        if fsyncs and max(fsyncs.values()) > FSYNC_DIFFERS * min(fsyncs.values()):
            texts = [f"{us:,.0f} µs before the {SIDES[side].noun}" for side, us in fsyncs.items()]
            found.append(f"the disk changed: an fsync of 4 KiB took {', '.join(texts)}")
        for side in self.case.sides:
            figures, noun = self.medians[side], SIDES[side].noun
            if figures["load_cores"] >= GENERATOR_BUSY and not self.case.is_polling:
                found.append(f"the generator used {figures['load_cores']:.2f} of a core beside the {noun}")
            pace = figures.get("churn_per_s", 0.0)
            if self.case.churn and pace < CHURN_PACE_MIN * self.case.churn:
                found.append(f"the {noun} took {pace:,.0f} of {self.case.churn:,} pairs a second")
        return tuple(found)


def summarize(case: Case, sides: dict[Side, list[Report]]) -> Summary:
    """Give medians and extremes of all repetitions. Raises: BenchError when a side has none."""
    medians: dict[Side, dict[str, float]] = {}
    extremes: dict[Side, dict[str, tuple[float, float]]] = {}
    for side in case.sides:
        figures = [derive(case, report) for report in sides.get(side, [])]
        if not figures:
            raise BenchError(f"{case.name}: no repetition of the {SIDES[side].noun}")
        columns = {key: [each[key] for each in figures] for key in figures[0]}
        medians[side] = {key: median(values) for key, values in columns.items()}
        extremes[side] = {key: (min(values), max(values)) for key, values in columns.items()}
    return Summary(case, len(sides[case.ours]), medians, extremes)
