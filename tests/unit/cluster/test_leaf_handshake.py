"""Leaf links without sockets: the handshake in both roles, byte for byte, and every way to be refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from leaf_harness import ACCEPTED, CONNECT, HUB, HUB_INFO, ON_CONNECT, MadeLeafs
from mesh_harness import TestWire

from headrace.cluster.leaf_port import LeafGrant
from headrace.conf.account_options import Permissions, ResponsePermission, SubjectPermission
from headrace.conf.leaf_options import LeafNodeOptions, LeafProxy, LeafRemote
from headrace.conf.peer_options import PeerURL
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def make(engine_balance: None) -> Iterator[MadeLeafs]:
    made = MadeLeafs()
    yield made
    for port in made.ports:
        port.stop()
    made.ports.clear()


def info_of(said: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The first line's JSON, and the other lines."""
    first, *others = said.splitlines()
    assert first.startswith(b"INFO "), said
    return json.loads(first[5:]), others


def greeted(port: Any) -> TestWire:
    wire: TestWire = port.accepts()
    wire.said()
    return wire


# ---- the hub ------------------------------------------------------------------------------------


def test_hub_says_its_info_with_a_nonce_at_once(make: MadeLeafs) -> None:
    info, others = info_of(
        make(own={"leafnode_urls": ("1.2.3.4:7422",), "info_on_connect": True}).accepts().said()
    )
    assert (info["nonce"], info["client_id"], info["info_on_connect"], others) == ("NONCE", 1, True, [])
    assert info["leafnode_urls"] == ["1.2.3.4:7422"]
    assert "cluster" not in info


def test_hub_that_said_its_info_before_tls_does_not_say_it_again(make: MadeLeafs) -> None:
    port = make()
    wire = TestWire(port)
    session = port.leafs.accepted(wire)
    assert session is not None
    assert session.greeting().startswith(b"INFO {")
    assert port.opened(wire, session).said() == b""


def test_hub_takes_a_leaf_node_in_and_tells_its_interest(make: MadeLeafs) -> None:
    port = make()
    port.always = (b"mapped",)
    client = port.client()
    client.feed(b"SUB a.* 1\r\nSUB w g 2\r\n")
    info, told = info_of(greeted(port).says(CONNECT % b""))
    assert (info["connect_info"], info["remote_account"]) == (True, "$G")
    assert sorted(told)[0].startswith(b"LS+ $LDS.made-up-")
    assert {b"LS+ a.*", b"LS+ mapped", b"LS+ w g 1"} < set(told)
    assert "registered $G" in port.lines
    client.detach()


def test_hub_waits_for_who_decides(make: MadeLeafs) -> None:
    port = make()
    port.decides_later = True
    wire = greeted(port)
    assert wire.says(CONNECT % b"" + b"LS+ a\r\nPING\r\n") == b""
    port.decisions.pop()()
    assert wire.said().endswith(b"PONG\r\n")
    assert wire.session.link.subscriptions_count == 1


def test_decision_that_comes_after_the_end_is_nothing(make: MadeLeafs) -> None:
    port = make()
    port.decides_later = True
    wire = greeted(port)
    wire.says(CONNECT % b"")
    wire.lost()
    port.decisions.pop()()
    assert port.leafs.sessions == {}
    assert "registered $G" not in port.lines


