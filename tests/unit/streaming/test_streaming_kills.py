"""A kill after any write of any log: what was promised before it is kept, what was not is not invented.

The writes of all logs are recorded in their order, a store is made of every prefix of them (of every 20th
in `make test`), and a new service is started on it. Source: streaming specification, 6, 8.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from stan_harness import ManualHost, Sub, World

from harness import depth
from headrace import change_log
from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage
from headrace.log.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

_STEPS = 50


@dataclass
class Write:
    """One append, and what the world knew when it was made."""

    log: bytes
    batch: list[NewMessage]
    confirmed: int
    """Publications whose acknowledgement was out."""
    settled: set[tuple[int, int]]
    """Subscription and sequence of what had been acknowledged a tick before or earlier."""
    acked: set[tuple[int, int]]
    """The same, and what is just being acknowledged."""


class Recorder:
    def __init__(self, world: World) -> None:
        self.world = world
        self.writes: list[Write] = []
        self.confirmed = 0
        self.settled: set[tuple[int, int]] = set()
        self.acked: set[tuple[int, int]] = set()
        self._append = MemoryLog.append

    def append(self, log: MemoryLog, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
        logs = self.world.store._logs  # type: ignore[attr-defined]
        names = [name for name, known in logs.items() if known is log]
        if names:  # else it is the log of a store made of a prefix
            self.writes.append(
                Write(names[0], list(batch), self.confirmed, set(self.settled), set(self.acked))
            )
        return self._append(log, batch, first_sequence)


def _subscriptions(world: World) -> list[Sub]:
    return [
        world.subscribe(b"foo", durable=b"d", max_in_flight=4, ack_wait=2),
        world.subscribe(b"foo", max_in_flight=100, ack_wait=2),
        world.subscribe(b"foo", queue=b"q", durable=b"dq", max_in_flight=3, ack_wait=2),
        world.subscribe(b"foo", queue=b"q", durable=b"dq", max_in_flight=3, ack_wait=2),
    ]


def _live(world: World, recorder: Recorder, dice: random.Random) -> list[Sub]:
    subs = _subscriptions(world)
    for _ in range(_STEPS):
        count = dice.randrange(4)
        if count:
            recorder.confirmed += world.publish(b"foo", *[b"x"] * count).count(b"")
        for number, sub in enumerate(subs):
            for sequence in world.sequences(sub):
                if dice.random() < 0.7:
                    recorder.acked.add((number, sequence))
                    world.ack(sub, sequence)
                    recorder.settled.add((number, sequence))
        world.advance(dice.choice([0, 0, 1, 2.5]))
    return subs


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("growth", [4 << 20, 500])
def test_a_kill_after_any_write(seed: int, growth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "_MIN_GROWTH", growth)
    world = World()
    world.connect()
    recorder = Recorder(world)
    with monkeypatch.context() as patch:
        # What the first tick wrote is copied by hand: the recorder knows no logs that were not appended to.
        before = world.store.open(b"$STAN/state").read_from(1).messages

        def recorded(log: MemoryLog, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
            return recorder.append(log, batch, first_sequence)

        patch.setattr(MemoryLog, "append", recorded)
        subs = _live(world, recorder, random.Random(seed))
    assert len(recorder.writes) > _STEPS
    for kept in depth.every(len(recorder.writes)):
        host = ManualHost(world.host.now)
        store = MemoryStore(lambda host=host: host.now)  # type: ignore[misc]
        for message in before:
            store.open(b"$STAN/state").append([_again(message)])
        for write in recorder.writes[: kept + 1]:
            store.open(write.log).append(write.batch)
        _check(World(store=store, host=host), recorder.writes[kept], subs)


def _again(message: object) -> NewMessage:
    return NewMessage(message.subject, message.payload, time_ns=message.time_ns)  # type: ignore[attr-defined]


def _check(world: World, write: Write, subs: list[Sub]) -> None:
    channel = world.service.snapshot_channel("foo")
    stored = channel.last_seq if channel is not None else 0
    assert stored >= write.confirmed, "an acknowledged publication is lost"
    world.alive.add(b"_HB.me")
    got: list[set[int]] = [set() for _ in subs]
    idle = 0
    while idle < 3:
        idle += 1
        for number, sub in enumerate(subs):
            for message in world.received(sub):
                assert 0 < message.sequence <= stored, "a message that nobody published"
                assert (number, message.sequence) not in write.settled, "acknowledged, and delivered again"
                idle = 0
                got[number].add(message.sequence)
                world.ack(sub, message.sequence)
        world.advance(2.5)
    acked = [{sequence for index, sequence in write.acked if index == number} for number in range(len(subs))]
    every = set(range(1, stored + 1))
    for number in (0, 1):
        missing = every - got[number] - acked[number]
        assert not missing or not _is_known(world, subs[number]), f"never delivered: {missing}"
    group = got[2] | got[3] | acked[2] | acked[3]
    assert not every - group or not _is_known(world, subs[2]), "never delivered to the group"


def _is_known(world: World, sub: Sub) -> bool:
    """Whether the subscription was on record already when the kill came."""
    channel = world.service.snapshot_channel("foo", subscriptions=True)
    return channel is not None and any(one.inbox == sub.inbox.decode() for one in channel.subscriptions)
