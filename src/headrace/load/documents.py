"""The JSON of loads: what `--json` prints, and the table of `--csv`. Keys end with their unit.

Never here: what people are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.load.histogram import PERCENTILES

if TYPE_CHECKING:
    from headrace.load.comparison import LoadComparison
    from headrace.load.histogram import LatencyHistogram
    from headrace.load.result import LoadFigures
    from headrace.load.running import LoadReport

CSV_COLUMNS: Final = (
    "client",
    "messages",
    "size_bytes",
    "seconds",
    "messages_per_second",
    "bytes_per_second",
    "min_ns",
    "average_ns",
    *(f"{name}_ns" for name in PERCENTILES),
    "max_ns",
    "errors",
)


def report_document(report: LoadReport) -> dict[str, Any]:
    """Return the document of a load. `latency` and `histogram` are absent where there is no latency."""
    options = report.options
    found: dict[str, Any] = {
        "scenario": options.scenario.value,
        "server": report.server,
        "version": report.version,
        "clients": options.clients,
        "partners": len(report.partners),
        "message_size_bytes": len(options.body),
        "batch": options.window,
        **figures_document(report.total),
    }
    histogram = report.total.latencies
    if histogram.count:
        found["histogram"] = histogram_document(histogram)
    found["per_client"] = [figures_document(figures) for figures in report.clients]
    found["interrupted"] = report.was_interrupted
    return found


def figures_document(figures: LoadFigures) -> dict[str, Any]:
    """Return the figures of one client, or of all together."""
    found: dict[str, Any] = {
        "messages": figures.messages,
        "size_bytes": figures.size,
        "seconds": figures.seconds,
        "messages_per_second": figures.messages_per_second,
        "bytes_per_second": figures.bytes_per_second,
        "errors": figures.errors,
    }
    if figures.latencies.count:
        found["latency"] = latency_document(figures.latencies)
    return found


def latency_document(histogram: LatencyHistogram) -> dict[str, Any]:
    """Return count, extremes, average and percentiles of latencies."""
    percentiles = {f"{name}_ns": histogram.percentile_ns(share) for name, share in PERCENTILES.items()}
    return {
        "count": histogram.count,
        "min_ns": histogram.least_ns,
        "average_ns": histogram.average_ns,
        **percentiles,
        "max_ns": histogram.most_ns,
    }


def histogram_document(histogram: LatencyHistogram) -> list[dict[str, int]]:
    """Return the rows of a histogram."""
    return [
        {"from_ns": row.least_ns, "to_ns": row.end_ns, "count": row.latencies} for row in histogram.rows()
    ]


def comparison_document(scenario: str, comparison: LoadComparison) -> dict[str, Any]:
    """Return the document of a comparison: ratios only."""
    return {
        "scenario": scenario,
        "servers": list(comparison.servers),
        "versions": list(comparison.versions),
        "rounds": comparison.rounds,
        "messages_per_second_ratio": comparison.rate,
        "latency_ratio": comparison.latencies,
        "interrupted": comparison.was_interrupted,
    }


def csv_rows(report: LoadReport) -> list[list[str]]:
    """Return the rows of a table: its heading, a row for each client, and one of all together."""
    named = [(str(number), figures) for number, figures in enumerate(report.clients, 1)]
    return [list(CSV_COLUMNS), *(_csv_row(name, each) for name, each in [*named, ("all", report.total)])]


def _csv_row(name: str, figures: LoadFigures) -> list[str]:
    latency = latency_document(figures.latencies) if figures.latencies.count else {}
    return [
        name,
        str(figures.messages),
        str(figures.size),
        f"{figures.seconds:.6f}",
        f"{figures.messages_per_second:.1f}",
        f"{figures.bytes_per_second:.1f}",
        *(f"{latency[key]:.0f}" if key in latency else "" for key in CSV_COLUMNS[6:-1]),
        str(sum(figures.errors.values())),
    ]
