"""Acknowledgements of all kinds, what comes again and when, and what of it is told."""

from __future__ import annotations

import pytest
from consumer_harness import MS, SECOND, Desk, sequences

from headrace.protocol.jetstream.configs import AckPolicy, RetentionPolicy


def floors(desk: Desk) -> tuple[object, object]:
    info = desk.consumer.info()
    return info["delivered"]["stream_seq"], info["ack_floor"]["stream_seq"]  # type: ignore[index]


def test_an_acknowledged_message_does_not_come_again() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND)
    desk.fill(2)
    first, _ = desk.pull(body="2")
    desk.ack(first)
    desk.pull(body="5")
    desk.advance(1.1)
    (again,) = desk.take()
    assert again.numbers[:3] == [2, 2, 3]


def test_the_floor_follows_the_lowest_pending() -> None:
    desk = Desk()
    desk.open()
    desk.fill(5)
    frames = desk.pull(body="5")
    desk.ack(frames[1], frames[2])
    assert floors(desk) == (5, 0)
    desk.ack(frames[0])
    assert floors(desk) == (5, 3)
    desk.ack(frames[4], frames[3])
    assert floors(desk) == (5, 5)
    assert desk.consumer.info()["num_ack_pending"] == 0


def test_a_double_acknowledgement_is_answered_when_it_is_durable() -> None:
    desk = Desk()
    desk.open()
    desk.fill(1)
    frames = desk.pull()
    desk.journal.holds = True
    desk.ack(*frames, reply=b"r")
    assert desk.take("r") == []
    desk.journal.holds = False
    desk.turns.settle()
    (answer,) = desk.take("r")
    assert answer.payload == b""


def test_an_acknowledgement_of_what_was_never_delivered_is_not_answered() -> None:
    desk = Desk()
    desk.open()
    desk.fill(2)
    (frame,) = desk.pull()
    desk.ack(frame._replace(reply=b"$JS.ACK.S.C.1.2.2.0.0"), reply=b"r")
    assert desk.take("r") == []
    desk.ack(frame, reply=b"r")
    desk.ack(frame, reply=b"r")
    assert len(desk.take("r")) == 2


def test_what_waits_comes_again_before_anything_new() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND)
    desk.fill(3)
    desk.pull(body="2")
    desk.advance(1.1)
    frames = desk.pull(body="3")
    assert [frame.numbers[:3] for frame in frames] == [[2, 1, 3], [2, 2, 4], [1, 3, 5]]
    assert desk.consumer.info()["num_redelivered"] == 2


def test_a_negative_one_brings_it_again_at_once() -> None:
    desk = Desk()
    desk.open()
    desk.fill(2)
    desk.pull(body="3")
    frames = desk.take() or desk.host.sent.get(b"i", [])
    assert frames == []
    desk.publish("s.a")
    (frame,) = desk.take()
    desk.pull(body="1")
    desk.ack(frame, body=b"-NAK")
    (again,) = desk.take()
    assert again.numbers[:2] == [2, 3]
    assert desk.events[-1] == (
        "CONSUMER.MSG_NAKED.S.C", "nak",
        {"stream": "S", "consumer": "C", "consumer_seq": 3, "stream_seq": 3, "deliveries": 1},
    )  # fmt: skip


@pytest.mark.parametrize("body", [b'-NAK {"delay": 5000000000}', b"-NAK 5s"])
def test_a_negative_one_with_a_delay(body: bytes) -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND)
    desk.fill(1)
    (frame,) = desk.pull()
    desk.pull(body="9")
    desk.ack(frame, body=body)
    desk.advance(4.9)
    assert desk.take() == []
    desk.advance(0.2)
    assert sequences(desk.take()) == [1]


def test_a_delay_that_is_none_counts_as_no_delay() -> None:
    desk = Desk()
    desk.open()
    desk.fill(1)
    (frame,) = desk.pull()
    desk.pull()
    desk.ack(frame, body=b"-NAK {bad")
    assert sequences(desk.take()) == [1]


def test_progress_resets_the_wait() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND)
    desk.fill(1)
    (frame,) = desk.pull()
    desk.pull(body="9")
    for _ in range(3):
        desk.advance(0.9)
        desk.ack(frame, body=b"+WPI")
    assert desk.take() == []
    desk.advance(1.1)
    assert sequences(desk.take()) == [1]


def test_terminated_with_a_reason() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND)
    desk.fill(1)
    (frame,) = desk.pull()
    desk.ack(frame, body=b"+TERM  no good ", reply=b"r")
    assert len(desk.take("r")) == 1
    desk.advance(5)
    assert desk.pull(body='{"no_wait":true}') != []
    suffix, kind, fields = desk.events[-1]
    assert (suffix, kind, fields["reason"]) == ("CONSUMER.MSG_TERMINATED.S.C", "terminated", "no good")


def test_next_acknowledges_and_asks() -> None:
    desk = Desk()
    desk.open()
    desk.fill(4)
    (frame,) = desk.pull()
    desk.ack(frame, body=b"+NXT", reply=b"n")
    (frame,) = desk.take("n")
    desk.ack(frame, body=b'+NXT {"batch":2}', reply=b"n")
    assert sequences(desk.take("n")) == [3, 4]
    assert floors(desk) == (4, 2)


