from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark import spool as spool_module
from headrace.spark.errors import DataLossError, SpoolFullError
from headrace.spark.spool import Spool, SpoolFolder, read_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Make = Callable[[int], Spool]

SCHEMA = pa.schema([("sequence", pa.int64()), ("data", pa.binary())])


def batch(first: int, rows: int, size: int = 3) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(range(first, first + rows), pa.int64()), pa.array([b"x" * size] * rows, pa.binary())],
        schema=SCHEMA,
    )


def fill(spool: Spool, counts: list[int], size: int = 3) -> None:
    for count in counts:
        spool.append(batch(spool.next, count, size))


def sequences(spool: Spool, first: int, end: int) -> list[int]:
    return [
        value
        for rows in read_slices(spool.slices(first, end), SCHEMA)
        for value in rows.column("sequence").to_pylist()
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[SpoolFolder]:
    made = SpoolFolder.create(str(tmp_path))
    yield made
    made.remove()


@pytest.fixture
def make(folder: SpoolFolder) -> Iterator[Make]:
    made: list[Spool] = []

    def spool(max_bytes: int) -> Spool:
        made.append(Spool(folder, SCHEMA, max_bytes))
        return made[-1]

    yield spool
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpoolFolder]:
    made = SpoolFolder.create(str(tmp_path_factory.mktemp("spool")))
    yield made
    made.remove()


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.lists(st.integers(0, 200), max_size=4),
    st.integers(100, 3000),
)
def test_slices_of_any_ranges_cover_every_row_once(
    shared_folder: SpoolFolder, counts: list[int], cuts: list[int], max_segment: int
) -> None:
    spool = Spool(shared_folder, SCHEMA, 1 << 20)
    spool._segment_bytes = max_segment
    fill(spool, counts)
    total = sum(counts)
    edges = sorted({1, total + 1, *(cut % total + 1 for cut in cuts)})
    found = [sequences(spool, low, high) for low, high in itertools.pairwise(edges)]
    for segment in spool._segments:
        segment.file.close()
        segment.path.unlink()
    assert [len(part) for part in found] == [b - a for a, b in itertools.pairwise(edges)]
    assert [value for part in found for value in part] == list(range(1, total + 1))


def test_slices_are_small_and_read_again_the_same(make: Make) -> None:
    spool = make(1 << 30)
    fill(spool, [100] * 50)
    slices = spool.slices(151, 4900)
    assert len(pickle.dumps(slices)) < 500
    first = [rows.to_pylist() for rows in read_slices(pickle.loads(pickle.dumps(slices)), SCHEMA)]
    fill(spool, [100] * 50)
    assert [rows.to_pylist() for rows in read_slices(slices, SCHEMA)] == first
    assert spool.slices(5, 5) == ()


def test_segment_file_is_an_arrow_stream_for_anyone(make: Make) -> None:
    spool = make(1 << 20)
    fill(spool, [2, 3])
    with pa.OSFile(spool.slices(1, 2)[0].path) as file:
        reader = pa.ipc.open_stream(file)
        assert reader.schema == SCHEMA
        assert reader.read_next_batch().num_rows == 2


def test_discard_frees_whole_segments_and_their_rows_are_refused(folder: SpoolFolder, make: Make) -> None:
    spool = make(400_000)
    spool._segment_bytes = 10_000
    fill(spool, [10] * 100, size=50)
    full = spool.size
    spool.discard_below(500)
    assert spool.size < full
    assert len(list(folder.path.glob("*.arrow"))) == len(spool._segments)
    assert sequences(spool, 500, 1001) == list(range(500, 1001))
    with pytest.raises(DataLossError, match="sequences 1 to 99"):
        spool.slices(1, 100)
    with pytest.raises(DataLossError):
        spool.slices(990, 1002)


def test_append_beyond_the_limit_names_the_option(make: Make) -> None:
    spool = make(10_000)
    with pytest.raises(SpoolFullError, match="spoolMaxBytes"):
        fill(spool, [10] * 100, size=50)
    assert spool.size <= 10_000


def test_append_that_the_disk_refuses_names_the_option(folder: SpoolFolder, make: Make) -> None:
    spool = make(10_000)
    fill(spool, [1])
    spool._segments[0].file.close()
    spool._segments[0].file = (folder.path / "lock").open("rb", buffering=0)
    with pytest.raises(SpoolFullError, match="spoolDir"):
        fill(spool, [1])


def test_read_slices_of_a_file_that_is_not_here_says_why(make: Make) -> None:
    spool = make(10_000)
    fill(spool, [1])
    slices = spool.slices(1, 2)
    spool.close()
    with pytest.raises(DataLossError, match="another host than the driver, set option spoolDir"):
        next(read_slices(slices, SCHEMA))


def test_folder_of_a_killed_owner_is_removed(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from headrace.spark.spool import SpoolFolder\n"
        "folder = SpoolFolder.create(sys.argv[1])\n"
        "print(folder.path, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        path = tmp_path / owner.stdout.readline().strip()
        assert path.is_dir()
        owner.kill()
    wait_gone(path)


def test_folder_left_without_a_janitor_is_swept_and_a_living_one_kept(tmp_path: Path) -> None:
    living = SpoolFolder.create(str(tmp_path))
    left = tmp_path / "headrace-capture-left"
    left.mkdir()
    (left / "lock").touch()
    (tmp_path / "headrace-capture-not-ours").mkdir()
    (tmp_path / "something-else").mkdir()
    other = SpoolFolder.create(str(tmp_path))
    assert not left.exists()
    assert living.path.is_dir()
    assert (tmp_path / "headrace-capture-not-ours").is_dir()
    assert (tmp_path / "something-else").is_dir()
    living.remove()
    other.remove()
    other.remove()
    assert not living.path.exists()


def test_segments_are_not_larger_than_a_quarter_of_the_spool(make: Make) -> None:
    assert make(1 << 40)._segment_bytes == spool_module.SEGMENT_BYTES
    assert make(4000)._segment_bytes == 1000


def wait_gone(path: Path) -> None:
    deadline = time.monotonic() + 10
    while path.exists():
        assert time.monotonic() < deadline, f"{path} is still there"
        time.sleep(0.01)
