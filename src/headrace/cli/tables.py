"""`headrace tables`: arguments of its commands, and what the commands about tables print.

Archiving is in `tables_archive`; progress in `progress`. Never lives here: what a table is
(`headrace.tables`).

Exit codes: 0 done, 1 not done, 2 wrong use, 3 something is missing or damaged.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import to_builtins

from headrace.cli import jetstream_source as streams
from headrace.cli import streaming_access as access
from headrace.cli.bucket_source import add_bucket, check_alone
from headrace.cli.confirm import confirm
from headrace.cli.outcomes import ExitCode, exit_code
from headrace.cli.progress import ProgressBars
from headrace.cli.streaming_source import shown
from headrace.conf.literals import meaning
from headrace.protocol.durations import parse_duration
from headrace.protocol.rfc3339 import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from headrace.tables import Table
    from headrace.tables.manifest import TableManifest

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]
    Action: TypeAlias = Callable[[argparse.Namespace], int]

DEFAULT_GRACE: Final = "1h"

_LARGEST_SEQUENCE: Final = (1 << 63) - 2


def run(arguments: Sequence[str], program: str) -> int:
    """Do what the arguments say; gives the exit code."""
    options = parser(program).parse_args(arguments)
    name = f"{program} tables {options.command}"
    try:
        return exit_code(name, lambda: options.action(options))
    except ImportError as error:
        print(f"{name}: it needs the package {error.name}: pip install 'headrace[tables]'", file=sys.stderr)
        return ExitCode.FAILED


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog=f"{program} tables",
        description="Stored streams as Parquet tables. LOCATION is a table, or a directory (or URL such as "
        "s3://bucket/prefix) that has tables.",
        allow_abbrev=False,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_archive(commands)
    listing = _add(commands, "list", "show tables and how far they are", _list)
    listing.add_argument("--files", action="store_true", help="print paths or URLs of their files instead")
    listing.add_argument("--json", action="store_true", help="print JSON")
    compacting = _add(commands, "compact", "make few large files of many small ones", _compact)
    _add_file_size(compacting)
    _add_iceberg(compacting)
    _add(commands, "verify", "read every byte; exit code 3 if anything is wrong", _verify)
    vacuum = _add(commands, "vacuum", "remove files that were replaced", _vacuum)
    vacuum.add_argument(
        "--older-than", type=_duration, default=DEFAULT_GRACE, metavar="DURATION",
        help=f"leave those replaced since to readers that began before (default: {DEFAULT_GRACE})",
    )  # fmt: skip
    erasing = _add(commands, "erase", "remove rows for good", _erase)
    erasing.add_argument("sequences", nargs="+", type=_range, metavar="SEQ", help="7, or 9-12")
    erasing.add_argument("-f", "--force", action="store_true", help="do not ask")
    _add_iceberg(erasing)
    return made


def _add(commands: Commands, name: str, summary: str, action: Action) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
    )
    parser.add_argument("location", metavar="LOCATION", help="a table, or where there are tables")
    parser.set_defaults(action=action)
    return parser


def _add_archive(commands: Commands) -> None:
    from pathlib import Path

    parser = commands.add_parser(
        "archive",
        help="bring tables up to where their streams are",
        description="Bring tables up to where their streams are now, making those that are missing.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "channel", nargs="*", metavar="CHANNEL",
        help="a channel of NATS Streaming; * and > match as in subjects",
    )  # fmt: skip
    parser.add_argument(
        "--stream", action="append", default=[], metavar="NAME",
        help="a stream of JetStream, again for each; * is any text",
    )  # fmt: skip
    parser.add_argument(
        "--bucket", action="append", default=[], metavar="NAME",
        help="a key-value bucket: a table of its latest values",
    )  # fmt: skip
    parser.add_argument(
        "--bucket-history", action="append", default=[], metavar="NAME",
        help="a key-value bucket: a table of all operations that it has",
    )  # fmt: skip
    parser.add_argument(
        "--to", required=True, metavar="LOCATION", help="where the tables are, one below it each"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--dir", type=Path, help="a store_dir, or for channels the directory of a store, that no server uses"
    )
    where.add_argument(
        "--server", metavar="URL", help=f"a running server, nats://host:port (default: {access.URL_VARIABLE})"
    )
    add_bucket(
        where, parser, "a bucket that has the streams or channels of a server, such as s3://name/prefix"
    )
    parser.add_argument(
        "--retain", metavar="RULE",
        help="how long rows stay: stream (as long as their messages; a new table has this), forever, or "
        "an age such as 720h",
    )  # fmt: skip
    parser.add_argument(
        "--restart", action="store_true", help="of a stream that was made again, remove what the table had"
    )
    parser.add_argument(
        "--every", type=_duration, metavar="DURATION", help="go on until Ctrl-C, with such pauses between"
    )
    _add_file_size(parser)
    _add_iceberg(parser)
    access.add_server_login(parser)
    streams.add_api(parser)
    streams.add_store(parser)
    access.add_keys(parser)
    parser.set_defaults(action=partial(_archive, parser))


def _add_file_size(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file-size", type=_size, metavar="SIZE", help="about how large files become (default: 256MiB)"
    )


def _add_iceberg(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iceberg",
        metavar="CATALOG",
        help="then bring the tables of an Apache Iceberg catalog in step: an SQL URI such as "
        "sqlite:////data/catalog.db, or a name in pyiceberg's configuration",
    )


def register(options: argparse.Namespace, table: Table) -> None:
    """Bring the Iceberg table of a table in step, where that is asked for, and say how it is opened.

    Raises: HeadraceError.
    """
    if options.iceberg is None:
        return
    from headrace.tables.iceberg import open_catalog, opened_by, sync

    catalog = open_catalog(options.iceberg)
    name, added, left = sync(table, catalog)
    if not added and not left:
        return
    print(
        f"{table.store.location}: Iceberg table {name} of catalog {catalog.name}, {added} files added, "
        f"{left} left out",
        flush=True,
    )
    if getattr(options, "every", None) is None:
        for program, line in opened_by(options.iceberg, name).items():
            print(f"  {program + ':':<11}{line}")


def _archive(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    access.check_place(parser, options)
    _check_source(parser, options)
    if options.retain is not None:
        from headrace.tables.retention import age_of

        try:
            age_of(options.retain)
        except ValueError as error:
            parser.error(f"argument --retain: {options.retain!r} is not stream, forever or an age: {error}")
    from headrace.cli import tables_archive

    return tables_archive.run(options)


_OF_STREAMS: Final = {
    "js_domain": "server",
    "js_api_prefix": "server",
    "account": "dir",
    "key_file": "dir",
    "cipher": "dir",
}
"""The flags that are for streams only, with the place that they belong to."""
_OF_CHANNELS: Final = ("encrypt", "encryption_cipher", "encryption_key")


def _check_source(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program with 2 unless either channels or streams are named, with flags that are theirs."""
    named = bool(options.stream or options.bucket or options.bucket_history)
    if bool(options.channel) is named:
        parser.error("name streams with --stream or --bucket, or channels of NATS Streaming, not both")
    if options.bucket and options.retain is not None:
        parser.error("--retain is for messages and histories: latest values are those of the bucket")
    check_alone(options)
    if options.channel:
        wrong = [name for name in _OF_STREAMS if getattr(options, name)]
        what = "streams, which --stream names"
    else:
        wrong = [name for name in _OF_CHANNELS if getattr(options, name)]
        what = "channels; the key of a store with streams is in --key-file"
    if wrong:
        parser.error(f"--{wrong[0].replace('_', '-') if options.channel else wrong[0]} is for {what}")
    place = "server" if access.server_of(options) else "dir"
    for name, needed in _OF_STREAMS.items():
        if getattr(options, name) and needed != place:
            parser.error(
                f"--{name.replace('_', '-')} needs --{needed}{' or --from' if needed == 'dir' else ''}"
            )


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s: {error}") from None
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is below 0")
    return seconds


