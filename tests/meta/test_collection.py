"""Each process of a run collects in an order of its own, and none leaves anything out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.collection import dealt, place, turned


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0, 1)),
        ({"workerinput": {"workerid": "gw0", "workercount": 4}}, (0, 4)),
        ({"workerinput": {"workerid": "gw11", "workercount": 12}}, (11, 12)),
    ],
)
def test_place_is_that_which_xdist_gave(given: dict[str, Any], expected: tuple[int, int]) -> None:
    config: Any = SimpleNamespace(**given)

    assert place(config) == expected


@pytest.mark.parametrize("nodes", ["", "a", "ab", "abcdefghijk"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_process_collects_all_nodes(nodes: str, count: int) -> None:
    orders = [turned(nodes, number, count) for number in range(count)]

    assert orders[0] == list(nodes)
    assert all(sorted(order) == list(nodes) for order in orders)


def test_processes_begin_at_equal_distances() -> None:
    assert [turned("abcdefgh", number, 4)[0] for number in range(4)] == ["a", "c", "e", "g"]


def shares(tests: list[str], count: int) -> list[str]:
    """The shares that pytest-xdist deals (`--dist worksteal`)."""
    found = []
    for number in range(count):
        size = len(tests) // (count - number)
        found.append("".join(tests[:size]))
        tests = tests[size:]
    return found


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, ["ABCabcdefgh"]),
        (2, ["ACabc", "Bdefgh"]),
        (3, ["Aab", "Bcde", "Cfgh"]),
        (4, ["Aa", "Bbc", "Cde", "fgh"]),
    ],
)
def test_shares_begin_with_what_takes_long(count: int, expected: list[str]) -> None:
    assert shares(dealt(["A", "B", "C"], "abcdefgh", count), count) == expected


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("others", ["", "a", "abcdefghij"])
def test_nothing_is_left_out_that_is_more_than_a_share(count: int, others: str) -> None:
    found = dealt(["ABCD", "", "EFGH"], others, count)

    assert sorted(found) == sorted(f"ABCDEFGH{others}")
