"""Thousands of connections pictured without holding up the messages.

Here lives the pause between pictures. Never lives here: what is in one (`source`), how it is shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.server.monitor.source import ConnectionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.server.monitor.source import (
        AccountSnapshot,
        ConnectionSnapshot,
        HealthSnapshot,
        MonitorSource,
        ServerSnapshot,
        SublistSnapshot,
    )

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


async def gathered(source: MonitorSource) -> Gathered:
    """The source with its open connections pictured in steps, other work of the loop in between."""
    connections: list[ConnectionSnapshot] = []
    for number, connection in enumerate(source.connections(ConnectionState.OPEN), 1):
        connections.append(connection)
        if number % CONNECTIONS_PER_STEP == 0:
            await asyncio.sleep(0)
    return Gathered(source, connections)