@pytest.mark.parametrize(
    ("more", "text", "reason"),
    [
        (b',"user":"nobody"', "Authorization Violation", CloseReason.AUTHENTICATION_VIOLATION),
        (b',"lang":"go"', "attempted to connect to leaf node port", CloseReason.WRONG_PORT),
        (b',"cluster":"a b"', "cluster name cannot contain spaces", CloseReason.PROTOCOL_VIOLATION),
        (b',"cluster":"C1"', "remote leafnode has same cluster name", CloseReason.CLUSTER_NAMES_IDENTICAL),
        (
            b',"gateway":"g"',
            'Rejecting connection from gateway "g" on the leafnode port',
            CloseReason.WRONG_GATEWAY,
        ),
        (
            b',"version":"2.9.9"',
            'connection rejected since minimum version required is "2.10.0"',
            CloseReason.MINIMUM_VERSION_REQUIRED,
        ),
        (
            b',"version":"x"',
            'connection rejected since minimum version required is "2.10.0"',
            CloseReason.MINIMUM_VERSION_REQUIRED,
        ),
        (b',"deny_pub":["a..b"]', "deny_pub: ", CloseReason.PROTOCOL_VIOLATION),
    ],
)
def test_hub_refuses(make: MadeLeafs, more: bytes, text: str, reason: CloseReason) -> None:
    wire = greeted(make(cluster="C1", min_version="2.10.0"))
    assert text.encode() in wire.says(CONNECT % more)
    assert wire.reason is reason


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b'{"headers":5}', b'{"deny_pub":"x"}', b"\xff", b'{"protocol":1e400}']
)
def test_malformed_connect_is_an_error(make: MadeLeafs, text: bytes) -> None:
    wire = greeted(make())
    wire.says(b"CONNECT " + text + b"\r\n")
    assert wire.reason is CloseReason.PROTOCOL_VIOLATION
    assert any("parse error" in line for line in wire.lines)


def test_second_connect_is_an_error(make: MadeLeafs) -> None:
    wire = greeted(make())
    wire.says(CONNECT % b"")
    wire.says(CONNECT % b"")
    assert wire.reason is CloseReason.PROTOCOL_VIOLATION


def test_hub_gives_up_who_says_nothing(make: MadeLeafs) -> None:
    port = make()
    wire = greeted(port)
    port.due(2.0)
    assert wire.said() == b"-ERR 'Authentication Timeout'\r\n"
    assert wire.reason is CloseReason.AUTHENTICATION_TIMEOUT


def test_hub_refuses_ops_before_connect_and_has_room_only_so_long(make: MadeLeafs) -> None:
    port = make()
    wire = greeted(port)
    assert wire.says(b"PING\r\n") == b"-ERR 'Authorization Violation'\r\n"
    port.has_place = False
    other = greeted(port)
    assert b"maximum account active connections exceeded" in other.says(CONNECT % b"")
    assert other.reason is CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED


def test_account_that_is_not_there_is_an_error(make: MadeLeafs) -> None:
    port = make()
    port.grants[""] = LeafGrant("gone")
    wire = greeted(port)
    wire.says(CONNECT % b"")
    assert wire.reason is CloseReason.MISSING_ACCOUNT


def test_permissions_are_said_and_held(make: MadeLeafs) -> None:
    port = make()
    given = Permissions(publish=SubjectPermission(("p.>",), ("p.no",)), subscribe=SubjectPermission(("s.>",)))
    port.grants[""] = LeafGrant("$G", given)
    client = port.client()
    client.feed(b"SUB p.x 1\r\nSUB r.x 2\r\nSUB > 3\r\n")
    wire = greeted(port)
    info, told = info_of(wire.says(CONNECT % b""))
    assert (info["import"], info["export"]) == ({"allow": ["s.>"]}, {"allow": ["p.>"], "deny": ["p.no"]})
    assert {b"LS+ p.x", b"LS+ >"} <= set(told)
    assert b"LS+ r.x" not in told
    assert wire.says(b"LS+ s.x\r\nLS+ >\r\nLMSG p.x 1\r\nx\r\n") == b""
    assert wire.says(b"LS+ t.x\r\n") == b"-ERR 'Permissions Violation for Subscription to \"t.x\"'\r\n"
    assert wire.reason is CloseReason.PROTOCOL_VIOLATION
    other = greeted(port)
    other.says(CONNECT % b"")
    assert b"-ERR 'Permissions Violation for Publish to \"p.no\"'" in other.says(b"LMSG p.no 1\r\nx\r\n")
    client.detach()


