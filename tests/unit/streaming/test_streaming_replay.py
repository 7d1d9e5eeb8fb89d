"""Replays of stored channels over plain NATS: which messages, in which order, how fast, what is said last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from stan_harness import SECOND, START_NS, HeldCommitter, World

from headrace.errors import StorageError
from headrace.log.port import NewMessage
from headrace.log.store import FileStore, MemoryStore
from headrace.protocol.columns import BLOCK, Columns
from headrace.protocol.replay import BlockReader, End, ReplayedMessage, is_end
from headrace.protocol.stan import PubMsg
from headrace.streaming import replaying, spans

if TYPE_CHECKING:
    from pathlib import Path

SUBJECT = b"_STAN.replay.test-cluster"


class Reader:
    """One replay: what was asked for, and what came."""

    form = ""

    def __init__(self, world: World, **request: Any) -> None:
        self.world = world
        self.inbox = world.name("replay")
        payload = request.pop("raw", None)
        if self.form:
            request["format"] = self.form
        world.send(SUBJECT, json.dumps(request).encode() if payload is None else payload, self.inbox)
        world.settle()

    def came(self) -> tuple[list[tuple[ReplayedMessage, bytes]], End | None]:
        reader, found, end = BlockReader(), [], None
        for subject, block, payload in self.world.host.headed:
            if subject != self.inbox:
                continue
            assert end is None, "something came after the end"
            if is_end(block):
                end = End.read(block)
            elif block == BLOCK:
                assert len(block) + len(payload) <= max(self.world.host.max_payload, 10_000)
                found += listed(Columns.read(payload))
            else:
                found.append((reader.read(block), payload))
        return found, end

    def run(self) -> tuple[list[tuple[bytes, int]], End]:
        """(channel, sequence) of all messages, and the end."""
        self.world.advance(1)
        found, end = self.came()
        assert end is not None
        return [(one.channel, one.sequence) for one, _ in found], end


def listed(columns: Columns) -> list[tuple[ReplayedMessage, bytes]]:
    assert len(columns)
    parts = [columns.streams.texts(), columns.subjects.texts(), columns.sequences, columns.times]
    parts += [columns.replies.values(), columns.headers.values()]
    found = [ReplayedMessage(*row) for row in zip(*parts, strict=True)]
    return list(zip(found, columns.payloads.texts(), strict=True))


@pytest.fixture(params=["", "arrow"], ids=["messages", "columns"], autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both forms of an answer; tests of what only one of them has name it."""
    monkeypatch.setattr(Reader, "form", request.param)
    return str(request.param)


messages_only = pytest.mark.parametrize("form", [""], indirect=True)
columns_only = pytest.mark.parametrize("form", ["arrow"], indirect=True)


def replayed(world: World, **request: Any) -> list[tuple[bytes, int]]:
    found, end = Reader(world, **request).run()
    assert end.code == 204
    assert end.pending == 0
    return found


def in_parts(world: World, **request: Any) -> tuple[list[tuple[bytes, int]], int]:
    """All messages of a replay that is asked for again until nothing is pending, and how often it was."""
    found: list[tuple[bytes, int]] = []
    for part in range(1, 100):
        some, end = Reader(world, **request).run()
        assert end.code == 204
        found += some
        if not end.pending:
            return found, part
        request["after"] = end.after
    raise AssertionError("it does not end")


@pytest.fixture
def world() -> World:
    """orders.eu has 1 to 4, stored at seconds 0, 2, 4, 6 after the start; orders.us 1 to 3 at 1, 3, 5."""
    world = World()
    world.connect()
    for second in range(7):
        channel = b"orders.us" if second % 2 else b"orders.eu"
        world.publish(channel, b"%b at %d" % (channel, second))
        world.advance(1)
    return world


EU = [(b"orders.eu", n) for n in (1, 2, 3, 4)]
US = [(b"orders.us", n) for n in (1, 2, 3)]
MERGED = [EU[0], US[0], EU[1], US[1], EU[2], US[2], EU[3]]


