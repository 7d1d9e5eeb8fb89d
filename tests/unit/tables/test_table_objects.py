"""Tables in an object store: against moto's S3 server over HTTP, and against obstore's own memory store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from table_makers import FakeObstore, KeyedStore, Stream, archived, as_store, merge_and_erase, sequences

from harness.s3 import obstore_options, s3_endpoint
from headrace.tables import Table, object_store, open_store
from headrace.tables.errors import KeyExists, KeyMissing, StoreError, TableDamaged
from headrace.tables.files import FileLimits
from headrace.tables.open import find_tables
from headrace.tables.scan import Wanted, scan
from headrace.tables.store import LocalStore
from headrace.tables.table import ORPHAN_AGE_NS
from headrace.tables.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.tables.store import Store

# What moto and its dependencies warn of is theirs.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options for obstore that lead to a server with the bucket `archive`."""
    with s3_endpoint("archive") as endpoint:
        yield obstore_options(endpoint)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeObstore:
    """In place of obstore: our side of it is tested where the package is not installed, too."""
    made = FakeObstore()
    monkeypatch.setitem(sys.modules, "obstore", made)
    monkeypatch.setitem(sys.modules, "obstore.store", made.store)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", made.exceptions)
    return made


@pytest.fixture(params=["local", "keyed", "fake", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Every kind of store, empty. A local one is used under its lock, as writers do."""
    if request.param == "local":
        local = LocalStore(tmp_path / "table")
        with local.lock():
            yield local
    elif request.param == "keyed":
        yield as_store(KeyedStore())
    elif request.param == "fake":
        request.getfixturevalue("fake")
        yield open_store("s3://archive/orders")
    else:
        options = request.getfixturevalue("s3")
        yield open_store(f"s3://archive/{tmp_path.name}", **options)


def test_of_two_creates_one_succeeds(store: Store) -> None:
    store.create("_headrace/manifests/1.json", b"one")

    with pytest.raises(KeyExists):
        store.create("_headrace/manifests/1.json", b"other")
    assert store.read("_headrace/manifests/1.json") == b"one"


def test_keys_are_listed_by_folder_moved_and_removed(store: Store) -> None:
    for key in ("b.parquet", "a.parquet", "_headrace/manifests/1.json"):
        store.create(key, b"x" * 10)

    assert [entry.key for entry in store.entries()] == ["a.parquet", "b.parquet"]
    assert [entry.key for entry in store.entries("_headrace/manifests")] == ["_headrace/manifests/1.json"]
    assert store.entries("missing") == []
    assert store.folders() == ["_headrace"]
    store.move("a.parquet", "_headrace/replaced/a.parquet")
    store.remove("b.parquet")
    store.remove("b.parquet")
    assert store.entries() == []
    with store.open("_headrace/replaced/a.parquet") as file:
        file.seek(8)
        assert file.read() == b"xx"
    for missing in (lambda: store.read("b.parquet"), lambda: store.open("b.parquet")):
        with pytest.raises(KeyMissing):
            missing()
    with pytest.raises(KeyMissing):
        store.move("b.parquet", "c.parquet")


def test_a_draft_is_nowhere_until_it_is_published(store: Store) -> None:
    draft = store.draft()
    draft.write(b"half ")
    draft.write(memoryview(b"and half"))
    assert (draft.tell(), store.entries()) == (13, [])

    draft.publish("a.parquet")
    draft.discard()

    assert store.read("a.parquet") == b"half and half"
    given_up = store.draft()
    given_up.write(b"x")
    given_up.discard()
    given_up.discard()
    assert [entry.key for entry in store.entries()] == ["a.parquet"]


def test_large_objects_are_read_in_pieces(fake: FakeObstore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "PIECE", 7)
    fake.kept["a.parquet"] = bytes(range(50))

    with open_store("s3://archive/orders").open("a.parquet") as file:
        assert file.read() == bytes(range(50))


def test_parts_of_an_object_are_read_where_it_lies(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "PIECE", 1 << 16)
    store.create("a.parquet", bytes(range(256)) * 1024)

    with store.open("a.parquet", in_parts=True) as file:
        assert file.seek(-3, 2) == (256 << 10) - 3
        assert file.read() == bytes([253, 254, 255])
        file.seek(5)
        assert file.read(3) == bytes([5, 6, 7])
        assert file.read(200_000) == (bytes(range(256)) * 1024)[8:200_008]
    with pytest.raises(KeyMissing):
        store.open("b.parquet", in_parts=True)


def test_a_part_of_an_object_that_is_gone_by_now(fake: FakeObstore) -> None:
    store = open_store("s3://archive/orders")
    table = Table(store)
    stream = Stream(35)
    archived(table, stream, FileLimits())
    manifest = table.manifest()
    (planned,) = manifest.files
    reading = scan(table, manifest.files, Wanted(1, 36), ["sequence"])
    fake.kept[f"_headrace/replaced/{planned.path}"] = fake.kept.pop(planned.path)

    assert next(reading).num_rows == 35
    del fake.kept[f"_headrace/replaced/{planned.path}"]
    with pytest.raises(TableDamaged, match="it is missing"):
        next(scan(table, manifest.files, Wanted(1, 36), ["sequence"]))


def test_a_life_of_a_table_over_obstore(fake: FakeObstore) -> None:
    table = Table(open_store("s3://archive/orders"))
    merge_and_erase(table, Stream(35), (17, 18), more=10)

    assert sequences(table) == [n for n in range(1, 46) if n not in (17, 18)]
    assert verify(table) == []


def test_errors_of_obstore_are_one_line_with_the_place(fake: FakeObstore) -> None:
    with pytest.raises(StoreError, match=r"^gopher://x: no store for gopher://x$"):
        open_store("gopher://x")


def test_a_life_of_a_table_in_s3(s3: dict[str, Any], tmp_path: Path) -> None:
    where = f"s3://archive/life-{tmp_path.name}/orders"
    table = Table(open_store(where, **s3))
    merge_and_erase(table, Stream(35), (17, 18), more=10)

    assert sequences(table) == [n for n in range(1, 46) if n not in (17, 18)]
    assert verify(table) == []
    (found,) = find_tables(where.rpartition("/")[0], **s3)
    assert found.manifest() == table.manifest()
    assert all(path.startswith(f"{where}/") for path in table.locations())
    later = Table(table.store, clock=lambda: table.clock() + 2 * ORPHAN_AGE_NS)
    with later.writing() as writer:
        writer.vacuum()
    assert not table.store.entries("_headrace/replaced")
    assert sequences(table)[-1] == 45


def test_a_bucket_that_is_not_there(s3: dict[str, Any]) -> None:
    table = Table(open_store("s3://missing/orders", **s3))

    with pytest.raises(StoreError, match="s3://missing/orders"):
        archived(table, Stream(5))
