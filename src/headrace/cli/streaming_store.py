"""`headrace streaming channels | report | purge | rm`: looking after channels.

Here live arguments, tables and what is removed. Never lives here: how a store or server is asked
(`streaming_source`), who may (`streaming_access`).

Exit codes: 0 done, 1 not done, 2 wrong use, 3 a damaged message was found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import to_builtins
from msgspec.structs import replace

from headrace.cli import streaming_access as access
from headrace.cli import streaming_source as source
from headrace.cli.bucket_source import add_bucket, bucket_of, check_alone
from headrace.cli.confirm import confirm
from headrace.cli.outcomes import ExitCode, exit_code
from headrace.client.streaming_admin import StreamingAdmin
from headrace.protocol.documents import raw_name
from headrace.protocol.rfc3339 import parse_time
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.cli.streaming_source import ListedChannel, ListedSubscription
    from headrace.client.streaming_admin import ChannelInfo
    from headrace.log.store import LogStore

_LINE_EVERY: Final = 0.5


def channels(arguments: Sequence[str], program: str) -> int:
    """One line for each channel."""
    return _do(channels_parser(program), arguments, _list)


def channels_parser(program: str) -> argparse.ArgumentParser:
    """The parser of `channels`."""
    parser = _parser(program, "channels", "List the channels of a store or a running server.")
    _add_source(parser)
    return parser


def report(arguments: Sequence[str], program: str) -> int:
    """Channels with their subscriptions."""
    return _do(report_parser(program), arguments, _report)


def report_parser(program: str) -> argparse.ArgumentParser:
    """The parser of `report`."""
    parser = _parser(program, "report", "Show channels with their subscriptions.")
    parser.add_argument("channel", nargs="*", help="only these; * and > match as in subjects")
    _add_source(parser)
    parser.add_argument(
        "--check", action="store_true", help="read every message; exit code 3 if any is damaged"
    )
    return parser


def purge(arguments: Sequence[str], program: str) -> int:
    """Remove messages; sequences go on where they were."""
    return _do(purge_parser(program), arguments, _purge)


def purge_parser(program: str) -> argparse.ArgumentParser:
    """The parser of `purge`."""
    parser = _parser(program, "purge", "Remove messages of channels, of a store or a running server.")
    _add_removal(parser)
    parser.add_argument("--before", type=_count, metavar="SEQ", help="only messages below this sequence")
    parser.add_argument("--before-time", type=_time_ns, metavar="TIME", help="only messages older than this")
    parser.add_argument("--keep", type=_count, default=0, metavar="N", help="keep the last N of these")
    return parser


def remove(arguments: Sequence[str], program: str) -> int:
    """Remove channels with all that belongs to them, durable subscriptions too."""
    return _do(remove_parser(program), arguments, _remove)


def remove_parser(program: str) -> argparse.ArgumentParser:
    """The parser of `rm`."""
    parser = _parser(
        program, "rm", "Remove channels with their subscriptions, of a store or a running server."
    )
    _add_removal(parser)
    return parser


def _do(
    parser: argparse.ArgumentParser, arguments: Sequence[str], work: Callable[[argparse.Namespace], int]
) -> int:
    options = access.check_place(parser, parser.parse_args(arguments))
    return exit_code(parser.prog, lambda: work(options))


def _parser(program: str, command: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"{program} streaming {command}", description=description, allow_abbrev=False
    )


def _add_source(parser: argparse.ArgumentParser) -> None:
    where = _add_place(parser)
    where.add_argument("--url", help="monitoring of a running server, http://host:port")
    add_bucket(where, parser, "the bucket of a server's channels; none is asked")
    parser.add_argument("--json", action="store_true", help="print JSON, with every field")


def _add_place(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--dir", type=Path, help="the directory of a FILE store that no server uses")
    where.add_argument(
        "--server", metavar="URL", help=f"a running server, nats://host:port (default: {access.URL_VARIABLE})"
    )
    access.add_server_login(parser)
    access.add_keys(parser)
    return where


def _add_removal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("channel", nargs="+", help="* and > match as in subjects")
    _add_place(parser)
    parser.add_argument("-f", "--force", action="store_true", help="do not ask")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _time_ns(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


# -- looking


def _list(options: argparse.Namespace) -> int:
    found = _found(options)
    if options.json:
        return _print_json(found)
    rows = [
        (
            one.name,
            f"{one.msgs:,}",
            f"{one.bytes:,}",
            str(one.first_seq),
            str(one.last_seq),
            _time(one.last_time),
            str(len(one.subscriptions)),
        )
        for one in found
    ]
    _print_table(("channel", "messages", "bytes", "first", "last", "newest", "subscriptions"), rows)
    messages, size = sum(one.msgs for one in found), sum(one.bytes for one in found)
    print(f"{len(found)} channels, {messages:,} messages, {size:,} bytes")
    return 0


def _report(options: argparse.Namespace) -> int:
    if options.check and not (options.dir or options.bucket_url):
        raise source.SourceError("--check reads a store: it needs --dir or --from")
    found = _matching(_found(options, check=options.check), options.channel)
    if options.json:
        _print_json(found)
    else:
        for one in found:
            _print_channel(one)
    return ExitCode.WRONG if any(one.damaged for one in found) else 0


def _found(options: argparse.Namespace, *, check: bool = False) -> list[ListedChannel]:
    check_alone(options)
    if options.url:
        return source.from_server(options.url)
    if access.server_of(options):
        with access.connected(options) as connection:
            admin = StreamingAdmin(connection, options.cluster_id)
            return source.from_streaming(admin.channels(subscriptions=True))
    cipher = access.cipher_of(options)
    if options.bucket_url is not None:
        opening = source.opened_bucket(bucket_of(options), options.cluster_id, cipher)
    else:
        opening = source.opened(options.dir, cipher)
    with opening as store:
        line = _Line()
        try:
            return source.from_store(store, check=check, progress=line.show)
        finally:
            line.end()


class _Line:
    """One line on a terminal that says how far long work is; nothing elsewhere."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._due = 0.0

    def show(self, channel: str, sequence: int) -> None:
        now = time.monotonic()
        if self._is_shown and now >= self._due:
            self._due = now + _LINE_EVERY
            print(f"\r\033[K  {channel}: {sequence:,} read", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._due:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _print_channel(one: ListedChannel) -> None:
    span = f"{one.first_seq} to {one.last_seq}" if one.msgs else f"none, the last was {one.last_seq}"
    newest = _time(one.last_time)
    print(f"{one.name}: {one.msgs:,} messages, {one.bytes:,} bytes, sequences {span}, newest {newest}")
    if one.damaged is not None:
        print(f"  damaged messages: {', '.join(map(str, one.damaged)) or 'none'}")
    rows = [
        (
            f"  {sub.client_id}",
            _kind(sub),
            sub.durable_name or "-",
            sub.queue_name or "-",
            "offline" if sub.is_offline else "online",
            str(sub.last_sent),
            str(sub.pending_count),
        )
        for sub in one.subscriptions
    ]
    if rows:
        _print_table(("  client", "kind", "durable", "queue", "state", "last sent", "pending"), rows)
    print()


def _kind(sub: ListedSubscription) -> str:
    return (
        " ".join(filter(None, ["durable" if sub.durable_name else "", "queue" if sub.queue_name else ""]))
        or "plain"
    )


def _print_json(found: Sequence[ListedChannel]) -> int:
    print(json.dumps([to_builtins(one) for one in found], indent=2))
    return 0


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need; what is a number stands to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(heads))]
    for row in (heads, *rows):
        cells = (
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        )
        print("  ".join(cells).rstrip())


