"""Delivery, acknowledgements, redelivery of single subscriptions. Source: streaming specification, 6, 15."""

from __future__ import annotations

import logging

import pytest
from stan_harness import SECOND, World

from headrace.conf.streaming_options import StreamingOptions
from headrace.engine.messages import StoredMessages
from headrace.errors import MessageDamaged, StorageError
from headrace.log.memory import MemoryLog
from headrace.log.port import Page, StoredMessage
from headrace.protocol.stan import StartPosition
from headrace.streaming.channels import PAGE


@pytest.fixture
def world() -> World:
    world = World()
    world.connect()
    return world


def test_delivery_stalls_at_max_in_flight_and_an_ack_resumes_it(world: World) -> None:
    sub = world.subscribe(b"foo", max_in_flight=3)
    world.publish(b"foo", *[b"x"] * 10)
    assert world.sequences(sub) == [1, 2, 3]
    world.ack(sub, 2)
    assert world.sequences(sub) == [4]
    world.ack(sub, 1, 3, 4)
    assert world.sequences(sub) == [5, 6, 7]


def test_acks_are_not_cumulative(world: World) -> None:
    sub = world.subscribe(b"foo", max_in_flight=3)
    world.publish(b"foo", *[b"x"] * 5)
    world.ack(sub, 3)
    assert world.sequences(sub) == [1, 2, 3, 4]
    assert world.pending(sub) == 3


def test_duplicate_unknown_and_undecodable_acks_are_ignored(world: World) -> None:
    sub = world.subscribe(b"foo", max_in_flight=2)
    world.publish(b"foo", *[b"x"] * 5)
    assert world.sequences(sub) == [1, 2]
    world.ack(sub, 5, 99, 0, 2**64 - 1)
    world.host.receive(sub.ack_inbox, b"\xff")
    world.settle()
    assert world.sequences(sub) == []
    world.ack(sub, 1, 1, 1)
    assert world.sequences(sub) == [3]


def test_row_max_in_flight_1_is_strictly_one_also_after_redelivery(world: World) -> None:
    sub = world.subscribe(b"foo", max_in_flight=1, ack_wait=1)
    world.publish(b"foo", b"1", b"2", b"3")
    assert world.sequences(sub) == [1]
    world.advance(2)
    assert world.sequences(sub) == [1, 1]
    assert world.pending(sub) == 1
    world.ack(sub, 1)
    assert world.sequences(sub) == [2]
    assert world.pending(sub) == 1


def test_row_ack_after_redelivery_clears_once(world: World) -> None:
    sub = world.subscribe(b"foo", max_in_flight=1, ack_wait=1)
    world.publish(b"foo", b"1", b"2", b"3")
    world.advance(1)
    world.ack(sub, 1)
    world.ack(sub, 1)
    assert world.sequences(sub) == [1, 1, 2]


def test_redelivery_is_ascending_flagged_and_counted(world: World) -> None:
    sub = world.subscribe(b"foo", ack_wait=2)
    world.publish(b"foo", *[b"x"] * 3)
    world.ack(sub, 2)
    assert world.sequences(sub) == [1, 2, 3]
    for round_ in (1, 2, 3):
        world.advance(1.9)
        assert world.received(sub) == []
        world.advance(0.1)
        got = [(one.sequence, one.redelivered, one.redelivery_count) for one in world.received(sub)]
        assert got == [(1, True, round_), (3, True, round_)]


def test_what_expires_within_the_tolerance_goes_along(world: World) -> None:
    sub = world.subscribe(b"foo", ack_wait=1)
    world.publish(b"foo", b"1")
    world.advance(0.010)
    world.publish(b"foo", b"2")
    world.advance(0.010)
    world.publish(b"foo", b"3")
    world.received(sub)
    world.advance(0.980)
    assert world.sequences(sub) == [1, 2]
    world.advance(0.020)
    assert world.sequences(sub) == [3]


