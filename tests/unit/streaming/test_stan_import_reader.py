"""What the real stores do not show: other checksums, lost slices and indexes, odd files, damage by kind."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING

import pytest
from stan_import_store import (
    VERSION,
    ChannelWriter,
    client,
    durable,
    no_checksum,
    read_all,
    typed,
    write_server,
)

from headrace.importing.findings import Finding, Severity, SourceInUse, SourceUnusable
from headrace.importing.source_guard import LOCK_FILE, SourceGuard
from headrace.protocol.stan import ClientDelete, MsgProto
from headrace.streaming.importing.checksums import CASTAGNOLI, IEEE, KOOPMAN, Checksum
from headrace.streaming.importing.reader import SourceChannel, SourceChannelStore, open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _store(
    directory: Path, *writers: ChannelWriter, crc: Callable[[bytes], int] = zlib.crc32, index: bool = True
) -> Path:
    write_server(directory, client(b"me"), crc=crc)
    for writer in writers:
        writer.write(directory, index=index)
    return directory


def _foo(
    messages: int = 10, *, slice_messages: int = 1 << 30, crc: Callable[[bytes], int] = zlib.crc32
) -> ChannelWriter:
    writer = ChannelWriter(b"foo", crc, slice_messages)
    writer.messages(messages)
    return writer


def _channel(store: SourceChannelStore) -> SourceChannel:
    (channel,) = store.channels
    return channel


def _read(path: Path, *, verify: bool = True) -> tuple[list[int], list[Finding]]:
    messages, findings = read_all(_channel(open_store(path, verify=verify)))
    return [message.sequence for message in messages], findings


def _damage(path: Path, writer: ChannelWriter, sequence: int, at: int = 12, by: int = 1) -> None:
    """Changes a byte of a message's record: 0 its length, 4 its checksum, 8 its body."""
    number, start, _ = writer.starts[sequence]
    file = path / "foo" / f"msgs.{number}.dat"
    data = bytearray(file.read_bytes())
    data[start + at] ^= by
    file.write_bytes(data)


# -- checksums


@pytest.mark.parametrize("polynomial", [IEEE, CASTAGNOLI, KOOPMAN])
def test_a_known_polynomial_is_found_out(tmp_path: Path, polynomial: int) -> None:
    crc = Checksum(polynomial).of
    path = _store(tmp_path, _foo(crc=crc), crc=crc)
    store = open_store(path)
    assert store.checksum is not None
    assert store.checksum.polynomial == polynomial
    assert _read(path) == ([*range(1, 11)], [])


def test_an_unknown_polynomial_can_be_named(tmp_path: Path) -> None:
    checksum = Checksum(0xA833982B)
    writer = _foo(crc=checksum.of)
    path = _store(tmp_path, writer, crc=checksum.of)
    _damage(path, writer, 5)
    messages, findings = read_all(_channel(open_store(path, checksum)))
    assert [message.sequence for message in messages] == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert findings[0].kind is Severity.DAMAGED
    assert open_store(path).checksum is None


def test_checksums_are_those_of_the_standard() -> None:
    """The check values of the catalogue of CRC algorithms, for 123456789."""
    assert Checksum(IEEE).of(b"123456789") == 0xCBF43926
    assert Checksum(CASTAGNOLI).of(b"123456789") == 0xE3069283
    assert Checksum(KOOPMAN).of(b"123456789") == 0x2D3DD0AE
    for polynomial in (0, -1, 1 << 32):
        with pytest.raises(ValueError, match="polynomial"):
            Checksum(polynomial)


def test_one_damaged_file_does_not_turn_checksums_off(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo())
    (path / "server.dat").write_bytes(VERSION + b"garbage, garbage")
    assert open_store(path).checksum is not None


