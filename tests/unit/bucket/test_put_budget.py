"""So many puts a second, and a burst after a pause."""

from __future__ import annotations

import pytest

from headrace.bucket.budget import PutBudget


def spent_at(budget: PutBudget, count: int, now: float = 0.0) -> list[float]:
    """The times of puts that are wanted all at once."""
    times = []
    for _ in range(count):
        now += budget.wait_s(now)
        budget.spend(now)
        times.append(now)
    return times


def test_burst_comes_at_once_and_the_rest_by_the_rate() -> None:
    assert spent_at(PutBudget(50.0, 4), 8) == pytest.approx([0, 0, 0, 0, 0.02, 0.04, 0.06, 0.08])


def test_pause_fills_the_bucket_and_no_more() -> None:
    budget = PutBudget(10.0, 3)
    spent_at(budget, 3)

    assert spent_at(budget, 4, now=1000.0) == pytest.approx([1000.0, 1000.0, 1000.0, 1000.1])


def test_part_of_a_pause_fills_a_part() -> None:
    budget = PutBudget(10.0, 3)
    spent_at(budget, 3)

    assert spent_at(budget, 3, now=0.2) == pytest.approx([0.2, 0.2, 0.3])


@pytest.mark.parametrize("rate", [0.1, 1 / 3, 3.0, 49.0, 50.0, 997.0])
@pytest.mark.parametrize("begin", [0.0, 1e6, 12345.678])
def test_waiting_as_long_as_it_says_is_enough(rate: float, begin: float) -> None:
    """Sums of times are not exact: a wait that leaves a smaller one would never end."""
    budget = PutBudget(rate, 2)
    now = begin
    for _ in range(1000):
        now += budget.wait_s(now)
        assert budget.wait_s(now) == 0.0
        budget.spend(now)

    assert now - begin == pytest.approx(998 / rate)


def test_another_rate_keeps_the_tokens_that_are_there() -> None:
    budget = PutBudget(10.0, 3)
    budget.spend(0.0)
    budget.change(2.0, 0.0)
    assert spent_at(budget, 4) == pytest.approx([0.0, 0.0, 0.5, 1.0])


@pytest.mark.parametrize(("per_second", "times"), [(100.0, [0.005, 0.015]), (1.0, [0.5, 1.5])])
def test_another_rate_counts_from_the_change_on(per_second: float, times: list[float]) -> None:
    budget = PutBudget(10.0, 3)
    spent_at(budget, 3)
    budget.change(per_second, 0.05)  # half a token has come
    assert [time - 0.05 for time in spent_at(budget, 2, 0.05)] == pytest.approx(times)
