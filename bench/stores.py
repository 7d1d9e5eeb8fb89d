"""Directories of stored streams: empty ones, and ones that are filled once and read many times.

All of them live below one temporary directory on the disk of the project, never in memory, and are gone
at the end of a run. Channels of NATS Streaming are written by the log itself, streams by publishing to them.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.generator import build_generator, run_load
from bench.machine import ROOT
from bench.process import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.cases import Fill
    from bench.process import Command
    from bench.sides import Side

PARENT = ROOT / "build" / "bench"
STREAM = "bench"
"""The channel and the stream of every case, as in the generator."""
_BATCH = 5000
_PROBES = 21
_FILL_LIMIT_S = 600.0


class Stores:
    """The directories of one run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._filled: dict[tuple[Side, Fill], Path] = {}

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        """Give an empty directory for a block."""
        with tempfile.TemporaryDirectory(dir=self._directory) as name:
            yield Path(name)

    def filled(self, side: Side, fill: Fill, command: Command) -> Path:
        """Give a directory with these messages, which a stopped server of that side has left.

        It is made when first asked for. Raises: BenchError.
        """
        path = self._filled.get((side, fill))
        if path is None:
            path = Path(tempfile.mkdtemp(dir=self._directory))
            if side == "streaming":
                fill_log(path, fill)
            else:
                fill_by_publishing(path, fill, command)
            settle(path)
            self._filled[side, fill] = path
        return path


@contextmanager
def temporary_stores() -> Iterator[Stores]:
    """Give the stores of a run, and remove them at its end."""
    PARENT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stores-", dir=PARENT) as name:
        yield Stores(Path(name))


def settle(directory: Path) -> None:
    """Have everything written to disk now, not beside the first measurement."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file)


def probe_fsync(directory: Path) -> float:
    """Give the median time in µs of appending 4 KiB to a file of this directory and forcing them to disk."""
    times = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(_PROBES):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file)
            times.append((time.perf_counter() - start) * 1e6)
    return median(times)


def payload(size: int) -> bytes:
    """Give the payload that the generator sends and expects."""
    return bytes(ord("a") + i % 26 for i in range(size))


def fill_log(directory: Path, fill: Fill) -> None:
    """Append the messages to the log of a channel, as the streaming service would find it."""
    from headrace.log.port import NewMessage
    from headrace.log.store import FileStore

    store = FileStore(directory)
    try:
        log = store.open(STREAM.encode())
        message = NewMessage(STREAM.encode(), payload(fill.payload))
        for done in range(0, fill.messages, _BATCH):
            log.append([message] * min(_BATCH, fill.messages - done))
    finally:
        store.close()


def fill_by_publishing(directory: Path, fill: Fill, command: Command) -> None:
    """Publish the messages with a large window to a server that is stopped then. Raises: BenchError."""
    words = [str(build_generator()), "store", "--speak", "jetstream", "--payload", str(fill.payload)]
    words += ["--count", str(fill.messages), "--inflight", "4000", "--warmup", "0"]
    words += ["--seconds", str(_FILL_LIMIT_S), "--deadline", str(_FILL_LIMIT_S)]
    with running(command, directory=directory) as server:
        run_load([*words, "--port", str(server.port)], _FILL_LIMIT_S)
