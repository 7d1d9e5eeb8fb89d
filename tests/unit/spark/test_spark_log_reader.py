"""Tables read from the files of logs, without a JVM: what is read, by whom, and what is told of."""

from __future__ import annotations

import pickle
import socket
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headrace.client.replay import ReplayBatch
from headrace.log.port import NewMessage
from headrace.log.segment import BEGINNING
from headrace.log.store import FileStore
from headrace.log.view import LogView
from headrace.spark import log_reader
from headrace.spark.datasource import NatsDataSource
from headrace.spark.errors import DataLossError, OptionError, StoredStreamError, ValueFormatError
from headrace.spark.log_reader import LogBatchReader, LogPartition, LogStreamReader
from headrace.spark.options import read_options
from headrace.spark.schema import COLUMNS, stored_record_batch
from headrace.spark.stored_link import StoredRows, StoredState
from headrace.spark.stored_reader import StoredPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.log.port import MessageLog
    from headrace.spark.offsets import StoredRange

START = 1_700_000_000_000_000_000
BLOCK = b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"


class Server:
    """What `ChannelLink` gives of one channel, out of a log; counts what it was asked for."""

    def __init__(self, log: MessageLog, created: int = 7) -> None:
        self.log = log
        self.created = created
        self.asked: list[tuple[int, int]] = []

    def state(self, _channel: str) -> StoredState | None:
        state = self.log.state()
        return StoredState(state.first_sequence, state.last_sequence, state.messages, 0, self.created)

    def rows(self, wanted: StoredRange, _filters: object, columns: StructType) -> Iterator[StoredRows]:
        first, end = wanted.first, wanted.end
        self.asked.append((first, end))
        page = self.log.read_from(first, up_to=end, max_messages=1 << 20, max_bytes=1 << 40).messages
        name = [wanted.name.encode()] * len(page)
        batch = ReplayBatch(
            name, name, [m.sequence for m in page], [m.time_ns for m in page],
            [m.reply or None for m in page], [m.headers or None for m in page], [m.payload for m in page],
        )  # fmt: skip
        table = stored_record_batch(wanted.name, batch, columns, batch.replies)
        yield StoredRows(batch.sequences, table)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    """Channels orders (1 to 300 in many segments) and prices (1 to 20), open all the time."""
    store = FileStore(tmp_path / "store", segment_bytes=4096)
    for name, count in ((b"orders", 300), (b"prices", 20)):
        log = store.open(name)
        for n in range(1, count + 1):
            block, reply = (BLOCK, b"re") if n % 10 == 0 else (b"", b"")
            log.append([NewMessage(name, b"%d" % n, reply, block, START + 1000 * n + 999)])
    store.open(b"$STAN/state").append([NewMessage(b"state", b"own")])
    yield store
    store.close()


def reader(path: Path, link: Any = None, schema: StructType = COLUMNS, **options: str) -> LogBatchReader:
    return LogBatchReader(read_options({"path": str(path), **options}), schema, link)


def table(one: LogBatchReader) -> pa.Table:
    batches = [
        batch
        for partition in pickle.loads(pickle.dumps(one.partitions()))
        for batch in one.read(partition)
    ]  # fmt: skip
    return pa.Table.from_batches(batches) if batches else pa.table({"sequence": []})


def sequences(one: LogBatchReader) -> list[int]:
    return list(table(one)["sequence"].to_pylist())


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_channel_of_an_open_store_is_read_whole_with_all_columns(
    tasks: int, store: FileStore, tmp_path: Path
) -> None:
    one = reader(tmp_path / "store", channel="orders", minPartitions=str(tasks))
    assert len(one.partitions()) == tasks
    rows = table(one).to_pylist()
    assert [row["sequence"] for row in rows] == list(range(1, 301))
    assert [row["data"] for row in rows] == [b"%d" % n for n in range(1, 301)]
    stamp = rows[9].pop("timestamp")
    assert rows[9] == {
        "stream": "orders", "subject": "orders", "sequence": 10, "reply": "re",
        "headers": [("A", ["1", "2"])], "data": b"10",
    }  # fmt: skip
    assert (stamp.timestamp(), stamp.microsecond) == (1_700_000_000.00001, 10)
    assert (rows[0]["reply"], rows[0]["headers"]) == (None, None)


