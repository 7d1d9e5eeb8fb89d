"""The journal: order, positions, cuts, and what is refused."""

from __future__ import annotations

import errno

import pytest

from headrace.bucket import journal as module
from headrace.bucket.changes import Create, SnapshotBegun, SnapshotTaken, Truncate, Write, decode
from headrace.bucket.journal import Journal

ALL = 1 << 40


def test_what_is_recorded_is_taken_once_and_in_order() -> None:
    journal = Journal()
    assert journal.take(ALL) is None
    changes = [Create("f"), Write(1, 0, b"ab"), Truncate(1, 1)]
    for change in changes:
        journal.record(change)
    assert journal.position == 3

    taken = journal.take(ALL)

    assert taken is not None
    assert decode(b"".join(taken.parts)) == changes
    assert (taken.position, taken.is_cut) == (3, False)
    assert journal.take(ALL) is None
    assert journal.pending_bytes == 0


def test_objects_are_about_as_large_as_asked_for_and_never_empty() -> None:
    journal = Journal()
    for number in range(10):
        journal.record(Write(1, 1000 * number, bytes(84)))  # not one behind the other

    sizes = []
    while (taken := journal.take(250)) is not None:
        sizes.append(len(decode(b"".join(taken.parts))))
        assert journal.pending_bytes == 100 * (10 - taken.position)
    assert sizes == [2] * 5

    journal.record(Write(1, 0, bytes(5000)))
    taken = journal.take(250)
    assert taken is not None
    assert len(b"".join(taken.parts)) > 5000


def test_an_object_ends_at_a_cut() -> None:
    journal = Journal()
    journal.record(Create("f"))
    journal.record(SnapshotBegun())
    assert journal.cut() == journal.cut() == 2
    journal.record(Truncate(1, 0))
    journal.record(SnapshotBegun())
    journal.cut()

    first, second, third = journal.take(ALL), journal.take(ALL), journal.take(ALL)

    assert first is not None
    assert second is not None
    assert (first.position, first.is_cut) == (2, True)
    assert (second.position, second.is_cut) == (4, True)
    assert third is None


def test_a_cut_behind_a_full_object_is_the_end_of_the_next() -> None:
    journal = Journal()
    journal.record(Write(1, 0, bytes(100)))
    journal.record(SnapshotBegun())
    journal.cut()

    first, second = journal.take(1), journal.take(1)

    assert first is not None
    assert second is not None
    assert [first.is_cut, second.is_cut] == [False, True]


def test_a_cut_where_nothing_waits_ends_nothing_later() -> None:
    journal = Journal()
    journal.record(SnapshotBegun())
    journal.take(ALL)
    journal.cut()
    journal.record(Create("f"))

    taken = journal.take(ALL)

    assert taken is not None
    assert (taken.position, taken.is_cut) == (2, False)


def test_the_first_change_that_waits_is_told() -> None:
    told: list[int] = []
    journal = Journal()
    journal.when_first = lambda: told.append(journal.position)
    for _ in range(2):
        journal.record(Create("f"))
        journal.record(Create("g"))
        journal.take(ALL)

    assert told == [1, 3]


def test_many_bytes_that_wait_are_told_once_where_they_are_watched_for() -> None:
    told: list[int] = []
    journal = Journal()
    journal.when_many = lambda: told.append(journal.position)
    journal.record(Create("f"))
    journal.watch(3 * journal.pending_bytes)
    for _ in range(4):
        journal.record(Create("f"))

    assert told == [3]


def test_refused_is_what_adds_until_it_is_not() -> None:
    journal = Journal()
    journal.check(adds=True)
    journal.refuse("the bucket is away")
    journal.check(adds=False)
    with pytest.raises(OSError, match="the bucket is away") as refused:
        journal.check(adds=True)
    assert refused.value.errno == errno.EIO
    journal.refuse(None)
    journal.check(adds=True)


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PENDING", 1 << 20)
    journal = Journal()
    journal.record(Write(1, 0, bytes(1 << 20)))

    with pytest.raises(OSError, match="1 MiB wait"):
        journal.check(adds=True)
    journal.check(adds=False)
    journal.take(ALL)
    journal.check(adds=True)


def test_after_the_end_every_change_is_refused_and_none_waits() -> None:
    journal = Journal()
    journal.record(SnapshotTaken(1, ()))
    journal.end("another server owns the shard")

    assert journal.take(ALL) is None
    assert journal.pending_bytes == 0
    for adds in (True, False):
        with pytest.raises(OSError, match="another server"):
            journal.check(adds=adds)
    journal.refuse(None)
    with pytest.raises(OSError, match="another server"):
        journal.check(adds=False)
