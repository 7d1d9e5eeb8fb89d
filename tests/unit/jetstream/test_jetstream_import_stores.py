"""Reading stores of nats-server 2.10 to 2.15: what real ones hold, and what damage to them costs."""

from __future__ import annotations

import json
import shutil
import struct
from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.change_log import read_changes
from headrace.importing.findings import Finding, ImportFailed, SourceUnusable
from headrace.jetstream.importing.crypt import Keys, NoKey
from headrace.jetstream.importing.importer import import_store
from headrace.jetstream.importing.model import SourceStreamMessage
from headrace.jetstream.importing.reader import SourceStream, open_store
from headrace.jetstream.state.records import AccountChanges
from headrace.log.store import FileStore
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "golden" / "stores"
NAMES = sorted(path.parent.name for path in GOLDEN.glob("*/truth.json"))
NEWEST = GOLDEN / "2.15.1" / "store"
KEYS = Keys(["golden"])
KEEP = Path("$G/streams/KEEP")


def stream_of(store: Path, name: str = "KEEP") -> SourceStream:
    return next(stream for stream in open_store(store, KEYS).streams if stream.config.name == name)


def read(stream: SourceStream) -> tuple[list[SourceStreamMessage], list[Finding], Any]:
    reading = stream.messages()
    items = list(reading.items())
    findings = [*stream.findings, *(item for item in items if isinstance(item, Finding))]
    return [item for item in items if isinstance(item, SourceStreamMessage)], findings, reading


def kept(store: Path) -> tuple[list[SourceStreamMessage], list[Finding], Any]:
    return read(stream_of(store))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    shutil.copytree(NEWEST, tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[FileStore]:
    store = FileStore(tmp_path / "target")
    yield store
    store.close()


# -- real ones


@pytest.mark.parametrize("name", NAMES)
def test_a_real_store_holds_what_its_server_said(name: str) -> None:
    truth = json.loads((GOLDEN / name / "truth.json").read_text())
    found = open_store(GOLDEN / name / "store", KEYS)
    assert {stream.config.name for stream in found.streams} == truth.keys()
    assert not found.findings
    for stream in found.streams:
        messages, findings, reading = read(stream)
        expected = truth[stream.config.name]
        assert not findings
        assert [
            {
                "subject": message.subject.decode(),
                "seq": message.sequence,
                "time": short_time(message.time_ns),
                "data": sha256(message.payload).hexdigest()[:16],
            }
            for message in messages
        ] == [{key: one[key] for key in ("subject", "seq", "time", "data")} for one in expected["messages"]]
        headers = [b64decode(one.get("hdrs", "")) for one in expected["messages"]]
        assert [message.headers for message in messages] == headers
        state = expected["state"]
        extent = reading.extent
        assert (extent.first_sequence, extent.last_sequence) == (state["first_seq"], state["last_seq"])
        assert short_time(extent.last_time_ns) == state["last_ts"]
        assert short_time(stream.created_ns) == expected["created"]
        for consumer in stream.consumers:
            said = expected["consumers"][consumer.name]
            assert consumer.state is not None
            numbers = *said["delivered"], *said["ack_floor"]
            assert consumer.state.numbers == numbers
            assert len(consumer.state.pending) == said["num_ack_pending"]
            assert len(consumer.state.redelivered) == said["num_redelivered"] == 1


def test_what_was_imported_is_there_by_name(target: FileStore) -> None:
    report = import_store(open_store(NEWEST, KEYS), target)

    assert sorted(target.names()) == [b"$G/state", b"$G/streams/COMPRESSED", b"$G/streams/KEEP"]
    assert [(one.name, one.messages, one.lost, one.consumers) for one in report.streams] == [
        ("COMPRESSED", 80, 0, 0), ("KEEP", 17, 0, 1),
    ]  # fmt: skip
    assert not report.is_damaged


# -- keys


def test_without_a_key_nothing_of_an_encrypted_store_is_read() -> None:
    with pytest.raises(NoKey, match="COMPRESSED of account \\$G is encrypted: say its key with --key-file"):
        open_store(GOLDEN / "2.15.1-aes" / "store", Keys())


def test_with_another_key_nothing_of_an_encrypted_store_is_read() -> None:
    with pytest.raises(
        SourceUnusable, match=r"cannot be decrypted with the given key.*is the key another one"
    ):
        open_store(GOLDEN / "2.15.1-aes" / "store", Keys(["other"]))


def test_an_encrypted_block_whose_key_is_damaged_is_named(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "2.15.1-aes" / "store", tmp_path / "store")
    (tmp_path / "store" / KEEP / "msgs" / "1.key").write_bytes(bytes(64))

    messages, findings, reading = kept(tmp_path / "store")

    assert not messages
    assert str(findings[0]).startswith("$G/KEEP/msgs/1.blk at 0 (")
    assert "cannot be decrypted with the given key" in str(findings[0])
    assert reading.lost == 17


# -- damage


def test_each_byte_of_a_block_costs_at_most_one_message_which_is_named(store: Path) -> None:
    stream = stream_of(store)
    whole = {message.sequence: message for message in read(stream)[0]}
    path = store / KEEP / "msgs" / "1.blk"
    block = path.read_bytes()
    lost = 0
    for place in range(len(block)):
        path.write_bytes(block[:place] + bytes([block[place] ^ 0x55]) + block[place + 1 :])
        messages, findings, reading = read(stream)
        missing = whole.keys() - {message.sequence for message in messages}
        assert len(missing) <= 1, place
        assert all(whole[message.sequence] == message for message in messages)
        if missing:
            named = [(one.first_sequence, one.last_sequence) for one in findings if one.first_sequence]
            assert named == [(missing.pop(),) * 2]
            lost += reading.lost
    assert lost > len(block) // 2


@pytest.mark.parametrize("has_index", [True, False])
def test_a_block_that_is_cut_off_keeps_what_is_before(store: Path, has_index: bool) -> None:
    stream = stream_of(store)
    whole = read(stream)[0]
    path = store / KEEP / "msgs" / "1.blk"
    block = path.read_bytes()
    if not has_index:
        (path.parent / "index.db").unlink()
    for size in range(0, len(block), 7):
        path.write_bytes(block[:size])
        messages, findings, reading = read(stream)
        # Without the index, what only a tombstone behind the cut deletes is there again, as on nats-server.
        numbers = [message.sequence for message in messages if message.sequence not in (1, 7, 8)]
        assert numbers == [message.sequence for message in whole[: len(numbers)]]
        if has_index:
            assert reading.extent.last_sequence == 20
        assert all(finding.is_damage or "index.db" in finding.file for finding in findings)


@pytest.mark.parametrize(
    "file", ["meta.inf", "meta.sum", "msgs/index.db", "obs/worker/meta.inf", "obs/worker/o.dat"]
)
def test_no_damage_to_another_file_ends_in_anything_but_a_finding(store: Path, file: str) -> None:
    path = store / KEEP / file
    data = path.read_bytes()
    for place in range(0, len(data), 3):
        for changed in (data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :], data[:place]):
            path.write_bytes(changed)
            found = open_store(store, KEYS)
            assert len(found.streams) + len(found.findings) == 2
            for stream in found.streams:
                messages, findings, _ = read(stream)
                assert len(messages) == 17 or stream.config.name != "KEEP"
                if file != "obs/worker/o.dat":  # it has no checksum: what can be read counts
                    assert findings or stream.config.name != "KEEP"


