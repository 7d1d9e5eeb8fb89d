"""Limits of channels: which entry counts, what each limit does. Source: streaming specification, 7, 15."""

from __future__ import annotations

import pytest
from stan_harness import World

from headrace.conf.streaming_options import ChannelLimits, StoreLimits, StreamingOptions
from headrace.protocol.stan import StartPosition
from headrace.streaming.limits import limit_lines, limits_for


def _world(limits: StoreLimits) -> World:
    world = World(StreamingOptions(limits=limits))
    world.connect()
    return world


def test_defaults_are_the_references() -> None:
    limits = StoreLimits()
    assert (limits.max_channels, limits.max_subscriptions) == (100, 1000)
    assert (limits.max_msgs, limits.max_bytes) == (1_000_000, 1_024_000_000)
    assert (limits.max_age, limits.max_inactivity) == (0, 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [(b"foo.bar", 1), (b"foo.baz", 2), (b"foo.baz.x", 3), (b"other", 4), (b"free.x", 0), (b"free.y", 5)],
)
def test_the_most_specific_entry_wins(name: bytes, expected: int) -> None:
    limits = StoreLimits(
        max_msgs=4,
        channels={
            "foo.>": ChannelLimits(max_msgs=3),
            "foo.*": ChannelLimits(max_msgs=2),
            "foo.bar": ChannelLimits(max_msgs=1),
            "free.*": ChannelLimits(max_msgs=-1),
            "free.y": ChannelLimits(max_msgs=5),
        },
    )
    assert limits_for(name, limits).max_msgs == expected


def test_unset_fields_inherit_through_the_chain() -> None:
    limits = StoreLimits(
        max_bytes=100,
        max_age=9,
        channels={
            "a.>": ChannelLimits(max_msgs=7, max_age=-1),
            "a.*": ChannelLimits(max_inactivity=3),
            "a.b": ChannelLimits(max_subscriptions=2),
        },
    )
    assert limits_for(b"a.b", limits) == ChannelLimits(2, 7, 100, 0, 3)


def test_global_zero_and_negative_are_unlimited() -> None:
    limits = StoreLimits(max_channels=0, max_subscriptions=-1, max_msgs=0, max_bytes=-1)
    assert limits_for(b"a", limits) == ChannelLimits()
    world = _world(limits)
    for number in range(120):
        assert world.publish(b"c%d" % number, b"x") == [b""]


def test_max_msgs_takes_the_oldest() -> None:
    world = _world(StoreLimits(channels={"foo": ChannelLimits(max_msgs=3)}))
    world.publish(b"foo", *[b"x"] * 5)
    assert world.sequences(world.subscribe(b"foo", start=StartPosition.FIRST)) == [3, 4, 5]


def test_row_max_msgs_1_and_two_publications_then_first_gets_the_second_only() -> None:
    world = _world(StoreLimits(max_msgs=1))
    world.publish(b"foo", b"1")
    world.publish(b"foo", b"2")
    assert world.sequences(world.subscribe(b"foo", start=StartPosition.FIRST)) == [2]


def test_max_bytes_leaves_the_last_message_however_large() -> None:
    world = _world(StoreLimits(max_bytes=10))
    world.publish(b"foo", b"x")
    world.publish(b"foo", b"y" * 1000)
    assert world.sequences(world.subscribe(b"foo", start=StartPosition.FIRST)) == [2]


def test_max_age_expires_the_oldest_first_by_timer() -> None:
    world = _world(StoreLimits(max_age=10))
    world.publish(b"foo", b"1")
    world.advance(4)
    world.publish(b"foo", b"2")
    world.advance(5.9)
    assert _held(world) == (2, 1)
    world.advance(0.2)
    assert _held(world) == (1, 2)
    world.advance(4)
    assert _held(world) == (0, 0)
    world.publish(b"foo", b"3")
    assert _held(world) == (1, 3)
    world.advance(10.1)
    assert _held(world) == (0, 0)


def _held(world: World) -> tuple[int, int]:
    channel = world.service.snapshot_channel("foo")
    assert channel is not None
    return channel.msgs, channel.first_seq


def test_max_subs_counts_offline_durables_and_reopening_is_not_a_new_one() -> None:
    world = _world(StoreLimits(max_subscriptions=2))
    world.subscribe(b"foo")
    durable = world.subscribe(b"foo", durable=b"d")
    world.close_sub(durable)
    assert world.refused(b"foo") == b"too many subscriptions per channel"
    assert world.refused(b"foo", durable=b"other") == b"too many subscriptions per channel"
    assert world.refused(b"foo", queue=b"q") == b"too many subscriptions per channel"
    world.subscribe(b"bar")
    world.unsubscribe(world.subscribe(b"foo", durable=b"d"))
    world.subscribe(b"foo")


def test_max_subs_counts_the_shadow_of_a_durable_queue() -> None:
    world = _world(StoreLimits(max_subscriptions=1))
    world.close_sub(world.subscribe(b"foo", queue=b"q", durable=b"d"))
    assert world.refused(b"foo") == b"too many subscriptions per channel"
    world.subscribe(b"foo", queue=b"q", durable=b"d")


def test_max_inactivity_deletes_a_channel_that_nobody_uses() -> None:
    world = _world(StoreLimits(max_inactivity=60))
    world.publish(b"foo", b"x")
    world.advance(30)
    world.publish(b"foo", b"y")
    world.advance(59)
    assert world.service.channel_names() == ["foo"]
    world.advance(1.1)
    assert world.service.channel_names() == []
    assert b"foo" not in world.store.names()
    world.publish(b"foo", b"z")
    assert world.sequences(world.subscribe(b"foo", start=StartPosition.FIRST)) == [1], "a new channel"


@pytest.mark.parametrize("durable", [b"", b"d"])
def test_max_inactivity_waits_for_the_last_subscription_offline_durables_too(durable: bytes) -> None:
    world = _world(StoreLimits(max_inactivity=60))
    sub = world.subscribe(b"foo", durable=durable)
    if durable:
        world.close_sub(sub)
    world.advance(200)
    assert world.service.channel_names() == ["foo"]
    if durable:
        sub = world.subscribe(b"foo", durable=durable)
    world.unsubscribe(sub)
    world.advance(59.9)
    assert world.service.channel_names() == ["foo"]
    world.advance(0.2)
    assert world.service.channel_names() == []


def test_a_gap_that_limits_left_is_jumped() -> None:
    world = _world(StoreLimits(max_msgs=3))
    sub = world.subscribe(b"foo", max_in_flight=1)
    for _ in range(6):
        world.publish(b"foo", b"x")
    assert world.sequences(sub) == [1]
    world.ack(sub, 1)
    assert world.sequences(sub) == [4]


def test_the_limits_are_logged_as_the_reference_logs_them() -> None:
    lines = list(limit_lines(StoreLimits(max_age=5400, channels={"a": ChannelLimits(max_msgs=-1)})))
    assert lines == [
        "---------- Store Limits ----------",
        "Channels:                  100 *",
        "--------- Channels Limits --------",
        "  Subscriptions:          1000 *",
        "  Messages     :       1000000 *",
        "  Bytes        :     976.56 MB *",
        "  Age          :       1h30m0s",
        "  Inactivity   :     unlimited *",
        "Channel: a",
        " |-> Messages         unlimited",
        "----------------------------------",
    ]
