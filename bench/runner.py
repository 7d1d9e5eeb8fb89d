"""Runs cases: their sides in turn, a fresh process for every measurement.

The order of the sides changes with each repetition, so that a drift of the machine does not
favour one of them. A load that fails, or a count that is not exact, ends the run.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.certificate import write_certificate
from bench.errors import BenchError
from bench.generator import GRACE_S, Phases, Report, Target, load_command, run_load
from bench.process import Command, running
from bench.progress import Progress, cpu_text, short_number
from bench.results import SideInfo, derive
from bench.stores import probe_fsync, temporary_stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.cases import Case, Entry, Fill
    from bench.results import Run
    from bench.sides import Side
    from bench.stores import Stores


@dataclass(frozen=True, slots=True)
class Settings:
    """How long and how often. Units: seconds of the measured phase, seconds of the one before it.

    count: messages of a stored stream that is read; None: as the case says.
    """

    reps: int = 5
    seconds: float = 2.0
    warmup: float = 0.4
    load_pin: str | None = None
    count: int | None = None


QUICK = Settings(reps=2, seconds=0.5, warmup=0.2, count=100_000)


def probe(command: Command) -> SideInfo:
    """Start a side once and give what it says about itself. Raises: BenchError."""
    with temporary_stores() as stores, stores.fresh() as store, running(command, directory=store) as server:
        return SideInfo(command.label, version_text(server.info))


def version_text(info: dict[str, Any]) -> str:
    """Give name and version from an INFO; Headrace names its own version in git_commit."""
    if "mosquitto" in info:
        return f"Mosquitto {info['mosquitto']}"
    if str(info.get("go", "")).startswith("go"):
        return f"nats-server {info['version']}"
    own = str(info.get("git_commit", "unknown")).removeprefix("headrace-")
    return f"headrace {own} (speaks {info.get('version', 'unknown')})"


def describe(case: Case, report: Report) -> str:
    """Give the figures of one repetition as a short text for the progress line."""
    figures = derive(case, report)
    text = f"{short_number(figures['rate'])}/s, {cpu_text(figures['cpu_ns'])} per {case.noun}"
    if "p50_us" in figures:
        text += f", p50 {figures['p50_us']:.0f} µs, p99 {figures['p99_us']:.0f} µs"
    if "idle_cores" in figures:
        text += f", idle {1000 * figures['idle_cores']:.1f} ms a second"
    if "memory_kb" in figures:
        weight = f"{figures['memory_kb'] / 1024:.0f} MiB, {figures['each_kb']:.1f} KiB per {case.noun}"
        text = weight if case.compares == ("memory_kb",) else f"{text}, {weight}"
    return text


@dataclass(frozen=True, slots=True)
class _Places:
    """Files that the servers of a run need."""

    certificate: tuple[Path, Path]
    stores: Stores


class Bench:
    """Measures cases on their sides and collects the reports in a Run."""

    def __init__(self, run: Run, commands: dict[Side, Command], settings: Settings) -> None:
        self._run = run
        self._commands = commands
        self._settings = settings

    def measure(self, cases: tuple[Case, ...], store: Callable[[], None]) -> None:
        """Run all cases, calling `store` after each. Raises: BenchError naming case, side and repetition."""
        progress = Progress(sum(len(case.sides) for case in cases) * self._settings.reps)
        with tempfile.TemporaryDirectory() as directory, temporary_stores() as stores:
            places = _Places(write_certificate(Path(directory)), stores)
            for case in cases:
                self._run.cases[case.name] = self._measure_case(case, places, progress)
                store()
        progress.close()

    def _measure_case(self, case: Case, places: _Places, progress: Progress) -> dict[Side, list[Report]]:
        reports: dict[Side, list[Report]] = {side: [] for side in case.sides}
        for rep in range(self._settings.reps):
            for entry in case.entries if rep % 2 == 0 else case.entries[::-1]:
                what = f"{case.name} {entry.side} {rep + 1}/{self._settings.reps}"
                progress.begin(what)
                try:
                    report = self._measure_once(case, entry, places)
                    progress.step(f"{what}: {describe(case, report)}")
                except BenchError as error:
                    raise BenchError(f"{what}: {error}") from error
                reports[entry.side].append(report)
        return reports

    @contextmanager
    def _store(self, case: Case, side: Side, stores: Stores) -> Iterator[Path]:
        """Give the directory that a server stores to."""
        fill = self._fill(case)
        if fill is not None:
            yield stores.filled(side, fill, self._commands[side])
            return
        with stores.fresh() as directory:
            yield directory

    def _fill(self, case: Case) -> Fill | None:
        if case.fill is None:
            return None
        return case.fill._replace(messages=self._settings.count or case.fill.messages)

    def _measure_once(self, case: Case, entry: Entry, places: _Places) -> Report:
        command = self._commands[entry.side]
        cert, key = places.certificate
        extra = ("--tls", "--tlscert", str(cert), "--tlskey", str(key)) if case.loader == "tls" else ()
        settings = self._settings
        fill = self._fill(case)
        with (
            self._store(case, entry.side, places.stores) as directory,
            running(command, extra, directory) as server,
            running(command.far, near=server.route) if command.far is not None else nullcontext() as far,
        ):
            port = server.mqtt if case.is_mqtt else server.port
            target = Target(port, server.pid, cert, (far.port, far.pid) if far is not None else None)
            words = load_command(case, entry, target, Phases(settings.warmup, settings.seconds), fill)
            limit = settings.seconds + settings.warmup + 2 * GRACE_S + case.patience_s
            disk = {"fsync_us": probe_fsync(directory)} if case.stores else {}
            try:
                return run_load(words, limit, settings.load_pin) | disk
            except BenchError as error:
                raise BenchError(f"{error}\n{server.log_tail()}") from error
