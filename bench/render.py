"""Puts results into words: the tables of docs/performance.md, between its markers.

Text between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->` belongs to this module; everything
else in the page is written by hand. Reads result files, runs nothing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from bench.cases import CASES, LATER
from bench.errors import BenchError
from bench.machine import ROOT
from bench.progress import cpu_text, short_number
from bench.results import OTHERS_BUSY, SIDES, Run, Summary, load_run, summarize

if TYPE_CHECKING:
    from pathlib import Path

RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "performance.png"

_METRIC_WORDS = {"rate": "rate", "cpu_ns": "CPU", "p50_us": "p50", "p99_us": "p99", "memory_kb": "memory"}


def summaries(run: Run) -> list[Summary]:
    """Give the summary of every case of a run, in the order of CASES."""
    return [summarize(case, run.cases[case.name]) for case in CASES if case.name in run.cases]


def _figures_text(figures: dict[str, float]) -> str:
    if "memory_kb" in figures:
        return f"{figures['memory_kb'] / 1024:,.0f} MiB, {figures['connection_kb']:.1f} KiB each"
    text = f"{short_number(figures['rate'])}/s, {cpu_text(figures['cpu_ns'])}"
    if "p50_us" in figures:
        text += f", p50 {figures['p50_us']:,.0f} µs, p99 {figures['p99_us']:,.0f} µs"
    return text


def _ratio_text(summary: Summary) -> str:
    words = [f"{_METRIC_WORDS[metric]} {summary.ratio(metric):.2f}×" for metric in summary.case.metrics]
    return ", ".join(words)


def _verdict_text(summary: Summary) -> str:
    parts = []
    for verdict in summary.verdicts():
        sign = "≥" if verdict.metric == "rate" else "≤"
        mark = "" if verdict.holds else " ✗"
        parts.append(f"{_METRIC_WORDS[verdict.metric]} {sign} {verdict.bound:g}×{mark}")
    if not parts:
        return "–"
    return f"{'**met**' if summary.holds else '**missed**'}: {', '.join(parts)}"


def table(run: Run) -> str:
    """Give the table of a run as Markdown: both sides, ratios, targets; then remarks."""
    rows = ["| case | work | Headrace | nats-server | Headrace ÷ nats-server | target |"]
    rows.append("|---|---|---|---|---|---|")
    remarks: list[str] = []
    disturbed: list[str] = []
    for summary in summaries(run):
        case = summary.case
        cells = [
            f"`{case.name}`",
            case.title,
            *(_figures_text(summary.medians[side]) for side in SIDES),
            _ratio_text(summary),
            _verdict_text(summary),
        ]
        rows.append(f"| {' | '.join(cells)} |")
        remarks += [f"- `{case.name}`: {remark}." for remark in summary.remarks()]
        if summary.other_cores >= OTHERS_BUSY:
            disturbed.append(f"`{case.name}` {summary.other_cores:.2f}")
    if disturbed:
        remarks.append(f"- Other processes used part of the machine, in cores: {', '.join(disturbed)}.")
    return "\n".join(rows + (["", *remarks] if remarks else []))


def target_lines(run: Run) -> str:
    """Give each line of the targets with the cases that answer it and whether they all hold."""
    by_line: dict[str, list[Summary]] = {}
    for summary in summaries(run):
        if summary.case.line:
            by_line.setdefault(summary.case.line, []).append(summary)
    rows = ["| target | answered by | holds |", "|---|---|---|"]
    for line, found in by_line.items():
        missed = [summary.case.name for summary in found if not summary.holds]
        names = ", ".join(f"`{summary.case.name}`" for summary in found)
        rows.append(f"| {line} | {names} | {'no: ' + ', '.join(missed) if missed else 'yes'} |")
    rows += [f"| {line} | needs stored streams | not yet measured |" for line in LATER]
    return "\n".join(rows)


def churn_text(run: Run) -> str:
    """Give what churn costs each side's own 1:1 rate, or nothing when it was not measured."""
    found = {summary.case.name: summary for summary in summaries(run)}
    if not {"one-to-one-128", "churn-100k"} <= found.keys():
        return ""
    sentences = []
    for side, name in zip(SIDES, ("Headrace", "nats-server"), strict=True):
        alone, beside = found["one-to-one-128"].medians[side], found["churn-100k"].medians[side]
        sentences.append(
            f"{name} keeps {beside['rate'] / alone['rate']:.0%} of its own 1 → 1 rate "
            f"and needs {beside['cpu_ns'] / alone['cpu_ns']:.2f}× the CPU time per delivery"
        )
    return (
        f"Beside 100,000 subscribe + unsubscribe a second, {sentences[0]}; {sentences[1]} "
        "(`churn-100k` against `one-to-one-128`; the CPU time includes that of the churn).\n"
    )


def origin_text(run: Run) -> str:
    """Give where a run comes from and the commands that repeat it."""
    origin, machine = run.origin, run.origin.machine
    commit = f"`{origin.commit[:12]}`" if origin.commit else "no commit yet"
    return "\n".join(
        [
            f"- machine: {machine['cores']} × {machine['cpu']}, {machine['memory_gib']} GiB, "
            f"{machine['system']} {machine['kernel']}, TCP {machine['tcp']}",
            f"- Python {origin.python}; {origin.created}",
            f"- commit: {commit}{', with changes' if origin.dirty else ''}; "
            f"{run.sides['server'].version} against {run.sides['peer'].version}",
            f"- medians of {run.reps} repetitions of {run.seconds:g} s; run by `{origin.command}`",
            f"- Headrace started as `{run.sides['server'].command}`",
            f"- nats-server started as `{run.sides['peer'].command}`",
        ]
    )


def commands_text() -> str:
    """Give the command and the load arguments of every case."""
    rows = ["| case | run it alone | load |", "|---|---|---|"]
    for case in CASES:
        program = "loadgen" if case.loader == "native" else "python -m bench.tls_load"
        alone = f"python -m bench run --cases {case.name}"
        rows.append(f"| `{case.name}` | `{alone}` | `{program} {' '.join(case.args)}` |")
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


def render_page(page: str, results: Path, chart: bool) -> str:
    """Give the page with every section filled from the result files of a directory."""
    epoll, plain = load_run(results / "epoll.json"), load_run(results / "asyncio.json")
    none = "Not measured yet.\n"
    if epoll is None:
        main = targets = none
    else:
        image = "\n\n![Headrace against nats-server](performance.png)" if chart else ""
        main = f"{origin_text(epoll)}\n\n{table(epoll)}\n\n{churn_text(epoll)}{image}"
        targets = target_lines(epoll)
    page = replace_section(page, "targets", targets)
    page = replace_section(page, "epoll", main)
    page = replace_section(page, "asyncio", f"{origin_text(plain)}\n\n{table(plain)}" if plain else none)
    page = replace_section(page, "commands", commands_text())
    soak = results / "soak.json"
    text = soak_text(json.loads(soak.read_text(encoding="utf-8"))) if soak.exists() else none
    return replace_section(page, "soak", text)
