"""Every command of the client: its help, its flags, its documents, its end where something is missing."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs import commands
from harness.command_line import all_rows
from headrace.cli.command_rows import CommandRow, JsonForm, ValueKind
from headrace.cli.main import COMMANDS, ClientWord
from headrace.cli.tree import all_flags, rows_of, shared_flags

if TYPE_CHECKING:
    from harness.command_line import CommandLine

ROWS = all_rows()
SAMPLES = {
    ValueKind.NUMBER: "1",
    ValueKind.DECIMAL: "1",
    ValueKind.DURATION: "1s",
    ValueKind.SIZE: "1",
    ValueKind.TIME: "today",
    ValueKind.SINCE: "1h",
    ValueKind.UNTIL: "1h",
    ValueKind.HEADER: "Name:value",
    ValueKind.PAIR: "name=value",
    ValueKind.JSON: "{}",
}


def every_row(rows: list[CommandRow] = ROWS) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.name)


def is_check(row: CommandRow) -> bool:
    """True for checks, whose exit codes are those of Nagios plugins: without a server they are critical."""
    return row.words[:2] == ("server", "check")


def arguments_of(row: CommandRow) -> list[str]:
    """Words of a command with a value for each argument that it needs."""
    needed = [each for each in row.arguments if each.count in ("", "+")]
    return [*row.words, *((each.choices or (SAMPLES.get(each.kind, "name"),))[0] for each in needed)]


def test_pages_are_up_to_date() -> None:
    assert commands.PAGE.read_text() == commands.page(), "run python -m docs.commands"
    assert commands.JSON_PAGE.read_text() == commands.json_page(), "run python -m docs.commands"


def test_rows_stand_under_their_word() -> None:
    for name, word in COMMANDS.items():
        if isinstance(word, ClientWord):
            assert {row.words[0] for row in rows_of(word.module)} == {name}
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


def test_aliases_of_words_are_no_other_words() -> None:
    aliases = [alias for word in COMMANDS.values() if isinstance(word, ClientWord) for alias in word.aliases]

    assert len(set(aliases)) == len(aliases)
    assert not set(aliases) & COMMANDS.keys()


@every_row()
def test_the_function_of_a_row_is_there(row: CommandRow) -> None:
    module, _, function = row.run.partition(":")

    assert callable(getattr(import_module(f"headrace.cli.client.{module}"), function))


@every_row()
def test_names_of_flags_are_used_once(row: CommandRow) -> None:
    names = [name for flag in all_flags(row, is_nats=True) for name in flag.names]
    targets = [flag.target for flag in all_flags(row, is_nats=True)]
    targets += [each.name.lower().replace("-", "_") for each in row.arguments]

    assert len(set(names)) == len(names)
    assert len(set(targets)) == len(targets)
    shared = {name for flag in shared_flags(row) for name in flag.names[:1]}
    assert not shared & set(names)


@every_row()
def test_help_names_every_flag(row: CommandRow, alone: CommandLine) -> None:
    if row.only_as_nats:
        alone.program = "nats"
    shown = alone(*row.words, "--help").ok()

    assert shown.err == ""
    assert all(name in shown.out for flag in all_flags(row) for name in flag.names)
    assert all(each.name.upper() in shown.out for each in row.arguments)


@every_row()
def test_an_unknown_flag_is_wrong_use_in_one_line(row: CommandRow, alone: CommandLine) -> None:
    if row.only_as_nats:
        alone.program = "nats"
    ran = alone(*arguments_of(row), "--no-such-flag")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert "--no-such-flag" in ran.err


@every_row([row for row in ROWS if any(each.count in ("", "+") for each in row.arguments)])
def test_a_missing_argument_is_wrong_use(row: CommandRow, alone: CommandLine) -> None:
    if row.only_as_nats:
        alone.program = "nats"
    ran = alone(*row.words, "--json")

    assert (ran.code, ran.out) == (2, "")
    if row.json is not JsonForm.NOTHING:
        assert ran.error["kind"] == "wrong_use"


@every_row([row for row in ROWS if row.connects and row.json is not JsonForm.NOTHING and not is_check(row)])
def test_without_a_server_it_ends_with_7(row: CommandRow, alone: CommandLine) -> None:
    if row.only_as_nats:
        alone.program = "nats"
    flags = ["--force"] if row.asks else []
    extra = NEEDED.get(row.name, [])
    ran = alone(*arguments_of(row), *extra, *flags, "--json")

    assert (ran.code, ran.out) == (7, ""), ran.err
    assert json.loads(ran.err.splitlines()[-1])["error"]["kind"] == "no_connection"


NEEDED: dict[str, list[str]] = {
    "consumer add": ["--ephemeral"],
    "consumer next": ["--ack"],
    "kv create": ["value"],
    "kv del": ["key"],
    "kv put": ["value"],
    "latency": ["--server-b", "nats://127.0.0.1:1"],
    "object del": ["object"],
    "reply": ["--echo"],
    "stream add": ["name"],
    "stream get": ["1"],
    "sub": ["name"],
}
"""Flags without which a command is wrong use before it connects, by its name."""


def test_every_module_of_commands_is_used() -> None:
    """What is there for others begins with an underscore, or is imported by one that is run."""
    folder = Path(commands.__file__).parent.parent / "src" / "headrace" / "cli" / "client"
    used = {row.run.partition(":")[0] for row in ROWS}
    texts = {path.stem: path.read_text() for path in folder.glob("*.py") if path.stem != "__init__"}
    unused = {
        name
        for name in texts.keys() - used
        if not any(f"headrace.cli.client.{name}" in text for text in texts.values())
    }

    assert not unused
