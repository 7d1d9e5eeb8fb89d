"""The wires between the servers of a cluster, which can be cut: one proxy for each server that dials another.

All run on one event loop of a thread of their own. What is under way in a proxy is at most one read of 64 KiB
in each direction.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from headrace.background import LoopThread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_AT_ONCE: Final = 1 << 16


class _Link:
    """The wire by which one server dials another one, at `port`."""

    def __init__(self, target: int) -> None:
        self._target: Final = target
        self._passing: Final = asyncio.Event()
        self._passing.set()
        self._refusing = False
        self._open: Final[set[asyncio.StreamWriter]] = set()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self.port = 0

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, limit=_AT_ONCE)
        self.port = int(self._server.sockets[0].getsockname()[1])

    def refuse(self) -> None:
        """Cut with a sign: connections end, new ones too."""
        self._refusing = True
        for writer in self._open:
            writer.transport.abort()

    def hold(self) -> None:
        """Cut without a sign: connections stay, and nothing arrives any more."""
        self._passing.clear()

    def mend(self) -> None:
        self._refusing = False
        self._passing.set()

    async def close(self) -> None:
        self._server.close()
        self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        try:
            if not self._refusing:
                await self._passing.wait()
                with suppress(OSError):
                    await self._join(reader, writer)
        finally:
            writer.transport.abort()
            self._open.discard(writer)
            self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=_AT_ONCE)
        self._open.add(far_writer)
        pumps = [
            asyncio.create_task(self._pump(reader, far_writer)),
            asyncio.create_task(self._pump(far_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            far_writer.transport.abort()
            self._open.discard(far_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_AT_ONCE):
            await self._passing.wait()
            writer.write(data)
            await writer.drain()


class RouteLinks:
    """Wires between servers, known by their numbers, whose route ports are `ports`."""

    def __init__(self, loop: LoopThread, ports: Sequence[int]) -> None:
        self._loop: Final = loop
        self._ports: Final = tuple(ports)
        self._links: dict[tuple[int, int], _Link] = {}

    async def _listen(self) -> None:
        for near in range(len(self._ports)):
            for far, port in enumerate(self._ports):
                if near != far:
                    link = self._links[near, far] = _Link(port)
                    await link.listen()

    async def _close(self) -> None:
        for link in self._links.values():
            await link.close()

    def ports_for(self, number: int) -> list[int]:
        """Return the ports at which a server finds the others."""
        return [link.port for (near, _), link in self._links.items() if near == number]

    def cut(self, number: int, *, silently: bool) -> None:
        """Cut a server off from the others; silently: nobody is told."""

        async def cut() -> None:
            for ends, link in self._links.items():
                if number in ends:
                    if silently:
                        link.hold()
                    else:
                        link.refuse()

        self._loop.run(cut())

    def mend(self) -> None:
        """Mend all wires."""

        async def mend() -> None:
            for link in self._links.values():
                link.mend()

        self._loop.run(mend())


@contextmanager
def route_links(ports: Sequence[int]) -> Iterator[RouteLinks]:
    """Run the wires between servers with these route ports for a block."""
    with LoopThread("route-links") as loop:
        links = RouteLinks(loop, ports)
        loop.run(links._listen())
        try:
            yield links
        finally:
            loop.run(links._close())