def test_a_store_without_checksums_is_read(tmp_path: Path) -> None:
    writer = _foo(crc=no_checksum)
    writer.new(durable(1))
    writer.sent(1, 1, 2, 3)
    writer.acked(1, 2)
    store = open_store(_store(tmp_path, writer, crc=no_checksum))
    assert store.checksum is None
    assert "no known checksum" in str(store.findings[0])
    assert not store.findings[0].is_damage
    messages, findings = read_all(_channel(store))
    assert [message.sequence for message in messages] == [*range(1, 11)]
    assert not findings
    assert _channel(store).subscriptions[0].pending == (1, 3)


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize(
    ("at", "by"),
    [(8, 1), (9, 0x40), (10, 1), (11, 1), (12, 1)],
    ids=["key", "sequence", "tag", "size", "name"],
)
def test_without_checksums_a_record_of_another_shape_is_damage(
    tmp_path: Path, at: int, by: int, index: bool
) -> None:
    writer = _foo(crc=no_checksum)
    path = _store(tmp_path, writer, crc=no_checksum, index=index)
    _damage(path, writer, 5, at, by)
    sequences, findings = _read(path)
    assert sequences == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert [(f.kind, f.first_sequence, f.last_sequence) for f in findings] == [(Severity.DAMAGED, 5, 5)]


def test_without_checksums_a_wrong_length_needs_the_index(tmp_path: Path) -> None:
    writer = _foo(crc=no_checksum)
    path = _store(tmp_path, writer, crc=no_checksum)
    _damage(path, writer, 5, 0, 0xFF)
    assert _read(path)[0] == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    (path / "foo" / "msgs.1.idx").unlink()
    sequences, findings = _read(path)
    assert sequences == [1, 2, 3, 4]
    assert str(findings[-1]).endswith("; from sequence 5 on")


def test_without_checksums_impossible_sequences_in_subscriptions_are_damage(tmp_path: Path) -> None:
    writer = _foo(crc=no_checksum)
    writer.new(durable(1))
    writer.sent(1, 1, 2, 1 << 60, 3)
    writer.acked(1, 1)
    channel = _channel(open_store(_store(tmp_path, writer, crc=no_checksum)))
    assert channel.subscriptions[0].pending == (2, 3)
    assert channel.subscriptions[0].state.last_sent == 3
    assert "never had" in str(channel.findings[0])


# -- slices


def test_first_slices_that_limits_removed_are_not_missed(tmp_path: Path) -> None:
    writer = _foo(30, slice_messages=10)
    write_server(tmp_path)
    writer.write(tmp_path, first_slice=3)
    assert _read(tmp_path) == ([*range(21, 31)], [])


def test_a_slice_missing_in_the_middle_is_reported(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo(30, slice_messages=10))
    (path / "foo" / "msgs.2.dat").unlink()
    sequences, (finding,) = _read(path)
    assert sequences == [*range(1, 11), *range(21, 31)]
    assert (finding.kind, finding.first_sequence, finding.last_sequence) == (Severity.MISSING, 11, 20)
    assert finding.file == "foo/msgs.3.dat"


@pytest.mark.parametrize("kept", [0, 7])
def test_a_last_slice_of_which_the_index_alone_is_left_is_reported(tmp_path: Path, kept: int) -> None:
    store = _store(tmp_path, _foo(10, slice_messages=7 if kept else 1 << 30))
    (tmp_path / "foo" / f"msgs.{2 if kept else 1}.dat").unlink()

    (channel,) = open_store(store).channels
    messages, findings = read_all(channel)

    assert [message.sequence for message in messages] == list(range(1, kept + 1))
    assert [(one.kind, one.text, one.first_sequence, one.last_sequence) for one in findings] == [
        (Severity.MISSING, "the file is missing", kept + 1, 10)
    ]


def test_slices_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    assert _read(_store(tmp_path, _foo(25, slice_messages=2))) == ([*range(1, 26)], [])


