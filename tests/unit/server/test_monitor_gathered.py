"""Picturing many connections lets the event loop have its turns, and loses none."""

from __future__ import annotations

import asyncio

from monitor_samples import SampleSource, connection

from headrace.server.monitor.gathered import CONNECTIONS_PER_STEP, gathered
from headrace.server.monitor.source import ConnectionState


def test_gathered_many_connections_pauses_between_steps() -> None:
    source = SampleSource(open=tuple(connection(cid) for cid in range(1, 10 * CONNECTIONS_PER_STEP + 1)))
    turns = 0

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> list[int]:
        task = asyncio.create_task(other_work())
        found = await gathered(source)
        task.cancel()
        return [c.cid for c in found.connections(ConnectionState.OPEN)]

    assert asyncio.run(run()) == list(range(1, 10 * CONNECTIONS_PER_STEP + 1))
    assert turns >= 9


def test_gathered_any_state_adds_closed_connections() -> None:
    source = SampleSource(open=(connection(1),), closed=(connection(2),))

    async def run() -> list[int]:
        found = await gathered(source)
        return [c.cid for c in found.connections(ConnectionState.ANY)]

    assert asyncio.run(run()) == [1, 2]
