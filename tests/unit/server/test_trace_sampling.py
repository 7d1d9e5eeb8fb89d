"""Which messages of tracing systems an account has traced, when it wants some of a hundred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.wire import Wire
from headrace.conf.binding import load_options
from headrace.server.tracing import is_chosen
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.subjects.transform import RandomBelow


def drawing(number: int) -> RandomBelow:
    """A source of chance that says what it is told to."""

    def below(most: int) -> int:
        assert 0 <= number < most
        return number

    return below


@pytest.mark.parametrize("sampling", [1, 2, 50, 99])
def test_as_many_of_a_hundred_are_chosen(sampling: int) -> None:
    assert sum(is_chosen(sampling, drawing(number)) for number in range(100)) == sampling


def test_all_are_chosen_without_a_draw() -> None:
    assert is_chosen(100, drawing(-1))


CONFIG = """
system_account: SYS
accounts {
  SYS { users: [ { user: s, password: s } ] }
  A { users: [ { user: a, password: a } ], msg_trace: { dest: "traces", sampling: "10%" } }
}
"""
MARKED = b"NATS/1.0\r\ntraceparent: 00-a-b-01\r\n\r\n"


@pytest.mark.parametrize(("drawn", "is_traced"), [(9, True), (10, False)])
def test_message_that_is_not_chosen_is_traced_nowhere(tmp_path: Path, drawn: int, *, is_traced: bool) -> None:
    file = tmp_path / "server.conf"
    file.write_text(CONFIG)
    options = load_options(str(file), overrides={"host": "127.0.0.1", "port": -1})
    with Server(options) as server, Wire(("127.0.0.1", server.port)) as wire:
        server.call(lambda: setattr(server.server._tracer, "_below", drawing(drawn)))
        wire.connect(b'{"verbose":false,"headers":true,"user":"a","pass":"a"}')
        wire.send(b"SUB traces 1\r\nSUB m 2\r\nHPUB m %d %d\r\n%b\r\n" % (len(MARKED), len(MARKED), MARKED))
        words, message = wire.take_message()
        assert words[1:3] == [b"m", b"2"]
        assert (b"Nats-Trace-Dest: trace disabled\r\n" in message) is not is_traced
        if is_traced:
            assert wire.take_message()[0][1] == b"traces"
        assert b"MSG" not in wire.sync()
