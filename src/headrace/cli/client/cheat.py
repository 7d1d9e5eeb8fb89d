"""`headrace cheat`: a line to copy for each command, out of the examples in their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.main import COMMANDS, ClientWord
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.cli.tree import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call
    from headrace.cli.command_rows import CommandRow


def show(call: Call) -> None:
    """Print the examples of one word, or of all. Raises: CommandError for a word that is none."""
    wanted = call.options.word
    words = {name: word for name, word in COMMANDS.items() if isinstance(word, ClientWord)}
    found = [name for name, word in words.items() if wanted is None or wanted in (name, *word.aliases)]
    if not found:
        raise CommandError(f"there is no word {wanted}; there are {', '.join(words)}", ExitCode.NOT_THERE)
    items = [
        {"command": row.name, "line": line, "summary": row.summary}
        for name in found
        for row, line in _lines(rows_of(words[name].module))
    ]

    def show_lines() -> None:
        before = ""
        for item in items:
            if item["command"] != before:
                call.out.line(f"# {item['summary']}", "dim")
            call.out.line(f"{call.program} {item['line']}")
            before = item["command"]

    call.out.listing(items, show_lines, name="line")


def _lines(rows: tuple[CommandRow, ...]) -> Iterator[tuple[CommandRow, str]]:
    for row in rows:
        if not row.only_as_nats:
            for line in row.examples:
                yield row, line
