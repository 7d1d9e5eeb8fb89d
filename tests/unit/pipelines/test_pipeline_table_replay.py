"""A table as a sequence of rows, and how many of them are due when."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage
from headrace.pipelines.table_files import TableReplayError, newest_batch, open_table, read_rows
from headrace.pipelines.table_replay import ReplayReader, TableReplay, read_replay_options
from headrace.tables import Table, open_store
from headrace.tables.archive import archive
from headrace.tables.source import LogSource

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = datetime(2026, 11, 21, tzinfo=UTC)


def write(
    path: Path, numbers: list[int], *, rows_in_group: int = 4, seconds: list[float] | None = None
) -> None:
    """Rows `number`, `timestamp` (as many seconds after the origin) and `headers`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    times = [ORIGIN + timedelta(seconds=second) for second in seconds or map(float, numbers)]
    table = pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "timestamp": pa.array(times, pa.timestamp("ns")),
            "headers": pa.array([[("a", ["b"])]] * len(numbers), pa.map_(pa.string(), pa.list_(pa.string()))),
        }
    )
    pq.write_table(table, path, row_group_size=rows_in_group)


def numbers(folder: Path, first: int, end: int) -> list[int]:
    table = open_table(str(folder), "timestamp")
    return [n for batch in read_rows(table, first, end, ["number"]) for n in batch.column(0).to_pylist()]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def reader(folder: Path, clock: Clock, **options: str) -> ReplayReader:
    given = {"path": str(folder), **options}
    schema: Any = TableReplay(given).schema()
    return ReplayReader(read_replay_options(given), schema, clock)


def due(source: ReplayReader, start: dict[str, Any]) -> int:
    return int(source.latestOffset(start, ReadAllAvailable())["replay"]["next"]) - 1


def test_rows_are_in_the_order_of_the_files_smallest_times(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", list(range(10)))
    write(tmp_path / "a.parquet", list(range(10, 17)))
    write(tmp_path / "empty.parquet", [])
    for first in range(17):
        for end in range(first, 18):
            assert numbers(tmp_path, first, end) == list(range(first, min(end, 17)))


def test_only_files_in_sparks_list_are_rows(tmp_path: Path) -> None:
    for name in ("one", "two", "three", "left_behind"):
        write(tmp_path / f"{name}.parquet", [len(name)])
    log = tmp_path / "_spark_metadata"
    log.mkdir()

    def add(entry: str, *names: str) -> None:
        lines = [json.dumps({"path": f"file://{tmp_path}/{name}.parquet", "action": "add"}) for name in names]
        (log / entry).write_text("\n".join(["v1", *lines]))

    add("0", "one")
    add("1", "two")
    assert sorted(numbers(tmp_path, 0, 10)) == [3, 3]
    add("1.compact", "one", "two")
    add("2", "three")
    (log / ".2.crc").write_text("x")
    assert sorted(numbers(tmp_path, 0, 10)) == [3, 3, 5]
    (log / "3").write_text("v9\n")
    with pytest.raises(TableReplayError, match="begins with 'v9', not v1"):
        numbers(tmp_path, 0, 10)


def test_newest_batch_is_the_highest_number_in_a_log_of_sparks(tmp_path: Path) -> None:
    assert newest_batch(tmp_path / "none") == -1
    for name in ("9", "10.compact", ".12.crc", "11.tmp", "x"):
        (tmp_path / name).touch()
    assert newest_batch(tmp_path) == 10


def test_columns_of_partitions_are_columns(tmp_path: Path) -> None:
    write(tmp_path / "kind=x" / "a.parquet", [1])
    write(tmp_path / "kind=y" / "a.parquet", [2])
    table = open_table(str(tmp_path), "timestamp")
    assert [b.column(0).to_pylist() for b in read_rows(table, 0, 2, ["kind"])] == [["x"], ["y"]]


def test_rate_lets_so_many_rows_out_a_second_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", list(range(100)))
    clock = Clock()
    source = reader(tmp_path, clock, rate="10")
    start = source.initialOffset()
    assert due(source, start) == 0
    clock.now += 2.05
    assert due(source, start) == 20
    assert source.latestOffset(start, ReadMaxRows(5))["replay"]["next"] == 6
    half = source.latestOffset(start, ReadAllAvailable())
    again = reader(tmp_path, clock, rate="10")
    assert due(again, half) == 20
    clock.now += 1
    assert due(again, half) == 30
    clock.now += 1000
    assert due(again, half) == 100
    assert again.reportLatestOffset()["replay"]["next"] == 101


def test_speed_keeps_the_distances_of_the_times(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [0, 1, 2], seconds=[0, 10, 20])
    write(
        tmp_path / "b.parquet", [3, 4, 5], seconds=[25, 21, 60]
    )  # the second came early: it waits for the first
    clock = Clock()
    source = reader(tmp_path, clock, speed="10")
    start = source.initialOffset()
    found = []
    for _ in range(7):
        found.append(due(source, start))
        clock.now += 1
    assert found == [1, 2, 3, 5, 5, 5, 6]


def test_a_batch_that_runs_again_reads_the_same_rows(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", list(range(10)))
    source = reader(tmp_path, Clock(), minPartitions="3")
    start = source.initialOffset()
    end = source.latestOffset(start, ReadMaxRows(7))
    parts = source.partitions(start, end)
    rows = [[n for b in source.read(part) for n in b.column(0).to_pylist()] for part in parts]
    assert rows == [[0, 1], [2, 3], [4, 5, 6]]
    assert source.partitions(start, start) == []
    batch = next(iter(source.read(parts[0])))
    assert batch.column(2).to_pylist() == [[("a", ["b"])]] * 2
    assert batch.column(1).type == pa.timestamp("us", "UTC")
    assert from_arrow_schema(batch.schema)["timestamp"].dataType.simpleString() == "timestamp"


def test_a_table_that_has_changed_or_another_source_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1])
    start = reader(tmp_path, Clock()).initialOffset()
    write(tmp_path / "b.parquet", [2])
    with pytest.raises(TableReplayError, match="has changed since the checkpoint was written"):
        reader(tmp_path, Clock()).latestOffset(start, ReadAllAvailable())
    with pytest.raises(TableReplayError, match="table-replay did not write"):
        reader(tmp_path, Clock()).latestOffset({"v": 1, "core": {}}, ReadAllAvailable())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "option path: None is no folder"),
        ({"path": "s3://x"}, "is no folder of this machine"),
        ({"path": "/x", "rat": "1"}, "option rat is not known to table-replay"),
        ({"path": "/x", "rate": "1", "speed": "1"}, "exclude each other"),
        ({"path": "/x", "rate": "0"}, "option rate: '0' is not a number above 0"),
        ({"path": "/x", "rate": "fast"}, "option rate: 'fast' is not a number above 0"),
    ],
)
def test_bad_options(options: dict[str, str], text: str) -> None:
    with pytest.raises(TableReplayError, match=text):
        read_replay_options(options)


