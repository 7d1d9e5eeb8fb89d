"""Objects that anybody may have put below a prefix: each is read, or refused with an error that names it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest
from msgspec import msgpack

from harness.memory_objects import MemoryObjects
from headrace.bucket.changes import (
    Create,
    FileExtent,
    Mkdir,
    Rename,
    Rmdir,
    SnapshotBegun,
    SnapshotTaken,
    Truncate,
    Unlink,
    Write,
    decode,
    encode,
)
from headrace.bucket.errors import BucketError
from headrace.bucket.identity import FORMAT, IDENTITY_KEY, KIND, check_identity
from headrace.bucket.tree import Tree
from headrace.bucket.wal_object import Kind, WalObject
from headrace.engine.records import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUNS = 2000
CHANGES = encode(
    [
        *(Mkdir("a"), Create("a/b"), Write(1, 0, b"abc"), Write(1, 10, b"x" * 20), Truncate(1, 5)),
        *(SnapshotBegun(), SnapshotTaken(1, ((1, FileExtent(0, 5, "w-1", 0, 5, 3)),))),
        *(Rename("a/b", "a/c"), Create("d"), Unlink("d"), Mkdir("e"), Rmdir("e"), Rename("a", "z")),
    ]
)
OBJECT = WalObject("s", 1, b"w" * 16, 1, Kind.COMMIT, 5, CHANGES).pack()
IDENTITY = msgpack.encode({"format": FORMAT, "kind": KIND, "cluster": "c"})


def changed(data: bytes, random: Random) -> Iterator[bytes]:
    """Bytes with some others in them, without some of them, and bytes that have nothing to do with them."""
    for _ in range(RUNS):
        made = bytearray(data)
        for _ in range(random.randrange(1, 5)):
            made[random.randrange(len(made))] = random.randrange(256)
        yield bytes(made)
        start, end = sorted(random.choices(range(len(data) + 1), k=2))
        yield data[:start] + data[end:]
        yield random.randbytes(random.randrange(40))


def _read_object(data: bytes) -> None:
    """The checksum is right: who writes an object on purpose has a right one."""
    found = WalObject.unpack(OBJECT[:4] + crc32c(data[8:]).to_bytes(4, "little") + data[8:], "s", 1)
    _apply(found.payload)


def _apply(payload: bytes) -> None:
    tree = Tree()
    for change in decode(payload):
        tree.apply(change)


def _judge(data: bytes) -> None:
    store = MemoryObjects(objects={IDENTITY_KEY: (data, 0)})
    asyncio.run(check_identity(store, "c"))


@pytest.mark.parametrize(
    ("read", "data"),
    [(_apply, CHANGES), (_read_object, OBJECT)],
    ids=["changes", "object of the log"],
)
@pytest.mark.parametrize("seed", range(3))
def test_bytes_of_anybody_are_read_or_refused(read: Callable[[bytes], None], data: bytes, seed: int) -> None:
    read(data)
    outcomes = set()
    for each in changed(data, Random(seed)):
        try:
            read(each)
        except BucketError:
            outcomes.add("refused")
        else:
            outcomes.add("read")
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize(
    "data",
    [
        b"\xa1\xff",
        b"\x81\xa1\xff\x01",
        b"\x81\x90\x01",
        b"\x91" * 100_000,
        b"",
        msgpack.encode({"format": "1", "kind": KIND}),
        msgpack.encode({"format": None, "kind": KIND}),
        msgpack.encode({"format": FORMAT + 1, "kind": KIND, "cluster": [1]}),
    ],
    ids=["no text", "a name that is no text", "a list as a name", "deep", "empty", "text", "none", "later"],
)
def test_an_identity_of_anybody_is_refused(data: bytes) -> None:
    with pytest.raises(BucketError, match=r"is not of Headrace|later version"):
        _judge(data)


def test_an_identity_of_its_own_is_taken() -> None:
    _judge(IDENTITY)
