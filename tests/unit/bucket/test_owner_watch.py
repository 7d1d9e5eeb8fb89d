"""When a standby tries to claim its shard."""

from __future__ import annotations

from headrace.bucket.owner_watch import SILENCE_S, YIELD_S, OwnerWatch


def test_a_server_without_peers_claims_at_once() -> None:
    assert OwnerWatch(5.0, is_alone=True).due == 5.0


def test_a_server_with_peers_listens_first() -> None:
    assert OwnerWatch(5.0, is_alone=False).due == 5.0 + SILENCE_S


def test_signs_of_life_put_it_off() -> None:
    watch = OwnerWatch(0.0, is_alone=False)
    watch.beat(1.0)
    assert watch.due == 1.0 + SILENCE_S
    watch.wrote(2.0)
    assert watch.due == 2.0 + SILENCE_S


def test_lost_connections_are_suspected_at_once() -> None:
    watch = OwnerWatch(0.0, is_alone=False)
    watch.suspect(1.0)
    assert watch.due == 1.0


def test_an_object_written_before_the_owner_died_does_not_put_off_a_suspicion() -> None:
    watch = OwnerWatch(0.0, is_alone=False)
    watch.suspect(1.0)
    watch.wrote(1.1)
    assert watch.due == 1.0
    watch.beat(1.2)
    watch.wrote(1.3)
    assert watch.due == 1.3 + SILENCE_S


def test_a_released_shard_is_claimed_at_once_but_by_who_released_it() -> None:
    watch = OwnerWatch(0.0, is_alone=False)
    watch.released(1.0, by_us=False)
    assert watch.due == 1.0
    watch.released(1.0, by_us=True)
    assert watch.due == 1.0 + SILENCE_S


def test_a_shard_that_is_released_for_another_server_is_claimed_later() -> None:
    watch = OwnerWatch(10.0, is_alone=False)
    watch.succeeded_by_another(11.0)
    watch.released(11.5, by_us=False)
    assert watch.due == 11.5 + SILENCE_S
    watch.released(11.0 + YIELD_S, by_us=False)
    assert watch.due == 11.0 + YIELD_S, "the wish holds for so long"


def test_a_server_without_peers_that_was_overtaken_does_not_claim_back() -> None:
    watch = OwnerWatch(0.0, is_alone=True)
    watch.overtaken(1.0)
    assert watch.due is None
    watch.wrote(100.0)
    assert watch.due is None
    watch.released(200.0, by_us=False)
    assert watch.due == 200.0


def test_a_server_without_peers_that_finds_objects_claims_when_no_more_come() -> None:
    """A process of the same server before this one had them under way when it was killed."""
    watch = OwnerWatch(0.0, is_alone=True)
    watch.wrote(1.0)
    assert watch.due == 1.0 + SILENCE_S
    watch.wrote(2.0)
    assert watch.due == 2.0 + SILENCE_S


def test_a_shard_is_left_to_an_owner_that_may_come_back_unless_it_is_gone() -> None:
    watch = OwnerWatch(0.0, is_alone=False)
    watch.stay(10.0)
    assert watch.due == 10.0
    watch.stay(9.0)
    assert watch.due == 10.0
    watch.suspect(9.0)
    watch.stay(20.0)
    assert watch.due == 9.0

    alone = OwnerWatch(0.0, is_alone=True)
    alone.stay(10.0)
    assert alone.due == 0.0