def test_a_slice_that_is_there_twice_is_read_once(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo(20, slice_messages=10))
    (path / "foo" / "msgs.3.dat").write_bytes((path / "foo" / "msgs.1.dat").read_bytes())
    sequences, (finding,) = _read(path)
    assert sequences == [*range(1, 21)]
    assert (finding.kind, finding.file) == (Severity.NOTE, "foo/msgs.3.dat")


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo())
    for name in ("msgs.x.dat", "msgs.1.dat.bak", "msgs.2.idx", "subs123456", "notes.txt"):
        (path / "foo" / name).write_bytes(b"garbage")
    (path / "clients998877").write_bytes(b"left by a compaction that did not finish")
    (path / "lost+found").mkdir()
    assert _read(path) == ([*range(1, 11)], [])


def test_many_channels(tmp_path: Path) -> None:
    writers = []
    for number in range(120):
        writer = ChannelWriter(b"ch.%d" % number, zlib.crc32, slice_messages=4)
        writer.messages(number % 11)
        writers.append(writer)
    store = open_store(_store(tmp_path, *writers))
    assert {channel.name: len(read_all(channel)[0]) for channel in store.channels} == {
        b"ch.%d" % number: number % 11 for number in range(120)
    }


def test_a_channel_name_of_any_bytes(tmp_path: Path) -> None:
    write_server(tmp_path)
    folder = os.fsdecode(b"caf\xe9\n")
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "subs.dat").write_bytes(VERSION)
    channel = _channel(open_store(tmp_path))
    assert channel.name == b"caf\xe9\n"
    assert channel.shown == r"caf\xe9\x0a"


def test_a_message_larger_than_a_chunk(tmp_path: Path) -> None:
    writer = _foo(1)
    payload = bytes(range(256)) * (3 << 12)
    writer.message(payload)
    writer.messages(1)
    messages, findings = read_all(_channel(open_store(_store(tmp_path, writer))))
    assert [len(message.payload) for message in messages][1] == 3 << 20
    assert messages[1].payload == payload
    assert not findings


# -- bad tails


@pytest.mark.parametrize("zeros", [1, 8, 4096])
def test_space_never_written_ends_a_file(tmp_path: Path, zeros: int) -> None:
    """As a power failure leaves it; the server cuts it off without a word."""
    path = _store(tmp_path, _foo())
    for name in ("msgs.1.dat", "msgs.1.idx", "subs.dat"):
        with (path / "foo" / name).open("ab") as file:
            file.write(bytes(zeros))
    sequences, (finding,) = _read(path)
    assert sequences == [*range(1, 11)]
    assert (finding.kind, finding.length) == (Severity.NOTE, zeros)


def test_zeros_where_the_index_has_messages_are_damage(tmp_path: Path) -> None:
    writer = _foo()
    path = _store(tmp_path, writer)
    data = path / "foo" / "msgs.1.dat"
    _, start, end = writer.starts[8][1], writer.starts[8][1], writer.starts[10][2]
    data.write_bytes(data.read_bytes()[:start] + bytes(end - start))
    sequences, findings = _read(path)
    assert sequences == [*range(1, 8)]
    (finding,) = [finding for finding in findings if finding.is_damage]
    assert (finding.first_sequence, finding.last_sequence) == (8, 10)


@pytest.mark.parametrize("keep", [0, 3, 8, 20])
def test_a_torn_last_record_is_cut_off(tmp_path: Path, keep: int) -> None:
    writer = _foo()
    path = _store(tmp_path, writer)
    data = path / "foo" / "msgs.1.dat"
    data.write_bytes(data.read_bytes()[: writer.starts[10][1] + keep])
    sequences, (finding,) = _read(path)
    assert sequences == [*range(1, 10)]
    assert (finding.kind, finding.first_sequence, finding.last_sequence) == (Severity.CUT, 10, 10)


def test_a_torn_last_record_that_no_index_knows(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo())
    with (path / "foo" / "msgs.1.dat").open("ab") as file:
        file.write(b"\x40\x00\x00\x00\x12\x34\x56\x78\x08\x0b")
    sequences, (finding,) = _read(path)
    assert sequences == [*range(1, 11)]
    assert (finding.kind, finding.first_sequence, finding.last_sequence) == (Severity.CUT, 11, 0)