def test_whole_store_is_all_channels_and_nothing_of_the_servers_own(store: FileStore, tmp_path: Path) -> None:
    found = table(reader(tmp_path / "store"))
    assert found.num_rows == 320
    assert set(found["stream"].to_pylist()) == {"orders", "prices"}


def test_wildcards_choose_among_the_channels_of_a_store(store: FileStore, tmp_path: Path) -> None:
    store.open(b"orders.eu").append([NewMessage(b"orders.eu", b"1")])
    assert set(table(reader(tmp_path / "store", channel="orders.>"))["stream"].to_pylist()) == {"orders.eu"}
    found = table(reader(tmp_path / "store", channel="*"))["stream"].to_pylist()
    assert set(found) == {"orders", "prices"}
    with pytest.raises(StoredStreamError, match="there is no log of channel none"):
        reader(tmp_path / "store", channel="none.*").partitions()


def test_directory_of_one_log_is_that_channel(store: FileStore, tmp_path: Path) -> None:
    found = table(reader(tmp_path / "store" / "logs" / "prices"))
    assert set(found["stream"].to_pylist()) == {"prices"}
    assert found["sequence"].to_pylist() == list(range(1, 21))


def test_wanted_columns_come_in_their_order(store: FileStore, tmp_path: Path) -> None:
    wanted = StructType([StructField("sequence", LongType()), StructField("stream", StringType())])
    found = table(reader(tmp_path / "store", None, wanted, channel="prices"))
    assert found.column_names == ["sequence", "stream"]


def test_values_are_decoded_and_headers_left_out(store: FileStore, tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "store"), "channel": "prices", "includeHeaders": "false"}
    source = NatsDataSource({**options, "valueFormat": "string"})
    found = table(source.reader(source.schema()))  # type: ignore[arg-type]
    assert "headers" not in found.column_names
    assert found["data"].to_pylist() == [str(n) for n in range(1, 21)]
    store.open(b"prices").append([NewMessage(b"prices", b"no JSON")])
    strict = {"valueFormat": "json", "valueSchema": "id bigint", "valueMode": "failfast"}
    source = NatsDataSource({**options, **strict, "startingOffsets": '{"prices": 21}'})
    with pytest.raises(ValueFormatError, match="payload of sequence 21 of channel prices is not JSON"):
        table(source.reader(source.schema()))  # type: ignore[arg-type]


def test_offsets_bound_what_is_read(store: FileStore, tmp_path: Path) -> None:
    def bounded(start: str, end: str) -> list[int]:
        options = {"channel": "orders", "startingOffsets": start, "endingOffsets": end}
        return sequences(reader(tmp_path / "store", None, COLUMNS, **options))

    assert bounded('{"orders": 50}', '{"orders": 55}') == [50, 51, 52, 53, 54]
    assert bounded("earliest", '{"orders": 3}') == [1, 2]
    assert bounded('{"orders": 301}', "latest") == []
    with pytest.raises(OptionError, match="sequence 302 of channel orders is not there yet"):
        bounded('{"orders": 302}', "latest")
    with pytest.raises(OptionError, match=r"must name what is read \(none\)"):
        reader(tmp_path / "store", startingOffsets='{"orders": 5}')


def test_sealed_part_is_read_from_files_and_the_rest_from_the_server(
    store: FileStore, tmp_path: Path
) -> None:
    log = store.open(b"orders")
    server = Server(log)
    one = reader(tmp_path / "store", server, channel="orders", url="nats://h", minPartitions="3")
    log.append([NewMessage(b"orders", b"%d" % n, time_ns=START * 2) for n in range(301, 311)])
    plan = one.partitions()
    log.append([NewMessage(b"orders", b"too late", time_ns=START * 2)])
    [*files, tail] = plan
    assert all(isinstance(part, LogPartition) for part in files)
    assert isinstance(tail, StoredPartition)
    newest = max(int(path.stem) for path in (tmp_path / "store/logs/orders").glob("*.log"))
    assert tail.range.first == newest == files[-1].slice.end  # type: ignore[attr-defined]
    rows = [row for part in plan for batch in one.read(part) for row in batch.to_pylist()]
    assert [row["sequence"] for row in rows] == list(range(1, 311))
    assert [row["data"] for row in rows] == [b"%d" % n for n in range(1, 311)]
    assert server.asked == [(newest - 1, newest), (newest, 311)]