def at(second: float) -> str:
    from headrace.protocol.rfc3339 import format_time

    return format_time(START_NS + round(second * SECOND))


# ---- what is replayed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, EU),
        ({"start_sequence": 0}, EU),
        ({"start_sequence": 3}, EU[2:]),
        ({"start_sequence": 5}, []),
        ({"start_sequence": 99}, []),
        ({"end_sequence": 2}, EU[:2]),
        ({"start_sequence": 2, "end_sequence": 3}, EU[1:3]),
        ({"start_sequence": 3, "end_sequence": 2}, []),
        ({"start_time": at(2)}, EU[1:]),
        ({"start_time": at(2.5)}, EU[2:]),
        ({"start_time": at(99)}, []),
        ({"start_time": "1950-01-01T00:00:00Z"}, EU),
        ({"end_time": at(4)}, EU[:3]),
        ({"end_time": at(3.9)}, EU[:2]),
        ({"end_time": "1950-01-01T00:00:00Z"}, []),
        ({"start_time_delta": "3s"}, EU[2:]),
        ({"start_time_delta": "1000h"}, EU),
        ({"start_time_delta": "0s"}, []),
        ({"last_only": True}, EU[3:]),
        ({"last_only": True, "end_sequence": 2}, EU[1:2]),
        ({"last_only": True, "end_time": at(5)}, EU[2:3]),
        ({"last_only": True, "start_sequence": 5}, []),
        ({"order": "time"}, EU),
    ],
)
def test_span_of_one_channel(
    request_: dict[str, Any], expected: list[tuple[bytes, int]], world: World
) -> None:
    assert replayed(world, channel="orders.eu", **request_) == expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"channel": "orders.*"}, MERGED),
        ({"channel": ">", "order": "time"}, MERGED),
        ({"channel": "orders.>", "order": "channel"}, EU + US),
        ({"channel": "*.us"}, US),
        ({"channel": "orders.*", "start_sequence": 3}, [EU[2], US[2], EU[3]]),
        ({"channel": "orders.*", "start_time": at(2.5)}, MERGED[3:]),
        ({"channel": "orders.*", "end_time": at(3)}, MERGED[:4]),
        ({"channel": "orders.*", "last_only": True}, [US[2], EU[3]]),
        ({"channel": "orders.*", "last_only": True, "order": "channel"}, [EU[3], US[2]]),
        ({"channel": "orders.*", "end_sequence": 1}, MERGED[:2]),
    ],
)
def test_wildcards_replay_several_channels(
    request_: dict[str, Any], expected: list[tuple[bytes, int]], world: World
) -> None:
    assert replayed(world, **request_) == expected


@messages_only
def test_message_carries_what_direct_get_says(world: World) -> None:
    world.advance(0.123456789)
    world.send(
        b"_STAN.pub.test-cluster.orders.eu",
        PubMsg(b"me", b"g", b"orders.eu", reply=b"answer.here", data=b"\x00body\r\n").encode(),
    )
    world.settle()
    reader = Reader(world, channel="orders.eu", start_sequence=5)
    reader.run()
    (_, block, payload), end = [one for one in world.host.headed if one[0] == reader.inbox]

    assert block == (
        b"NATS/1.0\r\nNats-Stream: orders.eu\r\nNats-Subject: orders.eu\r\nNats-Sequence: 5\r\n"
        b"Nats-Time-Stamp: 2023-11-14T22:13:27.123456789Z\r\nNats-Reply: answer.here\r\n\r\n"
    )
    assert payload == b"\x00body\r\n"
    assert end[1].startswith(
        b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 5\r\nNats-UpTo-Sequence: 5\r\n"
    )
    assert end[2] == b""


@messages_only
def test_reply_that_would_break_the_headers_is_left_out(world: World) -> None:
    world.send(
        b"_STAN.pub.test-cluster.orders.eu",
        PubMsg(b"me", b"g", b"orders.eu", reply=b"x\r\nNats-Sequence: 9", data=b"").encode(),
    )
    world.settle()
    reader = Reader(world, channel="orders.eu", start_sequence=5)
    world.advance(1)
    ((message, _),), _ = reader.came()

    assert (message.sequence, message.reply) == (5, None)


