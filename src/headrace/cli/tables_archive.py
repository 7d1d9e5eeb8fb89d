"""`headrace tables archive`: from streams of a server or a store to their tables, once or again and again.

Here live what is printed, and what happens to the others when one fails. Never lives here: arguments
(`tables`), finding the streams (`archive_sources`), the archiver (`headrace.tables.archive`).
"""

from __future__ import annotations

import sys
from time import sleep
from typing import TYPE_CHECKING

from headrace.cli.archive_sources import opened_sources
from headrace.cli.outcomes import ExitCode
from headrace.cli.progress import ProgressBars
from headrace.cli.streaming_source import shown
from headrace.cli.tables import limits_of, ranges_text, register
from headrace.errors import HeadraceError
from headrace.objects.opening import open_store
from headrace.tables.archive import ArchiveProgress, archive, archive_and_merge
from headrace.tables.files import FileLimits
from headrace.tables.latest import archive_latest
from headrace.tables.manifest import TableKind
from headrace.tables.open import table_place
from headrace.tables.table import Table

if TYPE_CHECKING:
    import argparse

    from headrace.tables.archive import ArchiveReport
    from headrace.tables.source import SegmentSource


def run(options: argparse.Namespace) -> int:
    """Archive; return the exit code: that of the last round with `--every`, which Ctrl-C ends."""
    while True:
        try:
            code = _round(options)
        except HeadraceError as error:
            if options.every is None:
                raise
            print(f"headrace tables archive: {error}; trying again", file=sys.stderr)
        else:
            if options.every is None:
                return code
        sleep(options.every)


def _round(options: argparse.Namespace) -> int:
    code = 0
    with opened_sources(options) as sources:
        for one, kind in sources:
            try:
                report = _archived(options, one, kind)
            except HeadraceError as error:
                print(f"{_name(one.stream, kind)}: {error}", file=sys.stderr)
                code = ExitCode.FAILED
                continue
            if (report.missed or report.damaged) and code == 0:
                code = ExitCode.WRONG
    return code


def _archived(options: argparse.Namespace, one: SegmentSource, kind: TableKind) -> ArchiveReport:
    limits = limits_of(options)
    assert isinstance(limits, FileLimits)
    table = Table(open_store(f"{options.to.rstrip('/')}/{table_place(one.stream, kind)}"))
    with ProgressBars(f"archiving {shown(one.stream)}", unit="messages") as meter:

        def show(progress: ArchiveProgress) -> None:
            meter.show(progress.at - progress.first, progress.end - progress.first)

        if kind is TableKind.LATEST:
            report = archive_latest(table, one, restart=options.restart, limits=limits, progress=show)
        else:
            run = archive if options.every is None else archive_and_merge
            how = {"kind": kind, "retain": options.retain, "restart": options.restart}
            report = run(table, one, **how, limits=limits, progress=show)
    _print(_name(one.stream, kind), report, quiet=options.every is not None)
    register(options, table)
    return report


def _name(stream: str, kind: TableKind) -> str:
    """A table as it is told of: by its stream, one of a bucket by its place."""
    return shown(stream) if kind is TableKind.MESSAGES else table_place(stream, kind)


def _print(name: str, report: ArchiveReport, *, quiet: bool) -> None:
    if report.rows or report.removed or not quiet:
        removed = f", {report.removed:,} rows removed" if report.removed else ""
        print(
            f"{name}: {report.rows:,} rows in {report.files} files, {report.bytes:,} bytes{removed}; "
            f"archived up to sequence {report.next - 1}",
            flush=True,
        )
    if report.missed:
        gone = ranges_text(report.missed)
        print(f"{name}: gone from the stream before they were archived: {gone}", file=sys.stderr)
    if report.damaged:
        print(f"{name}: damaged in the stream: {ranges_text(report.damaged)}", file=sys.stderr)
