"""Queue groups: balance, members that leave, the durable one's shadow. Source: streaming spec., 5, 6, 15."""

from __future__ import annotations

import itertools

import pytest
from stan_harness import Sub, World

from headrace.conf.streaming_options import StreamingOptions
from headrace.protocol.stan import StartPosition


@pytest.fixture
def world() -> World:
    world = World()
    world.connect()
    return world


def _publish(world: World, count: int) -> None:
    world.publish(b"foo", *[b"x"] * count)


def _got(world: World, sub: Sub) -> list[tuple[int, bool]]:
    return [(one.sequence, one.redelivered) for one in world.received(sub)]


def test_members_share_evenly_and_nobody_gets_a_message_twice(world: World) -> None:
    subs = [world.subscribe(b"foo", queue=b"q", max_in_flight=100) for _ in range(3)]
    _publish(world, 30)
    got = [world.sequences(sub) for sub in subs]
    assert sorted(itertools.chain(*got)) == list(range(1, 31))
    assert [len(sequences) for sequences in got] == [10, 10, 10]
    assert all(sequences == sorted(sequences) for sequences in got)


def test_the_member_with_the_least_pending_is_chosen(world: World) -> None:
    first = world.subscribe(b"foo", queue=b"q", max_in_flight=100)
    second = world.subscribe(b"foo", queue=b"q", max_in_flight=100)
    _publish(world, 10)
    mine = world.sequences(first)
    assert len(mine) == 5
    world.ack(first, *mine)
    world.received(second)
    _publish(world, 4)
    assert (len(world.sequences(first)), world.sequences(second)) == (4, [])


def test_the_group_stops_when_all_members_are_stalled(world: World) -> None:
    first = world.subscribe(b"foo", queue=b"q", max_in_flight=2)
    second = world.subscribe(b"foo", queue=b"q", max_in_flight=1)
    _publish(world, 10)
    got = world.sequences(first), world.sequences(second)
    assert sorted(got[0] + got[1]) == [1, 2, 3]
    world.ack(second, got[1][0])
    assert (world.sequences(first), world.sequences(second)) == ([], [4])


def test_joining_a_group_ignores_the_start_position(world: World) -> None:
    _publish(world, 3)
    first = world.subscribe(b"foo", queue=b"q", start=StartPosition.FIRST)
    assert world.sequences(first) == [1, 2, 3]
    second = world.subscribe(b"foo", queue=b"q", start=StartPosition.FIRST)
    assert world.sequences(second) == []
    _publish(world, 2)
    assert sorted(world.sequences(first) + world.sequences(second)) == [4, 5]


def test_a_plain_group_disappears_with_its_last_member(world: World) -> None:
    first = world.subscribe(b"foo", queue=b"q")
    _publish(world, 2)
    world.close_sub(first)
    assert world.service.snapshot_server().subscriptions == 0
    again = world.subscribe(b"foo", queue=b"q", start=StartPosition.FIRST)
    assert _got(world, again) == [(1, False), (2, False)]


def test_groups_of_other_names_and_single_subscriptions_get_everything(world: World) -> None:
    subs = [
        world.subscribe(b"foo", queue=b"q"),
        world.subscribe(b"foo", queue=b"r"),
        world.subscribe(b"foo"),
    ]
    _publish(world, 3)
    assert [world.sequences(sub) for sub in subs] == [[1, 2, 3]] * 3


def test_plain_and_durable_groups_of_one_name_are_two(world: World) -> None:
    plain = world.subscribe(b"foo", queue=b"q")
    durable = world.subscribe(b"foo", queue=b"q", durable=b"d")
    mimic = world.subscribe(b"foo", queue=b"d:q")
    _publish(world, 2)
    assert [world.sequences(sub) for sub in (plain, durable, mimic)] == [[1, 2]] * 3


def test_clients_with_different_ids_join_one_durable_group(world: World) -> None:
    world.connect(b"other")
    mine = world.subscribe(b"foo", queue=b"q", durable=b"d")
    theirs = world.subscribe(b"foo", client_id=b"other", queue=b"q", durable=b"d")
    _publish(world, 4)
    assert sorted(world.sequences(mine) + world.sequences(theirs)) == [1, 2, 3, 4]


