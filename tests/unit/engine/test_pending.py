"""What awaits acknowledgement, beside a dict in the order of sending."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.memory import live_objects
from headrace.engine.pending import PendingMap

LARGEST: Final = (1 << 64) - 1

SEQUENCES: Final = st.one_of(
    st.integers(1, 12), st.integers(1, 60).map(lambda n: n << 32), st.integers(LARGEST - 12, LARGEST)
)
STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "run", "pop", "renew", "touch", "up to", "first", "clear"]),
        SEQUENCES,
        st.integers(1, 40),
    ),
    max_size=60,
)


def same(pending: PendingMap, model: dict[int, tuple[int, int]]) -> None:
    assert list(pending.items()) == list(model.items())
    assert list(pending) == list(model)
    assert (len(pending), bool(pending)) == (len(model), bool(model))
    assert pending.lowest() == min(model, default=0)
    for sequence in [*model, 1, 13, LARGEST]:
        assert pending.get(sequence) == model.get(sequence)
        assert (sequence in pending) == (sequence in model)


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_whatever_is_done_it_is_as_a_dict(steps: list[tuple[str, int, int]]) -> None:
    pending, model = PendingMap(), dict[int, tuple[int, int]]()
    for place, (step, sequence, count) in enumerate(steps):
        match step:
            case "add":
                pending[sequence] = model[sequence] = (place, -place)
            case "run":  # as a page is delivered
                for number, one in enumerate(range(sequence, min(sequence + count, LARGEST + 1))):
                    pending[one] = model[one] = (number, place)
            case "pop":
                assert pending.pop(sequence) == model.pop(sequence, None)
            case "renew" | "touch":
                if sequence not in model:
                    with pytest.raises(KeyError):
                        pending.renew(sequence, place)
                    continue
                number = model.pop(sequence)[0] if step == "renew" else model[sequence][0]
                model[sequence] = (number, place)
                assert pending.renew(sequence, place, last=step == "renew") == number
            case "up to":
                gone = [one for one in model if one <= sequence]
                assert pending.take_up_to(sequence) == gone
                for one in gone:
                    del model[one]
            case "first":  # acknowledgements in order
                for one in sorted(model)[:count]:
                    del pending[one]
                    del model[one]
                    assert pending.lowest() == min(model, default=0)
            case "clear":
                pending.clear()
                model.clear()
        same(pending, model)
    copy = PendingMap((sequence, *pair) for sequence, pair in reversed(model.items()))
    assert copy == pending
    other = PendingMap([(7, 1, 1)])
    other.update(pending)
    assert dict(other.items()) == {7: (1, 1)} | model
    assert other != pending or 7 in model


def test_many_come_and_go_in_any_order() -> None:
    random = Random(41)
    before = live_objects()
    pending, model = PendingMap(), dict[int, tuple[int, int]]()
    step = 1 << 20  # so that low bits say nothing
    for number in range(3_000):
        pending[number * step] = model[number * step] = (number, number)
    for sequence in random.sample(sorted(model), 2_900):
        del pending[sequence]
        del model[sequence]
    for number in range(500):
        pending[number] = model[number] = (number, 1)
    same(pending, model)
    for sequence in list(model):
        assert pending.pop(sequence) == model.pop(sequence)
    same(pending, {})
    assert live_objects() == before, "what is empty and was large keeps no memory"
    pending[1] = (2, 3)
    assert list(pending.items()) == [(1, (2, 3))]


def test_it_cannot_change_while_it_is_iterated_over() -> None:
    pending = PendingMap([(1, 1, 1), (2, 2, 2), (3, 3, 3)])
    each = iter(pending)
    assert next(each) == 1
    pending.renew(1, 5, last=False)  # neither comes, goes nor moves
    assert next(each) == 2
    pending.renew(1, 5)
    with pytest.raises(RuntimeError):
        next(each)
    each = iter(pending)
    assert next(each) == 2
    pending.clear()
    with pytest.raises(RuntimeError):
        next(each)


@pytest.mark.parametrize("entry", [(-1, 1, 1), (LARGEST + 1, 1, 1), (1, -1, 1), (1, 1, 1 << 63)])
def test_numbers_that_do_not_fit(entry: tuple[int, int, int]) -> None:
    with pytest.raises(OverflowError):
        PendingMap([entry])
    sequence, *pair = entry
    pending = PendingMap()
    with pytest.raises(OverflowError):
        pending[sequence] = (pair[0], pair[1])
    assert not pending


def test_what_is_not_there() -> None:
    pending = PendingMap()
    with pytest.raises(KeyError):
        pending[5]
    with pytest.raises(KeyError):
        del pending[5]
    assert (pending.pop(5), pending.get(5), pending.take_up_to(LARGEST)) == (None, None, [])
    assert pending != {}
