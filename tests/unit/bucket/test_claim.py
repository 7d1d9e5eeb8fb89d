"""Taking over: one owner at a time, whatever fails and whoever sleeps on the way."""

from __future__ import annotations

import asyncio
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest
from bucket_makers import KEYS, Bucket, Reader, commit, fence, log_until, wall_ns, writer_of

from harness.memory_objects import ANSWER_LOST, FAILS, HANGS_AFTERWARDS, PROMPT, Fate, Request
from harness.virtual_loop import run
from headrace.bucket.claim import MOST_IN_FLIGHT, Claim, claim
from headrace.bucket.errors import Behind, Overtaken
from headrace.bucket.follower import Point
from headrace.bucket.wal_object import Kind
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from headrace.bucket.follower import WalFollower

ONE, TWO = b"first candidate."[:16], b"second candidate"[:16]


async def claimed(follower: WalFollower, writer: bytes = ONE) -> Claim:
    return await claim(follower, writer=writer, owner=b"server 1", wall_ns=wall_ns)


def test_first_owner_of_a_shard() -> None:
    bucket = Bucket()
    reader = Reader(bucket)

    made = run(claimed(reader))

    assert made == Claim(1, ONE, 17, 1, 0.0)
    assert reader.point == Point(16, 1, ONE)
    assert reader.applied[0].payload == b"server 1"
    assert [found.kind for found in reader.applied] == [Kind.FENCE] + [Kind.COMMIT] * 15
    assert len(bucket.objects) == MOST_IN_FLIGHT


def test_taking_over_reads_what_the_owner_wrote() -> None:
    reader = Reader(Bucket(log_until(7)))

    made = run(claimed(reader))

    assert (made.epoch, made.fence, made.next_number) == (2, 8, 24)
    assert reader.applied[:7] == log_until(7)


@pytest.mark.parametrize("moments", [*product(("before", "between", "after"), repeat=4)])
def test_puts_of_the_old_owner_count_up_to_the_hole(moments: tuple[str, ...]) -> None:
    """It was at 10, with 11 to 14 under way; each arrives before the fence, before it is filled, or late."""
    under_way = dict(zip((commit(number) for number in range(11, 15)), moments, strict=True))
    hole = next((put.number for put, moment in under_way.items() if moment != "before"), 15)

    def fate(request: Request) -> Fate:
        if request[:2] == ("create", KEYS.wal(hole + 1)):
            arrive("between")
        return PROMPT

    def arrive(moment: str) -> list[int]:
        return [put.number for put, when in under_way.items() if when == moment and bucket.write(put)]

    bucket = Bucket(log_until(10), fate)
    arrive("before")
    standby = Reader(bucket)

    made = run(claimed(standby, writer_of(2)))

    assert made.fence == hole
    assert standby.changes == [commit(number).payload for number in range(2, hole)]
    assert arrive("after") == [], "no number is left for a put of the old owner"
    assert all(bucket.write(commit(number, 2)) for number in range(made.next_number, made.next_number + 20))
    cold = Reader(bucket)
    run(cold.catch_up())
    assert cold.applied[: len(standby.applied)] == standby.applied


@pytest.mark.parametrize("fate", [FAILS, ANSWER_LOST], ids=["failed", "answer lost"])
@pytest.mark.parametrize("at", range(24))
def test_one_failed_request_ends_or_costs_nothing(at: int, fate: Fate) -> None:
    bucket = Bucket(log_until(3), lambda _request: fate if len(bucket.requests) == at + 1 else PROMPT)
    bucket.write(commit(6))  # behind the hole: the fill finds it
    reader = Reader(bucket)

    async def main() -> Claim:
        try:
            return await claimed(reader)
        except StoreError:
            assert bucket.requests[at].operation in {"get", "head"}
            return await claimed(reader, TWO)

    made = run(main())

    cold = Reader(bucket)
    run(cold.catch_up())
    assert cold.applied == reader.applied
    assert cold.point == Point(made.next_number - 1, made.epoch, made.writer)
    assert cold.changes == [b"change 2", b"change 3"]


