"""Stores that somebody made to do harm, or that damage has made so: checksums hold, what they cover lies."""

from __future__ import annotations

import json
import os
import shutil
import struct
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.change_log import read_changes
from headrace.engine.message_blocks import checksum
from headrace.engine.s2 import Stream, encode_block
from headrace.importing.findings import SourceUnusable
from headrace.jetstream.importing import block_files
from headrace.jetstream.importing.crypt import Keys
from headrace.jetstream.importing.importer import JetStreamImportReport, import_store
from headrace.jetstream.importing.reader import open_store
from headrace.jetstream.state.records import AccountChanges
from headrace.log.store import FileStore
from headrace.protocol.s2 import STREAM_BEGIN

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parent / "golden" / "stores" / "2.15.1" / "store"
HUGE = (1 << 63) - 1
NOW = 1_700_000_000_000_000_000


@pytest.fixture
def keep(tmp_path: Path) -> Path:
    """The directory of the stream KEEP, in a copy that may be changed."""
    shutil.copytree(GOLDEN, tmp_path / "store")
    return tmp_path / "store" / "$G" / "streams" / "KEEP"


def imported(keep: Path) -> JetStreamImportReport:
    """All of it, with what a server would read of it afterwards."""
    target = FileStore(keep.parents[3] / "target")
    report = import_store(open_store(keep.parents[2], Keys()), target)
    assert not read_changes(target.open(b"$G/state"), AccountChanges(), lambda *_: None)
    target.close()
    return report


def said(report: JetStreamImportReport) -> list[str]:
    return [str(finding) for finding in report.all_findings]


