"""Operations that are alone, from the client's message to its answer, need no function of ours in Python.

Each is done a few times before: the first of a kind may open a file, set a timer or fill a table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import headrace
from harness.linked_account import Answer, LinkedAccount
from headrace.log.port import SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

OURS: Final = str(Path(headrace.__file__).parent)
HOUR_NS: Final = 3600 * 10**9
BEFORE: Final = 3
"""How often an operation is done before it is looked at."""


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LinkedAccount]:
    made = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    made.stream("S", subjects=["s.*"], storage=request.param, allow_direct=True)
    for n in range(2 * BEFORE):
        made.put(f"s.{n}", b"stored", reply="_INBOX.fill")
        made.tick()
    made.take()
    yield made
    made.stop()


def called(work: Callable[[], object]) -> list[str]:
    """The functions of ours that are called in Python while this is done."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            found.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def ask(place: LinkedAccount, subject: str, payload: bytes, headers: bytes = b"") -> Answer:
    """The answer to a request after which nothing was called."""
    place.put(subject, payload, reply="_INBOX.r", headers=headers)
    functions = called(place.tick)
    (answer,) = place.take()
    assert functions == []
    return answer


def pull(place: LinkedAccount) -> Answer:
    place.put("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":1,"expires":5000000000}', reply="_INBOX.p")
    place.tick()
    (message,) = place.take()
    return message


def test_a_publication(place: LinkedAccount) -> None:
    assert ask(place, "s.new", b"x").payload == b'{"stream":"S","seq":7}'


def test_a_publication_with_an_id(place: LinkedAccount) -> None:
    for n in range(BEFORE):
        place.put("s.id", reply="_INBOX.r", headers=b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % n)
        place.tick()
    place.take()
    answer = ask(place, "s.id", b"x", b"NATS/1.0\r\nNats-Msg-Id: new\r\n\r\n")
    assert answer.payload == b'{"stream":"S","seq":10}'


@pytest.mark.parametrize(
    ("subject", "payload"), [("$JS.API.DIRECT.GET.S.s.4", b""), ("$JS.API.DIRECT.GET.S", b'{"seq":5}')]
)
def test_a_direct_get(place: LinkedAccount, subject: str, payload: bytes) -> None:
    place.put(subject, payload, reply="_INBOX.r")
    place.tick()
    place.take()
    assert b"Nats-Sequence: 5\r\n" in ask(place, subject, payload).headers


def test_a_pull_of_one(place: LinkedAccount) -> None:
    place.consumer("S", "C", ack_wait=HOUR_NS)
    for _ in range(BEFORE):
        pull(place)
    answer = ask(place, "$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":1,"expires":5000000000}')
    assert (answer.subject, answer.payload) == (b"s.3", b"stored")


def test_a_confirmed_acknowledgement(place: LinkedAccount) -> None:
    place.consumer("S", "C", ack_wait=HOUR_NS)
    messages = [pull(place) for _ in range(BEFORE + 1)]
    for message in messages[:-1]:
        place.put(message.reply.decode(), b"+ACK", reply="_INBOX.r")
        place.tick()
        place.take()
    assert ask(place, messages[-1].reply.decode(), b"+ACK") == Answer(b"_INBOX.r", b"", b"", b"")
