"""Replay and administration over the blocking client, against a real server and a scripted one."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING

import pytest

from headrace.client import stan
from headrace.client.blocking import connect
from headrace.client.errors import (
    ClientTimeoutError,
    ConnectionLostError,
    NoRespondersError,
    StreamingRefusedError,
)
from headrace.client.replay import ReplayBatch, channel_state, replay, replay_columns
from headrace.client.streaming_admin import StreamingAdmin
from headrace.conf.streaming_options import StreamingOptions
from headrace.engine.columns import ColumnsBuilder
from headrace.engine.messages import StoredMessages
from headrace.errors import ProtocolError
from headrace.log.port import StoredMessage
from headrace.protocol import columns
from headrace.protocol.columns import Columns
from headrace.protocol.replay import End
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import ScriptedServer
    from headrace.client.blocking import Connection

CLUSTER = "test"
COUNT = 300


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Channels a.even and a.odd with COUNT messages between them, in turns."""

    async def fill(url: str) -> None:
        async with await stan.connect(CLUSTER, "filler", servers=url) as client:
            for n in range(COUNT):
                await client.publish("a.odd" if n % 2 else "a.even", b"%d" % n)

    with Server(streaming=StreamingOptions(cluster_id=CLUSTER)) as server:
        asyncio.run(fill(server.url))
        yield server


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with connect(server.url) as connection:
        yield connection


def payloads(batches: Iterator[ReplayBatch]) -> list[int]:
    return [int(payload) for batch in batches for payload in batch.payloads]


