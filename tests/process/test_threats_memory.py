"""What an authenticated client can try to use up a server's memory, and where it ends (THREAT_MODEL.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from harness.processes import HEADRACES, Program, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.wire import Wire

CONFIG: Final = """
max_subscriptions: 1000
max_sub_tokens: 8
max_pending: 1MB
authorization { users: [
  {user: joe, password: p, permissions: {publish: {allow: ">", deny: "no"}, subscribe: {deny: "no"}}}
  {user: helper, password: p, permissions: {publish: [], subscribe: "q", allow_responses: true}}
  {user: ann, password: p}
] }
"""
JOE: Final = b'{"verbose":false,"user":"joe","pass":"p"}'
HELPER: Final = b'{"verbose":false,"user":"helper","pass":"p"}'
ANN: Final = b'{"verbose":false,"user":"ann","pass":"p"}'
ROOM: Final = 6 << 20
"""Bytes a server may grow by while it is asked for many times as much."""

pytestmark = pytest.mark.parametrize("program", HEADRACES, ids=str)


def resident_bytes(server: ServerProcess) -> int:
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096


def test_subscriptions_end_at_their_limit_and_are_given_back(
    serve: Callable[..., ServerProcess], program: Program
) -> None:
    server = serve(config=CONFIG, program=program)
    before = resident_bytes(server)
    for _ in range(10):
        with server.connect(JOE) as wire:
            for start in range(0, 5000, 500):
                subjects = (b"a%d.%b" % (number, b"x" * 200) for number in range(start, start + 500))
                wire.send(
                    b"".join(b"SUB %b %d\r\n" % (subject, start + n) for n, subject in enumerate(subjects))
                )
                refused = wire.sync().count(b"maximum subscriptions exceeded")
                assert refused == (0 if start < 1000 else 500)
    assert resident_bytes(server) - before < ROOM


def test_subjects_of_many_tokens_are_refused(serve: Callable[..., ServerProcess], program: Program) -> None:
    server = serve(config=CONFIG, program=program)
    with server.connect(JOE) as wire:
        wire.send(b"SUB " + b".".join([b"a"] * 9) + b" 1\r\n")
        assert b"too many tokens" in wire.sync()


def test_new_subjects_without_end_are_not_all_remembered(
    serve: Callable[..., ServerProcess], program: Program
) -> None:
    server = serve(config=CONFIG, program=program)
    with server.connect(JOE) as wire:
        wire.send(b"SUB b.> 1\r\n")
        wire.sync()
        before = resident_bytes(server)
        for start in range(0, 200_000, 2000):
            wire.send(
                b"".join(b"PUB a.%d.%d 0\r\n\r\n" % (number, number) for number in range(start, start + 2000))
            )
        assert wire.sync().replace(b"PING\r\n", b"") == b""  # the server's own first PING may come meanwhile
        assert resident_bytes(server) - before < ROOM


def test_replies_that_may_be_answered_are_bounded(
    serve: Callable[..., ServerProcess], program: Program
) -> None:
    server = serve(config=CONFIG, program=program)
    with server.connect(HELPER) as helper, server.connect(ANN) as ann:
        helper.send(b"SUB q 1\r\n")
        helper.sync()
        before = resident_bytes(server)
        for start in range(0, 100_000, 1000):
            ann.send(
                b"".join(b"PUB q inbox.%064d 0\r\n\r\n" % number for number in range(start, start + 1000))
            )
            ann.sync()
            assert helper.sync().count(b"MSG q") == 1000
        assert resident_bytes(server) - before < 28 << 20  # 65,536 of them


def test_receiver_that_does_not_read_costs_max_pending_and_is_cut_off(
    serve: Callable[..., ServerProcess], program: Program
) -> None:
    server = serve(config=CONFIG, program=program)
    with server.connect(ANN) as publisher:
        _cut_off(server, publisher, 10)  # what a server needs for frames of this size, it keeps
        before = resident_bytes(server)
        _cut_off(server, publisher, 100)
        assert resident_bytes(server) - before < ROOM


def _cut_off(server: ServerProcess, publisher: Wire, messages: int) -> None:
    """A receiver that does not read gets so many messages of half a megabyte, or as many as it lives for."""
    after = len(server.lines)
    with server.connect(ANN, receive_buffer=4096) as lazy:
        lazy.send(b"SUB a 1\r\nPING\r\n")
        lazy.take_through(b"PONG\r\n")
        for _ in range(messages):
            publisher.send(b"PUB a 500000\r\n" + b"x" * 500_000 + b"\r\n")
        publisher.sync()
        server.wait_for_line("Slow Consumer Detected: MaxPending of 1048576 Exceeded", after=after)


def test_frames_that_are_never_finished_cost_what_was_sent_of_them(
    serve: Callable[..., ServerProcess], program: Program
) -> None:
    server = serve(config=CONFIG, program=program)
    before = resident_bytes(server)
    crowd = [server.connect(ANN) for _ in range(50)]
    try:
        for wire in crowd:
            wire.send(b"PUB a 1048576\r\nx")
        with server.connect(ANN) as wire:
            wire.sync()
        assert resident_bytes(server) - before < ROOM
    finally:
        for wire in crowd:
            wire.close()


def test_connections_over_the_limit_are_refused_and_those_inside_stay(
    serve: Callable[..., ServerProcess], program: Program
) -> None:
    server = serve(config="max_connections: 20", program=program)
    inside = [server.connect(b"") for _ in range(20)]
    try:
        for _ in range(100):
            with server.connect() as wire:
                assert wire.take_rest() == b"-ERR 'maximum connections exceeded'\r\n"
        for wire in inside:
            wire.sync()
    finally:
        for wire in inside:
            wire.close()
    wait_until(lambda: server.process.poll() is None and _is_served(server), "room for one more")


def _is_served(server: ServerProcess) -> bool:
    with server.connect() as wire:
        wire.send(b"CONNECT {}\r\nPING\r\n")
        return wire.take_line().startswith((b"+OK", b"PONG"))
