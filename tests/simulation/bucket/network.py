"""The network between clients and servers, and between servers: messages take time, come out of order, and
get lost where it is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from simulation.bucket.store import NOBODY

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from random import Random

    from harness.virtual_loop import Process, VirtualLoop

PATIENCE_S: Final = 1.5
"""Seconds for which a client waits for an answer."""


class Host(Protocol):
    """A server as the network sees it. Its process is another one after a restart."""

    process: Process
    is_isolated: bool


class Network:
    """Delays are drawn anew for each message."""

    def __init__(self, loop: VirtualLoop, chance: Random) -> None:
        self._loop: Final = loop
        self._chance: Final = chance

    def send(self, host: Host, function: Callable[..., object], *args: Any) -> None:
        """Call a function as the server's process, if the message gets there."""
        if not host.is_isolated and host.process.is_alive:
            host.process.call(self._loop.call_later, self._delay(), function, *args)

    def send_badly(self, host: Host, function: Callable[..., object], *args: Any) -> None:
        """Call a function as the server's process, perhaps twice, seconds late, or not at all."""
        for _ in range(self._chance.choice((0, 1, 1, 1, 1, 2))):
            if not host.is_isolated and host.process.is_alive:
                late = self._chance.choice((0.0, 0.0, 0.0, 0.01, 0.3, 5.0)) * self._chance.random()
                host.process.call(self._loop.call_later, self._delay() + late, function, *args)

    async def ask(self, host: Host, function: Callable[..., object], *args: Any) -> Any:
        """Send a request and wait; None: there was no answer, and what became of it is not known.

        `function` gets the arguments, and first what it is to call with the answer.
        """
        loop = self._loop
        answer: asyncio.Future[Any] = loop.create_future()

        def settle(outcome: object) -> None:
            if not answer.done():
                answer.set_result(outcome)

        def reply(outcome: object) -> None:
            if not host.is_isolated:
                loop.call_later(self._delay(), settle, outcome, context=NOBODY)

        self.send(host, function, reply, *args)
        patience = PATIENCE_S if host.process.is_alive else self._delay()
        timer = loop.call_later(patience, settle, None, context=NOBODY)
        outcome = await answer
        timer.cancel()
        return outcome

    def _delay(self) -> float:
        chance = self._chance.random()
        return 0.0002 + (chance * 0.001 if chance < 0.95 else chance * 0.1)
