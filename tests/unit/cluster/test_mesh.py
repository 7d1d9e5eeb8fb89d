"""What concerns more than one connection.

Duplicates, pools, gossip, names, reconnections, options, accounts.
"""

from __future__ import annotations

import pytest
from mesh_harness import CONNECT, PEER, PEER_INFO, POOLED, Made, TestPort, TestWire
from msgspec.structs import replace

from headrace.cluster.registry import pool_index
from headrace.conf.account_options import AccountOptions, SubjectPermission
from headrace.conf.peer_options import PeerURL
from headrace.engine.reasons import CloseReason
from headrace.errors import ConfigError

SECOND_INFO = PEER_INFO.replace(b"NPEER", b"NTWO").replace(b'"peer"', b'"two"').replace(b"6333", b"6444")
TOLD = (
    b'INFO {"server_id":"NTWO","server_name":"two","version":"2.10.0","proto":1,"go":"","host":"127.0.0.1",'
    b'"port":6444,"headers":true,"max_payload":1048576,"ip":"nats-route://10.9.8.7:6444/","cluster":"C1",'
    b'"lnoc":true,"lnocu":true%s}\r\n'
)


def joined(port: TestPort, info: bytes = PEER_INFO % b"") -> TestWire:
    """A peer that connected, past its handshake."""
    wire = port.accepts()
    wire.said()
    wire.says(CONNECT + info)
    return wire


def reached(port: TestPort, info: bytes = PEER_INFO % b"") -> TestWire:
    """A peer that was dialed, past its handshake."""
    wire = port.reaches()
    wire.said()
    wire.says(info)
    return wire


def ids(port: TestPort) -> list[str]:
    return [route.remote_id for route in port.mesh.routes()]


# ---- pools --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "account", "index"), [(3, "$G", 2), (3, "B", 0), (1, "$G", 0), (0, "$G", 0), (-1, "$G", 0)]
)
def test_which_connection_of_a_pool_an_account_uses(size: int, account: str, index: int) -> None:
    assert pool_index(size, account) == index


def test_each_account_is_told_on_its_own_connection(make: Made) -> None:
    port = make(("A", "B"), pool_size=3, accounts=("A",))
    clients = [port.client(account) for account in ("$G", "A", "B", "$SYS")]
    for client in clients:
        client.feed(b"SUB foo 1\r\n")
    told = {}
    for extra in (b"", b',"route_pool_idx":1', b',"route_pool_idx":2', b',"route_account":"A"'):
        wire = port.accepts()
        wire.said()
        told[extra] = wire.says(CONNECT + PEER_INFO % (POOLED + extra))
    assert list(told.values()) == [b"RS+ B foo\r\n", b"", b"RS+ $G foo\r\n", b"RS+ foo\r\n"]
    for client in clients:
        client.detach()


def test_a_peer_without_a_pool_is_told_everything_on_one_connection(make: Made) -> None:
    port = make(("A",), pool_size=3, accounts=("A",))
    clients = [port.client(account) for account in ("$G", "A", "$SYS")]
    for client in clients:
        client.feed(b"SUB foo 1\r\n")
    wire = port.accepts()
    wire.said()
    told = wire.says(CONNECT + PEER_INFO % b"").splitlines()
    assert sorted(told) == [b"RS+ $G foo", b"RS+ $SYS foo", b"RS+ A foo"]
    for client in clients:
        client.detach()


def test_the_larger_pool_counts(make: Made) -> None:
    port = make(pool_size=1)
    joined(port, PEER_INFO % b',"route_pool_size":5,"route_pool_idx":4')
    assert [route.pool_index for route in port.mesh.routes()] == [4]


# ---- duplicates ---------------------------------------------------------------------------------


def test_a_second_connection_of_a_peer_is_closed_in_silence(make: Made) -> None:
    port = make()
    first = joined(port)
    second = port.accepts()
    second.said()
    assert second.says(CONNECT + PEER_INFO % b"") == b""
    assert second.reason is CloseReason.DUPLICATE_ROUTE
    assert first.reason is None
    assert ids(port) == ["NPEER"]


