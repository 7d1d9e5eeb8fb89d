"""Meshes with servers of before 2.0: who speaks what, is told of whom, and what becomes of connections."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mesh_harness import CONNECT, PEER, PEER_INFO, POOLED, Made, TestWire

from headrace.conf.peer_options import PeerURL
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from mesh_harness import TestPort

OLD_CONNECT = b'CONNECT {"echo":true,"verbose":false,"pedantic":false,"tls_required":false,"name":"NOLD"}\r\n'
OLD_INFO = (
    b'INFO {"server_id":"NOLD","version":"1.4.1","proto":1,"go":"go1.11","host":"0.0.0.0","port":6333,'
    b'"max_payload":1048576%s}\r\n'
)
OWN_OLD_CONNECT = (
    b'CONNECT {"echo":true,"verbose":false,"pedantic":false%s,"tls_required":false,"name":"NME"}\r\n'
)
OWN_OLD_INFO = (
    b'INFO {"server_id":"NME","version":"2.15.1","proto":1,"git_commit":"headrace-1","go":"python3",'
    b'"host":"0.0.0.0","port":6222,"max_payload":1048576%s}\r\n'
)
KNOWS_BOTH = b',"legacy_routes":true'


def old_peer(port: TestPort, name: bytes = b"NOLD", more: bytes = b"") -> TestWire:
    """A server of before 2.0 has connected."""
    wire = port.accepts()
    wire.said()
    said = wire.says((OLD_CONNECT + OLD_INFO % more).replace(b"NOLD", name))
    assert wire.reason is None, said
    return wire


def new_peer(port: TestPort, name: bytes = b"NPEER", more: bytes = b"") -> TestWire:
    wire = port.accepts()
    wire.said()
    hello = (CONNECT + PEER_INFO % more).replace(b"NPEER", name).replace(b'"peer"', b'"%b"' % name)
    wire.says(hello)
    assert wire.reason is None
    return wire


def infos(said: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[5:]) for line in said.splitlines() if line.startswith(b"INFO ")]


# ---- who says what ------------------------------------------------------------------------------


def test_acceptor_of_1x_says_what_those_servers_say(make: Made) -> None:
    own = {"connect_urls": ("1.2.3.4:4222",), "jetstream": True, "domain": "hub", "ip": "nats-route://h:1/"}
    said = make(own=own, protocol="1.x", pool_size=3).accepts().said()
    assert said == OWN_OLD_INFO % b',"ip":"nats-route://h:1/","connect_urls":["1.2.3.4:4222"]'


def test_solicitor_waits_for_the_peer(make: Made) -> None:
    for protocol in ("1.x", "auto"):
        wire = make(protocol=protocol, routes=(PeerURL("h", 1, "u", "p"),), pool_size=3).reaches()
        assert wire.said() == b""
        assert wire.says(OLD_INFO % b"") == OWN_OLD_CONNECT % b',"user":"u","pass":"p"' + OWN_OLD_INFO % b""
        assert [each.is_legacy for each in wire.port.mesh.routes()] == [True]


def test_solicitor_of_both_speaks_as_new_as_it_can(make: Made) -> None:
    wire = make(protocol="auto", routes=(PEER,), pool_size=3).reaches()
    said = wire.says(PEER_INFO % (POOLED + KNOWS_BOTH))
    assert b'"cluster":"C1"' in said.split(b"\r\n")[0]
    assert infos(said)[0]["legacy_routes"] is True
    assert said.endswith(b"PING\r\n")  # for the next connection of the pool
    assert not wire.session.is_legacy


def test_solicitor_of_1x_speaks_it_with_one_that_knows_both(make: Made) -> None:
    wire = make(protocol="1.x", routes=(PEER,)).reaches()
    assert wire.says(PEER_INFO % KNOWS_BOTH) == OWN_OLD_CONNECT % b"" + OWN_OLD_INFO % b""
    remote = wire.session.remote
    assert remote is not None
    assert (remote.cluster, remote.route_pool_size, remote.headers) == ("", 0, False)


def test_nothing_is_asked_before_the_introduction(make: Made) -> None:
    wire = make(protocol="auto", routes=(PEER,), ping_max=2).reaches()
    for _ in range(2):
        wire.port.due(next(seconds for seconds in wire.port.waits() if seconds > 1))
    assert wire.said() == b""
    assert wire.reason is None


def test_headers_are_never_spoken_of(make: Made) -> None:
    wire = old_peer(make(protocol="auto"), more=b',"headers":true,"lnoc":true,"route_pool_size":3')
    assert not wire.session.link.has_headers
    assert wire.session.is_unpooled


def test_pings_are_those_of_clients(make: Made) -> None:
    wire = make(protocol="1.x", routes=(PEER,)).reaches()
    wire.says(OLD_INFO % b"")
    assert 120.0 * 1.1 in wire.port.waits()
    wire.port.due(120.0 * 1.1)
    assert wire.said() == b"PING\r\n"
    assert 120.0 in wire.port.waits()
    wire.says(b"PONG\r\n")
    assert wire.session.has_answered


@pytest.mark.parametrize(
    ("protocol", "data", "text"),
    [
        ("1.x", CONNECT, '"NPEER" speaks routes of 2.x, this is one of 1.x'),
        ("1.x", OLD_CONNECT + PEER_INFO % b"", '"NPEER" speaks routes of 2.x, this is one of 1.x'),
        ("auto", OLD_CONNECT + PEER_INFO % b"", '"NPEER" speaks routes of 2.x, this is one of 1.x'),
        ("auto", OLD_CONNECT + PEER_INFO % KNOWS_BOTH, '"NPEER" speaks routes of 2.x, this is one of 1.x'),
        (
            "auto",
            OLD_CONNECT + OLD_INFO.replace(b'"proto":1', b'"proto":2') % b"",
            '"NOLD" speaks routes of 2.x',
        ),
        ("2.x", OLD_CONNECT, 'cluster name "" does not match "C1"'),
        ("auto", CONNECT.replace(b"C1", b"C2"), 'cluster name "C2" does not match "C1"'),
    ],
)
def test_who_speaks_otherwise_is_refused(make: Made, protocol: str, data: bytes, text: str) -> None:
    wire = make(protocol=protocol).accepts()
    wire.said()
    assert wire.says(data).startswith(b"-ERR 'Rejecting connection, " + text.encode())
    assert wire.reason in (CloseReason.PROTOCOL_VIOLATION, CloseReason.CLUSTER_NAME_CONFLICT)
    assert any(text in line for line in wire.lines)
    assert not list(wire.port.mesh.routes())


def test_one_of_2x_that_reaches_an_older_server_leaves_it(make: Made) -> None:
    wire = make(routes=(PEER,)).reaches()
    wire.said()
    text = b"-ERR 'Rejecting connection, \"NOLD\" speaks routes of 1.x, this is one of 2.x'\r\n"
    assert wire.says(OLD_INFO % b"") == text
    assert not wire.port.mesh.registry.pools


def test_a_peer_does_not_change_its_protocol(make: Made) -> None:
    wire = old_peer(make(protocol="auto"))
    assert b"speaks routes of 2.x" in wire.says(CONNECT)
    wire = new_peer(make(protocol="auto"))
    assert b"speaks routes of 1.x" in wire.says(OLD_CONNECT)


def test_a_second_connect_takes_no_other_place(make: Made) -> None:
    port = make(protocol="auto")
    wire = old_peer(port)
    assert wire.says(OLD_CONNECT.replace(b"NOLD", b"NELSE")) == b""
    wire.lost()
    assert not port.mesh.registry.pools


# ---- what connections carry ---------------------------------------------------------------------


def test_only_the_global_account_is_spoken_of(make: Made) -> None:
    port = make(("A",), protocol="auto", pool_size=3, accounts=("A",))
    port.client("A").feed(b"SUB a 1\r\n")
    client = port.client()
    client.feed(b"SUB g 1\r\nUNSUB 1 5\r\n")
    wire = port.accepts()
    wire.said()
    assert wire.says(OLD_CONNECT + OLD_INFO % b"") == b"SUB g  RSID:0:1\r\n"
    assert wire.session.link.served == (b"$G",)
    port.mesh.accounts_changed()
    assert wire.said() == b""


def test_no_connection_is_made_for_single_accounts(make: Made) -> None:
    port = make(("A",), protocol="auto", pool_size=3, accounts=("A",), routes=(PEER,))
    assert len(port.dials) == 3  # the pool, A and $SYS: who is there is not known yet
    first, *others = [port.reaches() for _ in range(3)]
    assert b"CONNECT" in first.says(OLD_INFO % b"")
    for wire in others:
        assert wire.says(OLD_INFO % b"") == b""
        assert wire.reason is CloseReason.DUPLICATE_ROUTE
    assert not port.dials
    assert not port.mesh.solicitors
    first.lost()
    assert len(port.dials) == 2  # what comes back may be a server that has them
    alone = make(("A",), protocol="1.x", accounts=("A",), pool_size=3, routes=(PEER,))
    assert len(alone.dials) == 1


def test_the_newer_of_two_connections_is_closed(make: Made) -> None:
    port = make(protocol="auto")
    first = old_peer(port)
    second = port.accepts()
    second.said()
    second.says(OLD_CONNECT + OLD_INFO % b"")
    assert second.reason is CloseReason.DUPLICATE_ROUTE
    assert first.session.retries


def test_two_of_ours_that_meet_keep_the_one_that_the_lower_began(make: Made) -> None:
    for name, is_kept in ((b"NAAA", False), (b"NZZZ", True)):
        port = make(protocol="1.x", routes=(PEER,))
        begun = port.reaches()
        begun.says((OLD_INFO % b',"git_commit":"headrace-9"').replace(b"NOLD", name))
        coming = port.accepts()
        coming.said()
        coming.says((OLD_CONNECT + OLD_INFO % b',"git_commit":"headrace-9"').replace(b"NOLD", name))
        assert (begun.reason is None) is is_kept
        assert (coming.reason is None) is not is_kept


def test_a_lame_duck_says_nothing_to_old_peers(make: Made) -> None:
    port = make(protocol="auto")
    old, new = old_peer(port), new_peer(port)
    new.said()
    old.said()
    port.mesh.lame_duck()
    assert old.said() == b""
    assert infos(new.said())[0]["ldm"] is True


def test_permissions_of_a_peer_are_taken_over(make: Made) -> None:
    wire = old_peer(make(protocol="1.x"))
    wire.says(OLD_INFO % b',"import":{"allow":["a"]}')
    remote = wire.session.remote
    assert remote is not None
    assert remote.imports is not None
    assert remote.imports.allow == ("a",)


# ---- gossip -------------------------------------------------------------------------------------


def test_old_peers_hear_of_each_other_whoever_connected(make: Made) -> None:
    port = make(protocol="1.x")
    first = old_peer(port, b"NONE")
    first.says((OLD_INFO % b',"ip":"nats-route://9.9.9.9:1/"').replace(b"NOLD", b"NTWO"))
    heard_of = port.reaches()
    heard_of.says((OLD_INFO % b"").replace(b"NOLD", b"NTWO"))
    (told,) = infos(first.said())
    assert (told["server_id"], told["ip"]) == ("NTWO", "nats-route://10.9.8.7:6333/")
    assert "gossip_mode" not in told


def test_old_peers_hear_of_new_ones_that_know_both_only(make: Made) -> None:
    port = make(protocol="auto")
    old = old_peer(port)
    new_peer(port, b"NNEW")
    assert old.said() == b""
    new_peer(port, b"NBOTH", KNOWS_BOTH + b',"gossip_mode":1')
    (told,) = infos(old.said())
    assert told == {
        "server_id": "NBOTH",
        "version": "2.10.0",
        "proto": 1,
        "go": "",
        "host": "127.0.0.1",
        "port": 6333,
        "max_payload": 1048576,
        "ip": "nats-route://10.9.8.7:6333/",
    }


def test_new_peers_hear_of_old_ones_if_they_know_both(make: Made) -> None:
    port = make(protocol="auto")
    new, both = new_peer(port, b"NNEW"), new_peer(port, b"NBOTH", KNOWS_BOTH)
    new.said()
    both.said()
    old_peer(port)
    assert infos(new.said()) == []
    (told,) = infos(both.said())
    assert (told["server_id"], told["ip"]) == ("NOLD", "nats-route://10.9.8.7:6333/")
    assert "cluster" not in told


def test_one_of_both_connects_to_an_old_server_that_it_heard_of(make: Made) -> None:
    port = make(protocol="auto", user="u", password="p")
    wire = port.accepts()
    wire.said()
    wire.says(CONNECT.replace(b'"name"', b'"user":"u","pass":"p","name"') + PEER_INFO % KNOWS_BOTH)
    wire.says(OLD_INFO % b',"auth_required":true,"ip":"nats-route://9.9.9.9:1/"')
    reached = port.reaches()
    assert reached.says(OLD_INFO % b"").startswith(OWN_OLD_CONNECT % b',"user":"u","pass":"p"')
    assert len(list(port.mesh.routes())) == 2


def test_reminders_name_who_can_be_reached_only(make: Made) -> None:
    port = make(protocol="auto")
    old, new, both = old_peer(port), new_peer(port, b"NNEW"), new_peer(port, b"NBOTH", KNOWS_BOTH)
    for wire in (old, new, both):
        wire.said()
    port.due(30.0 * 1.1)
    heard = [{info["server_id"] for info in infos(wire.said())} for wire in (old, new, both)]
    assert heard == [{"NBOTH"}, {"NBOTH"}, {"NOLD", "NNEW"}]
