"""Tables as Apache Iceberg tables of an SQL catalog, read back with pyiceberg and DuckDB."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from table_makers import Stream, archived, sequences

from headrace.cli import tables as cli
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.tables import Table, open_store
from headrace.tables.errors import IcebergError
from headrace.tables.iceberg import open_catalog, opened_by, sync
from headrace.tables.open import table_name
from headrace.tables.rewrite import compact

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyiceberg")
# What pyiceberg and SQLAlchemy warn of is theirs.
pytestmark = pytest.mark.filterwarnings("default")

TABLE = ("headrace", "orders")


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return open_catalog(f"sqlite:///{tmp_path}/catalog.db")


def rows(catalog: Any, condition: str = "sequence > 0") -> list[int]:
    found = catalog.load_table(TABLE).scan(row_filter=condition, selected_fields=("sequence",)).to_arrow()
    return sorted(found["sequence"].to_pylist())


def test_iceberg_has_the_rows_of_the_newest_version(table: Table, catalog: Any) -> None:
    stream = Stream(35)
    archived(table, stream)
    assert sync(table, catalog) == ("headrace.orders", 4, 0)
    assert rows(catalog) == list(range(1, 36))

    with table.writing() as writer:
        compact(writer)
    stream.log.delete(17, erase=True)
    stream.publish(10)
    archived(table, stream)
    sync(table, catalog)

    expected = [n for n in range(1, 46) if n != 17]
    assert sequences(table) == rows(catalog) == expected
    assert rows(catalog, "sequence between 10 and 20 and subject = 'orders.2'") == [10, 14, 18]
    [row] = catalog.load_table(TABLE).scan(row_filter="sequence = 18").to_arrow().to_pylist()
    [own] = [r for b in table.batches() for r in b.to_pylist() if r["sequence"] == 18]
    assert row == own


def test_sync_again_does_nothing(table: Table, catalog: Any) -> None:
    archived(table, Stream(35))
    sync(table, catalog)
    snapshot = catalog.load_table(TABLE).current_snapshot().snapshot_id
    assert sync(table, catalog) == ("headrace.orders", 0, 0)
    assert catalog.load_table(TABLE).current_snapshot().snapshot_id == snapshot


def test_duckdb_reads_the_files_of_a_scan(table: Table, catalog: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    archived(table, Stream(35))
    sync(table, catalog)
    files = [task.file.file_path for task in catalog.load_table(TABLE).scan().plan_files()]
    found = duckdb.sql(f"select count(*), max(sequence) from read_parquet({files})").fetchall()
    assert found == [(35, 35)]


def test_empty_table_is_there(table: Table, catalog: Any) -> None:
    archived(table, Stream(0))
    assert sync(table, catalog) == ("headrace.orders", 0, 0)
    assert rows(catalog) == []


def test_erased_messages_leave_nothing_in_the_metadata(table: Table, directory: Path, catalog: Any) -> None:
    """Only numbers of sequence and time are in it; what older snapshots consisted of is removed."""
    stream = Stream(35)
    for _ in range(4):
        stream.publish(5)
        archived(table, stream)
        sync(table, catalog)
    made = catalog.load_table(TABLE)
    ids = {made.schema().find_field(name).field_id for name in ("sequence", "timestamp", "timestamp_ns")}
    for task in made.scan().plan_files():
        bounds = {**(task.file.lower_bounds or {}), **(task.file.upper_bounds or {})}
        assert bounds.keys() == ids
    assert len(made.snapshots()) == 1
    kept = {made.current_snapshot().manifest_list}
    kept |= {one.manifest_path for one in made.current_snapshot().manifests(made.io)}
    assert {str(path) for path in (directory / "_headrace" / "iceberg").rglob("*.avro")} == kept


def test_table_of_the_same_name_elsewhere_is_refused(table: Table, tmp_path: Path, catalog: Any) -> None:
    archived(table, Stream(5))
    sync(table, catalog)
    other = Table(open_store(str(tmp_path / "other")))
    archived(other, Stream(5))
    with pytest.raises(IcebergError, match=f"it is not one of {tmp_path}/other"):
        sync(other, catalog)


def test_file_that_is_missing_is_told_of(table: Table, directory: Path, catalog: Any) -> None:
    archived(table, Stream(5))
    (directory / table.manifest().files[0].path).unlink()
    with pytest.raises(IcebergError, match="the Iceberg catalog says"):
        sync(table, catalog)


def test_catalog_that_is_none(tmp_path: Path) -> None:
    for text in ("none://x", "no-such-name", f"sqlite:///{tmp_path}/missing/catalog.db"):
        with pytest.raises(IcebergError, match=f"cannot open the Iceberg catalog {text}"):
            open_catalog(text)


def shared(tmp_path: Path, catalog: Any, *streams: str) -> list[str]:
    """The names of tables of several streams in one catalog."""
    found = []
    for name in streams:
        table = Table(open_store(str(tmp_path / "tables" / table_name(name))))
        archived(table, Stream(3, name=name))
        found.append(sync(table, catalog)[0])
        assert sync(table, catalog)[0] == found[-1], "it is found again"
    return found


def test_names_that_are_given_back_open_the_tables(tmp_path: Path, catalog: Any) -> None:
    """Dots divide namespaces, and SQL wants other signs quoted: no name has any of them."""
    streams = ("orders.eu", "my-stream", "7up", "caf\udce9", "_own", "ORDERS")
    names = shared(tmp_path, catalog, *streams)
    assert names == [
        "headrace.orders_eu",
        "headrace.my_stream",
        "headrace._7up",
        "headrace.caf_E9",
        "headrace._5Fown",
        "headrace.ORDERS",
    ]
    for stream, name in zip(streams, names, strict=True):
        found = catalog.load_table(name).scan().to_arrow()["stream"].to_pylist()
        shown = stream.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        assert found == [shown] * 3


def test_names_that_would_be_the_same_are_told_apart(tmp_path: Path, catalog: Any) -> None:
    one, other, third = shared(tmp_path, catalog, "orders.eu", "orders_eu", "orders-eu")
    assert one == "headrace.orders_eu"
    assert other.startswith("headrace.orders_eu_")
    assert len({one, other, third}) == 3
    assert catalog.load_table(other).scan().to_arrow()["stream"].to_pylist() == ["orders_eu"] * 3


def lines_of(printed: str) -> dict[str, str]:
    """The lines that open a table, by program."""
    found = re.findall(r"^  (pyiceberg|DuckDB|Spark): +(.*)$", printed, re.MULTILINE)
    assert len(found) == 3
    return dict(found)


def printed_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    store = FileStore(tmp_path / "store")
    store.open(b"orders.eu").append([NewMessage(b"orders.eu", b"%d" % n) for n in range(100)])
    store.close()
    where, uri = str(tmp_path / "tables"), f"sqlite:///{tmp_path}/catalog.db"
    archive = ["archive", "orders.eu", "--dir", str(tmp_path / "store"), "--to", where, "--iceberg", uri]
    assert cli.run(archive, "headrace") == 0
    return lines_of(capsys.readouterr().out)


def test_printed_lines_open_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("duckdb")
    lines = printed_lines(tmp_path, capsys)
    names: dict[str, Any] = {}
    exec("from pyiceberg.catalog import load_catalog", names)
    exec(lines["pyiceberg"], names)
    assert names["table"].scan().to_arrow().num_rows == 100
    found = eval(lines["DuckDB"], names)
    assert len(found.fetchall()) == 100
    assert found.columns[:3] == ["stream", "subject", "sequence"]


def test_lines_of_a_configured_catalog_and_of_one_with_a_password() -> None:
    assert (
        opened_by("prod", "headrace.a")["pyiceberg"]
        == 'table = load_catalog("prod").load_table("headrace.a")'
    )
    line = opened_by("postgresql://joe:s3cret@db/catalog", "headrace.a")["pyiceberg"]
    assert "s3cret" not in line
    assert 'uri="postgresql://joe:***@db/catalog"' in line


def test_commands_bring_the_catalog_in_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = FileStore(tmp_path / "store")
    store.open(b"orders").append([NewMessage(b"orders", b"%d" % n) for n in range(100)])
    store.close()
    where, uri = str(tmp_path / "tables"), f"sqlite:///{tmp_path}/catalog.db"

    code = cli.run(
        ["archive", "orders", "--dir", str(tmp_path / "store"), "--to", where, "--iceberg", uri], "headrace"
    )
    assert code == 0
    printed = capsys.readouterr().out
    assert "Iceberg table headrace.orders of catalog headrace, 1 files added, 0 left out" in printed
    assert cli.run(["erase", where, "7", "9-12", "--force", "--iceberg", uri], "headrace") == 0
    assert rows(open_catalog(uri)) == [n for n in range(1, 101) if n not in (7, 9, 10, 11, 12)]
    assert cli.run(["compact", where, "--iceberg", "none://x"], "headrace") == 1
    assert "cannot open the Iceberg catalog" in capsys.readouterr().err
