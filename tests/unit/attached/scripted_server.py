"""A NATS server that says what a test tells it, and a service that keeps what it is given."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from headrace.core.service import Delivery, Host

PATIENCE = 5.0


@dataclass
class Peer:
    """One accepted connection; past the handshake unless the test does it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def line(self) -> bytes:
        return (await asyncio.wait_for(self.reader.readline(), PATIENCE)).rstrip()

    async def lines(self, count: int) -> list[bytes]:
        return [await self.line() for _ in range(count)]

    async def until(self, start: bytes) -> bytes:
        while not (line := await self.line()).startswith(start):
            assert line or not self.reader.at_eof(), f"the connection ended before {start!r}"
        return line

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def ended(self) -> None:
        """Returns when the other side has closed; what it wrote before is dropped."""
        try:
            while await asyncio.wait_for(self.reader.read(65536), PATIENCE):
                pass
        except ConnectionError:
            return


@dataclass
class ScriptedServer:
    info: dict[str, object] = field(default_factory=dict)
    greets: bool = True
    accepts: bool = True
    """Whether PING is answered during the handshake."""
    peers: asyncio.Queue[Peer] = field(default_factory=asyncio.Queue)
    connects: list[dict[str, object]] = field(default_factory=list)

    async def __aenter__(self) -> ScriptedServer:
        await self.listen(0)
        return self

    async def listen(self, port: int) -> None:
        self._all: list[Peer] = []
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", port)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        self._server.close()
        for peer in self._all:
            peer.writer.close()
        await asyncio.sleep(0)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def peer(self) -> Peer:
        return await asyncio.wait_for(self.peers.get(), PATIENCE)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self._all.append(peer)
        if self.greets:
            info = {"server_id": "S", "max_payload": 1024, "headers": True} | self.info
            peer.say(b"INFO " + json.dumps(info).encode() + b"\r\n")
            if self.accepts:
                self.connects.append(json.loads((await peer.until(b"CONNECT"))[8:]))
                await peer.until(b"PING")
                peer.say(b"PONG\r\n")
        self.peers.put_nowait(peer)


class Keeper:
    """A service that subscribes as it is told and keeps its batches."""

    def __init__(self, *subjects: bytes) -> None:
        self.subjects = subjects
        self.batches: list[list[Delivery]] = []
        self.is_stopped = False
        self.on_batch: Callable[[], object] = lambda: None

    def start(self, host: Host) -> None:
        self.host = host
        self.sids = [host.subscribe(subject) for subject in self.subjects]

    def deliver(self, batch: Sequence[Delivery]) -> None:
        self.batches.append(list(batch))
        self.on_batch()

    def stop(self) -> None:
        self.is_stopped = True


def scenario(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Runs a coroutine test, with a limit."""

    def run() -> None:
        async def limited() -> None:
            async with asyncio.timeout(20):
                await test()

        asyncio.run(limited())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def until(condition: Callable[[], object]) -> None:
    """Returns when it is true; the scenario has the limit."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.002)