def test_one_acknowledgement_for_all_before_it() -> None:
    desk = Desk()
    desk.open(ack_policy=AckPolicy.ALL, ack_wait=SECOND)
    desk.fill(5)
    frames = desk.pull(body="5")
    desk.ack(frames[3])
    assert floors(desk) == (5, 4)
    assert desk.consumer.info()["num_ack_pending"] == 1
    desk.pull(body="9")
    desk.advance(1.1)
    assert sequences(desk.take()) == [5]


def test_without_acknowledgement() -> None:
    desk = Desk()
    desk.open(ack_policy=AckPolicy.NONE, max_ack_pending=0)
    desk.fill(3)
    frames = desk.pull(body="3")
    desk.ack(frames[0], reply=b"r")
    desk.ack(frames[0], body=b"-NAK", reply=b"r")
    assert [frame.headers for frame in desk.take("r")] == [b"NATS/1.0 503\r\n\r\n"] * 2  # nobody takes them
    assert floors(desk) == (3, 3)


def test_the_last_delivery_is_told() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND, max_deliver=2)
    desk.fill(1)
    desk.pull()
    desk.advance(1.1)
    assert len(desk.pull()) == 1
    desk.advance(1.1)
    desk.pull(body='{"no_wait":true}')
    desk.pull()
    told = {"stream": "S", "consumer": "C", "stream_seq": 1, "deliveries": 2}
    assert desk.events == [("CONSUMER.MAX_DELIVERIES.S.C", "max_deliver", told)]
    assert desk.consumer.info()["num_ack_pending"] == 0


def test_a_single_delivery() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND, max_deliver=1)
    desk.fill(2)
    desk.pull()
    desk.advance(1.1)
    assert desk.kinds == ["max_deliver"]
    assert sequences(desk.pull()) == [2]
    assert desk.consumer.info()["num_redelivered"] == 0


def test_growing_waits() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND, backoff=[SECOND, 3 * SECOND, 5 * SECOND], max_deliver=9)
    desk.fill(1)
    desk.pull(body="9")
    desk.take()
    times = []
    for _ in range(200):
        desk.advance(0.1)
        times += [round((desk.host.now - frame.numbers[3]) / SECOND, 1) for frame in desk.take()]
    assert times == pytest.approx([1.1, 4.1, 9.1, 14.1, 19.1], abs=0.11)


def test_the_shortest_wait_comes_first() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND, backoff=[SECOND, 60 * SECOND], max_deliver=9)
    desk.publish("s.a")
    desk.pull(body="9")
    desk.advance(1.1)
    desk.take()
    desk.publish("s.b")
    desk.take()
    desk.advance(1.1)
    assert sequences(desk.take()) == [2]


def test_a_sample_of_acknowledgements() -> None:
    desk = Desk()
    desk.open(sample_freq="100%")
    desk.fill(1)
    (frame,) = desk.pull()
    desk.host.now += 5 * MS
    desk.ack(frame)
    suffix, kind, fields = desk.events[-1]
    assert (suffix, kind, fields["ack_time"]) == ("CONSUMER.ACK.S.C", "consumer_ack", 5 * MS)


def test_a_deleted_message_is_pending_no_more() -> None:
    desk = Desk()
    desk.open()
    desk.fill(3)
    desk.pull(body="2")
    desk.delete(1)
    assert desk.consumer.info()["num_ack_pending"] == 1
    assert desk.events[-1][2]["reason"] == "Unacknowledged message was deleted"
    assert floors(desk) == (2, 1)
    desk.delete(3)
    assert desk.consumer.info()["num_pending"] == 0


def test_a_purge() -> None:
    desk = Desk()
    desk.open()
    desk.fill(5)
    desk.pull(body="2")
    desk.stream.log.purge()
    desk.stream.epoch += 1
    desk.consumer.purged(6, 5)
    assert floors(desk) == (5, 5)
    assert desk.consumer.info()["num_pending"] == 0
    desk.publish("s.a")
    assert sequences(desk.pull()) == [6]


def test_a_work_queue_loses_what_is_acknowledged() -> None:
    desk = Desk(retention=RetentionPolicy.WORKQUEUE)
    desk.open()
    desk.fill(3)
    frames = desk.pull(body="3")
    desk.ack(frames[0], frames[2])
    assert desk.stream.removed == [1, 3]
    assert desk.consumer.needs(2)
    assert not desk.consumer.needs(1)


def test_a_reset_goes_back_to_the_floor() -> None:
    desk = Desk()
    desk.open()
    desk.fill(4)
    frames = desk.pull(body="4")
    desk.ack(frames[0])
    assert desk.consumer.reset() == 2
    assert desk.consumer.info()["num_ack_pending"] == 0
    assert [frame.numbers[:3] for frame in desk.pull(body="9")] == [[1, 2, 1], [1, 3, 2], [1, 4, 3]]


def test_a_pending_message_that_its_subject_lost_is_forgotten_however_many_went_before() -> None:
    desk = Desk(max_msgs_per_subject=1)
    desk.open()
    desk.fill(12_002)
    desk.stream.log.remove(range(2, 12_001))
    assert sequences(desk.pull(body="5")) == [1, 12_001, 12_002]
    desk.stream.log.remove([12_002])
    desk.stream.epoch += 1
    assert desk.consumer.info()["num_ack_pending"] == 2
