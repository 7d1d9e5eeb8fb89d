"""The pace at which a leaving server closes its clients, by a clock that a test turns."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.reasons import CloseReason
from headrace.server import lame_duck
from headrace.server.lame_duck import LONGEST_PAUSE, SHORTEST_PAUSE, leave, pace


class Session:
    """A client: closed at some time of the clock."""

    def __init__(self) -> None:
        self.is_closed = False
        self.reason: CloseReason | None = None

    def end(self, reason: CloseReason) -> None:
        self.reason = reason
        self.is_closed = True


class Clients(list[Session]):
    def __init__(self, sessions: list[Session], lines: list[str]) -> None:
        super().__init__(sessions)
        self._lines = lines

    def tell(self) -> None:
        self._lines.append("clients are told")


def server(sessions: list[Session], grace: float = 10.0, whole: float = 120.0) -> Any:
    lines: list[str] = []
    return SimpleNamespace(
        clients=Clients(sessions, lines),
        options=SimpleNamespace(lame_duck_grace_period=grace, lame_duck_duration=whole),
        log=SimpleNamespace(info=lines.append),
        ticks=SimpleNamespace(wake=lambda: None),
        stopped=asyncio.Event(),
        lines=lines,
    )


class Clock:
    """Its sleeps take no time; `times` are when each client was closed, in closing order."""

    def __init__(self, sessions: list[Session]) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []
        self.closed_before: list[int] = []
        self._sessions = sessions

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.closed_before.append(sum(session.is_closed for session in self._sessions))
        self.now += seconds


def test_few_clients_go_a_second_apart_at_most() -> None:
    sessions = [Session() for _ in range(4)]
    clock, at = Clock(sessions), server(sessions)

    asyncio.run(leave(at, clock.sleep))

    assert all(session.reason is CloseReason.SERVER_SHUTDOWN for session in sessions)
    assert clock.sleeps[0] == 10.0
    assert clock.closed_before == [0, 1, 2, 3]  # nothing is waited for after the last
    assert all(LONGEST_PAUSE / 2 <= pause <= LONGEST_PAUSE for pause in clock.sleeps[1:])
    assert at.lines == ["clients are told", "Closing existing clients"]


def test_many_clients_are_spread_over_the_rest_of_the_time() -> None:
    sessions = [Session() for _ in range(2000)]
    clock = Clock(sessions)

    asyncio.run(leave(server(sessions), clock.sleep))

    assert len(clock.sleeps) == 2000
    assert 10 + 110 / 2 < clock.now < 120
    assert len(set(clock.sleeps)) > 1000  # no two servers in step


def test_too_many_clients_go_several_at_once() -> None:
    sessions = [Session() for _ in range(1000)]
    clock = Clock(sessions)

    asyncio.run(leave(server(sessions, grace=1.0, whole=1.1), clock.sleep))

    assert len(clock.sleeps) <= 101
    assert clock.now <= 1.1
    assert all(session.is_closed for session in sessions)


def test_who_leaves_by_itself_is_not_waited_for() -> None:
    sessions = [Session() for _ in range(50)]
    clock = Clock(sessions)

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        for session in sessions[1:]:
            session.is_closed = True

    asyncio.run(leave(server(sessions), sleep))

    assert clock.sleeps == [10.0]
    assert sessions[0].reason is CloseReason.SERVER_SHUTDOWN


def test_without_clients_nothing_is_waited_for() -> None:
    clock = Clock([])

    asyncio.run(leave(server([]), clock.sleep))

    assert clock.sleeps == []


@pytest.mark.parametrize(
    ("clients", "seconds", "expected"),
    [
        (0, 5.0, (0.0, 1)),
        (10, 0.0, (0.0, 10)),
        (10, -1.0, (0.0, 10)),
        (1, 100.0, (LONGEST_PAUSE, 1)),
        (1000, 110.0, (0.11, 1)),
        (100_000, 1.0, (SHORTEST_PAUSE, 100)),
    ],
)
def test_pace(clients: int, seconds: float, expected: tuple[float, int]) -> None:
    assert pace(clients, seconds) == pytest.approx(expected)


def test_end_of_the_server_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [Session(), Session()]
    at = server(sessions)

    async def run() -> None:
        leaving = asyncio.ensure_future(lame_duck.leave(at))
        await asyncio.sleep(0)
        at.stopped.set()
        await asyncio.wait_for(leaving, 5)

    asyncio.run(run())
