"""The service as a whole: log lines, monitoring snapshots, hostile input, deliveries it no longer wants."""

from __future__ import annotations

import logging
import random

import pytest
from stan_harness import DISCOVER, PINGS, World

from headrace.conf.streaming_options import StreamingOptions
from headrace.core.service import Delivery
from headrace.protocol.stan import Ack, ConnectRequest, PubMsg, SubscriptionRequest, UnsubscribeRequest


def _lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_the_start_is_logged_as_the_reference_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World(StreamingOptions(store_type="FILE", directory="data"))
    lines = _lines(caplog)
    assert lines[:6] == [
        "STREAM: Starting nats-streaming-server[test-cluster] version 0.25.6",
        f"STREAM: ServerID: {world.service.server_id}",
        "STREAM: Recovering the state...",
        "STREAM: No recovered state",
        "STREAM: Message store is FILE",
        "STREAM: Store location: data",
    ]
    assert lines[6] == "STREAM: ---------- Store Limits ----------"
    assert lines[-1] == "STREAM: Streaming Server is ready"
    world.connect()
    world.publish(b"foo", b"x")
    caplog.clear()
    world.restart()
    assert "STREAM: Recovered 1 channel(s)" in _lines(caplog)


def test_channels_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.connect()
    caplog.clear()
    world.publish(b"foo.bar", b"x")
    assert _lines(caplog) == ['STREAM: Channel "foo.bar" has been created']