def _size(text: str) -> int:
    size = meaning(text)
    if isinstance(size, bool) or not isinstance(size, int) or size <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 256MiB")
    return size


def _range(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    if not (low.isascii() and low.isdecimal() and (not dash or (high.isascii() and high.isdecimal()))):
        raise argparse.ArgumentTypeError(f"{text!r} is not a sequence or two with a dash between")
    first, last = int(low), int(high or low)
    if not 0 < first <= last <= _LARGEST_SEQUENCE:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 1 on, lower one first")
    return first, last


def _tables(options: argparse.Namespace) -> list[Table]:
    from headrace.tables.open import find_tables

    found: list[Table] = find_tables(options.location)
    return found


# -- looking


def _list(options: argparse.Namespace) -> int:
    tables = _tables(options)
    if options.files:
        for table in tables:
            print("\n".join(table.locations()))
        return 0
    found = [(table.store.location, table.manifest()) for table in tables]
    if options.json:
        documents = [_document(where, manifest) for where, manifest in found]
        print(json.dumps(documents, indent=2))
        return 0
    for where, manifest in found:
        print(_line(where, manifest))
    return 0


def _document(where: str, manifest: TableManifest) -> dict[str, object]:
    document = to_builtins(manifest)
    for name in ("commit", "lineage"):
        del document[name]
    return {"location": where, "rows": manifest.rows, "bytes": manifest.bytes, **document}


_KINDS: Final = {"messages": "stream", "history": "history of", "latest": "latest values of"}
"""Words for the kinds of tables, before the name of the stream."""


def _line(where: str, manifest: TableManifest) -> str:
    files = manifest.files
    span = f"sequences {files[0].first} to {files[-1].last}" if files else "no rows"
    newest = f", newest {format_time(files[-1].last_time_ns)}" if files else ""
    notes = "".join(
        f"\n  {text}: {ranges_text(ranges)}"
        for text, ranges in (("never archived", manifest.missed), ("damaged in the stream", manifest.damaged))
        if ranges
    )
    what = f"{_KINDS[manifest.kind]} {shown(manifest.stream)}"
    return (
        f"{where}: {what}, {manifest.rows:,} rows in {len(files)} files, "
        f"{manifest.bytes:,} bytes, {span}{newest}, kept: {manifest.retain}{notes}"
    )


def ranges_text(ranges: Sequence[tuple[int, int]], most: int = 20) -> str:
    """Ranges for people, the first of them."""
    texts = [f"{low}" if low == high else f"{low} to {high}" for low, high in ranges[:most]]
    more = f" and {len(ranges) - most:,} more" if len(ranges) > most else ""
    return ", ".join(texts) + more


def _verify(options: argparse.Namespace) -> int:
    from headrace.tables.verify import verify

    is_bad = False
    for table in _tables(options):
        with ProgressBars(f"reading {table.store.location}", unit="bytes") as meter:
            found = verify(table, meter.show)
        manifest = table.manifest()
        for line in found:
            print(f"{table.store.location}: {line}")
        if not found:
            print(f"{table.store.location}: {manifest.rows:,} rows in {len(manifest.files)} files, all well")
        is_bad |= bool(found)
    return ExitCode.WRONG if is_bad else 0


# -- changing


def limits_of(options: argparse.Namespace) -> object:
    from headrace.tables.files import FileLimits

    return FileLimits() if options.file_size is None else FileLimits(file_bytes=options.file_size)


def _compact(options: argparse.Namespace) -> int:
    from headrace.tables.files import FileLimits
    from headrace.tables.rewrite import compact

    limits = limits_of(options)
    assert isinstance(limits, FileLimits)
    for table in _tables(options):
        with (
            ProgressBars(f"merging {table.store.location}", unit="bytes") as meter,
            table.writing() as writer,
        ):
            before, after = compact(writer, limits, meter.show)
        print(
            f"{table.store.location}: {before} files became {after}"
            if before
            else f"{table.store.location}: -"
        )
        register(options, table)
    return 0


def _vacuum(options: argparse.Namespace) -> int:
    for table in _tables(options):
        with table.writing() as writer:
            count = writer.vacuum(round(options.older_than * 1e9))
        print(f"{table.store.location}: {count} files removed")
    return 0


def _erase(options: argparse.Namespace) -> int:
    from headrace.tables.errors import TableError
    from headrace.tables.manifest import add_ranges
    from headrace.tables.rewrite import remove_rows

    tables = _tables(options)
    if len(tables) > 1:
        raise TableError(f"{options.location} has {len(tables)} tables: name the one to erase rows of")
    (table,) = tables
    ranges = add_ranges((), tuple(options.sequences))
    where = table.store.location
    confirm(f"Erase sequences {ranges_text(ranges)} of {where} for good", force=options.force)
    with table.writing() as writer:
        count = remove_rows(writer, ranges)
    print(f"{where}: {count:,} rows erased")
    register(options, table)
    return 0
