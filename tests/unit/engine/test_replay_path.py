"""Replayed messages as compiled code writes them, read back by the reader of `protocol.replay`."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from headrace.engine.batches import Outgoing
from headrace.engine.messages import StoredMessages
from headrace.engine.replay import send
from headrace.log.port import StoredMessage
from headrace.protocol.replay import BlockReader, ReplayedMessage, message_rest, message_start
from headrace.protocol.rfc3339 import format_time

SECOND: Final = 1_000_000_000
START: Final = message_start(b"chan")


def sent(*messages: StoredMessage) -> list[tuple[bytes, bytes]]:
    out = Outgoing()
    size = send(
        out, b"in.box", START, StoredMessages(StoredMessage, messages), 0, len(messages), message_rest
    )
    taken = out.take()
    assert all((subject, reply) == (b"in.box", b"") for subject, reply, _, _ in taken)
    assert size == sum(len(block) + len(payload) for *_, block, payload in taken)
    return [(block, payload) for *_, block, payload in taken]


def test_a_block_byte_by_byte() -> None:
    time_ns = 1_763_712_000 * SECOND + 5
    assert sent(StoredMessage(7, time_ns, b"chan", b"", b"", b"data")) == [
        (
            b"NATS/1.0\r\nNats-Stream: chan\r\nNats-Subject: chan\r\nNats-Sequence: 7\r\n"
            b"Nats-Time-Stamp: 2025-11-21T08:00:00.000000005Z\r\n\r\n",
            b"data",
        )
    ]


def test_times_are_those_of_the_calendar() -> None:
    """Every kind of year and month, the last second of time, and sequences of every length."""
    random = Random(8)
    times = [0, (1 << 63) - 1, *[random.randrange(1 << 63) for _ in range(3_000)]]
    times += [SECOND * (86_400 * day + rest) for day in range(0, 100_000, 29) for rest in (0, 86_399)]
    messages = [
        StoredMessage(random.randrange(1, 1 << random.randrange(1, 63)), time, b"s", b"", b"", b"")
        for time in times
    ]
    for message, (block, _) in zip(messages, sent(*messages), strict=True):
        lines = block.split(b"\r\n")
        assert lines[3] == b"Nats-Sequence: %d" % message.sequence
        assert lines[4] == b"Nats-Time-Stamp: " + format_time(message.time_ns).encode()


def test_replies_and_headers_follow_the_time() -> None:
    stored = b"NATS/1.0\r\nA: 1\r\n\r\n"
    messages = [
        StoredMessage(n, SECOND, b"sub", reply, headers, b"p" * n)
        for n, (reply, headers) in enumerate([(b"", b""), (b"re", b""), (b"", stored), (b"re", stored)], 1)
    ]
    reader = BlockReader()
    assert [reader.read(block) for block, _ in sent(*messages)] == [
        ReplayedMessage(b"chan", b"sub", m.sequence, SECOND, m.reply or None, m.headers or None)
        for m in messages
    ]
    assert [payload for _, payload in sent(*messages)] == [b"p", b"pp", b"ppp", b"pppp"]


def test_what_it_is_asked_is_checked() -> None:
    messages = StoredMessages(StoredMessage, [StoredMessage(1, 1, b"", b"", b"", b"")])
    for first, count in ((0, 2), (-1, 1), (1, 1), (0, -1)):
        with pytest.raises(IndexError):
            send(Outgoing(), b"i", START, messages, first, count, message_rest)
    for inbox in (b"", b"a b", b"a\r\nPING"):
        with pytest.raises(ValueError, match="not an inbox"):
            send(Outgoing(), inbox, START, messages, 0, 1, message_rest)
