"""Manifests of snapshots: what was packed is read, anything else is refused with its reason."""

from __future__ import annotations

import struct
import zlib
from random import Random
from typing import Any

import pytest
from msgspec import msgpack
from msgspec.structs import asdict, replace

from headrace.bucket.changes import LARGEST_NUMBER, FileExtent
from headrace.bucket.errors import DamagedObject, NewerFormat
from headrace.bucket.manifest import VERSION, Manifest
from headrace.bucket.tree import FileEntry
from headrace.engine.records import crc32c

FILES = (
    FileEntry(
        1,
        "logs/a/1.log",
        100,
        (FileExtent(0, 60, "aa-1", 7, 80, 123, 20), FileExtent(70, 30, "aa-2", 0, 30, 5)),
    ),
    FileEntry(4, "logs/b/1.log", 0, ()),
)
MANIFEST = Manifest(
    "orders", 3, b"w" * 16, 1234, 1240, 10**18, 9, (1, 700), 1000, ("logs", "logs/a", "logs/b"), FILES
)


def sealed(rest: bytes) -> bytes:
    return struct.pack("<4sI", b"HRsn", crc32c(rest)) + rest


def packed(body: bytes, *, size: int | None = None, version: int = VERSION) -> bytes:
    return sealed(struct.pack("<HQ", version, len(body) if size is None else size) + zlib.compress(body))


def body_of(manifest: Manifest) -> list[Any]:
    """The body of a manifest as the list that MessagePack has."""
    found: list[Any] = msgpack.decode(zlib.decompress(manifest.pack()[18:]))
    return found


def refused(data: bytes, match: str) -> None:
    with pytest.raises(DamagedObject, match=match):
        Manifest.unpack(data, "orders", 1234)


def test_a_manifest_is_read_as_it_was_packed() -> None:
    assert Manifest.unpack(MANIFEST.pack(), "orders", 1234) == MANIFEST
    empty = replace(MANIFEST, directories=(), files=(), fences=(), next_id=1)
    assert Manifest.unpack(empty.pack(), "orders", 1234) == empty


def test_paths_are_bytes_as_the_system_has_them() -> None:
    odd = replace(
        MANIFEST, directories=(), files=(FileEntry(1, b"\xff\xfe".decode("utf-8", "surrogateescape"), 0, ()),)
    )
    assert Manifest.unpack(odd.pack(), "orders", 1234) == odd


def test_a_manifest_gives_its_tree_and_its_objects() -> None:
    tree = MANIFEST.tree()
    assert tuple(tree.entries()) == FILES
    assert tuple(tree.directories()) == MANIFEST.directories
    assert tree.next_id == 9
    assert MANIFEST.objects() == {"aa-1": 60, "aa-2": 30}


def test_ten_thousand_files_are_less_than_a_megabyte() -> None:
    random = Random(1)
    names = [f"{random.randbytes(16).hex()}-{number}" for number in range(300)]

    def extents() -> tuple[FileExtent, ...]:
        return tuple(
            FileExtent(at << 20, 1 << 20, random.choice(names), at << 20, 1 << 20, random.randrange(1 << 32))
            for at in range(2)
        )

    files = tuple(
        FileEntry(n, f"jetstream/logs/{random.randbytes(8).hex()}/{n:020}.log", 2 << 20, extents())
        for n in range(1, 10_001)
    )
    data = replace(MANIFEST, files=files, next_id=10_001).pack()
    assert len(data) < 1 << 20
    assert Manifest.unpack(data, "orders", 1234).files == files


def test_every_damaged_byte_is_seen() -> None:
    data = MANIFEST.pack()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1
        refused(bytes(damaged), "snapshot 1234 of shard orders")
    for size in range(len(data)):
        refused(data[:size], "snapshot 1234 of shard orders")


def test_a_newer_format_is_told_from_damage() -> None:
    with pytest.raises(NewerFormat, match="later version"):
        Manifest.unpack(packed(b"whatever", version=VERSION + 1), "orders", 1234)
    refused(packed(b"whatever", version=0), "head is wrong")
    refused(sealed(b"\1"), "cut off")
    refused(sealed(b"\1\0\0"), "head is wrong")


def test_a_manifest_of_another_place_is_refused() -> None:
    with pytest.raises(DamagedObject, match="says that it is snapshot 1234 of shard 'orders'"):
        Manifest.unpack(MANIFEST.pack(), "orders", 1235)
    with pytest.raises(DamagedObject, match="says that it is snapshot 1234 of shard 'orders'"):
        Manifest.unpack(MANIFEST.pack(), "others", 1234)


