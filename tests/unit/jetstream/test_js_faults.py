"""Streams over a disk that fails some of its calls: what was appended is answered, whatever fails then."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.js_account import SECOND, Place
from headrace.log.store import FileStore
from headrace.protocol.jetstream import headers as block
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

ROLLUP = block.added(b"", (b"Nats-Rollup", b"sub"))
LIVES = block.added(b"", (b"Nats-TTL", b"1s"))
STREAMS: dict[str, tuple[dict[str, Any], bytes]] = {
    "a limit of messages": ({"max_msgs": 2}, b""),
    "a limit of bytes that one message breaks": ({"max_bytes": 45}, b""),
    "a limit of age": ({"max_age": SECOND}, b""),
    "lifetimes": ({"allow_msg_ttl": True}, LIVES),
    "roll-ups": ({"allow_rollup_hdrs": True}, ROLLUP),
}
"""Streams from which something goes after an append, and headers of every other message."""


class Played(NamedTuple):
    """`calls`: to the file system while it might fail; `answers` to each publication; `held`: afterwards."""

    calls: int
    answers: list[list[Any]]
    held: list[tuple[bytes, bytes]]


def play(config: dict[str, Any], headers: bytes, call: int, failures: int) -> Played:
    """Publish to a stream; from the call with that number on (0: none) so many calls fail."""
    files = FaultyFileSystem(MemoryFileSystem())
    place = Place(file=FileStore(Path("/store"), filesystem=files, remembers=False))
    place.stream("S", subjects=["s.>"], **config)
    for number in range(3):
        place.publish(f"s.{number % 2}", b"before")
    begun = files.calls
    files.fail_at, files.failures = begun + call if call else 0, failures
    for number in range(6):
        lines = headers if number % 2 == 0 else b""
        place.host.put(b"s.%d" % (number % 2), b"%d" % number, b"reply.%d" % number, lines)
        if number > 2:
            place.host.pass_time(0.7)
    files.fail_at, calls = 0, files.calls - begun
    place.host.pass_time(20)
    answers = [
        [sent.json() for sent in place.host.sent if sent.to == b"reply.%d" % number] for number in range(6)
    ]
    messages = place.account.streams["S"].log.read_from(0).messages
    return Played(calls, answers, [(message.subject, message.payload) for message in messages])


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("failures", [1, 6])
def test_every_publisher_is_answered_and_what_has_to_go_goes(name: str, failures: int) -> None:
    config, headers = STREAMS[name]
    expected = play(config, headers, 0, 0)
    for call in range(1, expected.calls + 1):
        played = play(config, headers, call, failures)
        assert [len(answers) for answers in played.answers] == [1] * 6, call
        if not any("error" in answer for (answer,) in played.answers):
            assert played.held == expected.held, call
