"""Push consumers: who listens, flow control, heartbeats, the pace."""

from __future__ import annotations

from consumer_harness import SECOND, Desk, sequences, statuses

from headrace.core.service import Delivery
from headrace.protocol.jetstream.configs import AckPolicy, DeliverPolicy, ReplayPolicy

NONE = {"ack_policy": AckPolicy.NONE, "deliver_subject": "d"}


def test_messages_go_to_the_deliver_subject() -> None:
    desk = Desk()
    desk.open(**NONE)
    desk.publish("s.a", payload=b"hi")
    (frame,) = desk.take("d")
    assert (frame.subject, frame.payload) == (b"s.a", b"hi")
    assert frame.reply == b"$JS.ACK.S.C.1.1.1.%d.0" % desk.host.now
    assert desk.consumer.info()["push_bound"] is True


def test_nothing_is_sent_while_nobody_listens() -> None:
    desk = Desk()
    desk.host.deaf.add(b"d")
    desk.open(**NONE)
    desk.fill(3)
    assert "push_bound" not in desk.consumer.info()
    desk.host.deaf.clear()
    desk.advance(0.3)
    assert sequences(desk.take("d")) == [1, 2, 3]


def test_heartbeats_while_nothing_is_sent() -> None:
    desk = Desk()
    desk.open(**NONE, idle_heartbeat=SECOND)
    desk.fill(2)
    desk.take("d")
    desk.advance(2.1)
    frames = desk.take("d")
    assert [frame.headers for frame in frames] == [
        b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n"
    ] * 2
    desk.host.deaf.add(b"d")
    desk.advance(3)
    assert desk.take("d") == []


def test_flow_control() -> None:
    desk = Desk()
    desk.open(**NONE, idle_heartbeat=SECOND, flow_control=True)
    desk.fill(40, payload=b"x" * 100_000)
    desk.advance(0.1)
    frames = desk.take("d")
    asked = [frame for frame in frames if frame.status]
    assert statuses(frames) == ["100 FlowControl Request"]
    assert asked[0].reply.startswith(b"$JS.FC.S.C.")
    got = sequences(frames)
    assert 20 <= len(got) < 40  # a window of 2 MB
    desk.advance(1.5)
    (beat,) = desk.take("d")
    assert beat.header("Nats-Consumer-Stalled") == asked[0].reply.decode()
    desk.consumer.acknowledger.flow_response(_delivery(b"$JS.FC.S.C.zzzz"))
    desk.turns.settle()
    assert desk.take("d") == []
    desk.consumer.acknowledger.flow_response(_delivery(asked[0].reply))
    desk.turns.settle()
    desk.advance(0.1)
    assert got + sequences(desk.take("d")) == list(range(1, 41))


def _delivery(subject: bytes) -> Delivery:
    return Delivery(1, subject, b"", b"", b"")


def test_a_slow_reader_is_waited_for() -> None:
    desk = Desk()
    desk.open(**NONE)
    desk.host.waits[b"d"] = 64 << 20
    desk.fill(3)
    assert desk.take("d") == []
    desk.host.waits.clear()
    desk.advance(0.1)
    assert sequences(desk.take("d")) == [1, 2, 3]


def test_a_rate() -> None:
    desk = Desk(max_msg_size=1000)
    desk.open(**NONE, rate_limit_bps=8000)
    desk.fill(5, payload=b"x" * 900)
    assert 1 <= len(desk.take("d")) <= 2
    desk.advance(2.5)
    assert 2 <= len(desk.take("d")) <= 3


def test_the_original_pace() -> None:
    desk = Desk()
    desk.open()
    desk.publish("s.a")
    desk.advance(1)
    desk.publish("s.a")
    desk.publish("s.a")
    desk.advance(2)
    desk.publish("s.a")
    desk.consumer.stop("shutdown")
    desk.open(**NONE, replay_policy=ReplayPolicy.ORIGINAL)
    assert sequences(desk.take("d")) == [1]
    desk.advance(0.99)
    assert desk.take("d") == []
    desk.advance(0.02)
    assert sequences(desk.take("d")) == [2, 3]
    desk.advance(1.9)
    assert desk.take("d") == []
    desk.advance(0.2)
    assert sequences(desk.take("d")) == [4]
    desk.publish("s.a")
    assert sequences(desk.take("d")) == [5]


def test_unacknowledged_messages_stop_it() -> None:
    desk = Desk()
    desk.open(deliver_subject="d", max_ack_pending=2)
    desk.fill(5)
    frames = desk.take("d")
    assert sequences(frames) == [1, 2]
    desk.ack(*frames)
    assert sequences(desk.take("d")) == [3, 4]


