"""What `commit: disk` costs: a server over a bucket, beside one without; both sync before they confirm.

Here live both servers, their loads and what is asked of the ratios. CPU is counted until the bucket has all,
and told of the loop's thread, too, which alone delays publishers: the others put. Never here: three servers,
`commit: bucket` (`bucket`).
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from bench.bucket_cluster import NO_BUDGET, Node, await_true
from bench.bucket_findings import Finding
from bench.generator import build_generator, run_load
from bench.process import cpu_ns, free_port
from bench.stores import temporary_stores

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from bench.bucket_store import BenchStore
    from bench.stores import Stores

Side = Literal["alone", "disk"]
BAR: Final = 1.10
"""How much dearer and slower a server with a bucket may be."""
PAYLOAD: Final = 128
WINDOWS: Final = (500, 1)
"""Messages on their way of the one publisher."""
_LOOK_AGAIN_S: Final = 0.02
_CONFIG: Final = """
port: {port}
http: "127.0.0.1:{http}"
jetstream {{ store_dir: "{directory}/store", sync_interval: always, {bucket} }}
"""


class DiskResult(NamedTuple):
    """One load at one server: messages a second, the median latency in µs, CPU in µs a message of all threads
    and of the loop's.
    """

    rate: float
    p50_us: float
    cpu_us: float
    loop_us: float


def disk(store: BenchStore, options: argparse.Namespace) -> list[Finding]:
    """Publish to both servers in turn, `--reps` times each load. Raises: BenchError."""
    findings: list[Finding] = []
    with temporary_stores() as stores:
        for window in WINDOWS:
            runs: dict[Side, list[DiskResult]] = {"alone": [], "disk": []}
            for rep in range(options.reps):
                for side in ("alone", "disk") if rep % 2 == 0 else ("disk", "alone"):
                    runs[side].append(_measured(side, stores, store, window, options.seconds))
            alone, with_bucket = (_median(each) for each in runs.values())
            findings += disk_findings(window, alone, with_bucket)
    return findings


def _median(runs: list[DiskResult]) -> DiskResult:
    return DiskResult(*map(statistics.median, zip(*runs, strict=True)))


def disk_findings(window: int, alone: DiskResult, with_bucket: DiskResult) -> list[Finding]:
    """Hold medians of one load against each other."""
    title = f"commit: disk, window of {window}" if window > 1 else "commit: disk, a publisher that waits"
    if window > 1:
        slower = alone.rate / with_bucket.rate
        pace = f"rate {with_bucket.rate / 1e3:,.1f} k/s, without a bucket {alone.rate / 1e3:,.1f}"
    else:
        slower = with_bucket.p50_us / alone.p50_us
        pace = f"p50 {with_bucket.p50_us:,.0f} µs, without a bucket {alone.p50_us:,.0f}"
    cpu = f"CPU {with_bucket.cpu_us:,.2f} µs, without a bucket {alone.cpu_us:,.2f}"
    loop = f"of it the loop's {with_bucket.loop_us:,.2f} µs, without a bucket {alone.loop_us:,.2f}"
    loops = with_bucket.loop_us / alone.loop_us
    return [
        _held(title, pace, slower),
        _held(title, cpu, with_bucket.cpu_us / alone.cpu_us),
        Finding(title, f"{loop}: {loops:.2f}"),
    ]


def _held(title: str, text: str, ratio: float) -> Finding:
    return Finding(title, f"{text}: {ratio:.2f}", f"≤ {BAR:.2f}", ratio <= BAR)


# ---- one run --------------------------------------------------------------------------------


def _measured(side: Side, stores: Stores, store: BenchStore, window: int, seconds: float) -> DiskResult:
    words = [str(build_generator()), "store", "--speak", "jetstream", "--payload", str(PAYLOAD)]
    words += ["--inflight", str(window), "--seconds", str(seconds), "--warmup", "0"]
    with stores.fresh() as home, _running(side, home, store) as node:
        words += ["--port", str(node.port), "--deadline", str(seconds + 30)]
        before = _cpu_us(node)
        report = run_load(words, seconds + 60)
        await_true(lambda: _has_all(node), "the bucket does not catch up", _LOOK_AGAIN_S)
        spent, loop = (now - then for now, then in zip(_cpu_us(node), before, strict=True))
    many = report["published"]
    return DiskResult(many / seconds, report["p50_us"], spent / many, loop / many)


def _cpu_us(node: Node) -> tuple[float, float]:
    """Return the CPU time of a server so far: of the process, and of its first thread, which has the loop."""
    pid = node.process.pid
    spent = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()[0]
    return cpu_ns(pid) / 1e3, int(spent) / 1e3


def _has_all(node: Node) -> bool:
    return not node.bucket().get("lag_bytes")


@contextmanager
def _running(side: Side, home: Path, store: BenchStore) -> Iterator[Node]:
    """Run a server of ours for a block. Raises: BenchError if it does not start."""
    port, http = free_port(), free_port()
    path = home / "server.conf"
    path.write_text(config(side, home, store, port, http), encoding="utf-8")
    node = Node([sys.executable, "-m", "headrace", "serve", "-c", str(path)], port, http, home)
    try:
        node.await_port()
        await_true(lambda: _is_ready(side, node), "the server does not work")
        _await_rest(node)
        yield node
    finally:
        node.stop()


def config(side: Side, home: Path, store: BenchStore, port: int, http: int) -> str:
    """Return the configuration of a server."""
    bucket = store.block(home.name, NO_BUDGET, "disk") if side == "disk" else ""
    return _CONFIG.format(port=port, http=http, directory=home, bucket=bucket)


def _is_ready(side: Side, node: Node) -> bool:
    return node.is_healthy() and (side == "alone" or node.bucket().get("role") == "owner")


def _await_rest(node: Node) -> None:
    """Wait until what a start loads is loaded: it is no part of a result."""
    while True:
        before = _cpu_us(node)[0]
        time.sleep(0.2)
        if _cpu_us(node)[0] - before < 20_000:
            return
