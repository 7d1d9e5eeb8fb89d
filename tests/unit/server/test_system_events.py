"""When events are told: intervals against a clock of the test's, storms, and what is told of nobody."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from go_reference import RawClient

from headrace.conf.binding import load_options
from headrace.conf.options import Options
from headrace.server.server import Server
from headrace.server.system.events import CONNECTIONS_INTERVAL, STATSZ_INTERVAL, Events

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.account import Account
    from headrace.core.service import Host

CONFIGURATION = """
accounts {
  A { users: [{user: a, password: p}] }
  SYS { users: [{user: s, password: p}] }
}
system_account: SYS
"""
SECOND = 1_000_000_000


class Clock:
    """A host whose time passes when the test says so; everybody listens to `wanted`, or nobody."""

    def __init__(self) -> None:
        self.now = 0
        self.is_wanted = True
        self.told: list[tuple[float, str]] = []
        self._due: list[tuple[int, Callable[[], object]]] = []

    def now_ns(self) -> int:
        return self.now

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        self._due.append((self.now + round(seconds * SECOND), function))

    def backlog(self, subject: bytes) -> int | None:
        return 0 if self.is_wanted else None

    def publish(self, subject: bytes, payload: bytes) -> None:
        self.told.append((self.now / SECOND, subject.decode()))

    def pass_seconds(self, seconds: float) -> None:
        end = self.now + round(seconds * SECOND)
        while self._due and min(at for at, _ in self._due) <= end:
            self._due.sort(key=lambda entry: entry[0])
            self.now, function = self._due.pop(0)
            function()
        self.now = end


class Silence:
    """Messages that say nothing."""

    def __getattr__(self, name: str) -> Callable[..., bytes]:
        return lambda *_: b""


def events_of(clock: Clock) -> Events:
    system, accounts = SimpleNamespace(statsz=lambda: b""), SimpleNamespace(follow=lambda _: None)
    server = SimpleNamespace(server_id="ID", system=system, accounts=accounts)
    events = Events(cast("Any", server), cast("Any", Silence))
    events.begin(cast("Host", clock))
    return events


class Entry:
    """An account that can stand in a dictionary."""

    def __init__(self, name: str, connections: int) -> None:
        self.name, self.connections = name, connections


def test_statistics_come_often_at_first_and_then_every_ten_seconds() -> None:
    clock = Clock()
    events_of(clock)

    clock.pass_seconds(60)

    at = [time for time, subject in clock.told if subject == "$SYS.SERVER.ID.STATSZ"]
    assert at[0] == 0.25
    gaps = [round(after - before, 2) for before, after in pairwise(at)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == STATSZ_INTERVAL
    assert len(at) < 12


def test_statistics_are_not_made_for_nobody() -> None:
    clock = Clock()
    clock.is_wanted = False
    events_of(clock)

    clock.pass_seconds(60)

    assert clock.told == []


def test_connections_of_an_account_are_told_again_after_thirty_seconds_without_a_change() -> None:
    clock = Clock()
    events = events_of(clock)
    one, two = cast("Account", Entry("ONE", 1)), cast("Account", Entry("TWO", 1))

    events.connections_changed(one)
    clock.pass_seconds(20)
    events.connections_changed(two)
    clock.pass_seconds(45)  # to 65 s

    at = {
        name: [round(time) for time, subject in clock.told if subject == f"$SYS.ACCOUNT.{name}.SERVER.CONNS"]
        for name in ("ONE", "TWO")
    }
    assert at == {"ONE": [0, 30, 60], "TWO": [20, 50]}
    assert CONNECTIONS_INTERVAL == 30


def test_account_without_clients_is_told_of_once() -> None:
    clock = Clock()
    events = events_of(clock)
    empty = Entry("E", 1)

    events.connections_changed(cast("Account", empty))
    empty.connections = 0
    events.connections_changed(cast("Account", empty))
    clock.pass_seconds(200)

    conns = [subject for _, subject in clock.told if subject.endswith("CONNS")]
    assert conns == ["$SYS.SERVER.ACCOUNT.E.CONNS", "$SYS.ACCOUNT.E.SERVER.CONNS"] * 2


def test_connections_of_the_global_account_are_not_told() -> None:
    clock = Clock()
    events = events_of(clock)

    events.connections_changed(cast("Account", Entry("$G", 1)))
    clock.pass_seconds(100)

    assert not [subject for _, subject in clock.told if "CONNS" in subject]


def test_nothing_is_told_after_the_end() -> None:
    clock = Clock()
    events = events_of(clock)
    entry = cast("Account", Entry("A", 1))
    events.connections_changed(entry)

    events.end()
    told = len(clock.told)
    events.connections_changed(entry)
    events.lame_duck()
    events.tell_statsz()
    clock.pass_seconds(100)

    assert clock.told[-1][1] == "$SYS.SERVER.ID.SHUTDOWN"
    assert len(clock.told) == told


# ---- with a server ------------------------------------------------------------------------------


def configured() -> Options:
    return load_options(text=CONFIGURATION, environ={}, overrides={"host": "127.0.0.1", "port": -1})


def joined(port: int, user: str, **fields: object) -> RawClient:
    return RawClient(port, lambda _: {"user": user, "pass": "p", **fields})


def test_storm_of_a_thousand_connections_is_told_completely() -> None:
    """Each is there once, in order, and the last statistics are right."""
    storm = 1_000

    def run(port: int) -> tuple[Counter[str], list[dict[str, Any]]]:
        with joined(port, "s") as watch:
            watch.send("SUB $SYS.ACCOUNT.A.> 1")
            watch.sync()
            for number in range(storm):
                with joined(port, "a", name=f"n{number}") as client:
                    assert client.sync() == []
            subjects: Counter[str] = Counter()
            bodies: list[dict[str, Any]] = []
            while subjects["$SYS.ACCOUNT.A.DISCONNECT"] < storm:
                for line in watch.sync():
                    if line.startswith("MSG"):
                        subjects[line.split()[1]] += 1
                    elif line.startswith("{"):
                        bodies.append(json.loads(line))
            return subjects, bodies

    async def main() -> tuple[Counter[str], list[dict[str, Any]]]:
        async with Server(configured()) as server:
            return await asyncio.wait_for(asyncio.to_thread(run, server.port), 30)

    subjects, bodies = asyncio.run(main())

    assert subjects == {
        "$SYS.ACCOUNT.A.CONNECT": storm,
        "$SYS.ACCOUNT.A.SERVER.CONNS": 2 * storm,
        "$SYS.ACCOUNT.A.DISCONNECT": storm,
    }
    names = [body["client"]["name"] for body in bodies if body["type"].endswith("client_connect")]
    assert names == [f"n{number}" for number in range(storm)]
    assert len({body["id"] for body in bodies}) == len(bodies)
    sequences = [body["server"]["seq"] for body in bodies]
    assert sequences == sorted(sequences)
    last = [body for body in bodies if "acc" in body][-1]
    assert (last["conns"], last["total_conns"]) == (0, 0)


def test_without_a_system_account_nobody_answers() -> None:
    def run(port: int) -> list[str]:
        with RawClient(port, lambda _: {"headers": True, "no_responders": True}) as client:
            client.send("SUB in 1", "PUB $SYS.REQ.USER.INFO in 0", "")
            return client.sync()

    async def main() -> list[str]:
        async with Server(Options(host="127.0.0.1", port=-1, system_account=None)) as server:
            return await asyncio.to_thread(run, server.port)

    lines = asyncio.run(main())
    assert lines[0].startswith("HMSG in 1")
    assert lines[1] == "NATS/1.0 503"
