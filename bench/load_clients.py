"""The rates of `headrace bench` beside nats-py, on the same server, in turn; how busy that makes the server.

Here live the workloads in nats-py, their counterparts as loads, and the table of both. A workload is measured
with both clients before the next one begins, so that a busy machine slows both. Never here: the loads.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from bench.errors import BenchError
from bench.process import Command, cpu_ns, default_peer, default_server, running
from bench.progress import Progress
from headrace.load.options import LoadOptions, Scenario
from headrace.load.running import run_load

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from bench.process import RunningServer

RESULTS: Final = Path(__file__).parent / "results" / "local"
WANTED: Final = 3.0
"""How many times the rate of nats-py a load has to reach."""

_HEADRACE: Final = str(Path(sys.executable).parent / "headrace")
_SUBJECT: Final = "bench.load"
_STREAM: Final = "BENCH_LOAD"
_WINDOW: Final = 100
_BODY: Final = bytes(128)


class Workload(NamedTuple):
    """A workload: how nats-py does it, and the same as a load; `messages` of a run."""

    title: str
    python: Callable[[Any, int], Awaitable[float]]
    load: LoadOptions
    messages: int
    responds: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench load` takes."""
    parser.add_argument("--reps", type=int, default=5, help="runs of each client, in turn")
    parser.add_argument("--scale", type=float, default=1.0, help="of the messages of a run")
    parser.add_argument("--only", help="workloads whose title has this in it")


