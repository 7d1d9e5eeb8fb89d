"""Ports with a mesh each; what they took from the engine is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mesh_harness import Made

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def make(engine_balance: None) -> Iterator[Made]:
    """Makes a port: `make(accounts, own={fields of INFO}, **fields of ClusterOptions)`."""
    made = Made()
    yield made
    for port in made.ports:
        port.stop()
    made.ports.clear()  # else what they refer to is still there when the balance is struck
