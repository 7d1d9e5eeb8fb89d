"""Clients of a shard: they publish with ids until they are told that it is durable, change keys by
compare-and-set, read, and consume. What each is told goes into the ledger.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.linearizable import ANY, NEVER, Read, Write
from simulation.bucket.server import NOT_OWNER, WRONG_LAST

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from harness.virtual_loop import VirtualLoop
    from simulation.bucket.ledger import Ledger
    from simulation.bucket.network import Network
    from simulation.bucket.server import Server


class Scene(Protocol):
    """What clients see of the run."""

    loop: VirtualLoop
    network: Network
    ledger: Ledger
    chance: Random
    servers: list[Server]
    is_over: bool
    """True: no client begins anything new."""


class Client:
    """Finds the owner by asking one server after the other."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.name: Final = name
        self.scene: Final = scene
        self._at = scene.chance.randrange(len(scene.servers))

    async def _ask(self, request: Callable[[Server], Callable[..., None]], *args: Any) -> Any:
        """Return the answer of the server that was asked last; None: nobody knows what became of it."""
        server = self.scene.servers[self._at]
        answer = await self.scene.network.ask(server, request(server), *args)
        if answer is None or answer is NOT_OWNER:
            self._at = (self._at + 1) % len(self.scene.servers)
            await asyncio.sleep(self.scene.chance.uniform(0.05, 0.3))
        return answer

    async def _think(self) -> None:
        await asyncio.sleep(self.scene.chance.expovariate(1) * self.scene.chance.choice((0.01, 0.2, 2)))


class Publisher(Client):
    """Publishes `count` records, one after the other, each until it was acknowledged."""

    def __init__(self, scene: Scene, name: str, count: int, keys: tuple[str, ...]) -> None:
        super().__init__(scene, name)
        self._count: Final = count
        self._keys: Final = keys

    async def run(self) -> None:
        for number in range(self._count):
            identity = f"{self.name}-{number:02}"
            await self._publish(identity, self.scene.chance.choice(self._keys))
            await self._think()

    async def _publish(self, identity: str, key: str) -> None:
        invoked = self.scene.loop.time()
        while True:
            answer = await self._ask(lambda server: server.publish, identity, key, identity, None)
            if isinstance(answer, int):
                break
        self.scene.ledger.acknowledge(answer, identity, identity)
        self.scene.ledger.did(key, invoked, self.scene.loop.time(), Write(identity, ANY, True))


class Counter(Client):
    """Reads keys and changes them, `count` times, on condition that nobody else did meanwhile."""

    def __init__(self, scene: Scene, name: str, count: int, keys: tuple[str, ...]) -> None:
        super().__init__(scene, name)
        self._count: Final = count
        self._keys: Final = keys

    async def run(self) -> None:
        for number in range(self._count):
            key = self.scene.chance.choice(self._keys)
            sequence, value = await self._read(key)
            if self.scene.chance.random() < 0.8:
                await self._change(key, f"{self.name}-{number:02}", sequence, value)
            await self._think()

    async def _read(self, key: str) -> tuple[int, str | None]:
        while True:
            invoked = self.scene.loop.time()
            answer = await self._ask(lambda server: server.read, key)
            if not isinstance(answer, tuple) or answer is NOT_OWNER:
                continue
            record = answer[0]
            sequence, value = (0, None) if record is None else (record.sequence, record.value)
            if record is not None:
                self.scene.ledger.note(record.sequence, record.identity, record.value)
            self.scene.ledger.did(key, invoked, self.scene.loop.time(), Read(value))
            return sequence, value

    async def _change(self, key: str, identity: str, sequence: int, expected: str | None) -> None:
        scene = self.scene
        invoked = scene.loop.time()
        while (
            answer := await self._ask(lambda server: server.publish, identity, key, identity, sequence)
        ) is NOT_OWNER:
            continue
        returned = scene.loop.time()
        if answer is None:
            scene.ledger.did(key, invoked, NEVER, Write(identity, expected, None))
        elif answer is WRONG_LAST:
            scene.ledger.did(key, invoked, returned, Write(identity, expected, False))
        else:
            scene.ledger.acknowledge(answer, identity, identity)
            scene.ledger.did(key, invoked, returned, Write(identity, expected, True))


class Consumer(Client):
    """Is given all records in order, until it has everything that was acknowledged."""

    async def run(self) -> None:
        got = 0
        ledger = self.scene.ledger
        while not self.scene.is_over or got < max(ledger.seen, default=0):
            records = await self._ask(lambda server: server.page, got + 1)
            if isinstance(records, list):
                for record in records:
                    ledger.note(record.sequence, record.identity, record.value)
                    got = record.sequence
            await self._think()
