"""The commands of the client as a tree: found by their words, parsed, run, and explained.

Here lives what is made of rows (`command_rows`): parsers, help, near misses, exit codes. A parser is made for
the one command that is called. Never lives here: rows, what commands do, how they print.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn

from headrace.cli.command_rows import CommandRow, JsonForm, ValueKind, WordArgument, WordFlag
from headrace.cli.connection_flags import CONNECTION_FLAGS, OUTPUT_FLAGS
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.errors import HeadraceError, on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.cli.call import Call

_SHARED: Final = "shared_"
"""The beginning of the targets of flags that all commands share: a row may have a flag of the same name."""

_HELP: Final = ("-h", "--help", "help")
_ALL: Final = (*CONNECTION_FLAGS, *OUTPUT_FLAGS)
_WITH_VALUE: Final = frozenset(name for flag in _ALL if flag.kind is not None for name in flag.names)
_SWITCHES: Final = frozenset(name for flag in _ALL if flag.kind is None for name in flag.names)

_DRY_RUN: Final = WordFlag(
    ("--dry-run",), "show what would change, and change nothing: exit 0, or 3 for a change"
)
_FORCE: Final = WordFlag(("--force", "-f"), "do not ask")
_FAIL_EMPTY: Final = WordFlag(("--fail-empty",), "exit with 4 where nothing is listed")


_GROUPS: Final[dict[tuple[str, ...], dict[str, str]]] = {
    ("server",): {"req": "request", "rep": "report", "raft": "cluster", "r": "cluster"},
}
"""The shorter names of words that have commands below them."""


class ArgumentError(CommandError):
    """A command line that a row does not allow; the text is one line."""

    def __init__(self, text: str) -> None:
        super().__init__(text, ExitCode.WRONG_USE)


def rows_of(module: str) -> tuple[CommandRow, ...]:
    """Return the rows of a word; `module` has them in `ROWS`."""
    rows: tuple[CommandRow, ...] = import_module(module).ROWS
    return rows


def leading(arguments: Sequence[str]) -> int:
    """Return how many arguments are flags of every command, with their values, before the first word."""
    place = 0
    while place < len(arguments):
        name, equals, _ = arguments[place].partition("=")
        if name in _WITH_VALUE:
            place += 1 if equals else 2
        elif name in _SWITCHES:
            place += 1
        else:
            break
    return min(place, len(arguments))


def run(
    word: str, rows: Sequence[CommandRow], arguments: Sequence[str], program: str, *, is_nats: bool
) -> int:
    """Run the command of a word that the arguments name; return the exit code.

    Raises: BrokenPipeError; the program knows what it means.
    """
    rows = [row for row in rows if is_nats or not row.only_as_nats]
    if is_nats and list(arguments) == ["--", "-"]:
        arguments = arguments[1:]  # as its scripts write `context -`
    flags, rest = _without_leading(arguments)
    try:
        row, rest = _found(word, rows, rest, program)
    except _HelpWanted as wanted:
        print(wanted.text)
        return ExitCode.DONE
    except ArgumentError as error:
        return _wrong(f"{program} {word}", error, arguments)
    if any(each in ("-h", "--help") for each in rest[: rest.index("--") if "--" in rest else None]):
        print(help_of(row, program, is_nats=is_nats), end="")
        return ExitCode.DONE
    try:
        call = call_of(row, [*flags, *rest], program, is_nats=is_nats)
    except CommandError as error:
        return _wrong(f"{program} {row.name}", error, arguments)
    return carried_out(call)


def carried_out(call: Call) -> int:
    """Load the function of a call and run it; return the exit code. Raises: BrokenPipeError."""
    module, _, name = call.row.run.partition(":")
    try:
        code = getattr(import_module(f"headrace.cli.client.{module}"), name)(call)
    except BrokenPipeError:
        raise
    except (HeadraceError, OSError) as error:
        return call.out.failed(error)
    except KeyboardInterrupt:
        call.out.warn("interrupted")
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if code is None else int(code)


class _HelpWanted(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def _without_leading(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    end = leading(arguments)
    return list(arguments[:end]), list(arguments[end:])


def _found(
    word: str, rows: Sequence[CommandRow], arguments: list[str], program: str
) -> tuple[CommandRow, list[str]]:
    """The row that is meant, and the arguments behind its words. Raises: ArgumentError, _HelpWanted."""
    given = [word]
    flags: list[str] = []
    rest = arguments
    while True:
        below = [row for row in rows if row.words[: len(given)] == tuple(given)]
        exact = [row for row in below if len(row.words) == len(given)]
        deeper = {row.words[len(given)] for row in below if len(row.words) > len(given)}
        deeper |= {alias for row in below if len(row.words) == len(given) + 1 for alias in row.aliases}
        deeper |= {alias for alias, name in _GROUPS.get(tuple(given), {}).items() if name in deeper}
        start = leading(rest)
        flags += rest[:start]
        rest = rest[start:]
        if not deeper or (exact and (not rest or rest[0] not in deeper)):
            return exact[0], flags + rest
        if rest and rest[0] in _HELP:
            raise _HelpWanted(help_of_word(given, below, program))
        if not rest:
            raise ArgumentError(f"a command is missing: {', '.join(_names(below, given))}")
        if rest[0] not in deeper:
            raise ArgumentError(_unknown(given, rest[0], below, program))
        given.append(_canonical(rest[0], below, given))
        rest = rest[1:]


def _canonical(name: str, rows: Sequence[CommandRow], given: Sequence[str]) -> str:
    place = len(given)
    name = _GROUPS.get(tuple(given), {}).get(name, name)
    for row in rows:
        if len(row.words) > place and (row.words[place] == name):
            return name
    return next(row.words[place] for row in rows if len(row.words) == place + 1 and name in row.aliases)


def _names(rows: Sequence[CommandRow], given: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(row.words[len(given)] for row in rows if len(row.words) > len(given)))


def _unknown(given: Sequence[str], name: str, rows: Sequence[CommandRow], program: str) -> str:
    from difflib import get_close_matches

    from headrace.cli.near_misses import meant_elsewhere

    other = meant_elsewhere(given[0], name)
    said = f"unknown {'flag' if name.startswith('-') else 'command'} {name[:64]!r}"
    if other is not None:
        return f"{said}; did you mean '{program} {other}'?"
    names = _names(rows, given)
    close = get_close_matches(name[:32], names, n=1)
    if close:
        return f"{said}; did you mean {' '.join([*given, close[0]])!r}?"
    return f"{said}; there are: {', '.join(names)}"


def _wrong(name: str, error: CommandError, arguments: Sequence[str]) -> int:
    from headrace.cli.output import Output

    return Output(name, json=any(each in ("--json", "-j") for each in arguments)).failed(error)


# -- parsers


def all_flags(row: CommandRow, *, is_nats: bool = False) -> tuple[WordFlag, ...]:
    """Return the flags of a command but those that all share."""
    flags = list(row.flags)
    for wanted, flag in ((row.changes, _DRY_RUN), (row.asks, _FORCE), (row.lists, _FAIL_EMPTY)):
        if wanted:
            flags.append(flag)
    if is_nats:
        return tuple(flag._replace(names=flag.names + flag.nats_names) for flag in flags)
    return tuple(flag for flag in flags if not flag.only_as_nats)


def shared_flags(row: CommandRow) -> tuple[WordFlag, ...]:
    """Return the flags that a command shares with others, without names that it uses otherwise."""
    own = {name for flag in all_flags(row) for name in flag.names}
    shared = (*CONNECTION_FLAGS, *OUTPUT_FLAGS) if row.connects else OUTPUT_FLAGS
    return tuple(flag for flag in shared if flag.names[0] not in own)


class _PlainFormatter(argparse.HelpFormatter):
    """A formatter that argparse makes for each flag. Asking the terminal for its width would load shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


