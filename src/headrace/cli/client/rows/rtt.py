"""The row of `rtt`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonKey, ValueKind, WordArgument

ROWS: Final = (
    CommandRow(
        words=("rtt",),
        summary="Measure the round trip to the server",
        description="Connects, then measures N times how long a PING takes until its PONG.",
        run="rtt:measure",
        arguments=(WordArgument("n", "how many times (5)", ValueKind.NUMBER, "?"),),
        keys=(
            JsonKey("server", "the address that was connected to"),
            JsonKey("server_id", "the id of the server"),
            JsonKey("server_name", "the name of the server"),
            JsonKey("version", "the version of the server"),
            JsonKey("count", "how many round trips were measured"),
            JsonKey("connect_ns", "the time that connecting took, in ns"),
            JsonKey("min_ns", "the shortest round trip, in ns"),
            JsonKey("average_ns", "the average of the round trips, in ns"),
            JsonKey("max_ns", "the longest round trip, in ns"),
        ),
        examples=("rtt", "rtt 3 --json", "rtt --format '{average_ns}'"),
    ),
)