def test_who_may_only_answer_answers(make: MadeLeafs) -> None:
    port = make()
    port.grants[""] = LeafGrant("$G", Permissions(allow_responses=ResponsePermission()))
    client = port.client()
    wire = greeted(port)
    wire.says(CONNECT % b"")
    wire.says(b"LS+ svc\r\n")
    client.feed(b"SUB inbox 1\r\nPUB svc inbox 1\r\nq\r\n")
    assert wire.said().endswith(b"LMSG svc inbox 1\r\nq\r\n")
    assert wire.says(b"LMSG inbox 1\r\na\r\n") == b""
    assert b"Permissions Violation for Publish" in wire.says(b"LMSG inbox 1\r\na\r\n")
    client.detach()


def test_newer_connection_of_the_same_server_replaces_the_older(make: MadeLeafs) -> None:
    port = make()
    first, second = greeted(port), greeted(port)
    first.says(CONNECT % b',"remote_account":"L"')
    second.says(CONNECT % b',"remote_account":"L"')
    assert first.said().endswith(b"-ERR 'Duplicate Remote LeafNode Connection'\r\n")
    assert first.reason is CloseReason.DUPLICATE_LEAF_NODE
    third = greeted(port)
    third.says(CONNECT % b',"remote_account":"M"')
    assert (second.reason, third.reason) == (None, None)


def test_own_loop_subject_ends_the_connection(make: MadeLeafs) -> None:
    wire = greeted(make())
    _, told = info_of(wire.says(CONNECT % b""))
    loop = next(line for line in told if line.startswith(b"LS+ $LDS."))
    said = wire.says(loop + b"\r\n")
    assert b"-ERR 'Loop detected for leafnode account=\"$G\". Delaying attempt to reconnect for 30s'" in said
    assert wire.reason is CloseReason.PROTOCOL_VIOLATION


def test_stale_leaf_node_is_given_up(make: MadeLeafs) -> None:
    port = make()
    wire = greeted(port)
    wire.says(CONNECT % b"")
    port.due(1.1)
    assert wire.said() == b"PING\r\n"
    port.now += 5_000_000
    assert wire.says(b"PONG\r\n") == b""
    assert wire.session.rtt_ns == 5_000_000
    for _ in range(2):
        port.now = port.router.now + int(121e9)  # the engine's clock is the real one
        port.due(120.0)
        assert wire.said() == b"PING\r\n"
    port.due(120.0)
    assert wire.said() == b"-ERR 'Stale Connection'\r\n"
    assert wire.reason is CloseReason.STALE_CONNECTION


# ---- the leaf node ------------------------------------------------------------------------------


def test_leaf_node_introduces_itself_when_the_hub_has(make: MadeLeafs) -> None:
    port = make.remote(PeerURL("h", 7422, "u", "p"), account="A", deny_imports=("x.>",))
    port.proofs = {"nkey": "UKEY", "sig": "SIG"}
    wire = port.reaches()
    assert wire.said() == b""
    said = wire.says(HUB_INFO % b"")
    connect = json.loads(said.splitlines()[0][8:])
    assert connect == {
        "version": "2.15.1",
        "nkey": "UKEY",
        "sig": "SIG",
        "user": "u",
        "pass": "p",
        "server_id": "NME",
        "name": "me",
        "cluster": "leafs",
        "headers": True,
        "deny_pub": ["x.>"],
        "compress_mode": "not supported",
        "remote_account": "A",
        "protocol": 3,
    }
    assert said.splitlines()[1].startswith(b"LS+ $LDS.")
    assert "registered A" in port.lines


def test_user_without_a_password_is_a_token(make: MadeLeafs) -> None:
    wire = make.remote(PeerURL("h", 7422, "tok")).reaches()
    connect = json.loads(wire.says(HUB_INFO % b"").splitlines()[0][8:])
    assert (connect["user"], connect["auth_token"], connect.get("pass")) == ("tok", "tok", None)


