"""Collection in several processes, which write the compiled tests for each other, and what each begins with.

pytest rewrites the assertions of each file of tests and compiles it: two thirds of a first collection. Each
process begins with other files, so that it soon meets those that another one has compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

T = TypeVar("T")

_NAME: Final = "gw"
"""What pytest-xdist puts before the number of a process."""


def place(config: pytest.Config) -> tuple[int, int]:
    """The number of this process, from 0, and how many there are: (0, 1) if it is the only one."""
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is None:
        return 0, 1
    return int(given["workerid"].removeprefix(_NAME)), int(given["workercount"])


def turned(nodes: Sequence[T], number: int, count: int) -> list[T]:
    """The nodes of a folder in the order of one of `count` processes: each begins at its own part of them."""
    first = len(nodes) * number // count
    return [*nodes[first:], *nodes[:first]]


def dealt(starts: Sequence[Sequence[T]], others: Sequence[T], count: int) -> list[T]:
    """All tests, so that the shares of the first processes begin with `starts`, one each.

    pytest-xdist deals equal shares of the list, in its order; with fewer processes some begin with several.
    """
    left = sum(map(len, starts)) + len(others)
    found: list[T] = []
    taken = 0
    for number in range(count):
        own = [test for start in starts[number::count] for test in start]
        share = left // (count - number)
        more = max(0, share - len(own)) if number + 1 < count else len(others)
        found += [*own, *others[taken : taken + more]]
        taken += more
        left -= share
    return found
