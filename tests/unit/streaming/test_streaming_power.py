"""Power failures and failing disks under the whole service, on the simulated file system.

Promised under the `group` policy: what was acknowledged, registered or subscribed is there when the power is
back. Not promised: that an acknowledged delivery is not repeated.
"""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stan_harness import ManualHost, Sub, World

from harness import depth
from headrace.errors import LogError, StartError
from headrace.log.store import FileStore
from headrace.protocol.stan import MsgProto, PubAck, PubMsg, StartPosition
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from headrace.log.filesystem import FileSystem

DIRECTORY = Path("/store")
SEEDS = 400


def _store(files: FileSystem, host: ManualHost) -> FileStore:
    return FileStore(DIRECTORY, clock=lambda: host.now, filesystem=files)


class Feed:
    """What was published, and what of it was confirmed."""

    def __init__(self) -> None:
        self.count = 0
        self.confirmed: list[bytes] = []
        self.seen: dict[str, set[bytes]] = {"durable": set(), "group": set()}

    def publish(self, world: World, count: int) -> None:
        bodies = [b"body %d" % (self.count + number) for number in range(count)]
        self.count += count
        reply = world.name("ack")
        for body in bodies:
            message = PubMsg(b"me", body, b"foo", data=body, conn_id=b"me")
            world.send(b"_STAN.pub.test-cluster.foo", message.encode(), reply)
        world.settle()
        acks = [PubAck.decode(payload) for payload in world.take(reply)]
        self.confirmed += [ack.guid for ack in acks if not ack.error]

    def consume(self, world: World, subs: dict[str, list[Sub]], dice: random.Random) -> None:
        for kind, members in subs.items():
            for sub in members:
                for message in world.received(sub):
                    self.seen[kind].add(message.data)
                    if dice.random() < 0.7:
                        world.ack(sub, message.sequence)


def _subscribe(world: World) -> dict[str, list[Sub]]:
    first = StartPosition.FIRST
    return {
        "durable": [world.subscribe(b"foo", durable=b"d", ack_wait=2, start=first)],
        "group": [
            world.subscribe(b"foo", queue=b"q", durable=b"dq", ack_wait=2, start=first, max_in_flight=size)
            for size in (2, 5, 100)
        ],
    }


def _stored(world: World) -> list[bytes]:
    return [
        message.payload for message in world.store.open(b"foo").read_from(1, max_messages=10_000).messages
    ]


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_a_power_failure_loses_nothing_that_was_promised(seed: int) -> None:
    dice = random.Random(seed)
    files, host, feed = MemoryFileSystem(), ManualHost(), Feed()
    world = World(store=_store(files, host), host=host)
    world.connect()
    subs = _subscribe(world)
    durables = 4
    for _ in range(12):
        for _ in range(dice.randrange(5)):
            feed.publish(world, dice.randrange(1, 4))
            feed.consume(world, subs, dice)
            world.advance(dice.choice([0, 1, 3]))
        if dice.random() < 0.3:  # a new member must not make the group forget what a lost record said
            number = dice.randrange(3)
            world.close_sub(subs["group"][number])
            wishes = {"queue": b"q", "durable": b"dq", "ack_wait": 2}
            subs["group"][number] = world.subscribe(b"foo", **wishes)
        if dice.random() < 0.3:
            durables += 1
            world.close_sub(world.subscribe(b"foo", durable=b"d%d" % durables))
        files.crash(dice)
        world.restart(store=_store(files, world.host))
        stored = _stored(world)
        assert [body for body in stored if body in set(feed.confirmed)] == feed.confirmed
        assert len(stored) == len(set(stored)) <= feed.count
        server = world.service.snapshot_server()
        assert (server.clients, server.subscriptions) == (1, durables)
    for _ in range(100):
        feed.consume(world, subs, dice)
        world.advance(2)
    assert set(feed.confirmed) <= feed.seen["durable"]
    assert set(feed.confirmed) <= feed.seen["group"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_the_nth_call_to_the_file_system_fails_for_every_n(code: int) -> None:
    """Nobody is told of what did not happen, the service goes on, and a restart finds what was confirmed."""
    for fail_at in range(1, 400):
        inner, host = MemoryFileSystem(), ManualHost()
        files = FaultyFileSystem(inner, fail_at=fail_at, error=code)
        feed = Feed()
        try:
            world = World(store=_store(files, host), host=host)
        except (StartError, LogError):
            continue  # said so, and did not start
        connected = world.connect().error == b""
        answer, sub = world.try_subscribe(b"foo", durable=b"d", start=StartPosition.FIRST)
        for _ in range(5):
            feed.publish(world, 2)
            feed.consume(world, {"durable": [sub]}, random.Random(0))
            world.advance(1)
        if files.calls < fail_at:
            assert len(feed.confirmed) == 10
            break
        inner.kill()
        world.restart(store=_store(inner, world.host))
        world.connect()
        if feed.confirmed:
            assert set(feed.confirmed) <= set(_stored(world))
        subscriptions = world.service.snapshot_server().subscriptions
        assert subscriptions == 1 or answer.error or not connected
    else:
        pytest.fail("the scenario makes more calls than were tried")
    assert fail_at > 20


def test_a_full_disk_refuses_publishers_and_takes_them_again_when_there_is_room() -> None:
    files, host = MemoryFileSystem(capacity=200_000), ManualHost()
    world = World(store=_store(files, host), host=host)
    world.connect()
    sub = world.subscribe(b"foo", max_in_flight=100)
    body = b"x" * 30_000
    errors = [world.publish(b"foo", body)[0] for _ in range(10)]
    stored = errors.count(b"")
    assert 3 < stored < 10
    assert all(errors[stored:])
    assert world.sequences(sub) == list(range(1, stored + 1))
    world.ack(sub, *range(1, stored + 1))
    files.capacity = None
    world.advance(2)
    assert world.publish(b"foo", body) == [b""]
    assert [MsgProto.decode(one).sequence for one in world.take(sub.inbox)] == [stored + 1]
