"""Who carries messages between servers of 1.x and of 2.x: of those that speak both, the oldest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from test_legacy_handshake import OLD_CONNECT, OLD_INFO, new_peer, old_peer

from headrace import limits
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from mesh_harness import Made, TestPort, TestWire

AGE = 1_000
BEGINS = "Carrying messages between routes of 1.x and of 2.x"
ENDS = "No longer carrying messages between routes of 1.x and of 2.x"


def port_of_both_dialects(make: Made, started_ns: int = AGE) -> TestPort:
    return make(protocol="auto", own={"started_ns": started_ns})


def colleague(port: TestPort, started_ns: int, name: bytes = b"NBOTH") -> TestWire:
    """Another server that speaks both has connected."""
    said = b',"git_commit":"headrace-1","legacy_routes":true,"headrace_started_ns":%d' % started_ns
    return new_peer(port, name, said)


def takes_over(port: TestPort) -> bool:
    """Whether it is the bridge after it has waited."""
    port.due(limits.ROUTE_BRIDGE_WAIT)
    return port.mesh.bridge.is_on


def ends(wire: TestWire) -> None:
    wire.session.close(CloseReason.CLIENT_CLOSED)
    wire.port.settle()


def words(port: TestPort) -> list[str]:
    return [line for line in port.lines if line in (BEGINS, ENDS)]


def test_one_alone_waits_and_is_the_bridge(make: Made) -> None:
    port = port_of_both_dialects(make)
    assert not port.mesh.bridge.is_on
    assert takes_over(port)
    assert words(port) == []


@pytest.mark.parametrize("protocol", ["1.x", "2.x"])
def test_who_speaks_one_protocol_is_none(make: Made, protocol: str) -> None:
    port = make(protocol=protocol, own={"started_ns": AGE})
    assert limits.ROUTE_BRIDGE_WAIT not in port.waits()
    assert b"headrace_started_ns" not in port.accepts().said()


def test_peers_are_told_since_when(make: Made) -> None:
    assert b'"legacy_routes":true,"headrace_started_ns":1000}' in port_of_both_dialects(make).accepts().said()


@pytest.mark.parametrize(
    ("started_ns", "name", "is_older"),
    [(AGE - 1, b"NZZ", True), (AGE + 1, b"NAA", False), (AGE, b"NAA", True), (AGE, b"NZZ", False)],
)
def test_the_older_one_is_the_bridge(make: Made, started_ns: int, name: bytes, is_older: bool) -> None:
    first, second = port_of_both_dialects(make), port_of_both_dialects(make)
    colleague(first, started_ns, name)
    assert takes_over(first) is not is_older
    assert takes_over(second)
    colleague(second, started_ns, name)
    assert second.mesh.bridge.is_on is not is_older


def test_it_is_taken_over_a_while_after_the_older_one_left(make: Made) -> None:
    port = port_of_both_dialects(make)
    older = colleague(port, AGE - 1)
    for _ in range(3):
        assert limits.ROUTE_BRIDGE_WAIT not in port.waits()
        ends(older)
        assert not port.mesh.bridge.is_on
        assert limits.ROUTE_BRIDGE_WAIT in port.waits()
        older = colleague(port, AGE - 1)  # it was cut off for a moment only
    ends(older)
    assert takes_over(port)


def test_what_is_carried_and_when_is_logged(make: Made) -> None:
    port = port_of_both_dialects(make)
    old, new = old_peer(port), new_peer(port)
    assert words(port) == []
    takes_over(port)
    assert words(port) == [BEGINS]
    older = colleague(port, AGE - 1)
    assert words(port) == [BEGINS, ENDS]
    ends(older)
    takes_over(port)
    ends(old)
    old_peer(port)
    ends(new)
    assert words(port) == [BEGINS, ENDS] * 3


def test_each_side_is_told_what_the_other_wants_while_there_is_a_bridge(make: Made) -> None:
    port = port_of_both_dialects(make)
    old, new, both = old_peer(port), new_peer(port), colleague(port, AGE + 1)
    old.says(b"SUB old  RSID:5:1\r\n")
    new.says(b"RS+ $G new\r\n")
    both.says(b"RS+ $G both\r\n")
    assert (old.said(), new.said(), both.said()) == (b"", b"", b"")
    takes_over(port)
    assert (old.said(), new.said(), both.said()) == (b"SUB new  RSID:0:1\r\n", b"RS+ $G old\r\n", b"")
    late = port.accepts()
    late.said()
    assert late.says((OLD_CONNECT + OLD_INFO % b"").replace(b"NOLD", b"NLATE")).endswith(
        b"SUB new  RSID:0:1\r\n"
    )
    old.said()
    late.says(b"SUB late  RSID:6:1\r\n")
    assert (old.said(), new.said()) == (b"", b"RS+ $G late\r\n")
    colleague(port, AGE - 1, b"NOLDER")
    assert b"UNSUB RSID:0:1\r\n" in old.said()
    assert sorted(line for line in new.said().splitlines() if line.startswith(b"RS")) == [
        b"RS- $G late",
        b"RS- $G old",
    ]


def test_a_stopped_mesh_waits_for_nothing(make: Made) -> None:
    port = port_of_both_dialects(make)
    port.stop()
    assert limits.ROUTE_BRIDGE_WAIT not in port.waits()
