"""Each process of a run collects in an order of its own, and none leaves anything out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.collection import place, turned


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
