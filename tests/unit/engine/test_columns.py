"""Stored messages as columns: written by compiled code, read back here and by Arrow, never believed."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

import pytest

from headrace.engine.batches import Outgoing
from headrace.engine.columns import ColumnsBuilder, offsets_are_valid
from headrace.engine.messages import StoredMessages
from headrace.errors import ProtocolError
from headrace.log.port import StoredMessage
from headrace.protocol import columns
from headrace.protocol.columns import BESIDES, BLOCK, Columns, pack, send

HEADERS: Final = b"NATS/1.0\r\nA: b\r\n\r\n"
MUTATIONS: Final = 5000


def messages(count: int, seed: int = 1) -> list[StoredMessage]:
    random = Random(seed)
    return [
        StoredMessage(
            random.randrange(1, 1 << 62),
            random.randrange(1 << 62),
            random.randbytes(random.randrange(20)),
            random.choice([b"", b"", b"reply.\xff"]),
            random.choice([b"", HEADERS]),
            random.randbytes(random.randrange(200)),
        )
        for _ in range(count)
    ]


def built(*runs: tuple[bytes, list[StoredMessage]]) -> ColumnsBuilder:
    builder = ColumnsBuilder()
    for stream, run in runs:
        batch = StoredMessages(StoredMessage, run)
        assert builder.add(batch, 0, len(run), stream, 1 << 30) == len(run)
    return builder


def rows(found: Columns) -> list[tuple[object, ...]]:
    parts = [
        found.streams.texts(), list(found.sequences), list(found.times), found.subjects.texts(),
        found.replies.values(), found.headers.values(), found.payloads.texts(),
    ]  # fmt: skip
    return list(zip(*parts, strict=True))


def expected(*runs: tuple[bytes, list[StoredMessage]]) -> list[tuple[object, ...]]:
    return [
        (stream, m.sequence, m.time_ns, m.subject, m.reply or None, m.headers or None, m.payload)
        for stream, run in runs
        for m in run
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 63, 64, 65, 1000])
def test_what_was_packed_is_read_back(count: int) -> None:
    run = (b"orders", messages(count))
    found = Columns.read(pack(built(run)))
    assert len(found) == count
    assert rows(found) == expected(run)


def test_runs_of_several_streams_are_one_batch() -> None:
    runs = [(b"a", messages(5)), (b"\xff.b", messages(1, 2)), (b"", messages(70, 3)), (b"a", messages(3, 4))]
    builder = built(*runs)
    assert rows(Columns.read(pack(builder))) == expected(*runs)
    builder.clear()
    assert (builder.rows, rows(Columns.read(pack(builder)))) == (0, [])
    builder.add(StoredMessages(StoredMessage, runs[0][1]), 1, 3, b"c", 1 << 20)
    assert rows(Columns.read(pack(builder))) == expected((b"c", runs[0][1][1:4]))


@pytest.mark.parametrize("reply", [b"", b"re"])
@pytest.mark.parametrize("headers", [b"", HEADERS])
def test_bitmaps_are_there_only_where_something_is_null(reply: bytes, headers: bytes) -> None:
    run = (b"s", [StoredMessage(n, n, b"s", reply, headers, b"") for n in range(1, 20)])
    found = Columns.read(pack(built(run)))
    assert rows(found) == expected(run)
    assert (found.replies.validity is None, found.headers.validity is None) == (bool(reply), bool(headers))
    assert (found.replies.nulls, found.headers.nulls) == (0 if reply else 19, 0 if headers else 19)


@pytest.mark.parametrize("count", [0, 1, 9, 500])
def test_arrow_reads_the_same(count: int) -> None:
    pa = pytest.importorskip("pyarrow")
    run = (b"orders", messages(count))
    stream = pa.ipc.open_stream(pack(built(run)))
    table = stream.read_all()
    table.validate(full=True)
    assert table.schema.metadata == {b"headrace.columns": b"1"}
    assert [(field.name, str(field.type), field.nullable) for field in table.schema] == [
        ("stream", "binary", False), ("subject", "binary", False), ("sequence", "int64", False),
        ("timestamp", "timestamp[ns, tz=UTC]", False), ("reply", "binary", True),
        ("headers", "binary", True), ("data", "binary", False),
    ]  # fmt: skip
    table = table.set_column(3, "timestamp", table["timestamp"].cast(pa.int64()))
    names = ["stream", "sequence", "timestamp", "subject", "reply", "headers", "data"]
    assert [tuple(row[name] for name in names) for row in table.to_pylist()] == expected(run)


def test_arrow_writes_what_is_read_here_only_if_it_is_this_very_form() -> None:
    """The reader is no reader of Arrow: another writer's bytes are refused, whatever they mean."""
    pa = pytest.importorskip("pyarrow")
    with pa.ipc.open_stream(pack(built((b"s", messages(5))))) as stream:
        table = stream.read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ProtocolError, match="not columns of version 1"):
        Columns.read(sink.getvalue().to_pybytes())


