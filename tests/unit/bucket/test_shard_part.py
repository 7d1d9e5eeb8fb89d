"""Parts of a shard: as they are at one moment, wherever they are opened, and files that are read on."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from random import Random

import pytest
from shard_model import KEYS, Owner, Reads

from harness.memory_objects import MemoryObjects
from harness.virtual_loop import run
from headrace.bucket.errors import Behind
from headrace.bucket.extent_contents import ExtentContents
from headrace.bucket.keys import MILESTONE
from headrace.bucket.shard_files import ShardFiles, load_shard_files, read_further
from headrace.bucket.shard_part import ShardPart, directories_of, spans_of
from headrace.bucket.wal_object import Kind
from headrace.log.filesystem import FileMode

PLACE = Path("/shards/orders")


async def changed(owner: Owner, random: Random, times: int) -> None:
    """Changes at random, each in a WAL object, and snapshots in between."""
    for _ in range(times):
        for _ in range(random.randrange(1, 6)):
            owner.anything(random, 40_000)
        owner.commit()
        if random.random() < 0.3:
            taking = asyncio.create_task(owner.snapshotter.take())
            while not taking.done():
                await asyncio.sleep(0.01)
                owner.commit()
            taking.result()


def whole(files: ShardFiles, name: str) -> bytes:
    handle = files.open(PLACE / name, FileMode.READ)
    return files.pread(handle, files.size(handle), 0)


@pytest.mark.parametrize("seed", range(10))
def test_a_part_is_what_it_was_when_it_was_taken(tmp_path: Path, seed: int) -> None:
    (tmp_path / "owner").mkdir()
    random = Random(seed)

    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path / "owner", store)
        owner.commit(Kind.FENCE)
        await changed(owner, random, 8)
        contents = ExtentContents(Reads(store), KEYS)
        files = await load_shard_files(store, contents, KEYS, PLACE)
        for _ in range(3):
            wanted = dict(owner.states[owner.number])
            folders = files.listdir(PLACE)
            part = directories_of(files, [PLACE / one for one in folders])
            spans = {name: _some(random, len(data)) for name, data in wanted.items()}
            cut = spans_of(files, {PLACE / name: found for name, found in spans.items()})
            await changed(owner, random, 3)
            await read_further(store, KEYS, files)
            for name, data in owner.states[owner.number].items():
                assert whole(files, name) == data
            opened = pickle.loads(pickle.dumps(part)).opened(contents, PLACE)
            assert opened.listdir(PLACE) == folders
            assert {name: whole(opened, name) for name in wanted} == wanted
            few = pickle.loads(pickle.dumps(cut)).opened(ExtentContents(Reads(store), KEYS, 0), PLACE)
            for name, found in spans.items():
                handle = few.open(PLACE / name, FileMode.READ)
                assert few.size(handle) == len(wanted[name])
                for start, end in found:
                    assert few.pread(handle, end - start, start) == wanted[name][start:end]
            for name in wanted:  # what is written to a part is its own
                opened.pwrite(opened.open(PLACE / name, FileMode.UPDATE), b"other", 0)
            for name, data in owner.states[owner.number].items():
                assert whole(files, name) == data

    run(main())


def _some(random: Random, size: int) -> list[tuple[int, int]]:
    cuts = sorted(random.randrange(size + 1) for _ in range(4))
    return [(cuts[0], cuts[1]), (cuts[2], cuts[3])]


def test_what_a_part_has_not_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "owner").mkdir()

    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path / "owner", store)
        owner.commit(Kind.FENCE)
        owner.make("d/a", b"one")
        owner.make("e/b", b"two")
        owner.commit()
        files = await load_shard_files(store, ExtentContents(Reads(store), KEYS), KEYS, PLACE)
        part = directories_of(files, [PLACE / "d", PLACE / "none"])
        opened = part.opened(files.contents, PLACE)
        assert opened.listdir(PLACE) == ["d"]
        with pytest.raises(FileNotFoundError):
            opened.open(PLACE / "e/b", FileMode.READ)
        with pytest.raises(FileNotFoundError):
            spans_of(files, {PLACE / "d/none": None})
        assert ShardPart((), (), ()).opened(files.contents, PLACE).listdir(PLACE) == []
        for number in range(1, owner.number + 1):  # what was not read yet is deleted
            del store.objects[KEYS.wal(number)]
        await read_further(store, KEYS, files)
        for _ in range(owner.number, MILESTONE):
            owner.commit()
        for number in range(1, MILESTONE):
            store.objects.pop(KEYS.wal(number), None)
        with pytest.raises(Behind):
            await read_further(store, KEYS, files)

    run(main())
