"""All clients of a run at once, and waiting for them: whoever waits in vain is told what each does.

Never here: what happens to servers meanwhile (`play`), what one client does (`clients`).
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

import nats

from harness.waiting import PATIENCE
from process.bucket_rounds.clients import CONSUMER, STREAM, Consumer, KeyWriter, LoadClient, Publisher
from process.bucket_rounds.cluster import SERVERS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from process.bucket_rounds.cluster import Cluster
    from process.bucket_rounds.promises import Promises

T = TypeVar("T")

WHOLE_AGAIN_S: Final = 2 * PATIENCE
"""Seconds within which each client has to get through when servers are whole again."""
PUBLISHERS: Final = 6
WRITERS: Final = 3
KEYS: Final = 2
"""Keys that are new in each round; as many stay for `KEPT_ROUNDS` rounds."""
KEPT_ROUNDS: Final = 5
_AGAIN_S: Final = 0.05


class Stuck(AssertionError):
    """Something did not come to its end in time."""


class Load:
    """The clients of a cluster. `chance`: the source of everything that they draw."""

    def __init__(self, cluster: Cluster, promises: Promises, chance: Random) -> None:
        self._cluster: Final = cluster
        self._promises: Final = promises
        self._chance: Final = chance
        self._publishers: Final = [self._client(Publisher, f"p{number}") for number in range(PUBLISHERS)]
        self._writers: Final = [
            *(self._client(KeyWriter, f"w{number}") for number in range(WRITERS)),
            *(self._client(KeyWriter, f"stays{number}", stays_at=number) for number in range(SERVERS)),
        ]
        self._consumer: Final = self._client(Consumer, "c0")
        self._clients: Final[list[LoadClient]] = [*self._publishers, *self._writers, self._consumer]
        self._tasks: Final[list[asyncio.Task[None]]] = []

    def _client(self, kind: Callable[..., T], name: str, **options: Any) -> T:
        return kind(name, self._cluster.urls, self._promises, Random(self._chance.random()), **options)

    def start(self) -> None:
        """Have all clients begin."""
        self._tasks.extend(asyncio.create_task(client.run(), name=client.name) for client in self._clients)

    async def stop(self) -> None:
        """Have all clients end at once, wherever they are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def set_keys(self, number: int) -> None:
        """Have the writers of keys take those of a round."""
        lasting = [f"lasting-{number // KEPT_ROUNDS}-{at}" for at in range(KEYS)]
        fresh = [f"round-{number}-{at}" for at in range(KEYS)]
        for writer in self._writers:
            writer.keys = [*lasting, *fresh]

    async def told(self) -> str:
        """Return what everybody does, for people."""
        servers = await asyncio.to_thread(self._cluster.told)
        folder = self._cluster.write_logs()
        return "\n".join([*map(str, self._clients), servers, f"the whole logs are in {folder}"])

    # -- waiting

    async def go_on(self, seconds: float) -> None:
        """Let the clients work for so long. Raises: what one of them raised."""
        done, _ = await asyncio.wait(self._tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        await self._check(done)

    async def within(self, what: str, wanted: Coroutine[Any, Any, T]) -> T:
        """Wait for something, unless a client finds a promise broken before.

        Raises: Stuck when the time is over; what a client raised.
        """
        waiting = asyncio.create_task(wanted)
        end = time.monotonic() + WHOLE_AGAIN_S
        try:
            while True:
                at_work = [task for task in self._tasks if not task.done()]
                done, _ = await asyncio.wait(
                    [waiting, *at_work], timeout=end - time.monotonic(), return_when=asyncio.FIRST_COMPLETED
                )
                await self._check(set(self._tasks) & done)
                if waiting.done():
                    return waiting.result()
                if not done:
                    raise Stuck(f"{what}: not within {WHOLE_AGAIN_S:g} s\n{await self.told()}")
        finally:
            waiting.cancel()

    async def _check(self, ended: set[asyncio.Task[None]]) -> None:
        for task in ended:
            if (error := task.exception()) is not None:
                error.add_note(await self.told())
                raise error

    async def all_work(self, since: float) -> None:
        """Wait until each client was answered what it asked for after a time."""
        await _until(lambda: all(client.worked_at >= since for client in self._clients))

    async def finish(self) -> None:
        """Have all clients end when everything that they began is done. Raises: Stuck; what one raised."""
        for client in (*self._publishers, *self._writers):
            client.is_over = True
        begun = self._tasks[:-1]
        await self.within("publishers end", _until(lambda: all(task.done() for task in begun)))
        await self.within("everything is delivered", self._all_delivered())
        self._consumer.is_over = True
        await self.within("the consumer ends", _until(self._tasks[-1].done))

    async def _all_delivered(self) -> None:
        """Wait until everything was delivered, and each acknowledgement has arrived.

        Confirmations may be lost: then a message does not come again, and nobody was told.
        """
        wanted = set(self._promises.stored.values())
        await _until(lambda: wanted <= self._promises.delivered)
        async with await nats.connect(self._cluster.urls) as client:
            js = client.jetstream(timeout=PATIENCE)
            while True:
                info = await js.consumer_info(STREAM, CONSUMER)
                if not info.num_pending and not info.num_ack_pending:
                    return
                await asyncio.sleep(_AGAIN_S)


async def _until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true; whoever asks has a limit of time."""
    while not condition():  # noqa: ASYNC110  # no event of one client says it of all
        await asyncio.sleep(_AGAIN_S)
