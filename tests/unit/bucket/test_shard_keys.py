"""The keys of a shard, there and back."""

from __future__ import annotations

import pytest

from headrace.bucket.errors import BucketError
from headrace.bucket.keys import MILESTONE, ShardKeys, milestone_above

KEYS = ShardKeys("js-0")


@pytest.mark.parametrize("number", [0, 1, 999, 10**19, 2**64 - 1])
def test_number_of_a_key_is_that_it_was_made_of(number: int) -> None:
    assert KEYS.number_of(KEYS.wal(number)) == number
    assert KEYS.number_of(KEYS.snapshot(number)) == number


def test_order_of_keys_is_that_of_numbers() -> None:
    numbers = [1, 9, 10, 99, 100, 12345678901]

    assert sorted(map(KEYS.wal, reversed(numbers))) == [KEYS.wal(number) for number in numbers]


def test_kinds_of_objects_have_folders_of_their_own() -> None:
    assert KEYS.wal(7) == "shards/js-0/wal/00000000000000000007"
    assert KEYS.snapshot(7) == "shards/js-0/snapshots/00000000000000000007"
    assert KEYS.segment("ab-7") == "shards/js-0/segments/ab-7"


@pytest.mark.parametrize(
    "key",
    [
        "",
        "00000000000000000007",
        "shards/js-0/wal/7",
        "shards/js-0/wal/000000000000000000007",
        "shards/js-0/wal/-0000000000000000007",
        "shards/js-0/wal/0000000000000000000x",
        "shards/js-0/wal/\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u06600000000000",
        "shards/js-0/wal/00000000000000000007/00000000000000000007",
        "shards/js-0/segments/00000000000000000007",
        "shards/js-1/wal/00000000000000000007",
    ],
)
def test_other_keys_have_no_number(key: str) -> None:
    assert KEYS.number_of(key) is None


@pytest.mark.parametrize("name", ["", "a/b", "..", "-a", "a b", "ä", "a" * 65, "a\n"])
def test_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(BucketError, match="no name of a shard"):
        ShardKeys(name)


def test_longest_name_is_taken() -> None:
    assert ShardKeys("a" * 64).wal_prefix.startswith("shards/aaa")


@pytest.mark.parametrize(("number", "milestone"), [(0, 1), (1, 1), (999, 1), (1000, 2), (1001, 2), (1999, 2)])
def test_milestone_above_is_never_the_number_itself(number: int, milestone: int) -> None:
    assert milestone_above(number) == milestone * MILESTONE
