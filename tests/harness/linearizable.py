"""A checker of histories: could these operations have happened one after the other, each while it was under
way?

The search is that of Wing and Gong with Lowe's memory of what was tried: operations in an order that respects
their times are put one behind the other, and a set of operations that leads to a state that it led to before
is not tried again. A history is one of one object (of one key); what an operation does to the object's state
is a function of the caller's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

C = TypeVar("C")

NEVER: Final = math.inf
"""The end of an operation that nobody was told of: it may happen at any time behind its beginning, or not."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[C]):
    """One operation of a client, and what came of it. Times are of one clock."""

    invoked: float
    returned: float
    call: C
    """The operation's arguments and its outcome, as the model's step takes them."""


@dataclass(frozen=True, slots=True)
class Verdict(Generic[C]):
    """The outcome of a check: an order of the operations that explains all, or the longest that was found."""

    is_linearizable: bool
    order: tuple[Operation[C], ...]
    stuck: tuple[Operation[C], ...] = ()
    """Operations of which one would have to come next behind `order`, and none can."""

    def __str__(self) -> str:
        if self.is_linearizable:
            return "linearizable"
        lines = ["not linearizable; the longest explanation:", *map(_told, self.order[-8:])]
        return "\n  ".join([*lines, "behind which none of these can come:", *map(_told, self.stuck)])


def _told(operation: Operation[C]) -> str:
    return f"[{operation.invoked:.3f}, {operation.returned:.3f}] {operation.call}"


def check(
    history: Sequence[Operation[C]],
    initial: Hashable,
    step: Callable[[Hashable, C], Sequence[Hashable]],
) -> Verdict[C]:
    """Search for an order of all operations that ended, and of some that did not, that the model explains.

    `step`: the states that an operation with its outcome can lead to from a state; none where it cannot have
    happened there. Cost: as a rule linear; exponential in the number of operations under way at once.
    """
    operations = sorted(history, key=lambda each: each.invoked)
    ended = sum(1 << at for at, each in enumerate(operations) if each.returned != NEVER)
    tried: set[tuple[int, Hashable]] = {(0, initial)}
    path: list[int] = []
    longest: tuple[int, ...] = ()
    ways = [_ways(operations, 0, initial, step)]
    if not ended:
        return Verdict(True, ())
    done = 0
    while ways:
        found = next(ways[-1], None)
        if found is None:
            ways.pop()
            if path:
                done &= ~(1 << path.pop())
            continue
        at, state = found
        key = done | 1 << at, state
        if key in tried:
            continue
        tried.add(key)
        done = key[0]
        path.append(at)
        if done & ended == ended:
            return Verdict(True, tuple(operations[each] for each in path))
        if len(path) > len(longest):
            longest = tuple(path)
        ways.append(_ways(operations, done, state, step))
    behind = sum(1 << at for at in longest)
    stuck = tuple(operations[at] for at in _next(operations, behind))
    return Verdict(False, tuple(operations[at] for at in longest), stuck)


def _ways(
    operations: Sequence[Operation[C]],
    done: int,
    state: Hashable,
    step: Callable[[Hashable, C], Sequence[Hashable]],
) -> Iterator[tuple[int, Hashable]]:
    for at in _next(operations, done):
        for reached in step(state, operations[at].call):
            yield at, reached


def _next(operations: Sequence[Operation[C]], done: int) -> list[int]:
    """Return the operations that may come next: those that began before every other one had ended."""
    first_end = math.inf
    for at, each in enumerate(operations):
        if each.invoked > first_end:
            break
        if not done >> at & 1:
            first_end = min(first_end, each.returned)
    chosen = []
    for at, each in enumerate(operations):
        if each.invoked > first_end:
            break
        if not done >> at & 1:
            chosen.append(at)
    return chosen


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a register, and the value that it returned."""

    value: Hashable


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a register. `expected`: the value that it had to have, ANY without a condition.

    `is_done`: True if it was confirmed, False if its condition was not true, None if nobody knows.
    """

    value: Hashable
    expected: Hashable
    is_done: bool | None


class _Any:
    """The absence of a condition."""

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()


def register(state: Hashable, call: Read | Write) -> Sequence[Hashable]:
    """Return the states that an operation leads to of a register with compare-and-set: a step of `check`."""
    if isinstance(call, Read):
        return (state,) if call.value == state else ()
    applies = call.expected is ANY or call.expected == state
    if call.is_done is False:
        return () if applies else (state,)
    return (call.value,) if applies else ()
