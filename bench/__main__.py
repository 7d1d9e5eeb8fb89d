"""The command line: `python -m bench run | render | list | soak`, and benches with own verbs (`OWN`)."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from bench import (
    bucket,
    bucket_puts,
    chart,
    compressed,
    compression,
    configs,
    console,
    load_clients,
    spark_read,
    spark_scan,
    spark_sink,
    spark_stream,
    starts,
    stops,
    storage,
    syncs,
)
from bench.cases import CASES, Case, Suite, select_cases
from bench.errors import BenchError
from bench.generator import build_generator
from bench.machine import commit_state, machine_class
from bench.process import Command, default_peer, default_server
from bench.render import CHARTS, PAGE, RESULTS, render_page, summaries, table, target_lines, versions_text
from bench.results import Origin, Run, load_run
from bench.runner import QUICK, Bench, Settings, probe
from bench.sides import side_command
from bench.soak import run_soak

if TYPE_CHECKING:
    from collections.abc import Callable


class Own(NamedTuple):
    """A bench that is no table of cases: it measures, stores and renders by itself."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, dict[str, object]], int]
    render: Callable[[], None] | None = None


OWN: Final = {
    "storage": Own(
        "the log alone: starts, memory, rates",
        storage.add_arguments, storage.run_storage, storage.SECTION.render,
    ),
    "compression": Own(
        "a log with and without compression: room, appends, reads",
        compression.add_arguments, compression.run_compression, compression.SECTION.render,
    ),
    "compressed": Own(
        "a compressed stream on both servers, and under Spark",
        compressed.add_arguments, compressed.run_compressed, compressed.SECTION.render,
    ),
    "start": Own(
        "from the start to the first INFO, beside nats-server; what commands of the client take",
        starts.add_arguments, starts.run_starts, starts.SECTION.render,
    ),
    "console": Own(
        "what an open console costs the server; its pages with 10,000 of everything; a tab after an hour",
        console.add_arguments, console.run_console, console.render_console,
    ),
    "stop": Own(
        "from the signal to the end of the process, beside nats-server",
        stops.add_arguments, stops.run_stops, stops.SECTION.render,
    ),
    "config": Own(
        "the check of a long configuration, beside nats-server",
        configs.add_arguments, configs.run_configs, configs.SECTION.render,
    ),
    "sync": Own(
        "what a sync costs by what was at the place that is written",
        syncs.add_arguments, syncs.run_sync, syncs.SECTION.render,
    ),
    "bucket": Own(
        "streams in a bucket, beside nats-server with three replicas",
        bucket.add_arguments, bucket.run_bucket,
    ),
    "bucket-puts": Own(
        "what a put to an object store costs the process that makes it",
        bucket_puts.add_arguments, bucket_puts.run_puts,
    ),
    "load": Own(
        "what `headrace bench` reaches beside nats-py, on both servers",
        load_clients.add_arguments, load_clients.run_clients,
    ),
    "spark-scan": Own(
        "Spark reads a stored stream, beside others",
        spark_scan.add_arguments, spark_scan.run_scan, spark_scan.render_scan,
    ),
    "spark-sink": Own(
        "rows written by Spark beside a nats-py publish loop",
        spark_sink.add_arguments, spark_sink.run_sink, spark_sink.render_sink,
    ),
    "spark-read": Own(
        "rows a second from a JetStream stream",
        spark_read.add_arguments, spark_read.run_read, spark_read.render_read,
    ),
    "spark-stream": Own(
        "what a micro-batch costs, latency, and the rate that keeps up",
        spark_stream.add_arguments, spark_stream.run_stream, spark_stream.render_stream,
    ),
}  # fmt: skip


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Give the parsed command line; ends the program with code 2 on a mistake."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(dest="verb", required=True)
    run = commands.add_parser("run", help="measure servers and peers in turn; write JSON, table and chart")
    run.add_argument(
        "--suite",
        choices=get_args(Suite),
        default="core",
        help="cases of messages, of stored channels, of streams, of one operation after the other, "
        "of two nodes, of two processes, or of MQTT",
    )
    run.add_argument("--cases", help="comma-separated names of any suite (default: all of it; see list)")
    run.add_argument("--reps", type=int, help="repetitions of each side (default 5)")
    run.add_argument("--seconds", type=float, help="length of a measured phase (default 2)")
    run.add_argument("--count", type=int, help="stored messages that are read (default: as the case says)")
    run.add_argument("--quick", action="store_true", help="2 short repetitions: a smoke test")
    run.add_argument(
        "--peer-cmd", help="command with {port} and {http} (default: nats-server beside the interpreter)"
    )
    run.add_argument(
        "--pin", metavar="CPUS:CPUS", help="taskset lists for the servers and for the load, such as 0:1"
    )
    run.add_argument(
        "--name",
        help="result file, without .json (default: the transport, or the suite; local/… when partial)",
    )
    soak = commands.add_parser(
        "soak", help="full load with connects and disconnects; fails if memory is not flat"
    )
    soak.add_argument("--minutes", type=float, default=5.0)
    soak.add_argument("--seed", type=int, default=1)
    for sub in (run, soak):
        sub.add_argument("--server-cmd", help="command with {port} and {http} (default: headrace serve)")
        sub.add_argument("--transport", choices=("epoll", "asyncio"), default="epoll")
    for verb, own in OWN.items():
        own.add_arguments(commands.add_parser(verb, help=own.help))
    commands.add_parser("render", help="fill docs/performance.md and its chart from the stored results")
    commands.add_parser("list", help="name every case, its load and its target")
    return parser.parse_args(words)