def test_an_empty_file_among_slices(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo(10))
    (path / "foo" / "msgs.2.dat").write_bytes(b"")
    assert _read(path) == ([*range(1, 11)], [])


# -- damage in the middle


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("at", [0, 3, 4, 8, 9, 15, 25])
def test_one_damaged_record_costs_one_message(tmp_path: Path, at: int, index: bool) -> None:
    writer = _foo()
    path = _store(tmp_path, writer, index=index)
    _damage(path, writer, 5, at, 0xFF)
    sequences, (finding,) = _read(path)
    assert sequences == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert (finding.first_sequence, finding.last_sequence) == (5, 5)
    assert (finding.offset, finding.offset + finding.length) == writer.starts[5][1:]


@pytest.mark.parametrize("index", [True, False])
def test_damage_in_two_places(tmp_path: Path, index: bool) -> None:
    writer = _foo()
    path = _store(tmp_path, writer, index=index)
    _damage(path, writer, 3, 0, 0xFF)
    _damage(path, writer, 7, 0, 0xFF)
    _damage(path, writer, 8, 0, 0xFF)
    sequences, findings = _read(path)
    assert sequences == [1, 2, 4, 5, 6, 9, 10]
    assert [(f.first_sequence, f.last_sequence) for f in findings] == [(3, 3), (7, 8)]


def test_a_good_record_between_damaged_ones_and_index_entries(tmp_path: Path) -> None:
    writer = _foo()
    path = _store(tmp_path, writer)
    _damage(path, writer, 3, 0, 0xFF)
    index = bytearray((path / "foo" / "msgs.1.idx").read_bytes())
    index[4 + 3 * 32] ^= 1  # that of message 4
    (path / "foo" / "msgs.1.idx").write_bytes(index)
    assert _read(path)[0] == [1, 2, 4, 5, 6, 7, 8, 9, 10]


def test_damage_at_the_end_of_one_slice_and_the_start_of_the_next(tmp_path: Path) -> None:
    writer = _foo(20, slice_messages=10)
    path = _store(tmp_path, writer)
    _damage(path, writer, 10, 0, 0xFF)
    _damage(path, writer, 11, 0, 0xFF)
    channel = _channel(open_store(path))
    reading = channel.messages()
    items = list(reading.items())
    findings = [item for item in items if isinstance(item, Finding)]
    assert [(f.file, f.first_sequence, f.last_sequence) for f in findings] == [
        ("foo/msgs.1.dat", 10, 10),
        ("foo/msgs.2.dat", 11, 11),
    ]
    assert reading.lost == 2


def test_a_slice_of_noise(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo(30, slice_messages=10))
    (path / "foo" / "msgs.2.dat").write_bytes(b"\xa5" * 900)
    sequences, findings = _read(path)
    assert sequences == [*range(1, 11), *range(21, 31)]
    assert {(f.file, f.first_sequence, f.last_sequence) for f in findings} == {("foo/msgs.2.dat", 11, 20)}


def test_a_record_inside_a_payload_is_not_a_message(tmp_path: Path) -> None:
    """Whoever publishes a copy of a store's bytes does not get them read as messages after damage."""
    inner = MsgProto(6, b"foo", b"", b"invented", 1).encode()
    record = len(inner).to_bytes(4, "little") + zlib.crc32(inner).to_bytes(4, "little") + inner
    for index in (True, False):
        writer = _foo(4)
        writer.message(b"before " + record + b" after")
        writer.messages(3)
        path = _store(tmp_path / str(index), writer, index=index)
        _damage(path, writer, 5, 0, 0xFF)
        messages, _ = read_all(_channel(open_store(path)))
        assert b"invented" not in [message.payload for message in messages]
        assert [message.sequence for message in messages] == [1, 2, 3, 4, 6, 7, 8]


