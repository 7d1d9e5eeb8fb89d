"""Gateways without sockets: handshake, commands, who is reached and told, every way to be refused."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from gateway_harness import B_INFO, CONNECT, B, GatewayTestPort, MadeGateways

from headrace import limits
from headrace.conf.account_options import AccountOptions
from headrace.conf.peer_options import PeerURL, RemoteGatewayOptions
from headrace.engine.reasons import CloseReason
from headrace.protocol.peers import PeerInfo

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def make(engine_balance: None) -> Iterator[MadeGateways]:
    """Makes a port: `make(accounts, **fields of GatewayOptions)`."""
    made = MadeGateways()
    yield made
    for port in made.ports:
        port.stop()
    made.ports.clear()


def infos(said: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[5:]) for line in said.split(b"\r\n") if line.startswith(b"INFO ")]


def told_of(name: str, url: str, command: int = 1) -> bytes:
    return PeerInfo(server_id="NX", gateway=name, gateway_urls=(url,), gateway_cmd=command).line()


def command(number: int, payload: str | None) -> bytes:
    said: dict[str, Any] = {"gateway": "B", "gateway_cmd": number}
    if payload is not None:
        said["gateway_cmd_payload"] = payload
    return b"INFO " + json.dumps(said).encode() + b"\r\n"


G_NAME = base64.b64encode(b"$G").decode()


# ---- inbound ------------------------------------------------------------------------------------


def test_the_acceptor_says_its_info_at_once(make: MadeGateways) -> None:
    (info,) = infos(make().comes().said())
    expected = {
        "server_id": "NME", "gateway": "A", "gateway_url": "127.0.0.1:7222",
        "gateway_urls": ["127.0.0.1:7222"], "gateway_nrp": True, "gateway_iom": True, "headers": True,
        "max_payload": 1048576,
    }  # fmt: skip
    assert {name: info[name] for name in expected} == expected


def test_a_cluster_that_connects_is_told_everything_and_reached(make: MadeGateways) -> None:
    port = make(gateways=())
    client = port.client()
    client.feed(b"SUB a 1\r\n")
    wire = port.inbound()
    said = wire.said()
    commands = [(info["gateway_cmd"], info["gateway_cmd_payload"]) for info in infos(said)]
    assert (2, G_NAME) in commands
    assert (3, G_NAME) in commands
    assert b"RS+ $G a\r\n" in said
    ((gateway, address, *_),) = port.own_dials
    assert (gateway, str(address)) == ("B", "127.0.0.1:7333")
    assert 'Inbound gateway connection from "B" (NB) registered' in wire.lines


def test_who_does_not_say_connect_in_time_is_refused(make: MadeGateways) -> None:
    port = make(auth_timeout=2.5)
    wire = port.comes()
    port.due(2.5)
    assert wire.said().endswith(b"-ERR 'Authentication Timeout'\r\n")
    assert wire.reason is CloseReason.AUTHENTICATION_TIMEOUT


@pytest.mark.parametrize(
    ("more", "is_taken"),
    [
        (b',"user":"u","pass":"p"', True),
        (b',"user":"u","pass":"x"', False),
        (b',"user":"x","pass":"p"', False),
        (b"", False),
    ],
)
def test_credentials(make: MadeGateways, more: bytes, is_taken: bool) -> None:
    wire = make(user="u", password="p").comes()
    said = wire.says(CONNECT % more + B_INFO % b"")
    assert (b"-ERR 'Authorization Violation'" in said) != is_taken
    assert wire.session.is_registered == is_taken


@pytest.mark.parametrize(
    ("line", "error", "reason"),
    [
        (b'CONNECT {"lang":"x"}', "attempted to connect to gateway port", CloseReason.WRONG_PORT),
        (
            b'CONNECT {"name":"N","cluster":"C"}',
            "attempted to connect to gateway port",
            CloseReason.WRONG_PORT,
        ),
        (b"CONNECT x", "", CloseReason.PROTOCOL_VIOLATION),
        (b'CONNECT {"gateway":1}', "", CloseReason.PROTOCOL_VIOLATION),
        (b"PING", "Authorization Violation", CloseReason.AUTHENTICATION_VIOLATION),
        (b"INFO {}", "Authorization Violation", CloseReason.AUTHENTICATION_VIOLATION),
    ],
)
def test_who_is_no_gateway_is_refused(
    make: MadeGateways, line: bytes, error: str, reason: CloseReason
) -> None:
    wire = make().comes()
    wire.said()
    assert wire.says(line + b"\r\n") == (f"-ERR '{error}'\r\n".encode() if error else b"")
    assert wire.reason is reason


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (b"INFO x\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b'INFO {"gateway":7}\r\n', CloseReason.PROTOCOL_VIOLATION),
        (b'INFO {"server_id":"NB","server_name":"b"}\r\n', CloseReason.WRONG_PORT),
        (b'INFO {"gateway_cmd_payload":"*"}\r\n', CloseReason.PROTOCOL_VIOLATION),
        (B_INFO.replace(b'"b"', b'"me"') % b"", CloseReason.DUPLICATE_SERVER_NAME),
        (CONNECT % b"", CloseReason.PROTOCOL_VIOLATION),
        (b"-ERR 'no'\r\n", CloseReason.PARSE_ERROR),
        (b"RS+ $G a\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"RMSG $G a 1\r\nx\r\n", CloseReason.PROTOCOL_VIOLATION),
    ],
)
def test_what_may_follow_connect(make: MadeGateways, info: bytes, reason: CloseReason) -> None:
    wire = make().comes()
    wire.says(CONNECT % b"")
    wire.says(info)
    assert wire.reason is reason


def test_unknown_clusters_are_rejected_where_that_is_said(make: MadeGateways) -> None:
    port = make(gateways=(), reject_unknown=True)
    wire = port.comes()
    wire.said()
    assert wire.says(CONNECT % b"") == b"-ERR 'Connection to gateway \"A\" rejected'\r\n"
    assert wire.reason is CloseReason.WRONG_GATEWAY
    known = make(reject_unknown=True).inbound()
    assert known.reason is None


def test_who_sends_to_an_account_that_is_not_here_is_told_once(make: MadeGateways) -> None:
    wire = make().inbound()
    wire.said()
    message = b"RMSG NO a 1\r\nx\r\n"
    assert wire.says(message + message) == b"A- NO\r\n"


# ---- outbound -----------------------------------------------------------------------------------


def test_who_connects_introduces_itself_when_it_has_been_greeted(make: MadeGateways) -> None:
    port = make(user="u", password="p")
    port.due(1.0)
    wire = port.arrives()
    assert wire.said() == b""
    said = wire.says(B_INFO % b"")
    connect = json.loads(said.split(b"\r\n")[0].removeprefix(b"CONNECT "))
    assert connect == {
        "echo": False, "verbose": False, "pedantic": False, "tls_required": False, "headers": False,
        "name": "NME", "cluster": "", "gateway": "A", "user": "u", "pass": "p",
    }  # fmt: skip
    assert infos(said)[0]["gateway"] == "A"
    assert 'Outbound gateway connection to "B" (NB) registered' in wire.lines
    told = infos(port.told_routes[0])[0]
    assert (told["server_id"], told["gateway"], told["gateway_cmd"]) == ("GWNME", "B", 1)


def test_credentials_of_the_url_come_first(make: MadeGateways) -> None:
    remote = RemoteGatewayOptions("B", (PeerURL("127.0.0.1", 7333, "x", "y"),))
    port = make(user="u", password="p", gateways=(remote,))
    assert b'"user":"x","pass":"y"' in port.outbound().said()


@pytest.mark.parametrize(
    ("info", "error", "reason"),
    [
        (
            b'INFO {"server_id":"N"}\r\n',
            'Attempt to connect to gateway "B" using wrong port',
            CloseReason.WRONG_PORT,
        ),
        (
            b'INFO {"server_id":"N","gateway":"C"}\r\n',
            'Connection from "A" rejected, wanted to connect to "B", this is "C"',
            CloseReason.WRONG_GATEWAY,
        ),
        (B_INFO.replace(b'"b"', b'"me"') % b"", "", CloseReason.DUPLICATE_SERVER_NAME),
        (b"INFO [\r\n", "", CloseReason.PROTOCOL_VIOLATION),
        (b"RS+ $G a\r\n", "", CloseReason.PROTOCOL_VIOLATION),
        (CONNECT % b"", "CONNECT where none is due", CloseReason.PROTOCOL_VIOLATION),
    ],
)
def test_who_is_reached_may_be_another(
    make: MadeGateways, info: bytes, error: str, reason: CloseReason
) -> None:
    port = make()
    port.due(1.0)
    wire = port.arrives()
    assert wire.says(info) == (f"-ERR '{error}'\r\n".encode() if error else b"")
    assert wire.reason is reason


def test_who_says_nothing_is_given_up(make: MadeGateways) -> None:
    port = make()
    port.due(1.0)
    wire = port.arrives()
    port.due(limits.GATEWAY_PING_INTERVAL * 3)
    assert wire.said() == b"-ERR 'Stale Connection'\r\n"
    assert wire.reason is CloseReason.STALE_CONNECTION


def test_commands_switch_an_account(make: MadeGateways) -> None:
    port = make()
    wire = port.outbound()
    wire.says(command(2, G_NAME) + b"RS+ $G a\r\n" + command(3, G_NAME))
    modes = {row[0]: row[1] for row in wire.session.link.views()}
    assert modes[b"$G"] == 2
    wire.said()
    port.client().feed(b"PUB a 1\r\nx\r\nPUB b 1\r\nx\r\n")
    assert wire.said() == b"RMSG $G a 1\r\nx\r\n"
    wire.says(command(9, G_NAME))
    assert 'Received unknown command 9 from gateway "B"' in wire.lines
    assert wire.reason is None


@pytest.mark.parametrize(("number", "name"), [(2, "start"), (3, "complete")])
def test_a_command_names_an_account(make: MadeGateways, number: int, name: str) -> None:
    wire = make().outbound()
    wire.said()
    error = f"-ERR 'Account absent from receive-all-subscriptions-{name} command'\r\n"
    assert wire.says(command(number, None)) == error.encode()
    assert wire.reason is CloseReason.PROTOCOL_VIOLATION


def test_a_second_connection_to_a_cluster_is_one_too_many(make: MadeGateways) -> None:
    port = make()
    first = port.outbound()
    other = next(iter(port.gateways.remotes.values()))
    port.gateways._reach(other, is_first=False)
    second = port.arrives()
    second.says(B_INFO % b"")
    assert (first.reason, second.reason) == (None, CloseReason.WRONG_GATEWAY)
    assert port.own_dials == []
    assert not port.gateways.reaching


# ---- reaching -----------------------------------------------------------------------------------


def test_a_configured_cluster_is_tried_for_ever_and_again(make: MadeGateways) -> None:
    port = make()
    assert port.own_dials == []
    port.due(1.0)
    for _ in range(3):
        port.fails()
        port.due(1.0)
    wire = port.arrives()
    wire.says(B_INFO % b"")
    wire.lost()
    assert port.waits()
    port.due(limits.ROUTE_RETRY + limits.ROUTE_JITTER / 2)
    assert len(port.own_dials) == 1


def test_attempts_grow_apart_where_that_is_asked_for(make: MadeGateways) -> None:
    port = make(connect_backoff=True)
    port.due(1.0)
    for seconds in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
        port.fails()
        assert seconds in port.waits()
        port.due(seconds)


def test_each_address_of_a_cluster_is_tried(make: MadeGateways) -> None:
    urls = tuple(PeerURL("h", number) for number in (1, 2, 3))
    port = make(gateways=(RemoteGatewayOptions("B", urls),))
    port.due(1.0)
    tried = set()
    for _ in urls:
        tried.add(str(port.own_dials[0][1]))
        port.fails()
    assert tried == {"h:1", "h:2", "h:3"}
    assert port.own_dials == []


def test_a_cluster_that_was_heard_of_is_given_up(make: MadeGateways) -> None:
    port = make(connect_retries=1)
    wire = port.outbound()
    wire.says(told_of("C", "127.0.0.1:7444"))
    port.fails()
    port.due(limits.ROUTE_RETRY)
    port.fails()
    assert "C" not in port.gateways.remotes
    wire.says(told_of("C", "127.0.0.1:7444"))
    assert len(port.own_dials) == 1


def test_a_cluster_that_is_heard_of_during_an_attempt_is_tried_once_more(make: MadeGateways) -> None:
    """Nobody tells of it again, and the attempt may have begun before it could be reached."""
    port = make()
    wire = port.outbound()
    wire.says(told_of("C", "127.0.0.1:7444"))
    wire.says(told_of("C", "127.0.0.1:7445"))
    port.fails()
    tried = {str(port.own_dials[0][1])}
    port.fails()
    tried.add(str(port.own_dials[0][1]))
    port.fails()
    assert tried == {"127.0.0.1:7444", "127.0.0.1:7445"}
    assert port.own_dials == []
    assert "C" not in port.gateways.remotes


def test_news_of_clusters_spread(make: MadeGateways) -> None:
    port = make()
    inbound = port.inbound()
    inbound.said()
    port.outbound().says(told_of("C", "127.0.0.1:7444"))
    (told,) = infos(inbound.said())
    assert (told["gateway"], told["gateway_urls"], told["gateway_cmd"]) == ("C", ["127.0.0.1:7444"], 1)
    late = port.inbound()
    assert [info["gateway"] for info in infos(late.said()) if info.get("gateway_cmd") == 1] == ["C"]


def test_news_of_this_cluster_or_of_nowhere_is_none(make: MadeGateways) -> None:
    port = make()
    wire = port.outbound()
    for line in (
        told_of("A", "127.0.0.1:1"),
        told_of("C", "not an address"),
        told_of("D", "u:p@127.0.0.1:1"),
        told_of("E", "127.0.0.1:99999"),
        told_of("F", ":1"),
    ):
        wire.says(line)
    assert port.own_dials == []
    assert set(port.gateways.remotes) == {"B"}
    assert wire.reason is None


def test_news_of_unknown_clusters_is_passed_over_where_they_are_rejected(make: MadeGateways) -> None:
    port = make(reject_unknown=True)
    port.outbound().says(told_of("C", "127.0.0.1:7444"))
    assert port.own_dials == []


def test_so_many_clusters_and_addresses_and_no_more(make: MadeGateways) -> None:
    port = make()
    wire = port.outbound()
    for number in range(limits.GATEWAY_UNKNOWN + 20):
        wire.says(told_of(f"C{number}", "127.0.0.1:7444"))
    assert len(port.gateways.remotes) == limits.GATEWAY_UNKNOWN + 1
    urls = tuple(f"127.0.0.1:{number + 1}" for number in range(2 * limits.GATEWAY_UNKNOWN))
    port.gateways.remotes["B"].add(urls)
    assert len(port.gateways.remotes["B"].urls) == limits.GATEWAY_UNKNOWN


# ---- accounts -----------------------------------------------------------------------------------


def test_an_account_that_comes_is_told_and_asked_for(make: MadeGateways) -> None:
    port = make()
    inbound, outbound = port.inbound(), port.outbound()
    inbound.said()
    outbound.says(b"RS+ NEW q g 1\r\n")
    port.accounts.replace([AccountOptions("NEW")])
    port.gateways.accounts_changed()
    payloads = [info.get("gateway_cmd_payload") for info in infos(inbound.said())]
    assert payloads == [base64.b64encode(b"NEW").decode()] * 2
    assert outbound.reason is CloseReason.ROUTE_REMOVED  # what was told of it before is told again


# ---- order --------------------------------------------------------------------------------------


def test_the_nearest_cluster_comes_first(make: MadeGateways) -> None:
    port = make(gateways=(B, RemoteGatewayOptions("C", (PeerURL("127.0.0.1", 7444),))))
    port.due(1.0)
    first, second = port.arrives(), port.arrives()
    first.says(B_INFO % b"")
    second.says(B_INFO.replace(b'"B"', b'"C"').replace(b'"b"', b'"c"') % b"")
    first.session.rtt_ns, second.session.rtt_ns = 2, 1
    port.gateways.order()
    assert list(port.gateways.outbound) == ["C", "B"]


def test_stopping_closes_everything(make: MadeGateways) -> None:
    port = make()
    wires = [port.inbound(), port.outbound()]
    port.gateways.stop()
    port.settle()
    assert [wire.reason for wire in wires] == [CloseReason.SERVER_SHUTDOWN] * 2
    assert port.gateways.accepted(wires[0]) is None
    assert port.own_dials == []


def test_a_port_is_made(make: MadeGateways) -> None:
    assert isinstance(make(), GatewayTestPort)
