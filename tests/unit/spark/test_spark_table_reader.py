"""Tables of archived channels read as `format("nats")`, without a JVM: alone and with what is behind them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, StringStartsWith
from pyspark.sql.types import LongType, StringType, StructField, StructType

from harness.s3 import aws_environment, s3_endpoint
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.replay import ReplayBatch
from headrace.errors import UnsupportedError
from headrace.log.filesystem import RealFileSystem
from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.objects.local import LocalStore
from headrace.spark.datasource import NatsDataSource
from headrace.spark.errors import DataLossError, OptionError, StoredStreamError
from headrace.spark.log_reader import LogBatchReader, LogPartition
from headrace.spark.options import read_options
from headrace.spark.schema import COLUMNS, stored_record_batch
from headrace.spark.stored_link import StoredRows, StoredState, idle
from headrace.spark.stored_reader import StoredPartition
from headrace.spark.table_reader import FilteringTableReader, TableBatchReader, TablePartition
from headrace.tables import Table, open_store
from headrace.tables.archive import archive
from headrace.tables.files import FileLimits
from headrace.tables.manifest import TableKind
from headrace.tables.open import table_place
from headrace.tables.rewrite import compact, remove_rows
from headrace.tables.source import LogSource, ServerStreamSource
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.spark.offsets import StoredRange

START = 1_700_000_000_000_000_000
SECOND = 10**9
BLOCK = b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"
CREATED = 7
LIMITS = FileLimits(file_bytes=6000, group_rows=10)
"""Several files of several row groups of ten messages."""


class Unsynced(RealFileSystem):
    """Files whose power does not fail."""

    def fsync(self, handle: int) -> None: ...

    def fsync_dir(self, directory: Path) -> None: ...


def message(n: int) -> NewMessage:
    block, reply = (BLOCK, b"re") if n % 10 == 0 else (b"", b"")
    return NewMessage(b"orders.%d" % (n // 50), b"%d" % n, reply, block, START + n * SECOND + 999)


class Shop:
    """A store with channel orders, whose table is made of its first 200 messages; 100 more are behind it."""

    def __init__(self, folder: Path) -> None:
        self.store = FileStore(folder / "store", segment_bytes=4096)
        self.path = folder / "store"
        self.tables = folder / "tables"
        self.log = self.store.open(b"orders")
        self.created = CREATED
        self.asked: list[tuple[int, int]] = []
        self.publish(200)
        self.archive()
        self.publish(100)

    def publish(self, count: int) -> None:
        first = self.log.state().last_sequence + 1
        for at in range(first, first + count, 10):
            self.log.append([message(n) for n in range(at, at + 10)])

    def archive(self, **options: Any) -> None:
        source = LogSource(self.log, "orders", self.created)
        end = self.log.state().last_sequence + 1
        source.batches = lambda first, _end, read=source.batches: (  # type: ignore[method-assign, misc]
            batch for at in range(first, end, 10) for batch in read(at, min(at + 10, end))
        )
        archive(self.table, source, limits=LIMITS, **options)

    @property
    def table(self) -> Table:
        return Table(LocalStore(self.tables / "orders", Unsynced()))

    # -- what `ChannelLink` gives

    def place(self, name: str) -> str:
        return f"channel {name} of cluster mine"

    def state(self, name: str) -> StoredState | None:
        state = self.log.state()
        if name != "orders":
            return None
        return StoredState(state.first_sequence, state.last_sequence, state.messages, 0, self.created)

    def sequence_at(self, _name: str, time_ns: int) -> int:
        return max(1, -(-(time_ns - START) // SECOND))

    def rows(self, wanted: StoredRange, _filters: object, columns: StructType) -> Iterator[StoredRows]:
        self.asked.append((wanted.first, wanted.end))
        page = self.log.read_from(wanted.first, up_to=wanted.end, max_messages=1 << 20, max_bytes=1 << 40)
        found = page.messages
        batch = ReplayBatch(
            [b"orders"] * len(found), [m.subject for m in found], [m.sequence for m in found],
            [m.time_ns for m in found], [m.reply or None for m in found],
            [m.headers or None for m in found], [m.payload for m in found],
        )  # fmt: skip
        yield StoredRows(batch.sequences, stored_record_batch("orders", batch, columns, batch.replies))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.store.close()


def reader(shop: Shop, schema: StructType = COLUMNS, **options: str) -> TableBatchReader:
    given = read_options({"path": str(shop.tables), **options})
    kind = FilteringTableReader if given.pushdown else TableBatchReader
    return kind(given, schema, shop)  # type: ignore[arg-type]


def rows(one: TableBatchReader) -> list[dict[str, Any]]:
    batches = [b for p in pickle.loads(pickle.dumps(one.partitions())) for b in one.read(p)]
    found: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist() if batches else []
    return found


def sequences(one: TableBatchReader) -> list[int]:
    return [row["sequence"] for row in rows(one)]


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_table_is_read_whole_with_the_columns_of_the_stream(tasks: int, shop: Shop) -> None:
    one = reader(shop, minPartitions=str(tasks))
    assert len(one.partitions()) == tasks
    found = rows(one)
    logs = LogBatchReader(read_options({"path": str(shop.path), "endingOffsets": "latest"}), COLUMNS)
    same = [row for p in logs.partitions() for b in logs.read(p) for row in b.to_pylist()]
    assert found == same[:200]
    assert (found[9]["reply"], found[9]["headers"]) == ("re", [("A", ["1", "2"])])


def test_path_may_be_the_table_itself_and_channel_chooses(shop: Shop) -> None:
    assert len(rows(reader(shop, path=str(shop.tables / "orders")))) == 200
    assert len(rows(reader(shop, channel="orders"))) == 200
    assert len(rows(reader(shop, channel="*"))) == 200
    for missing in ("prices", "prices.*"):
        with pytest.raises(StoredStreamError, match="there is no table of channel prices"):
            reader(shop, channel=missing).partitions()


def test_server_gives_what_is_behind_the_table(shop: Shop) -> None:
    one = reader(shop, url="nats://127.0.0.1:1", minPartitions="3")
    assert sequences(one) == list(range(1, 301))
    assert shop.asked == [(201, 301)]
    kinds = [type(partition) for partition in one.partitions()]
    assert kinds == [TablePartition] * 3 + [StoredPartition]


def test_log_gives_what_is_behind_the_table(shop: Shop) -> None:
    one = reader(shop, logPath=str(shop.path))
    assert sequences(one) == list(range(1, 301))
    assert {type(partition) for partition in one.partitions()} == {TablePartition, LogPartition}
    assert shop.asked == []


def test_log_and_server_together_cover_each_sequence_once(shop: Shop) -> None:
    one = reader(shop, logPath=str(shop.path), url="nats://127.0.0.1:1", clusterId="mine")
    planned = one.partitions()
    shop.publish(20)  # after the plan: not of this scan
    shop.archive()
    found = [n for p in planned for b in one.read(p) for n in b.column("sequence").to_pylist()]
    assert found == list(range(1, 301))
    assert {type(partition) for partition in planned} == {TablePartition, LogPartition, StoredPartition}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [("37", "141", range(37, 141)), ("190", "215", range(190, 215)), ("230", "260", range(230, 260)),
     ("5", "5", range(0)), ("301", "301", range(0))],
)  # fmt: skip
@pytest.mark.parametrize("behind", ["url", "logPath"])
def test_sequences_bound_the_scan(behind: str, start: str, end: str, expected: range, shop: Shop) -> None:
    other = {"url": "nats://127.0.0.1:1"} if behind == "url" else {"logPath": str(shop.path)}
    one = reader(
        shop,
        channel="orders",
        startingOffsets=f'{{"orders": {start}}}',
        endingOffsets=f'{{"orders": {end}}}',
        **other,
    )
    assert sequences(one) == list(expected)


def test_sequence_that_is_not_there_yet_is_refused(shop: Shop) -> None:
    with pytest.raises(OptionError, match="sequence 202 of channel orders is not there yet"):
        reader(shop, channel="orders", startingOffsets='{"orders": 202}').partitions()


def test_times_bound_the_scan(shop: Shop) -> None:
    ms = [(START + n * SECOND) // 1_000_000 for n in (100, 150, 250, 400)]
    assert sequences(reader(shop, startingTimestamp=str(ms[0]), endingTimestamp=str(ms[1]))) == list(
        range(100, 150)
    )
    assert sequences(reader(shop, startingTimestamp=str(ms[2]))) == []
    behind = reader(shop, startingTimestamp=str(ms[1]), endingTimestamp=str(ms[2]), url="nats://127.0.0.1:1")
    assert sequences(behind) == list(range(150, 250))
    with pytest.raises(StoredStreamError, match="logs have no offsets by time"):
        reader(shop, startingTimestamp=str(ms[2]), logPath=str(shop.path)).partitions()


def test_own_schema_reads_only_these_columns(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spying(table: Any, files: Any, wanted: Any, columns: Any) -> Any:
        asked.append(list(columns))
        return actual(table, files, wanted, columns)

    from headrace.spark import table_reader

    actual = table_reader.scan
    monkeypatch.setattr(table_reader, "scan", spying)
    schema = StructType([StructField("data", StringType()), StructField("sequence", LongType())])
    found = rows(reader(shop, schema, valueFormat="string"))
    assert found[41] == {"data": "42", "sequence": 42}
    assert asked == [["data", "sequence"]]


@pytest.mark.parametrize(
    ("conditions", "first", "end", "most"),
    [
        ([EqualTo(("sequence",), 77)], 77, 78, 1),
        ([GreaterThan(("sequence",), 180), EqualTo(("stream",), "orders")], 181, 201, 20),
        ([EqualTo(("subject",), "orders.2")], 100, 150, 60),
        ([StringStartsWith(("subject",), "orders.")], 1, 201, 200),
        ([EqualTo(("stream",), "prices")], 0, 0, 0),
        (
            [GreaterThanOrEqual(("timestamp",), datetime.fromtimestamp(START / SECOND + 171, UTC))],
            171,
            201,
            30,
        ),
    ],
)
def test_pushed_conditions_skip_row_groups(
    conditions: list[Any], first: int, end: int, most: int, shop: Shop
) -> None:
    """Everything that matches comes, and at most the row groups that have some of it."""
    one = reader(shop, pushdown="true")
    assert isinstance(one, FilteringTableReader)
    assert one.pushFilters(conditions) == conditions
    found = sequences(one)
    assert set(range(first, end)) <= set(found)
    assert len(found) == most


def test_pushed_conditions_hold_behind_the_table(shop: Shop) -> None:
    one = reader(shop, pushdown="true", logPath=str(shop.path))
    assert isinstance(one, FilteringTableReader)
    one.pushFilters([GreaterThan(("sequence",), 195), GreaterThan(("sequence",), 198)])
    assert sequences(one) == list(range(199, 301))
    one.pushFilters([EqualTo(("stream",), "other")])
    assert sequences(one) == []


# -- writers at work


def test_merged_files_are_read_on(shop: Shop) -> None:
    one = reader(shop)
    planned = one.partitions()
    with shop.table.writing() as writer:
        compact(writer)
        writer.vacuum()
    found = [n for p in planned for b in one.read(p) for n in b.column("sequence").to_pylist()]
    assert found == list(range(1, 201))


def test_erased_rows_are_gone_while_it_reads_and_the_rest_is_read_once(shop: Shop) -> None:
    one = reader(shop, minPartitions="1")
    [planned] = one.partitions()
    reading = one.read(planned)
    found = next(reading).column("sequence").to_pylist()
    with shop.table.writing() as writer:
        remove_rows(writer, ((20, 30), (150, 160)))
    found += [n for batch in reading for n in batch.column("sequence").to_pylist()]
    assert found == [*range(1, 150), *range(161, 201)]


def test_deleted_messages_are_gone_from_the_next_read(shop: Shop) -> None:
    shop.log.delete(77, erase=True)
    shop.archive()
    assert sequences(reader(shop)) == [n for n in range(1, 301) if n != 77]


def test_rows_that_retention_takes_while_it_reads_are_a_loss(shop: Shop) -> None:
    one = reader(shop, minPartitions="1")
    [planned] = one.partitions()
    shop.log.purge(up_to=80)
    shop.archive()
    with pytest.raises(DataLossError, match="begins at sequence 80 now: 1 to 79 were removed before"):
        list(one.read(planned))
    relaxed = reader(shop, failOnDataLoss="false", minPartitions="1")
    assert [n for b in relaxed.read(planned) for n in b.column("sequence").to_pylist()] == list(
        range(80, 201)
    )


def test_file_that_is_missing_is_named(shop: Shop) -> None:
    one = reader(shop)
    planned = one.partitions()
    path = shop.table.manifest().files[1].path
    (shop.tables / "orders" / path).unlink()
    with pytest.raises(StoredStreamError, match=f"{path}: it is missing"):
        _ = [list(one.read(partition)) for partition in planned]


# -- what does not fit together


def test_sequences_below_the_table_are_a_loss(shop: Shop) -> None:
    shop.log.purge(up_to=80)
    shop.archive()
    options = {"channel": "orders", "startingOffsets": '{"orders": 60}'}
    with pytest.raises(DataLossError, match="begins at sequence 80, it does not have: sequences 60 to 79"):
        reader(shop, **options).partitions()
    assert sequences(reader(shop, failOnDataLoss="false", **options)) == list(range(80, 301))
    assert sequences(reader(shop)) == list(range(80, 301))


def test_messages_that_were_removed_before_they_were_archived_are_a_loss(shop: Shop) -> None:
    shop.log.purge(up_to=221)
    behind = {"logPath": str(shop.path)}
    with pytest.raises(DataLossError, match="removed before they were archived: sequences 201 to 220"):
        reader(shop, **behind).partitions()
    shop.archive(retain="forever")
    with pytest.raises(
        DataLossError, match="gone from the stream before they were archived: sequences 201 to"
    ):
        reader(shop, **behind).partitions()
    assert sequences(reader(shop, failOnDataLoss="false")) == [*range(1, 201), *range(221, 301)]
    bounded = reader(shop, channel="orders", startingOffsets='{"orders": 221}')
    assert sequences(bounded) == list(range(221, 301))


def test_channel_that_was_made_again_is_refused(shop: Shop) -> None:
    shop.created = 8
    with pytest.raises(StoredStreamError, match="deleted and made again since"):
        reader(shop, url="nats://127.0.0.1:1").partitions()


def test_server_without_the_channel_or_with_less_is_refused(shop: Shop, tmp_path: Path) -> None:
    shop.store.remove(b"orders")
    shop.log = shop.store.open(b"orders")
    shop.publish(150)
    with pytest.raises(StoredStreamError, match=r"ends at sequence 150, and .* has it up to 200"):
        reader(shop, url="nats://127.0.0.1:1").partitions()
    with pytest.raises(StoredStreamError, match="ends at sequence 150"):
        reader(shop, logPath=str(shop.path)).partitions()


def test_log_with_other_messages_is_refused(shop: Shop, tmp_path: Path) -> None:
    other = FileStore(tmp_path / "other")
    other.open(b"orders").append([NewMessage(b"orders", b"x", b"", b"", START + n) for n in range(300)])
    with pytest.raises(StoredStreamError, match="they hold different messages"):
        reader(shop, logPath=str(tmp_path / "other")).partitions()
    with pytest.raises(StoredStreamError, match="there is no log in"):
        reader(shop, logPath=str(tmp_path)).partitions()
    other.close()


def test_damaged_manifest_is_told_of(shop: Shop) -> None:
    for file in (shop.tables / "orders" / "_headrace" / "manifests").iterdir():
        file.write_bytes(b"{}")
    with pytest.raises(StoredStreamError, match="not a manifest of a table"):
        reader(shop).partitions()


def test_executor_that_does_not_see_the_directory_says_so(shop: Shop, tmp_path: Path) -> None:
    one = reader(shop, minPartitions="1")
    [planned] = one.partitions()
    assert isinstance(planned, TablePartition)
    elsewhere = replace(planned, host="elsewhere", location=str(tmp_path / "not here"))
    with pytest.raises(StoredStreamError, match="cannot be seen from"):
        list(one.read(elsewhere))


def test_stream_of_jetstream_is_behind_its_table(tmp_path: Path) -> None:
    place = str(tmp_path / "tables")
    with Server(jetstream=True) as server, connect(server.url) as connection:
        jetstream = JetStreamApi(connection)
        for name in ("ORDERS", "PRICES"):
            jetstream.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
            for number in range(1, 11):
                jetstream.put(f"{name}.new", b"%d" % number)
            archive(Table(LocalStore(tmp_path / "tables" / name)), ServerStreamSource(connection, name))
        for number in range(11, 15):
            jetstream.put("ORDERS.new", b"%d" % number)

        def read(**options: str) -> list[int]:
            one = NatsDataSource({"path": place, **options}).reader(COLUMNS)
            found = [b for p in one.partitions() for b in one.read(p)]
            return [row["sequence"] for batch in found for row in batch.to_pylist()]

        assert read(stream="ORDERS") == list(range(1, 11))
        assert read(stream="ORDERS", url=server.url) == list(range(1, 15))
        assert len(read(stream="*", url=server.url)) == 24
        assert read(stream="ORDERS", url=server.url, startingOffsets='{"ORDERS": 8}') == list(range(8, 15))
        with pytest.raises(StoredStreamError, match="there is no table of stream MISSING"):
            read(stream="MISSING")
        jetstream.ask("STREAM.DELETE.ORDERS")
        with pytest.raises(StoredStreamError, match="there is no stream ORDERS, of which"):
            read(stream="ORDERS", url=server.url)
    idle.clear()


def test_tables_of_one_stream_are_not_mixed(tmp_path: Path) -> None:
    log = MemoryLog()
    log.append([NewMessage(b"$KV.settings.a", b"1"), NewMessage(b"$KV.settings.b", b"1")])
    source = LogSource(log, "KV_settings", 7)
    for kind in (TableKind.HISTORY, TableKind.MESSAGES):
        archive(Table(LocalStore(tmp_path / table_place("KV_settings", kind))), source, kind=kind)
    with pytest.raises(StoredStreamError, match=r"are of one stream: option path has to name one"):
        NatsDataSource({"path": str(tmp_path)}).reader(COLUMNS).partitions()
    history = str(tmp_path / "settings.history")
    one = NatsDataSource({"path": history}).reader(COLUMNS)
    assert [row["data"] for p in one.partitions() for b in one.read(p) for row in b.to_pylist()] == [b"1"] * 2
    with pytest.raises(StoredStreamError, match="has rows of a key-value bucket"):
        NatsDataSource({"path": history, "url": "nats://127.0.0.1:1"}).reader(COLUMNS).partitions()


def test_stream_with_a_path_is_for_tables(shop: Shop) -> None:
    for options in ({"path": str(shop.path)}, {"path": str(shop.tables), "logPath": str(shop.path)}):
        with pytest.raises(OptionError, match="option stream with option path is for tables"):
            NatsDataSource({**options, "stream": "orders"}).reader(COLUMNS)
    with pytest.raises(OptionError, match="exclude each other"):
        read_options({"path": str(shop.tables), "stream": "a", "channel": "b"})


def test_data_source_tells_tables_from_logs(shop: Shop) -> None:
    def made(path: Path, **options: str) -> object:
        return NatsDataSource({"path": str(path), **options}).reader(COLUMNS)

    assert type(made(shop.tables)) is TableBatchReader
    assert type(made(shop.tables / "orders")) is TableBatchReader
    assert type(made(shop.tables, pushdown="true")) is FilteringTableReader
    assert type(made(shop.path)) is LogBatchReader
    for name, value in (("pushdown", "true"), ("logPath", "x"), ("endingTimestamp", "1")):
        with pytest.raises(OptionError, match=f"option {name} is for paths of tables"):
            made(shop.path, **{name: value})
    with pytest.raises(UnsupportedError, match=r"spark\.readStream of tables"):
        NatsDataSource({"path": str(shop.tables)}).streamReader(COLUMNS)


def test_url_is_a_place_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    source = NatsDataSource({"path": "memory:///tables"})
    one = source.reader(COLUMNS)
    assert type(one) is TableBatchReader
    pytest.importorskip("obstore")
    with pytest.raises(StoredStreamError, match="there is no table here"):
        one.partitions()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket on an S3 server of the test's own, found by the environment as on an executor."""
    with s3_endpoint("archive") as endpoint:
        for name, value in aws_environment(endpoint).items():
            monkeypatch.setenv(name, value)
        yield "s3://archive/tables"


@pytest.mark.filterwarnings("default")  # what moto and its dependencies warn of is theirs
def test_table_in_an_object_store_with_what_is_behind_it(shop: Shop, s3: str) -> None:
    archive(Table(open_store(f"{s3}/orders")), LogSource(shop.log, "orders", CREATED), limits=LIMITS)
    shop.publish(50)
    for path in (s3, f"{s3}/orders"):
        assert sequences(reader(shop, path=path, minPartitions="3")) == list(range(1, 301))
    assert sequences(reader(shop, path=s3, logPath=str(shop.path))) == list(range(1, 351))
    one = reader(shop, path=s3, pushdown="true")
    assert isinstance(one, FilteringTableReader)
    one.pushFilters([EqualTo(("sequence",), 77)])
    assert sequences(one) == [77]
    with pytest.raises(StoredStreamError, match="there is no table here"):
        reader(shop, path="s3://archive/other").partitions()
    with pytest.raises(StoredStreamError, match="s3://missing"):
        reader(shop, path="s3://missing/tables").partitions()
