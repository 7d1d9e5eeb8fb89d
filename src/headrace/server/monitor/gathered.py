"""Long listings made without holding up the messages.

Here live the pauses between snapshots of connections, and between the steps of a document. Never lives here:
what is in one (`source`), how it is shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar, cast

from headrace.server.monitor.source import ConnectionState

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from headrace.server.monitor.bucket import BucketStats
    from headrace.server.monitor.jetstream import JetStreamStats
    from headrace.server.monitor.source import (
        AccountSnapshot,
        ConnectionSnapshot,
        HealthSnapshot,
        MonitorSource,
        ServerSnapshot,
        SublistSnapshot,
    )

_T = TypeVar("_T")

LONG_LISTING: Final = 64
"""Entries of a listing above which its JSON is made in a thread; below, the thread would cost more."""

CONNECTIONS_PER_STEP: Final = 20
"""Snapshots of connections that are taken before the event loop gets its turn: about 100 µs."""


class GatheredSource:
    """A source that has the snapshots of its open connections already."""

    def __init__(self, source: MonitorSource, connections: list[ConnectionSnapshot]) -> None:
        self._source = source
        self._open = connections

    def server(self) -> ServerSnapshot:
        return self._source.server()

    def connections(self, state: ConnectionState) -> Iterable[ConnectionSnapshot]:
        if state is not ConnectionState.CLOSED:
            yield from self._open
        if state is not ConnectionState.OPEN:
            yield from self._source.connections(ConnectionState.CLOSED)

    def subscriptions(self, account: str | None = None) -> SublistSnapshot:
        return self._source.subscriptions(account)

    def accounts(self) -> Sequence[AccountSnapshot]:
        return self._source.accounts()

    def health(self) -> HealthSnapshot:
        return self._source.health()

    def jetstream(self) -> JetStreamStats | None:
        return self._source.jetstream()

    def buckets(self) -> Mapping[str, BucketStats]:
        return self._source.buckets()


async def gathered(
    source: MonitorSource, chosen: Iterable[ConnectionSnapshot] | None = None
) -> GatheredSource:
    """The source with its open connections, or only those chosen, as snapshots taken in steps: others work in
    between."""
    connections: list[ConnectionSnapshot] = []
    if chosen is None:
        chosen = source.connections(ConnectionState.OPEN)
    for number, connection in enumerate(chosen, 1):
        connections.append(connection)
        if number % CONNECTIONS_PER_STEP == 0:
            await asyncio.sleep(0)
    return GatheredSource(source, connections)


async def in_steps(steps: Generator[None, None, _T]) -> _T:
    """Run a generator and return its result; other tasks run between its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("_T", end.value)
        await asyncio.sleep(0)


def at_once(steps: Generator[None, None, _T]) -> _T:
    """Run a generator at once and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("_T", end.value)


def is_long(document: Mapping[str, object]) -> bool:
    """True if writing a document would hold up other tasks, because of a list in it, or in the entries of
    one.
    """
    return any(isinstance(value, list) and _entries(value) > LONG_LISTING for value in document.values())


def _entries(listing: list[object]) -> int:
    inner = (each.values() for each in listing[:LONG_LISTING] if isinstance(each, dict))
    return len(listing) + sum(len(value) for values in inner for value in values if isinstance(value, list))
