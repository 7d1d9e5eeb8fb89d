"""Ranges of bytes against a set of numbers."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from headrace.bucket.ranges import Ranges


@pytest.mark.parametrize("seed", range(30))
def test_random_ranges(seed: int) -> None:
    random = Random(seed)
    ranges, model = Ranges(), set[int]()
    for _ in range(300):
        start = random.randrange(60)
        end = start + random.randrange(-2, 15)
        match random.randrange(5):
            case 0 | 1:
                ranges.add(start, end)
                model |= set(range(start, end))
            case 2:
                ranges.remove(start, end)
                model -= set(range(start, end))
            case 3:
                assert [n for a, b in ranges.within(start, end) for n in range(a, b)] == sorted(
                    model & set(range(start, end))
                )
                assert [n for a, b in ranges.missing(start, end) for n in range(a, b)] == sorted(
                    set(range(start, end)) - model
                )
                assert ranges.covers(start, end) == (set(range(start, end)) <= model)
            case _ if random.random() < 0.2:
                ranges.cut(start)
                model -= set(range(start, 100))
        assert [n for a, b in ranges for n in range(a, b)] == sorted(model)
        found = list(ranges)
        assert all(a < b for a, b in found)
        assert all(one[1] < other[0] for one, other in pairwise(found))
        assert ranges.size == len(model)
    ranges.clear()
    assert not ranges
    assert ranges == Ranges()


def test_appends_touch_the_last_range_only() -> None:
    ranges = Ranges([(5, 7), (0, 2)])
    ranges.add(7, 9)
    ranges.add(9, 9)
    ranges.add(10, 12)

    assert list(ranges) == [(0, 2), (5, 9), (10, 12)]
    assert ranges != Ranges([(0, 2)])
    assert repr(Ranges([(0, 2)])) == "Ranges([(0, 2)])"
