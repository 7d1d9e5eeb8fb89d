"""The log of the durable state: recovery, damage, snapshots that shrink it, and images of it cut anywhere."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from stan_harness import HeldCommitter, World

from headrace import change_log
from headrace.conf.streaming_options import StreamingOptions
from headrace.engine.messages import StoredMessages
from headrace.errors import StorageError
from headrace.log.memory import MemoryLog
from headrace.log.port import Limits, NewMessage, Page, StoredMessage
from headrace.log.store import MemoryStore
from headrace.protocol.stan import ClientInfo, ConnectRequest, MsgProto, ServerInfo, SubState
from headrace.streaming import state
from headrace.streaming.state import (
    STATE_LOG,
    ServiceState,
    StateRecovery,
    SubscriptionRecord,
    load_state,
    write_imported,
    write_state,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

INFO = ServerInfo(b"test-cluster", b"d", b"p", b"s", b"u", b"c", b"sc")


def _log(*batches: Sequence[bytes]) -> MemoryLog:
    log = MemoryLog(Limits())
    for entries in batches:
        log.append([state.record(entries)])
    return log


def _subscribed(identity: int = 1, last_sent: int = 0) -> bytes:
    return state.subscribed(
        SubscriptionRecord(b"foo", SubState(id=identity, client_id=b"me"), set(), last_sent)
    )


def _full() -> ServiceState:
    return ServiceState(
        INFO,
        {b"a": ClientInfo(b"a", b"hb"), b"b": ClientInfo(b"b", b"hb", b"\x00\xff", 1, 5, 3)},
        {
            3: SubscriptionRecord(
                b"foo", SubState(3, b"a", b"", b"i", b"ai", 5, 30, b"d", 9, True), {7, 8, 9}
            ),
            4: SubscriptionRecord(b"bar", SubState(4, b"a", b"d:q", b"i", b"ai", 5, 30, b"d", 9), {1, 5}),
        },
    )


def test_what_is_written_is_read() -> None:
    store = MemoryStore()
    write_imported(store, _full())
    assert load_state(store) == _full()
    write_imported(store, _full())
    assert load_state(store) == _full()
    assert store.open(STATE_LOG).state().messages == 2  # it and its copy


def test_a_store_without_a_state_is_empty_and_is_not_given_one() -> None:
    store = MemoryStore()
    assert load_state(store) == ServiceState()
    assert store.names() == []


@pytest.mark.parametrize(
    ("sent", "acked", "pending", "last"),
    [
        ([1, 2, 3], [], {1, 2, 3}, 3),
        ([1, 2, 3], [2], {1, 3}, 3),
        ([1, 5, 9], [1, 9], {5}, 9),
        ([9, 1], [], {1, 9}, 9),
        ([3, 1, 2], [], {1, 2, 3}, 3),
        ([1, 1, 1], [], {1}, 1),
        ([5], [6, 7], {5}, 5),
        ([2**64 - 1], [], {2**64 - 1}, 2**64 - 1),
    ],
)
def test_deliveries_and_acknowledgements(
    sent: list[int], acked: list[int], pending: set[int], last: int
) -> None:
    entries = [_subscribed(1), state.sent(1, sent)]
    if acked:
        entries.append(state.acked(1, acked))
    record = StateRecovery(_log(entries)).run().subscriptions[1]
    assert (record.pending, record.last_sent) == (pending, last)


def test_a_subscription_written_again_keeps_what_is_pending() -> None:
    log = _log([_subscribed()], [state.sent(1, [1, 2])], [_subscribed(1, 2)])
    assert StateRecovery(log).run().subscriptions[1].pending == {1, 2}


def test_changes_of_an_unknown_subscription_are_nothing() -> None:
    log = _log([state.sent(9, [1]), state.acked(9, [1]), state.last_sent(9, 1), state.unsubscribed(9)])
    assert StateRecovery(log).run() == ServiceState()


@pytest.mark.parametrize(
    "damage",
    [b"?\x00\x00\x00\x00", b"N\xff\x00\x00\x00", b"N\x02\x00\x00\x00\xff\xff", b"n\x01\x00\x00\x00\x00", b"C",
     b"C\x01\x00\x00\x00\xff", b"R\x18\x00\x00\x00" + b"\xff" * 8 + b"\x00" * 8 + b"\xff" * 8,
     b"T\x03\x00\x00\x00abc", b"L\x00\x00\x00\x00"],
)  # fmt: skip
def test_an_entry_that_makes_no_sense_is_reported_and_the_rest_read(damage: bytes) -> None:
    log = _log([state.client(ClientInfo(b"a", b"hb"))], [damage], [state.client(ClientInfo(b"b", b"hb"))])
    reports: list[int] = []
    recovered = StateRecovery(log, lambda sequence, _reason: reports.append(sequence)).run()
    assert reports == [2]
    assert set(recovered.clients) == {b"a", b"b"}


def test_a_damaged_record_is_reported_with_its_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log([state.client(ClientInfo(b"a", b"hb"))], [b""], [state.client(ClientInfo(b"b", b"hb"))])
    read_from = MemoryLog.read_from

    def damaged(self: MemoryLog, sequence: int, **wishes: int) -> Page:
        page = read_from(self, sequence, **wishes)
        return page._replace(
            messages=StoredMessages(StoredMessage, [one for one in page.messages if one.sequence != 2]),
            damaged=[2],
        )

    monkeypatch.setattr(MemoryLog, "read_from", damaged)
    reports: list[tuple[int, str]] = []
    recovered = StateRecovery(log, lambda sequence, reason: reports.append((sequence, reason))).run()
    assert reports == [(2, "unreadable")]
    assert set(recovered.clients) == {b"a", b"b"}


def test_a_snapshot_that_was_cut_off_is_as_if_it_had_not_been_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "_RECORD_BYTES", 1)
    records = state.snapshot(_full())
    assert len(records) > 5
    before = ServiceState(INFO, {b"old": ClientInfo(b"old", b"hb")})
    for kept in range(len(records) + 1):
        log = MemoryLog(Limits())
        write_state(log, before)
        log.append(records[:kept]) if kept else None
        recovery = StateRecovery(log)
        assert recovery.run() == (_full() if kept == len(records) else before)
        assert recovery.damaged == (0 < kept < len(records))


def _with_hole(records: list[NewMessage], hole: int) -> MemoryLog:
    log = MemoryLog(Limits())
    for record in records:
        log.append([record])
    log.delete(hole)
    return log


def test_after_a_lost_record_deliveries_do_not_move_a_subscription_on() -> None:
    """The lost record said that 3 and 4 were sent: they may never have been acknowledged."""
    entries = [
        _subscribed(),
        state.sent(1, [1, 2]),
        state.sent(1, [3, 4]),
        state.acked(1, [1]),
        state.sent(1, [5]),
        state.last_sent(1, 6),
        _subscribed(1, 7),
    ]
    log = _with_hole([state.record([entry]) for entry in entries], 3)
    recovery = StateRecovery(log)
    record = recovery.run().subscriptions[1]
    assert recovery.damaged
    assert (record.last_sent, record.state.last_sent, record.pending) == (2, 2, {2})


def test_a_subscription_made_after_a_lost_record_is_not_certain() -> None:
    log = _with_hole([state.record([_subscribed(number, 9)]) for number in (1, 2, 3)], 2)
    records = StateRecovery(log).run().subscriptions
    assert {identity: record.is_certain for identity, record in records.items()} == {1: True, 3: False}


def test_a_group_goes_on_from_its_certain_members_after_a_loss() -> None:
    """What is lost said that 3 and 4 went to the first member; the second joined, unsynced, after it."""
    members = [
        SubState(number, b"me", b"q", b"in%d" % number, b"_INBOX.%d" % number, 9, 30) for number in (1, 2)
    ]
    records = [
        state.record([state.client(ClientInfo(b"me", b"_HB.me"))]),
        state.record([state.subscribed(SubscriptionRecord(b"foo", members[0], set(), 2))]),
        state.record([state.sent(1, [3, 4])]),
        state.record([state.subscribed(SubscriptionRecord(b"foo", members[1], set(), 4))]),
    ]
    store = MemoryStore()
    for _ in range(5):
        store.open(b"foo").append([NewMessage(b"foo", b"x")])
    for record in records:
        store.open(STATE_LOG).append([record])
    store.open(STATE_LOG).delete(3)
    world = World(store=store)
    got = [MsgProto.decode(one).sequence for inbox in (b"in1", b"in2") for one in world.take(inbox)]
    assert sorted(got) == [3, 4, 5]


def test_a_snapshot_after_a_lost_record_is_certain_again() -> None:
    records = [state.record([_subscribed(3)]), state.record([]), *state.snapshot(_full())]
    records.append(state.record([state.sent(3, [10])]))
    recovered = StateRecovery(_with_hole(records, 2)).run()
    assert (recovered.subscriptions[3].last_sent, recovered.subscriptions[3].is_certain) == (10, True)


def test_a_snapshot_with_a_hole_is_not_believed_while_there_is_a_state_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(change_log, "_RECORD_BYTES", 1)
    before = ServiceState(INFO, {b"old": ClientInfo(b"old", b"hb")})
    records = [*state.snapshot(before), *state.snapshot(_full())]
    first = len(state.snapshot(before)) + 1
    for hole in range(first, len(records) + 1):
        recovery = StateRecovery(_with_hole(records, hole))
        found = recovery.run()
        assert recovery.damaged or hole == len(records), hole
        assert b"old" in found.clients, hole
        if hole == first:  # where the snapshot begins
            assert set(found.clients) == {b"old", b"a", b"b"}


def test_a_snapshot_with_a_hole_is_better_than_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "_RECORD_BYTES", 1)
    records = state.snapshot(_full())
    recovery = StateRecovery(_with_hole(records, 3))
    assert set(recovery.run().subscriptions) == {3, 4}
    assert recovery.damaged


def test_after_a_cut_off_snapshot_the_service_writes_one_before_anything_else() -> None:
    store = MemoryStore()
    world = World(store=store)
    world.connect()
    log = store.open(STATE_LOG)
    log.append([NewMessage(b"$STAN.state", change_log.entry(b"("))])
    world.restart()
    world.connect(b"second")
    world.restart()
    assert world.service.snapshot_server().clients == 2


def test_the_log_does_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "_MIN_GROWTH", 5_000)
    world = World()
    world.connect()
    sub = world.subscribe(b"foo", durable=b"d", max_in_flight=50)
    for number in range(1, 1001):
        world.publish(b"foo", b"x")
        if number % 7:
            world.ack(sub, number)
        if number % 20 == 0:
            for message in world.received(sub):
                world.ack(sub, message.sequence)
    assert world.store.open(STATE_LOG).state().bytes < 20_000
    last, pending = world.sequences(sub)[-1:], world.pending(sub)
    world.restart()
    assert world.pending(sub) == pending
    assert load_state(world.store).subscriptions[1].last_sent == 1000
    assert last in ([], [1000])


def test_the_log_of_a_store_in_memory_is_not_much_more_than_the_state() -> None:
    """Clients that come and go for hours would fill megabytes that nobody reads."""
    world = World(StreamingOptions(store_type="MEMORY"))
    for number in range(600):
        client = b"client-%d" % number
        world.connect(client)
        world.subscribe(b"foo", client_id=client)
        world.disconnect(client)

    assert world.store.open(STATE_LOG).state().bytes < 250_000


def test_one_tick_is_one_record() -> None:
    world = World()
    world.connect()
    subs = [world.subscribe(b"foo", max_in_flight=100) for _ in range(5)]
    before = world.store.open(STATE_LOG).state().messages
    world.publish(b"foo", *[b"x"] * 10)
    assert world.store.open(STATE_LOG).state().messages == before + 2  # it and its copy
    for sub in subs:
        world.host.receive(sub.ack_inbox, b"\x0a\x03foo\x10\x01")
    world.settle()
    assert world.store.open(STATE_LOG).state().messages == before + 4


@pytest.mark.parametrize("seed", range(5))
def test_any_prefix_of_the_log_is_a_state_that_starts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure may cut the state's log anywhere, independently of the channels' logs."""
    monkeypatch.setattr(change_log, "_MIN_GROWTH", 2_000)
    dice = random.Random(seed)
    world = World()
    records: list[list[NewMessage]] = []
    append = MemoryLog.append

    def recorded(log: MemoryLog, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
        if log is world.store.open(STATE_LOG):
            records.append(list(batch))
        return append(log, batch, first_sequence)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "append", recorded)
        for number in range(40):
            _random_step(world, dice, number)
    for kept in range(0, len(records), 3):
        store = MemoryStore(lambda: world.host.now)
        for batch in records[:kept]:
            store.open(STATE_LOG).append(batch)
        for name in world.store.names():
            if name != STATE_LOG:
                copied = [NewMessage(*message[2:4], time_ns=message[1]) for message in _all(world, name)]
                store.open(name).append(copied) if copied else store.open(name)
        other = World(store=store)
        other.advance(100)
        other.connect(b"fresh")
        assert other.publish(b"c0", b"x", client_id=b"fresh") == [b""]


