"""`headrace config`: is a configuration right, and what would a running server take over of it.

Here lives what is printed. Never lives here: reading (`headrace.conf`), how changes are taken over
(`headrace.server.reload`).

Exit codes: 0 right, or nothing differs; 1 wrong; 2 wrong use; of `diff` also 3: a reload takes the changes
over, and 4: at least one needs a restart.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from headrace.errors import ConfigError, HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.conf.options import Options

    Action = Callable[[argparse.Namespace], int]

EXIT_WRONG: Final = 1
EXIT_RELOAD: Final = 3
EXIT_RESTART: Final = 4


def run(arguments: Sequence[str], program: str) -> int:
    """Do what the arguments say; gives the exit code."""
    options = parser(program).parse_args(arguments)
    name = f"{program} config {options.command}"
    try:
        code: int = options.action(options)
    except ConfigError as error:
        for problem in error.problems:
            print(f"{name}: {problem}", file=sys.stderr)
        return EXIT_WRONG
    except HeadraceError as error:
        for line in str(error).splitlines():
            print(f"{name}: {line}", file=sys.stderr)
        return EXIT_WRONG
    return code


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog=f"{program} config", description="Look at configurations of the server.", allow_abbrev=False
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="is it right",
        description="Read a configuration as a start would, with its certificates, permissions and accounts, "
        "and say all that is wrong with it. Exit codes: 0 right, 1 wrong (with --strict also for warnings).",
        allow_abbrev=False,
    )
    check.add_argument("file", help="configuration file")
    check.add_argument("--strict", action="store_true", help="warnings count as mistakes")
    check.set_defaults(action=_check)
    diff = commands.add_parser(
        "diff",
        help="what a reload would change",
        description="What differs between the configuration of a server and another one, option by option, "
        "and which of it a reload cannot take over. Secrets are not shown. Exit codes: 0 nothing differs, 1 "
        "one of the files is wrong, 3 a reload takes everything over, 4 at least one change needs a restart.",
        allow_abbrev=False,
    )
    diff.add_argument("file", help="the new configuration")
    against = diff.add_mutually_exclusive_group(required=True)
    against.add_argument("--against", metavar="FILE", help="the configuration that the server has")
    against.add_argument(
        "--pid",
        metavar="PID",
        help="a running server, by its process id or the file that holds it: its file, as it is now, with "
        "the flags it was started with",
    )
    diff.set_defaults(action=_diff)
    return made


def _check(arguments: argparse.Namespace) -> int:
    from headrace import app
    from headrace.conf.binding import load_options

    options = load_options(arguments.file)
    app.check(options)
    for warning in (*options.warnings, *options.remarks):
        print(f"warning: {warning}", file=sys.stderr)
    if options.warnings and arguments.strict:
        return EXIT_WRONG
    print(f"{arguments.file} is right ({options.config_digest})")
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    from headrace.conf.changes import differences

    old, new = _both(arguments)
    changes = differences(old, new)
    for change in changes:
        print(f"{change}{' (needs a restart)' if change.needs_restart else ''}")
    if not changes:
        print("no differences")
        return 0
    return EXIT_RESTART if any(change.needs_restart for change in changes) else EXIT_RELOAD


def _both(arguments: argparse.Namespace) -> tuple[Options, Options]:
    """Return the options that the server has, and those that it would have."""
    from headrace.conf.binding import load_options

    if arguments.pid is None:
        return load_options(arguments.against), load_options(arguments.file)
    from headrace.cli import running
    from headrace.cli.signals import process_id

    pid = process_id(arguments.pid)
    return running.options_of(pid), running.options_of(pid, arguments.file)
