"""One address cannot take all connections without authenticating; who has authenticated does not count."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.options import Options
from headrace.server import admission
from headrace.server.admission import ALWAYS_ADMITTED, SHARE, Admission
from headrace.server.server import Server

FULL = b"-ERR 'maximum connections exceeded'\r\n"


class Waiting(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def session(address: str) -> Any:
    return Waiting(address=address)


@pytest.mark.parametrize("most", [1, 100, 4000, 65536])
def test_one_address_may_have_its_share_and_no_more(most: int) -> None:
    waiting = Admission()
    expected = max(most // SHARE, ALWAYS_ADMITTED)
    admitted = sum(waiting.enter(session("10.0.0.1"), most) for _ in range(expected + 10))
    assert admitted == expected
    assert waiting.enter(session("10.0.0.2"), most)


def test_no_limit_of_connections_is_none_here_either() -> None:
    waiting = Admission()
    assert all(waiting.enter(session("10.0.0.1"), -1) for _ in range(1000))


def test_who_leaves_makes_room_once_and_nothing_is_kept() -> None:
    waiting = Admission()
    sessions = [session("10.0.0.1") for _ in range(ALWAYS_ADMITTED)]
    assert all(waiting.enter(each, 1) for each in sessions)
    refused = session("10.0.0.1")
    assert not waiting.enter(refused, 1)
    waiting.leave(refused)
    for _ in range(2):
        waiting.leave(sessions[0])
    assert waiting.enter(session("10.0.0.1"), 1)
    assert not waiting.enter(session("10.0.0.1"), 1)
    for each in sessions:
        waiting.leave(each)
    assert len(waiting._waiting) == 1
    assert dict(waiting._of_address) == {"10.0.0.1": 1}


@pytest.mark.parametrize("transport", ["epoll", "asyncio"])
def test_crowd_that_does_not_authenticate_leaves_room_for_who_does(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "ALWAYS_ADMITTED", 2)

    async def main() -> list[bytes]:
        options = Options(
            host="127.0.0.1", port=-1, max_connections=12, authorization=AuthorizationOptions(token="t")
        )
        heard = []
        async with Server(options, transport=transport) as server:
            streams = []

            async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
                streams.append(await asyncio.open_connection("127.0.0.1", server.port))
                await streams[-1][0].readline()
                return streams[-1]

            async def authenticate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
                writer.write(b'CONNECT {"verbose":false,"auth_token":"t"}\r\nPING\r\n')
                return await reader.readline()

            crowd = [await connect() for _ in range(3)]  # a quarter of twelve
            refused, _ = await connect()
            heard.append(await refused.read())
            heard.append(await authenticate(*crowd[0]))
            heard.append(await authenticate(*await connect()))
            assert len(server.clients._admission._waiting) == 2
            for _, writer in streams:
                writer.close()
        assert not server.clients._admission._waiting
        return heard

    assert asyncio.run(asyncio.wait_for(main(), 10)) == [FULL, b"PONG\r\n", b"PONG\r\n"]


def test_without_authentication_nobody_waits() -> None:
    async def main() -> None:
        async with Server(Options(host="127.0.0.1", port=-1)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            await reader.readline()
            assert len(server.clients) == 1
            assert not server.clients._admission._waiting
            writer.close()

    asyncio.run(asyncio.wait_for(main(), 10))