def test_a_body_that_is_not_as_long_as_it_says_is_refused() -> None:
    body = msgpack.encode(body_of(MANIFEST))
    assert Manifest.unpack(packed(body), "orders", 1234) == MANIFEST
    refused(packed(body, size=len(body) - 1), "another length")
    refused(packed(body, size=len(body) + 1), "another length")
    refused(packed(body, size=1 << 62), "larger than")
    refused(sealed(struct.pack("<HQ", VERSION, 10) + b"no zlib"), "cannot be unpacked")
    refused(packed(body + b"\0"), "cannot be read")
    refused(packed(msgpack.encode([1, 2, 3])), "cannot be read")


def test_a_bomb_is_not_unpacked() -> None:
    refused(packed(bytes(50 << 20), size=100), "another length")


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("epoch", -1, "a number"),
        ("settled", 1233, "a number"),
        ("next_id", LARGEST_NUMBER + 1, "a number"),
        ("collected", -1, "a number"),
        ("writer", b"short", "writer"),
        ("fences", [5, 5], "fences"),
        ("fences", [-1, 5], "a number"),
        ("objects", ["../x", "aa-2"], "objects"),
        ("objects", ["", "aa-2"], "objects"),
        ("directories", [b"a/../b"], "no path"),
        ("directories", [b"/etc"], "no path"),
        ("files", [[1, b"../f", 0, []]], "no path"),
        ("files", [[1, b"f", -1, []]], "cut off"),
        ("files", [[1, b"f", 10, [0, 5, 0, 0, 5, 1]]], "cut off"),
        ("files", [[1, b"f", 10, [0, 5, 2, 0, 5, 1, 0]]], "beyond"),
        ("files", [[1, b"f", 10, [0, 5, -1, 0, 5, 1, 0]]], "none"),
        ("files", [[1, b"f", 10, [0, 11, 0, 0, 11, 1, 0]]], "beyond"),
        ("files", [[1, b"f", 10, [0, 0, 0, 0, 5, 1, 0]]], "none"),
        ("files", [[1, b"f", 10, [-1, 5, 0, 0, 5, 1, 0]]], "none"),
        ("files", [[1, b"f", 10, [0, 5, 0, 0, 5, 1, 1]]], "none"),
        ("files", [[1, b"f", 10, [0, 5, 0, 0, 5, 1 << 32, 0]]], "none"),
        ("files", [[1, b"f", 10, [0, 5, 0, LARGEST_NUMBER, 5, 1, 0]]], "beyond"),
    ],
)
def test_values_that_cannot_be_are_refused(field: str, value: object, match: str) -> None:
    names = ["shard", "epoch", "writer", "number", "settled", "time_ns", "next_id", "fences", "collected"]
    names += ["directories", "objects", "files"]
    body = body_of(MANIFEST)
    body[names.index(field)] = value
    refused(packed(msgpack.encode(body)), match)


@pytest.mark.parametrize(
    ("files", "directories"),
    [
        ([FileEntry(1, "a", 0, ()), FileEntry(1, "b", 0, ())], ()),
        ([FileEntry(1, "a", 0, ()), FileEntry(2, "a", 0, ())], ()),
        ([FileEntry(9, "a", 0, ())], ()),
        ([FileEntry(0, "a", 0, ())], ()),
        ([FileEntry(1, "d/a", 0, ())], ()),
        ([FileEntry(1, "d", 0, ())], ("d",)),
        ([], ("d/e",)),
        ([], ("d", "d")),
    ],
)
def test_a_tree_that_cannot_be_is_refused(files: list[FileEntry], directories: tuple[str, ...]) -> None:
    manifest = replace(MANIFEST, files=tuple(files), directories=directories)
    with pytest.raises(DamagedObject):
        Manifest.unpack(manifest.pack(), "orders", 1234).tree()


@pytest.mark.parametrize("seed", range(20))
def test_random_bodies_are_read_or_refused(seed: int) -> None:
    """Valid checksums around anything: no other exception, and what is read can be packed again."""
    random = Random(seed)
    for _ in range(200):
        body = bytearray(msgpack.encode(body_of(MANIFEST)))
        for _ in range(random.randrange(1, 4)):
            body[random.randrange(len(body))] = random.randrange(256)
        try:
            found = Manifest.unpack(packed(bytes(body)), "orders", 1234)
            found.tree()
        except DamagedObject:
            continue
        again = Manifest.unpack(found.pack(), "orders", 1234)
        assert asdict(again) == asdict(found)