def test_redelivery_ignores_max_in_flight(world: World) -> None:
    sub = world.subscribe(b"foo", max_in_flight=2, ack_wait=1)
    world.publish(b"foo", *[b"x"] * 4)
    assert world.sequences(sub) == [1, 2]
    world.advance(1)
    assert world.sequences(sub) == [1, 2]


def test_there_is_no_last_redelivery(world: World) -> None:
    sub = world.subscribe(b"foo", ack_wait=1)
    world.publish(b"foo", b"x")
    world.advance(50)
    messages = world.received(sub)
    assert len(messages) == 51
    assert messages[-1].redelivery_count == 50


def test_nothing_is_redelivered_after_everything_is_acknowledged(world: World) -> None:
    sub = world.subscribe(b"foo", ack_wait=1)
    world.publish(b"foo", b"x", b"y")
    world.ack(sub, 1, 2)
    world.advance(10)
    assert world.sequences(sub) == [1, 2]
    world.publish(b"foo", b"z")
    world.advance(1)
    assert world.sequences(sub) == [3, 3]


def test_messages_gone_from_the_store_are_dropped_from_pending_at_redelivery(world: World) -> None:
    sub = world.subscribe(b"foo", max_in_flight=2, ack_wait=1)
    world.publish(b"foo", *[b"x"] * 4)
    assert world.sequences(sub) == [1, 2]
    world.store.open(b"foo").purge(up_to=3)
    world.advance(1)
    assert world.sequences(sub) == [3, 4]


def test_more_than_a_page_is_redelivered_in_order(world: World) -> None:
    sub = world.subscribe(b"foo", max_in_flight=1000, ack_wait=1)
    world.publish(b"foo", *[b"x"] * 1000)
    assert world.sequences(sub) == list(range(1, 1001))
    world.advance(1)
    assert world.sequences(sub) == list(range(1, 1001))


def test_a_replay_goes_page_by_page(world: World) -> None:
    world.publish(b"foo", *[b"x"] * (PAGE + 500))
    sub = world.subscribe(b"foo", start=StartPosition.FIRST, max_in_flight=5000)
    assert len(world.sequences(sub)) == PAGE
    world.advance(0)
    assert world.sequences(sub) == list(range(PAGE + 1, PAGE + 501))


def test_redelivery_of_a_plain_subscription_pauses_while_heartbeats_fail() -> None:
    world = World(StreamingOptions(hb_interval=5, hb_timeout=1, hb_fail_count=100))
    world.connect(alive=False)
    sub = world.subscribe(b"foo", ack_wait=10)
    world.publish(b"foo", b"x")
    world.advance(100)
    assert world.sequences(sub) == [1]
    world.publish(b"foo", b"y")
    assert world.sequences(sub) == [2], "new messages go on"
    world.alive.add(b"_HB.me")
    world.advance(20)
    redelivered = world.received(sub)
    assert {one.sequence for one in redelivered} == {1, 2}
    assert len(redelivered) <= 4, "missed rounds are not made up for"


def test_plain_subscriptions_are_served_before_queue_groups(world: World) -> None:
    queue = world.subscribe(b"foo", queue=b"q")
    plain = world.subscribe(b"foo")
    world.publish(b"foo", b"x")
    order = [subject for subject, _, _ in world.host.published if subject in (queue.inbox, plain.inbox)]
    assert order == [plain.inbox, queue.inbox]


def test_every_plain_subscription_gets_everything_in_order(world: World) -> None:
    subs = [world.subscribe(b"foo", max_in_flight=1000) for _ in range(5)]
    for _ in range(20):
        world.publish(b"foo", *[b"x"] * 10)
    for sub in subs:
        assert world.sequences(sub) == list(range(1, 201))


