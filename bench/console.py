"""What an open console costs the server, and how its pages are with 10,000 of everything.

Here live the server that is looked at, the load beside it, what is measured of both, the result file and its
table in docs/performance.md. Never here: what a page does in the browser (`bench.console_pages`).
"""

from __future__ import annotations

import json
import resource
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.console_pages import Browser
from bench.errors import BenchError
from bench.process import Command, RunningServer, cpu_ns, free_port, running
from bench.progress import Progress
from bench.render import PAGE
from bench.section import Section
from headrace.client.blocking import connect

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from headrace.client.blocking import Connection

_CONFIG: Final = """
server_name: bench
max_connections: 20000
jetstream {{ store_dir: "{dir}/store" }}
websocket {{ listen: "127.0.0.1:SOCKET", no_tls: true, console: true }}
accounts {{
    APP {{ jetstream: enabled, users: [ {{ user: app, password: app }} ] }}
    SYS {{ users: [ {{ user: sys, password: sys }} ] }}
}}
system_account: SYS
"""
"""`{dir}` is filled by `bench.process`, SOCKET here."""
_IDLE: Final = b'CONNECT {"user":"app","pass":"app","verbose":false,"name":"idle","lang":"bench"}\r\nPING\r\n'
_HEADRACE: Final = (sys.executable, "-m", "headrace")
_LOAD_S: Final = 120.0
"""A load that takes longer has failed."""


class Looked(NamedTuple):
    """A running server whose console is looked at."""

    server: RunningServer
    url: str

    @property
    def client(self) -> str:
        return f"nats://app:app@127.0.0.1:{self.server.port}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench console` takes."""
    parser.add_argument("--rounds", type=int, default=7, help="loads without and with a console, in turn")
    parser.add_argument("--seconds", type=int, default=10, help="of each load")
    parser.add_argument("--load", type=int, default=200_000, help="messages a second of each load")
    parser.add_argument("--many", type=int, default=10_000, help="connections, and streams")
    parser.add_argument("--rate", type=int, default=50_000, help="messages a second in the tail")
    parser.add_argument("--name", help="result file below bench/results/local; the page is left alone")


