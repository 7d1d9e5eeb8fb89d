"""The bench of syncs: a small run end to end, and its words."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from bench import syncs
from bench.syncs import SIZES, WAYS, add_arguments, run_sync, sync_text

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ORIGIN: dict[str, object] = {
    "created": "today", "command": "this", "python": "3", "machine": {"cpu": "one", "cores": 2}
}  # fmt: skip


def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench:sync -->\nold\n<!-- /bench:sync -->\n", encoding="utf-8")
    monkeypatch.setattr(syncs, "SECTION", syncs.SECTION._replace(results=tmp_path, page=page))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    (tmp_path / "files").mkdir()
    options = parser.parse_args(["--writes", "3", "--reps", "2", "--directory", str(tmp_path / "files")])

    assert run_sync(options, ORIGIN) == 0

    result = json.loads((tmp_path / "sync.json").read_text(encoding="utf-8"))
    assert list(result["sizes"]) == [str(size) for size in SIZES]
    for found in result["sizes"].values():
        assert all(0 < found[way]["p50"] <= found[way]["p99"] for way in WAYS)
    assert sync_text(result).strip() in page.read_text(encoding="utf-8")
    assert not list((tmp_path / "files").iterdir())


def test_a_named_run_leaves_the_page_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = syncs.SECTION._replace(results=tmp_path, page=tmp_path / "none.md")
    monkeypatch.setattr(syncs, "SECTION", section)
    options = argparse.Namespace(writes=3, reps=1, directory=str(tmp_path), name="mine")
    assert run_sync(options, ORIGIN) == 0
    assert (tmp_path / "local" / "mine.json").exists()
    assert not section.result.exists()
