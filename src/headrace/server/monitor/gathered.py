"""Thousands of connections pictured without holding up the messages.

Here lives the pause between pictures. Never lives here: what is in one (`source`), how it is shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.server.monitor.source import ConnectionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.server.monitor.jetstream import JetStreamFigures
    from headrace.server.monitor.source import (
        AccountSnapshot,
        ConnectionSnapshot,
        HealthSnapshot,
        MonitorSource,
        ServerSnapshot,
        SublistSnapshot,
    )

LONG_LISTING: Final = 64
"""Entries of a listing above which its JSON is made in a thread; below, the thread would cost more."""

CONNECTIONS_PER_STEP: Final = 20
"""Connections pictured before the event loop gets its turn: about 100 µs."""


class Gathered:
    """A source whose open connections have been pictured already."""

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

    def jetstream(self) -> JetStreamFigures | None:
        return self._source.jetstream()


async def gathered(source: MonitorSource, chosen: Iterable[ConnectionSnapshot] | None = None) -> Gathered:
    """The source with its open connections, or only those chosen, pictured in steps: others work in
    between."""
    connections: list[ConnectionSnapshot] = []
    if chosen is None:
        chosen = source.connections(ConnectionState.OPEN)
    for number, connection in enumerate(chosen, 1):
        connections.append(connection)
        if number % CONNECTIONS_PER_STEP == 0:
            await asyncio.sleep(0)
    return Gathered(source, connections)


def is_long(document: Mapping[str, object]) -> bool:
    """Whether writing a document out would hold up others."""
    return any(isinstance(value, list) and len(value) > LONG_LISTING for value in document.values())
