"""The archiver: every message once, in files that say what they hold, and no loss without a word."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_makers import SECOND, START, Stream, archived, message, sequences

from headrace.log.port import Limits
from headrace.objects.errors import LockHeld
from headrace.objects.local import LocalStore
from headrace.tables import Table
from headrace.tables.archive import archive
from headrace.tables.columns import SCHEMA
from headrace.tables.errors import SourceChanged, SourceMissing
from headrace.tables.files import FileLimits
from headrace.tables.rewrite import compact
from headrace.tables.verify import verify

if TYPE_CHECKING:
    from pathlib import Path


def test_a_table_has_every_column_of_every_message(table: Table) -> None:
    archive(table, Stream(6))

    rows = pa.Table.from_batches(table.batches()).to_pylist()

    assert [row["sequence"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for n, row in enumerate(rows, 1):
        assert row["stream"] == "orders"
        assert row["subject"] == f"orders.{n % 4}"
        assert row["data"] == b"message %d" % n
        assert row["reply"] == (f"inbox.{n}" if n % 3 == 0 else None)
        assert row["headers"] == ([("Kind", ["even", "two"])] if n % 2 == 0 else None)
        assert row["timestamp_ns"] == START + n * SECOND + 123
        assert row["timestamp"].timestamp() == (START + n * SECOND) // SECOND


def test_a_second_run_adds_what_is_new_and_nothing_else(table: Table) -> None:
    stream = Stream(25)
    archived(table, stream)
    before = table.manifest()
    assert archived(table, stream).rows == 0
    assert table.manifest() == before, "a run with nothing to do writes nothing"

    stream.publish(30)
    report = archived(table, stream)

    assert (report.rows, report.next) == (30, 56)
    assert sequences(table) == list(range(1, 56))
    assert verify(table) == []


def test_files_and_directories_are_the_owners_alone(tmp_path: Path) -> None:
    """As those of a store, whatever the process lets others do with new files."""
    before = os.umask(0)
    try:
        table = Table(LocalStore(tmp_path / "tables" / "orders"))
        stream = Stream(25)
        archived(table, stream)
        stream.publish(5)
        archived(table, stream)
        with table.writing() as writer:
            compact(writer)
    finally:
        os.umask(before)
    modes = modes_in(tmp_path / "tables")
    assert any(path.suffix == ".parquet" for path in modes)
    assert {mode for path, mode in modes.items() if not path.is_dir()} == {0o600}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}


def modes_in(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


def test_files_are_bounded_and_sorted_and_have_statistics(table: Table, directory: Path) -> None:
    archived(table, Stream(40))

    manifest = table.manifest()

    assert [(f.first, f.last, f.rows) for f in manifest.files] == [
        (1, 10, 10),
        (11, 20, 10),
        (21, 30, 10),
        (31, 40, 10),
    ]
    assert sorted(p.name for p in directory.glob("*.parquet")) == [f.path for f in manifest.files]
    for file in manifest.files:
        metadata = pq.read_metadata(directory / file.path)
        columns = {
            metadata.row_group(0).column(i).path_in_schema: metadata.row_group(0).column(i).statistics
            for i in range(metadata.num_columns)
        }
        assert (columns["sequence"].min, columns["sequence"].max) == (file.first, file.last)
        assert columns["timestamp_ns"].min == file.first_time_ns
        assert columns["timestamp"].max.timestamp() == file.last_time_ns // SECOND
        assert (columns["subject"].min, columns["subject"].max) == ("orders.0", "orders.3")
        assert columns["data"] is None, "nobody looks for the smallest payload"


def test_row_groups_are_bounded_in_rows_and_bytes(table: Table, directory: Path) -> None:
    limits = FileLimits(group_rows=20, group_bytes=1 << 30)
    archived(table, Stream(45), limits)

    metadata = pq.read_metadata(directory / table.manifest().files[0].path)

    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [20, 20, 5]


def test_text_that_is_not_utf8_is_kept_readable(table: Table) -> None:
    stream = Stream(0, name=b"caf\xe9".decode("utf-8", "surrogateescape"))
    stream.log.append([message(1)._replace(subject=b"caf\xe9", headers=b"nonsense")])

    archive(table, stream)

    (row,) = pa.Table.from_batches(table.batches()).to_pylist()
    assert (row["stream"], row["subject"]) == ("caf\\xe9", "caf\\xe9")
    assert row["headers"] == [("", ["nonsense"])]
    assert table.manifest().stream == stream.name


def test_an_empty_stream_makes_a_table_without_files(table: Table) -> None:
    report = archive(table, Stream(0))

    assert (report.rows, table.manifest().files, table.locations()) == (0, (), [])


def test_a_table_begins_where_its_stream_does(table: Table) -> None:
    stream = Stream(30)
    stream.log.purge(up_to=11)

    report = archived(table, stream)

    assert report.missed == ()
    assert sequences(table) == list(range(11, 31))


def test_what_limits_took_before_it_was_archived_is_named(table: Table) -> None:
    stream = Stream(10, limits=Limits(max_messages=10))
    archived(table, stream, retain="forever")
    stream.publish(15)

    report = archived(table, stream)

    assert report.missed == ((11, 15),)
    assert table.manifest().missed == ((11, 15),)
    assert sequences(table) == [*range(1, 11), *range(16, 26)]
    assert archived(table, stream).missed == (), "told once"


def test_what_limits_take_while_a_run_reads_is_named(table: Table) -> None:
    stream = Stream(40)
    stream.on_batch = lambda first: stream.log.purge(up_to=26) if first == 1 else None

    report = archived(table, stream, retain="forever")

    assert report.missed == ((11, 25),)
    assert sequences(table) == [*range(1, 11), *range(26, 41)]


def test_single_deletes_are_no_loss(table: Table) -> None:
    stream = Stream(20)
    stream.log.delete(7)
    stream.log.delete(20)

    report = archived(table, stream)

    assert (report.missed, report.next) == ((), 21)
    assert sequences(table) == stream.live()


def test_damage_is_recorded_and_is_no_deletion(table: Table) -> None:
    stream = Stream(30)
    stream.damaged = {12, 13}

    report = archived(table, stream)

    assert (report.damaged, report.missed) == (((12, 13),), ())
    assert table.manifest().damaged == ((12, 13),)
    stream.damaged = {12, 13, 25}
    stream.log.delete(1)
    assert archived(table, stream).removed == 1
    assert 25 in sequences(table), "what can no longer be read there is kept here"


def test_a_stream_that_is_not_there(table: Table) -> None:
    stream = Stream(0)
    stream.is_there = False

    with pytest.raises(SourceMissing, match="there is no stream orders"):
        archive(table, stream)


def test_a_stream_that_was_made_again_is_refused_and_can_be_begun_again(
    table: Table, directory: Path
) -> None:
    archived(table, Stream(30))
    again = Stream(12)
    again.created_ns = 8

    with pytest.raises(SourceChanged, match="deleted and made again"):
        archived(table, again)
    assert sequences(table) == list(range(1, 31))

    archived(table, again, restart=True)
    assert sequences(table) == list(range(1, 13))
    assert len(list(directory.rglob("*.parquet"))) == len(table.manifest().files)


def test_a_stream_made_again_while_it_is_read_leaves_the_table_as_it_was(table: Table) -> None:
    stream = Stream(20)
    archived(table, stream)
    stream.publish(10)
    stream.on_batch = lambda _first: setattr(stream, "created_ns", 9)

    with pytest.raises(SourceChanged):
        archived(table, stream, FileLimits())
    assert sequences(table) == list(range(1, 21))


def test_a_shorter_stream_and_another_stream_are_refused(table: Table) -> None:
    archived(table, Stream(30))

    with pytest.raises(SourceChanged, match="ends at sequence 10"):
        archived(table, Stream(10))
    with pytest.raises(SourceChanged, match="table of stream orders, not of other"):
        archived(table, Stream(30, name="other"))


def test_a_second_writer_is_refused_while_one_is_at_work(table: Table, directory: Path) -> None:
    with table.writing(create=True), pytest.raises(LockHeld, match="another process writes"):
        archive(table, Stream(1))
    archive(table, Stream(1))

    assert sequences(table) == [1]


def test_messages_out_of_order_end_the_run_and_leave_nothing(table: Table, directory: Path) -> None:
    class Backwards(Stream):
        def batches(self, first: int, end: int):  # type: ignore[no-untyped-def]
            yield from reversed(list(super().batches(first, end)))

    with pytest.raises(ValueError, match="do not ascend"):
        archived(table, Backwards(20), FileLimits())

    assert sequences(table) == []
    assert not list(directory.rglob("*.parquet"))
    assert not list((directory / "_headrace" / "drafts").iterdir())


def test_progress_tells_how_far_a_run_is(table: Table) -> None:
    seen = []

    archived(table, Stream(35), progress=seen.append)

    assert (seen[0].first, seen[-1].at, seen[-1].end, seen[-1].rows) == (1, 36, 36, 35)
    assert all(a.at <= b.at for a, b in pairwise(seen))


def test_the_schema_is_that_of_the_spark_source_and_the_exact_time() -> None:
    spark = pytest.importorskip("headrace.spark.schema")

    assert list(SCHEMA)[:-1] == list(spark.arrow_schema())
