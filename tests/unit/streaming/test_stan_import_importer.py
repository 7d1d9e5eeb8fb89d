"""Filling a log store: everything comes over, twice is as good as once, what differs is refused."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING

import pytest
from stan_import_store import (
    GOLDEN,
    GOLDEN_NAMES,
    T0,
    ChannelWriter,
    client,
    durable,
    truth,
    typed,
    write_server,
)

from headrace.errors import LogError, StorageError
from headrace.importing.findings import ImportFailed, Severity, SourceInUse, TargetDiverged
from headrace.log.port import MessageLog, NewMessage, StoredMessage
from headrace.log.store import FileStore, LogStore, MemoryStore
from headrace.protocol.stan import ServerInfo, SubState
from headrace.streaming.importing.importer import StreamingImportReport, import_store
from headrace.streaming.importing.reader import open_store
from headrace.streaming.state import STATE_LOG, load_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.importing.progress import ImportProgress


@pytest.fixture(params=["memory", "file"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    store: LogStore = MemoryStore() if request.param == "memory" else FileStore(tmp_path / "target")
    yield store
    store.close()


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


def _messages(log: MessageLog) -> list[StoredMessage]:
    found, sequence = [], 1
    while sequence <= log.state().last_sequence:
        page = log.read_from(sequence)
        found += page.messages
        sequence = page.next_sequence
    return found


def _contents(store: LogStore) -> dict[bytes, list[StoredMessage]]:
    return {name: _messages(store.open(name)) for name in store.names()}


def _snapshot(directory: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def _golden(name: str, target: LogStore) -> StreamingImportReport:
    return import_store(open_store(GOLDEN / name / "store"), target)


# -- the real stores


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_every_message_comes_over_with_its_sequence_and_time(name: str, target: LogStore) -> None:
    report = _golden(name, target)
    for channel, rows in truth(name)["channels"].items():
        messages = _messages(target.open(channel.encode()))
        assert [message.sequence for message in messages] == [row["seq"] for row in rows]
        for message, row in zip(messages, rows, strict=True):
            assert message.subject == channel.encode()
            assert abs(message.time_ns - int(row["time_ns"])) <= 512
            assert len(message.payload) == row["size"]
            assert hashlib.sha256(message.payload).hexdigest() == row["sha256"]
    assert not report.is_damaged
    assert {channel.name: channel.imported for channel in report.channels} == {
        "big": 3,
        "orders.eu": 120,
        "orders.us": 30,
        "single": 2,
    }


@pytest.mark.parametrize("name", ["clean", "sliced"])
def test_durables_come_over_with_what_they_have_not_acknowledged(name: str, target: LogStore) -> None:
    _golden(name, target)
    state = load_state(target)
    assert state.server is not None
    assert state.server.cluster_id == b"golden"
    assert sorted(state.clients) == [b"publisher", b"reader-1"]
    assert sorted(state.subscriptions) == [1, 2]
    records = {record.channel.decode(): record for record in state.subscriptions.values()}
    for row in truth(name)["durables"]:
        record = records[row["channel"]]
        assert sorted(record.pending) == row["pending"]
        assert record.last_sent == max(row["acked"] + row["pending"])
        assert record.state.is_durable
        assert record.state.max_in_flight == row["max_in_flight"]
    assert truth(name)["removed_durable"]["channel"] not in records


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_second_run_changes_nothing(name: str, target: LogStore) -> None:
    first = _golden(name, target)
    before, positions = _contents(target), {n: target.open(n).written for n in target.names()}
    second = _golden(name, target)
    assert _contents(target) == before
    assert {n: target.open(n).written for n in target.names()} == positions
    assert first.state_written
    assert not second.state_written
    assert [channel.imported for channel in second.channels] == [0, 0, 0, 0]
    assert [channel.present for channel in second.channels] == [c.imported for c in first.channels]


def test_it_survives_reopening(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "target")
    _golden("sliced", store)
    before, state = _contents(store), load_state(store)
    store.close()
    again = FileStore(tmp_path / "target")
    assert _contents(again) == before
    assert load_state(again) == state
    assert not _golden("sliced", again).state_written
    again.close()


def test_the_source_is_not_touched(tmp_path: Path, memory: MemoryStore) -> None:
    copy = tmp_path / "store"
    shutil.copytree(GOLDEN / "sliced" / "store", copy)
    before = _snapshot(copy)
    import_store(open_store(copy), memory)
    assert _snapshot(copy) == before


def test_no_more_logs_are_open_than_one_when_they_are_released(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "target")
    released: list[MessageLog] = []

    def release(log: MessageLog) -> None:
        log.close()
        released.append(log)

    for _ in range(2):
        import_store(open_store(GOLDEN / "sliced" / "store"), store, release=release)
    assert len(released) == 4 + 4
    assert {name: store.open(name).state().messages for name in store.names() if name != STATE_LOG} == {
        b"big": 3,
        b"orders.eu": 120,
        b"orders.us": 30,
        b"single": 2,
    }
    store.close()


def test_progress_ends_with_everything_read(memory: MemoryStore) -> None:
    source = open_store(GOLDEN / "clean" / "store")
    seen: list[ImportProgress] = []
    import_store(source, memory, progress=seen.append)
    assert seen[-1].messages == 155
    assert seen[-1].bytes_read == sum(channel.message_bytes for channel in source.channels)
    assert [p.bytes_read for p in seen] == sorted(p.bytes_read for p in seen)


# -- going on


class _Breaks(Exception):
    pass


@pytest.mark.parametrize("calls", range(11))
def test_it_goes_on_where_it_was_interrupted(
    calls: int, target: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before its nth append, whichever that is."""
    source = open_store(_many_batches(tmp_path / "source"))
    monkeypatch.setattr("headrace.streaming.importing.importer._BATCH_MESSAGES", 10)
    whole = MemoryStore()
    import_store(source, whole)
    log_type = type(target.open(b"one"))
    append, left = log_type.append, calls

    def breaking(self: MessageLog, batch: list[NewMessage], first_sequence: int = 0) -> int:
        nonlocal left
        if not left:
            raise StorageError("no space left on device")
        left -= 1
        return append(self, batch, first_sequence)

    with monkeypatch.context() as patch:
        patch.setattr(log_type, "append", breaking)
        with pytest.raises(StorageError):
            import_store(source, target)
    report = import_store(source, target)
    assert report.state_written
    for name in (b"one", b"two"):
        assert _messages(target.open(name)) == _messages(whole.open(name))
    assert load_state(target) == load_state(whole)
    assert sum(channel.imported + channel.present for channel in report.channels) == 100


