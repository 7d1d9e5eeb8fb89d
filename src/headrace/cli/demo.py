"""`headrace demo`: arguments and exit codes; what it does is `headrace.demo.run`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.ending import Ending
from headrace.errors import HeadraceError
from headrace.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(arguments: Sequence[str], program: str) -> int:
    """Run the demonstration. Returns 0 if every check holds, 1 if not, 130 after INT, 143 after TERM."""
    options = parser(program).parse_args(arguments)
    with Ending(f"{program} demo") as ending:
        return _run(options, program, ending)


def _run(options: argparse.Namespace, program: str, ending: Ending) -> int:
    try:
        from headrace.demo.display import Display
        from headrace.demo.run import DemoOptions, run_demo
        from headrace.spark.jvm import end_jvm
    except ImportError as error:
        print(f"{program} demo: {error}; install its packages: pip install 'headrace[demo]'", file=sys.stderr)
        return 1
    display = Display()
    display.say(f"Headrace {__version__}: real flights through a NATS server into a Spark table")
    try:
        wishes = DemoOptions(options.output, options.url, options.limit)
        good = ending.run(lambda: run_demo(wishes, display, ending.stop), end_jvm)
    except BrokenPipeError:  # `main` knows what it means
        raise
    except (HeadraceError, OSError) as error:
        display.failed(str(error))
        return 1
    if not good:
        display.failed("what was written is not what was published")
    return 0 if good else 1


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog=f"{program} demo",
        description="Store 336,776 real flights in a server killed half-way; Spark makes a table of them.",
    )
    made.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="folder to write (%(default)s)"
    )
    made.add_argument(
        "--url", help="use the server with JetStream there instead of starting one; it is not killed"
    )
    made.add_argument("--limit", type=_count, help="replay only so many flights")
    return made


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
