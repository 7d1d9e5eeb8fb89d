"""The lame duck mode: clients are told, then closed one after the other, so that they do not all come to the
next server at once.

Here lives the pace. Never lives here: closing itself (`server`), signals (`app`).
Source: client protocol specification, section 9; pace and log lines compared with the Go server 2.15.1.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, Final, Protocol

from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from headrace.server.reauthorization import ClientsServer
    from headrace.server.session import ClientSession

    class _Server(ClientsServer, Protocol):
        @property
        def stopped(self) -> asyncio.Event: ...


LONGEST_PAUSE: Final = 1.0
"""Seconds between two clients at most: few of them do not take the whole time."""

SHORTEST_PAUSE: Final = 0.001
"""Seconds. Where clients are too many for it, several go at once."""


class Sleep(Protocol):
    """The function that waits for so many seconds."""

    async def __call__(self, seconds: float, /) -> object: ...


async def leave(server: _Server, sleep: Sleep | None = None) -> None:
    """Tell the clients, wait for the grace period, close them spread over the rest of the time.

    Without clients it returns at once, and when the server is stopped meanwhile. The caller closes the
    listener before and stops the server afterwards. `sleep`: what waits, in tests.
    """
    options = server.options

    async def wait(seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(server.stopped.wait(), seconds)

    sleep = sleep or wait
    server.clients.tell()
    if not server.clients:
        return
    await sleep(options.lame_duck_grace_period)
    clients = list(server.clients)
    server.log.info("Closing existing clients")
    await _close(server, clients, options.lame_duck_duration - options.lame_duck_grace_period, sleep)


async def _close(server: _Server, clients: list[ClientSession], seconds: float, sleep: Sleep) -> None:
    """Close the clients, spread over so many seconds, with no pause after one that has left by itself."""
    longest, at_once = pace(len(clients), seconds)
    closed = 0
    for session in clients:
        if session.is_closed:
            continue
        if closed and closed % at_once == 0:
            await sleep(random.uniform(longest / 2, longest))
            if session.is_closed:
                continue
        session.end(CloseReason.SERVER_SHUTDOWN)
        closed += 1


def pace(clients: int, seconds: float) -> tuple[float, int]:
    """The longest pause between two groups of clients, in seconds (the shortest is half of it), and how many
    go at once, so that all are gone after `seconds`."""
    if clients == 0 or seconds <= 0:
        return 0.0, max(clients, 1)
    pause = seconds / clients
    if pause >= SHORTEST_PAUSE:
        return min(pause, LONGEST_PAUSE), 1
    return SHORTEST_PAUSE, ceil(clients * SHORTEST_PAUSE / seconds)
