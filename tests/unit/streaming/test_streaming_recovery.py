"""What survives a restart and a kill, and what is done with it. Source: streaming specification, 6, 8, 15.

A kill is a service that is dropped without a word: what it did not hand to the store is lost.
"""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest
from stan_harness import SECOND, START_NS, HeldCommitter, ManualHost, World

from headrace.conf.streaming_options import StoreLimits, StreamingOptions
from headrace.errors import StartError, StorageError
from headrace.log.port import NewMessage, SyncPolicy
from headrace.log.store import FileStore, MemoryStore
from headrace.protocol.stan import (
    ClientInfo,
    ConnectResponse,
    MsgProto,
    PingResponse,
    PubAck,
    PubMsg,
    ServerInfo,
    StartPosition,
    SubState,
)
from headrace.streaming.state import STATE_LOG, ServiceState, SubscriptionRecord, load_state, write_imported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Machine(World):
    """A world whose store is memory that a kill leaves alone, or files, of which a kill leaves an image."""

    directory: Path | None = None
    kills = 0

    def kill(self, options: StreamingOptions | None = None, *, clean: bool = False) -> None:
        if self.directory is None:
            self.restart(options, clean=clean)
            return
        if clean:
            self.service.stop()
            self.store.close()
        self.kills += 1
        image = self.directory.with_name(f"{self.directory.name}.{self.kills}")
        shutil.copytree(self.directory, image)
        self.store.close()  # only now: nothing that a close writes is in the image
        self.directory = image
        self.restart(options, store=_files(image, self.host))


def _files(directory: Path, host: ManualHost) -> FileStore:
    return FileStore(directory, clock=lambda: host.now, sync=SyncPolicy.NEVER)


