"""Direct gets of single messages in compiled code and in Python: the same bytes, whatever is asked."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from js_streams import DEFAULTS, World, block

from harness import depth
from harness.tallies import note
from headrace.core.service import Delivery
from headrace.jetstream.stream.stream import log_limits
from headrace.log.encryption import Cipher
from headrace.log.file import FileLog
from headrace.protocol.jetstream.configs import Compression, Storage, StreamConfig

if TYPE_CHECKING:
    from pathlib import Path

SEEDS: Final = 60
STEPS: Final = 200
COMPRESSIONS: Final = {
    "memory": Compression.NONE, "one file": Compression.NONE, "small files": Compression.NONE,
    "compressed": Compression.S2, "sealed": Compression.NONE,
}  # fmt: skip
"""Kinds of logs."""
SUBJECTS: Final = [b"s.a", b"s.b", b"s.a.b", b"s.*x", b"s.\xc3\xa9", b's.quo"te', b"s.back\\slash"]
ASKED: Final = [
    *SUBJECTS,
    b"s.none",
    b"s.*",
    b"s.>",
    b">",
    b"*",
    b"s..a",
    b"s.a.",
    b".",
    b"s.a.>",
    b"x" * 300,
]
HEADERS: Final = [
    b"",
    block(A="b"),
    block(Nats_Time_Stamp="x", B="c" * 300),
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
]
TIMES: Final = [
    1, 999_999_999, 1_000_000_000, 951_782_399_999_999_990, 951_782_400_000_000_000, 951_868_800_000_000_001,
    1_700_000_000_120_000_000, 4_107_542_399_000_000_000, 9_223_372_036_854_775_807,
]  # fmt: skip
BODIES: Final = [
    b"", b"{}", b" ", b"[]", b"null", b'{"seq":}', b'{"seq":01}', b'{"seq":-1}', b'{"seq":1.0}',
    b'{"seq":1e0}', b'{"seq":"1"}', b'{"seq":1,}', b'{"seq":1}x', b'{"seq":1}{"seq":2}', b'{"seq":1',
    b'{"seq":0}', b'{"Seq":1}', b'{"SEQ":1}', b'{"seq":1,"seq":2}', b'{"seq":1,"no_hdr":true}',
    b'{"seq":1,"batch":1}', b'{"seq":1,"batch":0}', b'{"seq":9223372036854775807}',
    b'{"seq":9223372036854775808}', b'{"seq":18446744073709551615}', b'{"seq":18446744073709551616}',
    b'{"seq":999999999999999999}', b'{"seq":1000000000000000000}', b'{"\\u0073eq":1}', b'{"seq":1\x00}',
    b'{"seq" 1}', b'{seq:1}', b'\xef\xbb\xbf{"seq":1}', b'{"seq":true}', b'{"last_by_subj":""}',
    b'{"last_by_subj":null}', b'{"last_by_subj":"s.a}', b'{"last_by_subj":"s.\\u0061"}',
    b'{"last_by_subj":"s.a"', b'{"last_by_subj":"s.a","seq":1}', b'{"last_by_subj":s.a}',
    b'{"last_by_subj":"s a"}', b'{"last_by_subj":"\xff"}', b'{"next_by_subj":"s.a"}',
    b'{"next_by_subj":"s.a","seq":2}', b'{"multi_last":["s.a"]}', b'{"start_time":"2023-11-14T22:13:20Z"}',
    b'{"unknown":1}', b'{"seq":1,"unknown":1}', b'{"batch":2,"seq":1}',
]  # fmt: skip


def _body(play: Random, last: int) -> bytes:
    """One of `BODIES`, or a question of a common form with white space in it."""

    def blank() -> bytes:
        return play.choice((b"",) * 9 + (b" ", b"\t\r\n ", b"\f", b"\xa0"))

    match play.randrange(3):
        case 0:
            return play.choice(BODIES)
        case 1:
            words = [b"{", b'"seq"', b":", b"%d" % play.randrange(last + 4), b"}"]
        case _:
            text = play.choice(ASKED).replace(b"\\", b"\\\\").replace(b'"', b'\\"')
            words = [b"{", b'"last_by_subj"', b":", b'"%b"' % text, b"}"]
    return blank() + b"".join(word + blank() for word in words)


def _change(play: Random, world: World) -> None:
    last = world.stream.last_sequence
    match play.randrange(10):
        case 0 if last:
            world.log.delete(play.randrange(1, last + 1))
        case 1:
            world.log.purge(play.choice(SUBJECTS), keep=play.randrange(2))
        case 2 if play.random() < 0.2:
            world.stream.removal.purge(up_to=play.randrange(last + 2))
        case _:
            world.receive(
                *(
                    (
                        play.choice(SUBJECTS),
                        play.choice(HEADERS[:4]),
                        play.randbytes(play.choice((0, 1, 90, 6000))),
                    )
                    for _ in range(play.choice((1, 1, 5, 40)))
                )
            )


class _Asking:
    """The same request to one stream twice. `compiled`: how many were answered in compiled code."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.compiled = self.asked = 0

    def __call__(self, subject: bytes, headers: bytes, body: bytes) -> None:
        gets = self._world.stream.direct_gets
        delivery = Delivery(1, b"x", b"inbox", headers, body)
        out = self._world.host.outgoing
        self.asked += 1
        if not headers and gets.try_answer(out, subject, body, b"inbox"):
            self.compiled += 1
            out.clear()
        answers = []
        for reads in (gets.reads, None):
            gets.reads = reads
            self._world.take()
            self._world.stream.direct(delivery, subject)
            answers.append(self._world.take())
        gets.reads = self._world.log.reads
        assert answers[0] == answers[1], (subject, headers, body)
        assert len(answers[0]) >= 1


