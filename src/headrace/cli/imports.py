"""The common part of the commands that import foreign stores: their course and their output."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from headrace.cli.outcomes import ExitCode, exit_code
from headrace.cli.progress import ProgressBars
from headrace.errors import on_one_line
from headrace.importing.findings import ImportOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headrace.importing.findings import Finding
    from headrace.importing.progress import ImportProgress

SHOWN_FINDINGS: Final = 20


R = TypeVar("R", bound=ImportOutcome)
Told: TypeAlias = "Callable[[int, ImportProgress], None]"
"""The function that is told of how many bytes there are to read, and how far it is."""


class ImportCommand(Struct, Generic[R], frozen=True):
    """A command that imports: what it is called and says of itself, and what it does.

    `again`: what to do after an interruption. `document` is what `--json` prints; `describe` prints it for
    people, all findings of it with its second argument.
    """

    command: str
    description: str
    explanation: str
    again: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    bring: Callable[[argparse.Namespace, Told], R]
    document: Callable[[R], object]
    describe: Callable[[R, bool], None]

    def run(self, arguments: Sequence[str], program: str) -> int:
        """Run the import, show its progress, print the outcome; return the exit code."""
        parser = self.parser(program)
        options = parser.parse_args(arguments)
        return exit_code(parser.prog, lambda: self._run(options), again=self.again)

    def parser(self, program: str) -> argparse.ArgumentParser:
        """The parser of the command's arguments."""
        parser = argparse.ArgumentParser(
            prog=f"{program} {self.command}",
            description=self.description,
            epilog=self.explanation,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_arguments(parser)
        parser.add_argument(
            "--all", action="store_true", help=f"list all damage, not only {SHOWN_FINDINGS} places"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        return parser

    def _run(self, options: argparse.Namespace) -> int:
        with ProgressBars("importing", unit="messages") as meter:
            report = self.bring(options, lambda total, progress: _show(meter, total, progress))
        if options.json:
            print(json.dumps(self.document(report), indent=2))
        else:
            self.describe(report, options.all)
        return ExitCode.WRONG if report.is_damaged else 0


def _show(meter: ProgressBars, total: int, progress: ImportProgress) -> None:
    place = on_one_line(progress.place)
    meter.show(progress.bytes_read, total, count=progress.messages, place=place)


def refuse_nested(source: Path, target: Path) -> None:
    """Refuse an import whose target lies within its source, or the other way round.

    Raises: SourceUnusable.
    """
    from headrace.importing.findings import SourceUnusable

    first, second = source.resolve(), target.resolve()
    if first.is_relative_to(second) or second.is_relative_to(first):
        raise SourceUnusable(f"{target} and {source} may not be one within the other")


def print_findings(found: Sequence[Finding], lost: int, *, every: bool, is_left_out: bool = False) -> None:
    """Print findings.

    `lost`: messages that are known to be lost. `is_left_out`: there are others, which are not counted.
    """
    damage = [finding for finding in found if finding.is_damage]
    notes = [finding for finding in found if not finding.is_damage]
    for title, findings in (("damage in the source", damage), ("notes", notes)):
        if not findings:
            continue
        print(f"{title}:")
        count = len(findings) if every else SHOWN_FINDINGS
        for finding in findings[:count]:
            print(f"  {finding}")
        if len(findings) > count:
            print(f"  and {len(findings) - count:,} more; --all lists them")
    if damage:
        known = f"{lost:,} messages are" if lost > 1 else f"{lost or 'no'} message is"
        print(f"{known} known to be lost{', besides those of what is left out' if is_left_out else ''}")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, the others to the right."""
    rows = [[on_one_line(cell) for cell in row] for row in rows]  # names may have anything in them
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *rest]).rstrip())
