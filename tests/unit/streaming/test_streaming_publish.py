"""Publications: checks, channel rules, one append a tick, acknowledgement after the commit, store errors.

Source: streaming specification, 4 and 15.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from stan_harness import HeldCommitter, World

from headrace.conf.streaming_options import StoreLimits, StreamingOptions
from headrace.errors import MessageTooLarge, StorageError
from headrace.log.committer import InlineCommitter
from headrace.log.memory import MemoryLog
from headrace.protocol.stan import (
    CloseRequest,
    ConnectRequest,
    MsgProto,
    PubAck,
    PubMsg,
    StartPosition,
    SubscriptionRequest,
)
from headrace.refusals import REPORT_S
from headrace.streaming import publishing
from headrace.streaming.state import STATE_LOG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.log.port import Done, NewMessage, Syncable

PUBLISH = b"_STAN.pub.test-cluster.foo"
INVALID = b"stan: invalid publish request"


@pytest.fixture
def world() -> World:
    world = World()
    world.connect()
    return world


def _publish(world: World, message: PubMsg | bytes) -> PubAck:
    return world.request(PUBLISH, message if isinstance(message, bytes) else message.encode(), PubAck)


def _messages(world: World, channel: bytes) -> list[tuple[int, bytes, bytes]]:
    page = world.store.open(channel).read_from(1, max_messages=10_000)
    return [(message.sequence, message.payload, message.reply) for message in page.messages]


@pytest.mark.parametrize("payload", [b"\xff", b"\x0a", b"\x12\x09abc", b"\x0b"])
def test_decode_error_is_refused_without_a_guid(world: World, payload: bytes) -> None:
    assert _publish(world, payload) == PubAck(b"", INVALID)


def test_an_empty_guid_is_refused(world: World) -> None:
    assert _publish(world, PubMsg(b"me", b"", b"foo")) == PubAck(b"", INVALID)


@pytest.mark.parametrize(
    "channel",
    [
        b"",
        b".",
        b".a",
        b"a.",
        b"a..b",
        b"*",
        b"a.*",
        b"a*",
        b">",
        b"a.>",
        b"a>b",
        b"a/b",
        b"a b",
        b"a\nb",
        b"\0",
    ],
)
def test_an_invalid_channel_name_is_refused(world: World, channel: bytes) -> None:
    assert _publish(world, PubMsg(b"me", b"g", channel)) == PubAck(b"g", INVALID)
    assert world.service.snapshot_server().channels == 0


def test_an_unknown_client_is_refused(world: World) -> None:
    assert _publish(world, PubMsg(b"who", b"g", b"foo")) == PubAck(b"g", INVALID)


def test_row_unknown_client_id_but_known_connection_id_is_accepted(world: World) -> None:
    assert _publish(world, PubMsg(b"who", b"g", b"foo", conn_id=b"me")) == PubAck(b"g")


def test_row_known_client_id_but_other_connection_id_is_refused(world: World) -> None:
    assert _publish(world, PubMsg(b"me", b"g", b"foo", conn_id=b"other")) == PubAck(b"g", INVALID)


def test_sequences_are_gapless_and_times_do_not_go_back(world: World) -> None:
    world.publish(b"foo", b"a", b"b")
    world.host.now -= 5_000_000_000
    world.publish(b"foo", b"", b"d")
    world.publish(b"bar", b"x")
    assert _messages(world, b"foo") == [(1, b"a", b""), (2, b"b", b""), (3, b"", b""), (4, b"d", b"")]
    assert _messages(world, b"bar") == [(1, b"x", b"")]
    times = [message.time_ns for message in world.store.open(b"foo").read_from(1).messages]
    assert times == sorted(times)


def test_reply_and_data_are_kept_and_crc_is_not_filled(world: World) -> None:
    sub = world.subscribe(b"foo")
    _publish(world, PubMsg(b"me", b"g", b"foo", b"answer.here", b"\x00\xff"))
    (message,) = world.received(sub)
    assert (message.reply, message.data, message.subject, message.crc32) == (
        b"answer.here",
        b"\x00\xff",
        b"foo",
        0,
    )
    assert message.timestamp == world.host.now
    assert not message.redelivered


def test_a_publication_without_a_reply_subject_is_stored_unanswered(world: World) -> None:
    world.send(PUBLISH, PubMsg(b"me", b"g", b"foo").encode())
    world.settle()
    assert _messages(world, b"foo") == [(1, b"", b"")]


def test_one_tick_is_one_append_per_channel(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    append = MemoryLog.append

    def counted(log: MemoryLog, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
        if batch[0].subject in (b"foo", b"bar"):
            sizes.append((batch[0].subject, len(batch)))
        return append(log, batch, first_sequence)

    monkeypatch.setattr(MemoryLog, "append", counted)
    for channel in (b"foo", b"bar", b"foo", b"foo"):
        world.send(b"_STAN.pub.test-cluster." + channel, PubMsg(b"me", b"g", channel).encode(), b"r")
    world.settle()
    assert sizes == [(b"foo", 3), (b"bar", 1)]
    assert len(world.take(b"r")) == 4


def test_nothing_is_acknowledged_or_delivered_before_the_commit() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    reply = world.name("reply")
    connect = _held_connect(world, committer)
    assert len(connect) == 1
    world.send(PUBLISH, PubMsg(b"me", b"g", b"foo").encode(), reply)
    world.settle()
    assert world.take(reply) == []
    committer.commit()
    assert [PubAck.decode(one) for one in world.take(reply)] == [PubAck(b"g")]


def _held_connect(world: World, committer: HeldCommitter) -> list[bytes]:
    committer.commit()
    world.send(b"_STAN.discover.test-cluster", ConnectRequest(b"me", b"hb").encode(), b"connected")
    world.settle()
    assert world.take(b"connected") == [], "a registration is answered when it is durable"
    committer.commit()
    return world.take(b"connected")


def test_a_failed_sync_goes_to_the_publishers_of_that_commit_only() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    _held_connect(world, committer)
    world.send(PUBLISH, PubMsg(b"me", b"g1", b"foo").encode(), b"r")
    world.settle()
    committer.commit(StorageError("no space left on device"))
    world.send(PUBLISH, PubMsg(b"me", b"g2", b"foo").encode(), b"r")
    world.settle()
    committer.commit()
    assert [PubAck.decode(one) for one in world.take(b"r")] == [
        PubAck(b"g1", b"no space left on device"),
        PubAck(b"g2"),
    ]


class LateCommitter(InlineCommitter):
    """Makes nothing durable while it is late."""

    is_late = False

    def request(self, log: Syncable, done: Done) -> None:
        if self.is_late:
            done(StorageError("the bucket is away"))
        else:
            super().request(log, done)


def test_a_message_whose_commit_failed_is_delivered_when_it_is_durable_all_the_same() -> None:
    committer = LateCommitter()
    world = World(committer=committer)
    world.connect()
    sub = world.subscribe(b"foo")
    committer.is_late = True
    assert world.publish(b"foo", b"1") == [b"the bucket is away"]
    world.advance(3.0)
    assert world.received(sub) == []
    committer.is_late = False
    world.advance(1.0)
    assert [one.data for one in world.received(sub)] == [b"1"]
    assert world.publish(b"foo", b"2") == [b""]
    assert [one.data for one in world.received(sub)] == [b"2"]


@pytest.mark.parametrize("error", [StorageError("disk full"), StorageError("read-only file system")])
def test_a_store_error_is_the_acknowledgement_and_the_rest_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, error: StorageError
) -> None:
    world.publish(b"foo", b"1")
    world.publish(b"bar", b"1")
    broken = world.store.open(b"foo")

    def fail(*_: object) -> int:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(broken, "append", fail, raising=True)
        assert world.publish(b"foo", b"2", b"3") == [str(error).encode()] * 2
        assert world.publish(b"bar", b"2") == [b""]
    assert world.publish(b"foo", b"4") == [b""], "it recovers when the storage does"
    assert [body for _, body, _ in _messages(world, b"foo")] == [b"1", b"4"]


def test_a_channel_that_refuses_is_a_line_and_a_count(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.publish(b"foo", b"1")

    def fail(*_: object) -> int:
        raise StorageError("disk full")

    monkeypatch.setattr(world.store.open(b"foo"), "append", fail)
    with caplog.at_level(logging.ERROR):
        for _ in range(20):
            world.publish(b"foo", b"2", b"3")
        world.advance(REPORT_S + 1)
    assert [line for line in caplog.messages if "could not be stored" in line] == [
        "STREAM: channel foo: 2 messages could not be stored: disk full",
        "STREAM: channel foo: 38 more could not be stored: disk full",
    ]


def test_only_the_message_that_is_too_large_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    append = MemoryLog.append

    def picky(log: MemoryLog, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
        if any(len(message.payload) > 5 for message in batch if message.subject == b"foo"):
            raise MessageTooLarge("message too large")
        return append(log, batch, first_sequence)

    monkeypatch.setattr(MemoryLog, "append", picky)
    assert world.publish(b"foo", b"1", b"too large", b"3") == [b"", b"message too large", b""]
    assert [body for _, body, _ in _messages(world, b"foo")] == [b"1", b"3"]


def test_names_that_differ_by_case_are_refused(world: World) -> None:
    world.publish(b"A", b"x")
    assert world.publish(b"a", b"x") == [
        b'rejecting channel "a" because channel "A" alreay exists (different cases not allowed)'
    ]
    assert world.refused(b"a") == (
        b'rejecting channel "a" because channel "A" alreay exists (different cases not allowed)'
    )


def test_creation_beyond_max_channels_is_refused() -> None:
    world = World(StreamingOptions(limits=StoreLimits(max_channels=2)))
    world.connect()
    assert world.publish(b"a", b"x") == [b""]
    world.subscribe(b"b")
    assert world.publish(b"c", b"x") == [b"too many channels"]
    assert world.refused(b"c") == b"too many channels"
    assert world.publish(b"b", b"x") == [b""]


def test_a_client_that_closes_in_the_same_tick_has_published_before(world: World) -> None:
    world.send(PUBLISH, PubMsg(b"me", b"g", b"foo", data=b"last").encode(), b"r")
    world.send(b"_STAN.close.test-cluster", CloseRequest(b"me").encode(), b"c")
    world.settle()
    assert PubAck.decode(world.take(b"r")[0]) == PubAck(b"g")


def test_what_was_published_before_a_subscription_in_the_same_tick_is_not_new_to_it(world: World) -> None:
    world.send(PUBLISH, PubMsg(b"me", b"g1", b"foo", data=b"old").encode(), b"r")
    request = SubscriptionRequest(b"me", b"foo", b"", b"inbox", 10, 30)
    world.send(b"_STAN.sub.test-cluster", request.encode(), b"s")
    world.send(PUBLISH, PubMsg(b"me", b"g2", b"foo", data=b"new").encode(), b"r")
    world.settle()
    assert len(world.take(b"inbox")) == 1
    assert len(_messages(world, b"foo")) == 2


def test_a_publisher_ahead_of_the_commits_is_delivered_once_and_in_order() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    _held_connect(world, committer)
    request = SubscriptionRequest(b"me", b"foo", b"", b"inbox", 100, 30, b"", StartPosition.FIRST)
    world.send(b"_STAN.sub.test-cluster", request.encode(), b"s")
    world.settle()
    committer.commit()
    for number in range(1, 6):
        world.send(PUBLISH, PubMsg(b"me", b"g%d" % number, b"foo").encode(), b"r")
        world.settle()
    assert world.take(b"inbox") == []
    committer.commit()
    assert [MsgProto.decode(one).sequence for one in world.take(b"inbox")] == [1, 2, 3, 4, 5]


def test_who_starts_while_a_commit_is_under_way_gets_nothing_that_is_not_committed() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    _held_connect(world, committer)
    world.send(PUBLISH, PubMsg(b"me", b"g1", b"foo").encode(), b"r")
    world.settle()
    committer.commit()
    world.send(PUBLISH, PubMsg(b"me", b"g2", b"foo").encode(), b"r")
    request = SubscriptionRequest(b"me", b"foo", b"", b"inbox", 100, 30, b"", StartPosition.FIRST)
    world.send(b"_STAN.sub.test-cluster", request.encode(), b"s")
    world.settle()
    committer.commit(only=world.store.open(STATE_LOG))
    assert [MsgProto.decode(one).sequence for one in world.take(b"inbox")] == [1]
    committer.commit()
    assert [MsgProto.decode(one).sequence for one in world.take(b"inbox")] == [2]


def test_what_waits_for_a_disk_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound the service syncs by itself; what the committer says later is nothing new."""
    monkeypatch.setattr(publishing, "MOST_UNANSWERED", 10_000)
    committer = HeldCommitter()
    world = World(committer=committer)
    world.send(b"_STAN.discover.test-cluster", ConnectRequest(b"me", b"_HB.me").encode(), b"r")
    world.settle()
    committer.commit()
    message = PubMsg(b"me", b"g", b"foo", data=b"x" * 3_000).encode()
    for count in (1, 2, 3):
        world.send(PUBLISH, message, b"ack")
        world.settle()
        assert world.take(b"ack") == [], count
    world.send(PUBLISH, message, b"ack")
    world.settle()
    assert [PubAck.decode(answer) for answer in world.take(b"ack")] == [PubAck(b"g")] * 4
    committer.commit()
    world.send(PUBLISH, message, b"ack")
    world.settle()
    assert world.take(b"ack") == []
    committer.commit()
    assert len(world.take(b"ack")) == 1


def test_turn_ends_with_the_round_that_left_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It appends, and serves what the commit made visible; none after it looks that there is no more."""
    sub = world.subscribe(b"foo")
    rounds = 0
    run = world.tenure._deliverer.run

    def count() -> None:
        nonlocal rounds
        rounds += 1
        run()

    monkeypatch.setattr(world.tenure._deliverer, "run", count)
    assert _publish(world, PubMsg(b"me", b"g", b"foo", b"x")) == PubAck(b"g")
    assert world.sequences(sub) == [1]
    assert rounds == 1
