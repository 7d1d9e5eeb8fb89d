"""Parts of the room for MQTT by themselves: steps, times that are due, the jail, kept windows, records."""

from __future__ import annotations

from typing import Any

import pytest

from harness.js_account import SECOND
from headrace.mqtt import due_times, kept_windows
from headrace.mqtt.due_times import DueTimes
from headrace.mqtt.jail import MOST_JAILED, Jail
from headrace.mqtt.kept_windows import KeptWindow, KeptWindows
from headrace.mqtt.message_headers import expires_at, hex_digit, lines_of, published
from headrace.mqtt.records import SessionRecord, read_record, write_record
from headrace.mqtt.requests import RequestFailed
from headrace.mqtt.steps import Awaited, InOrder, KeyedTurns, begin, watch


class _Timer:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ClockHost:
    """A host that has a clock and timers only."""

    def __init__(self) -> None:
        self.now = SECOND
        self.timers: list[tuple[int, Any, _Timer]] = []

    def now_ns(self) -> int:
        return self.now

    def call_later(self, seconds: float, function: Any) -> _Timer:
        timer = _Timer()
        self.timers.append((self.now + round(seconds * SECOND), function, timer))
        return timer

    def pass_time(self, seconds: float) -> None:
        until = self.now + round(seconds * SECOND)
        while due := sorted(
            (t for t in self.timers if t[0] <= until and not t[2].is_cancelled), key=lambda t: t[0]
        ):
            self.timers.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = until

    @property
    def waiting(self) -> int:
        return sum(not timer.is_cancelled for _, _, timer in self.timers)


# -- steps ---------------------------------------------------------------------------------------------


def test_steps_go_on_when_their_answers_come() -> None:
    first, second = Awaited[int](), Awaited[int]()

    async def add() -> int:
        return await first + await second

    outcome = begin(add())
    second.give(2)
    assert not outcome.is_done
    first.give(1)
    first.give(7)
    assert outcome.result() == 3


def test_an_error_is_raised_where_the_answer_is_awaited() -> None:
    answer: Awaited[None] = Awaited()
    errors: list[Exception] = []

    async def wait() -> None:
        await answer

    watch(begin(wait()), errors.append)
    answer.fail(RequestFailed("no"))
    assert [str(error) for error in errors] == ["no"]


def test_many_answers_that_are_there_already_need_no_stack() -> None:
    async def count() -> int:
        total = 0
        for _ in range(50_000):
            answer: Awaited[int] = Awaited()
            answer.give(1)
            total += await answer
        return total

    assert begin(count()).result() == 50_000


def test_steps_in_order_go_on_after_one_that_failed() -> None:
    done: list[int] = []
    errors: list[Exception] = []
    gate: Awaited[None] = Awaited()
    order = InOrder(errors.append)

    async def first() -> None:
        await gate
        raise RequestFailed("no")

    async def second() -> None:
        done.append(2)

    order.add(first)
    order.add(second)
    idle = begin(order.idle())
    assert (done, idle.is_done) == ([], False)
    gate.give(None)
    assert (done, len(errors), idle.is_done) == ([2], 1, True)


def test_turns_of_one_key_follow_each_other() -> None:
    turns = KeyedTurns()
    log: list[str] = []
    gates = {name: Awaited[None]() for name in "abc"}

    async def work(name: str, key: str) -> None:
        async with turns.of(key):
            log.append(name)
            await gates[name]

    for name, key in (("a", "k"), ("b", "k"), ("c", "other")):
        begin(work(name, key))
    assert log == ["a", "c"]
    gates["a"].fail(RequestFailed("no"))
    assert log == ["a", "c", "b"]
    gates["b"].give(None)
    gates["c"].give(None)
    assert turns._last == {}


# -- times that are due --------------------------------------------------------------------------------