def test_debug_and_trace_lines_are_the_services_own_flags(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    for options, expected in [
        (StreamingOptions(), set()),
        (StreamingOptions(stan_debug=True), {logging.DEBUG}),
        (StreamingOptions(stan_debug=True, stan_trace=True), {logging.DEBUG, 5}),
    ]:
        caplog.clear()
        world = World(options)
        world.connect()
        sub = world.subscribe(b"foo", durable=b"d", ack_wait=1)
        world.publish(b"foo", b"x")
        world.advance(1)
        world.ack(sub, 1)
        world.disconnect()
        assert {record.levelno for record in caplog.records} - {logging.INFO} == expected
    texts = [record.getMessage() for record in caplog.records]
    assert "STREAM: [Client:me] Connected (Inbox=_HB.me)" in texts
    inbox = sub.inbox.decode()
    rest = f"subject=foo, inbox={inbox}, durable=d, subid=1"
    assert f"STREAM: [Client:me] Started new durable subscription, {rest}" in texts
    assert "STREAM: [Client:me] Received message from publisher subj=foo guid=g0" in texts
    assert "STREAM: [Client:me] Delivering msg to subid=1, subject=foo, seq=1" in texts
    assert "STREAM: [Client:me] Redelivering msg to subid=1, subject=foo, seq=1" in texts
    assert "STREAM: [Client:me] Received ack for subid=1, subject=foo, seq=1" in texts
    assert f"STREAM: [Client:me] Suspended durable subscription, {rest}" in texts
    assert "STREAM: [Client:me] Closed (Inbox=_HB.me)" in texts


# -- monitoring (specification, 9) -------------------------------------------------------------------


def test_snapshots_of_server_and_store() -> None:
    world = World()
    world.connect()
    world.publish(b"foo", b"abc")
    world.advance(5)
    server = world.service.snapshot_server()
    assert (server.cluster_id, server.server_id) == ("test-cluster", world.service.server_id)
    assert (server.state, server.role, server.node_id) == ("STANDALONE", "", "")
    assert server.now_ns - server.start_time_ns == 5_000_000_000
    assert server.sync == "group"
    store = world.service.snapshot_store()
    assert (store.type, store.limits.max_channels) == ("MEMORY", 100)
    assert (store.total_msgs, store.total_bytes) == (server.total_msgs, server.total_bytes)
    assert store.total_bytes > 3


def test_snapshots_of_clients() -> None:
    world = World()
    world.connect(b"b")
    world.connect(b"a")
    sub = world.subscribe(b"foo", client_id=b"a", max_in_flight=1, ack_wait=7)
    world.publish(b"foo", b"x", client_id=b"a")
    assert [
        (one.id, one.hb_inbox, one.subs_count, one.subscriptions) for one in world.service.snapshot_clients()
    ] == [
        ("a", "_HB.a", 1, {}),
        ("b", "_HB.b", 0, {}),
    ]
    one = world.service.snapshot_client("a", subscriptions=True)
    assert one is not None
    (shown,) = one.subscriptions["foo"]
    assert (shown.client_id, shown.inbox, shown.ack_inbox) == (
        "a",
        sub.inbox.decode(),
        sub.ack_inbox.decode(),
    )
    assert (shown.max_inflight, shown.ack_wait, shown.last_sent, shown.pending_count) == (1, 7, 1, 1)
    assert (shown.is_stalled, shown.is_durable, shown.is_offline) == (True, False, False)
    assert (shown.durable_name, shown.queue_name) == ("", "")
    assert world.service.snapshot_client("who") is None


def test_snapshots_of_channels() -> None:
    world = World()
    world.connect()
    world.publish(b"foo", b"x", b"y")
    world.close_sub(world.subscribe(b"bar", queue=b"q", durable=b"d"))
    assert world.service.channel_names() == ["bar", "foo"]
    bar = world.service.snapshot_channel("bar", subscriptions=True)
    foo = world.service.snapshot_channel("foo", subscriptions=True)
    assert foo is not None
    assert bar is not None
    assert (foo.name, foo.msgs, foo.first_seq, foo.last_seq, foo.subs_count) == ("foo", 2, 1, 2, 0)
    assert (bar.name, bar.msgs, bar.first_seq, bar.last_seq, bar.subs_count) == ("bar", 0, 0, 0, 1)
    (shadow,) = bar.subscriptions
    assert (shadow.durable_name, shadow.queue_name, shadow.is_offline) == ("d", "d:q", True)
    assert world.service.snapshot_channel("none") is None


def test_a_channel_whose_name_is_no_utf_8_is_found_by_the_name_it_is_shown_as() -> None:
    world = World()
    world.connect()
    world.publish(b"a\xff", b"x")
    world.publish(b"a\\xff", b"x", b"y")  # the same to look at
    (shown, _) = world.service.channel_names()
    assert shown == "a\\xff"
    found = world.service.snapshot_channel(shown)
    assert found is not None
    assert found.msgs == 2  # the one that is really called so comes first
    world.publish(b"b\xff\xfe", b"x")
    found = world.service.snapshot_channel("b\\xff\\xfe", subscriptions=True)
    assert found is not None
    assert (found.name, found.msgs) == ("b\\xff\\xfe", 1)
    assert world.service.snapshot_channel("c\\xff") is None


# -- hostile input -----------------------------------------------------------------------------------


def test_deliveries_of_subscriptions_that_ended_are_dropped() -> None:
    world = World()
    world.connect()
    sub = world.subscribe(b"foo")
    sid = next(sid for sid, subject in world.host.subscriptions.items() if subject == sub.ack_inbox)
    world.unsubscribe(sub)
    world.service.deliver([Delivery(sid, sub.ack_inbox, b"", b"", Ack(b"foo", 1).encode())])
    assert world.publish(b"foo", b"x") == [b""]


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes_on_every_subject_never_raise_and_harm_nobody(seed: int) -> None:
    dice = random.Random(seed)
    world = World()
    world.connect()
    sub = world.subscribe(b"foo", durable=b"d", max_in_flight=10_000)
    good = [
        ConnectRequest(b"x", b"hb.x", 1, b"c", 5, 3).encode(),
        PubMsg(b"me", b"g", b"other", b"r", b"data", b"").encode(),
        SubscriptionRequest(b"me", b"foo", b"q", b"inbox", 1, 30, b"n", 4, 0, -(2**63)).encode(),
        UnsubscribeRequest(b"me", b"foo", b"inbox").encode(),
        Ack(b"foo", 2**64 - 1).encode(),
    ]
    subjects = [DISCOVER, PINGS, b"_STAN.pub.test-cluster.x", b"_STAN.sub.test-cluster",
                b"_STAN.unsub.test-cluster", b"_STAN.subclose.test-cluster", sub.ack_inbox]  # fmt: skip
    for _ in range(400):
        payload = bytearray(dice.choice(good))
        for _ in range(dice.randrange(4)):
            position = dice.randrange(len(payload) + 1)
            payload[position : position + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        world.send(dice.choice(subjects), bytes(payload), b"r" if dice.random() < 0.5 else b"")
        if dice.random() < 0.2:
            world.settle()
    world.settle()
    world.received(sub)
    assert world.publish(b"foo", b"still here") == [b""]
    assert [message.data for message in world.received(sub)][-1:] == [b"still here"]


@pytest.mark.parametrize("reply", [b"_STAN.pub.test-cluster.foo", DISCOVER, PINGS, b"_STAN.sub.test-cluster"])
def test_a_reply_subject_of_the_service_itself_makes_no_loop(reply: bytes) -> None:
    world = World()
    world.connect()
    for subject in (DISCOVER, PINGS, b"_STAN.pub.test-cluster.foo", b"_STAN.sub.test-cluster"):
        world.send(subject, PubMsg(b"me", b"g", b"foo").encode(), reply)
    world.settle()
    assert len(world.host.published) < 30