def run_console(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result file, fill the page. Raises: BenchError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < options.many + 1000:
        raise BenchError(f"{options.many} connections need more open files than the {hard} that are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    progress = Progress(options.rounds + 3)
    try:
        with _looked() as looked, Browser() as browser:
            cost = _cost(looked, browser, options, progress)
            tail = _tail(looked, browser, options)
            progress.step("the tail")
            connections = _connections(looked, browser, options.many)
            progress.step("connections")
            streams = _streams(looked, browser, options.many)
            progress.step("streams")
    finally:
        progress.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    result = {
        **origin,
        **{name: getattr(options, name) for name in ("rounds", "seconds", "load", "many", "rate")},
        **{"cost": cost, "tail": tail, "connections": connections, "streams": streams},
    }
    SECTION.publish(result, options.name)
    return 0


@contextmanager
def _looked() -> Iterator[Looked]:
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    port = free_port()
    template = f"{shlex.join(_HEADRACE)} serve -a 127.0.0.1 -p {{port}} -m {{http}} -c {{config}}"
    try:
        with running(
            Command(template, config=_CONFIG.replace("SOCKET", str(port))), directory=home
        ) as server:
            yield Looked(server, f"http://127.0.0.1:{port}/console/")
    finally:
        shutil.rmtree(home, ignore_errors=True)


# ---- what it costs --------------------------------------------------------------------------


def _cost(
    looked: Looked, browser: Browser, options: argparse.Namespace, progress: Progress
) -> dict[str, float]:
    """Medians of the server's CPU time in a second, without a console and with one, and of the difference.

    The rate of messages is the same in all: a server at full speed would share the processors with a browser
    that is elsewhere in earnest. A server serves with one thread, so what a console takes of it is what it
    takes of the messages that the server could pass on.
    """
    found: dict[str, list[float]] = {"without": [], "with": [], "difference": []}
    for _ in range(options.rounds):
        without = _load(looked, options)
        with browser.page(looked.url, "#/overview") as page:
            page.wait_for("main h1")
            beside = _load(looked, options)
        for side, share in (("without", without), ("with", beside), ("difference", beside - without)):
            found[side].append(share)
        progress.step("loads")
    return {side: statistics.median(shares) for side, shares in found.items()}


def _load(looked: Looked, options: argparse.Namespace) -> float:
    """Send from one client to another at a rate; the share of one processor that the server takes."""
    before, began = cpu_ns(looked.server.pid), time.perf_counter_ns()
    load = ("--rate", str(options.load), "--duration", f"{options.seconds}s")
    _bench(looked, "sub", "load.x", "--publishers", "1", *load)
    return (cpu_ns(looked.server.pid) - before) / (time.perf_counter_ns() - began)


def _bench(looked: Looked, *words: str) -> dict[str, Any]:
    command = [*_HEADRACE, "bench", *words, "--server", looked.client, "--json", "--no-progress"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=_LOAD_S, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr[-500:]}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


# ---- how its pages are ----------------------------------------------------------------------


def _tail(looked: Looked, browser: Browser, options: argparse.Namespace) -> dict[str, float]:
    """The live page while messages pass."""
    with browser.page(looked.url, "#/live?subject=load.%3E") as page:
        page.wait_for("main h1")
        page.forget()
        load = ("--rate", str(options.rate), "--duration", f"{options.seconds * 2}s")
        said = _bench(looked, "pub", "load", "--subjects", "20", *load)
        return {"rate": said["messages_per_second"], **page.figures()}


def _connections(looked: Looked, browser: Browser, many: int) -> dict[str, float]:
    with ExitStack() as idle:
        for _ in range(many):
            client = idle.enter_context(socket.create_connection(("127.0.0.1", looked.server.port)))
            client.sendall(_IDLE)
        return _list(looked, browser, "#/connections")


def _streams(looked: Looked, browser: Browser, many: int) -> dict[str, float]:
    with connect(looked.client) as client:
        for number in range(many):
            _make_stream(client, number)
    return _list(looked, browser, "#/streams")


def _make_stream(client: Connection, number: int) -> None:
    config = {"name": f"S{number:05}", "subjects": [f"s.{number}"], "storage": "memory"}
    said = json.loads(
        client.request(f"$JS.API.STREAM.CREATE.{config['name']}", json.dumps(config).encode()).data
    )
    if "error" in said:
        raise BenchError(f"{config['name']}: {said['error']}")


def _list(looked: Looked, browser: Browser, address: str) -> dict[str, float]:
    """The time to the first rows of a long list, and what scrolling through it takes."""
    with browser.page(looked.url, "#/overview") as page:
        page.wait_for("main h1")
        first_rows = page.shown_after(address, "main tbody tr[data-key]")
        page.forget()
        page.scroll(".table-box.windowed")
        return {"first_rows_ms": first_rows, **page.figures()}


def _words(result: dict[str, Any]) -> str:
    cost = result["cost"]
    rows = [("server CPU of one processor", "without a console", "with one", "difference"), ("---",) * 4]
    rows.append((f"{result['load']:,} messages a second", *_shares(cost)))
    pages = [("page", "first rows", "longest task", "heap of the tab"), ("---",) * 4]
    pages.append((f"Live, {result['tail']['rate']:,.0f} messages a second", "", *_page(result["tail"])))
    for name in ("connections", "streams"):
        first = f"{result[name]['first_rows_ms']:.0f} ms"
        pages.append((f"{result['many']:,} {name}, scrolled through", first, *_page(result[name])))
    tables = ["\n".join(f"| {' | '.join(row)} |" for row in table) for table in (rows, pages)]
    note = f"Medians of {result['rounds']} pairs of {result['seconds']} s, one client to another."
    return "\n\n".join((*tables, f"{note} `python -m bench console`")) + "\n"


def _shares(cost: dict[str, float]) -> list[str]:
    return [f"{100 * cost[side]:.1f} %" for side in ("without", "with", "difference")]


def _page(figures: dict[str, float]) -> tuple[str, str]:
    longest = figures["longest_task_ms"]
    return (f"{longest:.0f} ms" if longest else "under 50 ms", f"{figures['heap_mib']:.0f} MiB")


SECTION: Final = Section("console", PAGE, _words)
