"""Priority groups: overflow, the pinned client, priorities."""

from __future__ import annotations

from consumer_harness import SECOND, Desk, sequences, statuses
from msgspec.structs import replace

from headrace.jetstream.consumer.pull_delivery import PullDelivery
from headrace.protocol.jetstream.configs import PriorityPolicy
from headrace.protocol.jetstream.times import ZERO

OVERFLOW = {"priority_policy": PriorityPolicy.OVERFLOW, "priority_groups": ["g"]}
PINNED = {
    "priority_policy": PriorityPolicy.PINNED_CLIENT,
    "priority_groups": ["g"],
    "priority_timeout": 3 * SECOND,
}
PRIORITIZED = {"priority_policy": PriorityPolicy.PRIORITIZED, "priority_groups": ["g"]}


def test_a_request_must_name_the_group() -> None:
    desk = Desk()
    desk.open(**OVERFLOW)
    assert statuses(desk.pull(body='{"batch":1}')) == ["400 Bad Request - Priority Group missing"]
    assert statuses(desk.pull(body='{"batch":1,"group":"x"}')) == ["400 Bad Request - Invalid Priority Group"]
    assert desk.pull(body='{"batch":1,"group":"g"}') == []


def test_overflow_by_what_is_pending() -> None:
    desk = Desk()
    desk.open(**OVERFLOW)
    desk.fill(2)
    assert desk.pull(body='{"batch":9,"group":"g","min_pending":4}') == []
    desk.fill(1)
    assert desk.take() == []
    desk.fill(2)
    assert sequences(desk.take()) == [1, 2]
    assert sequences(desk.pull("j", '{"batch":1,"group":"g"}')) == [3]


def test_overflow_by_what_is_unacknowledged() -> None:
    desk = Desk()
    desk.open(**OVERFLOW)
    desk.fill(4)
    assert desk.pull("o", '{"batch":9,"group":"g","min_ack_pending":2}') == []
    assert sequences(desk.pull("a", '{"batch":2,"group":"g"}')) == [1, 2]
    assert sequences(desk.take("o")) == [3, 4]


def test_one_client_is_pinned() -> None:
    desk = Desk()
    desk.open(**PINNED)
    desk.fill(2)
    frames = desk.pull("a", '{"batch":1,"group":"g"}')
    pin = frames[0].header("Nats-Pin-Id")
    assert pin
    assert desk.kinds == ["consumer_group_pinned"]
    assert desk.pull("b", '{"batch":1,"group":"g"}') == []
    assert statuses(desk.pull("c", '{"batch":1,"group":"g","id":"zz"}')) == ["423 Nats-Pin-Id mismatch"]
    assert sequences(desk.pull("a", f'{{"batch":1,"group":"g","id":"{pin}"}}')) == [2]
    assert desk.take("b") == []
    groups = desk.consumer.info()["priority_groups"]
    assert groups[0]["pinned_client_id"] == pin  # type: ignore[index]


def test_another_is_pinned_when_the_first_is_silent() -> None:
    desk = Desk()
    desk.open(**PINNED)
    desk.fill(1)
    (frame,) = desk.pull("a", '{"batch":1,"group":"g"}')
    desk.pull("b", '{"batch":1,"group":"g"}')
    desk.fill(1)
    assert desk.take("b") == []
    desk.advance(3.1)
    assert desk.kinds == ["consumer_group_pinned", "consumer_group_unpinned", "consumer_group_pinned"]
    assert sequences(desk.take("b")) == [2]
    assert statuses(desk.pull("a", f'{{"batch":1,"group":"g","id":"{frame.header("Nats-Pin-Id")}"}}')) == [
        "423 Nats-Pin-Id mismatch"
    ]


def test_a_pin_is_taken_away() -> None:
    desk = Desk()
    desk.open(**PINNED)
    desk.fill(2)
    desk.pull("a", '{"batch":1,"group":"g"}')
    desk.pull("b", '{"batch":1,"group":"g"}')
    desk.consumer.delivery.unpin()
    desk.turns.settle()
    assert sequences(desk.take("b")) == [2]
    assert desk.events[-2][2]["reason"] == "admin"


def test_a_group_is_shown_and_changed_before_the_first_request() -> None:
    desk = Desk()
    desk.open(**PINNED)
    assert desk.consumer.info()["num_waiting"] == 0
    assert desk.consumer.info()["priority_groups"] == [{"group": "g", "pinned_ts": ZERO}]
    desk.consumer.delivery.unpin()
    desk.consumer.update(replace(desk.consumer.config, priority_groups=["h"]))
    assert desk.consumer.info()["priority_groups"] == [{"group": "h", "pinned_ts": ZERO}]
    assert statuses(desk.pull("a", '{"batch":1,"group":"g"}')) == ["400 Bad Request - Invalid Priority Group"]
    assert desk.pull("a", '{"batch":1,"group":"h"}') == []
    assert desk.consumer.info()["num_waiting"] == 1


def test_a_consumer_that_nobody_asked_is_stopped() -> None:
    desk = Desk()
    desk.open(**PINNED)
    desk.consumer.stop("shutdown")
    assert desk.host.sent == {}
    assert not desk.consumer.delivery.is_asked


def test_a_waiting_request_with_a_pin_of_old() -> None:
    desk = Desk()
    desk.open(**PINNED)
    desk.fill(1)
    (frame,) = desk.pull("a", '{"batch":1,"group":"g"}')
    desk.pull("a", f'{{"batch":5,"group":"g","id":"{frame.header("Nats-Pin-Id")}"}}')
    assert isinstance(desk.consumer.delivery, PullDelivery)
    desk.consumer.delivery.groups.unpin()
    desk.publish("s.a")
    frames = desk.take("a")
    assert statuses(frames) == ["423 Nats-Wrong-Pin-Id"]
    assert frames[0].header("Nats-Pending-Messages") == "5"


def test_the_lowest_priority_number_is_served_first() -> None:
    desk = Desk()
    desk.open(**PRIORITIZED)
    desk.pull("low", '{"batch":2,"group":"g","priority":5}')
    desk.pull("high", '{"batch":2,"group":"g","priority":1}')
    desk.pull("equal", '{"batch":2,"group":"g","priority":1}')
    desk.fill(5)
    assert sequences(desk.take("high")) == [1, 3]
    assert sequences(desk.take("equal")) == [2, 4]
    assert sequences(desk.take("low")) == [5]