def run_clients(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure both servers, print the table, write the result file. Exit code 3 where a load is too slow."""
    chosen = [each for each in WORKLOADS if options.only is None or options.only in each.title]
    if not chosen:
        raise BenchError(f"no workload has {options.only!r} in its title")
    found: dict[str, dict[str, dict[str, float]]] = {}
    progress = Progress(2 * len(chosen) * options.reps)
    try:
        for side, template in (("headrace", default_server()), ("nats-server", default_peer())):
            found[side] = {}
            with tempfile.TemporaryDirectory() as folder:
                command = Command(f"{template} -js -sd {folder}")
                with running(command) as server:
                    for workload in chosen:
                        count = max(int(workload.messages * options.scale), 1000)
                        found[side][workload.title] = _compared(
                            server, workload, count, options.reps, progress
                        )
    finally:
        progress.close()
    print(table(found))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "load.json").write_text(
        json.dumps({**origin, "load": found}, indent=1) + "\n", encoding="utf-8"
    )
    return 0 if all(each["ratio"] >= WANTED for side in found.values() for each in side.values()) else 3


def table(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return ratios of medians as Markdown.

    A server that needs more processor time than the clients of a load is what limits them, where each has a
    processor.
    """
    lines = [
        "| server | workload | times nats-py | processor time of the server, by the load's |",
        "|---|---|---|---|",
    ]
    for side, workloads in found.items():
        for title, each in workloads.items():
            lines.append(f"| {side} | {title} | {each['ratio']:.1f} | {each['server_by_load']:.1f} |")
    return "\n".join(lines)


def _compared(
    server: RunningServer, workload: Workload, count: int, reps: int, progress: Progress
) -> dict[str, float]:
    url = f"nats://127.0.0.1:{server.port}"
    python, compiled, costs = [], [], []
    for _ in range(reps):
        with _responder(url, workload.responds):
            seconds = asyncio.run(_in_python(url, workload, count))
        python.append(count / seconds)
        before, spent = cpu_ns(server.pid), _children_cpu_ns()
        compiled.append(_rate(url, workload, count))
        costs.append((cpu_ns(server.pid) - before) / (_children_cpu_ns() - spent))
        progress.step(workload.title)
    return {
        "python": median(python),
        "load": median(compiled),
        "ratio": median(compiled) / median(python),
        "server_by_load": median(costs),
    }


def _rate(url: str, workload: Workload, count: int) -> float:
    """Run the load; return messages a second. Raises: BenchError."""
    report = run_load(replace(workload.load, messages=count), url)
    if report.failure is not None or report.total.errors:
        reason = report.failure.text if report.failure else next(iter(report.total.errors))
        raise BenchError(f"{workload.title}: {reason}")
    return report.total.messages_per_second


def _children_cpu_ns() -> int:
    """The processor time of this process's children that have ended, in ns."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((spent.ru_utime + spent.ru_stime) * 1e9)


@contextmanager
def _responder(url: str, is_needed: bool) -> Iterator[None]:
    """Answer requests from a process of its own for a block."""
    if not is_needed:
        yield
        return
    words = [_HEADRACE, "bench", "serve", _SUBJECT, "-s", url, "--no-progress", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


# ---- the workloads in nats-py ---------------------------------------------------------------


async def _in_python(url: str, workload: Workload, count: int) -> float:
    import nats

    connection = await nats.connect(url, pending_size=64 << 20)
    try:
        return await workload.python(connection, count)
    finally:
        await connection.close()


async def _publish(connection: Any, count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        await connection.publish(_SUBJECT, _BODY)
    await connection.flush()
    return time.perf_counter() - began


async def _subscribe(connection: Any, count: int) -> float:
    done = asyncio.Event()
    seen = 0
    began = 0.0

    async def take(_message: Any) -> None:
        nonlocal seen, began
        if not seen:
            began = time.perf_counter()
        seen += 1
        if seen == count:
            done.set()

    await connection.subscribe(_SUBJECT, cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await connection.flush()
    url = connection.connected_url.geturl()
    words = (_HEADRACE, "bench", "pub", _SUBJECT, "--msgs", str(count), "--json", "--no-progress", "-s", url)
    feeder = await asyncio.create_subprocess_exec(
        *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    await done.wait()
    ended = time.perf_counter()
    await feeder.wait()
    return ended - began


async def _request(connection: Any, count: int) -> float:
    deadline = time.perf_counter() + 30
    while True:  # the responder is another process
        try:
            await connection.request(_SUBJECT, _BODY, timeout=1)
            break
        except Exception as error:
            if time.perf_counter() > deadline:
                raise BenchError(f"nobody answers: {error}") from error
            await asyncio.sleep(0.05)
    return await _many(lambda _: connection.request(_SUBJECT, _BODY, timeout=30), count, _WINDOW)


async def _many(one: Callable[[int], Awaitable[Any]], count: int, window: int) -> float:
    """Do `one` so many times, `window` at once; return the seconds."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await one(number)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(window)))
    return time.perf_counter() - began


async def _js_publish(connection: Any, count: int) -> float:
    async with _stream(connection) as stream:
        began = time.perf_counter()
        for _ in range(count):
            await stream.publish_async(_SUBJECT, _BODY)
        await stream.publish_async_completed()
        return time.perf_counter() - began


async def _js_fetch(connection: Any, count: int) -> float:
    async with _stream(connection) as stream:
        for _ in range(count):
            await stream.publish_async(_SUBJECT, _BODY)
        await stream.publish_async_completed()
        reader = await stream.pull_subscribe(_SUBJECT, stream=_STREAM)
        seen = 0
        began = time.perf_counter()
        while seen < count:
            for message in await reader.fetch(500):
                await message.ack()
                seen += 1
        await connection.flush()
        return time.perf_counter() - began


async def _kv_put(connection: Any, count: int) -> float:
    async with _bucket(connection) as bucket:
        return await _many(lambda number: bucket.put(f"key-{number % 1000}", _BODY), count, _WINDOW)


async def _kv_get(connection: Any, count: int) -> float:
    async with _bucket(connection) as bucket:
        await _many(lambda number: bucket.put(f"key-{number}", _BODY), 1000, _WINDOW)
        return await _many(lambda number: bucket.get(f"key-{number % 1000}"), count, _WINDOW)


def _stream(connection: Any) -> Any:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def made() -> AsyncIterator[Any]:
        stream = connection.jetstream(publish_async_max_pending=500)
        await stream.add_stream(name=_STREAM, subjects=[_SUBJECT], storage="memory")
        try:
            yield stream
        finally:
            await stream.delete_stream(_STREAM)

    return made()


def _bucket(connection: Any) -> Any:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def made() -> AsyncIterator[Any]:
        stream = connection.jetstream()
        bucket = await stream.create_key_value(bucket=_STREAM, direct=True, storage="memory")
        try:
            yield bucket
        finally:
            await stream.delete_key_value(_STREAM)

    return made()


_CORE: Final = LoadOptions(scenario=Scenario.SUB, subject=_SUBJECT, partners=1)
_STORED: Final = LoadOptions(
    scenario=Scenario.JS_PUB, stream=_STREAM, bucket=_STREAM, subject=_SUBJECT, create=True, storage="memory"
)
"""In memory: clients are compared, not disks."""
_KEYS: Final = replace(_STORED, batch=_WINDOW)

WORKLOADS: Final = (
    Workload("publish, 128 B", _publish, replace(_CORE, scenario=Scenario.PUB), 1_000_000),
    Workload("subscribe, 128 B", _subscribe, _CORE, 200_000),
    Workload(
        "requests, window of 100",
        _request,
        replace(_CORE, scenario=Scenario.REQUEST, batch=_WINDOW),
        50_000,
        responds=True,
    ),
    Workload("stream: publish, window of 500", _js_publish, _STORED, 50_000),
    Workload(
        "stream: fetch 500, acknowledged", _js_fetch, replace(_STORED, scenario=Scenario.JS_FETCH), 50_000
    ),
    Workload("key-value: put, window of 100", _kv_put, replace(_KEYS, scenario=Scenario.KV_PUT), 20_000),
    Workload("key-value: get, window of 100", _kv_get, replace(_KEYS, scenario=Scenario.KV_GET), 20_000),
)
