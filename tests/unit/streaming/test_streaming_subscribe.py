"""Subscribe, unsubscribe, close: tables of checks, start positions, kinds. Source: streaming spec., 5, 15."""

from __future__ import annotations

import pytest
from stan_harness import SECOND, HeldCommitter, Sub, World

from headrace.conf.streaming_options import StreamingOptions
from headrace.errors import StorageError
from headrace.protocol.stan import (
    CloseRequest,
    ConnectRequest,
    StartPosition,
    SubscriptionRequest,
    SubscriptionResponse,
)

SUBSCRIBE = b"_STAN.sub.test-cluster"
UNSUBSCRIBE = b"_STAN.unsub.test-cluster"
CLOSE = b"_STAN.subclose.test-cluster"


@pytest.fixture
def world() -> World:
    world = World()
    world.connect()
    return world


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"\xff", b"\x0a\x04me", b"\x2a\x01a"])
def test_row_not_decodable(world: World, payload: bytes) -> None:
    answer = world.request(SUBSCRIBE, payload, SubscriptionResponse)
    assert answer == SubscriptionResponse(error=b"stan: invalid subscription request")


def test_row_client_id_empty(world: World) -> None:
    assert world.refused(b"", client_id=b"", ack_wait=0) == b"stan: clientID missing"


@pytest.mark.parametrize("seconds", [0, -1, -(2**31)])
def test_row_ack_wait_not_positive(world: World, seconds: int) -> None:
    assert world.refused(b"", ack_wait=seconds, max_in_flight=0) == (
        b"stan: invalid ack wait time, should be >= 1s"
    )


@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_row_max_in_flight_not_positive(world: World, count: int) -> None:
    assert world.refused(b"", max_in_flight=count, start=9) == b"stan: invalid MaxInflight, should be >= 1"


@pytest.mark.parametrize("position", [5, -1, 2**31 - 1])
def test_row_start_position_unknown(world: World, position: int) -> None:
    assert world.refused(b"", start=position) == b"stan: invalid start position"


@pytest.mark.parametrize("channel", [b"", b"foo.*", b"foo.>", b".foo", b"foo.", b"a..b", b"a/b", b"a b"])
def test_row_channel_name_invalid(world: World, channel: bytes) -> None:
    assert world.refused(channel, client_id=b"who") == b"stan: invalid subject"


def test_row_client_not_registered_creates_no_channel(world: World) -> None:
    assert world.refused(b"foo", client_id=b"who") == b"stan: unknown clientID"
    assert world.service.channel_names() == []


def test_row_durable_queue_name_with_a_colon(world: World) -> None:
    assert world.refused(b"foo", queue=b"q", durable=b"a:b") == (
        b"stan: durable name of a durable queue subscriber can't contain the character ':'"
    )


def test_row_durable_already_active(world: World) -> None:
    first = world.subscribe(b"foo", durable=b"d")
    assert world.refused(b"foo", durable=b"d") == b"stan: duplicate durable registration"
    world.publish(b"foo", b"x")
    assert world.sequences(first) == [1]


def test_row_durable_already_active_with_replace_durable() -> None:
    world = World(StreamingOptions(replace_durable=True))
    world.connect()
    first = world.subscribe(b"foo", durable=b"d")
    world.publish(b"foo", b"x")
    second = world.subscribe(b"foo", durable=b"d")
    assert world.sequences(first) == [1]
    assert [(one.sequence, one.redelivered) for one in world.received(second)] == [(1, True)]
    assert world.unsubscribe(first) == b"stan: invalid subscription"
    assert world.service.snapshot_server().subscriptions == 1


@pytest.mark.parametrize("inbox", [b"", b"a b", b"a.*", b">", b".a"])
def test_an_inbox_that_cannot_be_published_to_is_refused(world: World, inbox: bytes) -> None:
    assert world.refused(b"foo", inbox=inbox) == b"stan: invalid subscription request"


