"""The row of `cheat`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, WordArgument

ROWS: Final = (
    CommandRow(
        words=("cheat",),
        summary="Show lines to copy, of all commands or of one word",
        run="cheat:show",
        connects=False,
        arguments=(WordArgument("word", "the word, such as kv", count="?"),),
        json=JsonForm.LISTING,
        keys=(
            JsonKey("command", "the command that the line is of"),
            JsonKey("line", "the line without the program's name"),
            JsonKey("summary", "what the command does"),
        ),
        examples=("cheat", "cheat kv"),
    ),
)