def test_a_pool_has_one_connection_for_each_place(make: Made) -> None:
    port = make(pool_size=3)
    first = joined(port, PEER_INFO % POOLED)
    again = joined(port, PEER_INFO % POOLED)
    assert again.reason is CloseReason.DUPLICATE_ROUTE
    assert first.reason is None


def test_a_full_pool_closes_what_was_dialed_beyond_it(make: Made) -> None:
    port = make(pool_size=1, routes=(PEER,))
    joined(port, PEER_INFO % b',"route_pool_size":1')
    extra = reached(port, PEER_INFO % b',"route_pool_size":1')
    assert extra.reason is CloseReason.DUPLICATE_ROUTE
    assert 1.05 not in port.waits(), "it is not dialed again"


def test_the_url_of_a_closed_duplicate_is_remembered_on_the_one_that_stays(make: Made) -> None:
    port = make(routes=(PEER,))
    kept = joined(port)
    assert not kept.session.is_solicited
    duplicate = reached(port)
    assert duplicate.reason is CloseReason.DUPLICATE_ROUTE
    assert kept.session.is_explicit
    kept.lost()
    port.due(1.05)
    assert [str(dial[0]) for dial in port.dials] == ["127.0.0.1:6333"]


@pytest.mark.parametrize(("ours", "stays"), [("NA", "dialed"), ("NZ", "accepted")])
def test_when_both_connect_at_once_the_one_of_the_lower_id_stays(make: Made, ours: str, stays: str) -> None:
    own = {"server_id": ours}
    info = PEER_INFO % b',"git_commit":"headrace-9"'
    for order in ("dialed first", "accepted first"):
        port = make(own=own, routes=(PEER,))
        if order == "dialed first":
            dialed, accepted = reached(port, info), joined(port, info)
        else:
            accepted, dialed = joined(port, info), reached(port, info)
        kept, closed = (dialed, accepted) if stays == "dialed" else (accepted, dialed)
        assert (kept.reason, closed.reason) == (None, CloseReason.DUPLICATE_ROUTE)
        assert list(port.mesh.routes()) == [kept.session]
        assert kept.session.is_explicit, "it is dialed again whichever stayed"


def test_what_a_peer_has_answered_on_is_not_given_up(make: Made) -> None:
    info = PEER_INFO % b',"git_commit":"headrace-9"'
    port = make(own={"server_id": "NZ"}, routes=(PEER,))
    kept = reached(port, info)
    kept.says(b"PONG\r\n")
    assert joined(port, info).reason is CloseReason.DUPLICATE_ROUTE
    assert kept.reason is None


def test_a_pools_place_that_the_go_server_asks_for_is_free_on_its_side(make: Made) -> None:
    port = make(own={"server_id": "NA"}, pool_size=3, routes=(PEER,))
    dialed = reached(port, PEER_INFO % POOLED)
    accepted = joined(port, PEER_INFO % POOLED)
    assert (dialed.reason, accepted.reason) == (CloseReason.DUPLICATE_ROUTE, None)


def test_a_route_to_oneself_is_not_tried_again(make: Made) -> None:
    port = make(routes=(PEER,))
    wire = reached(port, PEER_INFO.replace(b"NPEER", b"NME") % b"")
    assert wire.reason is CloseReason.DUPLICATE_ROUTE
    assert port.waits() == [33.0]


# ---- reaching peers -----------------------------------------------------------------------------


def test_configured_peers_are_tried_for_ever_each_second(make: Made) -> None:
    port = make(routes=(PEER,))
    for _ in range(5):
        port.dials.pop()[2]("connection refused")
        port.due(1.0)
    assert len(port.dials) == 1
    errors = [line for line in port.lines if "attempt" in line]
    assert errors[0] == "Error trying to connect to route (attempt 1): connection refused"