def _is_number(text: str) -> bool:
    return text.replace(",", "").isdecimal()


def _time(ns: int | None) -> str:
    if not ns:
        return "-"
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}Z"


# -- removing


def _purge(options: argparse.Namespace) -> int:
    if access.server_of(options):
        return _purge_running(options)
    with source.opened(options.dir, access.cipher_of(options)) as store:
        names = _chosen(store, options.channel)
        confirm(f"Remove messages of {_listed(names)}", force=options.force)
        for name in names:
            log = store.open(name)
            up_to = options.before
            if options.before_time is not None:
                until = log.sequence_at(max(options.before_time, 0))
                up_to = until if up_to is None else min(up_to, until)
            count = log.purge(up_to=up_to, keep=options.keep)
            log.sync()
            _print_purged(name, count, log.state().messages)
    return 0


def _purge_running(options: argparse.Namespace) -> int:
    with access.connected(options) as connection:
        admin = StreamingAdmin(connection, options.cluster_id)
        names = _chosen_running(admin.channels(), options.channel)
        confirm(f"Remove messages of {_listed(list(names))}", force=options.force)
        for name, one in names.items():
            count, left = admin.purge(
                one.name,
                before_sequence=options.before,
                before_time_ns=options.before_time,
                keep=options.keep,
            )
            _print_purged(name, count, left.msgs)
    return 0


