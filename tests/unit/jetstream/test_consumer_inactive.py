"""Consumers that nobody uses any more."""

from __future__ import annotations

import msgspec
from consumer_harness import SECOND, Desk


def test_a_pull_consumer_that_is_not_asked() -> None:
    desk = Desk()
    desk.open(durable_name="", inactive_threshold=3 * SECOND)
    desk.advance(2.9)
    desk.pull(body='{"no_wait":true}')
    desk.advance(2.9)
    assert desk.gone == []
    desk.advance(2)
    assert [reason for _, reason in desk.gone] == ["inactive"]


def test_a_request_that_waits_is_use() -> None:
    desk = Desk()
    desk.open(durable_name="", inactive_threshold=SECOND)
    desk.pull("a")
    desk.advance(30)
    assert desk.gone == []
    desk.host.deaf.add(b"a")
    desk.advance(5)
    assert len(desk.gone) == 1


def test_work_on_what_was_delivered_is_use() -> None:
    desk = Desk()
    desk.open(durable_name="", inactive_threshold=SECOND, ack_wait=10 * SECOND)
    desk.fill(1)
    desk.pull()
    desk.advance(9)
    assert desk.gone == []
    desk.advance(25)
    assert len(desk.gone) == 1


def test_a_durable_stays_unless_told_otherwise() -> None:
    desk = Desk()
    desk.open()
    desk.advance(3600)
    assert desk.gone == []
    desk.consumer.update(msgspec.structs.replace(desk.consumer.config, inactive_threshold=SECOND))
    desk.advance(3)
    assert len(desk.gone) == 1


def test_a_push_consumer_gets_its_time_from_when_its_listener_left() -> None:
    desk = Desk()
    desk.open(durable_name="", deliver_subject="d", inactive_threshold=2 * SECOND)
    desk.advance(10.9)
    desk.host.deaf.add(b"d")
    desk.advance(2)
    assert desk.gone == []
    desk.advance(1.2)
    assert len(desk.gone) == 1


def test_nothing_rings_after_the_end() -> None:
    desk = Desk()
    consumer = desk.open(durable_name="", deliver_subject="d", idle_heartbeat=SECOND, ack_wait=SECOND)
    desk.fill(3)
    consumer.stop("deleted")
    desk.take("d")
    desk.advance(60)
    assert desk.take("d") == []
    assert desk.gone == []
    assert not consumer.serve()