def test_back_off(make: Made) -> None:
    port = make(routes=(PEER,), connect_backoff=True)
    for delay in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
        port.dials.pop()[2]("refused")
        port.due(delay)


def test_a_name_that_is_only_ourselves_is_not_tried_again(make: Made) -> None:
    port = make(routes=(PEER,))
    port.dials.pop()[2](None)
    assert port.waits() == [33.0]


@pytest.mark.parametrize("retries", [0, 2])
def test_a_peer_that_was_heard_of_is_tried_as_often_as_configured(make: Made, retries: int) -> None:
    port = make(connect_retries=retries)
    joined(port).says(TOLD % b"")
    for _ in range(retries):
        port.dials.pop()[2]("refused")
        port.due(1.0)
    port.dials.pop()[2]("refused")
    assert 1.0 not in port.waits()


def test_a_lost_connection_is_made_again(make: Made) -> None:
    port = make(routes=(PEER,))
    wire = reached(port)
    wire.lost()
    assert not port.dials
    port.due(1.05)
    assert len(port.dials) == 1


def test_a_peer_that_connected_is_not_reached_when_it_goes(make: Made) -> None:
    port = make()
    joined(port).lost()
    assert port.waits() == [33.0]
    assert not port.dials


def test_stopping_closes_everything_and_reaches_nobody(make: Made) -> None:
    port = make(routes=(PEER, PeerURL("h", 1)))
    wire = reached(port)
    port.mesh.stop()
    port.settle()
    assert wire.reason is CloseReason.SERVER_SHUTDOWN
    assert port.waits() == []
    assert port.dials.pop()[1](TestWire(port)) is None
    assert port.mesh.accepted(TestWire(port)) is None


# ---- gossip -------------------------------------------------------------------------------------


def test_a_new_peer_is_told_to_the_others(make: Made) -> None:
    port = make()
    first = joined(port)
    joined(port, SECOND_INFO % b"")
    assert first.said() == TOLD % b',"gossip_mode":1'


def test_a_peer_that_was_dialed_is_told_of_always(make: Made) -> None:
    port = make(routes=(PEER,))
    first = joined(port)
    reached(port, SECOND_INFO % b"")
    assert first.said().endswith(b',"gossip_mode":2}\r\n')


def test_nobody_is_told_of_who_asks_for_that(make: Made) -> None:
    port = make()
    first = joined(port)
    joined(port, SECOND_INFO % b',"gossip_mode":1')
    assert first.said() == b""


def test_who_is_heard_of_is_reached_with_the_clusters_credentials(make: Made) -> None:
    port = make(user="u", password="p")
    wire = port.accepts()
    wire.said()
    wire.says(CONNECT.replace(b"}", b',"user":"u","pass":"p"}') + PEER_INFO % b"")
    wire.says(TOLD % b',"auth_required":true')
    assert [str(dial[0]) for dial in port.dials] == ["10.9.8.7:6444"]
    other = port.reaches()
    assert b'"user":"u","pass":"p"' in other.said()
    other.says(SECOND_INFO % b"")
    assert wire.said() == b"", "the others were told by the same peer"


@pytest.mark.parametrize(
    "told",
    [
        TOLD.replace(b"NTWO", b"NME") % b"",
        TOLD.replace(b"NTWO", b"NPEER") % b"",
        TOLD.replace(b"nats-route://10.9.8.7:6444/", b"nats-route://[/") % b"",
        TOLD.replace(b"nats-route://10.9.8.7:6444/", b"nats-route://h/") % b"",
        TOLD % b',"route_account":"$G"',
    ],
)
def test_who_is_not_reached(make: Made, told: bytes) -> None:
    port = make(pool_size=1)
    joined(port, PEER_INFO % b',"route_pool_size":1').says(told)
    assert not port.dials