def test_leaf_node_waits_until_it_is_accepted(make: MadeLeafs) -> None:
    port = make.remote(account="A")
    wire = port.reaches()
    assert wire.says(HUB_INFO % ON_CONNECT).startswith(b"CONNECT {")
    assert "registered A" not in port.lines
    assert wire.says(ACCEPTED % b',"import":{"allow":["a.>"]},"export":{"deny":["b"]}').startswith(
        b"LS+ $LDS."
    )
    assert wire.session.remote_account == "H"  # type: ignore[attr-defined]
    client = port.client("A")
    client.feed(b"SUB a.x 1\r\nSUB c 2\r\n")
    assert wire.said() == b"LS+ a.x\r\n"
    wire.says(b"LS+ b\r\nLS+ d\r\nLMSG c 1\r\nx\r\n")
    client.feed(b"PUB b 0\r\n\r\nPUB d 0\r\n\r\n")
    assert wire.said() == b"LMSG d 0\r\n\r\n"
    assert wire.reason is None
    client.detach()


def test_hub_that_does_not_accept_is_given_up(make: MadeLeafs) -> None:
    port = make.remote()
    wire = port.reaches()
    wire.says(HUB_INFO % ON_CONNECT)
    port.due(2.0)
    assert wire.said() == b"-ERR 'Stale Leaf Node Connection - Closing'\r\n"
    silent = make.remote()
    other = silent.reaches()
    silent.due(1.0)
    other.said()
    assert other.reason is CloseReason.READ_ERROR


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (b'INFO {"server_id":"N","leafnode_urls":["a:1"]}\r\n', CloseReason.WRONG_PORT),
        (b'INFO {"server_id":"N","client_id":5}\r\n', CloseReason.WRONG_PORT),
        (HUB_INFO % b',"cluster":"a b"', CloseReason.PROTOCOL_VIOLATION),
        (b"INFO {\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b'INFO {"client_id":"x"}\r\n', CloseReason.PROTOCOL_VIOLATION),
        (b"LS+ early\r\n", CloseReason.PROTOCOL_VIOLATION),
        (CONNECT % b"", CloseReason.PROTOCOL_VIOLATION),
        (HUB_INFO % b',"import":{"allow":["a..b"]}', CloseReason.PROTOCOL_VIOLATION),
        (b"-ERR 'Authorization Violation'\r\n", CloseReason.PARSE_ERROR),
    ],
)
def test_leaf_node_gives_up_a_hub_that_is_none(make: MadeLeafs, info: bytes, reason: CloseReason) -> None:
    wire = make.remote().reaches()
    wire.says(info)
    assert wire.reason is reason


def test_credentials_that_cannot_be_read_are_an_error(make: MadeLeafs) -> None:
    port = make.remote()
    port.proofs = None
    wire = port.reaches()
    wire.says(HUB_INFO % b"")
    assert "cannot read leaf.creds: no such file" in wire.lines
    assert wire.reason is CloseReason.WRITE_ERROR
    assert port.waits() == [1.0]


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (b"Authorization Violation", 1.0),
        (b'Loop detected for leafnode account="A". Delaying attempt to reconnect for 30s', 31.0),
        (b"remote leafnode has same cluster name", 31.0),
        (b'connection rejected since minimum version required is "99.0.0"', 6.0),
        (b'Permissions Violation for Publish to "a"', 31.0),
    ],
)
def test_why_a_hub_closes_says_when_it_is_tried_again(make: MadeLeafs, error: bytes, delay: float) -> None:
    port = make.remote()
    wire = port.reaches()
    wire.says(HUB_INFO % b"")
    wire.says(b"-ERR '" + error + b"'\r\n")
    assert port.waits() == [delay]
    assert port.dials == []
    port.due(delay)
    assert len(port.dials) == 1


