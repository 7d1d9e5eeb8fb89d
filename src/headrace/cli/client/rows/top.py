"""The row of `top`."""

from __future__ import annotations

from typing import Final

from headrace.cli.client.rows.server_flags import MONITOR_FLAGS
from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag

SORT_KEYS: Final = (
    *("cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last", "idle"),
    *("uptime", "rtt", "rate_to", "rate_from", "name", "host"),
)
"""The keys of `--sort`: those of servers, and rates, names and addresses, by which only we sort."""

ROWS: Final = (
    CommandRow(
        words=("top",),
        summary="Watch a server and its connections",
        description="Shows load, traffic and connections, again and again. Keys: o order, n number of "
        "connections, s subjects, d names of addresses, b exact numbers, space at once, ? help, q end. In a "
        "pipe it prints one snapshot, with --json an object a line. "
        "A user of the system account (or --monitor) sees whole servers, any other user its account.",
        run="top:watch",
        arguments=(WordArgument("server", "name of a server, or a part of it (all)", ValueKind.SERVER, "?"),),
        flags=(
            *MONITOR_FLAGS,
            WordFlag(
                ("--sort", "-S"),
                "order of connections",
                ValueKind.TEXT,
                default="cid",
                choices=SORT_KEYS,
                metavar="KEY",
            ),
            WordFlag(("--delay", "-d"), "seconds between two looks", ValueKind.DECIMAL, default=1.0),
            WordFlag(("--connections", "-n"), "show so many connections (all)", ValueKind.NUMBER),
            WordFlag(("--subs",), "show the subjects that each connection is subscribed to"),
            WordFlag(("--lookup",), "show names of addresses"),
            WordFlag(("--count",), "end after so many looks", ValueKind.NUMBER),
            WordFlag(
                ("--output", "-o"),
                "write one snapshot into a file that is not there yet, or to standard output for -",
                ValueKind.FILE,
            ),
        ),
        json=JsonForm.LINES,
        keys=(
            JsonKey("time", "the time of the look"),
            JsonKey("scope", "`system`, `monitor`, or `account` where only the user's account is shown"),
            JsonKey("servers", "the servers: `server`, its name, and keys of `varz`"),
            JsonKey("servers[].in_msgs_rate", "messages a second since the look before; absent in the first"),
            JsonKey("servers[].out_msgs_rate", "the same of messages sent"),
            JsonKey("servers[].in_bytes_rate", "bytes a second"),
            JsonKey("servers[].out_bytes_rate", "the same of bytes sent"),
            JsonKey(
                "connections",
                "the connections as `connz` says them, with `server`, and the same rates",
            ),
            JsonKey("errors", "servers that did not answer; absent without one"),
        ),
        examples=("top", "top --sort bytes_to -n 10 -d 2", "top --json --count 2"),
    ),
)
