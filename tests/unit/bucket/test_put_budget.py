"""So many puts a second, a burst after a pause; puts that wait for a burst of publications to be whole."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headrace.bucket.budget import LEAST_BURST, LONGEST_DISTANCE_S, PAYBACK, PutBudget, PutPace


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


def test_a_borrowed_token_is_given_back_little_by_little() -> None:
    budget = PutBudget(50.0, 1)
    budget.spend(0.0)
    budget.borrow(0.02)

    assert budget.is_in_debt
    times = spent_at(budget, PAYBACK + 2, now=0.02)
    assert not budget.is_in_debt
    apart = [later - before for before, later in pairwise(times)]
    assert times[0] == pytest.approx(0.02)
    assert apart == pytest.approx([0.0225] * PAYBACK + [0.02])


def test_a_second_token_is_not_borrowed() -> None:
    budget = PutBudget(50.0, 1)
    budget.borrow(0.0)
    budget.borrow(0.0)

    assert budget.wait_s(0.0) == pytest.approx(0.0225)


def pace_of(took_s: float, *, size: int = 10 * LEAST_BURST) -> PutPace:
    """The pace after many puts that took so long, and had so many bytes, none of which is expected again."""
    pace = PutPace(4)
    for _ in range(50):
        pace.end(took_s)
        pace.begin(0.0, size, 0)
    return pace


def test_of_a_store_that_is_near_no_burst_is_waited_for() -> None:
    pace = pace_of(0.008)
    pace.confirmed(80_000)
    pace.begin(1.0, 10, 0)

    assert pace.missing(1) == 0
    assert pace.wait_s(1.0, 1, 1) == pytest.approx(0.002)


def test_little_that_was_confirmed_is_not_waited_for() -> None:
    pace = pace_of(0.02, size=LEAST_BURST - 1)
    pace.begin(1.0, LEAST_BURST - 1, 0)
    pace.confirmed(LEAST_BURST - 1)

    assert pace.missing(0) == 0
    assert pace.wait_s(1.0, 1, 1) == pytest.approx(0.005)
    assert pace.wait_s(1.005, 1, 1) == 0.0


def test_a_burst_is_whole_with_seven_eighths_and_what_is_left_is_waited_for() -> None:
    pace = pace_of(0.02)
    pace.confirmed(80_000)

    assert pace.missing(3) == 70_000
    assert pace.wait_s(2.0, 69_999, 3) == pytest.approx(0.005)
    assert pace.wait_s(2.004, 69_999, 3) == pytest.approx(0.001)
    assert pace.wait_s(2.004, 70_000, 3) == 0.0
    pace.begin(2.004, 70_000, 3)
    assert pace.missing(3) == 10_000 * 7 // 8


def test_a_burst_is_divided_among_the_puts_that_may_begin() -> None:
    pace = pace_of(0.02)
    pace.confirmed(80_000)

    assert [pace.missing(in_flight) for in_flight in range(4)] == [17_500, 23_333, 35_000, 70_000]


def test_a_burst_that_did_not_come_whole_is_forgotten() -> None:
    pace = pace_of(30.0)
    pace.confirmed(80_000)

    assert pace.wait_s(2.0, 1, 3) == pytest.approx(LONGEST_DISTANCE_S)
    assert pace.wait_s(2.0 + LONGEST_DISTANCE_S, 1, 3) == 0.0
    pace.begin(2.0 + LONGEST_DISTANCE_S, 1, 3)
    assert pace.missing(3) == 0