def _many_batches(directory: Path) -> Path:
    write_server(directory, client(b"me"))
    for name in (b"one", b"two"):
        writer = ChannelWriter(name, zlib.crc32, slice_messages=17)
        writer.messages(50)
        writer.new(durable(1))
        writer.sent(1, 1, 2, 3)
        writer.acked(1, 2)
        writer.write(directory)
    return directory


def test_state_comes_last(memory: MemoryStore) -> None:
    """Whoever finds the state finds all messages."""

    def stop() -> None:
        raise SourceInUse("changed")

    source = open_store(GOLDEN / "clean" / "store")
    with pytest.raises(SourceInUse):
        import_store(source, memory, before_state=stop)
    assert STATE_LOG not in memory.names()
    assert len(_messages(memory.open(b"orders.eu"))) == 120
    assert import_store(source, memory).state_written


# -- a target that is something else


def _append(store: LogStore, name: bytes, *payloads: bytes) -> None:
    store.open(name).append([NewMessage(name, payload) for payload in payloads])


def _change_nothing(store: LogStore, match: str) -> None:
    before = _contents(store)
    with pytest.raises(TargetDiverged, match=match):
        _golden("clean", store)
    assert _contents(store) == before


def test_other_messages_in_the_target_are_refused(target: LogStore) -> None:
    _append(target, b"single", b"mine")
    _change_nothing(target, r"channel single .* message 1 is another one")


def test_messages_after_the_last_are_refused(target: LogStore) -> None:
    _golden("clean", target)
    _append(target, b"single", b"published since")
    _change_nothing(target, r"channel single .* message 3 is not in the source")


def test_messages_removed_since_are_refused(target: LogStore) -> None:
    _golden("clean", target)
    target.open(b"orders.eu").delete(7)
    _change_nothing(target, r"channel orders.eu .* message 7 is gone")


def test_a_last_message_removed_since_is_refused(target: LogStore) -> None:
    _golden("clean", target)
    target.open(b"single").delete(2)
    _change_nothing(target, r"channel single .* message 2 is gone")


