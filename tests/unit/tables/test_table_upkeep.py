"""Removal, compaction, retention, verification: what is gone is gone, what is there is there once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from table_makers import SECOND, START, Stream, Unsynced, archived, message, sequences

from headrace.objects.errors import KeyMissing
from headrace.objects.local import LocalStore
from headrace.tables import Table
from headrace.tables.errors import TableDamaged, TableMissing
from headrace.tables.files import FileLimits
from headrace.tables.manifest import DataFile
from headrace.tables.rewrite import compact, merge_tail, newest_to_merge, remove_rows
from headrace.tables.verify import verify

if TYPE_CHECKING:
    from pathlib import Path


def plain(directory: Path) -> list[int]:
    """What somebody sees who knows nothing of manifests."""
    return sorted(
        n for path in directory.glob("*.parquet") for n in pq.read_table(path)["sequence"].to_pylist()
    )


def has_bytes(directory: Path, wanted: bytes) -> bool:
    """Whether any file below has a row with this payload, in whatever folder it lies."""
    paths = directory.rglob("*.parquet")
    return any(wanted in pq.ParquetFile(p).read(["data"])["data"].to_pylist() for p in paths)


def merge(table: Table) -> tuple[int, int]:
    with table.writing() as writer:
        return compact(writer)


def vacuum(table: Table, older_than_ns: int = 0) -> int:
    with table.writing() as writer:
        return writer.vacuum(older_than_ns)


def test_compaction_makes_one_file_of_small_neighbours(table: Table, directory: Path) -> None:
    archived(table, Stream(45))
    rows = [row for batch in table.batches() for row in batch.to_pylist()]

    assert merge(table) == (5, 1)

    assert [row for batch in table.batches() for row in batch.to_pylist()] == rows
    assert len(table.manifest().files) == 1
    assert plain(directory) == list(range(1, 46))
    assert verify(table) == []
    assert merge(table) == (0, 0)


def test_the_tail_is_merged_now_and_then_and_no_row_often(table: Table) -> None:
    """Five messages a run: files stay few, and what is written again is bounded by the logarithm."""
    stream, most, again = Stream(0), 0, 0
    runs = 120
    for _ in range(runs):
        stream.publish(5)
        archived(table, stream)
        files = table.manifest().files
        with table.writing() as writer:
            again += sum(file.rows for file in files[-count:]) if (count := merge_tail(writer)) else 0
        most = max(most, len(files))

    assert sequences(table) == list(range(1, 5 * runs + 1))
    assert most < 50
    assert again < 4 * 5 * runs


def sized(*sizes: int) -> list[DataFile]:
    return [DataFile(f"{n}", n, n, 1, 0, 0, size, "") for n, size in enumerate(sizes, 1)]


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([1] * 15, 0),
        ([1] * 16, 16),
        ([30, *[1] * 16], 16),
        ([10, *[1] * 16], 17),
        ([80, *[1] * 16], 16),
        ([*[1] * 16, 80], 0),
        ([40, 40, *[1] * 16], 18),
        ([60, 10, *[1] * 16], 17),
        ([], 0),
    ],
)
def test_which_files_of_the_tail_are_merged(sizes: list[int], merged: int) -> None:
    assert len(newest_to_merge(sized(*sizes), 100)) == merged


def test_compaction_leaves_large_files_and_does_not_reach_over_them(table: Table) -> None:
    archived(table, Stream(60))
    size = max(file.bytes for file in table.manifest().files)

    with table.writing() as writer:
        compact(writer, FileLimits(file_bytes=size * 3))

    assert [f.rows for f in table.manifest().files] in ([20, 20, 20], [30, 30], [20, 30, 10], [30, 20, 10])
    assert sequences(table) == list(range(1, 61))


def test_a_reader_that_began_before_a_compaction_finishes(table: Table) -> None:
    archived(table, Stream(45))
    reading = table.batches(["sequence"])
    seen = next(reading).column("sequence").to_pylist()

    merge(table)

    for batch in reading:
        seen += batch.column("sequence").to_pylist()
    assert seen == list(range(1, 46))


def test_replaced_files_wait_for_readers_as_long_as_vacuum_is_told(directory: Path) -> None:
    now = START
    table = Table(LocalStore(directory, Unsynced()), clock=lambda: now)
    archived(table, Stream(45))
    merge(table)
    replaced = directory / "_headrace" / "replaced"

    now += 10 * SECOND
    vacuum(table, 20 * SECOND)
    assert len(list(replaced.iterdir())) == 5
    vacuum(table, 5 * SECOND)
    assert not list(replaced.iterdir())
    assert table.manifest().retired == ()
    assert sequences(table) == list(range(1, 46))


def test_what_is_removed_is_gone_from_every_file(table: Table, directory: Path) -> None:
    archived(table, Stream(45))
    merge(table)  # the small files wait in `replaced`, with the rows that are to go
    assert has_bytes(directory, b"message 17")

    with table.writing() as writer:
        assert remove_rows(writer, ((17, 18), (40, 99))) == 8

    expected = [*range(1, 17), *range(19, 40)]
    assert sequences(table) == plain(directory) == expected
    for n in (17, 18, 40, 45):
        assert not has_bytes(directory, b"message %d" % n)
    assert has_bytes(directory, b"message 16")
    assert verify(table) == []


def test_files_of_others_in_the_directory_are_left_alone(table: Table, directory: Path) -> None:
    directory.mkdir()
    (directory / "mine.parquet").write_bytes(b"precious")
    archived(table, Stream(25))
    merge(table)
    vacuum(table)

    assert (directory / "mine.parquet").read_bytes() == b"precious"


def test_old_versions_do_not_pile_up(table: Table, directory: Path) -> None:
    archived(table, Stream(200))

    assert table.manifest().version > 20
    assert len(list((directory / "_headrace" / "manifests").iterdir())) == 2


def test_removing_nothing_writes_nothing(table: Table, directory: Path) -> None:
    stream = Stream(20)
    stream.log.delete(5)
    archived(table, stream)
    before = (table.manifest(), sorted(directory.rglob("*.parquet")))

    with table.writing() as writer:
        assert remove_rows(writer, ((5, 5), (21, 30))) == 0

    assert (table.manifest(), sorted(directory.rglob("*.parquet"))) == before


def test_deleted_and_erased_messages_leave_the_table(table: Table, directory: Path) -> None:
    stream = Stream(45)
    archived(table, stream)
    stream.log.delete(23, erase=True)
    stream.log.delete(45)
    stream.publish(5)

    report = archived(table, stream)

    assert (report.removed, report.missed) == (2, ())
    assert sequences(table) == plain(directory) == stream.live()
    assert not has_bytes(directory, b"message 23")


def test_a_stream_without_deletes_is_not_read_again(table: Table) -> None:
    stream = Stream(45)
    archived(table, stream)
    stream.publish(1)
    stream.reads = 0

    archived(table, stream)

    assert stream.reads == 1, "only what is new"


def test_purge_and_limits_are_followed(table: Table, directory: Path) -> None:
    stream = Stream(45)
    archived(table, stream)
    stream.log.purge(up_to=24)

    report = archived(table, stream)

    assert report.removed == 23
    assert sequences(table) == plain(directory) == list(range(24, 46))
    stream.log.purge()
    assert archived(table, stream).removed == 22
    assert (sequences(table), plain(directory)) == ([], [])
    stream.publish(3)
    archived(table, stream)
    assert sequences(table) == [46, 47, 48]


def test_ttl_is_followed(table: Table) -> None:
    stream = Stream(0)
    for n in range(1, 21):
        ttl = 5 * SECOND if n in (4, 9) else 0
        stream.log.append([message(n)._replace(ttl_ns=ttl)])
    archived(table, stream)
    stream.log.expire(START + 60 * SECOND)

    archived(table, stream)

    assert sequences(table) == stream.live() == [n for n in range(1, 21) if n not in (4, 9)]


def test_forever_keeps_what_the_front_lost_and_follows_deletes(table: Table) -> None:
    stream = Stream(45)
    archived(table, stream, retain="forever")
    stream.log.purge(up_to=24)
    stream.log.delete(30)

    report = archived(table, stream)

    assert report.removed == 1
    assert sequences(table) == [n for n in range(1, 46) if n != 30]


def test_front_lost_while_deletes_are_looked_for_is_not_taken_for_deletes(table: Table) -> None:
    stream = Stream(45)
    archived(table, stream, retain="forever")
    stream.log.delete(30)
    stream.on_batch = lambda _first: stream.log.purge(up_to=20)

    archived(table, stream)

    assert sequences(table) == [n for n in range(1, 46) if n != 30]


def test_an_age_takes_whole_files(directory: Path) -> None:
    now = START + 45 * SECOND
    table = Table(LocalStore(directory, Unsynced()), clock=lambda: now)
    stream = Stream(45)
    archived(table, stream, retain="20s")
    assert sequences(table) == list(range(21, 46))

    now += 10 * SECOND
    archived(table, stream)
    assert sequences(table) == list(range(31, 46))
    assert table.manifest().retain == "20s"


@pytest.mark.parametrize("rule", ["never", "10", "-5s", "0", ""])
def test_a_rule_that_is_none_is_refused(table: Table, rule: str) -> None:
    with pytest.raises(ValueError):
        archived(table, Stream(5), retain=rule)


def test_verification_finds_what_is_wrong(table: Table, directory: Path) -> None:
    archived(table, Stream(45))
    first, second, third, *_ = (directory / file.path for file in table.manifest().files)
    first.unlink()
    changed = bytearray(second.read_bytes())
    changed[len(changed) // 2] ^= 1
    second.write_bytes(changed)
    third.write_bytes(third.read_bytes()[:-10])
    (directory / "stray.parquet").write_bytes(b"PAR1")

    found = verify(table)

    assert len(found) == 4
    for path, text in zip((first, second, third), ("missing", "not the file", "not the file"), strict=True):
        assert any(path.name in line and text in line for line in found)
    assert any("stray.parquet: it is not part of the table" in line for line in found)


def test_verification_finds_files_that_hold_other_rows(table: Table, directory: Path) -> None:
    import hashlib

    from msgspec.structs import replace

    archived(table, Stream(20))
    one, other = table.manifest().files
    data = (directory / other.path).read_bytes()
    (directory / one.path).write_bytes(data)
    with table.writing() as writer:
        lie = replace(one, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        writer.commit(lambda current: replace(current, files=(lie, other)))  # type: ignore[type-var]

    assert any("not those from 1 to 10" in line for line in verify(table))


def test_damaged_files_are_named(table: Table, directory: Path) -> None:
    archived(table, Stream(10))
    (directory / table.manifest().files[0].path).write_bytes(b"PAR1 and no more")

    with pytest.raises(TableDamaged, match=table.manifest().files[0].path):
        sequences(table)
    (directory / table.manifest().files[0].path).unlink()
    with pytest.raises(KeyMissing):
        sequences(table)


def test_no_table_is_made_by_looking_after_one(table: Table, directory: Path) -> None:
    for look in (verify, merge, vacuum):
        with pytest.raises(TableMissing, match="there is no table here"):
            look(table)
    assert not directory.exists()


def test_many_ranges_that_overlap_and_come_in_any_order(table: Table) -> None:
    archived(table, Stream(45))
    ranges = ((40, 99), (3, 3), (7, 9), (8, 12), (13, 13), (44, 45))

    with table.writing() as writer:
        assert remove_rows(writer, ranges) == 14

    assert sequences(table) == [n for n in range(1, 40) if n != 3 and not 7 <= n <= 13]
