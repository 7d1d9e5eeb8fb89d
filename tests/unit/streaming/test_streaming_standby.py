"""Fault tolerance: who has the store serves, the others stand by. Source: streaming specification, 11."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from stan_harness import DISCOVER, World

from headrace.conf.streaming_options import StreamingOptions
from headrace.errors import StartError, StorageError, StoreLocked
from headrace.log.store import FileStore, MemoryStore
from headrace.protocol.stan import ConnectRequest, CtrlMsg, CtrlType
from headrace.streaming.standby import HEARTBEAT_S, SILENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.streaming.service import OpenStore

SUBJECT = b"_STAN.ft.test-cluster.g"
OPTIONS = StreamingOptions(ft_group="g", store_type="FILE")


class Lock:
    """Whether the store can be had, and how often it was tried."""

    def __init__(self) -> None:
        self.is_free = False
        self.error: Exception | None = None
        self.tries = 0

    def __call__(self) -> bool:
        self.tries += 1
        if self.error is not None:
            raise self.error
        return self.is_free


@pytest.fixture
def lock() -> Lock:
    return Lock()


def server(lock: Callable[[], bool]) -> World:
    return World(OPTIONS, acquire=lock)


def state(world: World) -> str:
    return world.service.snapshot_server().state


def heartbeat(server_id: bytes = b"other") -> bytes:
    return CtrlMsg(CtrlType.FT_HEARTBEAT, server_id).encode()


def test_who_has_the_store_is_active_and_says_so_every_second(lock: Lock) -> None:
    lock.is_free = True
    world = server(lock)
    assert state(world) == "FT_ACTIVE"
    world.connect()
    assert world.publish(b"foo", b"x") == [b""]

    world.take(SUBJECT)
    world.advance(3 * HEARTBEAT_S)

    beats = [CtrlMsg.decode(payload) for payload in world.take(SUBJECT)]
    assert beats == [CtrlMsg(CtrlType.FT_HEARTBEAT, world.service.server_id.encode())] * 3


def test_who_has_not_answers_nobody_and_shows_that_it_stands_by(lock: Lock) -> None:
    world = server(lock)

    assert not world.host.receive(DISCOVER, ConnectRequest(b"me", b"hb").encode(), b"reply")
    assert state(world) == "FT_STANDBY"
    service = world.service
    assert (service.channel_names(), service.snapshot_clients()) == ([], [])
    assert (service.snapshot_channel("a"), service.snapshot_client("a")) == (None, None)
    assert service.snapshot_store().total_msgs == 0
    world.advance(10)
    assert world.take(SUBJECT) == []


def test_silence_makes_it_try_and_a_free_store_makes_it_active(lock: Lock) -> None:
    world = server(lock)
    world.advance(SILENCE_S * 2)
    assert lock.tries == 3
    lock.is_free = True

    world.advance(SILENCE_S)

    assert state(world) == "FT_ACTIVE"
    world.connect()
    assert world.publish(b"foo", b"x") == [b""]
    world.advance(30)
    assert lock.tries == 4  # once is enough


def test_heartbeats_of_the_active_one_keep_it_from_trying(lock: Lock) -> None:
    world = server(lock)
    for _ in range(10):
        world.advance(HEARTBEAT_S)
        world.send(SUBJECT, heartbeat())
        world.settle()
    assert lock.tries == 1

    world.advance(SILENCE_S)

    assert lock.tries == 2


@pytest.mark.parametrize("payload", [b"\xff", b"", CtrlMsg(CtrlType.PARTITIONING, b"other").encode()])
def test_what_is_no_heartbeat_does_not(lock: Lock, payload: bytes) -> None:
    world = server(lock)
    world.advance(1.0)
    world.send(SUBJECT, payload)
    world.settle()

    world.advance(SILENCE_S - 1.0)

    assert lock.tries == 2


def test_messages_of_the_one_before_are_there(tmp_path: Path) -> None:
    class Shared(World):
        """A server whose store is taken when no other one has it."""

        def _take(self) -> OpenStore | None:
            try:
                self.store = FileStore(tmp_path)
            except StoreLocked:
                return None
            return super()._take()

    one, two = Shared(OPTIONS), Shared(OPTIONS)
    one.connect()
    one.publish(b"foo", b"x", b"y")
    assert (state(one), state(two)) == ("FT_ACTIVE", "FT_STANDBY")

    one.service.stop()
    one.store.close()
    two.advance(SILENCE_S)

    assert state(two) == "FT_ACTIVE"
    assert two.publish(b"foo", b"z") == [b""]  # the client is known too
    shown = two.service.snapshot_channel("foo")
    assert shown is not None
    assert shown.last_seq == 3
    two.store.close()


def test_a_store_that_cannot_be_used_is_said_once_and_tried_on(
    lock: Lock, caplog: pytest.LogCaptureFixture
) -> None:
    world = server(lock)
    lock.error = StorageError("no such directory")
    world.advance(5 * SILENCE_S)
    assert caplog.text.count("store cannot be taken: no such directory") == 1

    lock.error, lock.is_free = None, True
    world.advance(SILENCE_S)

    assert state(world) == "FT_ACTIVE"


def test_a_store_that_cannot_be_used_at_the_start_ends_it(lock: Lock) -> None:
    lock.error = StorageError("no such directory")

    with pytest.raises(StartError, match="STREAM: Failed to start: streaming store: no such directory"):
        server(lock)


def test_a_store_of_another_cluster_ends_it_even_late(lock: Lock) -> None:
    store = MemoryStore()
    World(StreamingOptions(cluster_id="another"), store=store).service.stop()
    world = World(OPTIONS, store=store, acquire=lock)
    lock.is_free = True

    world.advance(SILENCE_S)

    (conflict,) = world.conflicts
    assert "does not match recovered value" in conflict
    assert state(world) == "FAILED"


def test_a_stop_ends_the_waiting(lock: Lock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = server(lock)
    assert "STREAM: Starting in standby mode" in caplog.text
    world.service.stop()

    world.advance(10)

    assert (lock.tries, state(world)) == (1, "SHUTDOWN")
