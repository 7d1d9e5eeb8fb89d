"""Fixtures for every test."""

from __future__ import annotations

import gc
import signal
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness import collection, depth
from harness.forking import FORKS
from harness.optional import OPTIONAL, missing_package
from harness.processes import ASYNCIO, HEADRACES
from harness.tallies import TALLIES, TIMES
from headrace.engine.memory import live_objects

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

HERE: Final = Path(__file__).parent
FOR_EVERY_SERVER: Final = ("clients", "conformance", "process")
STARTED_WHOLE: Final = ("docs", "faults", "process")
"""Folders of tests in which a server is its executable, from its start to its end: see `harness.forking`."""
FAILED: Final = pytest.StashKey[bool]()


def pytest_configure() -> None:
    """Programs that tests start get INT as from a terminal: a shell ignores it for what runs behind `&`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """Skips a file of tests that imports an optional package which is not there; other errors stay errors.

    A conftest.py must import such packages in its fixtures. Of several processes each collects the files of a
    folder in an order of its own: see `harness.collection`.
    """
    report: pytest.CollectReport = yield
    if isinstance(collector, pytest.Directory):
        report.result = collection.turned(report.result, *collection.place(collector.config))
    call = getattr(report, "call", None)
    if report.failed and call is not None and isinstance(collector, pytest.Module):
        missing = missing_package(call.excinfo.value)
        if missing in OPTIONAL:
            report.outcome = "skipped"
            report.longrepr = (str(collector.path), 0, f"Skipped: {missing} is not installed")
            report.call = None  # type: ignore[attr-defined]  # else pytest tells debuggers of an exception
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes failures, so that fixtures need not complain about what a failed test left behind."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


def is_over_second_transport(item: pytest.Item) -> bool:
    """Whether a test that is played to every kind of server is played to one with asyncio's transport, where
    that is not the default. What transports do differently is tested in tests/faults, which is not meant."""
    called = getattr(item, "callspec", None)
    if len(HEADRACES) == 1 or called is None or item.path.relative_to(HERE).parts[0] not in FOR_EVERY_SERVER:
        return False
    return any(ASYNCIO in (value, getattr(value, "program", None)) for value in called.params.values())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests over the second transport a twentieth is played, whole files, since these share servers;
    tests with Spark come first, and not one after the other: they take the longest."""
    left = {item for item in items if is_over_second_transport(item) and not depth.takes(item.path.name)}
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    _, count = collection.place(config)
    if count > 1:  # each has its own order of files, and all must have the same
        items.sort(key=lambda item: item.nodeid.partition("::")[0])
    spark = [item for item in items if item.nodeid.startswith("tests/spark/")]
    others = [item for item in items if not item.nodeid.startswith("tests/spark/")]
    items[:] = collection.dealt(starts_of(spark), others, count)


def starts_of(spark: list[pytest.Item]) -> list[list[pytest.Item]]:
    """Spark's tests in three parts, for three processes: those in the session that the tests of a process
    share, and those that start a Java runtime, or several, for each test."""
    shared = [item for item in spark if "spark" in getattr(item, "fixturenames", ())]
    own = [item for item in spark if item not in set(shared)]
    files = sorted({item.path.name for item in own})
    later = set(files[len(files) // 2 :])
    return [
        shared,
        [item for item in own if item.path.name not in later],
        [item for item in own if item.path.name in later],
    ]


@pytest.fixture(scope="module", autouse=True)
def _old_objects_apart() -> None:
    """What earlier modules of tests left lives as long as the run: collections of garbage, of which many
    tests ask for some, need not look through it."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand over what this process has tried, where tests run in several."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["tallies"] = dict(TALLIES)
        session.config.workeroutput["times"] = dict(TIMES)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """One of those processes has ended."""
    output = getattr(node, "workeroutput", {})
    TALLIES.update(output.get("tallies", {}))
    for what, seconds in output.get("times", {}).items():
        TIMES.setdefault(what, []).extend(seconds)


def pytest_report_header() -> str:
    """Says which seeds are played."""
    return depth.described()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how much the crash, power-loss and fault suites tried; what they assert held for all of it. A run
    with failures says once more which seeds it played."""
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(depth.described())
    if TALLIES or TIMES:
        terminalreporter.section("what was tried")
        for what, count in sorted(TALLIES.items()):
            terminalreporter.write_line(f"{what}: {count:,}")
        for what, taken in sorted(TIMES.items()):
            middle = statistics.median(taken)
            terminalreporter.write_line(
                f"{what}: {min(taken):.2f} s, median {middle:.2f} s, {max(taken):.2f} s, {len(taken)} times"
            )


@pytest.fixture(scope="module", autouse=True)
def _starts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whether servers are forked or started whole."""
    with FORKS.used(request.path.relative_to(HERE).parts[0] not in STARTED_WHOLE):
        yield


@pytest.fixture
def engine_balance(request: pytest.FixtureRequest) -> Iterator[None]:
    """Asserts that no more of the engine's objects are alive than before the test."""
    if any(live_objects().values()):  # what earlier tests left in cycles must not go in the midst of this one
        gc.collect()
    before = live_objects()
    yield
    if live_objects() != before:
        gc.collect()
    after = live_objects()
    if not request.node.stash[FAILED]:
        assert all(0 <= after[kind] <= before[kind] for kind in before), f"before {before}, after {after}"
