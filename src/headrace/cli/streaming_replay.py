"""`headrace streaming replay`: prints stored messages of a running server.

Here live arguments and what a message looks like. Never lives here: how messages are asked for
(`headrace.client.replay`).

Exit codes: 0 done, 1 not done, 2 wrong use, 3 some messages are damaged and were left out.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from headrace.cli import streaming_access as access
from headrace.cli.outcomes import ExitCode, exit_code
from headrace.cli.streaming_source import shown
from headrace.protocol.documents import name_of
from headrace.protocol.durations import parse_duration
from headrace.protocol.rfc3339 import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.replay import ReplayBatch


def run(arguments: Sequence[str], program: str) -> int:
    """Print what is stored; gives the exit code."""
    options = parser(program).parse_args(arguments)
    name = f"{program} streaming replay"
    return exit_code(name, lambda: _replay(options))


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog=f"{program} streaming replay",
        description="Print stored messages of a running server, up to what is there now.",
        allow_abbrev=False,
    )
    made.add_argument("channel", help="* and > match as in subjects")
    start = made.add_mutually_exclusive_group()
    start.add_argument("--start", type=_sequence, metavar="SEQ", help="from this sequence on")
    start.add_argument("--since", type=_ago, metavar="DURATION", help="of the last 30s, 1h30m, ...")
    start.add_argument("--start-time", type=_time, metavar="TIME", help="from 2026-11-21T08:00:00Z on")
    made.add_argument("--end", type=_sequence, metavar="SEQ", help="up to this sequence")
    made.add_argument("--end-time", type=_time, metavar="TIME", help="up to this time")
    made.add_argument("--count", type=_sequence, metavar="N", help="so many messages at most")
    made.add_argument(
        "--order", choices=("channel", "time"), default="", help="of several channels (default: time)"
    )
    form = made.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a JSON object for each message")
    form.add_argument("--raw", action="store_true", help="payloads only, a line end after each")
    made.add_argument("--server", metavar="URL", help=f"default: {access.URL_VARIABLE}, or this machine")
    access.add_server_login(made)
    return made


def _sequence(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 63):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _ago(text: str) -> int:
    try:
        return time.time_ns() - round(parse_duration(text) * 1e9)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 1h30m: {error}") from None


def _time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def _replay(options: argparse.Namespace) -> int:
    from headrace.client.replay import replay
    from headrace.protocol.replay import merge_damage

    since = options.since if options.since is not None else options.start_time
    damaged: dict[bytes, list[tuple[int, int]]] = {}
    write = sys.stdout.buffer.write
    form = _as_json if options.json else _raw if options.raw else _readable
    with access.connected(options) as connection:
        batches = replay(
            connection,
            options.cluster_id,
            os.fsencode(options.channel).decode("utf-8", "surrogateescape"),
            options.start or 1,
            options.end,
            start_time_ns=since,
            end_time_ns=options.end_time,
            order=options.order,
            max_messages=options.count,
        )
        for batch in batches:
            for row in range(len(batch)):
                write(form(batch, row))
            sys.stdout.buffer.flush()
            merge_damage(batch.damaged, damaged)
    for channel, ranges in sorted(damaged.items()):
        listed = ", ".join(f"{a} to {b}" if b > a else str(a) for a, b in ranges)
        print(f"{shown(channel)}: damaged and left out: {listed}", file=sys.stderr)
    return ExitCode.WRONG if damaged else 0


def _raw(batch: ReplayBatch, row: int) -> bytes:
    return batch.payloads[row] + b"\n"


def _readable(batch: ReplayBatch, row: int) -> bytes:
    reply = batch.replies[row]
    answer = f" reply: {shown(reply)}" if reply else ""
    head = (
        f"[#{batch.sequences[row]}] {shown(batch.channels[row])} {format_time(batch.timestamps[row])}{answer}"
    )
    return head.encode() + b"\n" + batch.payloads[row] + b"\n\n"


def _as_json(batch: ReplayBatch, row: int) -> bytes:
    """One line. A payload that is not UTF-8 is in `data_base64`."""
    payload, reply = batch.payloads[row], batch.replies[row]
    document: dict[str, Any] = {
        "channel": name_of(batch.channels[row]),
        "sequence": batch.sequences[row],
        "time": format_time(batch.timestamps[row]),
    }
    if reply is not None:
        document["reply"] = name_of(reply)
    try:
        document["data"] = payload.decode()
    except UnicodeDecodeError:
        document["data_base64"] = base64.b64encode(payload).decode()
    return json.dumps(document).encode() + b"\n"