@pytest.mark.parametrize("url", [PeerURL("127.0.0.1", 6444), PeerURL("10.9.8.7", 6444)])
def test_a_configured_peer_is_not_reached_because_it_was_heard_of(make: Made, url: PeerURL) -> None:
    port = make(routes=(url,))
    port.dials.clear()
    joined(port).says(TOLD % b"")
    assert not port.dials


def test_hearing_of_a_server_from_several_reaches_it_once(make: Made) -> None:
    port = make()
    first, second = joined(port), joined(port, SECOND_INFO.replace(b"6444", b"6555") % b"")
    for wire in (first, second):
        wire.says(TOLD.replace(b"NTWO", b"NTHREE") % b"")
    assert len(port.dials) == 1
    port.reaches()
    first.says(TOLD.replace(b"NTWO", b"NTHREE") % b"")
    assert not port.dials


def test_hearing_of_a_server_during_an_attempt_makes_one_more(make: Made) -> None:
    """That attempt may have begun while the network was cut, and nobody tells of the server a second time."""
    port = make()
    first, second = joined(port), joined(port, SECOND_INFO.replace(b"6444", b"6555") % b"")
    for wire in (first, second):
        wire.says(TOLD.replace(b"NTWO", b"NTHREE") % b"")
    port.dials.pop()[2]("i/o timeout")
    assert [str(dial[0]) for dial in port.dials] == ["10.9.8.7:6444"]
    port.dials.pop()[2]("refused")
    assert not port.dials
    assert 1.0 not in port.waits()


def test_peers_are_reminded_of_each_other_and_gaps_are_closed(make: Made) -> None:
    port = make(pool_size=3)
    first = joined(port, PEER_INFO % POOLED)
    joined(port, SECOND_INFO % POOLED)
    first.said()
    port.due(33.0)
    assert first.said() == TOLD % (POOLED + b',"gossip_mode":1')
    assert [str(dial[0]) for dial in port.dials] == ["127.0.0.1:6333"] * 2 + ["127.0.0.1:6444"] * 2
    port.due(33.0)
    assert len(port.dials) == 4, "they are on their way"


# ---- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connect", "is_taken"),
    [
        (b'"cluster":"C9"', True),
        (b'"cluster":"zzz","cluster_dynamic":true', True),
        (b'"cluster":"aaa","cluster_dynamic":true', False),
        (b'"cluster":""', False),
    ],
)
def test_a_made_up_name_gives_way(make: Made, connect: bytes, is_taken: bool) -> None:
    port = make(name="")
    assert (port.mesh.name.text, port.mesh.name.is_dynamic) == ("made-up-1", True)
    wire = port.accepts()
    wire.said()
    wire.says(CONNECT.replace(b'"cluster":"C1"', connect))
    assert (wire.reason is None) == is_taken
    if is_taken:
        assert port.mesh.name.text in ("C9", "zzz")
        assert port.mesh.name.is_dynamic == (b"dynamic" in connect)
        assert port.told_clients


def test_taking_another_name_drops_the_other_routes(make: Made) -> None:
    port = make(name="")
    old = port.accepts()
    old.said()
    old.says(CONNECT.replace(b"C1", b"made-up-1") + PEER_INFO.replace(b"C1", b"made-up-1") % b"")
    assert ids(port) == ["NPEER"]
    new = port.accepts()
    new.said()
    new.says(CONNECT.replace(b"NPEER", b"NTWO") + SECOND_INFO % b"")
    assert old.reason is CloseReason.CLUSTER_NAME_CONFLICT
    assert ids(port) == ["NTWO"]


def test_a_configured_name_stays(make: Made) -> None:
    port = make()
    assert not port.mesh.accepts_name("C2", "N", is_dynamic=True)
    assert not port.mesh.accepts_name("C2", "N", is_dynamic=False)


# ---- clients ------------------------------------------------------------------------------------


