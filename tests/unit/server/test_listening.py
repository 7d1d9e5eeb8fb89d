"""A client port that was bound ahead of the server's start."""

from __future__ import annotations

import asyncio
import socket

import pytest

from headrace import Options, Server
from headrace.conf.options import StreamingOptions
from headrace.conf.remote import NATSServerOptions
from headrace.errors import StartError
from headrace.server.listener import listen

OPTIONS = Options(host="127.0.0.1", port=-1)


@pytest.mark.parametrize("transport", ["epoll", "asyncio"])
def test_who_connected_before_the_start_is_served_after_it(transport: str) -> None:
    async def main() -> bytes:
        listening = listen("127.0.0.1", -1)
        port: int = listening.getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with Server(OPTIONS, transport=transport, listening=listening) as server:
            assert server.port == port
            line = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        return line

    assert asyncio.run(main()).startswith(b"INFO {")


def test_a_server_that_does_not_start_gives_the_port_back() -> None:
    async def main() -> None:
        listening = listen("127.0.0.1", -1)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            options = Options(host="127.0.0.1", port=-1, http_port=taken.getsockname()[1])
            with pytest.raises(StartError, match="monitor port"):
                await Server(options, listening=listening).start()
        assert listening.fileno() == -1

    asyncio.run(main())


def test_a_server_that_was_never_started_gives_it_back_too() -> None:
    async def main() -> None:
        listening = listen("127.0.0.1", -1)
        await Server(OPTIONS, listening=listening).stop()
        assert listening.fileno() == -1

    asyncio.run(main())


def test_a_server_that_streaming_is_not_to_use_does_not_start() -> None:
    async def main() -> None:
        streaming = StreamingOptions(nats_server=NATSServerOptions("nats://elsewhere:4222"))
        server = Server(Options(host="127.0.0.1", port=-1, streaming=streaming), services=[Idle()])
        with pytest.raises(StartError, match="a NATS server elsewhere, not this one"):
            await server.start()
        await server.stop()

    asyncio.run(main())


class Idle:
    """A service that does nothing."""

    def start(self, host: object) -> None:
        raise AssertionError("it is not to be started")

    def deliver(self, batch: object) -> None: ...

    def stop(self) -> None: ...
