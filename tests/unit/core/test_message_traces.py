"""Which messages are traced, by their headers, and the events of one."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from headrace.core.service import Taking
from headrace.core.tracing import (
    ConnectionKind,
    MessageTrace,
    TracedConnection,
    TraceRequest,
    disabled,
    stored,
    wanted,
)

ASKED: Final = b"NATS/1.0\r\nNats-Trace-Dest: t\r\n\r\n"


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"NATS/1.0",
        b"NATS/1.0\r\n",
        b"NATS/1.0\r\n\r\n",
        b"NATS/1.0\r\nA: b\r\n\r\n",
        b"NATS/1.0\r\nNats-Trace-Only: true\r\n\r\n",
        b"NATS/1.0\r\nnats-trace-dest: t\r\n\r\n",
        b"NATS/1.0\r\nNats-Trace-Dest : t\r\n\r\n",
        b"NATS/1.0\r\nNats-Trace-Dest:\r\n\r\n",
        b"NATS/1.0\r\nNats-Trace-Dest: t",
        b"NATS/1.0\r\nNats-Trace-Dest: trace disabled\r\ntraceparent: 0-a-b-01\r\n\r\n",
        b"NATS/1.0 503\r\nNats-Trace-Dest: t\r\n\r\n",
        b"NATS/1.0\r\ntraceparent: 0-a-b-00\r\n\r\n",
        b"NATS/1.0\r\ntraceparent: 0-a-b-ff\r\n\r\n",
        b"NATS/1.0\r\ntraceparent: 0-a-b-1\r\n\r\n",
        b"NATS/1.0\r\ntraceparent: 0-a-01\r\n\r\n",
        b"NATS/1.0\r\ntraceparent: 0-a-b- 1\r\n\r\n",
        "NATS/1.0\r\ntraceparent: 0-a-b-\N{FULLWIDTH DIGIT ZERO}\N{FULLWIDTH DIGIT ONE}\r\n\r\n".encode(),
    ],
)
def test_no_trace_is_asked_for(block: bytes) -> None:
    assert wanted(block) is None


@pytest.mark.parametrize(
    ("lines", "is_only"),
    [
        (b"Nats-Trace-Only: true\r\n", True),
        (b"Nats-Trace-Only:1\r\n", True),
        (b"Nats-Trace-Only: ON\r\n", True),
        (b"Nats-Trace-Only: yes\r\n", False),
        (b"Nats-Trace-Only: \r\n", False),
        (b"nats-trace-only: true\r\n", False),
        (b"Nats-Trace-Only: no\r\nNats-Trace-Only: true\r\n", False),
        (b"", False),
    ],
)
def test_first_word_decides_whether_it_is_delivered(lines: bytes, is_only: bool) -> None:
    asked = wanted(b"NATS/1.0\r\nNats-Trace-Dest: t\r\n" + lines + b"\r\n")
    assert asked is not None
    assert asked.is_only is is_only


def test_a_mark_of_a_tracing_system_never_keeps_a_message_back() -> None:
    asked = wanted(b"NATS/1.0\r\nTraceParent: 0-a-b-01\r\nNats-Trace-Only: true\r\n\r\n")
    assert asked is not None
    assert (asked.is_external, asked.is_only) == (True, False)


def test_any_bytes_can_be_a_header_block() -> None:
    """Cut off, repeated, mixed: nothing raises, and what is only traced is only so with both headers."""
    pieces = (b"NATS/1.0\r\n", b"Nats-Trace-Dest", b":", b" t", b"\r\n", b"\n", b"\r", b"Nats-Trace-Only")
    pieces += (b": true\r\n", b"traceparent: a-b-c-01\r\n", b"\xff\x00", b"A: b\r\n", b"", b"trace disabled")
    chance = random.Random(41)
    for _ in range(3000):
        block = b"".join(chance.choices(pieces, k=chance.randrange(12)))
        asked = wanted(block)
        if asked is not None and asked.is_only:
            assert b"Nats-Trace-Dest" in block
            assert b"Nats-Trace-Only" in block


@pytest.mark.parametrize("change", [disabled, stored])
def test_what_is_disabled_is_traced_nowhere(change: Any) -> None:
    for block in (ASKED, b"NATS/1.0\r\nA: b\r\ntraceparent: 0-a-b-01\r\n\r\n"):
        assert wanted(block) is not None
        assert wanted(change(block)) is None
        assert change(block).endswith(b"\r\n\r\n")


def _trace(
    sent: list[MessageTrace], source: ConnectionKind = ConnectionKind.CLIENT, hop: str = ""
) -> MessageTrace:
    headers = {"Nats-Trace-Dest": ["t"]} | ({"Nats-Trace-Hop": [hop]} if hop else {})
    return MessageTrace(
        source=TracedConnection(source, 7, ""),
        account="A",
        subject="s",
        wanted=TraceRequest(headers, is_external=False),
        dest=b"t",
        system="$SYS",
        now_ns=lambda: 0,
        send=sent.append,
    )


@pytest.mark.parametrize(
    ("source", "hop", "hops"),
    [
        (ConnectionKind.CLIENT, "", ["1", "2"]),
        (ConnectionKind.CLIENT, "9", ["1", "2"]),
        (ConnectionKind.ROUTER, "2.1", ["2.1.1", "2.1.2"]),
    ],
)
def test_hops_are_numbered_below_the_one_it_came_by(
    source: ConnectionKind, hop: str, hops: list[str]
) -> None:
    """A client cannot say that its message came from somewhere."""
    trace = _trace([], source, hop)
    found = [trace.next_hop(ASKED) for _ in hops]
    assert found == [ASKED[:-2] + f"Nats-Trace-Hop: {number}\r\n\r\n".encode() for number in hops]
    assert trace.hops == 2


def test_it_is_sent_once_when_all_streams_are_done() -> None:
    sent: list[MessageTrace] = []
    trace = _trace(sent)
    trace.meet("S")
    trace.meet("T")
    with pytest.raises(KeyError):
        trace.of("U")
    first, second = trace.of("T"), trace.of("S")
    trace.finish()
    first.judged(b"x", wanted=False)
    first.done()
    first.done("again")
    assert not sent
    second.done("refused")
    assert sent == [trace]
    assert trace.events[1:] == [
        {"type": "js", "ts": trace.events[1]["ts"], "stream": "S", "error": "refused"},
        {"type": "js", "ts": trace.events[1]["ts"], "stream": "T", "subject": "x", "nointerest": True},
    ]


def test_the_engine_and_services_mean_the_same_by_what_is_taken() -> None:
    """`engine/tracing.pyx` mirrors these numbers."""
    assert [(each.name, int(each)) for each in Taking] == [
        ("AS_A_CLIENT", 0),
        ("SILENT", 1),
        ("TRACED", 2),
        ("REFUSED", 3),
    ]
