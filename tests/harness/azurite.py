"""Azure's blob service as Azurite has it (npm), for tests; `make test` puts it into .venv where npm is."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from bench.object_stores import AZURITE, AZURITE_ACCOUNT, AZURITE_KEY, azurite_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def azure_endpoint(container: str) -> Iterator[str]:
    """The URL of the account on a server with one empty container.

    Skips the test where Azurite is not there.
    """
    pytest.importorskip("obstore")
    if shutil.which("node") is None or not AZURITE.exists():
        pytest.skip("Azurite is not installed: make .venv/.azurite, where npm is")
    with azurite_server(container) as endpoint:
        yield endpoint


def azure_options(endpoint: str) -> dict[str, Any]:
    """What obstore is given."""
    return {
        "endpoint": endpoint,
        "account_name": AZURITE_ACCOUNT,
        "account_key": AZURITE_KEY,
        "client_options": {"allow_http": True},
    }
