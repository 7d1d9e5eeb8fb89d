"""One connection to another server.

Every message of the handshake, byte for byte, and every way to be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mesh_harness import CONNECT, INFO, PEER, PEER_INFO, POOLED, Made, TestWire

from headrace import limits
from headrace.conf.account_options import AccountOptions, SubjectPermission
from headrace.conf.peer_options import PeerURL
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable

# ---- the acceptor -------------------------------------------------------------------------------


def test_acceptor_says_its_info_at_once(make: Made) -> None:
    assert make().accepts().said() == INFO % b""


def test_acceptor_says_pool_size_domain_and_where_clients_reach_it(make: Made) -> None:
    own = {"connect_urls": ("1.2.3.4:4222",), "jetstream": True, "domain": "hub", "ip": "nats-route://h:1/"}
    said = make(own=own, pool_size=3).accepts().said()
    assert b'"jetstream":true,"ip":"nats-route://h:1/","nonce"' in said
    assert b'"domain":"hub","connect_urls":["1.2.3.4:4222"],"compression"' in said
    assert b'"route_pool_size":3' in said
    assert b"connect_urls" not in make(own=own, no_advertise=True).accepts().said()


def test_acceptor_says_permissions_and_that_credentials_are_needed(make: Made) -> None:
    said = (
        make(
            user="u",
            password="p",
            imports=SubjectPermission(allow=("a.>",), deny=("a.b",)),
            exports=SubjectPermission(deny=("x",)),
        )
        .accepts()
        .said()
    )
    assert b'"auth_required":true' in said
    assert b'"import":{"allow":["a.>"],"deny":["a.b"]},"export":{"deny":["x"]}' in said


def test_acceptor_takes_a_peer_and_tells_its_interest(make: Made) -> None:
    port = make()
    client = port.client()
    client.feed(b"SUB a.* 1\r\nSUB w g 2\r\nSUB w g 3\r\n")
    wire = port.accepts()
    wire.said()
    assert wire.says(CONNECT) == b""
    assert sorted(wire.says(PEER_INFO % b"").splitlines()) == [b"RS+ $G a.*", b"RS+ $G w g 2"]
    client.feed(b"SUB w g 4\r\nUNSUB 1\r\n")
    assert wire.said() == b"RS+ $G w g 3\r\nRS- $G a.*\r\n"
    assert wire.says(b"PING\r\n") == b"PONG\r\n"
    client.detach()
    assert wire.said() == b"RS+ $G w g 2\r\nRS+ $G w g 1\r\nRS- $G w g\r\n"


@pytest.mark.parametrize("size", range(1, 40, 7))
def test_handshake_in_pieces(make: Made, size: int) -> None:
    wire = make().accepts()
    wire.said()
    data = CONNECT + PEER_INFO % b"" + b"PING\r\n"
    answer = b"".join(wire.says(data[at : at + size]) for at in range(0, len(data), size))
    assert answer == b"PONG\r\n"
    assert [route.remote_id for route in wire.port.mesh.routes()] == ["NPEER"]


REFUSALS = [
    (
        b'CONNECT {"cluster":"C2","name":"N"}\r\n',
        b'-ERR \'Rejecting connection, cluster name "C2" does not match "C1"\'\r\n',
        CloseReason.CLUSTER_NAME_CONFLICT,
    ),
    (
        b'CONNECT {"lang":"python"}\r\n',
        b"-ERR 'attempted to connect to route port'\r\n",
        CloseReason.WRONG_PORT,
    ),
    (
        b'CONNECT {"gateway":"G","cluster":"C1"}\r\n',
        b"-ERR 'Rejecting connection from gateway \"G\" on the Route port'\r\n",
        CloseReason.WRONG_GATEWAY,
    ),
    (b"RS+ $G a\r\n", b"-ERR 'Authorization Violation'\r\n", CloseReason.AUTHENTICATION_VIOLATION),
    (b"PING\r\n", b"-ERR 'Authorization Violation'\r\n", CloseReason.AUTHENTICATION_VIOLATION),
    (PEER_INFO % b"", b"-ERR 'Authorization Violation'\r\n", CloseReason.AUTHENTICATION_VIOLATION),
    (b"GET / HTTP/1.1\r\n", b"-ERR 'Authorization Violation'\r\n", CloseReason.AUTHENTICATION_VIOLATION),
    (b"P", b"-ERR 'Authorization Violation'\r\n", CloseReason.AUTHENTICATION_VIOLATION),
    (b"\x00", b"-ERR 'Authorization Violation'\r\n", CloseReason.AUTHENTICATION_VIOLATION),
    (b"CONNEXT {}\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", CloseReason.PROTOCOL_VIOLATION),
    (b"CONNECT {\r\n", b"", CloseReason.PROTOCOL_VIOLATION),
    (b"CONNECT []\r\n", b"", CloseReason.PROTOCOL_VIOLATION),
    (b'CONNECT {"name":1}\r\n', b"", CloseReason.PROTOCOL_VIOLATION),
    (CONNECT + b"INFO x\r\n", b"", CloseReason.PROTOCOL_VIOLATION),
    (CONNECT + b'INFO {"port":"6222"}\r\n', b"", CloseReason.PROTOCOL_VIOLATION),
    (CONNECT + b'INFO {"connect_urls":{}}\r\n', b"", CloseReason.PROTOCOL_VIOLATION),
    (CONNECT + b'INFO {"server_id":"NME"}\r\n', b"", CloseReason.DUPLICATE_ROUTE),
    (CONNECT + b'INFO {"server_id":"N2","server_name":"me"}\r\n', b"", CloseReason.DUPLICATE_SERVER_NAME),
    (CONNECT + b'INFO {"server_id":"N2","cluster":"C2"}\r\n', b"", CloseReason.CLUSTER_NAME_CONFLICT),
    (CONNECT + b"-ERR 'no'\r\n", b"", CloseReason.PARSE_ERROR),
    (CONNECT + b"RS+ $G a\r\n", b"", CloseReason.PROTOCOL_VIOLATION),
    (
        CONNECT + PEER_INFO % b',"route_account":"A"',
        b"-ERR 'Unable to lookup account \"A\": account missing'\r\n",
        CloseReason.MISSING_ACCOUNT,
    ),
    (
        CONNECT + PEER_INFO % b',"route_account":"$G"',
        b"-ERR 'Not possible to have a dedicated route for account \"$G\" between those servers'\r\n",
        CloseReason.PROTOCOL_VIOLATION,
    ),
    (
        CONNECT + PEER_INFO % b"" + b"BOGUS\r\n",
        b"-ERR 'Unknown Protocol Operation'\r\n",
        CloseReason.PROTOCOL_VIOLATION,
    ),
]


@pytest.mark.parametrize(("data", "answer", "reason"), REFUSALS)
def test_what_is_refused(make: Made, data: bytes, answer: bytes, reason: CloseReason) -> None:
    wire = make().accepts()
    wire.said()
    assert wire.says(data) == answer
    assert wire.reason is reason
    assert not list(wire.port.mesh.routes())
    assert not wire.port.mesh.sessions


@pytest.mark.parametrize(
    ("info", "answer"),
    [
        (b',"route_pool_size":3,"route_pool_idx":3', b"Invalid route pool index: 3 - pool size is 3"),
        (b',"route_pool_size":3,"route_pool_idx":-1', b"Invalid route pool index: -1 - pool size is 3"),
        (b',"route_pool_size":3,"route_account":"$G"', b'No route for account "$G"'),
    ],
)
def test_what_a_pool_refuses(make: Made, info: bytes, answer: bytes) -> None:
    wire = make(pool_size=3).accepts()
    wire.said()
    assert wire.says(CONNECT + PEER_INFO % info) == b"-ERR '%s'\r\n" % answer
    assert wire.reason is CloseReason.PROTOCOL_VIOLATION


@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        (b',"user":"u","pass":"p"', True),
        (b"", False),
        (b',"user":"u"', False),
        (b',"user":"u","pass":"P"', False),
        (b',"user":"v","pass":"p"', False),
        (b',"user":"\xff","pass":"p"', False),
    ],
)
def test_credentials(make: Made, given: bytes, is_right: bool) -> None:
    wire = make(user="u", password="p").accepts()
    wire.said()
    said = wire.says(CONNECT.replace(b"}", given + b"}") + b"PING\r\n")
    assert said == (b"PONG\r\n" if is_right else b"-ERR 'Authorization Violation'\r\n")
    assert wire.reason is (None if is_right else CloseReason.AUTHENTICATION_VIOLATION)
    assert "p" not in "".join(wire.lines).replace("ep", "").split('"')


@pytest.mark.parametrize("is_right", [True, False])
def test_a_secret_that_takes_long_to_compare_holds_the_connection(
    make: Made, monkeypatch: pytest.MonkeyPatch, is_right: bool
) -> None:
    port = make(user="u", password="p")
    waiting: list[Callable[[bool], object]] = []
    monkeypatch.setattr(port, "compare", lambda _stored, _given, judged: waiting.append(judged))
    wire = port.accepts()
    wire.said()
    assert wire.says(CONNECT.replace(b"}", b',"user":"u"}') + PEER_INFO % b"" + b"PING\r\n") == b""
    assert not list(port.mesh.routes())
    waiting.pop()(is_right)
    assert wire.said() == (b"PONG\r\n" if is_right else b"-ERR 'Authorization Violation'\r\n")
    assert len(list(port.mesh.routes())) == is_right


def test_a_secret_may_be_judged_when_the_connection_is_over(
    make: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = make(user="u", password="p")
    waiting: list[Callable[[bool], object]] = []
    monkeypatch.setattr(port, "compare", lambda _stored, _given, judged: waiting.append(judged))
    wire = port.accepts()
    wire.says(CONNECT.replace(b"}", b',"user":"u"}'))
    wire.lost()
    waiting.pop()(True)
    assert wire.reason is CloseReason.CLIENT_CLOSED


def test_who_says_nothing_is_closed_when_credentials_are_needed(make: Made) -> None:
    port = make(user="u", password="p", auth_timeout=0.75)
    wire = port.accepts()
    wire.said()
    port.due(0.75)
    assert wire.said() == b"-ERR 'Authentication Timeout'\r\n"
    assert wire.reason is CloseReason.AUTHENTICATION_TIMEOUT
    port = make()
    port.accepts()
    assert port.waits() == [1.1, 33.0], "a first PING, and the mesh's own look for holes"


# ---- the solicitor ------------------------------------------------------------------------------


def test_solicitor_introduces_itself_and_waits_with_its_info_for_its_place(make: Made) -> None:
    port = make(pool_size=3, routes=(PeerURL("127.0.0.1", 6333, "ru", "rp"),))
    wire = port.reaches()
    assert wire.said() == (
        b'CONNECT {"echo":true,"verbose":false,"pedantic":false,"user":"ru","pass":"rp","tls_required":false,'
        b'"headers":true,"name":"NME","cluster":"C1","lnoc":true}\r\n'
    )
    said = wire.says(PEER_INFO % POOLED)
    assert said == INFO % POOLED + b"PING\r\n"


def test_solicitor_without_a_pool_says_both_at_once(make: Made) -> None:
    wire = make(routes=(PEER,)).reaches()
    connect, info = wire.said().split(b"\r\n", 1)
    assert b"user" not in connect
    assert info == INFO % b""
    assert wire.says(PEER_INFO % b"") == b""
    assert wire.session.is_registered
    assert wire.session.is_unpooled


def test_each_connection_of_a_pool_follows_the_answer_to_the_one_before(make: Made) -> None:
    port = make(pool_size=3, routes=(PEER,))
    dedicated = port.dials.pop(1)
    assert str(dedicated[0]) == "127.0.0.1:6333"
    first = port.reaches()
    first.said()
    first.says(PEER_INFO % POOLED)
    assert not port.dials
    first.says(b"PONG\r\n")
    for index in (1, 2):
        wire = port.reaches()
        wire.said()
        said = wire.says(PEER_INFO % POOLED)
        assert b'"route_pool_size":3,"route_pool_idx":%d}' % index in said
        assert said.endswith(b"PING\r\n") == (index < 2)
        wire.says(b"PONG\r\n")
    assert not port.dials
    assert [route.pool_index for route in port.mesh.routes()] == [0, 1, 2]


def test_an_accounts_own_connection_names_no_account(make: Made) -> None:
    port = make(("A",), pool_size=3, accounts=("A",), routes=(PEER,))
    client = port.client("A")
    client.feed(b"SUB foo 1\r\n")
    assert len(port.dials) == 3
    wire = port.reaches(1)
    said = wire.said()
    assert b'"route_pool_size":3,"route_account":"A"}\r\n' in said
    assert wire.says(PEER_INFO % POOLED) == b"RS+ foo\r\n"
    client.feed(b"UNSUB 1\r\n")
    assert wire.said() == b"RS- foo\r\n"
    wire.says(b"RS+ bar\r\n")
    client.feed(b"PUB bar 2\r\nhi\r\n")
    assert wire.said() == b"RMSG bar 2\r\nhi\r\n"
    client.detach()


def test_solicitor_refuses_an_index_from_the_acceptor(make: Made) -> None:
    port = make(pool_size=3, routes=(PEER,))
    wire = port.reaches()
    wire.said()
    said = wire.says(PEER_INFO % (POOLED + b',"route_pool_idx":1'))
    assert said == b"-ERR 'Route pool index should not be set but is set to 1'\r\n"


def test_no_connection_of_its_own_for_an_account_where_the_peer_has_no_pool(make: Made) -> None:
    port = make(pool_size=3, routes=(PEER,))
    wire = port.reaches(1)
    wire.said()
    text = b'Not possible to have a dedicated route for account "$SYS" between those servers'
    assert wire.says(PEER_INFO % b',"route_pool_size":-1') == b"-ERR '%s'\r\n" % text
    assert port.waits() == [33.0], "it is not tried again"


def test_a_connect_from_the_acceptor_is_judged_like_any(make: Made) -> None:
    wire = make(user="u", password="p", routes=(PEER,)).reaches()
    wire.said()
    assert wire.says(CONNECT) == b"-ERR 'Authorization Violation'\r\n"


# ---- liveness -----------------------------------------------------------------------------------


def test_pings_and_what_happens_to_who_does_not_answer(make: Made) -> None:
    port = make()
    wire = port.accepts()
    wire.says(CONNECT + PEER_INFO % b"")
    port.due(1.1)
    assert wire.said() == b"PING\r\n"
    port.now += 5_000_000
    wire.says(b"PONG\r\n")
    assert wire.session.rtt_ns == 5_000_000
    for _ in range(2):
        port.due(30.0)
        assert wire.said() == b"PING\r\n"
    port.due(30.0)
    assert wire.said() == b"-ERR 'Stale Connection'\r\n"
    assert wire.reason is CloseReason.STALE_CONNECTION
    assert port.waits() == [33.0]


def test_intervals_of_the_cluster_go_before_the_servers(make: Made) -> None:
    port = make(ping_interval=0.5, ping_max=0)
    wire = port.accepts()
    wire.said()
    port.due(0.55)
    assert wire.said() == b"-ERR 'Stale Connection'\r\n"


# ---- interest, permissions ----------------------------------------------------------------------


def test_only_what_is_imported_is_told_and_only_what_is_exported_is_taken(make: Made) -> None:
    port = make(imports=SubjectPermission(allow=("in.>",)), exports=SubjectPermission(allow=("out.>",)))
    client = port.client()
    client.feed(b"SUB in.a 1\r\nSUB out.a 2\r\n")
    wire = port.accepts()
    wire.said()
    assert wire.says(CONNECT + PEER_INFO % b"") == b"RS+ $G in.a\r\n"
    wire.says(b"RS+ $G out.x\r\nRS+ $G in.x\r\n")
    client.feed(b"PUB out.x 1\r\na\r\nPUB in.x 1\r\nb\r\n")
    assert wire.said() == b"RMSG $G out.x 1\r\na\r\n"
    client.detach()


def test_interest_is_told_again_when_the_peer_exports_other_subjects(make: Made) -> None:
    port = make()
    client = port.client()
    client.feed(b"SUB a 1\r\n")
    wire = port.accepts()
    wire.said()
    wire.says(CONNECT + PEER_INFO % b"")
    assert wire.says(PEER_INFO % b',"export":{"allow":["a"]}') == b"RS+ $G a\r\n"
    assert wire.says(PEER_INFO % b',"export":{"allow":["a"]}') == b""
    client.detach()


def test_an_unknown_account_is_ignored_until_it_is_there(make: Made) -> None:
    port = make()
    wire: TestWire = port.accepts()
    wire.said()
    wire.says(CONNECT + PEER_INFO % b"")
    assert wire.says(b"RS+ NEW foo\r\nRS+ NEW bar\r\nPING\r\n") == b"PONG\r\n"
    assert [line for line in wire.lines if "NEW" in line] == ['Unknown account "NEW"']
    port.accounts.replace([AccountOptions("NEW")])
    port.mesh.accounts_changed()
    port.settle()
    assert wire.reason is CloseReason.ROUTE_REMOVED, "so that the peer tells it again"
    assert port.waits()[0] == pytest.approx(0.05)


def test_of_too_many_unknown_accounts_any_was_wanted(make: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUTE_UNKNOWN_ACCOUNTS", 2)
    port = make()
    few, many = (port.accepts() for _ in range(2))
    for wire, peer, names in ((few, b"NFEW", b"A"), (many, b"NMANY", b"BCD")):
        wire.says((CONNECT + PEER_INFO % b"").replace(b"NPEER", peer))
        for name in names:
            wire.says(b"RS+ %c foo\r\n" % name)
    port.accounts.replace([AccountOptions("D")])
    port.mesh.accounts_changed()
    port.settle()
    assert (few.reason, many.reason) == (None, CloseReason.ROUTE_REMOVED)
