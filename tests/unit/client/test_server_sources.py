"""Servers asked over a connection: what is not known of them is said, not passed over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.client import server_sources
from headrace.client.errors import ClientTimeoutError
from headrace.client.server_sources import SystemSource


def test_a_server_that_does_not_tell_its_neighbours_in_time_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask_one(_connection: Any, subject: str, **_more: Any) -> Any:
        raise ClientTimeoutError(f"no answer on {subject}")

    monkeypatch.setattr(server_sources, "ask_one", ask_one)
    connection = SimpleNamespace(server_info=SimpleNamespace(fields={}, server_id="NID"))

    with pytest.raises(ClientTimeoutError, match="ROUTEZ"):
        SystemSource(cast("Any", connection), timeout=0.1)
