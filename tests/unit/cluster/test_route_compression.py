"""Compression of one connection: who says what before it begins, and what comes over it then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mesh_harness import CONNECT, PEER, PEER_INFO

from headrace import limits
from headrace.cluster.compression import by_round_trip, chosen
from headrace.engine.reasons import CloseReason
from headrace.engine.s2 import Stream
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from mesh_harness import Made, TestWire

SAYS = b',"compression":"%s"'


def info_of(said: bytes) -> dict[str, Any]:
    """The one INFO among these lines."""
    (line,) = [line for line in said.splitlines() if line.startswith(b"INFO ")]
    found = json.loads(line[5:])
    assert isinstance(found, dict)
    return found


def accepted(make: Made, mode: str, peer: bytes) -> tuple[TestWire, bytes]:
    """A peer has connected that says this mode; and what it is answered."""
    wire = make(compression=mode).accepts()
    assert info_of(wire.said())["compression"] == mode
    return wire, wire.says(CONNECT + PEER_INFO % (SAYS % peer))


@pytest.mark.parametrize(
    ("mode", "peer", "mine"),
    [
        ("accept", b"s2_fast", "s2_fast"),
        ("accept", b"s2_uncompressed", "s2_uncompressed"),
        ("accept", b"s2_auto", "s2_fast"),
        ("s2_best", b"accept", "s2_best"),
        ("s2_better", b"s2_best", "s2_better"),
    ],
)
def test_who_accepts_answers_compressed(make: Made, mode: str, peer: bytes, mine: str) -> None:
    wire, said = accepted(make, mode, peer)
    there = Stream()
    assert info_of(there.decompress(said))["compression"] == mine
    assert wire.session.compression == mine
    assert not list(wire.port.mesh.routes())
    answer = wire.says(there.compress(PEER_INFO % (SAYS % peer) + b"PING\r\n"))
    assert there.decompress(answer) == b"PONG\r\n"
    assert [route.remote_id for route in wire.port.mesh.routes()] == ["NPEER"]


@pytest.mark.parametrize("pool_size", [-1, 3])
def test_who_solicits_says_its_choice_and_then_compresses(make: Made, pool_size: int) -> None:
    wire = make(compression="s2_fast", routes=(PEER,), pool_size=pool_size).reaches()
    assert not [line for line in wire.said().splitlines() if line.startswith(b"INFO")]
    pool = b',"route_pool_size":%d' % max(pool_size, 0)
    assert info_of(wire.says(PEER_INFO % (SAYS % b"accept" + pool)))["compression"] == "s2_fast"
    there = Stream()
    said = there.decompress(wire.says(there.compress(PEER_INFO % (SAYS % b"s2_fast" + pool))))
    assert info_of(said)["compression"] == "s2_fast"
    assert len(list(wire.port.mesh.routes())) == 1


@pytest.mark.parametrize(
    ("mode", "peer", "mine"),
    [
        ("accept", b"accept", "off"),
        ("s2_fast", b"off", "off"),
        ("s2_fast", b"not supported", "not supported"),
        ("s2_fast", b"", "not supported"),
        ("off", b"s2_fast", "off"),
        ("off", b"", "not supported"),
        ("not supported", b"s2_fast", "not supported"),
    ],
)
def test_where_one_does_not_want_it_there_is_none(make: Made, mode: str, peer: bytes, mine: str) -> None:
    wire, said = accepted(make, mode, peer)
    assert said == b""
    assert wire.session.compression == mine
    assert wire.says(b"PING\r\n") == b"PONG\r\n"
    assert len(list(wire.port.mesh.routes())) == 1


def test_a_mode_that_is_unknown(make: Made) -> None:
    wire, said = accepted(make, "s2_fast", b"zstd")
    assert said == b"-ERR 'unsupported route compression mode \"zstd\"'\r\n"
    assert wire.reason is CloseReason.PROTOCOL_VIOLATION


def test_nothing_is_pinged_before_it_is_known(make: Made) -> None:
    port = make(compression="accept", ping_max=2)
    wire = port.accepts()
    wire.said()
    port.due(next(iter(port.waits())))
    assert wire.said() == b""
    there = Stream()
    there.decompress(wire.says(CONNECT + PEER_INFO % (SAYS % b"s2_fast")))
    port.due(limits.ROUTE_PING_INTERVAL)
    assert there.decompress(wire.said()) == b"PING\r\n"


def test_who_never_introduces_itself_is_stale_all_the_same(make: Made) -> None:
    port = make(compression="accept", ping_max=2)
    wire = port.accepts()
    for _ in range(3):
        port.due(next(iter(port.waits())))
    assert wire.reason is CloseReason.STALE_CONNECTION


def test_the_first_bytes_may_come_with_the_line_before_and_in_any_pieces(make: Made) -> None:
    there = Stream()
    plain = CONNECT + PEER_INFO % (SAYS % b"s2_fast")
    packed = there.compress(PEER_INFO % (SAYS % b"s2_fast") + b"RS+ $G a\r\nPING\r\n" + b"PING\r\n" * 100)
    for size in (*range(1, 30, 4), 200, 10_000):
        wire = make(compression="accept").accepts()
        data = plain + packed
        said = wire.said()
        said = b"".join(wire.says(data[at : at + size]) for at in range(0, len(data), size))
        assert Stream().decompress(said).endswith(b"PONG\r\n" * 101)
        assert [row[1] for row in wire.session.link.interest_rows()] == [b"a"]


def test_large_messages_both_ways(make: Made) -> None:
    port = make(compression="accept")
    wire = port.accepts()
    wire.said()
    there = Stream()
    there.decompress(wire.says(CONNECT + PEER_INFO % (SAYS % b"s2_fast")))
    body = b"0123456789" * 100_000
    client = port.client()
    client.feed(b"SUB a 1\r\n")
    wire.says(there.compress(PEER_INFO % (SAYS % b"s2_fast") + b"RS+ $G b\r\n"))
    packed = there.compress(b"RMSG $G a %d\r\n%s\r\n" % (len(body), body))
    for at in range(0, len(packed), 1000):
        wire.says(packed[at : at + 1000])
    assert client.take() == b"+OK\r\nMSG a 1 %d\r\n%s\r\n" % (len(body), body)
    client.feed(b"PUB b %d\r\n%s\r\n" % (len(body), body))
    said = wire.said()
    assert len(said) < len(body) // 5
    assert there.decompress(said).endswith(b"RMSG $G b %d\r\n%s\r\n" % (len(body), body))
    client.detach()


@pytest.mark.parametrize(
    "said",
    [
        b"PING\r\n",
        b"\xff\x06\x00\x00S2sTwO\x01\x05\x00\x00....x",
        b"\xff\x06\x00\x00S2sTwO\x00\xff\xff\xff",
        b"\xff\x06\x00\x00S2sTwO\x05\x00\x00\x00",
    ],
)
def test_a_stream_that_is_broken_ends_the_connection(make: Made, said: bytes) -> None:
    wire, _ = accepted(make, "accept", b"s2_fast")
    wire.says(said)
    assert wire.reason is CloseReason.READ_ERROR
    assert any(line.startswith("compressed stream: ") for line in wire.lines)


def test_auto_goes_with_the_round_trip(make: Made) -> None:
    port = make(compression="s2_auto")
    wire = port.accepts()
    assert info_of(wire.said())["compression"] == "s2_auto"
    there = Stream()
    said = there.decompress(wire.says(CONNECT + PEER_INFO % (SAYS % b"accept")))
    assert info_of(said)["compression"] == "s2_auto"
    assert wire.session.compression == "s2_uncompressed"
    wire.says(there.compress(PEER_INFO % (SAYS % b"s2_fast")))
    for milliseconds, mode in ((60, "s2_better"), (5, "s2_uncompressed"), (500, "s2_best")):
        wire.session.ping()
        assert there.decompress(wire.said()) == b"PING\r\n"
        port.now += milliseconds * 10**6
        wire.says(there.compress(b"PONG\r\n"))
        assert wire.session.compression == mode


# ---- rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("milliseconds", "thresholds", "mode"),
    [
        (0, (5, 10, 15, 20), "s2_uncompressed"),
        (5, (5, 10, 15, 20), "s2_uncompressed"),
        (6, (5, 10, 15, 20), "s2_fast"),
        (15, (5, 10, 15, 20), "s2_better"),
        (16, (5, 10, 15, 20), "s2_best"),
        (99, (5, 10, 15, 20), "s2_best"),
        (99, (5, 10, 15), "s2_best"),
        (99, (5, 10), "s2_fast"),
        (99, (5,), "s2_uncompressed"),
        (1, (0, 0, 20, 30), "s2_better"),
        (21, (0, 0, 20, 30), "s2_best"),
        (1, (0, 20), "s2_fast"),
    ],
)
def test_levels_by_round_trip(milliseconds: int, thresholds: tuple[int, ...], mode: str) -> None:
    assert by_round_trip(milliseconds / 1e3, [each / 1e3 for each in thresholds]) == mode


@pytest.mark.parametrize("peer", ["zstd", "S2_FAST", "on"])
def test_unknown_modes_of_a_peer(peer: str) -> None:
    with pytest.raises(ProtocolError, match=f'^unsupported route compression mode "{peer}"$'):
        chosen("accept", peer)