def test_a_damaged_message_is_logged_with_its_sequence_and_skipped(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.publish(b"foo", *[b"x"] * 5)
    read_from = MemoryLog.read_from

    def damaged(log: MemoryLog, sequence: int, **wishes: int) -> Page:
        page = read_from(log, sequence, **wishes)
        bad = [message.sequence for message in page.messages if message.sequence == 3]
        return page._replace(
            messages=StoredMessages(StoredMessage, [one for one in page.messages if one.sequence != 3]),
            damaged=bad,
        )

    monkeypatch.setattr(MemoryLog, "read_from", damaged)
    sub = world.subscribe(b"foo", start=StartPosition.FIRST)
    other = world.subscribe(b"foo", start=StartPosition.FIRST)
    assert world.sequences(sub) == world.sequences(other) == [1, 2, 4, 5]
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert lines == ["STREAM: channel foo: message 3 skipped: unreadable"], "once, not once a subscription"


def test_a_damaged_message_at_the_end_does_not_stop_what_comes_after(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(b"foo", b"1", b"2")
    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "read_from", lambda *_, **__: Page(StoredMessages(StoredMessage), 3, [1, 2]))
        sub = world.subscribe(b"foo", start=StartPosition.FIRST)
    world.publish(b"foo", b"3")
    assert world.sequences(sub) == [3]


def test_a_pending_message_that_became_damaged_is_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sub = world.subscribe(b"foo", max_in_flight=1, ack_wait=1)
    world.publish(b"foo", b"1", b"2")
    assert world.sequences(sub) == [1]

    def read(_log: MemoryLog, sequence: int) -> None:
        raise MessageDamaged(sequence, "checksum")

    monkeypatch.setattr(MemoryLog, "read", read)
    world.advance(1)
    assert world.sequences(sub) == [2]


def test_a_store_that_cannot_be_read_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.publish(b"foo", b"1", b"2")

    def fail(*_: object, **__: object) -> Page:
        raise StorageError("input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "read_from", fail)
        patch.setattr(MemoryLog, "read", fail)
        sub = world.subscribe(b"foo", start=StartPosition.FIRST, ack_wait=1)
        world.advance(3)
        assert world.sequences(sub) == []
    world.advance(1)
    assert world.sequences(sub) == [1, 2]


def test_a_redelivery_that_cannot_be_read_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sub = world.subscribe(b"foo", ack_wait=1)
    world.publish(b"foo", b"1", b"2")
    world.received(sub)

    def fail(*_: object) -> None:
        raise StorageError("input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "read", fail)
        world.advance(5)
        assert world.sequences(sub) == []
    world.advance(1)
    assert world.sequences(sub) == [1, 2]


def test_a_new_message_in_a_stalled_channel_is_read_back_when_there_is_room(world: World) -> None:
    slow = world.subscribe(b"foo", max_in_flight=1)
    quick = world.subscribe(b"foo", max_in_flight=100)
    for number in range(10):
        world.publish(b"foo", b"%d" % number)
    assert len(world.sequences(quick)) == 10
    got = []
    for sequence in range(1, 11):
        got += [(one.sequence, one.data) for one in world.received(slow)]
        world.ack(slow, sequence)
    assert got == [(number + 1, b"%d" % number) for number in range(10)]


def test_timestamps_are_those_of_the_publication(world: World) -> None:
    world.publish(b"foo", b"x")
    stamp = world.host.now
    world.advance(5)
    (message,) = world.received(world.subscribe(b"foo", start=StartPosition.FIRST))
    assert message.timestamp == stamp
    assert world.host.now == stamp + 5 * SECOND


def test_counters_count_deliveries_and_publications(world: World) -> None:
    world.subscribe(b"foo", ack_wait=1)
    world.publish(b"foo", b"abc", b"")
    world.advance(1)
    server = world.service.snapshot_server()
    assert (server.in_msgs, server.in_bytes, server.out_msgs) == (2, 3, 4)
    assert server.out_bytes > 12
    assert (server.total_msgs, server.channels, server.clients, server.subscriptions) == (2, 1, 1, 1)