def test_failures_are_tried_again_at_the_next_url_and_said_once(make: MadeLeafs) -> None:
    port = make.remote(HUB, PeerURL("other", 7422))
    for expected in ("127.0.0.1", "other", "127.0.0.1"):
        url, _, failed = port.dials.pop()
        assert url.host == expected
        failed("refused")
        port.due(1.5)
    errors = [line for line in port.lines if line.startswith("Error trying to connect as leafnode")]
    assert errors[0] == (
        'Error trying to connect as leafnode to remote server "127.0.0.1:7422" (attempt 1): refused'
    )


def test_hub_tells_where_else_it_is_reached(make: MadeLeafs) -> None:
    port = make.remote()
    wire = port.reaches()
    more = b',"leafnode_urls":["10.0.0.9:7422","[::1]:7423","127.0.0.1:7422","bad","x:0","x:99999"]'
    wire.says(HUB_INFO.replace(b',"leafnode_urls":["10.0.0.1:7422"]', more) % b"")
    wire.lost()
    seen = []
    for _ in range(4):
        port.due(port.waits()[0])
        url, _, failed = port.dials.pop()
        seen.append(str(url))
        failed("refused")
    assert sorted(set(seen)) == ["10.0.0.9:7422", "127.0.0.1:7422", "[::1]:7423"]
    assert sum("Error parsing url" in line for line in port.lines) == 3


def test_a_leaf_node_that_is_the_hub_refuses_loudly(make: MadeLeafs) -> None:
    port = make.remote(hub=True, deny_exports=("no",))
    wire = port.reaches()
    connect = wire.says(HUB_INFO % b"").splitlines()[0]
    assert b'"is_hub":true' in connect
    assert b"Permissions Violation for Subscription" in wire.says(b"LS+ no\r\n")
    assert port.waits() == [31.0]


# ---- changes ------------------------------------------------------------------------------------


def test_reload_leaves_hubs_and_connects_to_others(make: MadeLeafs) -> None:
    port = make.remote(account="A")
    wire = port.reaches()
    wire.says(HUB_INFO % b"")
    kept = LeafRemote(urls=(HUB,), no_randomize=True, account="A", compression="off")
    other = LeafRemote(urls=(PeerURL("new", 7422),))
    port.leafs.reload(LeafNodeOptions(remotes=(kept, other)))
    assert (wire.reason, [str(dial[0]) for dial in port.dials]) == (None, ["new:7422"])
    port.leafs.reload(LeafNodeOptions(remotes=(other,)))
    port.settle()
    assert wire.reason is CloseReason.CLIENT_CLOSED
    assert port.waits() == []


def test_mappings_that_change_are_told_and_accounts_that_go_end_their_links(make: MadeLeafs) -> None:
    port = make(("A",))
    port.grants[""] = LeafGrant("A")
    wire = greeted(port)
    wire.says(CONNECT % b"")
    port.always = (b"new",)
    port.leafs.accounts_changed()
    assert wire.said() == b"LS+ new\r\n"
    port.accounts.replace((), ("A",))
    port.leafs.accounts_changed()
    wire.said()
    assert wire.reason is CloseReason.MISSING_ACCOUNT


def test_stop_closes_everything_and_reaches_nobody(make: MadeLeafs) -> None:
    port = make.remote()
    url, connected, failed = port.dials[0]
    port.leafs.stop()
    assert connected(object()) is None
    failed("refused")
    assert (port.waits(), port.leafs.accepted(object())) == ([], None)  # type: ignore[arg-type]
    assert url is HUB


def test_proxy_that_is_not_used_is_said_once(make: MadeLeafs) -> None:
    port = make.remote(account="A", proxy=LeafProxy("p", 3128, password="secret"))
    (line,) = [line for line in port.lines if "proxy" in line]
    assert "is not used" in line
    assert "secret" not in line
