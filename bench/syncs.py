"""What one fdatasync of a growing file costs, by what was at the place that is written.

Here live four files beside each other, written and synced in turn, their result file and their table in
docs/durability.md: why the log writes zeros ahead of its records (docs/adr/0023). Never here: the log itself.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.errors import BenchError
from bench.progress import Progress
from bench.section import Section
from bench.storage import PAGE
from headrace.log.segments import LARGEST_STEP

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

SIZES: Final = (192, 2_000, 12_000, 44_000, 128_000)
WAYS: Final = {
    "end": "at the end of the file",
    "promised": "into room of `posix_fallocate`",
    "zeros": "over zeros, their writing included",
    "ready": "over zeros that were durable before",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench sync` takes."""
    parser.add_argument("--writes", type=int, default=300, help="of each size, each way, each repetition")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--directory", help="where the files are made (default: the temporary directory)")
    parser.add_argument("--name", help="result file below bench/results/local; the page is left alone")


def run_sync(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result file, fill the page; the files are removed. Raises: BenchError."""
    if not hasattr(os, "posix_fallocate"):
        raise BenchError("this system has no posix_fallocate to compare with")
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=options.directory))
    progress = Progress(len(SIZES))
    found: dict[str, dict[str, Any]] = {}
    try:
        for size in SIZES:
            runs: dict[str, list[list[float]]] = {way: [] for way in WAYS}
            for _ in range(options.reps):
                for way, times in runs.items():
                    times.append(_times(home / "file", way, size, options.writes))
            found[str(size)] = {way: _summary(times) for way, times in runs.items()}
            progress.step(f"{size:,} B")
    finally:
        progress.close()
        shutil.rmtree(home)
    SECTION.publish({**origin, "sizes": found}, options.name)
    return 0


# ---- one file -------------------------------------------------------------------------------


def _times(path: Path, way: str, size: int, count: int) -> list[float]:
    """Seconds of each write with its sync."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        prepare = _preparing(handle, way, size * count)
        return [_timed(handle, prepare, size, place * size) for place in range(count)]
    finally:
        os.close(handle)
        path.unlink()


def _timed(handle: int, prepare: Callable[[int], object], size: int, offset: int) -> float:
    data = os.urandom(size)
    began = time.perf_counter()
    prepare(offset + size)
    os.pwrite(handle, data, offset)
    os.fdatasync(handle)
    return time.perf_counter() - began


def _preparing(handle: int, way: str, total: int) -> Callable[[int], object]:
    """What is done before a write up to some offset."""
    room = 0

    def step(end: int) -> None:
        nonlocal room
        while room < end:
            if way == "promised":
                os.posix_fallocate(handle, room, LARGEST_STEP)
            else:
                os.pwrite(handle, bytes(LARGEST_STEP), room)
            room += LARGEST_STEP

    if way == "ready":
        step(total)
        os.fsync(handle)
    return (lambda _end: None) if way == "end" else step


def _summary(runs: list[list[float]]) -> dict[str, float]:
    """Medians over the repetitions, in µs."""
    return {
        "mean": statistics.median(statistics.fmean(times) for times in runs) * 1e6,
        "p50": statistics.median(statistics.median(times) for times in runs) * 1e6,
        "p99": statistics.median(statistics.quantiles(times, n=100)[98] for times in runs) * 1e6,
    }


# ---- words ----------------------------------------------------------------------------------


def sync_text(result: dict[str, Any]) -> str:
    """Give the figures of a result file as Markdown."""
    machine = result["machine"]
    rows = [
        f"Measured on {result['created']} with `{result['command']}`: {machine['cpu']}, "
        f"{machine['cores']} cores, Python {result['python']}; µs, mean / p50 / p99:",
        "",
        "| bytes | " + " | ".join(WAYS.values()) + " |",
        "|---|" + "---|" * len(WAYS),
    ]
    for size, found in result["sizes"].items():
        cells = (" / ".join(f"{found[way][key]:,.0f}" for key in ("mean", "p50", "p99")) for way in WAYS)
        rows.append(f"| {int(size):,} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


SECTION: Final = Section("sync", PAGE, sync_text)
