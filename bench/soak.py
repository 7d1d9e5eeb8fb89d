"""The soak: full load for minutes with clients that come and go; memory must stay flat.

Runs only the server, no peer. Each second it samples resident memory, descriptors and the
connections that /varz names; at the end it compares the median memory of the second fifth of the
samples with that of the last fifth.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.errors import BenchError
from bench.flapper import CLIENTS, Flapper
from bench.generator import GRACE_S, build_generator, parse_report
from bench.process import Command, RunningServer, descriptor_count, rss_kb, running
from bench.progress import Progress, duration

if TYPE_CHECKING:
    from bench.generator import Report

MEMORY_TOLERANCE_SHARE = 0.03
MEMORY_TOLERANCE_KB = 4096
"""Growth from the second fifth to the last that still counts as flat: the larger of the two."""

DESCRIPTOR_TOLERANCE = 2
PAIRS = 4
SAMPLE_S = 1.0
SETTLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the server. Units: rss in KiB."""

    rss_kb: int
    descriptors: int
    connections: int


@dataclass(frozen=True, slots=True)
class SoakResult:
    """What a soak found; `problems` is empty when it passed."""

    minutes: float
    deliveries: int
    rate: float
    sessions: int
    early_kb: float
    late_kb: float
    descriptors_before: int
    descriptors_after: int
    connections_before: int
    connections_after: int
    problems: tuple[str, ...]
    samples: tuple[Sample, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def memory_fifths(samples: list[int]) -> tuple[float, float]:
    """Give the median of the second and of the last fifth. Raises: BenchError for fewer than ten samples."""
    if len(samples) < 10:
        raise BenchError(f"a soak of {len(samples)} samples says nothing about memory: at least ten")
    fifth = len(samples) // 5
    return median(samples[fifth : 2 * fifth]), median(samples[-fifth:])


def is_flat(early_kb: float, late_kb: float) -> bool:
    """Tell whether memory grew by no more than the tolerance."""
    return late_kb - early_kb <= max(MEMORY_TOLERANCE_KB, MEMORY_TOLERANCE_SHARE * early_kb)


def _varz_connections(http: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{http}/varz", timeout=5) as reply:
        return int(json.load(reply)["connections"])


async def take_sample(server: RunningServer) -> Sample:
    """Look at the server through /proc and /varz. Raises: BenchError when it does not answer or is gone."""
    try:
        connections = await asyncio.to_thread(_varz_connections, server.http)
        return Sample(rss_kb(server.pid), descriptor_count(server.pid), connections)
    except (OSError, ValueError, KeyError) as error:
        raise BenchError(f"/varz or /proc of the server: {error}\n{server.log_tail()}") from error


async def _start_load(server: RunningServer, seconds: float) -> asyncio.subprocess.Process:
    words = ["traffic", "--payload", "128", "--fan", "1", "--flows", str(PAIRS)]
    words += ["--seconds", str(seconds), "--port", str(server.port), "--pid", str(server.pid)]
    words += ["--deadline", str(seconds + GRACE_S)]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(str(build_generator()), *words, stdout=pipe, stderr=pipe)


async def _watch(
    server: RunningServer, load: asyncio.subprocess.Process, flapper: Flapper, progress: Progress
) -> tuple[list[Sample], Report]:
    """Sample until the load has ended by itself. Raises: BenchError when it failed."""
    samples: list[Sample] = []
    ended = asyncio.ensure_future(load.communicate())
    while True:
        done, _ = await asyncio.wait([ended], timeout=SAMPLE_S)
        if done:
            break
        sample = await take_sample(server)
        samples.append(sample)
        progress.step(
            f"{sample.rss_kb / 1024:.1f} MiB, {sample.descriptors} descriptors, "
            f"{sample.connections} connections, {flapper.sessions} sessions"
        )
    stdout, stderr = ended.result()
    if load.returncode:
        raise BenchError(f"{stderr.decode().strip()}\n{server.log_tail()}")
    return samples, parse_report(stdout.decode())


async def _settled(server: RunningServer, before: Sample) -> Sample:
    """Wait until the server has dropped all clients, at most SETTLE_S; gives the last look."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLE_S
    while True:
        sample = await take_sample(server)
        if sample.connections <= before.connections or loop.time() > until:
            return sample
        await asyncio.sleep(0.2)


def _problems(before: Sample, after: Sample, early: float, late: float, flapper: Flapper) -> tuple[str, ...]:
    found: list[str] = []
    if not is_flat(early, late):
        found.append(f"memory grew from {early / 1024:.1f} to {late / 1024:.1f} MiB")
    if after.connections > before.connections:
        found.append(f"{after.connections - before.connections} connections are still counted")
    if after.descriptors > before.descriptors + DESCRIPTOR_TOLERANCE:
        found.append(f"{after.descriptors - before.descriptors} descriptors were not closed")
    if flapper.refused:
        found.append(f"{len(flapper.refused)} sessions failed, the first with {flapper.refused[0]}")
    return tuple(found)


async def _soak(server: RunningServer, minutes: float, seed: int) -> SoakResult:
    before = await take_sample(server)
    flapper = Flapper(server.port, seed)
    progress = Progress(int(minutes * 60 / SAMPLE_S))
    progress.line(
        f"soak of {duration(minutes * 60)}: {PAIRS} pairs at full rate, {CLIENTS} clients, seed {seed}"
    )
    load = await _start_load(server, minutes * 60)
    flapping = asyncio.ensure_future(flapper.run())
    try:
        samples, report = await _watch(server, load, flapper, progress)
    finally:
        flapper.stop()
        if load.returncode is None:
            load.kill()
        await flapping
        progress.close()
    after = await _settled(server, before)
    early, late = memory_fifths([sample.rss_kb for sample in samples])
    return SoakResult(
        minutes=minutes,
        deliveries=int(report["delivered"]),
        rate=report["delivered"] / report["seconds"],
        sessions=flapper.sessions,
        early_kb=early,
        late_kb=late,
        descriptors_before=before.descriptors,
        descriptors_after=after.descriptors,
        connections_before=before.connections,
        connections_after=after.connections,
        problems=_problems(before, after, early, late, flapper),
        samples=tuple(samples),
    )


def run_soak(command: Command, minutes: float, seed: int) -> SoakResult:
    """Run a soak on a fresh server. Raises: BenchError when load or server fail."""
    with running(command) as server:
        return asyncio.run(_soak(server, minutes, seed))
