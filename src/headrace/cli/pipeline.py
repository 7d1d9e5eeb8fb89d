"""`headrace pipeline`: run, check, write and list pipelines, report on servers.

Here live arguments and exit codes: 0 done, 1 failed, 2 wrong use or a specification that cannot be used, 130
after INT and 143 after TERM. What a pipeline does is `headrace.pipelines`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli.ending import Ending
from headrace.cli.outcomes import ExitCode, exit_code
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.pipelines.spec import Spec

EXIT_WRONG: Final = 2


def run(arguments: Sequence[str], program: str) -> int:
    """Do what the arguments say; gives the exit code."""
    options = parser(program).parse_args(arguments)
    options.command_name = f"{program} pipeline"
    return exit_code(options.command_name, lambda: _carried_out(options))


def _carried_out(options: argparse.Namespace) -> int:
    """The exit code of a command, also of one that lacks a package or has a wrong specification."""
    try:
        code: int = options.command(options)
    except ImportError as error:
        what = f"{options.command_name}: {error}; install its packages: pip install 'headrace[spark]'"
        print(what, file=sys.stderr)
        return ExitCode.FAILED
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_WRONG
    return code


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    whole = argparse.ArgumentParser(prog=f"{program} pipeline", description="Run pipelines on Spark.")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, help_text: str, work: Callable[[argparse.Namespace], int]
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help_text, description=help_text, allow_abbrev=False)
        made.set_defaults(command=work)
        return made

    going = command("run", "Run the pipeline of a specification until it ends or is stopped", _run)
    _add_spec(going)
    _add_master(going)
    going.add_argument(
        "--metrics",
        type=_listen,
        metavar="[HOST:]PORT",
        help="serve Prometheus metrics there (host: 127.0.0.1)",
    )
    going.add_argument("--report", metavar="SUBJECT", help="publish rates, lag and failures there as JSON")
    going.add_argument(
        "--report-url", metavar="URL", help="server of --report (default: the specification's)"
    )
    going.add_argument(
        "--log", type=Path, metavar="FILE", help="Spark's log (default: spark.log in the checkpoint)"
    )
    checking = command("check", "Say what is wrong with a specification, all at once", _check)
    _add_spec(checking)
    checking.add_argument(
        "--plan",
        action="store_true",
        help="let Spark look at SQL and columns as well; it must reach the sources",
    )
    _add_master(checking)
    new = command("new", "Write a commented specification to start from", _new)
    new.add_argument("name", help="one of 'list'")
    new.add_argument("file", nargs="?", type=Path, help="default: NAME.yaml here; - writes to the terminal")
    reporting = command("report", "Charts of a table that the pipeline 'operations' has written", _report)
    reporting.add_argument("table", type=Path, help="its folder")
    reporting.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="HTML or PNG (default: %(default)s)",
    )
    command("environment", "Say how a shell finds Java and Spark, for Spark's own commands", _environment)
    command("list", "List the ready-made pipelines", _list)
    return whole


def _add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", type=Path, help="YAML, SQL or Python file (a Python file is run)")
    parser.add_argument(
        "--set", action="append", default=[], type=_setting, metavar="NAME=VALUE", help="value of a parameter"
    )


def _add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", default="local[*]", help="Spark master (%(default)s)")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port, nor HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _load(options: argparse.Namespace) -> Spec:
    from headrace.pipelines.reading import load_spec

    return load_spec(options.spec, dict(options.set))


def _run(options: argparse.Namespace) -> int:
    with Ending(options.command_name) as ending:
        from headrace.pipelines.display import RunDisplay
        from headrace.pipelines.running import RunOptions, run_pipeline
        from headrace.spark.jvm import end_jvm

        spec = _load(options)
        display = RunDisplay()
        display.fact("pipeline", f"{spec.name}, {len(spec.all_sinks)} sink(s), checkpoint {spec.checkpoint}")
        wishes = RunOptions(options.master, options.metrics, options.report, options.report_url, options.log)
        good = ending.run(
            lambda: run_pipeline(spec, wishes, display, ending.stop, on_watch=ending.heeded.set), end_jvm
        )
        return ExitCode.FAILED if not good else ending.code or 0


def _check(options: argparse.Namespace) -> int:
    with Ending(options.command_name) as ending:
        spec = _load(options)
        if options.plan:
            from headrace.spark.jvm import end_jvm

            ending.run(lambda: _plan(spec, options.master), end_jvm)
    parts = {
        "source": spec.sources,
        "transform": spec.steps,
        "expectation": spec.expectations,
        "sink": spec.all_sinks,
    }
    counts = ", ".join(_count(len(found), name) for name, found in parts.items())
    print(f"{options.spec}: pipeline {spec.name} is good: {counts}")
    return 0


def _plan(spec: Spec, master: str) -> None:
    """Build the DataFrames of a pipeline, and run none. Raises: ConfigError if Spark refuses it."""
    from headrace.pipelines.plan import build
    from headrace.pipelines.running import RunOptions, start_session

    spark = start_session(spec, RunOptions(master))
    try:
        build(spec, spark)
    finally:
        spark.stop()


def _count(number: int, word: str) -> str:
    plural = f"{word.removesuffix('y')}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"


def _new(options: argparse.Namespace) -> int:
    from headrace.pipelines.starters import starter

    made = starter(options.name)
    if options.file == Path("-"):
        print(made.text, end="")
        return 0
    file: Path = options.file or Path(f"{made.name}.yaml")
    with file.open("x", encoding="utf-8") as out:  # never over what is there
        out.write(made.text)
    print(f"{file}: {made.summary}\nnext: edit its parameters, then headrace pipeline check {file}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from headrace.pipelines.operations import write_report

    found = write_report(options.table, options.out)
    parts = (
        _count(found.rows, "event"),
        _count(len(found.connections), "server"),
        _count(len(found.lag), "query"),
    )
    print(f"{options.out}: {', '.join(parts)}")
    return 0


def _environment(_options: argparse.Namespace) -> int:
    """Lines for a POSIX shell's `eval`."""
    import shlex

    from headrace.pipelines.running import spark_environment

    for name, value in spark_environment().items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _list(_options: argparse.Namespace) -> int:
    from headrace.pipelines.starters import starters

    for one in starters():
        print(f"{one.name:<20} {one.summary}")
    return 0
