"""Incomplete frames: kept, carried to the next read, received straight into place when large.

The engine's edges: a read takes 65,536 bytes; an incomplete frame of more than 32,768 has its own buffer.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from engine_peers import QUIET

if TYPE_CHECKING:
    from engine_peers import Broker, Peer

READ = 65_536
DIRECT = 32_768


def pattern(size: int) -> bytes:
    """Bytes that differ from place to place, so that one lost or moved shows."""
    return random.Random(size).randbytes(size)


def subscribed(broker: Broker, **limits: int) -> Peer:
    return broker.peer(QUIET + b"SUB a 1\r\n", **limits)


EDGES = [DIRECT - 40, DIRECT - 12, DIRECT - 11, DIRECT, DIRECT + 1, READ - 12, READ, READ + 1, 3 * READ + 7]


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("before", [b"", b"PING\r\n", b"PUB a 3\r\nabc\r\n"])
def test_frame_around_the_edges_of_the_buffers_arrives(broker: Broker, size: int, before: bytes) -> None:
    peer = subscribed(broker)
    payload = pattern(size)
    for _ in range(3):
        peer.received()
        peer.send(before + b"PUB a %d\r\n" % size + payload + b"\r\nPING\r\n")
    got = peer.received()
    assert got.endswith(b"MSG a 1 %d\r\n" % size + payload + b"\r\nPONG\r\n")


@pytest.mark.parametrize("cut", [1, 2, 5, 11, 12, 13, 14, 15, 40_000, 99_999, 100_012, 100_013, 100_014])
def test_large_frame_cut_once_anywhere_arrives(plain_broker: Broker, cut: int) -> None:
    peer = subscribed(plain_broker)
    frame = b"PUB a 100000\r\n" + pattern(100_000) + b"\r\n"
    peer.send(frame[:cut])
    assert peer.received() == b""
    peer.send(frame[cut:] + b"PING\r\n")
    assert peer.received() == b"MSG a 1 100000\r\n" + frame[14:] + b"PONG\r\n"


@pytest.mark.parametrize("piece", [1009, 4093, 32_749, 65_521, 65_537, 131_071])
def test_megabyte_fed_in_odd_pieces_arrives(plain_broker: Broker, piece: int) -> None:
    peer = subscribed(plain_broker)
    payload = pattern(1 << 20)
    data = b"PUB a 7\r\n1234567\r\nPUB a 1048576\r\n" + payload + b"\r\nPING\r\n"
    for at in range(0, len(data), piece):
        peer.link.feed(data[at : at + piece])
    assert peer.received() == b"MSG a 1 7\r\n1234567\r\nMSG a 1 1048576\r\n" + payload + b"\r\nPONG\r\n"


def test_many_large_frames_in_a_row_arrive(broker: Broker) -> None:
    peer = subscribed(broker)
    sizes = [50_000, 3, 200_000, 70_000, 0, 33_000, 31_000, 65_000]
    peer.send(b"".join(b"PUB a %d\r\n%b\r\n" % (size, pattern(size)) for size in sizes))
    assert peer.received() == b"".join(b"MSG a 1 %d\r\n%b\r\n" % (size, pattern(size)) for size in sizes)


def test_links_with_incomplete_frames_do_not_mix(plain_broker: Broker) -> None:
    """All of them take turns in one read buffer."""
    peers = [plain_broker.peer(QUIET + b"SUB s.%d 1\r\n" % n) for n in range(6)]
    sizes = [100, 5_000, 30_000, 40_000, 100_000, 300_000]
    frames = [b"PUB s.%d %d\r\n%b\r\n" % (n, size, pattern(size)) for n, size in enumerate(sizes)]
    for at in range(0, max(map(len, frames)), 777):
        for peer, frame in zip(peers, frames, strict=True):
            peer.link.feed(frame[at : at + 777])
    for n, (peer, size) in enumerate(zip(peers, sizes, strict=True)):
        assert peer.received() == b"MSG s.%d 1 %d\r\n%b\r\n" % (n, size, pattern(size))


def test_buffer_offers_just_what_a_large_frame_still_needs(plain_broker: Broker) -> None:
    """Nothing of the frame after a large one is read into its buffer, so that it need not be moved."""
    peer = plain_broker.peer()
    frame = b"PUB a 100000\r\n" + bytes(100_000) + b"\r\n"
    peer.link.feed(frame[:1000])
    assert len(peer.link.buffer()) == len(frame) - 1000
    view = peer.link.buffer()
    view[:2000] = frame[1000:3000]
    peer.link.received(2000)
    assert len(peer.link.buffer()) == len(frame) - 3000
    peer.link.feed(frame[3000:])
    assert len(peer.link.buffer()) == READ


def test_large_size_that_never_arrives_is_given_back(plain_broker: Broker) -> None:
    for _ in range(20):
        peer = plain_broker.peer(max_payload=999_999_999)
        peer.link.feed(b"PUB a 900000000\r\nxyz")
        assert len(peer.link.buffer()) > 800_000_000
        peer.link.detach()


def test_frame_that_fails_at_its_end_gives_its_buffer_back(broker: Broker) -> None:
    peer = subscribed(broker)
    peer.send(b"PUB a 100000\r\n" + bytes(100_000) + b"xx")
    assert peer.received() == b"-ERR 'Unknown Protocol Operation'\r\n"


def test_held_link_with_a_large_frame_begun_keeps_what_comes(plain_broker: Broker) -> None:
    peer = subscribed(plain_broker)
    payload = pattern(100_000)
    peer.link.feed(b"PUB a 100000\r\n" + payload[:50_000])
    peer.link.hold()
    peer.link.feed(payload[50_000:] + b"\r\nPUB a 5\r\n12345\r\nPIN")
    peer.link.feed(b"G")
    assert peer.received() == b""
    peer.link.release()
    assert peer.received() == b"MSG a 1 100000\r\n" + payload + b"\r\nMSG a 1 5\r\n12345\r\n"
    peer.link.feed(b"\r\n")
    assert peer.received() == b"PONG\r\n"


@pytest.mark.parametrize("size", [70_000, 300_000])
def test_control_line_longer_than_any_buffer_arrives_in_pieces(plain_broker: Broker, size: int) -> None:
    peer = plain_broker.peer(max_control_line=1 << 20)
    subject = b"s" * size
    line = b"SUB " + subject + b" 1\r\nPUB " + subject + b" r 1\r\nx\r\nPING\r\n"
    for at in range(0, len(line), 1999):
        peer.link.feed(line[at : at + 1999])
    assert peer.received() == b"MSG " + subject + b" 1 r 1\r\nx\r\nPONG\r\n"


def test_random_traffic_split_at_random_is_the_same_as_whole(plain_broker: Broker) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed={seed}")
    rng = random.Random(seed)
    frames = []
    for _ in range(300):
        size = rng.choice((0, 1, 3, 60, 1000, 20_000, 33_000, 70_000)) + rng.randrange(20)
        sign = rng.choice((b"PUB a %d\r\n", b"pub  a\t%d \r\n", b"PUB a r.%d %%d\r\n" % size, b"PUB a %d\n"))
        frames.append(sign % size + rng.randbytes(size) + b"\r\n")
    data = b"".join(frames)
    whole, split = subscribed(plain_broker), plain_broker.peer()
    split.link.interest = type(plain_broker.interest)()
    split.send(b"SUB a 1\r\n")
    whole.link.feed(data)
    at = 0
    while at < len(data):
        size = rng.choice((1, 2, 100, 5000, 40_000, 65_536, 100_000))
        split.link.feed(data[at : at + size])
        at += size
    assert split.received() == whole.received()