@pytest.fixture(params=["memory", "file"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    if request.param == "memory":
        machine = Machine()
    else:
        host = ManualHost()
        machine = Machine(store=_files(tmp_path / "store", host), host=host)
        machine.directory = tmp_path / "store"
    machine.connect()
    yield machine
    machine.store.close()


@pytest.mark.parametrize("clean", [True, False])
def test_row_clients_go_on_working_without_a_reconnect(world: Machine, clean: bool) -> None:
    sub = world.subscribe(b"foo")
    world.kill(clean=clean)
    assert world.ping(b"me") == PingResponse()
    assert world.publish(b"foo", b"x", conn_id=b"me") == [b""]
    assert world.sequences(sub) == [1]
    world.ack(sub, 1)
    assert world.pending(sub) == 0
    assert world.unsubscribe(sub) == b""


def test_row_a_memory_store_that_is_gone_makes_pings_fail() -> None:
    world = World()
    world.connect()
    world.restart(store=MemoryStore())
    assert world.ping(b"me").error == b"client has been replaced or is no longer registered"


def test_recovered_clients_are_heartbeated_and_expire(world: Machine) -> None:
    world.kill(StreamingOptions(hb_interval=1, hb_timeout=1, hb_fail_count=1))
    world.advance(1)
    assert world.take(b"_HB.me") == [b""]
    world.alive.clear()
    world.advance(10)
    assert world.service.snapshot_server().clients == 0


def test_messages_and_their_sequences_survive(world: Machine) -> None:
    world.publish(b"foo", b"1", b"2")
    world.kill()
    world.publish(b"foo", b"3")
    messages = world.received(world.subscribe(b"foo", start=StartPosition.FIRST))
    assert [(one.sequence, one.data) for one in messages] == [(1, b"1"), (2, b"2"), (3, b"3")]


def test_pending_messages_past_due_are_redelivered_at_once_and_then_new_ones(world: Machine) -> None:
    sub = world.subscribe(b"foo", max_in_flight=3, ack_wait=10)
    world.publish(b"foo", *[b"x"] * 5)
    world.ack(sub, 2)
    world.received(sub)
    world.advance(9.99)
    world.ack(sub, 1)
    assert world.sequences(sub) == [5]
    world.host.now += 20_000_000_000
    world.kill()
    got = [(one.sequence, one.redelivered, one.redelivery_count) for one in world.received(sub)]
    assert got == [(3, True, 1), (4, True, 1), (5, True, 1)]
    world.ack(sub, 3)
    world.publish(b"foo", b"y")
    assert world.sequences(sub) == [6]


def test_pending_messages_not_yet_due_wait_for_their_own_time(world: Machine) -> None:
    sub = world.subscribe(b"foo", ack_wait=10)
    world.publish(b"foo", b"1")
    world.advance(4)
    world.publish(b"foo", b"2")
    world.kill()
    assert world.sequences(sub) == []
    world.advance(6)
    assert world.sequences(sub) == [1]
    world.advance(4)
    assert world.sequences(sub) == [2]


def test_acknowledged_messages_stay_acknowledged(world: Machine) -> None:
    sub = world.subscribe(b"foo", max_in_flight=1000, ack_wait=5)
    world.publish(b"foo", *[b"x"] * 100)
    kept = {3, 50, 51, 52, 100}
    world.ack(sub, *sorted(set(range(1, 101)) - kept))
    world.kill()
    world.kill()
    world.advance(5)
    assert world.sequences(sub) == sorted(kept)


def test_offline_durables_survive_with_what_is_pending(world: Machine) -> None:
    sub = world.subscribe(b"foo", durable=b"d", max_in_flight=2)
    world.publish(b"foo", *[b"x"] * 3)
    world.ack(sub, 1)
    world.close_sub(sub)
    world.kill()
    again = world.subscribe(b"foo", durable=b"d", start=StartPosition.FIRST)
    assert [(one.sequence, one.redelivered) for one in world.received(again)] == [
        (2, True),
        (3, True),
    ]


def test_a_durable_unsubscribed_before_the_kill_is_gone(world: Machine) -> None:
    world.unsubscribe(world.subscribe(b"foo", durable=b"d"))
    world.kill()
    assert world.service.snapshot_server().subscriptions == 0


def test_a_client_closed_before_the_kill_is_gone_with_its_subscriptions(world: Machine) -> None:
    world.subscribe(b"foo")
    world.subscribe(b"foo", durable=b"d")
    world.disconnect()
    world.kill()
    server = world.service.snapshot_server()
    assert (server.clients, server.subscriptions) == (0, 1)
    assert world.publish(b"foo", b"x") == [b"stan: invalid publish request"]


def test_a_queue_group_survives_with_each_members_pending(world: Machine) -> None:
    first = world.subscribe(b"foo", queue=b"q", ack_wait=5)
    second = world.subscribe(b"foo", queue=b"q", ack_wait=5)
    world.publish(b"foo", *[b"x"] * 6)
    mine, theirs = world.sequences(first), world.sequences(second)
    world.host.now += 6_000_000_000
    world.kill()
    assert world.sequences(first) == mine
    assert world.sequences(second) == theirs
    world.publish(b"foo", b"y")
    assert world.sequences(first) + world.sequences(second) == [7]


def test_what_a_leaving_member_passed_on_survives(world: Machine) -> None:
    first = world.subscribe(b"foo", queue=b"q", ack_wait=5)
    second = world.subscribe(b"foo", queue=b"q", ack_wait=5)
    world.publish(b"foo", *[b"x"] * 6)
    world.ack(second, *world.sequences(second)[:1])
    world.unsubscribe(first)
    world.kill()
    world.advance(6)
    assert world.pending(second) == 5
    again = world.subscribe(b"foo", queue=b"q")
    world.publish(b"foo", b"y")
    assert 7 in world.sequences(second) + world.sequences(again)


@pytest.mark.parametrize("through_snapshot", [False, True])
def test_what_a_member_that_left_had_finished_is_not_sent_again(
    world: Machine, through_snapshot: bool
) -> None:
    first = world.subscribe(b"foo", queue=b"q", ack_wait=5)
    second = world.subscribe(b"foo", queue=b"q", ack_wait=5)
    world.publish(b"foo", b"1", b"2")
    world.ack(first, 1)
    world.ack(second, 2)
    assert (world.sequences(first), world.sequences(second)) == ([1], [2])
    world.unsubscribe(second)
    if through_snapshot:
        world.tenure._journal.snapshot_due = True
        world.connect(b"other")
    world.kill()
    world.publish(b"foo", b"3")
    assert world.sequences(first) == [3]


def test_new_messages_wait_until_all_that_was_pending_at_the_restart_went_out(world: Machine) -> None:
    sub = world.subscribe(b"foo", max_in_flight=1000, ack_wait=5)
    world.publish(b"foo", *[b"x"] * 600)
    while world.pending(sub) < 600:
        world.advance(0)
    world.host.now += 6_000_000_000
    world.kill()
    world.publish(b"foo", b"new")
    assert world.sequences(sub) == list(range(1, 257))
    world.advance(0)
    assert world.sequences(sub) == list(range(257, 602))


def test_a_shadow_beside_members_is_merged_into_them() -> None:
    """An import, or a record lost to damage, may leave both."""
    store = MemoryStore(lambda: START_NS + 100 * SECOND)
    for _ in range(4):
        store.open(b"foo").append([NewMessage(b"foo", b"x", time_ns=START_NS)])
    live = SubState(1, b"me", b"d:q", b"live", b"_INBOX.a", 9, 30, b"d", 2, is_durable=True)
    others = [
        SubState(number, b"gone", b"d:q", b"i", b"_INBOX.b%d" % number, 9, 30, b"d", 4, True, is_closed=True)
        for number in (2, 3)
    ]
    state = ServiceState(clients={b"me": ClientInfo(b"me", b"_HB.me")})
    for identity, record in enumerate([live, *others], 1):
        state.subscriptions[identity] = SubscriptionRecord(b"foo", record, {identity})
    write_imported(store, state)
    world = World(store=store, host=ManualHost(START_NS + 100 * SECOND))
    assert [MsgProto.decode(one).sequence for one in world.take(b"live")] == [1, 2, 3]
    assert world.service.snapshot_server().subscriptions == 1
    assert load_state(store).subscriptions[1].pending == {1, 2, 3}


def test_two_offline_members_become_one_shadow() -> None:
    store = MemoryStore(lambda: START_NS)
    store.open(b"foo").append([NewMessage(b"foo", b"x"), NewMessage(b"foo", b"x")])
    state = ServiceState()
    for identity in (1, 2):
        member = SubState(identity, b"gone", b"d:q", b"i", b"_INBOX.b", 9, 30, b"d", 2, True, is_closed=True)
        state.subscriptions[identity] = SubscriptionRecord(b"foo", member, {identity})
    write_imported(store, state)
    world = World(store=store)
    assert world.service.snapshot_server().subscriptions == 1
    world.connect()
    sub = world.subscribe(b"foo", queue=b"q", durable=b"d")
    assert [(one.sequence, one.redelivered) for one in world.received(sub)] == [(1, True), (2, True)]


def test_the_shadow_of_a_durable_group_survives(world: Machine) -> None:
    world.subscribe(b"foo", queue=b"q", durable=b"d", max_in_flight=2)
    world.publish(b"foo", *[b"x"] * 3)
    world.disconnect()
    world.kill()
    world.connect(b"other")
    again = world.subscribe(b"foo", client_id=b"other", queue=b"q", durable=b"d")
    assert [(one.sequence, one.redelivered) for one in world.received(again)] == [
        (1, True),
        (2, True),
        (3, False),
    ]


def test_a_message_that_is_pending_and_gone_by_its_age_is_dropped(world: Machine) -> None:
    options = StreamingOptions(limits=StoreLimits(max_age=5))
    sub = world.subscribe(b"foo", max_in_flight=1)
    world.publish(b"foo", b"x")
    world.received(sub)
    world.host.now += 10_000_000_000
    world.kill(options)
    world.publish(b"foo", b"y")
    assert world.sequences(sub) == [2]
    assert world.pending(sub) == 1


def test_ids_of_subscriptions_are_not_used_again(world: Machine) -> None:
    world.subscribe(b"foo", durable=b"a")
    world.kill()
    world.subscribe(b"foo", durable=b"b")
    world.kill()
    assert sorted(load_state(world.store).subscriptions) == [1, 2]
    assert world.service.snapshot_server().subscriptions == 2


def test_another_cluster_id_is_refused(world: Machine) -> None:
    with pytest.raises(StartError) as raised:
        world.kill(StreamingOptions(cluster_id="x"))
    reason = 'cluster ID "x" does not match recovered value of "test-cluster"'
    assert str(raised.value) == f"STREAM: Failed to start: {reason}"


def test_the_subjects_of_an_older_server_are_kept() -> None:
    info = ServerInfo(b"test-cluster", b"_STAN.discover.test-cluster", b"P", b"S", b"U", b"C", b"SC")
    store = MemoryStore()
    write_imported(store, ServiceState(server=info))
    answer = World(store=store).connect()
    assert (answer.pub_prefix, answer.sub_requests, answer.unsub_requests) == (b"P", b"S", b"U")
    assert (answer.close_requests, answer.sub_close_requests) == (b"C", b"SC")


def test_subscriptions_of_a_channel_that_was_removed_are_dropped(world: Machine) -> None:
    world.subscribe(b"foo", durable=b"d")
    world.subscribe(b"bar", durable=b"d")
    world.service.stop()
    world.store.remove(b"foo")
    world.kill()
    assert world.service.snapshot_server().subscriptions == 1
    world.kill()
    assert [one.channel for one in load_state(world.store).subscriptions.values()] == [b"bar"]


def test_what_was_sent_beyond_the_end_of_a_channel_is_not_believed(world: Machine) -> None:
    """A power failure may keep the state of a delivery and lose the message under `interval` and `never`."""
    sub = world.subscribe(b"foo")
    world.publish(b"foo", *[b"x"] * 3)
    world.service.stop()
    world.store.remove(b"foo")
    world.store.open(b"foo")
    world.kill()
    assert world.pending(sub) == 0
    world.received(sub)
    world.publish(b"foo", b"new")
    assert world.sequences(sub) == [1]


def test_a_stop_answers_who_waits_and_nothing_happens_after_it() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    world.send(b"_STAN.discover.test-cluster", b"\x0a\x01a\x12\x01b", b"r")
    world.send(b"_STAN.pub.test-cluster.foo", PubMsg(b"a", b"g", b"foo").encode(), b"p")
    world.settle()
    assert world.take(b"r") + world.take(b"p") == []
    world.service.stop()
    world.service.stop()
    assert ConnectResponse.decode(world.take(b"r")[0]).error == b""
    assert PubAck.decode(world.take(b"p")[0]) == PubAck(b"g")
    before = len(world.host.published)
    committer.commit()
    world.advance(100)
    assert len(world.host.published) == before
    assert world.service.snapshot_server().state == "SHUTDOWN"


def test_state_that_cannot_be_written_is_told_and_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.connect()
    sub = world.subscribe(b"foo")
    log = world.store.open(STATE_LOG)

    def fail(*_: object) -> int:
        raise StorageError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(log, "append", fail)
        assert world.connect(b"other").error == b"no space left on device"
        assert world.refused(b"foo") == b"no space left on device"
        assert world.publish(b"foo", b"x") == [b""]
        assert world.sequences(sub) == [1]
        world.ack(sub, 1)
        world.advance(5)
    world.advance(1)
    world.restart()
    assert world.pending(sub) == 0
    server = world.service.snapshot_server()
    assert (server.clients, server.subscriptions) == (1, 1)


def test_a_store_that_fails_at_start_is_a_start_error(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()

    def fail(*_: object) -> None:
        raise StorageError("permission denied")

    monkeypatch.setattr(store, "open", fail)
    with pytest.raises(StartError, match="permission denied"):
        World(store=store)


@pytest.mark.parametrize("cluster", ["", "a b", "a.b", "*"])
def test_a_cluster_id_that_is_none_is_a_start_error(cluster: str) -> None:
    with pytest.raises(StartError, match="cluster ID"):
        World(StreamingOptions(cluster_id=cluster))


@pytest.mark.parametrize("seed", range(10))
def test_at_least_once_through_kills_at_random_moments(world: Machine, seed: int) -> None:
    """Whatever the moments of the kills: every acknowledged publication arrives, and none that was processed
    and acknowledged before a kill arrives again."""
    dice = random.Random(seed)
    options = StreamingOptions()
    sub = world.subscribe(b"foo", durable=b"d", max_in_flight=5, ack_wait=2)
    stored: dict[int, bytes] = {}
    done: set[int] = set()
    seen: list[int] = []
    for step in range(60):
        body = b"%d" % step
        assert world.publish(b"foo", body) == [b""]
        stored[len(stored) + 1] = body
        settled = set(done)
        for message in world.received(sub):
            assert message.data == stored[message.sequence]
            assert message.sequence not in settled, "acknowledged, and delivered again"
            seen.append(message.sequence)
            if dice.random() < 0.8:
                world.ack(sub, message.sequence)
                done.add(message.sequence)
        if dice.random() < 0.2:
            world.kill(options, clean=dice.random() < 0.3)
        world.advance(dice.choice([0, 0.5, 3]))
    while done != set(stored):
        world.advance(2)
        settled = set(done)
        for message in world.received(sub):
            assert message.sequence not in settled
            world.ack(sub, message.sequence)
            done.add(message.sequence)
    first_times = list(dict.fromkeys(seen))
    assert first_times == sorted(first_times), "new messages come in order"
