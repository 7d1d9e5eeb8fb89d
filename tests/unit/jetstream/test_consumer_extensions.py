"""What consumers can be told in their metadata: keyed order and dead letters."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_harness import SECOND, Desk, sequences

from headrace.core.service import Delivery
from headrace.jetstream.consumer import keyed_order as ordering
from headrace.jetstream.consumer.extensions import check_extensions, extensions_of
from headrace.protocol.jetstream.configs import AckPolicy, ConsumerConfig, DeliverPolicy
from headrace.protocol.jetstream.errors import ApiError

PER_SUBJECT = "headrace.max_ack_pending_per_subject"
TOKEN = "headrace.order_token"
DEAD = "headrace.dead_letter_subject"


def config(metadata: dict[str, str], **rest: Any) -> ConsumerConfig:
    return ConsumerConfig(metadata=metadata, **{"ack_policy": AckPolicy.EXPLICIT, **rest})


def test_other_metadata_is_nobodys_business() -> None:
    assert extensions_of(config({"team": "x", "headracing": "1"})) == (0, 0, "")


@pytest.mark.parametrize(
    ("metadata", "rest"),
    [
        ({PER_SUBJECT: "0"}, {}),
        ({PER_SUBJECT: "-1"}, {}),
        ({PER_SUBJECT: "1.5"}, {}),
        ({PER_SUBJECT: ""}, {}),
        ({PER_SUBJECT: "٣"}, {}),
        ({PER_SUBJECT: "65536"}, {}),
        ({PER_SUBJECT: "9" * 5000}, {}),
        ({PER_SUBJECT: "1"}, {"ack_policy": AckPolicy.ALL}),
        ({PER_SUBJECT: "1"}, {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT}),
        ({TOKEN: "2"}, {}),
        ({PER_SUBJECT: "1", TOKEN: "x"}, {}),
        ({DEAD: ""}, {}),
        ({DEAD: "a b"}, {}),
        ({DEAD: "a.*"}, {}),
        ({DEAD: "$JS.API.x"}, {}),
        ({DEAD: "dead"}, {"ack_policy": AckPolicy.NONE}),
        ({"headrace.else": "1"}, {}),
    ],
)
def test_what_cannot_be_is_refused(metadata: dict[str, str], rest: dict[str, Any]) -> None:
    with pytest.raises(ApiError, match=r"metadata headrace\.") as caught:
        check_extensions(config(metadata, **rest), ["s.>"])
    assert caught.value.err_code == 10094


def test_a_consumer_does_not_get_its_own_dead_letters() -> None:
    with pytest.raises(ApiError, match="its own dead letters"):
        check_extensions(config({DEAD: "s.dead"}), ["s.>"])
    check_extensions(config({DEAD: "s.dead"}, filter_subject="s.work"), ["s.>"])
    check_extensions(config({DEAD: "dead"}), ["s.>"])


# -- keyed order -----------------------------------------------------------------------------------------


def test_one_of_a_subject_at_a_time() -> None:
    desk = Desk()
    desk.open(metadata={PER_SUBJECT: "1"})
    desk.publish("s.a", "s.a", "s.b", "s.a", "s.b", "s.c")
    frames = desk.pull(body="9")
    assert sequences(frames) == [1, 3, 6]
    assert desk.consumer.info()["num_pending"] == 3
    desk.ack(frames[0])
    (frame,) = desk.take()
    assert frame.sequence == 2
    assert frame.numbers[-1] == 2
    desk.ack(frames[1], frame)
    assert sequences(desk.take()) == [4, 5]
    assert desk.consumer.info()["num_pending"] == 0


def test_a_share_of_two() -> None:
    desk = Desk()
    desk.open(metadata={PER_SUBJECT: "2"})
    desk.publish(*["s.a"] * 4, "s.b")
    assert sequences(desk.pull(body="9")) == [1, 2, 5]


def test_a_token_is_the_key() -> None:
    desk = Desk()
    desk.open(metadata={PER_SUBJECT: "1", TOKEN: "2"})
    desk.publish("s.a.x", "s.a.y", "s.b.x", "s")
    assert sequences(desk.pull(body="9")) == [1, 3, 4]


def test_what_comes_again_keeps_its_place() -> None:
    desk = Desk()
    desk.open(metadata={PER_SUBJECT: "1"}, ack_wait=SECOND)
    desk.publish("s.a", "s.a")
    (frame,) = desk.pull(body="9")
    desk.advance(1.1)
    (again,) = desk.take()
    assert (again.sequence, again.numbers[0]) == (1, 2)
    desk.ack(frame)
    assert sequences(desk.take()) == [2]


def test_what_was_passed_over_survives_a_restart() -> None:
    desk = Desk()
    desk.open(metadata={PER_SUBJECT: "1"})
    desk.publish("s.a", "s.a", "s.b", "s.a")
    frames = desk.pull(body="9")
    desk.ack(frames[1])
    floor = desk.consumer.info()["ack_floor"]
    assert floor["stream_seq"] == 0  # type: ignore[index]
    desk.reopen()
    assert desk.consumer.info()["num_pending"] == 2
    assert desk.pull(body="9") == []
    desk.ack(frames[0])
    (frame,) = desk.take()
    assert frame.sequence == 2
    desk.ack(frame)
    (frame,) = desk.take()
    desk.ack(frame)
    info = desk.consumer.info()
    assert info["ack_floor"]["stream_seq"] == 4  # type: ignore[index]
    assert info["num_pending"] == 0


def test_only_so_much_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "MOST_PASSED_OVER", 5)
    desk = Desk()
    desk.open(metadata={PER_SUBJECT: "1"})
    desk.fill(20)
    desk.publish("s.b")
    (frame,) = desk.pull(body="50")
    assert len(desk.consumer.state.held) == 5
    for sequence in range(2, 16):
        desk.ack(frame)
        (frame,) = desk.take()
        assert frame.sequence == sequence
    desk.ack(frame)
    assert sequences(desk.take()) == [16, 21]


def test_a_deleted_message_frees_its_subject() -> None:
    desk = Desk()
    desk.open(metadata={PER_SUBJECT: "1"})
    desk.publish("s.a", "s.a", "s.a")
    desk.pull(body="9")
    desk.delete(2)
    desk.delete(1)
    assert sequences(desk.take()) == [3]


def test_a_push_consumer_in_order() -> None:
    desk = Desk()
    desk.open(metadata={PER_SUBJECT: "1"}, deliver_subject="d")
    desk.publish("s.a", "s.a", "s.b")
    frames = desk.take("d")
    assert sequences(frames) == [1, 3]
    desk.ack(frames[0])
    assert sequences(desk.take("d")) == [2]


# -- dead letters ----------------------------------------------------------------------------------------


def test_a_message_that_is_given_up_goes_to_the_dead_letters() -> None:
    desk = Desk()
    desk.open(metadata={DEAD: "dead"}, ack_wait=SECOND, max_deliver=1)
    desk.publish("s.a", payload=b"hi", headers=b"NATS/1.0\r\nNats-Msg-Id: 7\r\nA: b\r\n\r\n")
    desk.pull()
    desk.advance(1.1)
    (letter,) = desk.take("dead")
    assert letter.payload == b"hi"
    assert b"\r\nA: b\r\n" in letter.headers
    assert b"Nats-Msg-Id: 7\r\n" not in letter.headers
    said = {
        "Headrace-Stream": "S", "Headrace-Consumer": "C", "Headrace-Subject": "s.a", "Headrace-Sequence": "1",
        "Headrace-Deliveries": "1", "Headrace-Reason": "max_deliver",
    }  # fmt: skip
    assert {name: letter.header(name) for name in said} == said
    assert desk.consumer.info()["num_ack_pending"] == 1
    answer(desk, letter.reply, b'{"stream":"DEAD","seq":1}')
    assert desk.consumer.info()["num_ack_pending"] == 0
    assert desk.kinds == ["max_deliver"]


def test_a_letter_that_is_not_stored_is_sent_again() -> None:
    desk = Desk()
    desk.open(metadata={DEAD: "dead"}, ack_wait=SECOND, max_deliver=1)
    desk.publish("s.a")
    desk.pull()
    desk.host.deaf.add(b"dead")
    desk.advance(1.1)
    desk.host.deaf.clear()
    desk.advance(5)
    (letter,) = desk.take("dead")
    answer(desk, letter.reply, b'{"error":{"code":503},"stream":"DEAD","seq":0}')
    desk.advance(5)
    (same,) = desk.take("dead")
    assert same.header("Nats-Msg-Id") == letter.header("Nats-Msg-Id")
    answer(desk, same.reply, b'{"stream":"DEAD","seq":1,"duplicate":true}')
    answer(desk, same.reply, b'{"stream":"DEAD","seq":1}')
    desk.advance(20)
    assert desk.take("dead") == []
    assert desk.kinds == ["max_deliver"]


def test_a_terminated_message_is_answered_when_its_letter_is_safe() -> None:
    desk = Desk()
    desk.open(metadata={DEAD: "dead"})
    desk.publish("s.a")
    (frame,) = desk.pull()
    desk.ack(frame, body=b"+TERM bad\r\nX: y", reply=b"r")
    (letter,) = desk.take("dead")
    assert letter.header("Headrace-Reason") == "bad X: y"
    assert desk.take("r") == []
    answer(desk, letter.reply, b'{"stream":"DEAD","seq":1}')
    assert len(desk.take("r")) == 1
    assert desk.consumer.info()["num_ack_pending"] == 0


def test_a_message_on_its_way_out_does_not_come_again() -> None:
    desk = Desk()
    desk.open(metadata={DEAD: "dead"}, ack_wait=SECOND)
    desk.publish("s.a")
    (frame,) = desk.pull()
    desk.ack(frame, body=b"+TERM")
    desk.pull(body="9")
    desk.advance(3)
    assert desk.take() == []


def answer(desk: Desk, inbox: bytes, body: bytes) -> None:
    desk.routes[inbox.rpartition(b".")[0] + b".*"](Delivery(1, inbox, b"", b"", body))
    desk.turns.settle()
