"""The load: builds the native generator once, runs it or the TLS client, reads their report.

The binary is cached in build/bench under a name made from its sources, compiler and flags, so a
change of either rebuilds it. Only the C library is needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.errors import BenchError
from bench.machine import ROOT
from bench.process import pinned

if TYPE_CHECKING:
    from pathlib import Path

    from bench.cases import Case, Entry, Fill

SOURCES = ROOT / "bench" / "loadgen"
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")
GRACE_S = 30.0
"""Time a load may take beyond its phases before it counts as stuck."""

Report = dict[str, float]


@dataclass(frozen=True, slots=True)
class Target:
    """The server a load goes to; certificate is what a TLS load trusts; far: port and pid of a mesh's other
    node."""

    port: int
    pid: int
    certificate: Path
    far: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Phases:
    """Lengths in seconds of the phase that is not counted and of the measured one."""

    warmup: float
    seconds: float


def build_generator(cache: Path = ROOT / "build" / "bench") -> Path:
    """Give the path of the compiled generator, building it when its sources changed. Raises: BenchError."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    sources = sorted(SOURCES.glob("*.c"))
    digest = hashlib.sha256(repr((compiler, FLAGS)).encode())
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.read_bytes())
    binary = cache / f"loadgen-{digest.hexdigest()[:16]}"
    if binary.exists():
        return binary
    cache.mkdir(parents=True, exist_ok=True)
    partial = binary.with_suffix(f".{os.getpid()}")
    words = [*compiler, *FLAGS, *map(str, sources), "-o", str(partial)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BenchError(f"no C compiler {compiler[0]!r}: the load generator is written in C") from error
    if done.returncode:
        raise BenchError(f"the load generator does not compile:\n{done.stderr}")
    partial.replace(binary)
    return binary


def load_command(
    case: Case, entry: Entry, target: Target, phases: Phases, fill: Fill | None = None
) -> list[str]:
    """Give the command that puts the load of a case on a running server; `fill`: what it has stored."""
    if case.loader == "tls":
        words = [sys.executable, "-m", "bench.tls_load", "--ca", str(target.certificate), *case.args]
    else:
        words = [str(build_generator()), *case.args, *entry.words]
    if fill is not None:
        words += ["--count", str(fill.messages)]
    words += ["--port", str(target.port), "--pid", str(target.pid)]
    if target.far is not None:
        words += ["--far-port", str(target.far[0]), "--far-pid", str(target.far[1])]
    if case.timed:
        words += ["--seconds", str(phases.seconds), "--warmup", str(phases.warmup)]
    return [*words, "--deadline", str(phases.seconds + phases.warmup + GRACE_S + case.patience_s)]


def run_load(words: list[str], limit_s: float, pin: str | None = None) -> Report:
    """Run a load to its end and give its report. Raises: BenchError with its own words when it fails."""
    try:
        done = subprocess.run(
            pinned(words, pin), capture_output=True, text=True, check=False, cwd=ROOT, timeout=limit_s
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"the load did not end within {limit_s:.0f} s") from error
    if done.returncode:
        raise BenchError(done.stderr.strip() or f"the load ended with code {done.returncode}")
    return parse_report(done.stdout)


def parse_report(text: str) -> Report:
    """Give the numbers of a report: one line of JSON, numbers only. Raises: BenchError."""
    try:
        report = json.loads(text)
    except ValueError as error:
        raise BenchError(f"not a report: {text[:200]!r}") from error
    if not isinstance(report, dict) or not all(isinstance(value, int | float) for value in report.values()):
        raise BenchError(f"not a report: {text[:200]!r}")
    return report
