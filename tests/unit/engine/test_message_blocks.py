"""HighwayHash-64 by the published vectors, and blocks whose lengths lie."""

from __future__ import annotations

import struct
from random import Random

import pytest

from headrace.engine.message_blocks import MESSAGE, checksum, scan

KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 0x907A56DE22C26E53),
        (1, 0x7EAB43AAC7CDDD78),
        (2, 0xB8D0569AB0B53D62),
        (3, 0x5C6BEFAB8A463D80),
        (4, 0xF205A46893007EDA),
        (16, 0xCFAB3489F97EB832),
        (17, 0x19FE67D2C8C5C0E2),
        (31, 0x9FC7007CCF035A68),
        (32, 0xA0C964D9ECD580FC),
        (33, 0x2C90F73CA03181FC),
    ],
)
def test_the_published_vectors_hold(size: int, expected: int) -> None:
    assert checksum(KEY, bytes(range(size))) == expected.to_bytes(8, "little")


def record(sequence: int, subject: bytes, payload: bytes, headers: bytes = b"") -> bytes:
    length = 22 + len(subject) + len(payload) + 8 + (4 + len(headers) if headers else 0)
    head = struct.pack("<IQqH", length | (1 << 31 if headers else 0), sequence, 5, len(subject))
    size = struct.pack("<I", len(headers)) if headers else b""
    body = head[4:20] + subject + headers + payload
    return head + subject + size + headers + payload + checksum(KEY, body)


def test_records_are_read_and_no_length_is_believed_that_leads_out_of_the_block() -> None:
    whole = record(1, b"a.b", b"payload", b"NATS/1.0\r\n\r\n") + record(2, b"c", b"")

    assert scan(KEY, whole) == (
        [(MESSAGE, 1, 5, b"a.b", b"NATS/1.0\r\n\r\n", b"payload"), (MESSAGE, 2, 5, b"c", b"", b"")],
        [],
    )
    for length in (0, 29, 30, len(whole) + 1, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
        for subject in (0, 3, 0xFFFF):
            lying = struct.pack("<I", length) + whole[4:20] + struct.pack("<H", subject) + whole[22:]
            records, places = scan(KEY, lying)
            assert [one[1] for one in records] in ([2], [1, 2])
            assert places or lying == whole


def test_headers_that_are_longer_than_their_record_are_damage() -> None:
    whole = record(1, b"a", b"payload", b"NATS/1.0\r\n\r\n")
    place = 22 + 1
    records, places = scan(KEY, whole[:place] + struct.pack("<I", 1 << 20) + whole[place + 4 :])

    assert records == []
    assert places == [(0, len(whole), 0, False)]


def test_a_key_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        scan(b"short", b"")


def test_bytes_that_look_like_long_records_are_not_hashed_without_end() -> None:
    """A search that hashed each of them to its end would go over 100 GB here."""
    heads = struct.pack("<IQqH", 1 << 20, 5, 5, 8) * ((4 << 20) // 22)

    records, places = scan(KEY, record(1, b"a", b"") + heads + record(2, b"a", b""))

    assert [one[1] for one in records] == [1]
    assert [place[0] for place in places] == [31]


def test_behind_bytes_at_random_reading_goes_on() -> None:
    noise = Random(1).randbytes(1 << 20)

    records, _ = scan(KEY, record(1, b"a", b"") + noise + record(2, b"a", b"") + noise + record(3, b"a", b""))

    assert [one[1] for one in records] == [1, 2, 3]
