"""`headrace streaming channels | report | purge | rm`: looking after channels.

Here live arguments, tables and what is removed. Never lives here: how a store or server is asked
(`streaming_source`).

Exit codes: 0 done, 1 not done, 2 wrong use, 3 a damaged message was found.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli import streaming_source as source
from headrace.errors import HeadraceError
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.cli.streaming_source import ChannelReport, SubscriptionReport
    from headrace.log.store import LogStore

EXIT_FAILURE: Final = 1
EXIT_DAMAGED: Final = 3


def channels(arguments: Sequence[str], program: str) -> int:
    """One line for each channel."""
    parser = _parser(program, "channels", "List the channels of a store or a running server.")
    _add_source(parser)
    return _guarded(_list, parser.parse_args(arguments), f"{program} streaming channels")


def report(arguments: Sequence[str], program: str) -> int:
    """Channels with their subscriptions."""
    parser = _parser(program, "report", "Show channels with their subscriptions.")
    parser.add_argument("channel", nargs="*", help="only these; * and > match as in subjects")
    _add_source(parser)
    parser.add_argument(
        "--check", action="store_true", help="read every message; exit code 3 if any is damaged"
    )
    return _guarded(_report, parser.parse_args(arguments), f"{program} streaming report")


def purge(arguments: Sequence[str], program: str) -> int:
    """Removes messages; sequences go on where they were."""
    parser = _parser(program, "purge", "Remove messages of channels while no server runs on the store.")
    _add_removal(parser)
    parser.add_argument("--before", type=_count, metavar="SEQ", help="only messages below this sequence")
    parser.add_argument("--keep", type=_count, default=0, metavar="N", help="keep the last N messages")
    return _guarded(_purge, parser.parse_args(arguments), f"{program} streaming purge")


def remove(arguments: Sequence[str], program: str) -> int:
    """Removes channels with all that belongs to them, durable subscriptions too."""
    parser = _parser(
        program, "rm", "Remove channels and their durable subscriptions while no server runs on the store."
    )
    _add_removal(parser)
    return _guarded(_remove, parser.parse_args(arguments), f"{program} streaming rm")


def _parser(program: str, command: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"{program} streaming {command}", description=description, allow_abbrev=False
    )


def _add_source(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--dir", type=Path, help="the directory of a FILE store that no server uses")
    where.add_argument("--url", help="monitoring of a running server, http://host:port")
    parser.add_argument("--json", action="store_true", help="print JSON, with every field")


def _add_removal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("channel", nargs="+", help="* and > match as in subjects")
    parser.add_argument("--dir", type=Path, required=True, help="the directory of the FILE store")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _guarded(command: Callable[[argparse.Namespace], int], options: argparse.Namespace, name: str) -> int:
    try:
        return command(options)
    except (HeadraceError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt:
        return 130


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
    if options.check and options.url:
        raise source.SourceError("--check reads a store: it needs --dir")
    found = _matching(_found(options, check=options.check), options.channel)
    if options.json:
        _print_json(found)
    else:
        for one in found:
            _print_channel(one)
    return EXIT_DAMAGED if any(one.damaged for one in found) else 0


def _found(options: argparse.Namespace, *, check: bool = False) -> list[ChannelReport]:
    if options.url:
        return source.from_server(options.url)
    with source.opened(options.dir) as store:
        return source.from_store(store, check=check)


def _print_channel(one: ChannelReport) -> None:
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


def _kind(sub: SubscriptionReport) -> str:
    return (
        " ".join(filter(None, ["durable" if sub.durable_name else "", "queue" if sub.queue_name else ""]))
        or "plain"
    )


def _print_json(found: Sequence[ChannelReport]) -> int:
    print(json.dumps([asdict(one) for one in found], indent=2))
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
    with source.opened(options.dir) as store:
        names = _chosen(store, options.channel)
        if not _confirmed(options, f"Remove messages of {_listed(names)}?"):
            return EXIT_FAILURE
        for name in names:
            log = store.open(name)
            count = log.purge(up_to=options.before, keep=options.keep)
            log.sync()
            print(f"{source.shown(name)}: {count:,} messages removed, {log.state().messages:,} left")
    return 0


def _remove(options: argparse.Namespace) -> int:
    from headrace.streaming.state import STATE_LOG, load_state, write_state

    with source.opened(options.dir) as store:
        names = _chosen(store, options.channel)
        state = load_state(store)
        lost = {key: sub for key, sub in state.subscriptions.items() if sub.channel in names}
        with_them = f" and {len(lost)} subscriptions" if lost else ""
        if not _confirmed(options, f"Remove {_listed(names)}{with_them}?"):
            return EXIT_FAILURE
        if lost:
            # First, so that a crash in between leaves no subscription of a channel that is gone.
            kept = {key: sub for key, sub in state.subscriptions.items() if key not in lost}
            write_state(store.open(STATE_LOG), replace(state, subscriptions=kept))
        for name in names:
            store.remove(name)
            count = sum(sub.channel == name for sub in lost.values())
            print(f"{source.shown(name)}: removed" + (f", with {count} subscriptions" if count else ""))
    return 0


def _chosen(store: LogStore, wanted: Sequence[str]) -> list[bytes]:
    """Names of the store's channels that are meant. Raises: SourceError for one that means none."""
    known = {source.shown(name): name for name in source.channel_names(store)}
    return [known[name] for name in _pick(list(known), wanted)]


def _matching(found: Sequence[ChannelReport], wanted: Sequence[str]) -> list[ChannelReport]:
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


def _confirmed(options: argparse.Namespace, question: str) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        print(f"{question} Say so with --yes.", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _listed(names: Sequence[bytes]) -> str:
    return source.shown(names[0]) if len(names) == 1 else f"{len(names)} channels"