@pytest.mark.parametrize("at", range(24))
def test_candidate_that_dies_at_a_request_is_followed_by_another(at: int) -> None:
    """Its request is under way then, and arrives."""
    bucket = Bucket(
        log_until(3), lambda _request: HANGS_AFTERWARDS if len(bucket.requests) == at + 1 else PROMPT
    )

    async def main() -> None:
        try:
            await asyncio.wait_for(claimed(Reader(bucket)), 1.0)
        except TimeoutError:
            assert len(bucket.requests) > at
        bucket.fate = lambda _request: PROMPT
        second = Reader(bucket)
        made = await claimed(second, TWO)
        assert second.point == Point(made.next_number - 1, made.epoch, TWO)
        cold = Reader(bucket)
        await cold.catch_up()
        assert cold.applied == second.applied
        assert cold.changes == [b"change 2", b"change 3"]

    run(main())


def test_fence_that_fails_again_and_again_is_given_up() -> None:
    bucket = Bucket(log_until(3), lambda request: FAILS if request.operation == "create" else PROMPT)

    with pytest.raises(StoreError, match="create of"):
        run(claimed(Reader(bucket)))

    assert len(bucket.objects) == 3


def test_fence_that_arrives_when_it_was_given_up_is_read_as_such() -> None:
    """Nobody owns the shard then, and the next claim has one epoch more."""

    async def main() -> None:
        bucket = Bucket(log_until(3), lambda request: FAILS if request.operation == "create" else PROMPT)
        reader = Reader(bucket)
        with pytest.raises(StoreError):
            await claimed(reader)
        bucket.fate = lambda _request: PROMPT
        bucket.write(fence(4, 2, ONE))
        assert (await claimed(reader, TWO)).epoch == 3

    run(main())


def test_owner_that_commits_is_not_taken_over_at_that_number() -> None:
    """Its put arrives between the candidate's look and its fence."""

    def fate(request: Request) -> Fate:
        if request.operation == "create":
            bucket.write(commit(4))
        return PROMPT

    bucket = Bucket(log_until(3), fate)
    reader = Reader(bucket)

    with pytest.raises(Overtaken, match="object 4"):
        run(claimed(reader))
    assert reader.point == Point(4, 1, writer_of(1))
    assert len(bucket.objects) == 4


@pytest.mark.parametrize("seed", range(100))
def test_of_two_candidates_the_last_fence_counts(seed: int) -> None:
    chance = Random(seed)
    bucket = Bucket(log_until(3), lambda _request: Fate(chance.random() * 0.01, chance.random() * 0.01))

    async def main() -> None:
        outcomes = await asyncio.gather(
            *(claimed(Reader(bucket), writer) for writer in (ONE, TWO)), return_exceptions=True
        )
        cold = Reader(bucket)
        await cold.catch_up()
        owners = [made for made in outcomes if isinstance(made, Claim)]
        assert all(isinstance(made, Claim | Overtaken) for made in outcomes)
        assert len({made.epoch for made in owners}) == len(owners)
        for made in owners:
            is_owner = (made.epoch, made.writer) == (cold.point.epoch, cold.point.writer)
            assert is_owner is (KEYS.wal(made.next_number) not in bucket.objects)

    run(main())


def test_candidate_that_is_overtaken_while_it_fills_says_so() -> None:
    def fate(request: Request) -> Fate:
        if request[:2] == ("create", KEYS.wal(6)):
            bucket.write(fence(6, 3, TWO))
        return PROMPT

    bucket = Bucket(log_until(3), fate)
    reader = Reader(bucket)

    with pytest.raises(Overtaken, match="object 6"):
        run(claimed(reader))
    assert reader.point.number == 3, "its own fence is read like any other"
    run(reader.catch_up())
    assert (reader.point.epoch, reader.point.writer) == (3, TWO)


# -- candidates that slept ----------------------------------------------------------------------------


