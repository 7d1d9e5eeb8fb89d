"""Writes docs/cli.md and docs/cli-json.md from the rows of the client's commands.

    python -m docs.commands

Words, arguments, flags, keys and texts are those that the commands are declared with in
`headrace.cli.client.rows`. A command without a text, or one that prints JSON without saying its keys, ends
the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli.command_rows import CommandRow, JsonForm
from headrace.cli.connection_flags import CONNECTION_FLAGS, OUTPUT_FLAGS
from headrace.cli.json_keys import ERROR_KEYS, LISTING_KEYS
from headrace.cli.main import COMMANDS, ClientWord, CommandGroup
from headrace.cli.outcomes import KINDS, ExitCode
from headrace.cli.tree import all_flags, flag_usage, rows_of, usage_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.cli.command_rows import JsonKey, WordFlag

PAGE: Final = Path(__file__).with_name("cli.md")
JSON_PAGE: Final = Path(__file__).with_name("cli-json.md")

_INTRODUCTION: Final = """\
# Commands

`headrace` is a client, too: these commands talk to any NATS server, Headrace or nats-server. `headrace
--help` lists them, `headrace <command> --help` explains one.
This page is made from their declarations (`python -m docs.commands`); what they print with `--json` is in
[cli-json.md](cli-json.md). The commands that run a server are in
[server.md](server.md).

A link with the name `nats` to the program takes these commands without `headrace`, so that scripts for that
tool start.

Answers go to standard output, everything else to standard error. On a terminal tables fit its width (a
line says which columns had no room); in a pipe they have a line of headings, tabs, and exact numbers.
A command asks before it removes something, if a person is there to answer: otherwise it does nothing
without `--force`, and ends with 2. Times without a zone are UTC.
"""

_JSON_INTRODUCTION: Final = """\
# JSON of the commands

What each command prints with `--json`, made from the same table as its help (`python -m docs.commands`).
Within a major version keys are only added.

- What a server said is passed on as it said it: the keys are those of the server's answer.
- Other keys are in snake_case; durations in nanoseconds end in `_ns`, sizes in bytes in `_bytes`, times are
  RFC 3339 in UTC. A key is absent where its value is not known, never null.
- Commands that do not end print JSON Lines: one object a line, each at once.
- An error is one object on standard error, and standard output stays as it was. The exit code says its
  kind, too.
"""


class PageError(Exception):
    """A command that does not say what it takes or prints."""


def rows() -> list[tuple[ClientWord, tuple[CommandRow, ...]]]:
    """The words of the client with the rows of each."""
    words = [command for command in COMMANDS.values() if isinstance(command, ClientWord)]
    return [(word, rows_of(word.module)) for word in words]


def page() -> str:
    """The page of commands. Raises: PageError."""
    parts = [_INTRODUCTION, "## Exit codes\n", "| code | meaning |", "|---|---|"]
    parts += [f"| {int(code)} | {text} |" for code, text in _codes()]
    parts += [
        "",
        "## Flags of every command\n",
        "Before or behind the command. A flag wins over the variable, ",
    ]
    parts[-1] += "the variable over the context, the context over the default.\n"
    parts += _flag_table((*CONNECTION_FLAGS, *OUTPUT_FLAGS))
    for group in (CommandGroup.TALK, CommandGroup.LOOK_AFTER):
        for word, found in rows():
            if word.group is group:
                parts += [part for row in found if not row.only_as_nats for part in _command(word, row)]
    return "\n".join(parts) + "\n"


def _codes() -> Iterable[tuple[ExitCode, str]]:
    texts = {
        ExitCode.DONE: "done",
        ExitCode.FAILED: "failed; the message says why",
        ExitCode.WRONG_USE: "wrong use; nothing was done",
        ExitCode.WRONG: "something was checked and is wrong; with `--dry-run`: something would change",
        ExitCode.NOT_THERE: "a stream, key, context or the like is not there",
        ExitCode.NO_RESPONDERS: "nobody is subscribed to the subject",
        ExitCode.REFUSED: "the service or the server answered with an error",
        ExitCode.NO_CONNECTION: "no server can be reached, or it does not take these credentials",
        ExitCode.TIMED_OUT: "timed out",
        ExitCode.NOT_PERMITTED: "not permitted",
        ExitCode.EXISTS: "there already, or with other settings",
        ExitCode.INTERRUPTED: "interrupted",
    }
    for code in ExitCode:
        kind = KINDS.get(code)
        yield code, texts[code] + (f" (`{kind}`)" if kind else "")


def _flag_table(flags: Iterable[WordFlag]) -> list[str]:
    lines = ["| flag | | |", "|---|---|---|"]
    for flag in flags:
        notes = [f"`{flag.environment}`"] if flag.environment else []
        if flag.repeated:
            notes.append("may be given several times")
        if flag.kind is not None and flag.default not in (None, (), ""):
            notes.append(f"default: {flag.default}")
        lines.append(f"| `{_cell(flag_usage(flag))}` | {_cell(flag.help)} | {_cell('; '.join(notes))} |")
    return lines


def _command(word: ClientWord, row: CommandRow) -> list[str]:
    if not row.summary or row.summary.endswith("."):
        raise PageError(f"{row.name} has no summary, or one that ends with a point")
    parts = ["", f"## {row.name}", "", f"{row.summary}."]
    if row.description:
        parts += ["", row.description]
    parts += ["", "```text", f"headrace {usage_of(row)} [flags]", "```"]
    aliases = [" ".join((*row.words[:-1], alias)) for alias in row.aliases]
    if len(row.words) == 1:
        aliases += word.aliases
    if aliases:
        parts += ["", f"Also: {', '.join(f'`{alias}`' for alias in aliases)}."]
    if row.arguments:
        parts += ["", "| argument | |", "|---|---|"]
        parts += [f"| `{each.name.upper()}` | {_cell(each.help)} |" for each in row.arguments]
    flags = [flag for flag in all_flags(row) if not flag.only_as_nats]
    if flags:
        parts += ["", *_flag_table(flags)]
    if row.examples:
        parts += ["", "```text", *(f"headrace {example}" for example in row.examples), "```"]
    return parts


def json_page() -> str:
    """The page of what commands print with `--json`. Raises: PageError."""
    parts = [_JSON_INTRODUCTION, "## Errors\n", *_key_table(ERROR_KEYS)]
    parts += ["", "## Listings\n", *_key_table(LISTING_KEYS)]
    for _, found in rows():
        for row in found:
            if row.json is JsonForm.NOTHING or row.only_as_nats:
                continue
            parts += ["", f"## {row.name}", "", f"Prints {row.json.value}."]
            if row.says:
                parts += ["", f"Keys are those of {row.says}."]
            if row.keys:
                parts += ["", *_key_table(row.keys)]
            elif not row.says:
                raise PageError(f"{row.name} does not say which keys it prints")
    return "\n".join(parts) + "\n"


def _key_table(keys: Iterable[JsonKey]) -> list[str]:
    return ["| key | |", "|---|---|", *(f"| `{key.name}` | {_cell(key.meaning)} |" for key in keys)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    JSON_PAGE.write_text(json_page(), encoding="utf-8")
