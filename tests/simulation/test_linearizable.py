"""The checker of histories: known good and known bad ones, and all small ones against every order."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Final

import pytest

from harness import depth
from harness.linearizable import ANY, NEVER, Operation, Read, Write, check, register

if TYPE_CHECKING:
    from collections.abc import Sequence

History = list[Operation[Read | Write]]


def op(invoked: float, returned: float, call: Read | Write) -> Operation[Read | Write]:
    return Operation(invoked, returned, call)


GOOD: Final[dict[str, History]] = {
    "nothing": [],
    "one write and a read behind it": [op(0, 1, Write("a", ANY, True)), op(2, 3, Read("a"))],
    "a read that began before the write ended": [op(0, 5, Write("a", ANY, True)), op(1, 2, Read("a"))],
    "a read of the old value while the write was under way": [
        op(0, 5, Write("a", ANY, True)),
        op(1, 2, Read(None)),
    ],
    "two reads of one write under way, the old value first": [
        op(0, 9, Write("a", ANY, True)),
        op(1, 2, Read(None)),
        op(3, 4, Read("a")),
    ],
    "a write that nobody was told of, seen much later": [
        op(0, NEVER, Write("a", ANY, None)),
        op(1, 2, Read(None)),
        op(50, 51, Read("a")),
    ],
    "a write that nobody was told of and that never happened": [
        op(0, NEVER, Write("a", ANY, None)),
        op(1, 2, Read(None)),
        op(50, 51, Read(None)),
    ],
    "of two compare-and-sets one is refused": [
        op(0, 3, Write("a", None, True)),
        op(0, 3, Write("b", None, False)),
        op(4, 5, Read("a")),
    ],
    "a compare-and-set refused because of one that nobody was told of": [
        op(0, NEVER, Write("a", None, None)),
        op(1, 2, Write("b", None, False)),
        op(3, 4, Write("c", "a", True)),
    ],
    "a chain under way at once": [
        op(0, 9, Write("a", None, True)),
        op(0, 9, Write("c", "b", True)),
        op(0, 9, Write("b", "a", True)),
        op(10, 11, Read("c")),
    ],
}

BAD: Final[dict[str, History]] = {
    "a lost write": [op(0, 1, Write("a", ANY, True)), op(2, 3, Read(None))],
    "a read from the past": [
        op(0, 1, Write("a", ANY, True)),
        op(2, 3, Write("b", ANY, True)),
        op(4, 5, Read("a")),
    ],
    "a value that comes and goes": [
        op(0, 9, Write("a", ANY, True)),
        op(1, 2, Read("a")),
        op(3, 4, Read(None)),
    ],
    "two compare-and-sets of one value": [
        op(0, 3, Write("a", None, True)),
        op(0, 3, Write("b", None, True)),
    ],
    "a value that nobody wrote": [op(0, 1, Read("a"))],
    "a refusal without a reason": [op(0, 1, Write("a", None, False)), op(2, 3, Read(None))],
    "a write that was refused and is there": [
        op(0, 1, Write("a", ANY, True)),
        op(2, 3, Write("b", None, False)),
        op(4, 5, Read("b")),
    ],
    "a read before the write began": [op(0, 1, Read("a")), op(2, 3, Write("a", ANY, True))],
    "a write that nobody was told of happens once": [
        op(0, NEVER, Write("a", ANY, None)),
        op(1, 2, Read("a")),
        op(3, 4, Write("b", ANY, True)),
        op(5, 6, Read("b")),
        op(7, 8, Read("a")),
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_history_that_can_be_explained(name: str) -> None:
    verdict = check(GOOD[name], None, register)
    assert verdict.is_linearizable, str(verdict)
    assert is_explained(verdict.order, GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_a_history_that_cannot_be_explained(name: str) -> None:
    verdict = check(BAD[name], None, register)
    assert not verdict.is_linearizable
    assert verdict.stuck
    assert "not linearizable" in str(verdict)


def is_explained(order: Sequence[Operation[Read | Write]], history: History) -> bool:
    """True if an order has all operations that ended, respects their times, and the register allows it."""
    if not {id(each) for each in history if each.returned != NEVER} <= {id(each) for each in order}:
        return False
    left = list(history)
    state: object = None
    for each in order:
        left.remove(each)
        if any(other.returned < each.invoked for other in left):
            return False
        reached = register(state, each.call)
        if not reached:
            return False
        state = reached[0]
    return True


def every_order(history: History) -> bool:
    """True if some order of some operations explains a history: all of them are tried."""
    return any(
        is_explained(order, history)
        for count in range(len(history) + 1)
        for order in itertools.permutations(history, count)
    )


def drawn(chance: random.Random) -> History:
    """Return a small history of which about half are good."""
    values = ["a", "b", "c"]
    history: History = []
    for value in range(chance.randrange(1, 5)):
        invoked = chance.uniform(0, 6)
        returned = invoked + chance.choice((0.5, 1, 4))
        if chance.random() < 0.5:
            history.append(op(invoked, returned, Read(chance.choice((None, *values)))))
            continue
        expected = chance.choice((ANY, None, *values))
        is_done = (
            chance.choice((True, True, None, False)) if expected is not ANY else chance.choice((True, None))
        )
        returned = NEVER if is_done is None else returned
        history.append(op(invoked, returned, Write(values[value % 3], expected, is_done)))
    return history


@pytest.mark.parametrize("seed", depth.seeds(20))
def test_small_histories_against_every_order(seed: int) -> None:
    chance = random.Random(seed)
    verdicts = set()
    for _ in range(100):
        history = drawn(chance)
        verdict = check(history, None, register)
        assert verdict.is_linearizable is every_order(history), history
        verdicts.add(verdict.is_linearizable)
    assert verdicts == {True, False}


def real(chance: random.Random, clients: int, count: int) -> History:
    """Return a history of clients of a register that works: each operation happens while it is under way."""
    free = [0.0] * clients
    moments: list[tuple[float, float, float, int]] = []
    for number in range(count):
        client = chance.randrange(clients)
        invoked = free[client] + chance.expovariate(2)
        returned = invoked + chance.expovariate(1)
        free[client] = returned
        moments.append((chance.uniform(invoked, returned), invoked, returned, number))
    state: str | None = None
    history: History = []
    known: list[str | None] = [None]
    for _, invoked, returned, number in sorted(moments):
        if chance.random() < 0.4:
            history.append(op(invoked, returned, Read(state)))
            known.append(state)
            continue
        value, expected = f"v{number}", chance.choice(known[-3:])
        is_done = expected == state
        if is_done:
            state = value
        is_told = chance.random() < 0.8
        history.append(
            op(invoked, returned if is_told else NEVER, Write(value, expected, is_done if is_told else None))
        )
    return history


@pytest.mark.parametrize("seed", depth.seeds(20))
def test_histories_of_a_register_that_works(seed: int) -> None:
    history = real(random.Random(seed), clients=8, count=300)
    verdict = check(history, None, register)
    assert verdict.is_linearizable, str(verdict)


@pytest.mark.parametrize("seed", depth.seeds(20))
def test_a_lost_write_in_a_long_history(seed: int) -> None:
    """Everybody reads behind the last write what was there before it."""
    chance = random.Random(seed)
    history = real(chance, clients=8, count=200)
    end = max(each.returned for each in history if each.returned != NEVER)
    history.append(op(end + 1, end + 2, Write("last", ANY, True)))
    history.append(op(end + 3, end + 4, Read("v0")))
    assert not check(history, None, register).is_linearizable
