"""Fixtures of the engine's tests. Every test here must give back what it took from the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_peers import WAYS, Broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _balanced(engine_balance: None) -> None:
    """Live objects of the engine return to where they were, in every test of this directory."""


@pytest.fixture(params=WAYS)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker whose peers' input is split in each of the three ways in turn."""
    broker = Broker(request.param)
    yield broker
    broker.stop()


@pytest.fixture
def plain_broker() -> Iterator[Broker]:
    """A broker whose peers' input is not split, for what does not depend on parsing."""
    broker = Broker()
    yield broker
    broker.stop()