@pytest.mark.parametrize(("index", "at"), [(True, 0), (True, 12), (False, 12)])
def test_records_inside_a_payload_are_not_messages_where_index_or_length_is_whole(
    tmp_path: Path, index: bool, at: int
) -> None:
    records = b""
    for sequence in (6, 7):
        inner = MsgProto(sequence, b"foo", b"", b"invented", 1).encode()
        records += len(inner).to_bytes(4, "little") + zlib.crc32(inner).to_bytes(4, "little") + inner
    writer = _foo(4)
    writer.message(b"before " + records + b" after")
    writer.messages(3)
    path = _store(tmp_path, writer, index=index)
    _damage(path, writer, 5, at, 0xFF)
    messages, _ = read_all(_channel(open_store(path)))
    assert b"invented" not in [message.payload for message in messages]
    assert [message.sequence for message in messages] == [1, 2, 3, 4, 6, 7, 8]


def test_an_index_of_garbage_costs_nothing(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo())
    (path / "foo" / "msgs.1.idx").write_bytes(b"\xff" * 333)
    assert _read(path) == ([*range(1, 11)], [])


# -- subscriptions and clients


def _pending(path: Path) -> tuple[tuple[int, ...], int, tuple[Finding, ...]]:
    channel = _channel(open_store(path))
    (subscription,) = channel.subscriptions
    return subscription.pending, subscription.state.last_sent, channel.findings


def test_updates_change_all_but_what_is_pending(tmp_path: Path) -> None:
    writer = _foo()
    writer.new(durable(1))
    writer.sent(1, 1, 2, 3)
    writer.acked(1, 1)
    writer.update(durable(1, last_sent=3, is_closed=True))
    channel = _channel(open_store(_store(tmp_path, writer)))
    assert channel.subscriptions[0].state.is_closed
    assert channel.subscriptions[0].pending == (2, 3)


def test_a_deleted_subscription_is_gone(tmp_path: Path) -> None:
    writer = _foo()
    writer.new(durable(1))
    writer.sent(1, 1)
    writer.delete(1)
    writer.acked(1, 1)
    writer.new(durable(2, name=b"other"))
    channel = _channel(open_store(_store(tmp_path, writer)))
    assert [s.state.id for s in channel.subscriptions] == [2]
    assert [finding.kind for finding in channel.findings] == [Severity.NOTE]


def test_what_was_sent_in_lost_records_is_taken_for_not_acknowledged(tmp_path: Path) -> None:
    writer = _foo()
    writer.new(durable(1))
    writer.sent(1, 1, 2)
    start = len(writer.subs)
    writer.sent(1, 3, 4)
    end = len(writer.subs)
    writer.sent(1, 5)
    writer.acked(1, 1, 2)
    writer.subs[start:end] = b"\xa5" * (end - start)
    pending, last_sent, findings = _pending(_store(tmp_path, writer))
    assert pending == (3, 4, 5)
    assert last_sent == 5
    assert [(f.kind, f.offset, f.length) for f in findings] == [(Severity.DAMAGED, start, end - start)]


def test_a_queue_group_shares_what_was_sent_in_lost_records(tmp_path: Path) -> None:
    writer = _foo()
    for identity in (1, 2):
        writer.new(durable(identity, name=b"", q_group=b"d:g"))
    writer.sent(1, 1)
    writer.sent(2, 2)
    start = len(writer.subs)
    writer.sent(1, 3)
    writer.subs[start + 9] ^= 1
    writer.sent(2, 4)
    channel = _channel(open_store(_store(tmp_path, writer)))
    assert {s.state.id: s.pending for s in channel.subscriptions} == {1: (1,), 2: (2, 3, 4)}


def test_a_record_whose_type_is_damaged_is_reported(tmp_path: Path) -> None:
    """The checksum does not cover the type."""
    writer = _foo()
    writer.new(durable(1))
    writer.sent(1, 1)
    start = len(writer.subs)
    writer.sent(1, 2)
    assert writer.subs[start + 3] == 5
    writer.subs[start + 3] = 4  # an acknowledgement
    pending, _, findings = _pending(_store(tmp_path, writer))
    assert pending == (1, 2)
    assert findings[0].is_damage