def test_server_with_another_channel_of_that_name_is_refused(store: FileStore, tmp_path: Path) -> None:
    other = FileStore(tmp_path / "other")
    log = other.open(b"orders")
    one = reader(tmp_path / "store", Server(log), channel="orders", url="nats://h")
    with pytest.raises(StoredStreamError, match="hold different messages"):
        one.partitions()
    log.append([NewMessage(b"orders", b"", time_ns=START)] * 400)
    with pytest.raises(StoredStreamError, match="hold different messages"):
        one.partitions()
    other.close()


def test_segments_removed_while_it_reads_end_the_query_or_are_told_of(
    store: FileStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strict, lenient = (
        reader(tmp_path / "store", channel="orders", minPartitions="2", failOnDataLoss=fail)
        for fail in ("true", "false")
    )
    plan = strict.partitions()
    log = store.open(b"orders")
    log.purge(up_to=100)
    log.sync()
    with pytest.raises(DataLossError, match=r"some of sequences 1 to \d+ were removed before they were read"):
        list(strict.read(plan[0]))
    found = [n for part in plan for batch in lenient.read(part) for n in batch["sequence"].to_pylist()]
    assert found[-200:] == list(range(101, 301))
    assert "going on because failOnDataLoss is false" in caplog.text


def test_start_that_is_gone_ends_the_query(store: FileStore, tmp_path: Path) -> None:
    log = store.open(b"orders")
    log.purge(up_to=100)
    log.sync()
    one = reader(tmp_path / "store", channel="orders", startingOffsets='{"orders": 20}')
    with pytest.raises(DataLossError, match="begins at sequence 100 now: 20 to 99 were removed"):
        one.partitions()
    assert sequences(reader(tmp_path / "store", channel="orders")) == list(range(100, 301))


def test_damage_ends_the_query_or_is_told_of(
    store: FileStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = min((tmp_path / "store/logs/orders").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[BEGINNING + 50] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataLossError, match="is damaged: sequence 1 cannot be read"):
        sequences(reader(tmp_path / "store", channel="orders"))
    assert sequences(reader(tmp_path / "store", channel="orders", failOnDataLoss="false")) == list(
        range(2, 301)
    )
    assert "sequence 1 cannot be read" in caplog.text


def test_what_is_no_log_is_refused(store: FileStore, tmp_path: Path) -> None:
    for options, text in (
        ({"path": str(tmp_path / "nowhere")}, "cannot read .*nowhere"),
        ({"path": str(tmp_path)}, "no store's directory and no log's"),
        ({"path": str(tmp_path / "store"), "channel": "missing"}, "no log of channel missing"),
        ({"path": str(tmp_path / "store/logs/orders"), "channel": "a,b"}, "the log of one channel"),
    ):
        with pytest.raises(StoredStreamError, match=text):
            LogBatchReader(read_options(options), COLUMNS).partitions()


def test_empty_channel_is_an_empty_table(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.open(b"empty")
    one = reader(tmp_path, channel="empty")
    [partition] = one.partitions()
    assert list(one.read(partition)) == []
    store.close()


def test_directory_that_other_hosts_do_not_share_is_said(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = reader(tmp_path / "store", channel="orders", failOnDataLoss="false")
    [partition, *_] = one.partitions()
    store.close()
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    monkeypatch.setattr(socket, "gethostname", lambda: "worker-7")
    with pytest.raises(StoredStreamError, match="cannot be seen from worker-7"):
        list(one.read(partition))


def test_datasource_reads_a_path_as_a_table_and_with_its_server_as_a_stream() -> None:
    source = NatsDataSource({"path": "/data"})
    assert isinstance(source.reader(COLUMNS), LogBatchReader)
    for more in ({}, {"url": "nats://h"}, {"channel": "a"}):
        with pytest.raises(OptionError, match="needs options url and channel too"):
            NatsDataSource({"path": "/data", **more}).streamReader(COLUMNS)
    both = NatsDataSource({"path": "/data", "url": "nats://h", "channel": "a", "maxBytesPerTrigger": "1MiB"})
    assert isinstance(both.streamReader(COLUMNS), LogStreamReader)
    with pytest.raises(OptionError, match="subject and path exclude each other"):
        NatsDataSource({"path": "/data", "subject": "a"}).schema()
    with pytest.raises(OptionError, match="option spoolDir goes with option subject"):
        NatsDataSource({"path": "/data", "spoolDir": "/tmp"}).schema()


# -- as a stream


def stream(path: Path, server: Server, **options: str) -> LogStreamReader:
    given = {
        "path": str(path),
        "url": "nats://h",
        "channel": "orders",
        "startingOffsets": "earliest",
        **options,
    }
    return LogStreamReader(read_options(given), COLUMNS, server)  # type: ignore[arg-type]


def batch(one: LogStreamReader, start: Any, end: Any) -> list[int]:
    planned = pickle.loads(pickle.dumps(one.partitions(start, end)))
    return [n for p in planned for b in one.read(p) for n in b.column("sequence").to_pylist()]


def test_stream_catches_up_from_files_and_goes_on_from_the_server(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "FROM_FILES", 50)
    log = store.open(b"orders")
    server = Server(log)
    one = stream(tmp_path / "store", server, minPartitions="3")
    start = one.initialOffset()
    first = one.latestOffset(start, ReadAllAvailable())
    began = {"orders": {"next": 1, "created": 7}}
    assert first == {"v": 1, "channels": {"orders": {"next": 301, "created": 7}}, "began": began}
    kinds = [type(partition) for partition in one.partitions(start, first)]
    assert kinds.count(LogPartition) == 3
    server.asked.clear()
    assert batch(one, start, first) == list(range(1, 301))
    sealed = LogView(tmp_path / "store" / "logs" / "orders").sealed_end
    assert {asked for asked in server.asked if asked[1] - asked[0] > 1} == {(sealed, 301)}

    log.append([NewMessage(b"orders", b"%d" % n) for n in range(301, 321)])
    second = one.latestOffset(first, ReadAllAvailable())
    assert {type(partition) for partition in one.partitions(first, second)} == {StoredPartition}
    assert batch(one, first, second) == list(range(301, 321))
    again = pickle.loads(pickle.dumps(one.partitions(start, first)))
    assert [n for p in again for b in one.read(p) for n in b.column("sequence").to_pylist()] == list(
        range(1, 301)
    )


def test_stream_leaves_what_files_no_longer_have_to_the_server(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is run again after limits removed its front: the loss is told of, never passed over."""
    monkeypatch.setattr(log_reader, "FROM_FILES", 50)
    log = store.open(b"orders")
    server = Server(log)
    one = stream(tmp_path / "store", server)
    start = one.initialOffset()
    end = one.latestOffset(start, ReadAllAvailable())
    log.purge(up_to=120)
    assert {type(partition) for partition in one.partitions(start, end)} == {StoredPartition}
    with pytest.raises(DataLossError, match="begins at sequence 120 now: 1 to 119 were removed"):
        batch(one, start, end)
    server.created = 8
    with pytest.raises(DataLossError, match="deleted and made again"):
        batch(one, start, end)


@pytest.mark.parametrize("files", ["gone", "still there"])
def test_stream_of_a_channel_that_was_deleted_tells_of_the_loss_or_goes_on(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str
) -> None:
    monkeypatch.setattr(log_reader, "FROM_FILES", 50)
    server = Server(store.open(b"orders"))
    one = stream(tmp_path / "store", server)
    start = one.initialOffset()
    end = one.latestOffset(start, ReadAllAvailable())
    monkeypatch.setattr(server, "state", lambda _channel: None)
    if files == "gone":
        assert store.remove(b"orders")
    with pytest.raises(DataLossError, match="channel orders was deleted, sequences 1 to 300 cannot be read"):
        batch(stream(tmp_path / "store", server), start, end)
    lossy = stream(tmp_path / "store", server, failOnDataLoss="false")
    assert batch(lossy, start, end) == []


def test_stream_of_a_store_that_is_not_the_servers_is_refused(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "FROM_FILES", 50)
    other = FileStore(tmp_path / "other")
    log = other.open(b"orders")
    log.append([NewMessage(b"orders", b"x", b"", b"", START + n) for n in range(400)])
    one = stream(tmp_path / "store", Server(log))
    start = one.initialOffset()
    end = one.latestOffset(start, ReadAllAvailable())
    with pytest.raises(StoredStreamError, match="they hold different messages"):
        one.partitions(start, end)
    other.close()
