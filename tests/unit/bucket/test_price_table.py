"""The table of prices in docs/bucket.md is the one that is computed."""

from __future__ import annotations

import pytest
from docs.bucket_prices import PAGE, of_owner, of_standby, puts_needed, table, with_table

from headrace.bucket.price import MONTH_S, PER_READ, PER_WRITE


def test_page_has_the_table_of_now() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert table() in text
    assert with_table(text) == text


def test_idle_owner_pays_for_its_proofs_alone() -> None:
    assert of_owner(0.0, 50.0) == pytest.approx(MONTH_S * PER_READ)
    assert of_standby(0.0, 50.0) == 0.0


def test_budget_bounds_what_puts_cost() -> None:
    for budget in (2.0, 10.0, 50.0):
        assert of_owner(1e3, budget) == pytest.approx(budget * PER_WRITE * MONTH_S)
    assert of_owner(1.0, 50.0) == pytest.approx((1 + 4 / 500) * PER_WRITE * MONTH_S, rel=1e-3)


def test_bytes_need_puts_of_their_own() -> None:
    """20 MB/s: 2.4 objects of the log, their bytes once more in segments, and manifests."""
    assert 2.4 + 1.2 < puts_needed(1e5) < 10
    assert puts_needed(1e3) < 0.5
