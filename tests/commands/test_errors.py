"""`headrace errors`: numbers of JetStream's errors, as a server says them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.command_line import all_rows
from headrace.cli.client.error_explanations import EXPLANATIONS
from headrace.cli.tree import all_flags
from headrace.protocol.jetstream.errors import ERRORS

if TYPE_CHECKING:
    from harness.command_line import CommandLine


def test_an_error_of_a_server_is_explained(cli: CommandLine) -> None:
    said = cli("sub", "--stream", "NO_SUCH_STREAM", "--json").error

    found = cli("errors", "lookup", str(said["err_code"]), "--json").ok().json

    assert (found["code"], found["description"]) == (said["code"], said["text"].partition(" (")[0])


def test_errors_are_listed_and_found(alone: CommandLine) -> None:
    every = alone("errors", "ls", "--json").ok().json
    some = alone("errors", "find", "Consumer NOT found", "-q").ok().lines

    assert every["total"] > 150
    assert some == ["10014"]
    assert "10014\t404\tconsumer not found" in alone("errors", "ls").ok().lines
    assert alone("errors", "find", "ephemeral one goes", "-q").ok().lines == ["10014"]
    assert alone("errors", "lookup", "1").code == 4
    assert alone("errors", "find", "no such text", "--fail-empty").code == 4


def test_each_error_has_one_sentence_of_its_own() -> None:
    assert EXPLANATIONS.keys() == ERRORS.keys()
    texts = list(EXPLANATIONS.values())
    wrong = [
        text for text in texts if not re.fullmatch(r"[A-Z](?:[^.]|\.(?! ))+; (?:[^.;]|\.(?! ))+\.", text)
    ]

    assert wrong == []
    assert all(text != ERRORS[number][1] for number, text in EXPLANATIONS.items())


def test_commands_in_explanations_are_there() -> None:
    rows = {row.name: {name for flag in all_flags(row) for name in flag.names} for row in all_rows()}
    named = [name for text in EXPLANATIONS.values() for name in re.findall(r"`headrace ([^`]*)`", text)]

    assert len(named) > 20
    for line in named:
        words, dash, flag = line.partition(" --")
        assert words in rows, line
        assert not dash or f"--{flag.split()[0]}" in rows[words], line