def test_of_a_kept_table_the_manifest_says_which_files_count(tmp_path: Path) -> None:
    log = MemoryLog()
    log.append([NewMessage(b"orders", b"%d" % number) for number in range(5)])
    folder = tmp_path / "orders"
    archive(Table(open_store(str(folder))), LogSource(log, "orders"))
    (left_over,) = folder.glob("*.parquet")
    (folder / "of-a-killed-writer.parquet").write_bytes(left_over.read_bytes())
    found = open_table(str(folder), "timestamp")
    rows = [row for batch in read_rows(found, 0, found.rows, ["sequence"]) for row in batch.to_pylist()]
    assert rows == [{"sequence": number} for number in range(1, 6)]
    schema = TableReplay({"path": str(folder)}).schema()
    assert schema["timestamp"].dataType.simpleString() == "timestamp"
    reading = ReplayReader(read_replay_options({"path": str(folder)}), schema)
    end = reading.latestOffset(reading.initialOffset(), ReadAllAvailable())
    (task,) = reading.partitions(reading.initialOffset(), end)
    assert sum(batch.num_rows for batch in reading.read(task)) == 5


def test_bad_tables(tmp_path: Path) -> None:
    with pytest.raises(TableReplayError, match="holds no Parquet files"):
        open_table(str(tmp_path), "timestamp")
    write(tmp_path / "a.parquet", [1])
    with pytest.raises(TableReplayError, match="has no column when"):
        open_table(str(tmp_path), "when")
    source = reader(tmp_path, Clock(), speed="2", timeColumn="number")
    with pytest.raises(TableReplayError, match=r"column number \(option timeColumn\) is int64, not a time"):
        source.latestOffset(source.initialOffset(), ReadAllAvailable())
    with pytest.raises(TableReplayError, match="leave out options rate and speed"):
        reader(tmp_path, Clock(), rate="2").prepareForTriggerAvailableNow()
    (tmp_path / "b.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(TableReplayError, match="cannot be read as a Parquet table"):
        open_table(str(tmp_path), "timestamp")
