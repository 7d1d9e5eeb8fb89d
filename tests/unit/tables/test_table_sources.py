"""Logs on disk and channels of a running server as sources of a table, and where tables lie."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from table_makers import Unsynced, archived, message, sequences

from headrace.client import stan
from headrace.client.blocking import connect
from headrace.client.streaming_admin import StreamingAdmin
from headrace.conf.streaming_options import StreamingOptions
from headrace.log.store import FileStore
from headrace.objects.errors import StoreError
from headrace.objects.local import LocalStore
from headrace.streaming.state import load_state
from headrace.tables import Table, open_store
from headrace.tables.archive import archive
from headrace.tables.errors import SourceMissing, TableMissing
from headrace.tables.open import find_tables, table_name
from headrace.tables.source import LogSource, ReplaySource
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "shop"


async def fill(url: str, first: int, count: int) -> None:
    async with await stan.connect(CLUSTER, "filler", servers=url) as client:
        for n in range(first, first + count):
            await client.publish("orders", b"order %d" % n)


def test_a_log_on_disk(tmp_path: Path, table: Table) -> None:
    store = FileStore(tmp_path / "store", filesystem=Unsynced(), segment_bytes=4096)
    log = store.open(b"orders")
    log.append([message(n) for n in range(1, 201)])
    log.append([message(300)], first_sequence=300)
    source = LogSource(log, "orders", 5)

    report = archive(table, source)
    log.delete(150, erase=True)
    log.purge(up_to=50)
    again = archive(table, source)
    store.close()

    assert (report.rows, report.missed, report.next) == (201, (), 301)
    assert again.removed == 50
    assert sequences(table) == [*range(50, 150), *range(151, 201), 300]


def test_a_channel_of_a_running_server_and_the_same_store_when_it_is_stopped(
    tmp_path: Path, table: Table
) -> None:
    """Both say which stream it is in the same way, so one table follows both."""
    where = tmp_path / "store"
    options = StreamingOptions(cluster_id=CLUSTER, store_type="FILE", directory=str(where))
    with Server(streaming=options) as server:
        asyncio.run(fill(server.url, 1, 30))
        with connect(server.url) as connection:
            archived(table, ReplaySource(connection, CLUSTER, "orders"))  # type: ignore[arg-type]
        asyncio.run(fill(server.url, 31, 5))
    assert sequences(table) == list(range(1, 31))

    store = FileStore(where)
    created = load_state(store).channels[b"orders"]
    archive(table, LogSource(store.open(b"orders"), "orders", created))
    store.close()

    assert sequences(table) == list(range(1, 36))
    rows = [row for batch in table.batches() for row in batch.to_pylist()]
    assert [row["data"] for row in rows] == [b"order %d" % n for n in range(1, 36)]


def test_a_channel_follows_its_server(table: Table) -> None:
    with Server(streaming=StreamingOptions(cluster_id=CLUSTER)) as server, connect(server.url) as connection:
        source = ReplaySource(connection, CLUSTER, "orders")
        with pytest.raises(SourceMissing):
            archive(table, source)
        asyncio.run(fill(server.url, 1, 20))
        archive(table, source)
        StreamingAdmin(connection, CLUSTER).purge("orders", before_sequence=11)

        report = archive(table, source)

    assert (report.removed, sequences(table)) == (10, list(range(11, 21)))


@pytest.mark.parametrize(
    ("stream", "name"),
    [
        ("orders.eu", "orders.eu"),
        ("_private", "%5Fprivate"),
        (".hidden", "%2Ehidden"),
        ("a/b", "a%2Fb"),
        ("caf\udce9", "caf%E9"),
    ],
)
def test_every_stream_has_a_directory_that_readers_see(stream: str, name: str) -> None:
    assert table_name(stream) == name


def test_long_names_are_cut_and_told_apart() -> None:
    one, other = table_name("x" * 300), table_name("x" * 301)

    assert one != other
    assert len(one) < 255


def test_tables_are_found_at_and_below_a_place(tmp_path: Path) -> None:
    from table_makers import Stream

    for name in ("a", "b"):
        archived(Table(LocalStore(tmp_path / name, Unsynced())), Stream(1, name=name))
    (tmp_path / "other").mkdir()

    assert [t.manifest().stream for t in find_tables(str(tmp_path))] == ["a", "b"]
    assert [t.manifest().stream for t in find_tables(str(tmp_path / "b"))] == ["b"]
    for wrong in (tmp_path / "other", tmp_path / "missing"):
        with pytest.raises(TableMissing):
            find_tables(str(wrong))


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with (
        pytest.raises(StoreError, match="cannot make"),
        Table(open_store(str(tmp_path / "file" / "table"))).writing(create=True),
    ):
        pass


def test_options_are_for_urls(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="takes no options"):
        open_store(str(tmp_path), endpoint="x")
