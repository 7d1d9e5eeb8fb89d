"""Changes of files as bytes: each kind there and back, cut off and changed at every place."""

from __future__ import annotations

from random import Random

import pytest

from headrace.bucket.changes import (
    LARGEST_NUMBER,
    LONGEST_NAME,
    Change,
    Create,
    FileExtent,
    Mkdir,
    Rename,
    Rmdir,
    SnapshotBegun,
    SnapshotTaken,
    StoreUploaded,
    Truncate,
    Unlink,
    Write,
    decode,
    encode,
)
from headrace.bucket.errors import DamagedObject

EACH: list[Change] = [
    Mkdir("logs"),
    Create("logs/1.log"),
    Write(1, 0, b"head"),
    Write(1, 1 << 40, b"x" * 300),
    Truncate(1, 127),
    Truncate(1, 128),
    Rename("logs/1.log", "logs/2.log"),
    Unlink("logs/2.log"),
    Rmdir("logs"),
    SnapshotBegun(),
    StoreUploaded(),
    SnapshotTaken(0, ()),
    SnapshotTaken(
        9000,
        (
            (1, FileExtent(0, 5, "w-1", 7, 5, 0)),
            (1, FileExtent(5, 1 << 20, "w-2", 0, 1 << 20, 0xFFFFFFFF)),
            (300, FileExtent(1 << 33, 6, "w-1", 12, 6, 17)),
        ),
    ),
]


def test_every_kind_there_and_back() -> None:
    assert decode(encode(EACH)) == EACH
    assert encode([]) == b""
    assert decode(b"") == []


def test_writes_that_follow_each_other_are_one() -> None:
    changes: list[Change] = [
        Write(1, 10, b"ab"),
        Write(1, 12, memoryview(b"cd")),
        Write(1, 14, b""),
        Write(1, 15, b"e"),
        Write(2, 16, b"f"),
        Truncate(2, 17),
        Write(2, 17, b"g"),
    ]

    assert decode(encode(changes)) == [
        Write(1, 10, b"abcd"),
        Write(1, 15, b"e"),
        Write(2, 16, b"f"),
        Truncate(2, 17),
        Write(2, 17, b"g"),
    ]


def test_data_of_writes_is_not_copied_when_it_is_read() -> None:
    payload = encode([Write(1, 0, b"data")])
    write = decode(payload)[0]

    assert isinstance(write, Write)
    assert isinstance(write.data, memoryview)
    assert write.data.obj is payload


def test_names_that_are_not_unicode_survive() -> None:
    change = Create(b"caf\xe9/\xc3\xa9".decode("utf-8", "surrogateescape"))

    assert decode(encode([change])) == [change]


@pytest.mark.parametrize(
    "path",
    ["/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\0b", "n" * (LONGEST_NAME + 1), "a/" * 2100 + "a"],
)
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(DamagedObject):
        decode(encode([Create(path)]))


@pytest.mark.parametrize("number", [-1, LARGEST_NUMBER + 1])
def test_numbers_have_bounds(number: int) -> None:
    with pytest.raises(ValueError, match="no number"):
        encode([Truncate(1, number)])


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\x0b",
        b"\xff\x01",
        b"\x03\x01\x80",
        b"\x03\x01" + b"\xff" * 8 + b"\x7f",  # 2 ** 63 - 1
        b"\x03\x01" + b"\x80" * 20 + b"\x01",
        b"\x03\x81\x00\x01",  # longer than it need be
        b"\x02\x01\x00\xff\xff\xff\xff\x0f",  # says that 4 GB follow
        b"\x01\x00",
        b"\x01\x05ab",
        b"\x09\x01\xff\xff\xff\xff\x0f",  # 4 G names of objects
        b"\x09\x01\x00\xff\xff\xff\xff\x0f",  # 4 G extents
        b"\x09\x01\x00\x01\x01\x00\x01\x00\x00\x00",  # an extent of no object
        b"\x09\x01\x01\x01a\x01\x01\x00\x00\x00\x00\x00",  # of no bytes
        b"\x09\x01\x01\x01a\x01\x01\x00\x01\x00\x00\xff\xff\xff\xff\x7f",  # a checksum of 35 bits
        b"\x02\x01" + b"\xff" * 8 + b"\x3f" + b"\x01a",  # ends beyond all files
    ],
)
def test_malformed_bytes(data: bytes) -> None:
    with pytest.raises(DamagedObject):
        decode(data)


def test_cut_off_at_every_place() -> None:
    payload = encode(EACH)
    ends = {len(encode(EACH[:count])): count for count in range(len(EACH) + 1)}
    for cut in range(len(payload)):
        if cut in ends:
            assert decode(payload[:cut]) == EACH[: ends[cut]]
        else:
            with pytest.raises(DamagedObject):
                decode(payload[:cut])


def test_every_byte_changed_is_read_the_same_way_again_or_refused() -> None:
    payload = encode(EACH)
    refused = 0
    for place in range(len(payload)):
        for flip in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            changed = bytearray(payload)
            changed[place] ^= flip
            try:
                changes = decode(bytes(changed))
            except DamagedObject:
                refused += 1
            else:
                assert decode(encode(changes)) == changes
    assert refused > 300


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes(seed: int) -> None:
    random = Random(seed)
    for _ in range(500):
        data = bytes(random.choice([random.randrange(10), random.randrange(256)]) for _ in range(30))
        try:
            changes = decode(data)
        except DamagedObject:
            continue
        assert sum(len(c.data) for c in changes if isinstance(c, Write)) <= len(data)


def test_a_snapshot_stores_whole_extents() -> None:
    with pytest.raises(ValueError, match="whole"):
        encode([SnapshotTaken(1, ((1, FileExtent(0, 5, "w-1", 7, 6, 0, 1)),))])