def test_where_clients_reach_the_peers(make: Made) -> None:
    port = make()
    urls = b',"connect_urls":["h:1","h:2"],"ws_connect_urls":["w:1"]'
    first = joined(port, PEER_INFO % urls)
    assert (port.mesh.addresses.connect_urls, port.mesh.addresses.ws_connect_urls) == (
        ("h:1", "h:2"),
        ("w:1",),
    )
    second = joined(port, SECOND_INFO % b',"connect_urls":["h:2","h:3"]')
    assert port.mesh.addresses.connect_urls == ("h:1", "h:2", "h:3")
    assert port.told_clients == 2
    second.says(SECOND_INFO % b',"ldm":true')
    assert port.mesh.addresses.connect_urls == ("h:1", "h:2")
    second.lost()
    first.lost()
    assert (port.mesh.addresses.connect_urls, port.told_clients) == ((), 4)


def test_where_clients_reach_the_peers_is_not_told_when_it_should_not_be(make: Made) -> None:
    port = make(no_advertise=True)
    joined(port, PEER_INFO % b',"connect_urls":["h:1"]')
    assert (port.mesh.addresses.connect_urls, port.told_clients) == ((), 0)


def test_a_lame_duck_says_so_once_to_each_peer(make: Made) -> None:
    port = make(pool_size=3)
    wires = [joined(port, PEER_INFO % (POOLED + extra)) for extra in (b"", b',"route_pool_idx":1')]
    port.mesh.lame_duck()
    assert [b'"ldm":true' in wire.said() for wire in wires] == [True, False]


# ---- options ------------------------------------------------------------------------------------


def test_routes_that_are_taken_out_and_put_in(make: Made) -> None:
    port = make(routes=(PEER,))
    wire = reached(port)
    port.mesh.reload(replace(port.mesh.options, routes=(PeerURL("h", 1),)))
    port.settle()
    assert wire.reason is CloseReason.ROUTE_REMOVED
    assert [str(dial[0]) for dial in port.dials] == ["h:1"]
    assert port.waits() == [33.0]


def test_a_route_that_is_taken_out_while_it_is_tried(make: Made) -> None:
    port = make(routes=(PEER,))
    port.mesh.reload(replace(port.mesh.options, routes=()))
    assert port.dials.pop()[1](TestWire(port)) is None
    assert not port.mesh.solicitors


def test_other_permissions_make_connections_anew(make: Made) -> None:
    port = make(routes=(PEER,))
    wire = reached(port)
    port.mesh.reload(replace(port.mesh.options, imports=SubjectPermission(allow=("a",))))
    port.settle()
    assert wire.reason is CloseReason.ROUTE_REMOVED
    port.due(1.05)
    assert b'"import":{"allow":["a"]}' in port.reaches().said()


def test_permissions_that_are_none_change_nothing(make: Made) -> None:
    port = make()
    wire = joined(port)
    before = port.mesh.options
    with pytest.raises(ConfigError):
        port.mesh.reload(replace(before, imports=SubjectPermission(allow=("a..b",))))
    assert (port.mesh.options, wire.reason) == (before, None)


def test_another_pool_size_makes_connections_anew(make: Made) -> None:
    port = make(pool_size=3, routes=(PEER,))
    wire = reached(port, PEER_INFO % POOLED)
    port.mesh.reload(replace(port.mesh.options, pool_size=5))
    port.settle()
    assert wire.reason is CloseReason.ROUTE_REMOVED
    port.due(1.05)
    port.dials.pop(0)
    again = port.reaches()
    again.said()
    assert b'"route_pool_size":5' in again.says(PEER_INFO % POOLED)


# ---- accounts -----------------------------------------------------------------------------------