def test_replay_gives_all_columns(connection: Connection) -> None:
    (batch,) = replay(connection, CLUSTER, "a.even")

    assert len(batch) == COUNT // 2
    assert set(batch.channels) == set(batch.subjects) == {b"a.even"}
    assert batch.sequences == list(range(1, COUNT // 2 + 1))
    assert [int(payload) for payload in batch.payloads] == list(range(0, COUNT, 2))
    assert batch.timestamps == sorted(batch.timestamps)
    assert batch.replies == batch.headers == [None] * len(batch)
    assert batch.damaged == ()


@pytest.mark.parametrize("part_bytes", [1, 1000, 20_000, 1 << 20])
def test_parts_join_to_the_whole(part_bytes: int, connection: Connection) -> None:
    batches = list(replay(connection, CLUSTER, "a.*", part_bytes=part_bytes))

    assert payloads(iter(batches)) == list(range(COUNT))
    assert all(batch for batch in batches)
    ordered = payloads(replay(connection, CLUSTER, "a.*", part_bytes=part_bytes, order="channel"))
    assert ordered == [*range(0, COUNT, 2), *range(1, COUNT, 2)]


def test_span_and_count_bound_a_replay(connection: Connection) -> None:
    (whole,) = replay(connection, CLUSTER, "a.odd")
    assert payloads(replay(connection, CLUSTER, "a.odd", 3, 5)) == [5, 7, 9]
    assert payloads(replay(connection, CLUSTER, "a.odd", 5, 3)) == []
    assert payloads(replay(connection, CLUSTER, "a.odd", COUNT)) == []
    assert payloads(replay(connection, CLUSTER, "a.odd", max_messages=0)) == []
    assert payloads(replay(connection, CLUSTER, "a.odd", max_messages=7, part_bytes=1)) == [*range(1, 14, 2)]
    start, end = whole.timestamps[10], whole.timestamps[12]
    assert payloads(replay(connection, CLUSTER, "a.odd", start_time_ns=start, end_time_ns=end)) == [
        21,
        23,
        25,
    ]


def test_server_answers_in_columns(connection: Connection) -> None:
    found = list(replay_columns(connection, CLUSTER, "a.*", part_bytes=4000))
    assert len(found) > 2
    assert all(isinstance(one, Columns) for one in found)
    numbers = [int(payload) for one in found for payload in one.payloads.texts()]  # type: ignore[union-attr]
    assert numbers == list(range(COUNT))


def test_two_replays_take_turns_on_one_connection(connection: Connection) -> None:
    two = [replay(connection, CLUSTER, f"a.{name}", part_bytes=500) for name in ("even", "odd")]
    found: list[list[int]] = [[], []]
    for pair in zip(*two, strict=False):
        for numbers, batch in zip(found, pair, strict=True):
            numbers += [int(payload) for payload in batch.payloads]
    assert found[0][:100] == list(range(0, 200, 2))
    assert found[1][:100] == list(range(1, 201, 2))


def test_messages_of_others_are_kept_meanwhile(connection: Connection) -> None:
    connection.subscribe("mine")
    connection.publish("mine", b"kept")
    assert payloads(replay(connection, CLUSTER, "a.*")) == list(range(COUNT))
    assert [message.data for message in connection.messages(0)] == [b"kept"]


def test_replay_that_is_left_leaves_nothing_behind(server: Server, connection: Connection) -> None:
    for batch in replay(connection, CLUSTER, "a.*", part_bytes=500):
        assert batch
        break
    connection.flush()
    assert not connection.receive(0)


def test_channel_that_is_not_there_is_refused(connection: Connection) -> None:
    with pytest.raises(StreamingRefusedError, match="No Channels") as caught:
        next(replay(connection, CLUSTER, "b"))
    assert caught.value.code == 404
    assert channel_state(connection, CLUSTER, "b") is None


def test_nobody_of_the_cluster_is_there(connection: Connection) -> None:
    with pytest.raises(NoRespondersError):
        next(replay(connection, "elsewhere", "a.odd"))
    with pytest.raises(NoRespondersError):
        channel_state(connection, "elsewhere", "a.odd")


def test_contradiction_is_refused(connection: Connection) -> None:
    with pytest.raises(ValueError, match="one of"):
        next(replay(connection, CLUSTER, "a.odd", 3, start_time_ns=1))
    with pytest.raises(StreamingRefusedError, match="order"):
        next(replay(connection, CLUSTER, "a.odd", order="size"))


def test_channel_state_tells_incarnations(server: Server, connection: Connection) -> None:
    async def publish() -> None:
        async with await stan.connect(CLUSTER, "me", servers=server.url) as client:
            await client.publish("again", b"1")

    asyncio.run(publish())
    before = channel_state(connection, CLUSTER, "again")
    admin = StreamingAdmin(connection, CLUSTER)
    assert admin.purge("again")[0] == 1
    purged = channel_state(connection, CLUSTER, "again")
    assert admin.delete("again") == (0, 0)
    asyncio.run(publish())
    after = channel_state(connection, CLUSTER, "again")

    assert before is not None
    assert purged is not None
    assert after is not None
    assert (before.first_sequence, before.last_sequence, before.messages) == (1, 1, 1)
    assert (purged.first_sequence, purged.last_sequence, purged.messages) == (2, 1, 0)
    assert purged.created_ns == before.created_ns < after.created_ns
    with pytest.raises(StreamingRefusedError, match="no such channel"):
        admin.delete("nowhere")


# ---- a server that misbehaves ---------------------------------------------------------------------------

Pair = "Callable[..., tuple[Connection, ScriptedServer]]"


def hmsg(block: bytes, payload: bytes = b"") -> bytes:
    return b"HMSG in 1 %d %d\r\n%b%b\r\n" % (len(block), len(block) + len(payload), block, payload)


BLOCK = (
    b"NATS/1.0\r\nNats-Stream: a\r\nNats-Subject: a\r\nNats-Sequence: %d\r\n"
    b"Nats-Time-Stamp: 2026-11-21T08:00:00.000000000Z\r\n\r\n"
)


@pytest.fixture
def scripted(pair: Callable[..., tuple[Connection, ScriptedServer]]) -> tuple[Connection, ScriptedServer]:
    connection, server = pair()
    server.say(b'INFO {"max_payload":10000}\r\n')
    assert not connection.receive(0)
    assert connection.max_payload == 10_000
    return connection, server


def test_silence_is_a_timeout(scripted: tuple[Connection, ScriptedServer]) -> None:
    connection, server = scripted
    server.say(hmsg(BLOCK % 1))
    with pytest.raises(ClientTimeoutError, match="no answer"):
        next(replay(connection, CLUSTER, "a", timeout=0.05))


def test_connection_that_breaks_on_the_way_gives_no_part(
    scripted: tuple[Connection, ScriptedServer],
) -> None:
    connection, server = scripted
    server.say(hmsg(BLOCK % 1))
    server.leave()
    with pytest.raises(ConnectionLostError):
        list(replay(connection, CLUSTER, "a"))


@pytest.mark.parametrize(
    "answer",
    [
        b"MSG in 1 2\r\nhi\r\n",
        hmsg(b"NATS/1.0\r\nA: 1\r\n\r\n"),
        hmsg(b"NATS/1.0 x\r\n\r\n"),
        hmsg(End(204, "EOB", 1, 1, after="nonsense").block()),
    ],
)
def test_nonsense_is_a_protocol_error(answer: bytes, scripted: tuple[Connection, ScriptedServer]) -> None:
    connection, server = scripted
    server.say(answer)
    with pytest.raises(ProtocolError):
        list(replay(connection, CLUSTER, "a"))


def frame(*sequences: int) -> bytes:
    builder = ColumnsBuilder()
    batch = [StoredMessage(n, n, b"a", b"", b"", b"%d" % n) for n in sequences]
    builder.add(StoredMessages(StoredMessage, batch), 0, len(batch), b"a", 1 << 20)
    return hmsg(columns.BLOCK, columns.pack(builder))


def answer_each(server: ScriptedServer, *answers: bytes) -> list[dict[str, object]]:
    """Says one answer after each request; gives the requests, which are added as they come."""
    asked: list[dict[str, object]] = []

    def run() -> None:
        heard = b""
        for answer in answers:
            while heard.count(b"{") == len(asked) or not heard.endswith(b"}\r\n"):
                heard += server.socket.recv(1 << 16)
            asked.append(json.loads(heard[heard.rindex(b"{") :]))
            server.say(answer)

    threading.Thread(target=run, daemon=True).start()
    return asked


def test_older_server_is_asked_once_more_for_single_messages(
    scripted: tuple[Connection, ScriptedServer],
) -> None:
    connection, server = scripted
    asked = answer_each(
        server,
        hmsg(End(400, "Bad Request: format is not known").block()),
        hmsg(BLOCK % 7, b"seven") + hmsg(End(204, "EOB", 1, 7, after="1.1.7.a").block()),
        hmsg(BLOCK % 8, b"eight") + hmsg(End(204, "EOB").block()),
    )
    (one, two) = replay_columns(connection, CLUSTER, "a")
    assert isinstance(one, ReplayBatch)
    assert isinstance(two, ReplayBatch)
    assert (one.sequences, one.payloads) == ([7], [b"seven"])
    assert (two.sequences, two.payloads) == ([8], [b"eight"])
    assert [request.get("format") for request in asked] == ["arrow", None, None]
    assert asked[2]["after"] == "1.1.7.a"


def test_bad_request_is_said_once_it_is_not_the_format(scripted: tuple[Connection, ScriptedServer]) -> None:
    connection, server = scripted
    refusal = hmsg(End(400, "Bad Request: order").block())
    asked = answer_each(server, refusal, refusal)
    with pytest.raises(StreamingRefusedError, match="order"):
        list(replay_columns(connection, CLUSTER, "a"))
    assert len(asked) == 2


def test_damage_stands_with_the_first_columns_of_its_part(
    scripted: tuple[Connection, ScriptedServer],
) -> None:
    connection, server = scripted
    damaged = ((b"a", ((3, 3),)),)
    server.say(frame(1, 2) + frame(4) + hmsg(End(204, "EOB", damaged=damaged).block()))
    one, two = replay_columns(connection, CLUSTER, "a")
    assert (len(one), one.damaged, len(two), two.damaged) == (2, damaged, 1, ())


@pytest.mark.parametrize(
    "answer",
    [
        hmsg(columns.BLOCK, b"nonsense"),
        hmsg(columns.BLOCK),
        frame(1)[:-40] + b"\0" * 38 + b"\r\n",
        frame(1) + hmsg(BLOCK % 2),
    ],
)
def test_columns_that_are_none_are_a_protocol_error(
    answer: bytes, scripted: tuple[Connection, ScriptedServer]
) -> None:
    connection, server = scripted
    server.say(answer + hmsg(End(204, "EOB").block()))
    with pytest.raises(ProtocolError):
        list(replay_columns(connection, CLUSTER, "a"))


def test_part_with_damage_and_no_message_is_a_batch(scripted: tuple[Connection, ScriptedServer]) -> None:
    connection, server = scripted
    server.say(hmsg(End(204, "EOB", damaged=((b"a", ((1, 3),)),)).block()))
    (batch,) = replay(connection, CLUSTER, "a")
    assert (len(batch), batch.damaged) == (0, ((b"a", ((1, 3),)),))


@pytest.mark.parametrize(
    "answer",
    [{}, {"channels": 3, "total": 1}, {"channels": [{}], "total": 1}, {"channels": [], "total": "x"},
     {"channels": [{"name": "\ud800"}], "total": 1}, {"error": "no"}, {"error": {"code": "x"}}],
)  # fmt: skip
def test_admin_answer_that_is_none_is_a_protocol_error(
    answer: object, scripted: tuple[Connection, ScriptedServer]
) -> None:
    connection, server = scripted
    payload = json.dumps(answer).encode()
    server.say(b"MSG in 1 %d\r\n%b\r\n" % (len(payload), payload))
    with pytest.raises(ProtocolError):
        StreamingAdmin(connection, CLUSTER).channels()
