"""The bench of the log alone: a small run end to end, and its words."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

import pytest
from bench import storage
from bench.errors import BenchError
from bench.storage import add_arguments, run_storage, storage_text

if TYPE_CHECKING:
    from pathlib import Path


def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench:storage -->\nold\n<!-- /bench:storage -->\n", encoding="utf-8")
    monkeypatch.setattr(storage, "SECTION", storage.SECTION._replace(results=tmp_path, page=page))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    (tmp_path / "logs").mkdir()
    words = "--gigabytes 0.004 --messages 20000 --subjects 5000 --seconds 0.02 --directory"
    options = parser.parse_args([*words.split(), str(tmp_path / "logs")])
    origin = {"created": "today", "command": "this", "python": "3", "machine": machine()}

    assert run_storage(options, origin) == 0

    result = json.loads((tmp_path / "storage.json").read_text(encoding="utf-8"))
    starts = result["recovery"]
    messages = starts["fill"]["messages"]
    assert messages > 3000
    assert [starts[k]["messages"] for k in ("killed", "closed", "without_index", "without_both")] == [
        messages
    ] * 4
    assert starts["closed"]["read_bytes"] == 0 < starts["without_both"]["read_bytes"]
    assert result["memory"]["messages"] == 20_000
    assert all(result["rates"][k] > 0 for k in ("append_1", "append_100", "append_100_fsync", "replay"))
    assert storage_text(result).strip() in page.read_text(encoding="utf-8")
    assert not list((tmp_path / "logs").iterdir())


def machine() -> dict[str, str | int]:
    return {"cpu": "one", "cores": 2, "memory_gib": 1}


def test_a_page_without_markers_is_a_mistake(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    section = storage.SECTION._replace(results=tmp_path, page=page)
    with pytest.raises(BenchError, match="storage"):
        section.render()
