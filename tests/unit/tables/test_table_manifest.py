"""The manifest: what is written is read back, and nothing else is taken for one."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from table_makers import Stream, archived

from headrace.errors import UnsupportedError
from headrace.tables.errors import TableDamaged
from headrace.tables.manifest import DataFile, Retired, TableManifest, add_ranges, decode, encode, without

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.tables import Table

ONE = DataFile("a.parquet", 1, 10, 9, 5, 6, 100, "00")
TWO = DataFile("b.parquet", 11, 20, 10, 6, 7, 100, "01")
FULL = TableManifest(
    version=3,
    stream="caf\udce9",
    created_ns=9,
    next=21,
    retain="720h",
    files=(ONE, TWO),
    retired=(Retired("c.parquet", 1, 5, 8, False),),
    missed=((3, 4),),
    damaged=((7, 7),),
    written_ns=12,
    commit="c0",
    lineage=("c1", "c2"),
)


def test_what_is_written_is_read_back() -> None:
    assert decode(encode(FULL), "here") == FULL
    assert (FULL.rows, FULL.bytes) == (19, 200)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(FULL, files=(TWO, ONE)),
        replace(FULL, files=(ONE, replace(TWO, first=10))),
        replace(FULL, files=(replace(ONE, rows=11),)),
        replace(FULL, files=(replace(ONE, rows=0),)),
        replace(FULL, next=20),
        replace(FULL, files=(replace(ONE, path="../a.parquet"),)),
        replace(FULL, files=(replace(ONE, path="_headrace"),)),
        replace(FULL, retired=(Retired("../../etc", 1, 1, 1, True),)),
    ],
)
def test_what_cannot_be_a_table_is_refused(wrong: TableManifest) -> None:
    with pytest.raises(TableDamaged, match="here: not a manifest"):
        decode(encode(wrong), "here")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"null", b"[" * 100_000, encode(FULL)[:-40], b"\xff\xfe"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(TableDamaged, match="here: not a manifest"):
        decode(data, "here")


@pytest.mark.parametrize("key", ["next", "files", "sha256", "commit"])
def test_a_key_that_is_missing_or_changed_is_noticed(key: str) -> None:
    document = json.loads(encode(FULL))
    changed = {**document, key: 99}
    del document[key]

    for wrong in (document, changed):
        with pytest.raises(TableDamaged):
            decode(json.dumps(wrong).encode(), "here")


def test_a_later_format_is_not_read() -> None:
    document = json.loads(encode(FULL)) | {"format": 3}

    with pytest.raises(UnsupportedError, match="format 3 of tables is newer"):
        decode(json.dumps(document).encode(), "here")


def test_a_damaged_manifest_stops_everything_and_is_named(table: Table, directory: Path) -> None:
    archived(table, Stream(10))
    newest = max((directory / "_headrace" / "manifests").iterdir())
    newest.write_bytes(newest.read_bytes().replace(b"orders", b"0rders"))

    for work in (table.manifest, lambda: archived(table, Stream(20))):
        with pytest.raises(TableDamaged, match=newest.name):
            work()


def test_a_manifest_under_another_number_is_refused(table: Table, directory: Path) -> None:
    archived(table, Stream(10))
    newest = max((directory / "_headrace" / "manifests").iterdir())
    newest.rename(newest.with_name(f"{77:020}.json"))

    with pytest.raises(TableDamaged, match="it is version"):
        table.manifest()


RANGES = st.lists(
    st.tuples(st.integers(1, 30), st.integers(0, 6)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=6,
).map(tuple)


def as_set(ranges: tuple[tuple[int, int], ...]) -> set[int]:
    return {n for low, high in ranges for n in range(low, high + 1)}


@given(RANGES, RANGES)
def test_ranges_are_sets(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> None:
    joined, rest = add_ranges(one, other), without(one, other)

    assert as_set(joined) == as_set(one) | as_set(other)
    assert as_set(rest) == as_set(one) - as_set(other)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(joined))
