"""Request and reply."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from harness.nats_py import settle
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from clients.conftest import Clients
    from harness.processes import ServerProcess


async def test_request_is_answered(server: ServerProcess, connect: Clients) -> None:
    service, client = await connect(server), await connect(server)

    async def double(message: Msg) -> None:
        await message.respond(message.data * 2)

    await service.subscribe("double", cb=double)
    await settle(service)

    answer = await client.request("double", b"ab", timeout=PATIENCE, headers={"Trace": "7"})

    assert answer.data == b"abab"


async def test_old_style_request_is_answered(server: ServerProcess, connect: Clients) -> None:
    client = await connect(server)

    async def echo(message: Msg) -> None:
        await message.respond(message.data)

    await client.subscribe("echo", cb=echo)

    assert (await client.request("echo", b"x", timeout=PATIENCE, old_style=True)).data == b"x"


async def test_many_concurrent_requests_get_their_own_answers(
    server: ServerProcess, connect: Clients
) -> None:
    client = await connect(server)
    for _ in range(3):
        service = await connect(server)

        async def echo(message: Msg) -> None:
            await message.respond(b"re:" + message.data)

        await service.subscribe("svc", queue="servers", cb=echo)
        await settle(service)

    answers = await asyncio.gather(*(client.request("svc", b"%d" % n, timeout=10) for n in range(500)))

    assert [answer.data for answer in answers] == [b"re:%d" % n for n in range(500)]


async def test_request_without_responder_fails_at_once(server: ServerProcess, connect: Clients) -> None:
    client = await connect(server)

    with pytest.raises(NoRespondersError):
        await client.request("nobody.is.here", b"", timeout=20)


async def test_request_to_a_silent_service_times_out(server: ServerProcess, connect: Clients) -> None:
    client = await connect(server)
    await client.subscribe("silence")

    with pytest.raises(NatsTimeoutError):
        await client.request("silence", b"", timeout=0.05)


async def test_request_with_custom_inbox_prefix_is_answered(server: ServerProcess, connect: Clients) -> None:
    client = await connect(server, inbox_prefix="_MINE.private")

    async def tell_reply(message: Msg) -> None:
        await message.respond(message.reply.encode())

    await client.subscribe("where", cb=tell_reply)

    assert (await client.request("where", b"", timeout=PATIENCE)).data.startswith(b"_MINE.private.")