def test_the_response_is_published_before_any_message(world: World) -> None:
    world.publish(b"foo", b"x")
    request = SubscriptionRequest(b"me", b"foo", b"", b"inbox", 10, 30, b"", StartPosition.FIRST)
    world.send(SUBSCRIBE, request.encode(), b"reply")
    world.settle()
    order = [subject for subject, _, _ in world.host.published if subject in (b"inbox", b"reply")]
    assert order == [b"reply", b"inbox"]


# -- start positions -------------------------------------------------------------------------------


def _five(world: World) -> None:
    """Sequences 1 to 5, a second apart, the newest a second old."""
    for _ in range(5):
        world.publish(b"foo", b"x")
        world.advance(1)


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({"start": StartPosition.NEW_ONLY}, []),
        ({"start": StartPosition.LAST_RECEIVED}, [5]),
        ({"start": StartPosition.FIRST}, [1, 2, 3, 4, 5]),
        ({"start": StartPosition.SEQUENCE_START, "sequence": 3}, [3, 4, 5]),
        ({"start": StartPosition.SEQUENCE_START, "sequence": 0}, [1, 2, 3, 4, 5]),
        ({"start": StartPosition.SEQUENCE_START, "sequence": 5}, [5]),
        ({"start": StartPosition.SEQUENCE_START, "sequence": 6}, []),
        ({"start": StartPosition.SEQUENCE_START, "sequence": 2**64 - 1}, []),
        ({"start": StartPosition.TIME_DELTA_START, "delta_ns": 2 * SECOND}, [4, 5]),
        ({"start": StartPosition.TIME_DELTA_START, "delta_ns": 2 * SECOND - 1}, [5]),
        ({"start": StartPosition.TIME_DELTA_START, "delta_ns": 0}, []),
        ({"start": StartPosition.TIME_DELTA_START, "delta_ns": 2**63 - 1}, [1, 2, 3, 4, 5]),
        ({"start": StartPosition.TIME_DELTA_START, "delta_ns": -(2**63)}, []),
    ],
)
def test_start_positions(world: World, wishes: dict[str, int], expected: list[int]) -> None:
    _five(world)
    sub = world.subscribe(b"foo", **wishes)
    assert world.sequences(sub) == expected
    world.publish(b"foo", b"new")
    assert world.sequences(sub) == [6]


@pytest.mark.parametrize("position", list(StartPosition))
def test_start_positions_in_an_empty_channel(world: World, position: int) -> None:
    sub = world.subscribe(b"foo", start=position, sequence=7, delta_ns=SECOND)
    world.publish(b"foo", b"x")
    assert world.sequences(sub) == [1]


@pytest.mark.parametrize("position", [StartPosition.FIRST, StartPosition.SEQUENCE_START])
def test_start_positions_where_the_oldest_are_gone(world: World, position: int) -> None:
    _five(world)
    world.store.open(b"foo").purge(up_to=4)
    sub = world.subscribe(b"foo", start=position, sequence=2)
    assert world.sequences(sub) == [4, 5]


def test_row_time_delta_older_than_the_first_starts_at_the_first(world: World) -> None:
    _five(world)
    world.store.open(b"foo").purge(up_to=3)
    sub = world.subscribe(b"foo", start=StartPosition.TIME_DELTA_START, delta_ns=1000 * SECOND)
    assert world.sequences(sub) == [3, 4, 5]


# -- unsubscribe and close -------------------------------------------------------------------------


@pytest.mark.parametrize("subject", [UNSUBSCRIBE, CLOSE])
def test_row_unsubscribe_undecodable(world: World, subject: bytes) -> None:
    answer = world.request(subject, b"\xff", SubscriptionResponse)
    assert answer.error == b"stan: invalid unsubscribe request"


