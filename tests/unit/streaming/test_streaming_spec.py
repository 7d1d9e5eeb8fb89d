"""Rows of the streaming specification that no other module here proves; the number is the section's."""

from __future__ import annotations

import pytest
from stan_harness import World

from headrace.conf.streaming_options import StoreLimits, StreamingOptions
from headrace.protocol.stan import ConnectRequest, ConnectResponse, PubAck, PubMsg, StartPosition


@pytest.fixture
def world() -> World:
    world = World()
    world.connect()
    return world


def test_2_another_discover_prefix_moves_discovery_and_pings_only() -> None:
    world = World(StreamingOptions(discover_prefix="find.me"))
    request = ConnectRequest(b"me", b"_HB.me", 1, b"c", 5, 3)

    answer = world.request(b"find.me.test-cluster", request.encode(), ConnectResponse)

    assert (answer.ping_requests, answer.pub_prefix) == (
        b"find.me.test-cluster.pings",
        b"_STAN.pub.test-cluster",
    )


def test_2_every_subscription_has_an_ack_inbox_of_its_own(world: World) -> None:
    subs = [world.subscribe(b"foo") for _ in range(3)]

    assert len({sub.ack_inbox for sub in subs}) == 3
    assert all(sub.ack_inbox.startswith(b"_INBOX.") for sub in subs)
    world.publish(b"foo", b"x")
    world.ack(subs[1], 1)
    assert [world.pending(sub) for sub in subs] == [1, 0, 1]


def test_2_answers_go_to_the_reply_subject_with_the_guid(world: World) -> None:
    for guid, reply in ((b"one", b"reply.1"), (b"two", b"reply.2")):
        world.send(b"_STAN.pub.test-cluster.foo", PubMsg(b"me", guid, b"foo").encode(), reply)
    world.settle()

    assert [PubAck.decode(payload).guid for payload in world.take(b"reply.2")] == [b"two"]
    assert [PubAck.decode(payload).guid for payload in world.take(b"reply.1")] == [b"one"]


def test_4_data_may_be_empty(world: World) -> None:
    sub = world.subscribe(b"foo")

    assert world.publish(b"foo", b"") == [b""]
    assert [(message.sequence, message.data) for message in world.received(sub)] == [(1, b"")]


def test_4_a_deleted_channel_begins_anew() -> None:
    world = World(StreamingOptions(limits=StoreLimits(max_inactivity=5)))
    world.connect()
    world.publish(b"foo", b"1", b"2")
    world.advance(6)
    assert world.service.channel_names() == []

    assert world.publish(b"foo", b"3") == [b""]
    assert world.sequences(world.subscribe(b"foo", start=StartPosition.FIRST)) == [1]


def test_5_limits_refuse_subscriptions() -> None:
    world = World(StreamingOptions(limits=StoreLimits(max_channels=1, max_subscriptions=1)))
    world.connect()
    world.subscribe(b"foo")

    assert world.refused(b"foo") == b"too many subscriptions per channel"
    assert world.refused(b"bar") == b"too many channels"


def test_5_checks_are_made_in_their_order() -> None:
    """Each wish is wrong in what it names and in everything after it."""
    world = World(StreamingOptions(limits=StoreLimits(max_channels=1, max_subscriptions=1)))
    world.connect()
    world.subscribe(b"foo")
    wishes: dict[str, object] = {"client_id": b"", "ack_wait": 0, "max_in_flight": 0, "start": 9}
    wishes |= {"queue": b"q", "durable": b"a:b"}
    right = [("client_id", b"nobody"), ("ack_wait", 1), ("max_in_flight", 1), ("start", 0)]
    errors = [world.refused(b"a..b", **wishes)]
    for name, value in right:
        wishes[name] = value
        errors.append(world.refused(b"a..b", **wishes))
    errors.append(world.refused(b"foo", **wishes))
    wishes["client_id"] = b"me"
    errors.append(world.refused(b"foo", **wishes))

    assert errors == [
        b"stan: clientID missing",
        b"stan: invalid ack wait time, should be >= 1s",
        b"stan: invalid MaxInflight, should be >= 1",
        b"stan: invalid start position",
        b"stan: invalid subject",
        b"stan: unknown clientID",
        b"too many subscriptions per channel",
    ]


def test_5_a_reopened_durable_ignores_the_start_and_takes_the_rest(world: World) -> None:
    sub = world.subscribe(b"foo", durable=b"d", max_in_flight=10, ack_wait=30)
    world.publish(b"foo", b"1", b"2")
    world.ack(sub, 1, 2)
    world.close_sub(sub)
    world.publish(b"foo", b"3", b"4")

    again = world.subscribe(b"foo", durable=b"d", max_in_flight=1, ack_wait=2, start=StartPosition.FIRST)

    assert again.inbox != sub.inbox
    assert world.sequences(again) == [3]  # where it was, one at a time
    world.advance(2)
    assert world.sequences(again) == [3]  # after the new wait
    assert world.sequences(sub) == [1, 2]  # what came before; nothing goes there any more


def test_6_the_count_of_redeliveries_begins_anew_after_a_restart(world: World) -> None:
    sub = world.subscribe(b"foo", ack_wait=1)
    world.publish(b"foo", b"x")
    world.advance(3)
    assert [message.redelivery_count for message in world.received(sub)] == [0, 1, 2, 3]

    world.restart()
    world.advance(1)

    counts = [message.redelivery_count for message in world.received(sub)]
    assert counts[:2] == [1, 2]
