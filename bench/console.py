"""What an open console costs the server, and how its pages are with 10,000 of everything.

Here live the load beside a console, what is measured of both, the result file and its table in
docs/performance.md. Never here: the server that is looked at (`bench.console_server`), what a page does in
the browser (`bench.console_pages`), what becomes of a tab that stays open (`bench.console_hour`).
"""

from __future__ import annotations

import resource
import statistics
import time
from typing import TYPE_CHECKING, Any, Final

from bench import console_hour
from bench.console_pages import Browser
from bench.console_server import looked_at
from bench.errors import BenchError
from bench.process import cpu_ns
from bench.progress import Progress
from bench.render import PAGE
from bench.section import Section

if TYPE_CHECKING:
    import argparse

    from bench.console_server import Looked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench console` takes."""
    parser.add_argument("--rounds", type=int, default=7, help="loads without and with a console, in turn")
    parser.add_argument("--seconds", type=int, default=10, help="of each load")
    parser.add_argument("--load", type=int, default=200_000, help="messages a second of each load")
    parser.add_argument("--many", type=int, default=10_000, help="connections, and streams")
    parser.add_argument("--rate", type=int, default=50_000, help="messages a second in the tail")
    parser.add_argument("--minutes", type=float, help="measure only a tab that stays open so long")
    parser.add_argument("--name", help="result file below bench/results/local; the page is left alone")


def run_console(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result file, fill the page. Raises: BenchError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < options.many + 1000:
        raise BenchError(f"{options.many} connections need more open files than the {hard} that are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        if options.minutes:
            return console_hour.run_hour(options, origin)
        measured = _measured(options)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    asked = {name: getattr(options, name) for name in ("rounds", "seconds", "load", "many", "rate")}
    SECTION.publish({**origin, **asked, **measured}, options.name)
    return 0


def render_console() -> None:
    """Fill both sections of the page from the stored results."""
    SECTION.render()
    console_hour.SECTION.render()


def _measured(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    progress = Progress(options.rounds + 3)
    try:
        with looked_at() as looked, Browser() as browser:
            measured = {"cost": _cost(looked, browser, options, progress)}
            measured["tail"] = _tail(looked, browser, options)
            progress.step("the tail")
            measured["connections"] = _connections(looked, browser, options.many)
            progress.step("connections")
            measured["streams"] = _streams(looked, browser, options.many)
            progress.step("streams")
    finally:
        progress.close()
    return measured


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
    looked.load("sub", "load.x", "--publishers", "1", *load)
    return (cpu_ns(looked.server.pid) - before) / (time.perf_counter_ns() - began)


# ---- how its pages are ----------------------------------------------------------------------


def _tail(looked: Looked, browser: Browser, options: argparse.Namespace) -> dict[str, float]:
    """The live page while messages pass."""
    with browser.page(looked.url, "#/live?subject=load.%3E") as page:
        page.wait_for("main h1")
        page.forget()
        load = ("--rate", str(options.rate), "--duration", f"{options.seconds * 2}s")
        said = looked.load("pub", "load", "--subjects", "20", *load)
        return {"rate": said["messages_per_second"], **page.figures()}


def _connections(looked: Looked, browser: Browser, many: int) -> dict[str, float]:
    with looked.idle_connections(many):
        return _list(looked, browser, "#/connections")


def _streams(looked: Looked, browser: Browser, many: int) -> dict[str, float]:
    looked.make_streams(many)
    return _list(looked, browser, "#/streams")


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
    rows: list[tuple[str, ...]] = [
        ("server CPU of one processor", "without a console", "with one", "difference")
    ]
    rows.append(("---",) * 4)
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