def _world(kind: str, directory: Path) -> World:
    """A stream of 1970, over a log in memory or in files."""
    storage = Storage.MEMORY if kind == "memory" else Storage.FILE
    fields: dict[str, Any] = {**DEFAULTS, "storage": storage, "compression": COMPRESSIONS[kind]}
    log = None
    if kind != "memory":
        limits = log_limits(StreamConfig(name="S", subjects=["s.>"], **fields))
        cipher = Cipher(bytes(32)) if kind == "sealed" else None
        size = 64 << 20 if kind == "one file" else 20_000
        log = FileLog(directory / "log", limits=limits, clock=lambda: 1, segment_bytes=size, cipher=cipher)
    return World(log, at_ns=1, **fields)


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_answers_are_the_same_in_compiled_code(kind: str, seed: int, tmp_path: Path) -> None:
    play = Random(seed)
    world = _world(kind, tmp_path)
    ask = _Asking(world)
    for step in range(STEPS):
        world.host.now = TIMES[step * len(TIMES) // STEPS]
        if play.random() < 0.3:
            _change(play, world)
        subject = play.choice((b"", b"", play.choice(ASKED)))
        body = b"" if subject and play.random() < 0.9 else _body(play, world.stream.last_sequence)
        headers = play.choice((b"",) * 9 + (block(A="b"), block(Nats_Required_Api_Level="1000")))
        ask(subject, headers, body)
    note("direct gets answered in compiled code", ask.compiled)
    assert ask.compiled >= (STEPS // 10 if kind != "sealed" else 1)
    world.log.close()


def test_messages_of_a_log_that_sleeps_wake_it_and_are_read_in_compiled_code_then(tmp_path: Path) -> None:
    world = _world("one file", tmp_path)
    world.receive((b"s.a", b"", b"1"))
    world.log.close()
    assert isinstance(world.log, FileLog)
    log = FileLog(tmp_path / "log", limits=world.log.limits, left=world.log.left)
    woken = World(log, storage=Storage.FILE)
    assert woken.stream.direct_gets.reads is None
    woken.stream.direct(Delivery(1, b"x", b"inbox", b"", b'{"seq":1}'))
    (found,) = woken.take()
    assert found[2] == b"1"
    ask = _Asking(woken)
    ask(b"", b"", b'{"seq":1}')
    assert ask.compiled == 1
    log.close()


def test_a_reply_subject_that_no_line_can_carry_is_answered_to_nobody() -> None:
    world = World()
    world.receive(b"s.a")
    out = world.host.outgoing
    world.take()
    for reply in (b"", b"a b", b"a\r\nPUB x 0", b"\x00"):
        assert not world.stream.direct_gets.try_answer(out, b"s.a", b"", reply)
    assert out.size == 0


def test_damage_is_said_by_who_answers_in_python(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = _world("one file", tmp_path)
    world.receive((b"s.a", b"", b"x" * 50), (b"s.b", b"", b"y" * 50))
    (path,) = (tmp_path / "log").glob("*.log")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"x" * 50, b"z" * 50))
    world.take()
    for _ in range(2):
        world.stream.direct(Delivery(1, b"x", b"inbox", b"", b'{"seq":1}'))
        assert world.take() == [(b"inbox", b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")]
    assert "message 1 is damaged" in caplog.text
    world.stream.direct(Delivery(1, b"x", b"inbox", b"", b'{"seq":2}'))
    assert world.take()[0][2] == b"y" * 50
    world.log.close()


def test_a_stream_that_is_closed_reads_nothing(tmp_path: Path) -> None:
    world = _world("one file", tmp_path)
    world.receive(b"s.a")
    world.stream.close()
    assert world.stream.direct_gets.reads is None
    world.log.close()
    assert world.log.reads is None