def test_the_last_of_each_subject_first() -> None:
    desk = Desk()
    desk.open()
    desk.publish("s.a", "s.b", "s.a", "s.c", "s.b")
    desk.consumer.stop("shutdown")
    desk.open(**NONE, deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.>")
    frames = desk.take("d")
    assert sequences(frames) == [3, 4, 5]
    assert [frame.numbers[-1] for frame in frames] == [2, 1, 0]
    desk.publish("s.a")
    assert sequences(desk.take("d")) == [6]


def test_another_deliver_subject_gets_what_was_pending() -> None:
    import msgspec

    desk = Desk()
    desk.open(deliver_subject="d")
    desk.fill(2)
    assert sequences(desk.take("d")) == [1, 2]
    desk.consumer.update(msgspec.structs.replace(desk.consumer.config, deliver_subject="e"))
    desk.turns.settle()
    assert sequences(desk.take("e")) == [1, 2]


def test_a_consumer_that_nobody_listens_to_goes() -> None:
    desk = Desk()
    desk.open(**NONE, durable_name="")
    desk.advance(60)
    assert desk.gone == []
    desk.host.deaf.add(b"d")
    desk.advance(5)
    assert desk.gone == []
    desk.advance(3.1)
    assert [reason for _, reason in desk.gone] == ["inactive"]


def test_flow_control_acknowledges() -> None:
    desk = Desk()
    desk.open(
        ack_policy=AckPolicy.FLOW_CONTROL, deliver_subject="d", flow_control=True, idle_heartbeat=SECOND,
        ack_wait=0, max_ack_pending=3, max_deliver=0,
    )  # fmt: skip
    desk.fill(5)
    desk.advance(0.1)
    frames = desk.take("d")
    assert sequences(frames) == [1, 2, 3]  # as many as may be; then it asks
    (asked,) = [frame for frame in frames if frame.status]
    headers = b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n"
    desk.consumer.acknowledger.flow_response(Delivery(1, asked.reply, b"", headers, b""))
    desk.turns.settle()
    assert sequences(desk.take("d")) == [4, 5]
    assert desk.consumer.info()["ack_floor"] == {
        "consumer_seq": 2, "stream_seq": 2, "last_active": "2023-11-14T22:13:20.1Z",
    }  # fmt: skip
    assert desk.consumer.info()["num_ack_pending"] == 3


def test_flow_control_asks_for_the_rest_at_the_end_of_the_stream() -> None:
    desk = Desk()
    desk.open(
        ack_policy=AckPolicy.FLOW_CONTROL, deliver_subject="d", flow_control=True, idle_heartbeat=SECOND,
        ack_wait=0, max_ack_pending=100, max_deliver=0,
    )  # fmt: skip
    desk.fill(2)
    assert statuses(desk.take("d")) == []
    desk.advance(1.1)
    frames = desk.take("d")
    assert statuses(frames) == ["100 Idle Heartbeat", "100 FlowControl Request"]
    headers = b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n"
    desk.consumer.acknowledger.flow_response(Delivery(1, frames[1].reply, b"", headers, b""))
    assert desk.consumer.info()["num_ack_pending"] == 0


def test_a_sourcing_consumer_begins_anew_where_it_is_safe() -> None:
    desk = Desk()
    desk.open(
        ack_policy=AckPolicy.FLOW_CONTROL, deliver_subject="d", flow_control=True, idle_heartbeat=SECOND,
        ack_wait=0, max_ack_pending=100, max_deliver=0, sourcing=True,
    )  # fmt: skip
    desk.fill(3)
    assert sequences(desk.take("d")) == [1, 2, 3]
    desk.reopen()
    assert [frame.numbers[:3] for frame in desk.take("d")] == [[1, 1, 1], [1, 2, 2], [1, 3, 3]]


def test_a_last_message_that_is_gone_before_its_turn() -> None:
    desk = Desk()
    desk.open()
    desk.publish("s.a", "s.b", "s.c", "s.c")
    desk.consumer.stop("shutdown")
    desk.host.deaf.add(b"d")
    desk.open(**NONE, deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.>")
    assert desk.consumer.info()["num_pending"] == 3
    desk.delete(2)
    assert desk.consumer.info()["num_pending"] == 2
    desk.delete(1)
    desk.delete(4)
    assert desk.consumer.info()["num_pending"] == 0
    desk.host.deaf.clear()
    desk.publish("s.a")
    desk.advance(0.3)
    assert sequences(desk.take("d")) == [5]
