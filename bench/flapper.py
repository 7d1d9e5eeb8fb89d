"""Clients that come and go at random, for the soak: every way a connection can end.

Each client subscribes, publishes to the others, reads a while and leaves: politely, with a reset,
in the middle of a frame, without a word after CONNECT, or by a protocol error. A seed makes the
run repeatable. It measures nothing.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct

CLIENTS = 100
SUBJECTS = 200
LIFE_S_MAX = 1.0
_CONNECT = b'CONNECT {"verbose":false,"name":"flapper","headers":true,"no_responders":true}\r\nPING\r\n'
_RESET = struct.pack("ii", 1, 0)


class Flapper:
    """Keeps CLIENTS short-lived connections busy until stopped; counts the sessions."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._random = random.Random(seed)
        self._stopping = False
        self.sessions = 0
        self.refused: list[str] = []
        """Sessions that failed in a way no client asked for: the soak reports them."""

    def stop(self) -> None:
        self._stopping = True

    async def run(self) -> None:
        """Run all clients until `stop`; returns when the last one has left."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._client())

    async def _client(self) -> None:
        while not self._stopping:
            try:
                await self._session()
            except OSError as error:
                self.refused.append(repr(error))
                await asyncio.sleep(0.1)
            self.sessions += 1

    async def _session(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            if not (await reader.readline()).startswith(b"INFO "):
                raise OSError("the server did not greet with INFO")
            ending = self._random.choice(("polite", "reset", "torn", "silent", "wrong"))
            writer.write(_CONNECT)
            if ending != "silent":
                await self._talk(reader, writer)
            self._leave(writer, ending)
        finally:
            writer.close()
            try:
                await writer.wait_closed()
            except ConnectionError:
                # A reset by either side is one of the endings wanted here.
                pass

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        draw = self._random
        for sid in range(1, draw.randint(2, 11)):
            tail = draw.choice((b".>", b".*", b".x", b""))
            queue = draw.choice((b"", b" workers"))
            writer.write(b"SUB flap.%d%s%s %d\r\n" % (draw.randrange(SUBJECTS), tail, queue, sid))
        until = asyncio.get_running_loop().time() + draw.random() * LIFE_S_MAX
        while asyncio.get_running_loop().time() < until and not self._stopping:
            body = b"x" * draw.choice((0, 1, 16, 128, 2000))
            for _ in range(draw.randint(1, 20)):
                writer.write(b"PUB flap.%d.x %d\r\n%s\r\n" % (draw.randrange(SUBJECTS), len(body), body))
            if draw.random() < 0.3:
                writer.write(b"UNSUB %d %d\r\n" % (draw.randint(1, 20), draw.randint(0, 3)))
            try:
                data = await asyncio.wait_for(reader.read(65536), 0.05)
            except TimeoutError:
                continue
            if not data:
                raise OSError("the server closed a well-behaved connection")
            if b"\r\nPING\r\n" in data or data.startswith(b"PING\r\n"):
                writer.write(b"PONG\r\n")

    def _leave(self, writer: asyncio.StreamWriter, ending: str) -> None:
        if ending == "torn":
            writer.write(b"PUB flap.1.x 1000\r\nhalf a payl")
        elif ending == "wrong":
            writer.write(b"NONSENSE\r\n")
        elif ending == "reset":
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
