"""Whose a prefix is: an empty one, ours, another cluster's, another program's, a later version's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from harness.memory_objects import Fate, MemoryObjects, Request
from harness.virtual_loop import run
from headrace.bucket.errors import BucketError, NewerFormat, NotOurs
from headrace.bucket.identity import FORMAT, IDENTITY_KEY, KIND, check_identity
from headrace.objects.shared_directory import SharedDirectory

if TYPE_CHECKING:
    from pathlib import Path


def identity(**fields: object) -> bytes:
    return msgspec.msgpack.encode({"format": FORMAT, "kind": KIND, "cluster": "east"} | fields)


def test_empty_prefix_becomes_that_of_its_first_cluster() -> None:
    async def main() -> None:
        store = MemoryObjects()
        await check_identity(store, "east")
        assert msgspec.msgpack.decode(store.objects[IDENTITY_KEY][0]) == {
            "format": FORMAT,
            "kind": KIND,
            "cluster": "east",
        }
        await check_identity(store, "east")
        await check_identity(store, "")
        with pytest.raises(NotOurs, match=r"^memory is of the cluster 'east', this server is of 'west'$"):
            await check_identity(store, "west")

    run(main())


def test_prefix_of_a_cluster_without_a_name_takes_any() -> None:
    async def main() -> None:
        store = MemoryObjects()
        await check_identity(store, "")
        await check_identity(store, "west")

    run(main())


@pytest.mark.parametrize("key", ["photo.jpg", "shards/jetstream/wal/1", "cluster/00000000000000000002"])
def test_prefix_with_objects_and_no_identity_is_left_alone(key: str) -> None:
    async def main() -> None:
        store = MemoryObjects(objects={key: (b"x", 0)})
        with pytest.raises(NotOurs, match=r"^memory holds \S+, and is not of Headrace: nothing was touched"):
            await check_identity(store, "east")
        assert set(store.objects) == {key}

    run(main())


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", NotOurs),
        (b"\xc1", NotOurs),
        (b"hello", NotOurs),
        (msgspec.msgpack.encode([1, 2]), NotOurs),
        (identity(kind="other"), NotOurs),
        (identity(format="1"), NotOurs),
        (identity()[:-1], NotOurs),
        (identity() + b"x", NotOurs),
        (identity(format=FORMAT + 1), NewerFormat),
        (identity(format=FORMAT + 1, cluster="west"), NewerFormat),
    ],
)
def test_identity_that_is_no_good_is_refused(data: bytes, error: type[BucketError]) -> None:
    async def main() -> None:
        store = MemoryObjects(objects={IDENTITY_KEY: (data, 0)})
        with pytest.raises(error):
            await check_identity(store, "east")
        assert store.objects == {IDENTITY_KEY: (data, 0)}

    run(main())


def test_fields_of_later_versions_are_passed_over() -> None:
    async def main() -> None:
        store = MemoryObjects(objects={IDENTITY_KEY: (identity(colour="red"), 0)})
        await check_identity(store, "east")

    run(main())


def test_a_directory_in_which_another_server_begins_is_empty(tmp_path: Path) -> None:
    """It has the folder of the identity already, and not the identity."""
    (tmp_path / "cluster").mkdir()

    asyncio.run(check_identity(SharedDirectory(tmp_path), "east"))
    assert msgspec.msgpack.decode((tmp_path / IDENTITY_KEY).read_bytes())["cluster"] == "east"


def test_servers_that_start_together_agree() -> None:
    async def main() -> None:
        def fate(request: Request) -> Fate:
            return Fate(0.001 * (1 + len(store.requests) % 7), 0.003)

        store = MemoryObjects(fate)
        names = ["east"] * 5 + ["west"]
        outcomes = await asyncio.gather(
            *(check_identity(store, name) for name in names), return_exceptions=True
        )
        winner = msgspec.msgpack.decode(store.objects[IDENTITY_KEY][0])["cluster"]
        for name, outcome in zip(names, outcomes, strict=True):
            assert outcome is None if name == winner else isinstance(outcome, NotOurs)

    run(main())