def test_a_purged_channel_is_refused(target: LogStore) -> None:
    _golden("clean", target)
    target.open(b"single").purge()
    _change_nothing(target, r"channel single .* message 1 is gone")


def test_a_strange_channel_is_refused(target: LogStore) -> None:
    _append(target, b"other", b"mine")
    _change_nothing(target, "'other'")


def test_a_target_whose_server_has_run_is_refused(target: LogStore, tmp_path: Path) -> None:
    _golden("killed", target)
    _change_nothing(target, "clients or subscriptions of its own")


def test_another_store_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    write_server(tmp_path / "empty", cluster=b"else")
    import_store(open_store(tmp_path / "empty"), memory)
    _change_nothing(memory, "cluster ID 'else'")


def test_a_fresh_server_of_the_same_cluster_is_no_obstacle(memory: MemoryStore, tmp_path: Path) -> None:
    write_server(tmp_path / "fresh", cluster=b"golden")
    import_store(open_store(tmp_path / "fresh"), memory)
    assert _golden("clean", memory).state_written
    assert sorted(load_state(memory).subscriptions) == [1, 2]


# -- odd sources


def _write(directory: Path, *writers: ChannelWriter, clients: tuple[bytes, ...] = (b"me",)) -> Path:
    write_server(directory, *map(client, clients))
    for writer in writers:
        writer.write(directory)
    return directory


def _channel(messages: int = 5) -> ChannelWriter:
    writer = ChannelWriter(b"foo", zlib.crc32)
    writer.messages(messages)
    return writer


def test_removed_first_slices_leave_the_sequences(tmp_path: Path, target: LogStore) -> None:
    writer = ChannelWriter(b"foo", zlib.crc32, slice_messages=10)
    writer.messages(45)
    write_server(tmp_path / "s")
    writer.write(tmp_path / "s", first_slice=4)
    report = import_store(open_store(tmp_path / "s"), target)
    state = target.open(b"foo").state()
    assert (state.first_sequence, state.last_sequence, state.messages) == (31, 45, 15)
    assert not report.is_damaged
    assert not import_store(open_store(tmp_path / "s"), target).channels[0].imported


def test_an_empty_channel_comes_over(tmp_path: Path, memory: MemoryStore) -> None:
    import_store(open_store(_write(tmp_path / "s", _channel(0))), memory)
    assert memory.names() == [STATE_LOG, b"foo"]


def test_replies_come_over(tmp_path: Path, memory: MemoryStore) -> None:
    writer = _channel(0)
    writer.message(b"x", reply=b"_INBOX.1")
    import_store(open_store(_write(tmp_path / "s", writer)), memory)
    assert _messages(memory.open(b"foo"))[0].reply == b"_INBOX.1"


@pytest.mark.parametrize(("plain", "told"), [(0, True), (1, False)])
def test_payloads_that_look_encrypted_are_told_of(
    tmp_path: Path, memory: MemoryStore, plain: int, told: bool
) -> None:
    writer = _channel(plain)
    writer.message(b"")
    for cipher in (1, 2):
        writer.message(bytes((cipher,)) + bytes(28))
    report = import_store(open_store(_write(tmp_path / "s", writer)), memory)
    assert any("looks encrypted" in str(finding) for finding in report.all_findings) is told
    assert not report.is_damaged


_DIES = """
import os, sys
from pathlib import Path
from headrace.log.file import FileLog
from headrace.log.store import FileStore
from headrace.streaming.importing import importer
from headrace.streaming.importing.reader import open_store

source, target, left = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
importer._BATCH_MESSAGES = 10
append = FileLog.append

def dying(self, batch, first_sequence=0):
    global left
    append(self, batch, first_sequence)
    left -= 1
    if not left:
        os._exit(9)

FileLog.append = dying
importer.import_store(open_store(source), FileStore(target))
"""


@pytest.mark.parametrize("appends", [1, 6, 10, 11])
def test_it_goes_on_after_the_process_died(tmp_path: Path, appends: int) -> None:
    path = _many_batches(tmp_path / "source")
    arguments = [str(path), str(tmp_path / "target"), str(appends)]
    assert subprocess.run([sys.executable, "-c", _DIES, *arguments], check=False).returncode == 9
    store, whole = FileStore(tmp_path / "target"), MemoryStore()
    report = import_store(open_store(path), store)
    import_store(open_store(path), whole)
    assert [channel.imported + channel.present for channel in report.channels] == [50, 50]
    assert sum(channel.present for channel in report.channels) >= min(10 * appends, 100)
    for name in (b"one", b"two"):
        assert _messages(store.open(name)) == _messages(whole.open(name))
    assert load_state(store) == load_state(whole)
    store.close()