def test_a_compressed_part_that_is_damaged_is_named_and_the_rest_is_read(store: Path) -> None:
    path = store / "$G/streams/COMPRESSED/msgs/1.blk"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)

    messages, findings, reading = read(stream_of(store, "COMPRESSED"))

    assert "1.blk at 17 (" in str(findings[0])
    assert "a compressed part is damaged" in str(findings[0])
    assert reading.lost + len(messages) == 80
    assert len(messages) > 2


def test_a_stream_without_metadata_is_named_and_the_others_come(store: Path) -> None:
    (store / KEEP / "meta.inf").unlink()

    found = open_store(store, KEYS)

    assert [stream.config.name for stream in found.streams] == ["COMPRESSED"]
    assert [str(finding) for finding in found.findings] == [
        "$G/KEEP/meta.inf: the file is missing; this stream is left out"
    ]


def test_metadata_of_a_later_version_is_told(store: Path) -> None:
    path = store / KEEP / "meta.inf"
    path.write_text(path.read_text().replace('"subjects"', '"quantum_ack":true,"subjects"'))

    findings = [str(finding) for finding in stream_of(store).findings]

    assert findings == [
        "$G/KEEP/meta.inf: its checksum does not hold: look whether this is the configuration",
        "$G/KEEP/meta.inf: fields that are not known here are left out: quantum_ack",
    ]


def test_a_purge_that_was_not_finished_counts(store: Path) -> None:
    """nats-server moves the block that says where to go on out of the way, and then the others away."""
    home = store / KEEP
    (home / "__new_msgs__").mkdir()
    shutil.move(home / "msgs" / "1.blk", home / "__new_msgs__" / "1.blk")
    (home / "msgs" / "2.blk").write_bytes(b"what is purged")

    messages, findings, _ = kept(store)

    assert len(messages) == 17
    assert not findings


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceUnusable, match="has no streams of nats-server"):
        open_store(tmp_path, KEYS)
    with pytest.raises(ImportFailed, match="is no directory"):
        open_store(tmp_path / "none", KEYS)


def test_consumers_are_where_they_were(target: FileStore) -> None:
    import_store(open_store(NEWEST, KEYS), target)
    changes = AccountChanges()
    assert not read_changes(target.open(b"$G/state"), changes, lambda *_: None)

    (record,) = changes.state.consumers.values()
    name, config = record.read()
    assert (name, record.stream, config.ack_wait) == ("worker", "KEEP", 600_000_000_000)
    assert record.state == stream_of(NEWEST).consumers[0].state
    assert record.state is not None
    assert set(record.state.pending) == {4, 5, 9, 10, 11} - {9} | {9}


def test_sources_go_on_where_they_were_and_a_damaged_file_of_them_is_named(
    store: Path, target: FileStore
) -> None:
    path = store / KEEP / "sources.db"
    entries = b"\x06OTHER " + bytes([9, 2]) + b"id" + b"\x01S" + b"\x03\x00"
    data = struct.pack("<BQQ", 1, 2, 21) + entries
    path.write_bytes(data)
    assert stream_of(store).positions == (("OTHER ", 9, 20, "id"), ("S", 3, 20, ""))
    import_store(open_store(store, KEYS), target)
    changes = AccountChanges()
    read_changes(target.open(b"$G/state"), changes, lambda *_: None)
    assert changes.state.positions["KEEP"]["S"] == struct.pack("<QQ", 3, 20)

    for size in range(len(data)):
        path.write_bytes(data[:size])
        found = stream_of(store)
        assert not found.positions
        assert [finding.file for finding in found.findings] == ["$G/KEEP/sources.db"]
