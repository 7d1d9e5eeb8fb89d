"""Objects of the write-ahead log: what was packed is read, anything else is refused by name."""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from headrace.bucket.errors import DamagedObject, NewerFormat
from headrace.bucket.wal_object import Kind, WalObject, checksum_of
from headrace.engine.records import crc32c

WRITER = bytes(range(16))
MADE = WalObject("js", 3, WRITER, 41, Kind.COMMIT, 1_700_000_000_000_000_000, b"changes of files")


def packed_with(at: int, replacement: bytes, data: bytes = b"") -> bytes:
    """An object with other bytes at a place of its head, and a checksum that says they are right."""
    data = data or MADE.pack()
    changed = data[:at] + replacement + data[at + len(replacement) :]
    return changed[:4] + struct.pack("<I", crc32c(changed[8:])) + changed[8:]


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("payload", [b"", b"x", bytes(100_000)])
def test_what_was_packed_is_read(kind: Kind, payload: bytes) -> None:
    made = WalObject("js", 2**64 - 1, WRITER, 2**64 - 1, kind, -5, payload)

    assert WalObject.unpack(made.pack(), "js", 2**64 - 1) == made


def test_format_stays_as_it_is() -> None:
    """Objects that are in buckets were written so."""
    assert MADE.pack().hex() == (
        "4852776c"
        "c9d73266"
        "0100"
        "01"
        "02"
        "0300000000000000"
        "2900000000000000"
        "00002a36fe9c9717"
        "1000000000000000"
        "000102030405060708090a0b0c0d0e0f"
        "6a73"
        "6368616e676573206f662066696c6573"
    )


def test_every_flipped_bit_is_noticed() -> None:
    data = MADE.pack()

    for at in range(len(data)):
        for bit in range(8):
            flipped = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            with pytest.raises(DamagedObject):
                WalObject.unpack(flipped, "js", 41)


def test_every_cut_is_noticed() -> None:
    data = MADE.pack()

    for length in range(len(data)):
        with pytest.raises(DamagedObject):
            WalObject.unpack(data[:length], "js", 41)


def test_every_cut_with_a_right_checksum_is_noticed() -> None:
    data = MADE.pack()

    for length in range(8, len(data)):
        with pytest.raises(DamagedObject):
            WalObject.unpack(packed_with(8, b"", data[:length]), "js", 41)


def test_bytes_behind_the_end_are_noticed() -> None:
    with pytest.raises(DamagedObject):
        WalObject.unpack(packed_with(8, b"", MADE.pack() + b"x"), "js", 41)


def test_later_format_is_told_from_damage() -> None:
    with pytest.raises(NewerFormat, match=r"object 41 of shard js .* \(format 3\)"):
        WalObject.unpack(packed_with(8, b"\3\0"), "js", 41)
    with pytest.raises(NewerFormat, match="format 3"):  # whose head may have any form
        WalObject.unpack(packed_with(8, b"", b"HRwl    \3\0"), "js", 41)


@pytest.mark.parametrize(
    ("at", "replacement"),
    [
        pytest.param(8, b"\0\0", id="version 0"),
        pytest.param(10, b"\0", id="no kind"),
        pytest.param(10, b"\4", id="unknown kind"),
        pytest.param(11, b"\0", id="shorter name"),
        pytest.param(11, b"\xff", id="longer name"),
        pytest.param(36, b"\xff" * 8, id="longer payload"),
        pytest.param(60, b"\xff\xfe", id="name that is no text"),
    ],
)
def test_wrong_heads_with_a_right_checksum_are_refused(at: int, replacement: bytes) -> None:
    with pytest.raises(DamagedObject, match="object 41 of shard js"):
        WalObject.unpack(packed_with(at, replacement), "js", 41)


@pytest.mark.parametrize(("shard", "number"), [("js", 42), ("jt", 41), ("j", 41), ("jsx", 41)])
def test_object_that_stands_elsewhere_is_refused(shard: str, number: int) -> None:
    with pytest.raises(DamagedObject, match="says that it is object 41 of shard b'js'"):
        WalObject.unpack(MADE.pack(), shard, number)


def test_objects_of_other_content_have_other_checksums() -> None:
    other = WalObject("js", 3, WRITER, 41, Kind.COMMIT, MADE.time_ns, b"changes of filet")

    assert checksum_of(MADE.pack()) == checksum_of(MADE.pack())
    assert checksum_of(MADE.pack()) != checksum_of(other.pack())


def test_a_payload_in_pieces_makes_the_same_object() -> None:
    pieces = (b"changes ", memoryview(b"of "), b"", b"files")

    assert replace(MADE, payload=b"").pack(pieces) == MADE.pack()
