"""`headrace cheat`: lines to copy, each of which the program takes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from commands.test_walk import every_row
from headrace.cli.tree import call_of

if TYPE_CHECKING:
    from harness.command_line import CommandLine
    from headrace.cli.command_rows import CommandRow

OF_THE_SHELL = ("|", ">", "<", "&", "&&", ";")


@every_row()
def test_the_lines_of_a_command_are_taken(row: CommandRow) -> None:
    for line in row.examples:
        words = shlex.split(line)
        ends = [words.index(sign) for sign in OF_THE_SHELL if sign in words]
        words = words[: min(ends, default=len(words))]

        assert tuple(words[: len(row.words)]) == row.words
        call_of(row, words[len(row.words) :], "headrace")


def test_all_lines_are_shown_and_those_of_a_word(alone: CommandLine) -> None:
    every = alone("cheat", "--json").ok().json["items"]
    some = alone("cheat", "obj", "-q").ok().lines

    assert {each["command"] for each in every} > {"kv put", "stream add", "sub", "cheat"}
    assert some == [each["line"] for each in every if each["command"].startswith("object ")]
    assert f"headrace {every[0]['line']}" in alone("cheat").ok().lines


def test_a_word_that_is_none_is_said(alone: CommandLine) -> None:
    ran = alone("cheat", "kvs")

    assert ran.code == 4
    assert "there is no word kvs" in ran.err
