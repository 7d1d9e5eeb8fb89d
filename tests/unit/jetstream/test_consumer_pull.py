"""Pull consumers: requests, their order, their limits and how each of them ends."""

from __future__ import annotations

import pytest
from consumer_harness import SECOND, Desk, sequences, statuses

from headrace.core.service import Delivery
from headrace.errors import StorageError


def test_a_message_goes_to_who_asks() -> None:
    desk = Desk()
    desk.open()
    desk.publish("s.a", payload=b"hi")
    (frame,) = desk.pull()
    assert frame.subject == b"s.a"
    assert frame.payload == b"hi"
    assert frame.numbers == [1, 1, 1, desk.host.now, 0]


def test_a_request_waits_for_messages() -> None:
    desk = Desk()
    desk.open()
    assert desk.pull(body="3") == []
    desk.publish("s.a", "s.b")
    assert sequences(desk.take()) == [1, 2]
    desk.publish("s.a", "s.b")
    assert sequences(desk.take()) == [3]


def test_a_batch_counts_down_what_is_pending() -> None:
    desk = Desk()
    desk.open()
    desk.fill(10)
    frames = desk.pull(body="4")
    assert [frame.numbers[-1] for frame in frames] == [9, 8, 7, 6]


def test_without_wait_and_without_messages() -> None:
    desk = Desk()
    desk.open()
    (frame,) = desk.pull(body='{"batch":1,"no_wait":true}')
    assert frame.headers == b"NATS/1.0 404 No Messages\r\n\r\n"


def test_without_wait_a_batch_that_is_larger_ends_with_404() -> None:
    desk = Desk()
    desk.open()
    desk.fill(3)
    frames = desk.pull(body='{"batch":5,"no_wait":true}')
    assert sequences(frames) == [1, 2, 3]
    assert statuses(frames) == ["404 No Messages"]


def test_without_wait_but_with_expiry_waits_while_nothing_came() -> None:
    desk = Desk()
    desk.open()
    assert desk.pull(body=f'{{"batch":5,"no_wait":true,"expires":{SECOND}}}') == []
    desk.publish("s.a")
    frames = desk.take()
    assert sequences(frames) == [1]
    assert statuses(frames) == ["404 No Messages"]


def test_without_wait_behind_others() -> None:
    desk = Desk()
    desk.open()
    desk.consumer.tracker.next_sequence = 1
    desk.fill(2)
    desk.consumer.update(desk.consumer.config)
    for _ in range(2):  # they ask in one turn, before anything is sent
        desk.consumer.delivery.pull(b"i", b"3")
    desk.consumer.delivery.pull(b"j", b'{"batch":1,"no_wait":true}')
    assert statuses(desk.take("j")) == ["408 Requests Pending"]


def test_a_request_expires_with_what_it_did_not_get() -> None:
    desk = Desk()
    desk.open()
    desk.publish("s.a")
    assert sequences(desk.pull(body=f'{{"batch":3,"expires":{SECOND}}}')) == [1]
    desk.advance(1.01)
    (frame,) = desk.take()
    assert frame.headers == (
        b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 2\r\nNats-Pending-Bytes: 0\r\n\r\n"
    )
    desk.publish("s.a")
    assert desk.take() == []


def test_heartbeats_while_a_request_waits() -> None:
    desk = Desk()
    desk.open()
    desk.pull(body=f'{{"batch":3,"expires":{10 * SECOND},"idle_heartbeat":{SECOND}}}')
    desk.advance(2.5)
    frames = desk.take()
    assert [frame.headers for frame in frames] == [
        b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 0\r\n\r\n"
    ] * 2
    desk.publish("s.a")
    desk.take()
    desk.advance(0.9)
    assert desk.take() == []  # a message counts as one
    desk.advance(0.2)
    assert len(desk.take()) == 1


@pytest.mark.parametrize(
    ("config", "body", "status"),
    [
        ({"max_batch": 5}, "6", "409 Exceeded MaxRequestBatch of 5"),
        ({"max_expires": SECOND}, '{"batch":1,"expires":1000000001}', "409 Exceeded MaxRequestExpires of 1s"),
        ({"max_bytes": 100}, '{"batch":1,"max_bytes":101}', "409 Exceeded MaxRequestMaxBytes of 100"),
        ({}, '{"batch":1,"expires":19,"idle_heartbeat":10}', "400 Bad Request - heartbeat value too large"),
        ({}, '{"batch":1,"min_pending":1}', "400 Bad Request - Not a Overflow Priority consumer"),
        ({}, '{"batch":1,"id":"x"}', "400 Bad Request - Not a Pinned Client Priority consumer"),
        ({}, '{"batch":1,"priority":10}', "400 Bad Request - Priority must be between 0 and 9"),
    ],
)  # fmt: skip
def test_a_request_that_is_refused(config: dict[str, int], body: str, status: str) -> None:
    desk = Desk()
    desk.open(**config)
    assert statuses(desk.pull(body=body)) == [status]


def test_requests_take_turns_message_by_message() -> None:
    desk = Desk()
    desk.open()
    desk.pull("a", "3")
    desk.pull("b", "3")
    desk.fill(6)
    assert sequences(desk.take("a")) == [1, 3, 5]
    assert sequences(desk.take("b")) == [2, 4, 6]