def test_a_damaged_client_is_reported_and_the_others_stay(tmp_path: Path) -> None:
    write_server(tmp_path, client(b"one"), client(b"two"), client(b"three"))
    data = bytearray((tmp_path / "clients.dat").read_bytes())
    data[data.index(b"two")] ^= 1
    (tmp_path / "clients.dat").write_bytes(data + typed(2, ClientDelete(b"one").encode()))
    store = open_store(tmp_path)
    assert [found.id for found in store.clients] == [b"three"]
    assert not store.clients_are_whole
    assert store.findings[0].file == "clients.dat"


@pytest.mark.parametrize("name", ["server.dat", "clients.dat", "foo/subs.dat"])
def test_a_missing_file_is_reported(tmp_path: Path, name: str) -> None:
    path = _store(tmp_path, _foo())
    (path / name).unlink()
    store = open_store(path)
    findings = [*store.findings, *_channel(store).findings]
    assert [(finding.kind, finding.file) for finding in findings] == [(Severity.MISSING, name)]
    assert len(read_all(_channel(store))[0]) == 10


# -- what is no store


def test_another_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnusable, match="no file store of NATS Streaming"):
        open_store(tmp_path)
    with pytest.raises(SourceUnusable, match="No such file"):
        open_store(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SourceUnusable, match="Not a directory"):
        open_store(tmp_path / "file")


def test_another_version_of_the_format_is_refused(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo())
    for file in path.rglob("*.dat"):
        file.write_bytes(b"\x02" + file.read_bytes()[1:])
    with pytest.raises(SourceUnusable, match="version 2; only 1 is known"):
        open_store(path)


def test_one_wrong_version_is_damage(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo())
    file = path / "foo" / "msgs.1.dat"
    file.write_bytes(b"\x02" + file.read_bytes()[1:])
    sequences, (finding,) = _read(path)
    assert sequences == [*range(1, 11)]
    assert finding.is_damage


# -- a store in use

_HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""
_OPEN = """
import sys
file = open(sys.argv[1], "r+b")
print("held", flush=True)
sys.stdin.read()
"""


def _refused_while(arguments: list[str], directory: Path) -> str:
    process = subprocess.Popen(
        [sys.executable, "-c", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(SourceInUse) as refused, SourceGuard(directory):
            raise AssertionError("not refused")
        assert process.stdin is not None
        process.stdin.close()
    with SourceGuard(directory) as guard:
        guard.check()
    return str(refused.value)


@pytest.mark.parametrize("lock", ["lockf", "flock"])
def test_a_store_whose_lock_is_held_is_refused(tmp_path: Path, lock: str) -> None:
    path = _store(tmp_path, _foo())
    (path / LOCK_FILE).write_bytes(b"")
    text = _refused_while([_HOLD, str(path / LOCK_FILE), lock], path)
    assert "a server holds its lock" in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files of others are seen in /proc")
def test_a_store_whose_files_are_open_for_writing_is_refused(tmp_path: Path) -> None:
    """A server on its own takes no lock."""
    path = _store(tmp_path, _foo())
    assert "has its files open" in _refused_while([_OPEN, str(path / "foo" / "subs.dat")], path)


def test_a_store_that_changes_is_refused(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo())
    with SourceGuard(path) as guard:
        guard.check()
        with (path / "foo" / "msgs.1.dat").open("ab") as file:
            file.write(b"x")
        with pytest.raises(SourceInUse, match=r"changed while it was read \(foo/msgs.1.dat\)"):
            guard.check()


def test_guarding_leaves_no_trace(tmp_path: Path) -> None:
    path = _store(tmp_path, _foo())
    before = {str(file) for file in path.rglob("*")}
    with SourceGuard(path):
        pass
    assert {str(file) for file in path.rglob("*")} == before


def test_a_directory_that_is_not_there_cannot_be_guarded(tmp_path: Path) -> None:
    with pytest.raises(SourceUnusable, match="does not exist"), SourceGuard(tmp_path / "nowhere"):
        pass