@pytest.mark.parametrize("end", ["unsubscribe", "close_sub"])
def test_rows_unsubscribe_of_what_is_not_there(world: World, end: str) -> None:
    sub = world.subscribe(b"foo")
    ended = getattr(world, end)
    assert ended(Sub(b"bar", b"i", b"a", b"me")) == b"stan: unknown channel"
    assert ended(sub, inbox=b"_INBOX.none") == b"stan: invalid subscription"
    assert ended(sub, client_id=b"who") == b"stan: unknown clientID"
    assert ended(sub) == b""
    assert ended(sub) == b"stan: invalid subscription"


def test_another_client_cannot_end_a_subscription(world: World) -> None:
    sub = world.subscribe(b"foo")
    world.connect(b"other")
    assert world.unsubscribe(sub, client_id=b"other") == b"stan: unknown clientID"
    world.publish(b"foo", b"x")
    assert world.sequences(sub) == [1]


def test_the_delivery_inbox_is_looked_up_after_ack_inboxes(world: World) -> None:
    sub = world.subscribe(b"foo")
    assert world.unsubscribe(sub, inbox=sub.inbox) == b""
    world.publish(b"foo", b"x")
    assert world.sequences(sub) == []


@pytest.mark.parametrize("end", ["unsubscribe", "close_sub"])
def test_a_plain_subscription_is_removed_by_both(world: World, end: str) -> None:
    sub = world.subscribe(b"foo")
    world.publish(b"foo", b"x")
    assert getattr(world, end)(sub) == b""
    world.publish(b"foo", b"y")
    assert world.sequences(sub) == [1]
    assert world.service.snapshot_server().subscriptions == 0
    world.advance(100)
    assert world.sequences(sub) == []
    assert sub.ack_inbox not in world.host.subscriptions.values()


# -- durables --------------------------------------------------------------------------------------


def test_a_closed_durable_goes_on_where_it_was(world: World) -> None:
    sub = world.subscribe(b"foo", durable=b"d", start=StartPosition.FIRST)
    world.publish(b"foo", b"1", b"2")
    world.ack(sub, 1, 2)
    world.close_sub(sub)
    world.publish(b"foo", b"3", b"4")
    again = world.subscribe(b"foo", durable=b"d", start=StartPosition.FIRST)
    assert [(one.sequence, one.redelivered) for one in world.received(again)] == [(3, False), (4, False)]


def test_a_reopened_durable_gets_what_was_unacknowledged_first_and_then_what_is_new(world: World) -> None:
    sub = world.subscribe(b"foo", durable=b"d", max_in_flight=3)
    world.publish(b"foo", *[b"x"] * 5)
    assert world.sequences(sub) == [1, 2, 3]
    world.ack(sub, 2)
    assert world.sequences(sub) == [4]
    world.disconnect()
    world.connect()
    again = world.subscribe(b"foo", durable=b"d", max_in_flight=10, ack_wait=7)
    got = [(one.sequence, one.redelivered, one.redelivery_count) for one in world.received(again)]
    assert got == [(1, True, 1), (3, True, 1), (4, True, 1), (5, False, 0)]
    channel = world.service.snapshot_channel("foo", subscriptions=True)
    assert channel is not None
    (state,) = channel.subscriptions
    assert (state.max_inflight, state.ack_wait, state.inbox) == (10, 7, again.inbox.decode())


def test_a_reopened_durable_with_less_room_gets_all_that_is_pending_and_nothing_new(world: World) -> None:
    sub = world.subscribe(b"foo", durable=b"d", max_in_flight=5)
    world.publish(b"foo", *[b"x"] * 6)
    world.close_sub(sub)
    again = world.subscribe(b"foo", durable=b"d", max_in_flight=2)
    assert world.sequences(again) == [1, 2, 3, 4, 5]
    world.ack(again, 1, 2, 3)
    assert world.sequences(again) == []
    world.ack(again, 4)
    assert world.sequences(again) == [6]


def test_an_unsubscribed_durable_is_gone_for_good(world: World) -> None:
    sub = world.subscribe(b"foo", durable=b"d")
    world.publish(b"foo", b"x")
    world.unsubscribe(sub)
    again = world.subscribe(b"foo", durable=b"d")
    world.publish(b"foo", b"y")
    assert [(one.sequence, one.redelivered) for one in world.received(again)] == [(2, False)]


