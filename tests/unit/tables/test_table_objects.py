"""Tables in an object store: against moto's S3 server over HTTP, and against a store in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from table_makers import Stream, archived, merge_and_erase, sequences

from headrace.objects.errors import StoreError
from headrace.tables import Table, open_store
from headrace.tables.errors import TableDamaged
from headrace.tables.files import FileLimits
from headrace.tables.open import find_tables
from headrace.tables.scan import RowSelection, scan
from headrace.tables.table import ORPHAN_AGE_NS
from headrace.tables.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

    from harness.object_stores import FakeObstore

# What moto and its dependencies warn of is theirs.
pytestmark = pytest.mark.filterwarnings("default")


def test_a_part_of_an_object_that_is_gone_by_now(fake: FakeObstore) -> None:
    store = open_store("s3://archive/orders")
    table = Table(store)
    stream = Stream(35)
    archived(table, stream, FileLimits())
    manifest = table.manifest()
    (planned,) = manifest.files
    reading = scan(table, manifest.files, RowSelection(1, 36), ["sequence"])
    fake.kept[f"_headrace/replaced/{planned.path}"] = fake.kept.pop(planned.path)

    assert next(reading).num_rows == 35
    del fake.kept[f"_headrace/replaced/{planned.path}"]
    with pytest.raises(TableDamaged, match="it is missing"):
        next(scan(table, manifest.files, RowSelection(1, 36), ["sequence"]))


def test_a_life_of_a_table_over_obstore(fake: FakeObstore) -> None:
    table = Table(open_store("s3://archive/orders"))
    merge_and_erase(table, Stream(35), (17, 18), more=10)

    assert sequences(table) == [n for n in range(1, 46) if n not in (17, 18)]
    assert verify(table) == []


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
    assert not table.store.list_folder("_headrace/replaced").objects
    assert sequences(table)[-1] == 45


def test_a_bucket_that_is_not_there(s3: dict[str, Any]) -> None:
    table = Table(open_store("s3://missing/orders", **s3))

    with pytest.raises(StoreError, match="s3://missing/orders"):
        archived(table, Stream(5))
