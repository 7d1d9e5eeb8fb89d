"""What both strategies of delivery keep alike, and what only the other one has."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_harness import SECOND, Desk, sequences, statuses

from headrace.core.service import Delivery
from headrace.protocol.jetstream.configs import AckPolicy

PULL: dict[str, Any] = {}
PUSH: dict[str, Any] = {"deliver_subject": "i", "idle_heartbeat": SECOND, "flow_control": True}
BOTH = pytest.mark.parametrize("kind", [PULL, PUSH], ids=["pull", "push"])


@BOTH
def test_messages_go_out_once_they_are_asked_for_and_acknowledged_ones_do_not_come_again(
    kind: dict[str, Any],
) -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND, **kind)
    desk.fill(2)
    frames = [one for one in desk.pull(body="2") + desk.take() if not one.status]
    assert sequences(frames) == [1, 2]
    desk.ack(frames[0])
    desk.advance(1.5)
    desk.pull(body="2")
    desk.advance(1.5)
    assert set(sequences(desk.take())) == {2}


@BOTH
def test_one_that_is_stopped_sends_nothing_and_leaves_no_timer(kind: dict[str, Any]) -> None:
    desk = Desk()
    consumer = desk.open(**kind)
    desk.pull(body=f'{{"batch":5,"expires":{9 * SECOND},"idle_heartbeat":{SECOND}}}')
    desk.fill(1)
    consumer.stop("shutdown")
    desk.take()
    desk.fill(1)
    desk.advance(30)
    assert desk.take() == []
    assert [timer for _, _, timer in desk.host.timers if timer.function is not None] == []


@BOTH
def test_answers_to_flow_control_that_nobody_asked_for_are_no_acknowledgements(kind: dict[str, Any]) -> None:
    desk = Desk()
    desk.open(**kind)
    desk.fill(1)
    desk.pull()
    headers = b"NATS/1.0\r\nNats-Last-Stream: 1\r\nNats-Last-Consumer: 1\r\n\r\n"
    desk.consumer.acknowledger.flow_response(Delivery(1, b"$JS.FC.S.C.abcd", b"", headers, b""))
    assert desk.consumer.info()["num_ack_pending"] == 1


@BOTH
def test_unpinning_where_there_is_no_group_is_told_nobody(kind: dict[str, Any]) -> None:
    desk = Desk()
    desk.open(**kind)
    desk.consumer.delivery.unpin()
    assert desk.events == []
    assert "priority_groups" not in desk.consumer.info()


def test_the_consumer_info_says_who_waits_or_listens() -> None:
    pulled, pushed = Desk(), Desk()
    pulled.open()
    pulled.pull()
    pushed.open(**PUSH)
    assert (pulled.consumer.info()["num_waiting"], "push_bound" in pulled.consumer.info()) == (1, False)
    assert (pushed.consumer.info()["num_waiting"], pushed.consumer.info()["push_bound"]) == (0, True)
    pushed.host.deaf.add(b"i")
    assert "push_bound" not in pushed.consumer.info()


def test_whoever_is_full_asks_by_flow_control_where_that_acknowledges() -> None:
    desk = Desk()
    desk.open(ack_policy=AckPolicy.FLOW_CONTROL, max_ack_pending=2, **PUSH)
    desk.fill(3)
    desk.advance(0)
    frames = desk.take()
    assert sequences(frames) == [1, 2]
    assert statuses(frames) == ["100 FlowControl Request"]
    headers = b"NATS/1.0\r\nNats-Last-Stream: 2\r\nNats-Last-Consumer: 2\r\n\r\n"
    desk.consumer.acknowledger.flow_response(Delivery(1, frames[-1].reply, b"", headers, b""))
    desk.turns.settle()
    assert sequences(desk.take())[:1] == [3]