def test_times_never_go_back(tmp_path: Path, target: LogStore) -> None:
    writer = _channel(0)
    for time_ns in (T0, T0 - 5, T0 + 1):
        writer.message(b"x", time_ns=time_ns)
    path = _write(tmp_path / "s", writer)
    report = import_store(open_store(path), target)
    assert [message.time_ns for message in _messages(target.open(b"foo"))] == [T0, T0, T0 + 1]
    assert not report.is_damaged
    assert "1 messages older than the one before" in str(report.all_findings[0])
    assert import_store(open_store(path), target).channels[0].present == 3


def test_after_a_lost_end_no_sequence_is_given_twice(tmp_path: Path, target: LogStore) -> None:
    """The index, or a durable, knows of messages that are lost: their numbers stay theirs."""
    writer = _channel(10)
    writer.new(durable(1))
    writer.sent(1, *range(1, 11))
    folder = writer.write(tmp_path / "s")
    write_server(tmp_path / "s", client(b"me"))
    data = folder / "msgs.1.dat"
    data.write_bytes(data.read_bytes()[: writer.starts[7][1] + 5])
    report = import_store(open_store(tmp_path / "s"), target)
    state = target.open(b"foo").state()
    assert (state.messages, state.last_sequence) == (6, 10)
    assert report.channels[0].lost == 4
    assert report.is_damaged
    again = import_store(open_store(tmp_path / "s"), target)
    assert again.channels[0].present == 6
    assert again.channels[0].imported == 0
    assert target.open(b"foo").append([NewMessage(b"foo", b"new")]) == 11


