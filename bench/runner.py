"""Runs cases: server and peer in turn, a fresh process for every measurement.

The order of the two sides changes with each repetition, so that a drift of the machine does not
favour one of them. A load that fails, or a count that is not exact, ends the run.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.certificate import write_certificate
from bench.errors import BenchError
from bench.generator import GRACE_S, Phases, Report, Target, load_command, run_load
from bench.process import Command, running
from bench.progress import Progress, cpu_text, short_number
from bench.results import SIDES, Side, SideInfo, derive

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.cases import Case
    from bench.results import Run


@dataclass(frozen=True, slots=True)
class Settings:
    """How long and how often. Units: seconds of the measured phase, seconds of the one before it."""

    reps: int = 5
    seconds: float = 2.0
    warmup: float = 0.4
    load_pin: str | None = None


QUICK = Settings(reps=2, seconds=0.5, warmup=0.2)


def probe(command: Command) -> SideInfo:
    """Start a side once and give what it says about itself. Raises: BenchError."""
    with running(command) as server:
        return SideInfo(command.label, version_text(server.info))


def version_text(info: dict[str, Any]) -> str:
    """Give name and version from an INFO; Headrace names its own version in git_commit."""
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
    if "memory_kb" in figures:
        text = f"{figures['memory_kb'] / 1024:.0f} MiB, {figures['connection_kb']:.1f} KiB per connection"
    return text


class Bench:
    """Measures cases on two sides and collects their reports in a Run."""

    def __init__(self, run: Run, commands: dict[Side, Command], settings: Settings) -> None:
        self._run = run
        self._commands = commands
        self._settings = settings

    def measure(self, cases: tuple[Case, ...], store: Callable[[], None]) -> None:
        """Run all cases, calling `store` after each. Raises: BenchError naming case, side and repetition."""
        progress = Progress(len(cases) * self._settings.reps * len(SIDES))
        with tempfile.TemporaryDirectory() as directory:
            certificate = write_certificate(Path(directory))
            for case in cases:
                self._run.cases[case.name] = self._measure_case(case, certificate, progress)
                store()
        progress.close()

    def _measure_case(
        self, case: Case, certificate: tuple[Path, Path], progress: Progress
    ) -> dict[Side, list[Report]]:
        reports: dict[Side, list[Report]] = {side: [] for side in SIDES}
        for rep in range(self._settings.reps):
            for side in SIDES if rep % 2 == 0 else SIDES[::-1]:
                what = f"{case.name} {side} {rep + 1}/{self._settings.reps}"
                progress.begin(what)
                try:
                    report = self._measure_once(case, self._commands[side], certificate)
                    progress.step(f"{what}: {describe(case, report)}")
                except BenchError as error:
                    raise BenchError(f"{what}: {error}") from error
                reports[side].append(report)
        return reports

    def _measure_once(self, case: Case, command: Command, certificate: tuple[Path, Path]) -> Report:
        cert, key = certificate
        extra = ("--tls", "--tlscert", str(cert), "--tlskey", str(key)) if case.loader == "tls" else ()
        settings = self._settings
        with running(command, extra) as server:
            target = Target(server.port, server.pid, cert)
            words = load_command(case, target, Phases(settings.warmup, settings.seconds))
            limit = settings.seconds + settings.warmup + 2 * GRACE_S
            try:
                return run_load(words, limit, settings.load_pin)
            except BenchError as error:
                raise BenchError(f"{error}\n{server.log_tail()}") from error