def server_command(options: argparse.Namespace, pin: str | None = None) -> Command:
    """Give how the measured server is started."""
    environment = {"HEADRACE_TRANSPORT": "asyncio"} if options.transport == "asyncio" else {}
    return Command(options.server_cmd or default_server(), environment, pin)


def result_name(options: argparse.Namespace, cases: tuple[Case, ...]) -> str:
    """Give the name of the result file; only a complete run has a published name by default."""
    if options.name:
        return str(options.name)
    suite = cases[0].suite
    own = options.cases or options.quick or options.count or options.server_cmd or options.peer_cmd
    partial = own or (suite != "core" and options.transport != "epoll")
    name = suite if suite != "core" else str(options.transport)
    return f"local/{name}" if partial else name


def _settings(options: argparse.Namespace, load_pin: str | None) -> Settings:
    settings = replace(QUICK if options.quick else Settings(), load_pin=load_pin)
    if options.reps:
        settings = replace(settings, reps=options.reps)
    if options.count:
        settings = replace(settings, count=options.count)
    return replace(settings, seconds=options.seconds) if options.seconds else settings


def _origin() -> Origin:
    commit, dirty = commit_state()
    # Directories of this machine stay out of result files.
    words = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    return Origin(
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        machine=machine_class(),
        command=f"python -m bench {shlex.join(words)}",
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def run_command(options: argparse.Namespace) -> int:
    """Measure; exit code 3 when a target is missed, else 0. Targets are set for the default transport."""
    cases = select_cases(options.cases, options.suite)
    server_pin, _, load_pin = (options.pin or "").partition(":")
    settings = _settings(options, load_pin or None)
    server = server_command(options, server_pin or None)
    peer = Command(options.peer_cmd or default_peer(), {}, server_pin or None)
    sides = dict.fromkeys(side for case in cases for side in case.sides)
    commands = {side: side_command(side, server, peer) for side in sides}
    build_generator()
    run = Run(
        origin=_origin(),
        transport=options.transport,
        quick=options.quick,
        reps=settings.reps,
        seconds=settings.seconds,
        sides={side: probe(command) for side, command in commands.items()},
    )
    path = RESULTS / f"{result_name(options, cases)}.json"
    Bench(run, commands, settings).measure(cases, lambda: _write(path, run.to_json()))
    print(table(run))
    print()
    print(target_lines(run))
    print(f"\nwritten: {path.relative_to(RESULTS.parent.parent)}")
    if path.parent == RESULTS:
        render_command()
    missed = any(summary.holds is False for summary in summaries(run))
    return 3 if missed and options.transport == "epoll" else 0


def render_command() -> int:
    """Fill the page and draw the chart from the stored results."""
    for name, path in CHARTS.items():
        run = load_run(RESULTS / f"{name}.json")
        if run is not None and chart.is_available():
            chart.draw(summaries(run), path, versions_text(run))
        elif run is not None:
            print("no chart: matplotlib is not installed", file=sys.stderr)
    charts = frozenset(name for name, path in CHARTS.items() if path.exists())
    _write(PAGE, render_page(PAGE.read_text(encoding="utf-8"), RESULTS, charts))
    for own in OWN.values():
        if own.render is not None:
            own.render()
    print(f"rendered: {PAGE.relative_to(RESULTS.parent.parent)}")
    return 0


def _case_text(case: Case) -> str:
    target = case.line or "no target"
    return f"{case.name:22} {' '.join(case.args)}\n{'':22} {case.suite}: {case.title}; {target}"


def list_command() -> int:
    """Print every case."""
    print("\n".join(map(_case_text, CASES)))
    return 0


def soak_command(options: argparse.Namespace) -> int:
    """Run the soak; exit code 0 when memory, descriptors and connections are as they should be, else 3."""
    result = run_soak(server_command(options), options.minutes, options.seed)
    published = options.minutes >= 5 and not options.server_cmd and options.transport == "epoll"
    path = RESULTS / ("soak.json" if published else "local/soak.json")
    _write(path, json.dumps({**_origin_dict(), **result.to_dict()}) + "\n")
    print(
        f"{result.deliveries:,} deliveries, {result.sessions:,} sessions; resident memory "
        f"{result.early_kb / 1024:.1f} MiB in the second fifth, {result.late_kb / 1024:.1f} MiB in the last; "
        f"descriptors {result.descriptors_before} before, {result.descriptors_after} after"
    )
    for problem in result.problems:
        print(f"FAILED: {problem}")
    if published:
        render_command()
    return 3 if result.problems else 0


def _origin_dict() -> dict[str, object]:
    origin = _origin()
    return {
        name: getattr(origin, name) for name in ("created", "commit", "dirty", "python", "machine", "command")
    }


def main(words: list[str] | None = None) -> int:
    options = parse_arguments(words)
    _raise_descriptor_limit()
    try:
        if options.verb == "run":
            return run_command(options)
        if options.verb == "soak":
            return soak_command(options)
        if options.verb in OWN:
            return OWN[options.verb].run(options, _origin_dict())
        return render_command() if options.verb == "render" else list_command()
    except (BenchError, KeyError) as error:
        print(f"bench: {error.args[0]}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: stopped", file=sys.stderr)
        return 130


def _raise_descriptor_limit() -> None:
    """Let the servers inherit the most descriptors allowed: 10,000 connections need them."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    sys.exit(main())