def test_interrupted_before_the_lost_end_was_skipped(
    tmp_path: Path, target: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = _channel(4)
    writer.new(durable(1, last_sent=9))
    path = _write(tmp_path / "s", writer)
    log_type = type(target.open(b"foo"))
    append = log_type.append

    def breaking(self: MessageLog, batch: list[NewMessage], first_sequence: int = 0) -> int:
        if not batch:
            raise StorageError("no space left on device")
        return append(self, batch, first_sequence)

    with monkeypatch.context() as patch:
        patch.setattr(log_type, "append", breaking)
        with pytest.raises(StorageError):
            import_store(open_store(path), target)
    assert target.open(b"foo").state().last_sequence == 4
    report = import_store(open_store(path), target)
    assert report.channels[0].present == 4
    assert target.open(b"foo").state().last_sequence == 9


def test_damage_in_the_middle_leaves_a_gap_and_is_reported(tmp_path: Path, target: LogStore) -> None:
    writer = _channel(10)
    folder = writer.write(tmp_path / "s")
    write_server(tmp_path / "s")
    data = bytearray((folder / "msgs.1.dat").read_bytes())
    data[writer.starts[4][1] + 12] ^= 1
    (folder / "msgs.1.dat").write_bytes(data)
    for _ in range(2):
        report = import_store(open_store(tmp_path / "s"), target)
        assert [m.sequence for m in _messages(target.open(b"foo"))] == [1, 2, 3, 5, 6, 7, 8, 9, 10]
        (finding,) = report.all_findings
        assert (finding.kind, finding.first_sequence, finding.last_sequence) == (Severity.DAMAGED, 4, 4)
        assert finding.file == "foo/msgs.1.dat"
        assert report.channels[0].lost == 1


def test_a_damaged_server_file_needs_the_cluster_id(tmp_path: Path, memory: MemoryStore) -> None:
    path = _write(tmp_path / "s", _channel())
    (path / "server.dat").write_bytes(b"\x01\x00\x00\x00\xff\xff")
    with pytest.raises(ImportFailed, match="say which cluster ID"):
        import_store(open_store(path), memory)
    assert memory.names() == []
    report = import_store(open_store(path), memory, cluster_id=b"c9")
    assert report.is_damaged
    server = load_state(memory).server
    assert server == ServerInfo(
        b"c9",
        b"_STAN.discover.c9",
        b"_STAN.pub.c9",
        b"_STAN.sub.c9",
        b"_STAN.unsub.c9",
        b"_STAN.close.c9",
        b"_STAN.subclose.c9",
        b"_STAN.ack.c9",
    )


def test_another_cluster_id_than_the_stores_is_refused(memory: MemoryStore) -> None:
    with pytest.raises(ImportFailed, match="'x' does not match the store's, 'golden'"):
        import_store(open_store(GOLDEN / "clean" / "store"), memory, cluster_id=b"x")


# -- subscriptions whose client is gone


def _state_of(
    tmp_path: Path, *states: SubState, clients: tuple[bytes, ...] = (b"me",)
) -> StreamingImportReport:
    writer = _channel()
    for state in states:
        writer.new(state)
        writer.sent(state.id, state.id)
    return import_store(open_store(_write(tmp_path / "s", writer, clients=clients)), _STORES[-1])


_STORES: list[MemoryStore] = []


@pytest.fixture(autouse=True)
def _a_store() -> Iterator[None]:
    _STORES.append(MemoryStore())
    yield
    _STORES.pop().close()


def _found() -> list[tuple[bytes, bytes, bool, set[int]]]:
    records = load_state(_STORES[-1]).subscriptions.values()
    return [(r.state.client_id, r.state.q_group, r.state.is_closed, r.pending) for r in records]


def _member(identity: int, client_id: bytes, *, is_durable: bool = True) -> SubState:
    group = b"d:workers" if is_durable else b"workers"
    return SubState(identity, client_id, group, b"in", b"ack", 10, 30, is_durable=is_durable)


def test_a_durable_without_its_client_is_offline(tmp_path: Path) -> None:
    _state_of(tmp_path, durable(1, b"gone"), durable(2, b"me"))
    assert _found() == [(b"gone", b"", True, {1}), (b"me", b"", False, {2})]


def test_a_plain_subscription_without_its_client_is_left_out(tmp_path: Path) -> None:
    plain = SubState(1, b"gone", b"", b"in", b"ack", 10, 30)
    report = _state_of(tmp_path, plain, _member(2, b"gone", is_durable=False))
    assert _found() == []
    assert len(report.all_findings) == 2
    assert not report.is_damaged


def test_a_plain_subscription_of_a_client_stays(tmp_path: Path) -> None:
    _state_of(tmp_path, SubState(1, b"me", b"", b"in", b"ack", 10, 30))
    assert _found() == [(b"me", b"", False, {1})]


def test_a_ghost_in_a_durable_queue_is_left_out(tmp_path: Path) -> None:
    _state_of(tmp_path, _member(1, b"me"), _member(2, b"gone"))
    assert _found() == [(b"me", b"d:workers", False, {1})]


def test_a_durable_queue_of_ghosts_only_is_kept_without_members(tmp_path: Path) -> None:
    _state_of(tmp_path, _member(1, b"gone"), _member(2, b"gone too"))
    assert _found() == [(b"", b"d:workers", False, {1, 2})]


def test_when_clients_are_damaged_a_ghosts_messages_go_to_the_rest(tmp_path: Path) -> None:
    writer = _channel()
    for identity, name in ((1, b"me"), (2, b"lost")):
        writer.new(_member(identity, name))
        writer.sent(identity, identity)
    path = _write(tmp_path / "s", writer)
    record = bytearray(typed(1, client(b"lost").encode()))
    record[-1] ^= 1
    with (path / "clients.dat").open("ab") as file:
        file.write(record)
    report = import_store(open_store(path), _STORES[-1])
    assert _found() == [(b"me", b"d:workers", False, {1, 2})]
    assert report.is_damaged


def test_subscription_ids_are_unique_over_channels(tmp_path: Path) -> None:
    writers = []
    for name in (b"one", b"two"):
        writer = ChannelWriter(name, zlib.crc32)
        writer.messages(3)
        writer.new(durable(1, last_sent=2))
        writer.sent(1, 3)
        writers.append(writer)
    import_store(open_store(_write(tmp_path / "s", *writers)), _STORES[-1])
    records = load_state(_STORES[-1]).subscriptions
    assert {key: (r.channel, r.pending, r.last_sent) for key, r in records.items()} == {
        1: (b"one", {3}, 3),
        2: (b"two", {3}, 3),
    }


def test_a_store_error_is_the_callers(tmp_path: Path, memory: MemoryStore) -> None:
    memory.close()
    with pytest.raises(LogError):
        _golden("clean", memory)
