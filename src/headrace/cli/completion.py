"""`headrace completion`: a script by which a shell completes commands, flags, files and names.

Here lives how all commands become one parser; shtab makes the scripts of it. All is in them but live names,
such as those of streams, for which a shell calls `headrace --complete` (`live_names`). Never lives here: what
commands and flags there are. Each parser is that of its command, and the flags of servers come from their
tables (`flags`).

Exit codes: 0 done, 1 failed, 2 wrong use, 10 there is another file where the link should be.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli import flags, jetstream, streaming
from headrace.cli.arguments import FlagKind
from headrace.cli.live_names import LIVE
from headrace.cli.names import CLIENT_DROP_IN, PROGRAM
from headrace.cli.outcomes import CommandError, ExitCode, exit_code
from headrace.cli.tree import parser_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.cli.command_rows import CommandRow
    from headrace.cli.streaming import StreamingCommand

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

SHELLS: Final = ("bash", "zsh", "fish")

_INSTALLING: Final = f"""\
bash, in ~/.bashrc:   source <({PROGRAM} completion bash)
zsh:                  {PROGRAM} completion zsh > ~/.zfunc/_{PROGRAM}
                      and in ~/.zshrc, before compinit: fpath+=(~/.zfunc)
fish:                 {PROGRAM} completion fish > ~/.config/fish/completions/{PROGRAM}.fish
"""

_SERVERS: Final = ("serve", "streaming")
_REGISTRIES: Final[Mapping[str, Mapping[str, StreamingCommand]]] = {
    "jetstream": jetstream.COMMANDS,
    "streaming": streaming.COMMANDS,
}
_DIRECTORIES: Final = frozenset(("dir", "output"))
_FILES: Final = frozenset(("file", "location", "log", "out", "source", "spec", "table", "target"))
"""Arguments that are directories, and files or directories, by their names; others are by their type."""


def run(arguments: Sequence[str], program: str) -> int:
    """Print the script of a shell; gives the exit code."""
    options = parser(program).parse_args(arguments)
    if options.link is not None:
        return exit_code(f"{program} completion", lambda: _link(options.link))
    shell = options.shell
    if shell is None:
        print(f"{program} completion: give a shell or --link", file=sys.stderr)
        return ExitCode.WRONG_USE
    import shtab

    whole = _whole()
    _describe(whole, one_dash=shell != "fish")
    print(shtab.complete(whole, shell=shell))
    return 0


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog=f"{program} completion",
        description="Print a script by which a shell completes commands, flags and files.",
        epilog=_INSTALLING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("shell", choices=SHELLS, nargs="?", help="for which shell")
    made.add_argument(
        "--link",
        type=Path,
        metavar="FILE",
        help=f"make a link instead: a program named {CLIENT_DROP_IN} takes the commands of the client",
    )
    return made


def _link(path: Path) -> int:
    """Make a link to this program. Nothing is ever replaced. Raises: CommandError, OSError."""
    program = Path(sys.argv[0]).resolve()
    if program.stem != PROGRAM:
        found = shutil.which(PROGRAM)
        if found is None:
            raise CommandError(f"no program {PROGRAM} on the PATH")
        program = Path(found).resolve()
    if path.name != CLIENT_DROP_IN:
        raise CommandError(f"the link has to be called {CLIENT_DROP_IN}, not {path.name}", ExitCode.WRONG_USE)
    if path.is_symlink() and path.resolve() == program:
        print(f"{path} is there already")
        return ExitCode.DONE
    try:
        path.symlink_to(program)
    except FileExistsError:
        print(f"{PROGRAM} completion: {path} is there, and is not replaced", file=sys.stderr)
        return ExitCode.EXISTS
    print(f"{path} leads to {program}")
    return ExitCode.DONE


def _whole() -> argparse.ArgumentParser:
    """All commands as one parser, which only describes: no arguments are read by it."""
    from headrace.cli.main import COMMANDS, ClientWord

    whole = argparse.ArgumentParser(prog=PROGRAM)
    whole.add_argument("-v", "--version", action="store_true", help="Show the version")
    commands = whole.add_subparsers()
    for name, command in COMMANDS.items():
        if isinstance(command, ClientWord):
            _add_rows(commands, rows_of(command.module), command.summary, place=0)
        elif name in _SERVERS or name in _REGISTRIES:
            found = commands.add_parser(name, help=command.summary, add_help=False)
            if name in _SERVERS:
                _add_server_flags(found, streaming=name == "streaming")
            if name in _REGISTRIES:
                _add_commands(found.add_subparsers(), _REGISTRIES[name])
        else:
            _add(commands, name, command.summary, import_module(command.module).parser(PROGRAM))
    return whole


def _add_rows(commands: Subparsers, rows: Sequence[CommandRow], summary: str, *, place: int) -> None:
    """Add the commands of a word of the client; `place` is which of their words."""
    shown = [row for row in rows if not row.only_as_nats]
    for name in dict.fromkeys(row.words[place] for row in shown):
        here = [row for row in shown if row.words[place] == name]
        ended = [row for row in here if len(row.words) == place + 1]
        below = [row for row in here if len(row.words) > place + 1]
        if not below:
            _add(commands, name, ended[0].summary, parser_of(ended[0], PROGRAM))
            continue
        found = commands.add_parser(name, help=summary, description=summary, add_help=False)
        _add_rows(found.add_subparsers(), below, summary, place=place + 1)


def _add_commands(commands: Subparsers, registry: Mapping[str, StreamingCommand]) -> None:
    for name, command in registry.items():
        made = getattr(import_module(command.module), command.parser)(PROGRAM)
        _add(commands, name, command.summary, made)


def _add(commands: Subparsers, name: str, summary: str, parser: argparse.ArgumentParser) -> None:
    commands.add_parser(name, help=summary, description=summary, parents=[parser], add_help=False)


def _add_server_flags(parser: argparse.ArgumentParser, *, streaming: bool) -> None:
    for flag in (flag for _, group in flags.groups(streaming=streaming) for flag in group):
        names = map(flags.dashed, flag.names)
        text = flag.help.replace("%", "%%")
        if flag.kind is FlagKind.SWITCH:
            parser.add_argument(*names, action="store_true", help=text)
        else:
            parser.add_argument(*names, metavar=flag.placeholder, help=text)


def _describe(parser: argparse.ArgumentParser, *, one_dash: bool) -> None:
    """Say of each argument whether it is a path, also in the commands of a command.

    `one_dash`: False for a shell that takes `-js` for two flags: it is told of `--js`, which is the same.
    """
    for action in parser._actions:
        if not one_dash:
            names = (
                f"-{name}" if name[1] != "-" and len(name) > 2 else name for name in action.option_strings
            )
            action.option_strings = list(dict.fromkeys(names))
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _describe(each, one_dash=one_dash)
        elif not action.choices and action.nargs != 0:
            _complete_paths(action)
            _complete_names(action)


def _complete_paths(action: argparse.Action) -> None:
    """Let shells complete paths where an argument is one."""
    import shtab

    if action.dest in _DIRECTORIES or action.metavar in ("DIR", "dir"):
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]  # shtab's way
    elif action.dest in _FILES or action.metavar in ("FILE", "file") or action.type is Path:
        action.complete = shtab.FILE  # type: ignore[attr-defined]


def _complete_names(action: argparse.Action) -> None:
    """Let shells ask for names where an argument is one."""
    kind = getattr(action.type, "kind", None)
    word = next((word for word, live in LIVE.items() if live is kind), None)
    if word is None:
        return
    ask = f"{PROGRAM} --complete {word}"
    action.complete = {  # type: ignore[attr-defined]  # shtab's way
        "bash": f"_{PROGRAM}_live_{word}",
        "zsh": f"($({ask} ${{words[@]}} 2>/dev/null))",
        "fish": f"({ask} (commandline -opc) 2>/dev/null)",
        "preamble": {
            "bash": f"_{PROGRAM}_live_{word}() {{\n"
            f'  compgen -W "$({ask} "${{COMP_WORDS[@]}}" 2>/dev/null)" -- "$1"\n}}'
        },
    }