def go_on_and_delete(bucket: Bucket, last: int = 1003) -> None:
    """The owner goes on, a snapshot covers it, and everything below the milestone is deleted."""
    for made in log_until(last):
        bucket.write(made)
    bucket.remove(range(2, 1000))


@pytest.mark.parametrize("last_read", [1, 41, 998])
def test_standby_that_slept_past_the_deletion_makes_no_fence(last_read: int) -> None:
    bucket = Bucket()
    go_on_and_delete(bucket)
    there = dict(bucket.objects)

    with pytest.raises(Behind):
        run(claimed(Reader(bucket, Point(last_read, 1, writer_of(1)))))
    assert bucket.objects == there


@pytest.mark.parametrize("last_read", [1, 41, 998])
def test_standby_that_falls_asleep_before_its_fence_learns_that_it_is_void(last_read: int) -> None:
    """It looks, sleeps, and creates the fence in a number that was used and deleted meanwhile."""

    def fate(request: Request) -> Fate:
        if request.operation == "create" and KEYS.wal(1003) not in bucket.objects:
            go_on_and_delete(bucket)
        return PROMPT

    bucket = Bucket(log_until(last_read), fate)
    reader = Reader(bucket)

    with pytest.raises(Behind, match=f"object {last_read + 1} of shard js had been used before"):
        run(claimed(reader))
    assert bucket.count("create") == 1
    with pytest.raises(Behind):
        run(claimed(reader, TWO))
    snapshot = Reader(bucket, Point(999, 1, writer_of(1)))
    assert run(claimed(snapshot, TWO)).epoch == 2


def test_standby_that_slept_before_a_milestone_finds_it() -> None:
    """A milestone is never deleted: the fence cannot be put in its place."""

    def fate(request: Request) -> Fate:
        if request.operation == "create" and KEYS.wal(1003) not in bucket.objects:
            go_on_and_delete(bucket, 2003)
            bucket.remove(range(1001, 2000))
        return PROMPT

    bucket = Bucket(log_until(999), fate)

    with pytest.raises(Behind):
        run(claimed(Reader(bucket)))
    assert bucket.at(1000) == commit(1000, 1, b"")


@pytest.mark.parametrize("last", range(980, 1003))
def test_fill_around_a_milestone(last: int) -> None:
    """The fence may be the milestone; else the fill creates that when all below it are there."""

    def fate(request: Request) -> Fate:
        if request[:2] == ("create", KEYS.wal(1000)):
            assert all(KEYS.wal(number) in bucket.objects for number in range(1, 1000))
        return Fate()

    bucket = Bucket(log_until(last), fate)

    made = run(claimed(Reader(bucket)))

    assert (made.fence, made.next_number) == (last + 1, last + 17)
    run(Reader(bucket).catch_up())


@pytest.mark.parametrize("at", range(3, 24))
def test_fill_that_dies_before_a_milestone_leaves_a_log_to_go_on_with(at: int) -> None:
    bucket = Bucket(
        log_until(990), lambda _request: HANGS_AFTERWARDS if len(bucket.requests) == at + 1 else PROMPT
    )

    async def main() -> None:
        point = Point(990, 1, writer_of(1))
        try:
            await asyncio.wait_for(claimed(Reader(bucket, point)), 1.0)
        except TimeoutError:
            assert len(bucket.requests) > at
        bucket.fate = lambda _request: PROMPT
        await claimed(Reader(bucket, point), TWO)

    run(main())


def test_one_owner_follows_the_other_over_milestones() -> None:
    async def main() -> None:
        bucket = Bucket()
        for epoch in range(1, 130):
            made = await claimed(Reader(bucket, point_before(bucket)), Random(epoch).randbytes(16))
            assert made.epoch == epoch
        cold = Reader(bucket)
        await cold.catch_up()
        assert cold.point == Point(129 * MOST_IN_FLIGHT, 129, made.writer)

    def point_before(bucket: Bucket) -> Point:
        last = max((KEYS.number_of(key) or 0 for key in bucket.objects), default=0)
        found = bucket.at(last)
        return Point(last, found.epoch, found.writer) if found else Point()

    run(main())