def unsigned(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def signed(number: int) -> bytes:
    return unsigned(number << 1 if number >= 0 else (-number << 1) - 1)


def summed(key: str, data: bytes) -> bytes:
    return data + checksum(sha256(key.encode()).digest(), data)


def configure(directory: Path, key: str, **fields: Any) -> None:
    """Changes metadata as a server would have written them."""
    data = json.dumps(json.loads((directory / "meta.inf").read_bytes()) | fields).encode()
    (directory / "meta.inf").write_bytes(data)
    (directory / "meta.sum").write_text(summed(key, data)[-8:].hex())


def record(sequence: int, subject: bytes = b"keep.a", time_ns: int = NOW) -> bytes:
    head = struct.pack("<IQqH", 31 + len(subject), sequence, time_ns, len(subject))
    return head + subject + b"x" + summed("KEEP-1", head[4:20] + subject + b"x")[-8:]


def write_index(keep: Path, first: int, last: int, last_time: int, block_last: int) -> None:
    blocks = [unsigned(n) for n in (1, 10, first)] + [signed(1), unsigned(block_last), signed(1), bytes(3)]
    body = b"".join([
        b"\x0b\x04\x01\x01", unsigned(first), signed(1), unsigned(last), signed(last_time), b"\0\x01",
        *blocks, b"\x01", (keep / "msgs" / "1.blk").read_bytes()[-8:],
    ])  # fmt: skip
    (keep / "msgs" / "index.db").write_bytes(summed("KEEP", body))


@pytest.mark.parametrize(
    "numbers",
    [
        [HUGE, HUGE, HUGE, HUGE],
        [1, 1, HUGE, HUGE],
        [1, 1, 5, 5, 1, 2 * (NOW // 10**9), 2, HUGE << 3, 0, 0],
        [1, 1, 5, 5, 1, 2 * (NOW // 10**9), 2, HUGE - 1, 0, 0],
        [1, 1, 5, 5, 1, 1 << 62, 2, 2, 0, 0],
        [1, 1, 5, 5, 0, 1, HUGE << 3, 2],
        [1, 1, 5, 5, 0, 1, HUGE - 1, 2],
        [1, 1, 5, 5, 0, 1, 3, HUGE << 3],
    ],
)
def test_numbers_of_a_consumer_that_cannot_be(keep: Path, numbers: list[int]) -> None:
    state = b"\x16\x02" + b"".join(map(unsigned, numbers)) + bytes(2)
    (keep / "obs" / "worker" / "o.dat").write_bytes(state)

    report = imported(keep)

    assert [one for one in said(report) if "is impossible; this consumer begins anew" in one]
    assert [(one.name, one.messages, one.consumers) for one in report.streams][1] == ("KEEP", 17, 1)


@pytest.mark.parametrize(
    ("first", "last", "time_ns"), [(1, 1 << 69, 1), (1, 1 << 63, 1), (1, (1 << 64) - 1, 1), (1, 30, 1 << 66)]
)
def test_an_index_that_cannot_be_is_not_believed(keep: Path, first: int, last: int, time_ns: int) -> None:
    write_index(keep, first, last, time_ns, 20)

    report = imported(keep)

    assert [one for one in said(report) if "is impossible; the message blocks say it all again" in one]
    assert not report.is_damaged
    assert report.streams[1].last_sequence == 20


def test_a_range_without_end_is_told_as_one(keep: Path) -> None:
    write_index(keep, 1, 1 << 50, NOW, 1 << 50)

    report = imported(keep)

    assert f"$G/KEEP/msgs/1.blk: lost; sequences 21 to {1 << 50:,}" in said(report)
    assert report.streams[1].last_sequence == 1 << 50


def test_a_gap_without_end_between_records_is_told_as_one(keep: Path) -> None:
    (keep / "msgs" / "index.db").unlink()
    (keep / "msgs" / "1.blk").write_bytes(record(1) + b"damage" + record(1 << 50) + record((1 << 50) + 2))

    report = imported(keep)

    assert f"$G/KEEP/msgs/1.blk: lost; sequences 2 to {(1 << 50) - 1:,}" in said(report)
    assert report.streams[1].messages == 3


def test_a_subject_that_would_end_its_line_is_no_message(keep: Path) -> None:
    (keep / "msgs" / "index.db").unlink()
    bad = b"keep.b\r\nMSG other 1 0\r\n\r\n"
    (keep / "msgs" / "1.blk").write_bytes(record(1) + record(2, bad) + record(3, b"") + record(4))

    report = imported(keep)

    assert (report.streams[1].messages, report.streams[1].lost) == (2, 2)
    assert "$G/KEEP: impossible subject b'keep.b\\r\\nMSG other 1 0\\r\\n\\r\\n'; sequence 2" in said(report)


def make_pipe(keep: Path) -> None:
    os.mkfifo(keep / "msgs" / "2.blk")


def make_large(keep: Path) -> None:
    os.truncate(keep / "msgs" / "1.blk", 1 << 40)


@pytest.mark.parametrize(
    ("change", "text"), [(make_pipe, "no regular file"), (make_large, "no file of 1,099,511,627,776 bytes")]
)
def test_files_that_are_no_blocks(keep: Path, change: Callable[[Path], None], text: str) -> None:
    change(keep)

    with pytest.raises(SourceUnusable, match=text):
        imported(keep)


def test_names_that_no_block_has_are_passed_over(keep: Path) -> None:
    for name in ("01.blk", "٣.blk", "1.blk~", "99999999999.blk"):
        shutil.copy(keep / "msgs" / "1.blk", keep / "msgs" / name)

    assert said(imported(keep)) == []


def test_a_block_that_grows_without_end_when_it_is_decompressed(
    keep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_files, "_LARGEST", 1 << 18)
    (keep / "msgs" / "index.db").unlink()
    chunks = Stream().compress(bytes(1 << 20)).removeprefix(STREAM_BEGIN)
    (keep / "msgs" / "1.blk").write_bytes(b"cmp\x01" + unsigned(1 << 20) + chunks + bytes(8))

    assert "larger than a block can be" in said(imported(keep))[0]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"subjects": ["a b", "", " >"]}, "invalid subject"),
        ({"subject_transform": {"src": "a.*", "dest": "{{wildcard(99)}}"}}, "wildcard index out of range"),
        ({"max_age": -5}, "max age can not be negative"),
        ({"first_seq": 1 << 63}, "first sequence is larger"),
    ],
)
def test_a_stream_that_nats_server_would_not_serve(keep: Path, fields: dict[str, Any], text: str) -> None:
    """Served here, it could keep a server from starting."""
    configure(keep, "KEEP", **fields)

    (finding,) = said(imported(keep))

    assert finding.startswith("$G/KEEP/meta.inf: nats-server would not serve it: ")
    assert text in finding


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"filter_subject": "a b"}, "invalid subject"),
        ({"deliver_subject": "$JS.API.>"}, "would not serve it: "),
        ({"durable_name": "other", "name": "other"}, "it is of another consumer, 'other'"),
    ],
)
def test_a_consumer_that_nats_server_would_not_serve(keep: Path, fields: dict[str, Any], text: str) -> None:
    configure(keep / "obs" / "worker", "KEEP/worker", **fields)

    report = imported(keep)

    assert text in said(report)[0]
    assert said(report)[0].endswith("; this consumer is left out")
    assert [one.consumers for one in report.streams] == [0, 0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"a.b", "a.b/meta.inf: nats-server would not serve it: stream name is required"),
        (b"a\n\x1b[31m", "a\\n\\x1b[31m/meta.inf: nats-server would not serve it"),
        (b"\xff\xfe", "\\udcff\\udcfe/meta.inf: the name of its directory is no UTF-8"),
    ],
)
def test_names_that_no_stream_can_have(keep: Path, name: bytes, text: str) -> None:
    place = os.path.join(os.fsencode(keep.parent), name)
    os.rename(keep, place)
    if name.isascii():
        configure(Path(os.fsdecode(place)), name.decode(), name=name.decode())

    (finding,) = said(imported(keep))

    assert finding.startswith(f"$G/{text}")


def test_a_stream_without_a_time_gets_that_of_its_file(keep: Path) -> None:
    configure(keep, "KEEP", Created="99999-01-01T00:00:00Z")

    assert said(imported(keep)) == [
        "$G/KEEP/meta.inf: it does not say when it was made: the time of the file is taken"
    ]


@pytest.mark.parametrize("group", ["../../$G/streams/COMPRESSED", "/etc", "", "a\0b", "a" * 4000])
def test_groups_are_read_below_their_directory_alone(keep: Path, group: str) -> None:
    home = keep.parents[2] / "$SYS" / "_js_" / "_meta_"
    (home / "snapshots").mkdir(parents=True)
    (home / "msgs").mkdir()
    of_stream = {"stream": {"name": "KEEP"}, "group": {"name": group}, "client": {"acc": "$G"}}
    body = struct.pack("<QQI", 1, 1, 0) + encode_block(json.dumps([of_stream]).encode())
    (home / "snapshots" / "snap.1.1").write_bytes(summed("_meta_", body))
    for odd in ("snap.1.", "snap..1", "snap.x.y", "snap.1.²"):
        (home / "snapshots" / odd).write_bytes(b"odd")
    configure(keep, "KEEP", num_replicas=3)

    assert said(imported(keep)) == [
        "$G/KEEP: its Raft group is not here: what was not stored yet, if anything, is not known",
        "$G/KEEP: 3 replicas became one",
    ]