def test_stored_headers_follow(world: World) -> None:
    stored = b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n"
    world.store.open(b"headed").append([NewMessage(b"headed", b"body", headers=stored)])
    world.restart()
    reader = Reader(world, channel="headed")
    world.advance(1)
    ((message, payload),), _ = reader.came()

    assert (message.headers, payload) == (stored, b"body")


def test_what_comes_later_does_not_belong_to_it(world: World) -> None:
    inbox = Reader(world, channel="orders.eu")
    world.publish(b"orders.eu", b"too late")

    assert inbox.run()[0] == EU


def test_what_came_before_in_the_same_tick_belongs_to_it(world: World) -> None:
    world.send(b"_STAN.pub.test-cluster.orders.eu", PubMsg(b"me", b"g", b"orders.eu", data=b"now").encode())

    assert replayed(world, channel="orders.eu", start_sequence=5) == [(b"orders.eu", 5)]


def test_what_is_not_durable_yet_is_not_replayed() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    committer.commit()
    world.host.receive(b"_STAN.discover.test-cluster", b"")
    log = world.tenure.channels.get_or_create(b"a").log
    log.append([NewMessage(b"a", b"not synced")])

    assert replayed(world, channel="a") == []


def test_empty_and_purged_channels_have_an_end_too(world: World) -> None:
    log = world.store.open(b"orders.eu")
    log.purge(up_to=3)
    assert replayed(world, channel="orders.eu") == EU[2:]
    assert replayed(world, channel="orders.*") == [US[0], US[1], EU[2], US[2], EU[3]]
    log.purge()
    assert replayed(world, channel="orders.eu") == []
    assert replayed(world, channel="orders.eu", last_only=True) == []


# ---- parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"channel": "orders.eu"}, EU),
        ({"channel": "orders.*"}, MERGED),
        ({"channel": "orders.*", "order": "channel"}, EU + US),
        ({"channel": "orders.*", "start_time": at(1)}, MERGED[1:]),
    ],
)
def test_parts_join_to_the_whole(
    request_: dict[str, Any], expected: list[tuple[bytes, int]], most: int, world: World
) -> None:
    found, parts = in_parts(world, max_messages=most, **request_)

    assert found == expected
    assert parts >= len(expected) // most


def test_parts_of_messages_of_one_time_join_too() -> None:
    world = World()
    world.connect()
    for channel in (b"b", b"a", b"c"):
        world.publish(channel, b"1", b"2", b"3")

    found, _ = in_parts(world, channel=">", max_messages=2)

    assert found == [(channel, n) for channel in (b"a", b"b", b"c") for n in (1, 2, 3)]


def test_what_comes_between_parts_does_not_belong_to_them(world: World) -> None:
    request: dict[str, Any] = {"channel": "orders.*", "max_messages": 5}
    first, end = Reader(world, **request).run()
    world.publish(b"orders.us", b"too late")
    rest, end = Reader(world, after=end.after, **request).run()

    assert first + rest == MERGED
    assert end.pending == 0


def test_max_bytes_ends_a_part(world: World) -> None:
    world.publish(b"large", *[b"x" * 100_000] * 10)

    found, parts = in_parts(world, channel="large", max_bytes=250_000)

    assert [sequence for _, sequence in found] == list(range(1, 11))
    assert 4 <= parts <= 5


@pytest.mark.parametrize("request_", [{"channel": "small"}, {"channel": "*", "order": "time"}])
def test_max_bytes_bounds_small_messages_too(request_: dict[str, Any]) -> None:
    world = World()
    world.connect()
    world.publish(b"small", *[b"x"] * 100)
    world.publish(b"other", *[b"x"] * 100)

    found, end = Reader(world, max_bytes=1000, **request_).run()

    assert len(found) < 100
    assert end.pending > 0


def test_host_that_does_not_see_readers_gets_bounded_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "UNSEEN_BYTES", 200_000)
    world.host.sees_receivers = False
    world.publish(b"large", *[b"x" * 100_000] * 10)

    _, end = Reader(world, channel="large").run()
    assert end.pending > 0
    assert in_parts(world, channel="large")[1] >= 3


