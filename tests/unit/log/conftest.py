"""Fixtures for tests of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from log_makers import KINDS, Clock, Maker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Maker]:
    maker = Maker(request.param, tmp_path, clock)
    yield maker
    maker.close()