def _print_purged(name: bytes, count: int, left: int) -> None:
    print(f"{source.shown(name)}: {count:,} messages removed, {left:,} left", flush=True)


def _remove(options: argparse.Namespace) -> int:
    from headrace.streaming.state import STATE_LOG, load_state, write_state

    if access.server_of(options):
        return _remove_running(options)
    with source.opened(options.dir, access.cipher_of(options)) as store:
        names = _chosen(store, options.channel)
        state = load_state(store)
        lost = {key: sub for key, sub in state.subscriptions.items() if sub.channel in names}
        with_them = f" and {len(lost)} subscriptions" if lost else ""
        confirm(f"Remove {_listed(names)}{with_them}", force=options.force)
        gone = set(names).intersection(state.channels)
        if lost or gone:
            # First, so that a crash in between leaves nothing said of a channel that is gone.
            kept = {key: sub for key, sub in state.subscriptions.items() if key not in lost}
            known = {name: ns for name, ns in state.channels.items() if name not in gone}
            write_state(store.open(STATE_LOG), replace(state, subscriptions=kept, channels=known))
        for name in names:
            store.remove(name)
            _print_removed(name, sum(sub.channel == name for sub in lost.values()))
    return 0


def _remove_running(options: argparse.Namespace) -> int:
    with access.connected(options) as connection:
        admin = StreamingAdmin(connection, options.cluster_id)
        names = _chosen_running(admin.channels(), options.channel)
        count = sum(one.subs_count for one in names.values())
        with_them = f" and {count} subscriptions" if count else ""
        confirm(f"Remove {_listed(list(names))}{with_them}", force=options.force)
        for name, one in names.items():
            _print_removed(name, admin.delete(one.name)[1])
    return 0


def _print_removed(name: bytes, subscriptions: int) -> None:
    with_them = f", with {subscriptions} subscriptions" if subscriptions else ""
    print(f"{source.shown(name)}: removed{with_them}", flush=True)


def _chosen_running(found: Sequence[ChannelInfo], wanted: Sequence[str]) -> dict[bytes, ChannelInfo]:
    """Channels of a server that are meant, by name. Raises: SourceError for one that means none."""
    raw = [(raw_name(one.name), one) for one in found]
    known = {source.shown(name): (name, one) for name, one in raw}
    return dict(known[name] for name in _pick(list(known), wanted))


def _chosen(store: LogStore, wanted: Sequence[str]) -> list[bytes]:
    """Names of the store's channels that are meant. Raises: SourceError for one that means none."""
    known = {source.shown(name): name for name in source.channel_names(store)}
    return [known[name] for name in _pick(list(known), wanted)]


def _matching(found: Sequence[ListedChannel], wanted: Sequence[str]) -> list[ListedChannel]:
    by_name = {one.name: one for one in found}
    return [by_name[name] for name in _pick(list(by_name), wanted)] if wanted else list(found)


def _pick(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    picked: dict[str, None] = {}
    for pattern in wanted:
        found = [name for name in names if matches(pattern.encode(), name.encode())]
        if not found:
            raise source.SourceError(f"no channel {pattern!r}")
        picked.update(dict.fromkeys(found))
    return sorted(picked)


def _listed(names: Sequence[bytes]) -> str:
    return source.shown(names[0]) if len(names) == 1 else f"{len(names)} channels"