def test_two_members_of_one_client_in_one_durable_group_are_no_duplicates(world: World) -> None:
    first = world.subscribe(b"foo", queue=b"q", durable=b"d")
    second = world.subscribe(b"foo", queue=b"q", durable=b"d")
    _publish(world, 2)
    assert sorted(world.sequences(first) + world.sequences(second)) == [1, 2]


def test_an_ack_of_what_is_pending_in_another_member_clears_it_there(world: World) -> None:
    first = world.subscribe(b"foo", queue=b"q", max_in_flight=1)
    second = world.subscribe(b"foo", queue=b"q", max_in_flight=1)
    _publish(world, 4)
    (one,), (other,) = world.sequences(first), world.sequences(second)
    world.ack(first, other)
    assert (world.pending(first), world.sequences(second)) == (1, [3])
    world.ack(second, one)
    assert world.sequences(first) == [4]


@pytest.mark.parametrize("end", ["unsubscribe", "close_sub"])
def test_row_pending_of_a_leaving_member_goes_to_the_others_after_100_ms(world: World, end: str) -> None:
    subs = [world.subscribe(b"foo", queue=b"q", max_in_flight=100) for _ in range(3)]
    _publish(world, 12)
    left = world.sequences(subs[0])
    for sub in subs[1:]:
        world.received(sub)
    getattr(world, end)(subs[0])
    world.advance(0.08)
    assert [_got(world, sub) for sub in subs[1:]] == [[], []]
    world.advance(0.02)
    got = [_got(world, sub) for sub in subs[1:]]
    assert sorted(got[0] + got[1]) == [(sequence, True) for sequence in left]
    assert [len(one) for one in got] == [2, 2]
    assert world.received(subs[0]) == []


def test_pending_of_a_member_whose_client_dies_goes_to_the_others() -> None:
    world = World(StreamingOptions(hb_interval=1, hb_timeout=1, hb_fail_count=0))
    world.connect()
    world.connect(b"dying", alive=False)
    mine = world.subscribe(b"foo", queue=b"q")
    world.subscribe(b"foo", client_id=b"dying", queue=b"q")
    _publish(world, 4)
    world.advance(2.2)
    assert sorted(set(world.sequences(mine))) == [1, 2, 3, 4]
    assert world.pending(mine) == 4


def test_failing_members_are_avoided_while_another_has_room() -> None:
    world = World(StreamingOptions(hb_interval=1, hb_timeout=1, hb_fail_count=100))
    world.connect()
    world.connect(b"failing", alive=False)
    mine = world.subscribe(b"foo", queue=b"q", max_in_flight=3)
    failing = world.subscribe(b"foo", client_id=b"failing", queue=b"q", max_in_flight=3)
    world.advance(2)
    _publish(world, 3)
    assert (world.sequences(mine), world.sequences(failing)) == ([1, 2, 3], [])


def test_an_expired_message_goes_to_the_best_member_and_is_pending_there(world: World) -> None:
    first = world.subscribe(b"foo", queue=b"q", ack_wait=1, max_in_flight=1)
    _publish(world, 1)
    assert world.sequences(first) == [1]
    second = world.subscribe(b"foo", queue=b"q", ack_wait=30, max_in_flight=5)
    world.advance(1)
    assert (_got(world, first), _got(world, second)) == ([], [(1, True)])
    assert (world.pending(first), world.pending(second)) == (0, 1)
    _publish(world, 1)
    assert world.sequences(first) == [2]


def test_redelivery_counts_go_along_to_another_member(world: World) -> None:
    first = world.subscribe(b"foo", queue=b"q", ack_wait=1, max_in_flight=1)
    _publish(world, 1)
    world.advance(2)
    world.received(first)
    second = world.subscribe(b"foo", queue=b"q", ack_wait=1, max_in_flight=5)
    world.advance(1)
    assert [one.redelivery_count for one in world.received(second)] == [3]