def test_rows_are_taken_while_there_is_room_but_one_in_any_case() -> None:
    run = [StoredMessage(n, n, b"s", b"", b"", bytes(1000)) for n in range(1, 101)]
    batch = StoredMessages(StoredMessage, run)
    builder = ColumnsBuilder()
    sizes, done = [], 0
    while done < 100:
        builder.clear()
        done += builder.add(batch, done, 100 - done, b"orders", 10_000 - BESIDES)
        frame = pack(builder)
        assert len(BLOCK) + len(frame) <= 10_000
        sizes.append(len(Columns.read(frame)))
    assert sum(sizes) == 100
    assert sizes[0] == 8
    builder.clear()
    assert [builder.add(batch, 0, 5, b"", 1), builder.add(batch, 1, 4, b"", 1)] == [1, 0]


def test_sent_is_what_is_packed() -> None:
    builder = built((b"s", messages(30)))
    out = Outgoing()
    size = send(builder, out, b"in.box")
    assert out.take() == [(b"in.box", b"", BLOCK, pack(builder))]
    assert size == len(BLOCK) + len(pack(builder))


def test_what_the_builder_is_asked_is_checked() -> None:
    batch = StoredMessages(StoredMessage, messages(1))
    for first, count in ((0, 2), (-1, 1), (1, 1), (0, -1), (1 << 62, 1)):
        with pytest.raises(IndexError):
            ColumnsBuilder().add(batch, first, count, b"s", 1 << 20)
    for inbox in (b"", b"a b", b"a\r\nPING"):
        with pytest.raises(ValueError, match="not an inbox"):
            send(ColumnsBuilder(), Outgoing(), inbox)


def test_builder_keeps_messages_alive() -> None:
    builder = ColumnsBuilder()
    for n in range(200):
        builder.add(
            StoredMessages(StoredMessage, [StoredMessage(n, n, b"%d" % n, b"", b"", b"x" * n)]),
            0,
            1,
            b"s",
            1 << 20,
        )
    assert Columns.read(pack(builder)).payloads.texts() == [b"x" * n for n in range(200)]


@pytest.mark.parametrize(
    ("offsets", "rows_", "size", "valid"),
    [
        ([0], 0, 0, True),
        ([0, 0, 3, 3, 9], 4, 9, True),
        ([1, 2], 1, 2, False),
        ([0, 4, 3], 2, 3, False),
        ([0, 4, 5], 2, 6, False),
        ([0, 4, 7], 2, 6, False),
        ([0, 0xFFFFFFFF], 1, 6, False),
        ([0, 1], 2, 1, False),
        ([0], -1, 0, False),
        ([0], 0, -1, False),
        ([0], 0, 1 << 40, False),
        ([], 0, 0, False),
    ],
)
def test_offsets_are_looked_at(offsets: list[int], rows_: int, size: int, valid: bool) -> None:
    data = struct.pack(f"<{len(offsets)}I", *offsets)
    assert offsets_are_valid(data, 0, rows_, size) is valid
    assert offsets_are_valid(b"abc" + data, 3, rows_, size) is valid
    assert not offsets_are_valid(data, len(data) + 1, 0, 0)
    assert not offsets_are_valid(data, -1, 0, 0)


def test_cut_off_and_longer_bytes_are_refused() -> None:
    frame = pack(built((b"orders", messages(3))))
    for end in range(len(frame)):
        with pytest.raises(ProtocolError):
            Columns.read(frame[:end])
    for more in (b"\0", bytes(8), frame):
        with pytest.raises(ProtocolError):
            Columns.read(frame + more)


def test_every_wrong_byte_of_the_head_is_refused() -> None:
    frame = pack(built((b"orders", messages(3))))
    for place in range(columns._HEAD_BYTES):
        spoiled = bytearray(frame)
        spoiled[place] ^= 0x41
        with pytest.raises(ProtocolError):
            Columns.read(bytes(spoiled))


def test_mutated_bytes_are_refused_or_whole() -> None:
    """Whatever is accepted passes Arrow's full validation and can be read to the end."""
    pa = pytest.importorskip("pyarrow")
    seed = Random().getrandbits(32)
    print(f"seed {seed}")
    random = Random(seed)
    frames = [pack(built((b"s", messages(count, count)))) for count in (0, 1, 9, 40)]
    accepted = 0
    for _ in range(MUTATIONS):
        frame = bytearray(random.choice(frames))
        start = random.choice([0, columns._HEAD_BYTES])
        for _ in range(random.choice([1, 1, 2, 5])):
            place = random.randrange(start, len(frame))
            kind = random.randrange(4)
            if kind == 0:
                frame[place] = random.randrange(256)
            elif kind == 1:
                frame[place : place + 8] = random.choice([0, 1, -1, 1 << 31, 1 << 62]).to_bytes(
                    8, "little", signed=True
                )
            elif kind == 2:
                del frame[place : place + random.randrange(1, 9)]
            else:
                frame[place:place] = random.randbytes(random.randrange(1, 9))
        try:
            found = Columns.read(bytes(frame))
        except ProtocolError:
            continue
        accepted += 1
        rows(found)
        pa.ipc.open_stream(bytes(frame)).read_all().validate(full=True)
    assert 0 < accepted < MUTATIONS


def test_a_head_is_what_a_flatbuffers_writer_makes_of_its_numbers() -> None:
    random = Random(3)
    for _ in range(200):
        rows = random.randrange(1 << 16)
        nulls = random.randrange(rows + 1), random.randrange(rows + 1)
        counts = columns.Counts(rows, *nulls, *(random.randrange(1 << 30) for _ in range(5)))
        assert columns._head(counts) == columns._drawn_head(counts)