@pytest.mark.parametrize("count", [1, 7, 300])
def test_merge_of_many_channels_with_little_room(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages larger than a channel's share of the look-ahead are read when they are due."""
    monkeypatch.setattr(spans, "LOOK_AHEAD", 2000)
    world = World()
    world.connect()
    stored = []
    for n in range(3 * count):
        channel = b"c%03d" % (n * 7 % count)
        world.store.open(channel).append(
            [NewMessage(channel, b"%d" % n * (1 if n % 3 else 3000), time_ns=START_NS + n // 2)]
        )
        stored.append((START_NS + n // 2, channel))
    world.restart()

    reader = Reader(world, channel=">")
    world.advance(20)
    found, end = reader.came()

    assert [(one.time_ns, one.channel) for one, _ in found] == sorted(stored)
    assert sorted(len(payload) for _, payload in found) == sorted(
        len(b"%d" % n) * (1 if n % 3 else 3000) for n in range(3 * count)
    )
    assert end is not None


# ---- pace -------------------------------------------------------------------------------------------


@pytest.fixture
def long_channel() -> World:
    world = World(store=MemoryStore())
    world.store.open(b"long").append([NewMessage(b"long", b"x" * 100) for _ in range(10_000)])
    world.restart()
    return world


def test_tick_sends_a_bounded_share(long_channel: World) -> None:
    world = long_channel
    readers = [Reader(world, channel="long") for _ in range(3)]
    seen = 0
    while (function := world.host.next_timer(world.host.now)) is not None:
        function()
        world.settle()
        assert len(world.host.headed) - seen <= replaying.TURN_MESSAGES + spans.PAGE + 3
        seen = len(world.host.headed)
    for reader in readers:
        found, end = reader.came()
        assert [one.sequence for one, _ in found] == list(range(1, 10_001))
        assert end is not None


def unread_mark() -> int:
    """What a reader of this form may have unread."""
    return replaying.COLUMNS_UNREAD_MARK if Reader.form else replaying.UNREAD_MARK


def test_reader_with_much_unread_gets_nothing_more_until_it_has_read(long_channel: World) -> None:
    world = long_channel
    slow = Reader(world, channel="long")
    world.host.unread[slow.inbox] = unread_mark() + 1
    quick = Reader(world, channel="long", end_sequence=5000)
    world.advance(5)

    assert slow.came() == ([], None)
    assert len(quick.came()[0]) == 5000

    world.host.unread[slow.inbox] = unread_mark()
    assert len(slow.run()[0]) == 10_000


def test_waiting_costs_little_and_a_new_reader_does_not_wait_for_it(long_channel: World) -> None:
    world = long_channel
    slow = Reader(world, channel="long")
    world.host.unread[slow.inbox] = unread_mark() + 1
    world.advance(1)
    looks = 0
    until = world.host.now + SECOND
    while (function := world.host.next_timer(until)) is not None:
        function()
        looks += 1
    assert looks <= 40
    quick = Reader(world, channel="long", end_sequence=10)
    world.advance(0.0001)
    assert len(quick.came()[0]) == 10


def test_reader_that_is_gone_ends_its_replay(long_channel: World) -> None:
    world = long_channel
    reader = Reader(world, channel="long")
    world.advance(0)
    world.host.unread[reader.inbox] = None
    world.host.headed.clear()
    world.advance(1)

    assert len(world.host.headed) <= replaying.TURN_MESSAGES
    assert len(world.tenure.replays) == 0


def test_more_replays_than_there_may_be_are_refused(
    long_channel: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "MOST_REPLAYS", 2)
    readers = [Reader(long_channel, channel="long") for _ in range(3)]

    assert readers[2].came()[1] == End(429, "Too Many Replays")
    assert [len(reader.run()[0]) for reader in readers[:2]] == [10_000, 10_000]


@columns_only
def test_columns_carry_everything_as_it_is_stored(world: World) -> None:
    stored = b"NATS/1.0\r\nA: 1\r\n\r\n"
    world.store.open(b"odd").append(
        [
            NewMessage(b"odd", b"\x00body", b"re\r\nply", stored, START_NS + 1),
            NewMessage(b"other.\xff", b"", b"", b"", START_NS + 2),
        ]
    )
    world.restart()
    reader = Reader(world, channel="odd")
    world.advance(1)

    assert reader.came()[0] == [
        (ReplayedMessage(b"odd", b"odd", 1, START_NS + 1, b"re\r\nply", stored), b"\x00body"),
        (ReplayedMessage(b"odd", b"other.\xff", 2, START_NS + 2, None, None), b""),
    ]


@columns_only
@pytest.mark.parametrize("max_payload", [1, 5_000, 100_000, 1 << 26])
def test_columns_fill_frames_that_the_server_may_send(max_payload: int, long_channel: World) -> None:
    world = long_channel
    world.host.max_payload = max_payload
    reader = Reader(world, channel="long", max_messages=3000)
    world.advance(10)
    found, _ = reader.came()
    frames = [payload for subject, block, payload in world.host.headed if block == BLOCK]

    assert [one.sequence for one, _ in found] == list(range(1, 3001))
    if max_payload >= 100_000:
        largest = min(max_payload, 1 << 20)
        assert len(frames) <= 3000 * 160 // (largest * 6 // 10) + 1
    elif max_payload == 1:
        assert len(frames) == 3000


@columns_only
def test_columns_of_large_and_small_messages(world: World) -> None:
    world.publish(b"mixed", *[b"x" * size for size in (1, 900_000, 5, 1_040_000, 3, 3, 700_000, 2)])
    reader = Reader(world, channel="mixed")
    world.advance(1)

    assert [len(payload) for _, payload in reader.came()[0]] == [1, 900_000, 5, 1_040_000, 3, 3, 700_000, 2]


@columns_only
def test_other_formats_are_refused(world: World) -> None:
    reader = Reader(world, raw=b'{"channel": "orders.eu", "format": "csv"}')
    end = reader.came()[1]
    assert end is not None
    assert (end.code, "csv" in end.text) == (400, True)


def test_shutdown_says_that_the_replay_is_cut_short(long_channel: World) -> None:
    reader = Reader(long_channel, channel="long")
    long_channel.service.stop()

    assert reader.came()[1] == End(409, "Server Shutdown")


# ---- what goes wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b" " * 70_000, "a request of 70000 bytes"),
        (b"{}", "channel is missing"),
        (b'{"channel": ""}', "channel: it is empty"),
        (b'{"channel": 3}', "channel: a string is expected, not a number"),
        (b'{"channel": null}', "channel: a string is expected, not null"),
        (b'{"channel": "a..b"}', "channel: no name"),
        (b'{"channel": "a b"}', "channel: no name"),
        (b'{"channel": "\\ud800"}', "channel: not a name"),
        (b'{"channel": "a", "chanel": 1}', 'unknown key "chanel"'),
        (b'{"channel": "a", "channel": "b"}', "key channel stands twice"),
        (b'{"channel": "a", "start_sequence": "1"}', "start_sequence: a whole number is expected"),
        (b'{"channel": "a", "start_sequence": 1.0}', "start_sequence: a whole number is expected"),
        (b'{"channel": "a", "start_sequence": true}', "start_sequence: a whole number is expected"),
        (b'{"channel": "a", "start_sequence": -1}', "start_sequence: -1 is not from 0"),
        (b'{"channel": "a", "start_sequence": 9223372036854775808}', "start_sequence: 9223372036854775808"),
        (b'{"channel": "a", "end_sequence": 0}', "end_sequence: 0 is not from 1 on"),
        (b'{"channel": "a", "max_messages": 0}', "max_messages: 0 is not from 1 on"),
        (b'{"channel": "a", "start_sequence": 1, "start_time_delta": "1s"}', "one start is allowed"),
        (b'{"channel": "a", "start_time": "yesterday"}', "start_time: not a time"),
        (b'{"channel": "a", "start_time": "2026-02-30T00:00:00Z"}', "start_time: not a time"),
        (b'{"channel": "a", "end_time": "9999-01-01T00:00:00Z"}', "end_time: a time beyond 292 years"),
        (b'{"channel": "a", "start_time_delta": "soon"}', "start_time_delta: it is not a number"),
        (b'{"channel": "a", "start_time_delta": "-1s"}', "start_time_delta: it is negative"),
        (b'{"channel": "a", "order": "size"}', 'order: "size" is not one of channel, time'),
        (b'{"channel": "a", "order": {}}', "order: "),
        (b'{"channel": "a", "last_only": 1}', "last_only: true or false is expected"),
        (b'{"channel": "a", "after": "1.2.a"}', "after: not what an answer said"),
        (b'{"channel": "a", "after": "99999999999999999999.1.1.a"}', "after: "),
    ],
)
def test_bad_request_is_refused_with_a_reason(raw: bytes, text: str, world: World) -> None:
    _, end = Reader(world, raw=raw).came()

    assert end is not None
    assert end.code == 400
    assert text in end.text


def test_request_without_payload_or_channel_is_answered(world: World) -> None:
    assert Reader(world, raw=b"").came()[1] == End(408, "Empty Request")
    assert Reader(world, channel="nowhere").came()[1] == End(404, "No Channels")
    assert Reader(world, channel="nowhere.>").came()[1] == End(404, "No Channels")


def test_refusal_cannot_break_out_of_its_header(world: World) -> None:
    raw = json.dumps({"channel": "a", "x\r\nNats-Num-Pending: 1": 1, "é": 2}).encode()
    reader = Reader(world, raw=raw)
    (block,) = [block for subject, block, _ in world.host.headed if subject == reader.inbox]

    assert block.count(b"\r\n") == 2
    assert block.isascii()


@pytest.mark.parametrize("reply", [b"", b"a.>", b"*", b"a..b"])
def test_request_that_cannot_be_answered_is_ignored(reply: bytes, world: World) -> None:
    world.send(SUBJECT, b'{"channel": "orders.eu"}', reply)
    world.settle()
    world.advance(1)

    assert world.host.headed == []


def test_channel_that_is_deleted_on_the_way_ends_its_replay(long_channel: World) -> None:
    reader = Reader(long_channel, channel="long")
    long_channel.store.remove(b"long")

    assert reader.run()[1] == End(404, "Channel Deleted")


def test_storage_error_ends_the_replay_and_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(world, channel="orders.eu")
    log = world.tenure.channels.get_or_create(b"orders.eu").log

    def fail(*_arguments: object, **_options: object) -> None:
        raise StorageError("input/output error")

    monkeypatch.setattr(log, "read_from", fail)

    assert reader.run()[1] == End(500, "input/output error")


def test_damaged_messages_are_named_at_the_end(tmp_path: Path) -> None:
    store = FileStore(tmp_path, clock=lambda: START_NS)
    for name in (b"hurt", b"whole"):
        store.open(name).append([NewMessage(name, b"%b-%d-" % (name, n) * 20) for n in range(1, 9)])
    store.close()
    for file in tmp_path.rglob("*.log"):
        data = file.read_bytes()
        for n in (3, 6, 7):
            data = data.replace(b"hurt-%d-" % n, b"HURT-%d-" % n, 1)
        file.write_bytes(data)
    store = FileStore(tmp_path, clock=lambda: START_NS)
    world = World(store=store)

    for request in ({"channel": "hurt"}, {"channel": ">"}, {"channel": ">", "order": "channel"}):
        found, end = Reader(world, **request).run()
        assert [n for channel, n in found if channel == b"hurt"] == [1, 2, 4, 5, 8]
        assert end.damaged == ((b"hurt", ((3, 3), (6, 7))),)
        assert end.pending == 0
    block = [block for _, block, _ in world.host.headed if is_end(block)][-1]
    assert b"\r\nNats-Damaged: hurt 3,6-7\r\n" in block
    store.close()
