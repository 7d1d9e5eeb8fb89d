"""`headrace streaming import`: arguments, progress, what is printed, exit codes.

What is read and written is `headrace.streaming.importing`'s.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from headrace.cli import imports
from headrace.cli import streaming_access as access
from headrace.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.cli.imports import Told
    from headrace.streaming.importing.importer import ChannelReport, StreamingImportReport

_EXPLANATION: Final = """\
Sequences, times, replies, durables with what they have not acknowledged, clients and the cluster ID come over
as they are; the source is only read. Limits take effect when the server opens the result. After an
interruption the same command goes on; on a finished import it compares every message and changes nothing.

exit codes:
  0    everything came over
  1    not imported: see the message
  2    wrong use
  3    imported, but the source is damaged: what is missing is listed
  130  interrupted: run it again to go on (after TERM: 143)
"""


def run(arguments: Sequence[str], program: str) -> int:
    """Import a store. Returns 0, 1 (not imported), 3 (imported what the damage left) or 130 (Ctrl-C)."""
    return _command().run(arguments, program)


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    return _command().parser(program)


def _command() -> imports.ImportCommand[StreamingImportReport]:
    return imports.ImportCommand(
        "streaming import",
        "Take over a file store of nats-streaming-server 0.25 that no server is using.",
        _EXPLANATION,
        "run it again to go on",
        _add_arguments,
        _import,
        _document,
        _print_report,
    )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, help="its directory, the one that has server.dat")
    parser.add_argument("--dir", type=Path, required=True, help="the directory of the new FILE store")
    parser.add_argument("--cluster-id", help="stands in when server.dat is damaged")
    checks = parser.add_mutually_exclusive_group()
    checks.add_argument(
        "--crc-poly", type=_polynomial, help="the store's file_crc_poly (default: found out if well known)"
    )
    checks.add_argument("--no-crc", action="store_true", help="do not look at checksums")
    access.add_keys(parser)


def _polynomial(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = 0
    if not 0 < value < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a polynomial such as 0xedb88320")
    return value


def _import(options: argparse.Namespace, told: Told) -> StreamingImportReport:
    from headrace.importing.source_guard import SourceGuard
    from headrace.log.store import FileStore
    from headrace.streaming.importing.checksums import Checksum
    from headrace.streaming.importing.importer import import_store
    from headrace.streaming.importing.reader import open_store

    imports.refuse_nested(options.source, options.dir)
    cipher = access.cipher_of(options)
    with SourceGuard(options.source) as guard:
        checksum = Checksum(options.crc_poly) if options.crc_poly else None
        source = open_store(options.source, checksum, verify=not options.no_crc)
        total = sum(channel.message_bytes for channel in source.channels)
        target = FileStore(options.dir, cipher=cipher)
        try:
            return import_store(
                source,
                target,
                cluster_id=(options.cluster_id or "").encode(),
                progress=partial(told, total),
                before_state=guard.check,
                release=lambda log: log.close(),
            )
        except StorageError as error:
            raise access.AccessError(f"{error}{access.sealed_hint(error, cipher)}") from error
        finally:
            target.close()


# -- the result


def _document(report: StreamingImportReport) -> dict[str, object]:
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


def _print_report(report: StreamingImportReport, every_finding: bool) -> None:
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
    imports.print_table(heads, rows)
    imported = sum(channel.imported for channel in report.channels)
    present = sum(channel.present for channel in report.channels)
    size = sum(channel.payload_bytes for channel in report.channels)
    durables = sum(channel.durables for channel in report.channels)
    print(
        f"{len(report.channels)} channels, {imported + present:,} messages ({present:,} were there before), "
        f"{size:,} bytes of payload, {durables} durables, {report.clients} clients of {report.cluster_id}"
    )
    lost = sum(channel.lost for channel in report.channels)
    imports.print_findings(report.all_findings, lost, every=every_finding)
    if not imported and not report.state_written:
        print("nothing to do: the import was complete")
