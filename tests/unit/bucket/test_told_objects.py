"""Objects that an owner tells of: who is told, and which of them a reader takes."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from bucket_makers import Bucket, Reader, commit, fence, log_until, writer_of

from harness.virtual_loop import run
from headrace.bucket.follower import Point
from headrace.bucket.told_objects import (
    HEARER_S,
    LARGEST_TOLD,
    MOST_AHEAD,
    MOST_HEARERS,
    MOST_KEPT,
    MOST_UNHEARD,
    ObjectTeller,
    ToldObjects,
)

if TYPE_CHECKING:
    from headrace.bucket.wal_object import WalObject

START = Point(1, 1, writer_of(1))
"""Behind the fence of epoch 1."""


class Ears:
    """Servers that keep what they were told."""

    def __init__(self, epoch: int = 1, writer: bytes | None = None) -> None:
        self.told: list[tuple[str, bytes]] = []
        self.is_deaf = False
        self.teller = ObjectTeller("js", epoch, writer or writer_of(epoch), self._tell)

    def _tell(self, server: str, sealed: bytes) -> bool:
        if not self.is_deaf:
            self.told.append((server, sealed))
        return not self.is_deaf


def sealed(made: WalObject, epoch: int | None = None, writer: bytes | None = None) -> bytes:
    """The object as an owner tells of it."""
    ears = Ears(epoch or made.epoch, writer or made.writer)
    ears.teller.heard("s", 0.0)
    assert ears.teller.confirmed(made.number, made.pack(), 0.0) == {"s"}
    return ears.told[0][1]


@pytest.mark.parametrize("order", list(permutations((2, 3, 4))))
def test_objects_are_taken_in_the_order_of_the_log_however_they_come(order: tuple[int, ...]) -> None:
    bucket = Bucket([fence(1, 1)])
    reader = Reader(bucket, START)
    for number in (*order, *order):
        reader.told.keep(sealed(commit(number)), reader.point)
        reader.take_told()
    assert reader.applied == [commit(2), commit(3), commit(4)]
    assert reader.point == Point(4, 1, writer_of(1))
    assert not bucket.requests


def test_objects_in_the_bucket_are_not_asked_for_where_they_are_known() -> None:
    async def main() -> None:
        bucket = Bucket(log_until(6))
        reader = Reader(bucket, START)
        for number in (2, 3, 5):
            reader.told.keep(sealed(commit(number)), reader.point)
        assert await reader.read_on(6)
        assert reader.applied == log_until(6)[1:]
        assert {int(request.key[-20:]) for request in bucket.requests} <= {4, 5, 6}

    run(main())


def test_an_owner_of_the_past_changes_nothing() -> None:
    """Its object was void behind a fence; had it been a part of the log, the reader would be at its place."""
    reader = Reader(Bucket(), Point(5, 2, writer_of(2)))
    for number in (5, 6, 7):
        reader.told.keep(sealed(commit(number, epoch=1)), reader.point)
    reader.take_told()
    assert reader.applied == []


def test_an_object_of_the_next_epoch_waits_until_its_fence_was_read() -> None:
    async def main() -> None:
        bucket = Bucket([*log_until(3), fence(4, 2)])
        reader = Reader(bucket, Point(3, 1, writer_of(1)))
        reader.told.keep(sealed(commit(5, epoch=2)), reader.point)
        reader.take_told()
        assert reader.applied == []
        assert await reader.read_on(4)
        reader.take_told()
        assert reader.applied == [fence(4, 2), commit(5, epoch=2)]

    run(main())


@pytest.mark.parametrize(
    "forged",
    [
        sealed(commit(2), writer=b"another writer's"),
        sealed(commit(2), epoch=2),
        sealed(commit(3))[:8] + (2).to_bytes(8, "little") + sealed(commit(3))[16:],
        sealed(commit(2))[:-1],
        sealed(commit(2))[:40] + b"?" + sealed(commit(2))[41:],
        sealed(commit(2))[:16] + commit(2).pack(),
        sealed(commit(2))[:17],
        sealed(commit(2))[:16],
        b"",
    ],
)
def test_what_nobody_can_have_sealed_who_reads_the_bucket_is_passed_over(forged: bytes) -> None:
    async def main() -> None:
        reader = Reader(Bucket(log_until(2)), START)
        reader.told.keep(forged, reader.point)
        reader.take_told()
        assert reader.applied == []
        assert await reader.read_on(2)
        assert reader.applied == [commit(2)]

    run(main())


def test_a_shard_has_no_object_of_another() -> None:
    told = ToldObjects("streaming")
    told.keep(sealed(commit(2)), START)
    assert told.take(START) is None


def test_an_object_on_its_way_shows_nothing_of_its_content() -> None:
    made = commit(2, payload=b"a secret " * 10)
    assert b"secret" not in sealed(made)
    assert made.writer not in sealed(made)


def test_what_a_reader_keeps_is_bounded() -> None:
    told = ToldObjects("js")
    payload = bytes(LARGEST_TOLD - 200)
    for number in range(2, 200):
        told.keep(sealed(commit(number, payload=payload)), START)
    assert told.size <= MOST_KEPT
    told.keep(sealed(commit(2)), START)
    assert told.take(START) == commit(2)

    far = ToldObjects("js")
    far.keep(sealed(commit(START.number + MOST_AHEAD + 1)), START)
    assert far.size == 0
    far.keep(sealed(commit(2))[:16] + bytes(2 * LARGEST_TOLD), START)
    assert far.size == 0


def test_objects_that_were_read_meanwhile_are_forgotten() -> None:
    told = ToldObjects("js")
    for number in range(2, 10):
        told.keep(sealed(commit(number)), START)
    told.keep(sealed(commit(30)), Point(20, 1, writer_of(1)))
    assert told.size == len(sealed(commit(30)))


def test_a_server_that_is_silent_is_told_no_more() -> None:
    ears = Ears()
    ears.teller.heard("a", 0.0)
    ears.teller.heard("b", 1.0)
    assert ears.teller.confirmed(2, commit(2).pack(), 1.0) == {"a", "b"}
    assert ears.teller.confirmed(3, commit(3).pack(), HEARER_S + 0.1) == {"b"}
    ears.teller.heard("a", 2.0)
    assert ears.teller.confirmed(4, commit(4).pack(), 2.0) == {"a", "b"}
    ears.is_deaf = True
    assert ears.teller.confirmed(5, commit(5).pack(), 2.0) == set()


def test_a_server_that_stands_still_has_little_on_the_way_to_it() -> None:
    ears = Ears()
    ears.teller.heard("a", 0.0)
    data = bytes(LARGEST_TOLD)
    for number in range(2, 100):
        ears.teller.confirmed(number, data, 1.0)
    assert sum(len(each) for _, each in ears.told) <= MOST_UNHEARD + 100 * 64
    ears.teller.heard("a", 1.0)
    assert ears.teller.confirmed(100, data, 1.0) == {"a"}


def test_large_objects_and_many_servers_are_left_to_the_bucket() -> None:
    ears = Ears()
    assert ears.teller.confirmed(2, b"x", 0.0) == set()
    for number in range(3 * MOST_HEARERS):
        ears.teller.heard(f"s{number}", 0.0)
    assert len(ears.teller.confirmed(2, b"x", 0.0)) == MOST_HEARERS
    assert ears.teller.confirmed(3, bytes(LARGEST_TOLD + 1), 0.0) == set()
