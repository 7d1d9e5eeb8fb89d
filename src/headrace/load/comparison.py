"""The same load on two servers, in alternation: ratios of medians, which outlast what a machine does beside.

Never here: absolute figures. Two servers of one run are compared, nothing else.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.load.errors import LoadError, LoadOptionsError
from headrace.load.histogram import PERCENTILES
from headrace.load.options import Scenario
from headrace.load.running import run_load

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.options import ConnectOptions
    from headrace.load.options import LoadOptions
    from headrace.load.processes import ClientFailure
    from headrace.load.running import LoadReport

ROUNDS: Final = 5


class LoadTarget(Struct, frozen=True):
    """A server to measure: its URL, and who to be there."""

    url: str | None
    options: ConnectOptions | None = None


class LoadComparison(Struct, frozen=True):
    """The first server beside the second: the ratios of their medians, above 1 where the first has more.

    `latencies` has a ratio for each percentile (`PERCENTILES`), none where a scenario has no latencies.
    """

    servers: tuple[str, str]
    versions: tuple[str, str]
    rounds: int
    rate: float
    latencies: dict[str, float]
    was_interrupted: bool = False


def compare_loads(
    options: LoadOptions,
    targets: tuple[LoadTarget, LoadTarget],
    *,
    rounds: int = ROUNDS,
    progress: Callable[[int, int | None], None] | None = None,
) -> LoadComparison:
    """Run a load on two servers in turn; every other round begins with the second.

    `progress` is called with the loads that are done, and those that are wanted. After KeyboardInterrupt the
    whole rounds until then count. Raises: as `run_load`; LoadError for a load that fails, and if no round was
    whole; LoadOptionsError for a scenario that needs other programs.
    """
    if rounds < 1:
        raise LoadOptionsError("a comparison has at least one round")
    if options.scenario is Scenario.SERVE:
        raise LoadOptionsError("responders do not ask: compare `request`")
    if options.scenario in (Scenario.SUB, Scenario.REQUEST) and not options.partners:
        raise LoadOptionsError(f"{options.scenario.value} is compared with partners of its own")
    whole: list[tuple[LoadReport, LoadReport]] = []
    was_interrupted = False
    try:
        for number in range(rounds):
            found: dict[int, LoadReport] = {}
            for place in (0, 1) if number % 2 == 0 else (1, 0):
                found[place] = _measured(options, targets[place])
                if progress is not None:
                    progress(2 * number + len(found), 2 * rounds)
            whole.append((found[0], found[1]))
    except KeyboardInterrupt:
        was_interrupted = True
    if not whole:
        raise LoadError("interrupted before a round was whole")
    first, second = [pair[0] for pair in whole], [pair[1] for pair in whole]
    latencies = {
        name: median(one.total.latencies.percentile_ns(share) for one in first)
        / max(median(one.total.latencies.percentile_ns(share) for one in second), 1)
        for name, share in PERCENTILES.items()
        if first[0].total.latencies.count
    }
    return LoadComparison(
        (first[0].server, second[0].server),
        (first[0].version, second[0].version),
        len(whole),
        _rate(first) / _rate(second),
        latencies,
        was_interrupted,
    )


def _rate(reports: list[LoadReport]) -> float:
    return median(report.total.messages_per_second for report in reports)


def _measured(options: LoadOptions, target: LoadTarget) -> LoadReport:
    """Run the load once. Raises: LoadError if it did not go through; KeyboardInterrupt."""
    report = run_load(options, target.url, target.options)
    if report.was_interrupted:
        raise KeyboardInterrupt
    failure: ClientFailure | None = report.failure
    if failure is not None:
        raise LoadError(f"{report.server}: {failure.text}")
    if report.total.errors:
        raise LoadError(f"{report.server}: {next(iter(report.total.errors))}")
    if not report.total.messages_per_second:
        raise LoadError(f"{report.server}: nothing was measured")
    return report
