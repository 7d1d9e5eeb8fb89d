"""`headrace bench`: loads of `headrace.load`, asked for by flags, and shown to people.

Never here: how a load is run.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.client.rows.bench import DEFAULT_NAME
from headrace.cli.outcomes import CommandError, ExitCode, code_of_name
from headrace.cli.text_table import ColumnKind, TextColumn

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.load.comparison import LoadComparison
    from headrace.load.options import LoadOptions
    from headrace.load.running import LoadReport

_PYTHON: Final = "a client in Python is measured too: compare servers, not clients"
_BAR: Final = 40
_OF_NATS: Final = {
    "js pub sync": ("js pub", "sync"),
    "js pub async": ("js pub", "async"),
    "js pub atomic": ("js pub", "atomic"),
    "js pub batch": ("js pub", "atomic"),
    "js pub fast": ("js pub", "fast"),
    "js get sync": ("js get",),
    "js get batch": ("js get",),
    "service request": ("request",),
    "service serve": ("serve",),
}
"""The scenario, and the way of publishing, behind words that only the link `nats` has."""
_NATS_NAMES: Final = {"stream": "benchstream", "bucket": "benchbucket"}
"""The names that the tool `nats` uses for what it makes, and keeps."""


def measure(call: Call) -> ExitCode:
    """Run the load that the words and flags say, and print its figures.

    Raises: CommandError, HeadraceError.
    """
    from headrace.load.options import check_options

    options = load_options(call)
    check_options(options)
    if getattr(call.options, "compare", None):
        return _compare(call, options)
    _ask(call, options, call.settings.url)
    return _measure(call, options)


def load_options(call: Call) -> LoadOptions:
    """Return the load of a command line. Raises: CommandError."""
    from headrace.load.options import LoadOptions, Publishing, Scenario

    flags = vars(call.options)
    words = " ".join(call.row.words[1:])
    scenario = Scenario(_OF_NATS.get(words, (words,))[0])
    chosen: dict[str, Any] = {
        "scenario": scenario,
        "clients": flags["clients"],
        "messages": flags["msgs"],
        "timeout": call.timeout,
        "api_prefix": call.api_prefix,
    }
    names = {
        "subject": "subject", "size": "size", "batch": "batch", "rate": "rate", "queue": "queue",
        "stream": "stream", "bucket": "bucket", "storage": "storage", "replicas": "replicas",
        "create": "create", "purge": "purge", "keep": "keep",
    }  # fmt: skip
    chosen |= {to: flags[name] for name, to in names.items() if flags.get(name) is not None}
    if call.is_nats:
        chosen |= _as_nats(flags)
    chosen["subjects"] = flags.get("keys") if "keys" in flags else flags.get("subjects")
    chosen["partners"] = flags.get("publishers") or flags.get("responders") or 0
    if flags["duration"] is not None:
        chosen["duration"] = flags["duration"] / 1e9
    if flags.get("payload") is not None:
        chosen["payload"] = Path(flags["payload"]).read_bytes()
    if flags.get("header"):
        chosen["headers"] = dict(flags["header"])
    if flags.get("ack") is not None:
        chosen["acknowledge"] = flags["ack"] == "explicit"
    ways = {
        "sync": Publishing.SYNC,
        "async": Publishing.ASYNC,
        "atomic": Publishing.BATCH,
        "fast": Publishing.FAST,
    }
    asked = [way for name, way in ways.items() if flags.get(name) or name in _OF_NATS.get(words, ())[1:]]
    if len(asked) > 1:
        raise CommandError("--sync, --async, --atomic and --fast exclude each other", ExitCode.WRONG_USE)
    if asked:
        chosen["publishing"] = asked[0]
    if scenario is Scenario.SERVE and flags["duration"] is None:
        chosen["messages"] = 1 << 53  # until it is interrupted
    if flags.get("compare") and scenario in (Scenario.SUB, Scenario.REQUEST):
        chosen["partners"] = chosen["partners"] or 1
    return LoadOptions(**chosen)


def _as_nats(flags: dict[str, Any]) -> dict[str, Any]:
    """The options that are otherwise with the link `nats`: what is made has other names, and is kept."""
    found: dict[str, Any] = {"keep": True} if "keep" in flags else {}
    if "bucket" in flags:
        found["create"] = True
    return found | {name: theirs for name, theirs in _NATS_NAMES.items() if flags.get(name) == DEFAULT_NAME}


def _ask(call: Call, options: LoadOptions, url: str | None) -> None:
    """Ask before a stream is filled that keeps everything. Raises: CommandError for a no."""
    from headrace.client.blocking import connect
    from headrace.load.preparation import fills_without_limit

    if not call.row.asks or call.options.force or call.is_nats:
        return
    with connect(url, call.settings.options) as connection:
        if not fills_without_limit(connection, options):
            return
    amount = (
        f"{options.messages:,} messages"
        if options.duration is None
        else f"messages for {options.duration:g} s"
    )
    call.confirm(
        f"{options.stream_name} has no limits, and would keep {amount} of {len(options.body):,} bytes"
    )


def _measure(call: Call, options: LoadOptions) -> ExitCode:
    from headrace.load.documents import csv_rows, report_document
    from headrace.load.options import Scenario
    from headrace.load.running import run_load

    settings = call.settings
    if options.scenario is Scenario.SERVE:
        call.out.note(f"answering requests to {options.subject}; Ctrl-C ends that")
    elif options.scenario is Scenario.SUB and not options.partners:
        call.out.note(f"waiting for messages on {options.subject}")
    with call.progress(f"bench {options.scenario.value}", "messages") as bars:
        report = run_load(
            options, settings.url, settings.options, lambda done, wanted: bars.show(done, wanted or done)
        )
    failure = report.failure
    if failure is not None and not report.total.messages:
        raise CommandError(failure.text, code_of_name(failure.kind, failure.text))
    rate = f"{report.total.messages_per_second:.0f}"
    call.out.document(report_document(report), lambda: _show(call, report), quiet=rate)
    if call.options.csv is not None:
        with Path(call.options.csv).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(csv_rows(report))
    if report.left_behind is not None:
        call.out.warn(report.left_behind)
    if failure is not None:
        raise CommandError(failure.text, code_of_name(failure.kind, failure.text))
    if report.was_interrupted:
        call.out.note("interrupted: these are the figures until then")
        return ExitCode.INTERRUPTED
    return ExitCode.REFUSED if report.total.errors else ExitCode.DONE


def _show(call: Call, report: LoadReport) -> None:
    out, total, latencies = call.out, report.total, report.total.latencies
    number, size, duration = ColumnKind.NUMBER, ColumnKind.SIZE, ColumnKind.DURATION
    out.facts(
        (
            ("server", f"{report.server} ({report.version})"),
            ("clients", len(report.clients), number),
            ("messages", total.messages, number),
            ("bytes", total.size, size),
            ("time", int(total.seconds * 1e9), duration),
            ("messages per second", round(total.messages_per_second), number),
            ("bytes per second", round(total.bytes_per_second), size),
        ),
        f"bench {report.options.scenario.value}",
    )
    if latencies.count:
        _show_latencies(call, report)
    if len(report.clients) > 1:
        columns = (
            TextColumn("Client", number),
            TextColumn("Messages", number),
            TextColumn("Time", duration),
            TextColumn("Messages per second", number),
        )
        rows = [
            (place, one.messages, int(one.seconds * 1e9), round(one.messages_per_second))
            for place, one in enumerate(report.clients, 1)
        ]
        out.table(columns, rows)
    for text, count in total.errors.items():
        out.warn(f"{count:,} times: {text}")
    out.note(_PYTHON)


def _show_latencies(call: Call, report: LoadReport) -> None:
    from headrace.load.documents import latency_document

    out, latencies = call.out, report.total.latencies
    found = latency_document(latencies)
    del found["count"]
    out.facts(
        tuple((key.removesuffix("_ns"), round(ns), ColumnKind.DURATION) for key, ns in found.items()),
        "latency",
    )
    rows = latencies.rows()
    most = max(row.latencies for row in rows)
    columns = (
        TextColumn("From", ColumnKind.DURATION),
        TextColumn("To", ColumnKind.DURATION),
        TextColumn("Count", ColumnKind.NUMBER),
        TextColumn("Share"),
    )
    drawn = [(row.least_ns, row.end_ns, row.latencies, _bar(row.latencies, most)) for row in rows]
    out.table(columns, drawn)


def _bar(count: int, most: int) -> str:
    """A bar whose length says how much of the most a count is; one that is not zero is seen."""
    return "#" * max(round(_BAR * count / most), 1 if count else 0)


def _compare(call: Call, options: LoadOptions) -> ExitCode:
    from headrace.load.comparison import LoadTarget, compare_loads
    from headrace.load.documents import comparison_document

    settings = call.settings
    targets = (
        LoadTarget(settings.url, settings.options),
        LoadTarget(call.options.compare, settings.options),
    )
    for url in (settings.url, call.options.compare):
        _ask(call, options, url)
    with call.progress(f"bench {options.scenario.value}", "loads") as bars:
        found = compare_loads(
            options,
            targets,
            rounds=call.options.rounds,
            progress=lambda done, wanted: bars.show(done, wanted or done),
        )
    call.out.document(
        comparison_document(options.scenario.value, found),
        lambda: _show_comparison(call, options, found),
        quiet=f"{found.rate:.3f}",
    )
    return ExitCode.INTERRUPTED if found.was_interrupted else ExitCode.DONE


def _show_comparison(call: Call, options: LoadOptions, found: LoadComparison) -> None:
    call.out.facts(
        (
            ("first", f"{found.servers[0]} ({found.versions[0]})"),
            ("second", f"{found.servers[1]} ({found.versions[1]})"),
            ("rounds", found.rounds, ColumnKind.NUMBER),
            ("ratio of messages per second", f"{found.rate:.3f}"),
            *((f"ratio of {name}", f"{ratio:.3f}") for name, ratio in found.latencies.items()),
        ),
        f"bench {options.scenario.value}: the first by the second, medians",
    )
    call.out.note(_PYTHON)
