"""Running pipelines in the tests' Spark session, and what is published for them to read."""

from __future__ import annotations

import asyncio
import io
import json
import re
import threading
from typing import TYPE_CHECKING, Any

import nats
import pyarrow.parquet as pq
from rich.console import Console

from headrace.client import stan
from headrace.pipelines.display import RunDisplay
from headrace.pipelines.reading import read_spec
from headrace.pipelines.running import RunOptions, run_pipeline
from headrace.pipelines.starters import starter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.testing import Server


def publish(url: str, stream: str, payloads: Iterable[bytes]) -> None:
    """Store messages in a stream, whose subject is its name in lower case."""

    async def work() -> None:
        async with await nats.connect(url) as connection:
            streams = connection.jetstream()
            await streams.add_stream(name=stream, subjects=[stream.lower()])
            sent = [await streams.publish_async(stream.lower(), payload) for payload in payloads]
            await asyncio.gather(*sent)

    asyncio.run(work())


def publish_to_channel(server: Server, channel: str, payloads: Iterable[bytes]) -> None:
    async def work() -> None:
        async with await stan.connect("test-cluster", "publisher", servers=server.url) as client:
            for payload in payloads:
                last = await client.publish_async(channel, payload)
            await last

    asyncio.run(work())


def run(
    text: str, folder: Path, spark: SparkSession, parameters: Mapping[str, str] | None = None, **options: Any
) -> tuple[bool, str]:
    """Run a specification; whether it was good, and what was shown."""
    out = io.StringIO()
    spec = read_spec(text, folder / "spec.yaml", parameters)
    display = RunDisplay(Console(file=out, width=200))
    good = run_pipeline(spec, RunOptions(**options), display, threading.Event(), spark=spark)
    return good, out.getvalue()


def rows(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    table = pq.read_table(folder).select(columns).to_pydict()
    return sorted(zip(*table.values(), strict=True))


def run_starter(
    name: str, folder: Path, spark: SparkSession, parameters: Mapping[str, str], *,
    change: Mapping[str, str] | None = None, sink: str | None = None,
) -> str:  # fmt: skip
    """Run a ready-made pipeline to the end of what is there; `sink` stands for its sink, but for `from`.

    Gives what was shown.
    """
    text = starter(name).text
    if "${trigger}" in text:
        parameters = {"trigger": "once", **parameters}
    for old, new in (change or {}).items():
        assert old in text
        text = text.replace(old, new)
    if sink is not None:
        text = re.sub(
            r"(^sinks:\n  \w+:\n    from: \w+\n).*", rf"\1    {sink}", text, flags=re.DOTALL | re.MULTILINE
        )
    good, shown = run(text, folder, spark, parameters)
    assert good, shown
    return shown


BODIES = (
    *(b'{"key": "a", "amount": 2}', b'{"key": "b", "amount": 1}', b'{"key": "a", "amount": 3}'),
    *(b"{}", b"no json"),
)


def totals(results: Iterable[bytes | str]) -> dict[str, tuple[int, float]]:
    """Messages and amount by key; over all minutes, since a test may run over the end of one."""
    found: dict[str, tuple[int, float]] = {}
    for one in map(json.loads, results):
        messages, amount = found.get(one["key"], (0, 0.0))
        found[one["key"]] = (messages + one["messages"], amount + one["amount"])
    return found


SECONDS = {"delay: 30s": "delay: 0s", "'1 minute'": "'1 second'"}


def publish_in_two_windows(server: Server) -> None:
    """So that the first windows are closed by the time of the last message, of key z."""
    publish(server.url, "ORDERS", BODIES)
    server.advance(seconds=2.1)  # the server's clock, which stamps messages, has to reach another window
    publish(server.url, "ORDERS", [b'{"key": "z", "amount": 1}'])