def test_an_offline_durable_cannot_be_removed_without_reopening(world: World) -> None:
    sub = world.subscribe(b"foo", durable=b"d")
    world.close_sub(sub)
    assert world.unsubscribe(sub) == b"stan: invalid subscription"
    assert world.unsubscribe(sub, inbox=sub.inbox) == b"stan: invalid subscription"
    assert world.unsubscribe(world.subscribe(b"foo", durable=b"d")) == b""


def test_acknowledgements_to_a_closed_durable_are_not_heard(world: World) -> None:
    sub = world.subscribe(b"foo", durable=b"d")
    world.publish(b"foo", b"x")
    world.close_sub(sub)
    world.ack(sub, 1)
    assert world.pending(sub) == 1


def test_row_durable_with_a_colon_and_no_queue_is_allowed(world: World) -> None:
    world.subscribe(b"foo", durable=b"a:b")


def test_row_the_same_durable_name_of_another_client_is_another_durable(world: World) -> None:
    mine = world.subscribe(b"foo", durable=b"d")
    world.publish(b"foo", b"1")
    world.ack(mine, 1)
    world.close_sub(mine)
    world.connect(b"other")
    theirs = world.subscribe(b"foo", client_id=b"other", durable=b"d", start=StartPosition.FIRST)
    assert world.sequences(theirs) == [1]
    assert world.service.snapshot_server().subscriptions == 2


def test_row_a_subscription_creates_its_channel(world: World) -> None:
    world.subscribe(b"nobody.published.here")
    assert world.service.channel_names() == ["nobody.published.here"]


def test_row_two_subscriptions_with_one_inbox_both_get_messages(world: World) -> None:
    first = world.subscribe(b"foo", inbox=b"shared")
    second = world.subscribe(b"foo", inbox=b"shared")
    world.publish(b"foo", b"x")
    assert world.sequences(first) == [1, 1]
    assert world.unsubscribe(first, inbox=b"shared") == b""
    world.publish(b"foo", b"y")
    assert world.sequences(second) == [2]
    assert world.unsubscribe(second, inbox=b"shared") == b""


def test_a_durable_name_is_per_channel(world: World) -> None:
    world.subscribe(b"foo", durable=b"d")
    world.subscribe(b"bar", durable=b"d")


def test_a_client_closed_before_its_subscription_was_durable_is_answered_and_gets_nothing() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    world.send(b"_STAN.discover.test-cluster", ConnectRequest(b"me", b"hb").encode(), b"c")
    world.settle()
    committer.commit()
    request = SubscriptionRequest(b"me", b"foo", b"", b"inbox", 10, 30)
    world.send(SUBSCRIBE, request.encode(), b"s")
    world.send(b"_STAN.close.test-cluster", CloseRequest(b"me").encode(), b"c")
    world.settle()
    committer.commit()
    (answer,) = world.take(b"s")
    assert SubscriptionResponse.decode(answer).error == b""
    assert world.service.snapshot_server().subscriptions == 0


@pytest.mark.parametrize("durable", [b"", b"d"])
def test_a_subscription_that_cannot_be_made_durable_is_refused(durable: bytes) -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    world.send(b"_STAN.discover.test-cluster", ConnectRequest(b"me", b"hb").encode(), b"c")
    world.settle()
    committer.commit()
    world.take(b"c")
    request = SubscriptionRequest(b"me", b"foo", b"", b"inbox", 10, 30, durable)
    world.send(SUBSCRIBE, request.encode(), b"s")
    world.settle()
    committer.commit(StorageError("disk full"))
    (answer,) = world.take(b"s")
    assert SubscriptionResponse.decode(answer) == SubscriptionResponse(error=b"disk full")
    assert world.service.snapshot_server().subscriptions == 0
