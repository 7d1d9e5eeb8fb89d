"""`headrace jetstream import`: arguments, keys, what is printed, exit codes.

What is read and written is `headrace.jetstream.importing`'s.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from headrace.cli import imports
from headrace.cli.jetstream_source import CIPHERS, secret_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from headrace.cli.imports import Told
    from headrace.jetstream.importing.importer import JetStreamImportReport, StreamReport
    from headrace.log.encryption import Cipher

_EXPLANATION: Final = """\
Messages keep their sequences, times and headers, consumers what they have not acknowledged. The source is
only read. Limits take effect when the server opens the result. The result is there when all of it is: after
an interruption the same command begins again.

A store that is encrypted needs the key of its configuration (jetstream { key }), in a file. The new store is
then encrypted with the same key, so that the same configuration opens it, unless --plain says otherwise.

exit codes:
  0    everything came over
  1    not imported: see the message
  2    wrong use
  3    imported, but the source is damaged: what is missing is listed
  130  interrupted: run it again (after TERM: 143)
"""


def run(arguments: Sequence[str], program: str) -> int:
    """Import a store. Returns 0, 1 (not imported), 3 (imported what the damage left) or 130 (Ctrl-C)."""
    return _command().run(arguments, program)


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    return _command().parser(program)


def _command() -> imports.ImportCommand[JetStreamImportReport]:
    return imports.ImportCommand(
        "jetstream import",
        "Take over the streams of a nats-server 2.10 to 2.15 that is stopped.",
        _EXPLANATION,
        "run it again",
        _add_arguments,
        _import,
        _document,
        _print_report,
    )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="old", help="its store_dir, the one that has jetstream")
    parser.add_argument(
        "--dir", type=Path, required=True, metavar="NEW", help="the store_dir of the new server"
    )
    keys = parser.add_argument_group("encryption")
    keys.add_argument("--key-file", type=Path, metavar="FILE", help="has the key of the old store")
    keys.add_argument(
        "--prev-key-file", type=Path, metavar="FILE", help="has the key before that one (prev_key)"
    )
    keys.add_argument(
        "--cipher", type=str.lower, choices=tuple(CIPHERS), default="chachapoly",
        help="of the new store (default: chachapoly, as a server's)",
    )  # fmt: skip
    keys.add_argument("--plain", action="store_true", help="do not encrypt the new store")


def _import(options: argparse.Namespace, told: Told) -> JetStreamImportReport:
    from headrace.importing.source_guard import SourceGuard
    from headrace.jetstream.importing.crypt import Keys
    from headrace.jetstream.importing.importer import import_store, opened_target
    from headrace.jetstream.importing.reader import open_store

    imports.refuse_nested(options.source, options.dir)
    secrets = [secret_in(path) for path in (options.key_file, options.prev_key_file) if path is not None]
    with SourceGuard(options.source) as guard:
        source = open_store(options.source, Keys(secrets))
        with opened_target(options.dir, _cipher(secrets, options)) as target:
            total = sum(stream.message_bytes for stream in source.streams)
            report = import_store(source, target.store, partial(told, total))
            guard.check()
            target.publish()
    return report


def _cipher(secrets: Sequence[str], options: argparse.Namespace) -> Cipher | None:
    if options.plain or not secrets:
        return None
    from headrace.log.store_cipher import store_cipher

    return store_cipher(secrets[0], CIPHERS[options.cipher])


# -- the result


def _document(report: JetStreamImportReport) -> dict[str, object]:
    def shown(stream: StreamReport) -> dict[str, object]:
        return asdict(stream) | {"findings": [str(finding) for finding in stream.findings]}

    return {
        "damaged": report.is_damaged,
        "streams": [shown(stream) for stream in report.streams],
        "findings": [str(finding) for finding in report.findings],
    }


def _print_report(report: JetStreamImportReport, every_finding: bool) -> None:
    heads = ("stream", "messages", "first", "last", "lost", "consumers", "not acknowledged")
    rows = [
        (
            f"{stream.account} > {stream.name}",
            *(
                f"{number:,}"
                for number in (
                    stream.messages, stream.first_sequence, stream.last_sequence, stream.lost,
                    stream.consumers, stream.pending,
                )
            ),
        )
        for stream in report.streams
    ]  # fmt: skip
    imports.print_table(heads, rows)
    messages = sum(stream.messages for stream in report.streams)
    size = sum(stream.payload_bytes for stream in report.streams)
    consumers = sum(stream.consumers for stream in report.streams)
    accounts = len({stream.account for stream in report.streams})
    print(
        f"{len(report.streams)} streams of {accounts} accounts, {messages:,} messages, "
        f"{size:,} bytes of payload, {consumers} consumers"
    )
    lost = sum(stream.lost for stream in report.streams)
    is_left_out = any(finding.is_damage for finding in report.findings)
    imports.print_findings(report.all_findings, lost, every=every_finding, is_left_out=is_left_out)