def test_work_is_done_in_the_order_of_its_times() -> None:
    host = ClockHost()
    due = DueTimes(host)  # type: ignore[arg-type]
    done: list[str] = []
    for key, at in (("late", 9000), ("gone", 5000), ("soon", 3000)):
        due.set(key, at, lambda key=key: done.append(key))
    due.cancel("gone")
    due.set("late", 4000, lambda: done.append("moved"))
    host.pass_time(2.5)
    assert done == ["soon"]
    host.pass_time(10)
    assert done == ["soon", "moved"]
    assert (len(due), host.waiting) == (0, 0)


def test_times_far_away_are_looked_at_again() -> None:
    host = ClockHost()
    due = DueTimes(host)  # type: ignore[arg-type]
    done: list[int] = []
    due.set("k", 1000 + 30 * 24 * 3600 * 1000, lambda: done.append(1))
    host.pass_time(29 * 24 * 3600)
    assert (done, host.waiting) == ([], 1)
    host.pass_time(2 * 24 * 3600)
    assert done == [1]


def test_times_that_are_set_again_and_again_take_no_room() -> None:
    host = ClockHost()
    due = DueTimes(host)  # type: ignore[arg-type]
    for number in range(10_000):
        due.set("k", 10**9 - number, int)
    assert len(due._order) <= 2 + due_times._MOST_OLD + 1
    assert host.waiting == 1
    due.stop()
    assert host.waiting == 0


# -- what is kept --------------------------------------------------------------------------------------


def test_the_jail_lets_go_after_a_second() -> None:
    jail = Jail()
    jail.add("c", SECOND)
    assert jail.holds("c", 2 * SECOND)
    assert not jail.holds("c", 2 * SECOND + 1)
    jail.add("c", SECOND)
    jail.free("c")
    assert not jail.holds("c", SECOND)


def test_the_jail_has_an_end() -> None:
    jail = Jail()
    for number in range(MOST_JAILED + 10):
        jail.add(str(number), SECOND)
    assert not jail.holds("0", SECOND)
    assert jail.holds(str(MOST_JAILED + 9), SECOND)


def test_windows_of_those_that_left_first_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_windows, "MOST_KEPT", 10)
    kept = KeptWindows()
    window = KeptWindow(1, 5, [(number, 1, b"c", number) for number in range(1, 5)])
    for client_id in ("a", "b", "a", "c"):
        kept.keep(client_id, window)
    assert kept.take("b") is None
    assert kept.take("a") is window
    assert kept.take("c") is window
    assert len(kept) == 0


# -- records and headers -------------------------------------------------------------------------------


def test_a_record_is_written_as_nats_server_writes_it() -> None:
    record = SessionRecord(origin="o", id="i", subs={"b.>": 1, "a": 0}, cons={"a fwc": {"durable_name": "x"}})
    assert write_record(record) == (
        b'{"origin":"o","id":"i","subs":{"a":0,"b.\\u003e":1},"cons":{"a fwc":{"durable_name":"x"}}}'
    )
    assert read_record(write_record(record)) == record


def test_members_of_other_servers_are_no_hindrance() -> None:
    assert read_record(b'{"id":"i","new":[1],"subs":{"a":2}}').subs == {"a": 2}


def test_header_lines_that_belong_to_the_message_stay() -> None:
    headers = published(2, b"Content-Type:text\r\nNmqtt-Subject:a\r\nNats-Msg-Id: 7\r\nx: 1\r\n")
    assert lines_of(headers) == b"Content-Type:text\r\nx: 1\r\n"
    assert lines_of(b"") == b""


@pytest.mark.parametrize(("text", "digit"), [(b"5", 5), (b"f", 15), (b"", 0), (b"zz", 0), (b"-1", 15)])
def test_flags_are_one_digit(text: bytes, digit: int) -> None:
    assert hex_digit(text) == digit


@pytest.mark.parametrize("text", [b"", b"-5", b"x", b"9" * 30])
def test_times_that_are_none_never_come(text: bytes) -> None:
    assert expires_at(b"NATS/1.0\r\nNmqtt-Expires-At: " + text + b"\r\n\r\n") == 0
