"""`headrace latency`: how long a message takes from one server to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.load.histogram import LatencyHistogram
    from headrace.load.latency import CrossingReport

_SHARES: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0)
"""The shares of messages that the file of `--histogram` has a line for."""


def measure(call: Call) -> ExitCode:
    """Measure and print; 3 if messages were lost. Raises: CommandError, LoadOptionsError, ClientError."""
    from headrace.load.comparison import LoadTarget
    from headrace.load.latency import CrossingOptions, measure_crossing

    options, settings = call.options, call.settings
    if options.server_b is None:
        raise CommandError("--server-b is missing: the server that receives", ExitCode.WRONG_USE)
    wanted = CrossingOptions(size=options.size, rate=options.rate, duration=options.duration / 1e9)
    targets = (LoadTarget(settings.url, settings.options), LoadTarget(options.server_b, settings.options))
    with call.progress("latency", "messages") as bars:
        report = measure_crossing(wanted, targets, bars.show)
    call.out.document(
        _document(report), lambda: _show(call, report), quiet=str(report.latencies.percentile_ns(0.5))
    )
    if options.histogram is not None and report.latencies.count:
        text = "\n".join(distribution_lines(report.latencies)) + "\n"
        Path(options.histogram).write_text(text, encoding="utf-8")
    if report.was_interrupted:
        call.out.note("interrupted: these are the figures until then")
        return ExitCode.INTERRUPTED
    lost = report.sent - report.received
    if lost:
        call.out.warn(f"{lost:,} of {report.sent:,} messages did not arrive")
    return ExitCode.WRONG if lost else ExitCode.DONE


def _document(report: CrossingReport) -> dict[str, Any]:
    from headrace.load.documents import histogram_document, latency_document

    found: dict[str, Any] = {
        "servers": list(report.servers),
        "versions": list(report.versions),
        "round_trips_ns": list(report.round_trips_ns),
        "message_size_bytes": report.options.size,
        "rate": report.options.rate,
        "sent": report.sent,
        "received": report.received,
        "seconds": report.seconds,
        "messages_per_second": report.received / report.seconds if report.seconds else 0.0,
        "interrupted": report.was_interrupted,
    }
    if report.latencies.count:
        found["latency"] = latency_document(report.latencies)
        found["histogram"] = histogram_document(report.latencies)
    return found


def _show(call: Call, report: CrossingReport) -> None:
    from headrace.cli.text_table import ColumnKind
    from headrace.load.documents import latency_document

    number, duration = ColumnKind.NUMBER, ColumnKind.DURATION
    latency = latency_document(report.latencies) if report.latencies.count else {}
    latency.pop("count", None)
    call.out.facts(
        (
            ("sent at", f"{report.servers[0]} ({report.versions[0]})"),
            ("received at", f"{report.servers[1]} ({report.versions[1]})"),
            ("round trip of the first", report.round_trips_ns[0], duration),
            ("round trip of the second", report.round_trips_ns[1], duration),
            ("messages", report.received, number),
            ("time", int(report.seconds * 1e9), duration),
            *((key.removesuffix("_ns"), round(ns), duration) for key, ns in latency.items()),
        ),
        "latency",
    )


def distribution_lines(latencies: LatencyHistogram) -> list[str]:
    """Return the lines of a file that plotters of HdrHistogram read: latencies in ms by percentiles."""
    lines = ["Value  Percentile  TotalCount  1/(1-Percentile)", ""]
    for share in _SHARES:
        rest = f"{1 / (1 - share):.2f}" if share < 1 else "inf"
        value = (latencies.percentile_ns(share) if share < 1 else latencies.most_ns) / 1e6
        lines.append(f"{value:.6f}  {share:.6f}  {round(share * latencies.count)}  {rest}")
    return lines