def test_an_account_that_gets_connections_of_its_own_moves_in_two_steps(make: Made) -> None:
    port = make(("B",), pool_size=3, routes=(PEER,))
    client = port.client("B")
    client.feed(b"SUB foo 1\r\n")
    wire = reached(port, PEER_INFO % POOLED)
    wire.says(b"RS+ B theirs\r\n")
    port.dials.clear()
    port.mesh.reload(replace(port.mesh.options, accounts=("B",)))
    asked = wire.said()
    assert asked.startswith(b'INFO {"server_id":"","server_name":"","version":"","proto":0,"go":""')
    assert b'"route_pool_size":3,"route_account":"B","route_acc_add_reqid":"made-up-1"}' in asked
    client.feed(b"SUB bar 2\r\nPUB theirs 1\r\nx\r\n")
    assert wire.said() == b"", "nothing of it goes over the pool any more"
    assert not port.dials
    wire.says(b'INFO {"route_pool_size":3,"route_acc_add_reqid":"other"}\r\n')
    assert not port.dials
    wire.says(b'INFO {"route_pool_size":3,"route_acc_add_reqid":"made-up-1"}\r\n')
    own = port.reaches()
    assert b'"route_account":"B"' in own.said()
    assert sorted(own.says(PEER_INFO % POOLED).splitlines()) == [b"RS+ bar", b"RS+ foo"]
    client.detach()


def test_a_peer_that_does_not_answer_is_not_waited_for(make: Made) -> None:
    port = make(("B",), pool_size=3, routes=(PEER,))
    reached(port, PEER_INFO % POOLED)
    port.dials.clear()
    port.mesh.reload(replace(port.mesh.options, accounts=("B",)))
    port.due(2.0)
    assert len(port.dials) == 1


def test_a_peer_that_goes_is_not_waited_for(make: Made) -> None:
    port = make(("B",), pool_size=3, routes=(PEER,))
    wire = reached(port, PEER_INFO % POOLED)
    port.dials.clear()
    port.mesh.reload(replace(port.mesh.options, accounts=("B",)))
    wire.lost()
    assert len(port.dials) == 1
    assert 2.0 not in port.waits()


def test_a_peer_moves_an_account(make: Made) -> None:
    port = make(("B",), pool_size=3)
    client = port.client("B")
    client.feed(b"SUB foo 1\r\n")
    wire = joined(port, PEER_INFO % POOLED)
    said = wire.says(b'INFO {"route_pool_size":3,"route_account":"B","route_acc_add_reqid":"Q"}\r\n')
    assert said.endswith(b'"route_pool_size":3,"route_acc_add_reqid":"Q"}\r\n')
    client.feed(b"SUB bar 2\r\n")
    assert wire.said() == b""
    own = port.accepts()
    own.said()
    told = own.says(CONNECT + PEER_INFO % (POOLED + b',"route_account":"B"'))
    assert sorted(told.splitlines()) == [b"RS+ bar", b"RS+ foo"]
    assert wire.says(b'INFO {"route_account":"?","route_acc_add_reqid":"Q"}\r\nPING\r\n') == b"PONG\r\n"
    client.detach()


def test_an_account_without_connections_of_its_own_again(make: Made) -> None:
    port = make(("B",), pool_size=3, accounts=("B",))
    client = port.client("B")
    client.feed(b"SUB foo 1\r\n")
    wire = joined(port, PEER_INFO % POOLED)
    own = joined(port, PEER_INFO % (POOLED + b',"route_account":"B"'))
    port.mesh.reload(replace(port.mesh.options, accounts=()))
    port.settle()
    assert own.reason is CloseReason.ROUTE_REMOVED
    assert wire.said() == b"RS+ B foo\r\n"
    client.detach()


def test_accounts_that_come_and_go(make: Made) -> None:
    port = make()
    wire = joined(port)
    port.accounts.replace([AccountOptions("NEW")])
    port.mesh.accounts_changed()
    client = port.client("NEW")
    client.feed(b"SUB foo 1\r\n")
    assert wire.said() == b"RS+ NEW foo\r\n"
    wire.says(b"RS+ NEW bar\r\n")
    client.detach()
    port.settle()
    wire.said()
    port.accounts.replace((), ["NEW"])
    port.mesh.accounts_changed()
    assert wire.session.link.interest_rows() == []