def test_too_many_requests() -> None:
    desk = Desk()
    desk.open(max_waiting=2)
    desk.pull("a")
    desk.pull("b")
    assert statuses(desk.pull("c")) == ["409 Exceeded MaxWaiting"]
    assert desk.pull("c", f'{{"batch":1,"expires":{9 * SECOND},"idle_heartbeat":{SECOND}}}') == []
    desk.host.deaf.add(b"a")
    desk.advance(1.5)
    assert desk.pull("c") == []
    assert desk.consumer.info()["num_waiting"] == 2


def test_a_request_whose_client_is_gone_gets_nothing() -> None:
    desk = Desk()
    desk.open()
    desk.pull("a", "5")
    desk.pull("b", "5")
    desk.host.deaf.add(b"a")
    desk.fill(2)
    assert sequences(desk.take("b")) == [1, 2]


def test_a_limit_of_bytes() -> None:
    desk = Desk()
    desk.open()
    desk.fill(3, payload=b"x" * 400)
    frames = desk.pull(body='{"batch":10,"max_bytes":1000}')
    assert sequences(frames) == [1, 2]
    assert statuses(frames) == ["409 Message Size Exceeds MaxBytes"]
    size = sum(len(b"s.a" + frame.reply + frame.payload) for frame in frames[:2])
    assert frames[2].header("Nats-Pending-Messages") == "8"
    assert frames[2].header("Nats-Pending-Bytes") == str(1000 - size)


def test_a_batch_that_is_complete_below_its_limit_of_bytes() -> None:
    desk = Desk()
    desk.open()
    desk.fill(3)
    frames = desk.pull(body='{"batch":1,"max_bytes":1000}')
    assert sequences(frames) == [1]
    assert statuses(frames) == ["409 Batch Completed"]
    assert frames[1].header("Nats-Pending-Messages") == "0"


def test_who_waits_is_told_that_the_consumer_is_deleted() -> None:
    desk = Desk()
    consumer = desk.open()
    desk.pull()
    consumer.stop("deleted")
    (frame,) = desk.take()
    assert frame.headers == b"NATS/1.0 409 Consumer Deleted\r\n\r\n"


def test_a_push_consumer_is_not_asked() -> None:
    desk = Desk()
    desk.open(deliver_subject="d")
    assert statuses(desk.pull()) == ["409 Consumer is push based"]


def test_as_many_unacknowledged_messages_as_may_be() -> None:
    desk = Desk()
    desk.open(max_ack_pending=3)
    desk.fill(5)
    frames = desk.pull(body="5")
    assert sequences(frames) == [1, 2, 3]
    desk.ack(frames[1])
    assert sequences(desk.take()) == [4]


def test_a_request_without_wait_stays_while_too_much_is_unacknowledged() -> None:
    desk = Desk()
    desk.open(max_ack_pending=2)
    desk.fill(3)
    frames = desk.pull(body="2")
    assert desk.pull("j", '{"batch":1,"no_wait":true}') == []
    desk.ack(frames[0])
    assert sequences(desk.take("j")) == [3]


def test_filters() -> None:
    desk = Desk()
    desk.open(filter_subjects=["s.a", "s.c.>"])
    desk.publish("s.b", "s.a", "s.c.x", "s.b", "s.a")
    assert desk.consumer.info()["num_pending"] == 3
    frames = desk.pull(body="9")
    assert sequences(frames) == [2, 3, 5]
    assert [frame.numbers[-1] for frame in frames] == [2, 1, 0]


def test_headers_only() -> None:
    desk = Desk()
    desk.open(headers_only=True)
    desk.publish("s.a", payload=b"12345", headers=b"NATS/1.0\r\nA: b\r\n\r\n")
    (frame,) = desk.pull()
    assert frame.headers == b"NATS/1.0\r\nA: b\r\nNats-Msg-Size: 5\r\n\r\n"
    assert frame.payload == b""


def test_a_large_backlog_goes_out_in_pages() -> None:
    desk = Desk()
    desk.open(max_ack_pending=-1)
    desk.fill(3000)
    first = desk.pull(body="3000")
    assert 0 < len(first) < 3000
    desk.advance(0.001)
    assert len(first) + len(desk.take()) == 3000


def test_a_request_that_wants_a_later_api() -> None:
    desk = Desk()
    desk.open()
    for level in (b"99", b"x"):
        headers = b"NATS/1.0\r\nNats-Required-Api-Level: %s\r\n\r\n" % level
        desk.consumer.request(Delivery(1, b"n", b"i", headers, b""))
        assert statuses(desk.take()) == ["412 Required Api Level"]
    desk.consumer.request(Delivery(1, b"n", b"", b"", b""))  # nobody to answer
    assert desk.consumer.info()["num_waiting"] == 0


def test_a_heartbeat_below_zero_is_none() -> None:
    desk = Desk()
    desk.open(max_ack_pending=1)
    desk.fill(2)
    desk.pull()
    desk.pull("j", '{"batch":3,"no_wait":true,"idle_heartbeat":-1}')
    desk.advance(5)
    assert desk.take("j") == []


def test_a_stream_that_cannot_be_read_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.open()
    desk.publish("s.a", "s.b", fresh=False)

    def fail(*_: object, **__: object) -> None:
        raise StorageError("the disk is on fire")

    with monkeypatch.context() as patched:
        patched.setattr(desk.stream.log, "read_from", fail)
        assert desk.pull(body="2") == []
        assert desk.pull("j", '{"batch":2,"no_wait":true}') == []
    desk.advance(1.1)
    assert sequences(desk.take()) + sequences(desk.take("j")) == [1, 2]
