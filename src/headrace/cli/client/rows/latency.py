"""The row of `latency`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonKey, ValueKind, WordFlag

ROWS: Final = (
    CommandRow(
        words=("latency",),
        summary="Measure the time of messages from one server to another",
        description="Sends at --server and receives at --server-b, in one process with one clock. Exit code "
        "8 if no message gets there, 3 if some are lost.",
        run="latency:measure",
        flags=(
            WordFlag(("--server-b",), "the server that receives", ValueKind.SERVER, metavar="URL"),
            WordFlag(("--size",), "bytes of a message, 8 at least", ValueKind.SIZE, default=8),
            WordFlag(("--rate",), "messages a second", ValueKind.DECIMAL, default=1000.0),
            WordFlag(("--duration",), "how long (5s)", ValueKind.DURATION, default=5_000_000_000),
            WordFlag(
                ("--histogram",), "file for the distribution, as HdrHistogram writes it", ValueKind.FILE
            ),
        ),
        keys=(
            JsonKey("servers", "the addresses: the one that sent, the one that received"),
            JsonKey("versions", "their versions"),
            JsonKey("round_trips_ns", "the shortest PING to PONG of each connection, in ns"),
            JsonKey("message_size_bytes", "the bytes of a message"),
            JsonKey("rate", "messages a second that were asked for"),
            JsonKey("sent", "messages sent"),
            JsonKey("received", "messages received"),
            JsonKey("seconds", "from the first one sent to the last one received"),
            JsonKey("messages_per_second", "`received` by `seconds`"),
            JsonKey("interrupted", "true if it was ended before its time"),
            JsonKey(
                "latency",
                "`count`, `min_ns`, `average_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`, `max_ns`",
            ),
            JsonKey("histogram", "rows with `from_ns`, `to_ns` and `count`"),
        ),
        examples=(
            "latency --server-b nats://b.example:4222",
            "latency -s nats://a.example --server-b nats://b.example --rate 200 --size 1KiB --json",
        ),
    ),
)