def _all(world: World, name: bytes) -> list[tuple[int, int, bytes, bytes]]:
    return [
        (one.sequence, one.time_ns, one.subject, one.payload)
        for one in world.store.open(name).read_from(1).messages
    ]


def _random_step(world: World, dice: random.Random, number: int) -> None:
    client = b"client%d" % dice.randrange(3)
    channel = b"c%d" % dice.randrange(3)
    match dice.randrange(5):
        case 0:
            world.connect(client)
        case 1 if world.ping(client).error == b"":
            kinds = [(b"", b""), (b"d%d" % number, b""), (b"", b"q"), (b"d", b"q")]
            durable, queue = dice.choice(kinds)
            world.subscribe(channel, client_id=client, durable=durable, queue=queue, start=4)
        case 2 if world.ping(client).error == b"":
            world.publish(channel, b"x", b"y", client_id=client)
        case 3:
            world.disconnect(client)
        case _:
            world.advance(dice.choice([0.1, 31]))


def test_syncs_that_fail_one_after_the_other_are_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    said = []
    for number, error in enumerate([None, "disk", "disk", "disk", None, "disk"]):
        connecting = ConnectRequest(b"c%d" % number, b"hb").encode()
        world.send(b"_STAN.discover.test-cluster", connecting, b"connected")
        world.settle()
        committer.commit(None if error is None else StorageError(error))
        said.append(sum("state could not be synced" in record.message for record in caplog.records))

    assert said == [0, 1, 1, 1, 1, 2]
