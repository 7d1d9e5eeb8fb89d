"""What a fuzz input of trace headers means, and what must hold whatever it is.

The input is what stands behind the first line of a header block. It asks for a trace or not; what a server
passes on in its place says where the message has been, or that nobody is to trace it, and all else as before.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.core.tracing import ConnectionKind, MessageTrace, TracedConnection, disabled, stored, wanted
from headrace.protocol.jetstream.headers import FIRST_LINE
from headrace.server.monitor.text import encode

_END: Final = b"\r\n\r\n"
_SAMPLED: Final = re.compile(rb"[^-]*-[^-]*-[^-]*-([0-9a-fA-F]{2}|\+[0-9a-fA-F])", re.DOTALL)


def check(data: bytes) -> None:
    assert wanted(data) is None or data.startswith(FIRST_LINE)
    asked = wanted(FIRST_LINE + data)
    if asked is not None:
        assert all(name and all(values) for name, values in asked.headers.items())
        has_dest = "Nats-Trace-Dest" in asked.headers
        assert asked.is_external is not has_dest
        assert has_dest or _is_sampled(data)
    lines = data.removesuffix(b"\r\n").removesuffix(b"\r\n").split(b"\r\n")
    if all(b":" in line.lstrip(b":") and b"\r" not in line for line in lines):
        _check_block(FIRST_LINE + b"\r\n".join(lines) + _END)


def _is_sampled(data: bytes) -> bool:
    values = re.findall(rb"(?i)traceparent:[ \t]*(.*?)[ \t]*\r\n", data, re.DOTALL)
    flags = [match[1] for match in map(_SAMPLED.fullmatch, values) if match]
    return any(-128 <= int(each, 16) <= 127 and int(each, 16) & 1 for each in flags)


def _check_block(block: bytes) -> None:
    """A block of lines that are headers."""
    for changed in (disabled(block), stored(block)):
        assert changed.endswith(_END)
        assert wanted(changed) is None or wanted(block) is None
    asked = wanted(block)
    if asked is None:
        return
    sent: list[MessageTrace] = []
    for kind in (ConnectionKind.CLIENT, ConnectionKind.ROUTER):
        trace = MessageTrace(
            source=TracedConnection(kind, 1, "n"),
            account="A",
            subject="s",
            wanted=asked,
            dest=b"t",
            system="S",
            now_ns=lambda: 0,
            send=sent.append,
        )
        passed_on = wanted(trace.next_hop(block))
        assert passed_on is not None
        came_over = asked.first("Nats-Trace-Hop") if kind is not ConnectionKind.CLIENT else ""
        assert passed_on.headers.pop("Nats-Trace-Hop") == [f"{came_over}.1" if came_over else "1"]
        assert passed_on.headers == {
            name: values for name, values in asked.headers.items() if name != "Nats-Trace-Hop"
        }
        trace.finish()
        encode({"request": {"header": asked.headers}, "events": trace.events}, indent=False)
    assert len(sent) == 2
