"""The texts of the main commands are as they were written down, from recorded servers (`golden`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from commands.golden import (
    LOCAL,
    WIDTHS,
    GoldenCommand,
    commands_of,
    heading,
    key_of,
    printed,
    recorded_file,
    sections,
    text_of,
    texts_file,
    write_contexts,
)
from harness.command_line import CommandLine
from harness.processes import SIDES
from harness.recorded import RecordedServer

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = {side: sections(texts_file(side)) for side in (*SIDES, "local")}
FREE = ("---- doctor", "---- server check", "---- top", "---- events", "---- server info")
"""Texts that are no tables."""
ADVICE = "if this is meant, run python tests/commands/golden.py write and read the difference"


@pytest.fixture(scope="module", params=list(SIDES))
def recorded(request: pytest.FixtureRequest) -> tuple[str, RecordedServer]:
    """A recorded server, and its kind."""
    return request.param, RecordedServer(recorded_file(request.param))


@pytest.mark.parametrize("where", list(WIDTHS))
def test_texts_are_those_that_were_written_down(
    recorded: tuple[str, RecordedServer], tmp_path: Path, where: str
) -> None:
    side, server = recorded
    cli = CommandLine(tmp_path)
    commands = commands_of(side)

    texts = {heading(command, where): text_of(server, cli, command, where) for command in commands}

    assert texts == {name: text for name, text in TEXTS[side].items() if name.endswith(f"| {where}")}, ADVICE


@pytest.mark.parametrize("where", list(WIDTHS))
@pytest.mark.parametrize("command", LOCAL, ids=key_of)
def test_texts_without_a_server(command: GoldenCommand, where: str, tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    write_contexts(cli)

    assert printed(cli, command, where) == TEXTS["local"][heading(command, where)], ADVICE


@pytest.mark.parametrize("side", list(SIDES))
def test_tables_keep_to_the_terminal(side: str) -> None:
    """Lines of tables and of names with values; sentences, events and lines for Nagios may wrap."""
    long = {
        (name, line)
        for name, text in TEXTS[side].items()
        if name.endswith("| 80 cells") and not name.startswith(FREE)
        for line in text.splitlines()
        if len(line) > 80 and not line.startswith("stderr: ")
    }

    assert not long


def test_what_was_not_recorded_fails(tmp_path: Path) -> None:
    server = RecordedServer(recorded_file("headrace"))

    with server.playing("stream ls"), pytest.raises(AssertionError, match="not recorded"):
        CommandLine(tmp_path)("stream", "info", "OTHER")
