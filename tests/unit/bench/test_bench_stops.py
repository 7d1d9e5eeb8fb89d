"""The bench of ends: a small run end to end, and its words."""

from __future__ import annotations

import argparse
import json
import signal
from typing import TYPE_CHECKING

import pytest
from bench import stops
from bench.errors import BenchError
from bench.stops import Stop, add_arguments, run_stops, stop_text

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN: dict[str, object] = {
    "created": "today", "command": "this", "python": "3", "machine": {"cpu": "one", "cores": 2}
}  # fmt: skip


def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench:stop -->\nold\n<!-- /bench:stop -->\n", encoding="utf-8")
    monkeypatch.setattr(stops, "SECTION", stops.SECTION._replace(results=tmp_path, page=page))
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    assert run_stops(parser.parse_args(["--reps", "1"]), ORIGIN) == 0

    result = json.loads((tmp_path / "stop.json").read_text(encoding="utf-8"))
    assert list(result["stops"]) == [each.title for each in stops.stops("nats-server")]
    for found in result["stops"].values():
        assert len(found) == 4
        assert all(ms > 0 for ms in found.values())
    assert stop_text(result).strip() in page.read_text(encoding="utf-8")
    assert "| `headrace streaming` |" in stop_text(result)


def test_a_server_that_does_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="did not start"):
        stops._measured(Stop("none", ("false",)), tmp_path, signal.SIGTERM)
