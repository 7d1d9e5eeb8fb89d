"""Puts results into words: the tables of docs/performance.md, between its markers.

Text between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->` belongs to this module; everything
else in the page is written by hand. Reads result files, runs nothing.
"""

from __future__ import annotations

import json
import re
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.cases import CASES
from bench.errors import BenchError
from bench.machine import ROOT
from bench.progress import cpu_text, short_number
from bench.results import OTHERS_BUSY, Run, Summary, load_run, summarize
from bench.sides import SIDES

if TYPE_CHECKING:
    from pathlib import Path

    from bench.cases import Case, Metric
    from bench.sides import Side

RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
PUBLISHED: Final = ("epoll", "asyncio", "durable", "jetstream", "single", "cluster", "cores", "mqtt")
"""The result files that have a section of the page."""
CHARTS = {
    "epoll": ROOT / "docs" / "performance.png",
    "durable": ROOT / "docs" / "durable.png",
    "jetstream": ROOT / "docs" / "jetstream.png",
}
"""The picture of each result file that has one."""

_METRIC_WORDS: Final[dict[Metric, str]] = {
    "rate": "rate",
    "cpu_ns": "CPU",
    "p50_us": "p50",
    "p99_us": "p99",
    "memory_kb": "memory",
    "idle_cores": "idle CPU",
}


def summaries(run: Run) -> list[Summary]:
    """Give the summary of every case of a run, in the order of CASES."""
    return [summarize(case, run.cases[case.name]) for case in CASES if case.name in run.cases]


def _figures_text(case: Case, figures: dict[str, float]) -> str:
    weight = ""
    if "memory_kb" in figures:
        weight = f"{figures['memory_kb'] / 1024:,.0f} MiB, {figures['each_kb']:.1f} KiB each"
        if case.compares == ("memory_kb",):
            return weight
    text = f"{short_number(figures['rate'])}/s, {cpu_text(figures['cpu_ns'])}"
    if "p50_us" in figures:
        text += f", p50 {figures['p50_us']:,.0f} µs, p99 {figures['p99_us']:,.0f} µs"
    if "idle_cores" in figures:
        text += f", idle {1000 * figures['idle_cores']:.1f} ms a second"
    return f"{text}, {weight}" if weight else text


def _ratio_text(summary: Summary, peer: Side) -> str:
    ratios = [
        f"{_METRIC_WORDS[metric]} {summary.ratio(metric, peer):.2f}×" for metric in summary.case.metrics
    ]
    return ", ".join(ratios)


def _verdict_text(summary: Summary) -> str:
    parts = []
    for verdict in summary.verdicts():
        bound = verdict.bound
        sign = "≥" if bound.at_least else "≤"
        other = f" {SIDES[bound.peer].label}" if bound.peer != summary.case.peers[0] else ""
        mark = "" if verdict.holds else " ✗"
        parts.append(f"{_METRIC_WORDS[bound.metric]} {sign} {bound.bound:g}×{other}{mark}")
    if not parts:
        return "–"
    return f"{'**met**' if summary.holds else '**missed**'}: {', '.join(parts)}"


def _row(summary: Summary) -> str:
    case = summary.case
    cells = [
        f"`{case.name}`",
        case.title,
        *(_figures_text(case, summary.medians[side]) for side in case.sides),
        *(_ratio_text(summary, peer) for peer in case.peers),
        _verdict_text(summary),
    ]
    return f"| {' | '.join(cells)} |"


def _head(case: Case) -> list[str]:
    labels = [SIDES[side].label for side in case.sides]
    words = ["case", "work", *labels, *(f"{labels[0]} ÷ {label}" for label in labels[1:]), "target"]
    return [f"| {' | '.join(words)} |", "|---" * len(words) + "|"]


def table(run: Run) -> str:
    """Give the tables of a run as Markdown, one for each set of sides: figures, ratios, targets; remarks."""
    found = summaries(run)
    tables: dict[tuple[Side, ...], list[str]] = {}
    for summary in found:
        tables.setdefault(summary.case.sides, _head(summary.case)).append(_row(summary))
    remarks = [f"- `{summary.case.name}`: {remark}." for summary in found for remark in summary.remarks()]
    disturbed = [
        f"`{summary.case.name}` {summary.other_cores:.2f}"
        for summary in found
        if summary.other_cores >= OTHERS_BUSY
    ]
    if disturbed:
        remarks.append(f"- Other processes used part of the machine, in cores: {', '.join(disturbed)}.")
    parts = ["\n".join(rows) for rows in tables.values()] + (["\n".join(remarks)] if remarks else [])
    return "\n\n".join(parts)


def target_lines(*runs: Run, whole: bool = False) -> str:
    """Give each line of the targets with the cases that answer it and whether they all hold.

    whole: lines too of which the runs have no case.
    """
    by_name = {summary.case.name: summary for run in runs for summary in summaries(run)}
    rows = ["| target | answered by | holds |", "|---|---|---|"]
    for line in dict.fromkeys(case.line for case in CASES if case.line):
        cases = [case for case in CASES if case.line == line]
        if not whole and not any(case.name in by_name for case in cases):
            continue
        names = ", ".join(f"`{case.name}`" for case in cases)
        missed = [case.name for case in cases if case.name in by_name and not by_name[case.name].holds]
        open_ones = [case.name for case in cases if case.name not in by_name]
        words = [f"no: {', '.join(missed)}"] if missed else []
        words += [f"not yet measured: {', '.join(open_ones)}"] if open_ones else []
        rows.append(f"| {line} | {names} | {'; '.join(words) or 'yes'} |")
    return "\n".join(rows)


