"""The bench of starts: a small run end to end, and its words."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

import pytest
from bench import starts
from bench.command_starts import COMMANDS, command_lines, measured_command
from bench.errors import BenchError
from bench.starts import Start, add_arguments, run_starts, start_text

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN: dict[str, object] = {
    "created": "today", "command": "this", "python": "3", "machine": {"cpu": "one", "cores": 2}
}  # fmt: skip


def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench:start -->\nold\n<!-- /bench:start -->\n", encoding="utf-8")
    monkeypatch.setattr(starts, "SECTION", starts.SECTION._replace(results=tmp_path, page=page))
    every = starts.starts
    monkeypatch.setattr(starts, "starts", lambda peer: every(peer)[2:])
    (tmp_path / "stores").mkdir()
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["--reps", "1", "--streams", "3", "--directory", str(tmp_path / "stores")]

    assert run_starts(parser.parse_args(words), ORIGIN) == 0

    result = json.loads((tmp_path / "start.json").read_text(encoding="utf-8"))
    assert list(result["starts"]) == ["python", *(each.title for each in every("nats-server")[2:])]
    for title, found in result["starts"].items():
        assert title == "python" or 0 < found["accept_ms"] <= found["info_ms"]
    assert "| `headrace serve -js`, 3 streams |" in page.read_text(encoding="utf-8")
    assert start_text(result).strip() in page.read_text(encoding="utf-8")
    assert not list((tmp_path / "stores").iterdir())
    commands = result["commands"]
    assert list(commands) == ["python", *(command.title for command in COMMANDS)]
    assert all(found["cpu_ms"] > 0 and found["ms"] > 0 for found in commands.values())
    assert "| `headrace rtt 1` |" in page.read_text(encoding="utf-8")


def test_commands_are_told_as_multiples() -> None:
    found = {
        "python": {"ms": 20.0, "cpu_ms": 10.0},
        "`headrace rtt 1`": {"ms": 30.0, "cpu_ms": 15.0},
        "`headrace pub s x`": {"ms": 50.0, "cpu_ms": 30.0},
    }

    assert command_lines(found)[-2:] == [
        "| `headrace rtt 1` | 30 | 1.50 | 15 | 1.50 | 2 × |",
        "| `headrace pub s x` | 50 | 2.50 | 30 | 3.00 |  |",
    ]


def test_a_command_that_fails_ends_it(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="rtt 1 ended with 7"):
        measured_command(COMMANDS[0], 1, tmp_path)


def test_a_server_that_does_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="did not start"):
        starts._measured(Start("none", ("false",)), tmp_path)
