"""`Client.replay` of the STAN client, against the streaming service over real sockets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from nats.aio.client import Client as NatsClient

from headrace.client import stan
from headrace.client.errors import NoRespondersError, StreamingRefusedError
from headrace.client.stan import replaying
from headrace.conf.streaming_options import StreamingOptions
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SECONDS = 20.0
COUNT = 200


def run(scenario: Callable[[Server, stan.Client], Awaitable[None]]) -> None:
    """A scenario with a server that has COUNT messages in a.even and a.odd, in turns."""

    async def main() -> None:
        async with (
            asyncio.timeout(SECONDS),
            Server(streaming=StreamingOptions(cluster_id="test")) as server,
            await stan.connect("test", "me", servers=server.url) as client,
        ):
            for n in range(COUNT):
                await client.publish("a.odd" if n % 2 else "a.even", b"%d" % n)
            await scenario(server, client)

    asyncio.run(main())


async def numbers(replay: stan.Replay) -> list[int]:
    return [int(message.data) async for message in replay]


@pytest.mark.parametrize("part_bytes", [1, 2000, 1 << 20])
def test_replay_gives_what_is_stored(part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "PART_BYTES", part_bytes)

    async def scenario(_server: Server, client: stan.Client) -> None:
        replay = client.replay("a.*")
        messages = [message async for message in replay]
        assert [int(message.data) for message in messages] == list(range(COUNT))
        assert {message.channel for message in messages} == {"a.even", "a.odd"}
        assert [message.sequence for message in messages[:4]] == [1, 1, 2, 2]
        assert [message.timestamp for message in messages] == sorted(m.timestamp for m in messages)
        assert replay.damaged == {}
        assert await numbers(replay) == list(range(COUNT)), "it can be gone over again"
        assert await numbers(client.replay("a.*", max_messages=5)) == [0, 1, 2, 3, 4]
        assert await numbers(client.replay("a.odd", start_sequence=3, end_sequence=5)) == [5, 7, 9]
        assert await numbers(client.replay("a.odd", order="channel", start_sequence=COUNT)) == []
        start = datetime.fromtimestamp(messages[100].timestamp // 1000 / 1e6, UTC)
        since = await numbers(client.replay("a.*", start_time=start))
        assert since == list(range(since[0], COUNT))
        assert 90 < since[0] <= 100
        assert await numbers(client.replay("a.*", time_delta=timedelta(hours=1))) == list(range(COUNT))
        assert await numbers(client.replay("a.*", end_time=datetime(2020, 1, 1, tzinfo=UTC))) == []

    run(scenario)


def test_replay_can_be_left_and_refused() -> None:
    async def scenario(server: Server, client: stan.Client) -> None:
        subscriptions = len(client.nats._subs)
        iteration = aiter(client.replay("a.*"))
        assert int((await anext(iteration)).data) == 0
        await iteration.aclose()  # type: ignore[attr-defined]
        assert len(client.nats._subs) == subscriptions
        with pytest.raises(StreamingRefusedError, match="No Channels"):
            await numbers(client.replay("nowhere.>"))
        for wrong in (
            {"start_sequence": 1, "time_delta": timedelta(1)},
            {"order": "size"},
            {"start_time": datetime(2020, 1, 1)},
            {"end_sequence": 0},
            {"max_messages": 0},
        ):
            with pytest.raises(ValueError, match=r"one of|order|zone|begin with 1"):
                client.replay("a.odd", **wrong)  # type: ignore[arg-type]
        client.cluster_id = "elsewhere"
        with pytest.raises(NoRespondersError):
            await numbers(client.replay("a.odd"))

    run(scenario)


def test_silent_server_is_a_timeout() -> None:
    async def scenario(server: Server, client: stan.Client) -> None:
        await client.nats.subscribe("_STAN.replay.silent")
        client.cluster_id = "silent"
        with pytest.raises(stan.StanTimeoutError, match="replay request timeout"):
            await numbers(client.replay("a.odd", timeout=0.05))

    run(scenario)


def test_part_with_a_reconnect_in_it_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was under way when the connection broke is lost: nobody may take the rest for the whole."""
    monkeypatch.setattr(replaying, "PART_BYTES", 500)

    async def scenario(_server: Server, client: stan.Client) -> None:
        taken = 0
        real = replaying._Run._next

        async def lossy(self: replaying._Run) -> object:
            nonlocal taken
            message = await real(self)
            taken += 1
            if taken % 37 == 36:  # this message is lost
                self._nats.stats["reconnects"] += 1
            return await real(self) if taken % 37 == 36 else message

        monkeypatch.setattr(replaying._Run, "_next", lossy)
        assert isinstance(client.nats, NatsClient)
        assert await numbers(client.replay("a.*")) == list(range(COUNT))
        assert taken > COUNT

    run(scenario)


def test_closed_client_does_not_replay() -> None:
    async def scenario(_server: Server, client: stan.Client) -> None:
        replay = client.replay("a.odd")
        await client.close()
        with pytest.raises(stan.StanClosedError):
            await numbers(replay)
        with pytest.raises(stan.StanClosedError):
            client.replay("a.odd")

    run(scenario)