def test_an_expired_message_goes_to_the_first_member_when_all_are_stalled(world: World) -> None:
    only = world.subscribe(b"foo", queue=b"q", ack_wait=1, max_in_flight=1)
    _publish(world, 2)
    world.advance(1)
    assert _got(world, only) == [(1, False), (1, True)]


# -- the shadow ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "disconnect"])
def test_row_the_last_member_of_a_durable_group_leaves_a_shadow(world: World, how: str) -> None:
    sub = world.subscribe(b"foo", queue=b"q", durable=b"d", max_in_flight=2)
    _publish(world, 3)
    assert world.sequences(sub) == [1, 2]
    if how == "close":
        world.close_sub(sub)
    else:
        world.disconnect()
        world.connect()
    assert world.pending(sub) == 2
    _publish(world, 1)
    again = world.subscribe(b"foo", queue=b"q", durable=b"d")
    assert _got(world, again) == [(1, True), (2, True), (3, False), (4, False)]
    assert world.service.snapshot_server().subscriptions == 1


def test_another_client_takes_over_the_shadow(world: World) -> None:
    sub = world.subscribe(b"foo", queue=b"q", durable=b"d")
    _publish(world, 2)
    world.ack(sub, 1)
    world.disconnect()
    world.connect(b"other")
    again = world.subscribe(b"foo", client_id=b"other", queue=b"q", durable=b"d", start=StartPosition.FIRST)
    assert _got(world, again) == [(2, True)]


def test_unsubscribe_of_the_last_member_ends_the_group(world: World) -> None:
    sub = world.subscribe(b"foo", queue=b"q", durable=b"d")
    _publish(world, 2)
    world.unsubscribe(sub)
    again = world.subscribe(b"foo", queue=b"q", durable=b"d")
    _publish(world, 1)
    assert _got(world, again) == [(3, False)]


def test_closing_one_of_two_members_leaves_no_shadow(world: World) -> None:
    first = world.subscribe(b"foo", queue=b"q", durable=b"d")
    second = world.subscribe(b"foo", queue=b"q", durable=b"d")
    world.close_sub(first)
    assert world.service.snapshot_server().subscriptions == 1
    _publish(world, 2)
    assert world.sequences(second) == [1, 2]


def test_new_messages_wait_for_the_whole_group_while_old_ones_go_out(world: World) -> None:
    sub = world.subscribe(b"foo", queue=b"q", durable=b"d", max_in_flight=1000)
    _publish(world, 600)
    world.close_sub(sub)
    _publish(world, 1)
    again = world.subscribe(b"foo", queue=b"q", durable=b"d", max_in_flight=1000)
    assert len(world.sequences(again)) == 256
    late = world.subscribe(b"foo", queue=b"q", durable=b"d", max_in_flight=1000)
    assert world.sequences(late) == [], "the old ones go first"
    world.advance(0)
    assert world.sequences(again) == list(range(257, 601))
    assert _got(world, late) == [(601, False)]


def test_what_came_from_another_member_is_redelivered_in_its_place_by_sequence(world: World) -> None:
    first = world.subscribe(b"foo", queue=b"q", ack_wait=1)
    second = world.subscribe(b"foo", queue=b"q", ack_wait=1)
    _publish(world, 4)
    assert (world.sequences(first), world.sequences(second)) == ([1, 3], [2, 4])
    world.advance(0.9)
    world.unsubscribe(first)
    world.advance(0.1)
    assert _got(world, second) == [(1, True), (2, True), (3, True), (4, True)]


def test_a_message_that_comes_back_in_the_same_turn_is_not_written_as_acknowledged() -> None:
    world = World()
    world.connect()
    world.subscribe(b"foo")
    (live,) = world.tenure.channels.all()[0].plain.values()
    live.sent([1, 2], 10)
    assert live.forget(1)
    live.adopt(1, 20, 3)
    assert (live.unsaved_sent, live.unsaved_acked) == ([1, 2, 1], [])
    assert (live.pending, live.redeliveries) == ({2: 10, 1: 20}, {1: 3})
