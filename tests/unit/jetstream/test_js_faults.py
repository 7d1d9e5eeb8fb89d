"""Streams over a disk that fails some of its calls: what was appended is answered, whatever fails then."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from harness.js_account import SECOND, Place
from headrace.errors import StorageError
from headrace.jetstream.stream.retries import LogRetries
from headrace.jetstream.stream.stream import log_limits
from headrace.log.memory import MemoryLog
from headrace.log.store import FileStore
from headrace.protocol.jetstream import headers as block
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.port import Limits

ROLLUP = block.added(b"", (b"Nats-Rollup", b"sub"))
LIVES = block.added(b"", (b"Nats-TTL", b"1s"))
FULL: dict[str, Any] = {"max_msgs_per_subject": 2, "discard": "new", "discard_new_per_subject": True}
STREAMS: dict[str, tuple[dict[str, Any], bytes]] = {
    "a limit of messages": ({"max_msgs": 2}, b""),
    "a limit of bytes that one message breaks": ({"max_bytes": 45}, b""),
    "a limit of age": ({"max_age": SECOND}, b""),
    "lifetimes": ({"allow_msg_ttl": True}, LIVES),
    "roll-ups": ({"allow_rollup_hdrs": True}, ROLLUP),
    "roll-ups of subjects that are full": ({"allow_rollup_hdrs": True, **FULL}, ROLLUP),
}
"""Streams from which something goes after an append, and headers of every other message."""


class Played(NamedTuple):
    """`calls`: to the file system while it might fail; `answers` to each publication; `held`: afterwards."""

    calls: int
    answers: list[list[Any]]
    held: list[tuple[bytes, bytes]]

    @property
    def refused(self) -> list[bool]:
        return ["error" in answer for (answer,) in self.answers]


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
    log = place.account.streams["S"].log
    assert log.limits == log_limits(place.account.streams["S"].config)
    messages = log.read_from(0).messages
    return Played(calls, answers, [(message.subject, message.payload) for message in messages])


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("failures", [1, 6])
def test_every_publisher_is_answered_and_what_has_to_go_goes(name: str, failures: int) -> None:
    config, headers = STREAMS[name]
    expected = play(config, headers, 0, 0)
    for call in range(1, expected.calls + 1):
        played = play(config, headers, call, failures)
        assert [len(answers) for answers in played.answers] == [1] * 6, call
        if played.refused == expected.refused:
            assert played.held == expected.held, call
        for number, (answer,) in enumerate(played.answers):
            if "error" in answer and "sync" not in answer["error"]["description"]:
                assert b"%d" % number not in {payload for _, payload in played.held}, call


def _names(place: Place) -> list[str]:
    return list(place.ask("CONSUMER.NAMES.S")["consumers"] or [])


UPDATES: list[dict[str, Any]] = [
    {"max_msgs": 2},
    {"max_msgs_per_subject": 1},
    {"max_bytes": 60},
    {"max_age": SECOND},
    {"retention": "interest"},
    {"allow_msg_schedules": True},
    {"sources": [{"name": "O"}]},
]


def filled(files: FaultyFileSystem) -> Place:
    """A stream with eight messages, of which one of two consumers has acknowledged two."""
    place = Place(file=FileStore(Path("/store"), filesystem=files, remembers=False))
    place.stream("S", subjects=["s.>"])
    for name in ("a", "b"):
        place.consumer("S", name, filter_subject=f"s.{name}")
    for number in range(8):
        place.publish("s.a" if number % 2 else "s.b", b"%d" % number)
    for message in place.fetch("S", "a", 2):
        place.acknowledge(message)
    place.host.pass_time(1)
    return place


def stopped(place: Place, files: MemoryFileSystem) -> Place:
    """The place that another start finds."""
    place.account.stop()
    place.file.close()
    return Place(file=FileStore(Path("/store"), filesystem=files, remembers=False))


@pytest.mark.parametrize("update", UPDATES, ids=str)
@pytest.mark.parametrize("failures", [1, 4])
def test_an_update_is_done_as_a_whole_or_not_at_all(update: dict[str, Any], failures: int) -> None:
    """Who is told of an error may find it done: it could not be written, and is with the next snapshot."""
    for call in range(1, 30):
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner)
        place = filled(files)
        before = place.ask("STREAM.INFO.S")
        begun = files.calls
        files.fail_at, files.failures = begun + call, failures
        answer = place.ask("STREAM.UPDATE.S", before["config"] | update)
        files.fail_at, calls = 0, files.calls - begun
        place.host.pass_time(3)
        held = place.ask("STREAM.INFO.S")["state"]["messages"]
        for _ in range(3):
            place.publish("s.a", b"after")
        info = place.ask("STREAM.INFO.S")
        if "error" not in answer:
            assert info["config"] == answer["config"], call
        elif info["config"] == before["config"]:
            assert info["state"]["messages"] == held + 3, call
        again = stopped(place, inner).ask("STREAM.INFO.S")
        assert (again["config"], again["state"]["messages"]) == (info["config"], info["state"]["messages"])
        if calls < call:
            return
    pytest.fail("the update makes more calls than were tried")


@pytest.mark.parametrize("failures", [1, 4])
def test_a_consumer_that_is_removed_stays_so(failures: int) -> None:
    for call in range(1, 30):
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner)
        place = filled(files)
        place.ask("STREAM.UPDATE.S", place.ask("STREAM.INFO.S")["config"] | {"retention": "interest"})
        begun = files.calls
        files.fail_at, files.failures = begun + call, failures
        place.ask("CONSUMER.DELETE.S.b")
        files.fail_at, calls = 0, files.calls - begun
        place.host.pass_time(3)
        assert _names(place) == ["a"], call
        assert [m.subject for m in place.account.streams["S"].log.read_from(0).messages] == [b"s.a"] * 2, call
        assert _names(stopped(place, inner)) == ["a"], call
        if calls < call:
            return
    pytest.fail("the removal makes more calls than were tried")


def test_of_work_that_a_disk_refuses_one_is_tried_at_a_time_and_none_is_in_the_way_of_others() -> None:
    tried: list[str] = []
    timers: list[Callable[[], object]] = []
    notes: list[str] = []
    stream: Any = SimpleNamespace(name="S", is_closed=False)
    effects: Any = SimpleNamespace(
        later=lambda _seconds, function: timers.append(function),
        note=SimpleNamespace(error=lambda text, *arguments: notes.append(text % arguments)),
    )
    refused = {"a", "b", "c"}

    def work(name: str) -> None:
        tried.append(name)
        if name in refused:
            raise StorageError("disk on fire")

    retries = LogRetries(stream, effects)
    for name in ("a", "b", "c"):
        retries.do(name, partial(work, name))
    assert notes == [f"stream S: {name} failed: disk on fire" for name in ("a", "b", "c")]
    tried.clear()
    for _ in range(4):
        (timer,) = timers
        timers.clear()
        timer()
    assert tried == ["a", "b", "c", "a"]
    refused -= {"b", "c"}
    timers.pop()()
    assert tried[4:] == ["b", "c", "a"]
    stream.is_closed = True
    timers.pop()()
    assert (tried[7:], timers) == ([], [])


class _LimitsFail(MemoryLog):
    """A log that takes other limits, and refuses the next ones so many times."""

    refusals = -1

    @property
    def limits(self) -> Limits:
        return super().limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        if self.refusals > 0:
            self.refusals -= 1
            raise StorageError("disk on fire")
        if self.refusals < 0:
            self.refusals = 2
        MemoryLog.limits.__set__(self, limits)


def test_a_roll_up_of_a_full_subject_is_stored_though_the_limits_come_back_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log has other limits for the append of a roll-up."""
    monkeypatch.setattr("headrace.log.memory.MemoryLog", _LimitsFail)
    place = Place()
    place.stream("S", subjects=["s"], storage="memory", allow_rollup_hdrs=True, **FULL)
    for payload in (b"1", b"2"):
        place.publish("s", payload)
    assert place.publish("s", b"3", headers=ROLLUP) == {"stream": "S", "seq": 3}
    stream = place.account.streams["S"]
    assert [message.payload for message in stream.log.read_from(0).messages] == [b"3"]
    assert stream.log.limits != log_limits(stream.config)
    place.host.pass_time(5)
    assert stream.log.limits == log_limits(stream.config)
