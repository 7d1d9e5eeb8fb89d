"""A table in a directory of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.tables import Table


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "orders"


@pytest.fixture
def table(directory: Path) -> Table:
    from table_makers import Unsynced

    from headrace.objects.local import LocalStore
    from headrace.tables import Table

    return Table(LocalStore(directory, Unsynced()))