class _RowParser(argparse.ArgumentParser):
    """A parser to which `-15m` and `-1` are values, since no flag begins with a digit, and so are signatures
    in base64url: one of 64 begins with a dash."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._negative_number_matcher = re.compile(r"-[0-9]|-[\w-]{85}$")

    def error(self, message: str) -> NoReturn:
        raise ArgumentError(f"{message} (see {self.prog} --help)")


def parser_of(row: CommandRow, program: str, *, is_nats: bool = False) -> argparse.ArgumentParser:
    """Return the parser of a command; it raises ArgumentError for what the row does not allow."""
    parser = _RowParser(
        prog=f"{program} {row.name}",
        description=row.summary,
        allow_abbrev=False,
        add_help=False,
        formatter_class=_PlainFormatter,
    )
    for argument in row.arguments:
        _add_argument(parser, argument)
    for flag in all_flags(row, is_nats=is_nats):
        _add_flag(parser, flag, flag.target, taken=frozenset())
    own = {name for flag in all_flags(row) for name in flag.names}
    shared = {flag.names[0]: flag for flag in shared_flags(row)}
    for flag in shared.values():
        _add_flag(parser, flag, _SHARED + flag.target, taken=own)
    parser.set_defaults(
        **{
            _SHARED + flag.target: _default(flag)
            for flag in (*CONNECTION_FLAGS, *OUTPUT_FLAGS)
            if flag.names[0] not in shared
        }
    )
    return parser


def _add_argument(parser: argparse.ArgumentParser, argument: WordArgument) -> None:
    settings: dict[str, Any] = {"help": argument.help.replace("%", "%%")}
    if argument.count:
        settings["nargs"] = argument.count
    if argument.choices:
        settings["choices"] = argument.choices
    parser.add_argument(
        argument.name.lower().replace("-", "_"),
        metavar=argument.name.upper(),
        type=_reader(argument.kind, argument.name.upper()),
        **settings,
    )


def _add_flag(
    parser: argparse.ArgumentParser, flag: WordFlag, target: str, *, taken: frozenset[str] | set[str]
) -> None:
    names = [name for name in flag.names if name not in taken]
    settings: dict[str, Any] = {
        "dest": target,
        "help": flag.help.replace("%", "%%"),
        "default": _default(flag),
    }
    if flag.kind is None:
        settings["action"] = "count" if flag.repeated else "store_true"
    else:
        settings["metavar"] = flag.metavar or flag.kind.value
        settings["type"] = _reader(flag.kind, flag.names[0])
        if flag.repeated:
            settings["action"] = "append"
        if flag.choices:
            settings["choices"] = flag.choices
        if flag.optional is not None:
            settings["nargs"] = "?"
            settings["const"] = _reader(flag.kind, flag.names[0])(flag.optional)
    parser.add_argument(*names, **settings)


def _default(flag: WordFlag) -> Any:
    return False if flag.kind is None and flag.default is None else flag.default


def _reader(kind: ValueKind, name: str) -> Any:
    def read(text: str) -> Any:
        if kind is ValueKind.TEXT:
            return text
        from headrace.cli.values import read_value

        try:
            return read_value(kind, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{on_one_line(text)[:64]!r}: {error}") from None

    read.__name__ = name
    read.kind = kind  # type: ignore[attr-defined]  # completion asks for it
    return read


def call_of(row: CommandRow, arguments: Sequence[str], program: str, *, is_nats: bool = False) -> Call:
    """Return the call that the arguments make. Raises: ArgumentError, CommandError."""
    from headrace.cli.call import Call

    parser = parser_of(row, program, is_nats=is_nats)
    found = parser.parse_intermixed_args(_split_at_dashes(arguments, is_nats=is_nats))
    own, shared = argparse.Namespace(), argparse.Namespace()
    for name, value in vars(found).items():
        if name.startswith(_SHARED):
            setattr(shared, name.removeprefix(_SHARED), value)
        else:
            setattr(own, name, value)
    if row.json is JsonForm.NOTHING and shared.json:
        raise ArgumentError(f"--json: {row.name} has no answer to print")
    return Call(row, own, shared, program, is_nats=is_nats)


def _split_at_dashes(arguments: Sequence[str], *, is_nats: bool) -> list[str]:
    """Return the arguments; of `nats` without a `--` before a body of `-`, as its scripts write."""
    found = list(arguments)
    if is_nats and found[-2:] == ["--", "-"]:
        found[-2:] = ["-"]
    return found


# -- help


def usage_of(row: CommandRow) -> str:
    """Return the words of a command and its arguments, such as `pub SUBJECT [BODY]`."""
    return " ".join([row.name, *map(_argument_usage, row.arguments)])


def _argument_usage(argument: WordArgument) -> str:
    name = argument.name.upper()
    return {"": name, "?": f"[{name}]", "*": f"[{name}]…", "+": f"{name}…"}[argument.count]


def flag_usage(flag: WordFlag) -> str:
    """Return the names of a flag, the short one first, and its placeholder: `-H, --header NAME:VALUE`."""
    names = ", ".join(sorted(flag.names, key=len))
    if flag.kind is None:
        return names
    value = "|".join(flag.choices) or flag.metavar or flag.kind.value
    return f"{names} [{value}]" if flag.optional is not None else f"{names} {value}"


def help_of(row: CommandRow, program: str, *, is_nats: bool = False) -> str:
    """Return the help of a command."""
    lines = [f"usage: {program} {usage_of(row)} [flags]", "", f"{row.summary}."]
    if row.description:
        lines += ["", *_wrapped(row.description, 0)]
    if row.arguments:
        lines += ["", "arguments:"]
        lines += _pairs((argument.name.upper(), argument.help) for argument in row.arguments)
    flags = all_flags(row, is_nats=is_nats)
    if flags:
        lines += ["", "flags:", *_pairs((flag_usage(flag), _flag_text(flag)) for flag in flags)]
    shared = ", ".join(
        f"{flag.names[0]}{'' if flag.kind is None else f' {flag.metavar or flag.kind.value}'}"
        for flag in shared_flags(row)
    )
    lines += ["", f"flags of every command ({program} --help explains them):", *_wrapped(shared, 2)]
    lines += ["", f"with --json: {row.json.value}"]
    if row.examples:
        lines += ["", "examples:", *(f"  {program} {example}" for example in row.examples)]
    return "\n".join(lines) + "\n"


def help_of_word(given: Sequence[str], rows: Sequence[CommandRow], program: str) -> str:
    """Return the help of a word that has commands below it."""
    name = " ".join(given)
    lines = [f"usage: {program} {name} <command> [flags]", "", "commands:"]
    lines += _pairs(
        (usage_of(row).removeprefix(f"{name} "), row.summary) for row in rows if not row.only_as_nats
    )
    lines += ["", f"'{program} {name} <command> --help' explains a command."]
    return "\n".join(lines)


def help_of_shared_flags() -> list[str]:
    """Return the lines about the flags of every command."""
    lines = ["Flags of Talk and Look after, before or behind the command:"]
    lines += _pairs((flag_usage(flag), _flag_text(flag)) for flag in (*CONNECTION_FLAGS, *OUTPUT_FLAGS))
    return lines


def _flag_text(flag: WordFlag) -> str:
    notes = []
    if flag.default not in (None, False, (), "") and flag.kind is not None:
        notes.append(f"default: {flag.default}")
    if flag.environment:
        notes.append(flag.environment)
    if flag.repeated:
        notes.append("may be given several times")
    return f"{flag.help} ({'; '.join(notes)})" if notes else flag.help


def _pairs(pairs: Any) -> list[str]:
    listed = list(pairs)
    width = min(max((len(name) for name, _ in listed), default=0), 34)
    lines = []
    for name, text in listed:
        first, *more = _wrapped(text, 0, width=max(_width() - width - 4, 30)) or [""]
        if len(name) > width:
            lines += [f"  {name}", f"  {'':<{width}}  {first}".rstrip()]
        else:
            lines.append(f"  {name:<{width}}  {first}".rstrip())
        lines += [f"  {'':<{width}}  {line}" for line in more]
    return lines


def _wrapped(text: str, indent: int, width: int | None = None) -> list[str]:
    from textwrap import wrap

    lines = []
    for paragraph in text.split("\n"):
        lines += wrap(paragraph, (width or _width()) - indent, break_on_hyphens=False) or [""]
    return [f"{'':<{indent}}{line}" for line in lines]


def _width() -> int:
    from shutil import get_terminal_size

    return min(get_terminal_size((100, 24)).columns, 110) if sys.stdout.isatty() else 100
