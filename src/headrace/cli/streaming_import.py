"""`headrace streaming import`: arguments, progress, what is printed, exit codes.

What is read and written is `headrace.streaming.importing`'s.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from headrace.cli import streaming_access as access
from headrace.errors import HeadraceError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from headrace.streaming.importing.importer import ChannelReport, ImportReport, Progress
    from headrace.streaming.importing.reader import SourceStore

EXIT_FAILURE: Final = 1
EXIT_DAMAGED: Final = 3
EXIT_INTERRUPTED: Final = 130

LINE_EVERY: Final = 2.0
"""Seconds between progress lines where there is no terminal."""
_SHOWN_FINDINGS: Final = 20

_EXPLANATION: Final = """\
Sequences, times, replies, durables with what they have not acknowledged, clients and the cluster ID come over
as they are; the source is only read. Limits take effect when the server opens the result. After an
interruption the same command goes on; on a finished import it compares every message and changes nothing.

exit codes:
  0    everything came over
  1    not imported: see the message
  2    wrong use
  3    imported, but the source is damaged: what is missing is listed
  130  interrupted: run it again to go on
"""


def run(arguments: Sequence[str], program: str) -> int:
    """Import a store. Returns 0, 1 (not imported), 3 (imported what the damage left) or 130 (Ctrl-C)."""
    options = _parser(program).parse_args(arguments)
    name = f"{program} streaming import"
    try:
        report = _import(options)
    except KeyboardInterrupt:
        print(f"{name}: interrupted; run it again to go on", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (HeadraceError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_FAILURE
    if options.json:
        print(json.dumps(_document(report), indent=2))
    else:
        _print_report(report, every_finding=options.all)
    return EXIT_DAMAGED if report.is_damaged else 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program} streaming import",
        description="Take over a file store of nats-streaming-server 0.25 that no server is using.",
        epilog=_EXPLANATION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("source", type=Path, help="its directory, the one that has server.dat")
    parser.add_argument("--dir", type=Path, required=True, help="the directory of the new FILE store")
    parser.add_argument("--cluster-id", help="stands in when server.dat is damaged")
    checks = parser.add_mutually_exclusive_group()
    checks.add_argument(
        "--crc-poly", type=_polynomial, help="the store's file_crc_poly (default: found out if well known)"
    )
    checks.add_argument("--no-crc", action="store_true", help="do not look at checksums")
    parser.add_argument(
        "--all", action="store_true", help=f"list all damage, not only {_SHOWN_FINDINGS} places"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON, progress to stderr")
    access.add_keys(parser)
    return parser


def _polynomial(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = 0
    if not 0 < value < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a polynomial such as 0xedb88320")
    return value


def _import(options: argparse.Namespace) -> ImportReport:
    from headrace.log.store import FileStore
    from headrace.streaming.importing.checksums import Checksum
    from headrace.streaming.importing.errors import SourceUnusable
    from headrace.streaming.importing.importer import import_store
    from headrace.streaming.importing.reader import open_store
    from headrace.streaming.importing.source_guard import SourceGuard

    source_path, target_path = options.source.resolve(), options.dir.resolve()
    if source_path.is_relative_to(target_path) or target_path.is_relative_to(source_path):
        raise SourceUnusable(f"{options.dir} and {options.source} may not be one within the other")
    cipher = access.cipher_of(options)
    with SourceGuard(options.source) as guard:
        checksum = Checksum(options.crc_poly) if options.crc_poly else None
        source = open_store(options.source, checksum, verify=not options.no_crc)
        target = FileStore(options.dir, cipher=cipher)
        try:
            with _progress(source, to_stderr=options.json) as shown:
                return import_store(
                    source,
                    target,
                    cluster_id=(options.cluster_id or "").encode(),
                    progress=shown.show,
                    before_state=guard.check,
                    release=lambda log: log.close(),
                )
        except StorageError as error:
            raise access.AccessError(f"{error}{access.sealed_hint(error, cipher)}") from error
        finally:
            target.close()


# -- progress


class _Shown(Protocol):
    def __enter__(self) -> _Shown: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, progress: Progress) -> None: ...


def _progress(source: SourceStore, *, to_stderr: bool) -> _Shown:
    total = sum(channel.message_bytes for channel in source.channels)
    stream = sys.stderr if to_stderr else sys.stdout
    if stream.isatty():
        try:
            return _Bar(total, to_stderr=to_stderr)
        except ImportError:  # rich is not among the packages a server needs
            pass
    return _Lines(total, to_stderr=to_stderr)


class _Bar:
    """A bar with rates, on a terminal."""

    def __init__(self, total: int, *, to_stderr: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._started = time.monotonic()
        self._bars = Progress(
            TextColumn("  {task.description}", markup=False),
            BarColumn(32),
            DownloadColumn(),
            TextColumn("{task.fields[messages]:>11,} messages", style="cyan"),
            TextColumn("{task.fields[rate]:>9,.0f}/s", style="cyan"),
            TimeRemainingColumn(),
            console=Console(stderr=to_stderr),
        )
        self._task = self._bars.add_task("importing", total=total, messages=0, rate=0.0)

    def __enter__(self) -> _Bar:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def show(self, progress: Progress) -> None:
        rate = progress.messages / max(time.monotonic() - self._started, 1e-9)
        self._bars.update(self._task, completed=progress.bytes_read, messages=progress.messages, rate=rate)


class _Lines:
    """A line now and then, where there is no terminal."""

    def __init__(self, total: int, *, to_stderr: bool) -> None:
        self._total = total
        self._stream = sys.stderr if to_stderr else sys.stdout
        self._shown = time.monotonic()

    def __enter__(self) -> _Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._shown >= LINE_EVERY:
            self._shown = now
            share = 100 * progress.bytes_read // max(self._total, 1)
            print(
                f"  {progress.messages:,} messages, {share} %, in {progress.channel}",
                file=self._stream,
                flush=True,
            )


# -- the result


def _document(report: ImportReport) -> dict[str, object]:
    def shown(channel: ChannelReport) -> dict[str, object]:
        return asdict(channel) | {"findings": [str(finding) for finding in channel.findings]}

    return {
        "cluster_id": report.cluster_id,
        "clients": report.clients,
        "state_written": report.state_written,
        "damaged": report.is_damaged,
        "channels": [shown(channel) for channel in report.channels],
        "findings": [str(finding) for finding in report.findings],
    }


def _print_report(report: ImportReport, *, every_finding: bool) -> None:
    heads = ("channel", "imported", "there before", "first", "last", "lost", "durables", "not acknowledged")
    rows = [
        (
            channel.name,
            *(
                f"{number:,}"
                for number in (
                    channel.imported,
                    channel.present,
                    channel.first_sequence,
                    channel.last_sequence,
                    channel.lost,
                    channel.durables,
                    channel.pending,
                )
            ),
        )
        for channel in report.channels
    ]
    _print_table(heads, rows)
    imported = sum(channel.imported for channel in report.channels)
    present = sum(channel.present for channel in report.channels)
    size = sum(channel.payload_bytes for channel in report.channels)
    durables = sum(channel.durables for channel in report.channels)
    print(
        f"{len(report.channels)} channels, {imported + present:,} messages ({present:,} were there before), "
        f"{size:,} bytes of payload, {durables} durables, {report.clients} clients of {report.cluster_id}"
    )
    _print_findings(report, every_finding=every_finding)
    if not imported and not report.state_written:
        print("nothing to do: the import was complete")


def _print_findings(report: ImportReport, *, every_finding: bool) -> None:
    damage = [finding for finding in report.all_findings if finding.is_damage]
    notes = [finding for finding in report.all_findings if not finding.is_damage]
    for title, findings in (("damage in the source", damage), ("notes", notes)):
        if not findings:
            continue
        print(f"{title}:")
        count = len(findings) if every_finding else _SHOWN_FINDINGS
        for finding in findings[:count]:
            print(f"  {finding}")
        if len(findings) > count:
            print(f"  and {len(findings) - count:,} more; --all lists them")
    lost = sum(channel.lost for channel in report.channels)
    if damage:
        print(f"{lost:,} messages are known to be lost" if lost else "no message is known to be lost")


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *rest]).rstrip())
