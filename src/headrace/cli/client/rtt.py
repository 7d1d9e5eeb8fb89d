"""`headrace rtt`: how long the way to the server and back takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call

_TIMES: Final = 5


def measure(call: Call) -> None:
    """Measure and print. Raises: CommandError, ClientError."""
    count = _TIMES if call.options.n is None else call.options.n
    if count < 1:
        raise CommandError("N is at least 1", ExitCode.WRONG_USE)
    began = time.perf_counter_ns()
    with call.connected() as connection:
        connected_ns = time.perf_counter_ns() - began
        trips = []
        for _ in range(count):
            began = time.perf_counter_ns()
            connection.flush(call.timeout)
            trips.append(time.perf_counter_ns() - began)
        facts = connection.server_info
        found = {
            "server": str(connection.address),
            "server_id": facts.server_id,
            "server_name": str(facts.fields.get("server_name", "")),
            "version": facts.version,
            "count": count,
            "connect_ns": connected_ns,
            "min_ns": min(trips),
            "average_ns": sum(trips) // count,
            "max_ns": max(trips),
        }
    call.out.document(found, lambda: _show(call, found), quiet=str(found["average_ns"]))


def _show(call: Call, found: dict[str, object]) -> None:
    from headrace.cli.text_table import ColumnKind

    duration = ColumnKind.DURATION
    call.out.facts(
        (
            ("server", f"{found['server']} ({found['server_name']}, {found['version']})"),
            ("round trips", found["count"], ColumnKind.NUMBER),
            ("shortest", found["min_ns"], duration),
            ("average", found["average_ns"], duration),
            ("longest", found["max_ns"], duration),
            ("connecting", found["connect_ns"], duration),
        )
    )