def churn_text(run: Run) -> str:
    """Give what churn costs each side's own 1:1 rate, or nothing when it was not measured."""
    found = {summary.case.name: summary for summary in summaries(run)}
    if not {"one-to-one-128", "churn-100k"} <= found.keys():
        return ""
    sentences = []
    for side in found["churn-100k"].case.sides:
        alone, beside = found["one-to-one-128"].medians[side], found["churn-100k"].medians[side]
        sentences.append(
            f"{SIDES[side].label} keeps {beside['rate'] / alone['rate']:.0%} of its own 1 → 1 rate "
            f"and needs {beside['cpu_ns'] / alone['cpu_ns']:.2f}× the CPU time per delivery"
        )
    return (
        f"Beside 100,000 subscribe + unsubscribe a second, {sentences[0]}; {sentences[1]} "
        "(`churn-100k` against `one-to-one-128`; the CPU time includes that of the churn).\n"
    )


def _disk_text(run: Run) -> list[str]:
    fsyncs = [
        report["fsync_us"]
        for case in run.cases.values()
        for reports in case.values()
        for report in reports
        if "fsync_us" in report
    ]
    if not fsyncs:
        return []
    return [
        f"- disk: append and fsync of 4 KiB before each measurement, median {median(fsyncs):,.0f} µs "
        f"({min(fsyncs):,.0f} to {max(fsyncs):,.0f})"
    ]


def origin_text(run: Run) -> str:
    """Give where a run comes from and the commands that repeat it."""
    origin, machine = run.origin, run.origin.machine
    commit = f"`{origin.commit[:12]}`" if origin.commit else "no commit yet"
    started = [f"- {SIDES[side].label} started as `{info.command}`" for side, info in run.sides.items()]
    return "\n".join(
        [
            f"- machine: {machine['cores']} × {machine['cpu']}, {machine['memory_gib']} GiB, "
            f"{machine['system']} {machine['kernel']}, TCP {machine['tcp']}",
            *_disk_text(run),
            f"- Python {origin.python}; {origin.created}",
            f"- commit: {commit}{', with changes' if origin.dirty else ''}; {versions_text(run)}",
            f"- medians of {run.reps} repetitions of {run.seconds:g} s; run by `{origin.command}`",
            *started,
        ]
    )


def versions_text(run: Run) -> str:
    """Give what was measured against what."""
    ours = dict.fromkeys(info.version for side, info in run.sides.items() if SIDES[side].ours)
    theirs = dict.fromkeys(info.version for side, info in run.sides.items() if not SIDES[side].ours)
    return f"{', '.join(ours)} against {', '.join(theirs)}"


def commands_text() -> str:
    """Give the command and the load arguments of every case."""
    rows = ["| case | run it alone | load |", "|---|---|---|"]
    for case in CASES:
        program = "loadgen" if case.loader == "native" else "python -m bench.tls_load"
        alone = f"python -m bench run --cases {case.name}"
        words = dict.fromkeys(" ".join(entry.words) for entry in case.entries if entry.words)
        added = f" with {', '.join(f'`{each}`' for each in words)}" if words else ""
        rows.append(f"| `{case.name}` | `{alone}` | `{program} {' '.join(case.args)}`{added} |")
    return "\n".join(rows)


def soak_text(soak: dict[str, Any]) -> str:
    """Give the outcome of a soak as a sentence and its figures."""
    return (
        f"`{soak['command']}`: {soak['minutes']:g} minutes, {short_number(soak['deliveries'])} deliveries at "
        f"{short_number(soak['rate'])}/s, {soak['sessions']:,} connections opened and closed. "
        f"Resident memory, median of the second fifth {soak['early_kb'] / 1024:.1f} MiB, of the last fifth "
        f"{soak['late_kb'] / 1024:.1f} MiB; descriptors {soak['descriptors_before']} before and "
        f"{soak['descriptors_after']} after. **{'Flat' if not soak['problems'] else 'Not flat'}**."
    )


def replace_section(page: str, name: str, text: str) -> str:
    """Give the page with the text between two markers replaced. Raises: BenchError without them."""
    opening, closing = re.escape(f"<!-- bench:{name} -->\n"), re.escape(f"<!-- /bench:{name} -->")
    pattern = re.compile(f"({opening}).*?({closing})", re.DOTALL)
    page, n = pattern.subn(lambda found: f"{found[1]}{text.rstrip()}\n{found[2]}", page)
    if n != 1:
        raise BenchError(f"the page needs exactly one pair of markers bench:{name}, found {n}")
    return page


def _results_text(run: Run | None, chart: str | None) -> str:
    if run is None:
        return "Not measured yet.\n"
    image = f"\n\n![Headrace against nats-server]({chart})" if chart else ""
    return f"{origin_text(run)}\n\n{table(run)}\n\n{churn_text(run)}{image}"


def render_page(page: str, results: Path, charts: frozenset[str]) -> str:
    """Give the page with every section filled from the result files of a directory.

    `charts`: the result files that have a picture.
    """
    runs = {name: load_run(results / f"{name}.json") for name in PUBLISHED}
    for name, run in runs.items():
        chart = CHARTS[name].name if name in charts else None
        page = replace_section(page, name, _results_text(run, chart))
    measured = (run for name, run in runs.items() if name != "asyncio" and run is not None)
    targets = target_lines(*measured, whole=True)
    page = replace_section(page, "targets", targets)
    page = replace_section(page, "commands", commands_text())
    soak = results / "soak.json"
    text = soak_text(json.loads(soak.read_text(encoding="utf-8"))) if soak.exists() else "Not measured yet.\n"
    return replace_section(page, "soak", text)
