"""What is around leaf links, mixed with nats-server: TLS, tokens, JetStream, monitoring, services, reload."""

from __future__ import annotations

import json
import signal
import socket
import threading
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.certificates import tls_config
from harness.claims import ACCOUNT_KEY, USER_KEY, account_token, user_token
from harness.keys import credentials
from harness.leafs import PAIRS, Leafs
from harness.mesh import MeshClient, counts
from harness.operators import configuration, signed
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.certificates import Authority

MONITOR: Final = "http: 127.0.0.1:-1\n"


@pytest.fixture
def leafs(tmp_path: Path) -> Iterator[Leafs]:
    with Leafs(tmp_path) as servers:
        yield servers


def page(leafs: Leafs, name: str, path: str) -> Any:
    with urllib.request.urlopen(f"{leafs.nodes[name].server.monitor_url}{path}", timeout=10) as answer:
        return json.loads(answer.read())


# -- TLS ----------------------------------------------------------------------------------------------


def trusting(authority: Authority, *more: str) -> str:
    return "\n".join(("tls {", f'ca_file: "{authority.file}"', *more, "}"))


def exchange(leafs: Leafs) -> None:
    hub, leaf = leafs.clients()
    sids = hub.subscribe("x"), leaf.subscribe("x")
    leafs.meet(hub, leaf)
    hub.publish("x", b"y" * 100_000)
    leaf.publish("x", b"y" * 100_000)
    leafs.meet(hub, leaf)
    assert counts((hub, leaf), sids) == [2, 2]


TLS_BEGINS: Final = {
    "after the first INFO": ((), ()),
    "before it": (("handshake_first: true",), ("handshake_first: true",)),
    "after a hub has waited for it": (('handshake_first: "100ms"',), ()),
}
"""What the hub says of it, and what the leaf node."""


@pytest.mark.parametrize("begins", TLS_BEGINS)
@pytest.mark.parametrize("pair", PAIRS)
def test_tls_begins(leafs: Leafs, pair: str, begins: str, authority: Authority) -> None:
    at_hub, at_leaf = TLS_BEGINS[begins]
    leafs.hub("hub", pair[0], block=tls_config(authority.issue("hub"), *at_hub))
    leafs.leaf("leaf", pair[1], "hub", remote=trusting(authority, *at_leaf))
    exchange(leafs)


@pytest.mark.parametrize("pair", PAIRS)
def test_tls_with_a_certificate_of_the_leaf_node(leafs: Leafs, pair: str, authority: Authority) -> None:
    verified = tls_config(authority.issue("hub"), f'ca_file: "{authority.file}"', "verify: true")
    leafs.hub("hub", pair[0], block=verified)
    own = authority.issue("leaf")
    files = f'cert_file: "{own.certificate}"', f'key_file: "{own.key}"'
    leafs.leaf("leaf", pair[1], "hub", remote=trusting(authority, *files))
    exchange(leafs)


@pytest.mark.parametrize("pair", PAIRS)
def test_tls_with_a_hub_that_is_not_trusted_is_an_error(
    leafs: Leafs, pair: str, authority: Authority
) -> None:
    hub = leafs.hub("hub", pair[0], block=tls_config(authority.issue("hub")))
    leaf = leafs.leaf("leaf", pair[1], "hub", block='reconnect: "50ms"')
    leaf.server.wait_for_line("TLS leafnode handshake error")
    hub.server.wait_for_line("TLS leafnode handshake error")
    assert not leafs.join("leaf").has_responders("x")


@pytest.mark.parametrize("pair", PAIRS)
def test_tls_is_insecure_where_that_is_said(leafs: Leafs, pair: str, authority: Authority) -> None:
    leafs.hub("hub", pair[0], block=tls_config(authority.issue("hub")))
    leafs.leaf("leaf", pair[1], "hub", remote="tls { insecure: true }")
    exchange(leafs)


# -- tokens -------------------------------------------------------------------------------------------


def operators(leafs: Leafs, pair: str, tmp_path: Path, token: str) -> None:
    """A hub in operator mode, and a leaf node with that token and the user's seed."""
    leafs.hub("hub", pair[0], configuration({ACCOUNT_KEY.public: account_token()}))
    file = tmp_path / "leaf.creds"
    file.write_text(credentials(USER_KEY, token))
    leafs.leaf("leaf", pair[1], "hub", remote=f'credentials: "{file}"')


@pytest.mark.parametrize("pair", PAIRS)
def test_credentials_of_a_file_are_proved(leafs: Leafs, pair: str, tmp_path: Path) -> None:
    operators(leafs, pair, tmp_path, user_token())
    wire = leafs.nodes["hub"].server.connect()
    said = {"verbose": False, "jwt": user_token(), "sig": signed(USER_KEY, wire.info["nonce"])}
    wire.send(b"CONNECT " + json.dumps(said).encode() + b"\r\nSUB here 1\r\nPING\r\n")
    wire.take_through(b"PONG\r\n")
    leaf = leafs.join("leaf")
    wait_until(lambda: leaf.has_responders("here"), "the hub's interest")
    leaf.publish("here", b"hello")
    assert b"hello" in wire.take_through(b"hello\r\n")
    wire.close()


@pytest.mark.parametrize("pair", PAIRS)
def test_credentials_that_are_wrong_are_refused(leafs: Leafs, pair: str, tmp_path: Path) -> None:
    operators(leafs, pair, tmp_path, account_token())
    leafs.nodes["leaf"].server.wait_for_line("Authorization Violation")


# -- JetStream ----------------------------------------------------------------------------------------


def domains(leafs: Leafs, pair: str, folder: Path) -> tuple[MeshClient, MeshClient]:
    """Clients of a hub whose domain is `up`, and of a leaf node whose domain is `down`."""
    up, down = (f'jetstream {{ domain: {name}, store_dir: "{folder / name}" }}\n' for name in ("up", "down"))
    leafs.hub("hub", pair[0], up)
    leafs.leaf("leaf", pair[1], "hub", down)
    return leafs.clients()


@pytest.mark.parametrize("pair", PAIRS)
def test_a_domain_is_reached_from_the_other_end(leafs: Leafs, pair: str, tmp_path: Path) -> None:
    hub, leaf = domains(leafs, pair, tmp_path)
    for client, own, other in ((hub, "up", "down"), (leaf, "down", "up")):
        wait_until(lambda client=client, other=other: client.has_responders(f"$JS.{other}.API.INFO"), other)
        assert json.loads(client.request("$JS.API.INFO").payload)["domain"] == own
        assert json.loads(client.request(f"$JS.{other}.API.INFO").payload)["domain"] == other


@pytest.mark.parametrize("pair", PAIRS)
def test_streams_of_a_domain_are_used_from_the_other_end(leafs: Leafs, pair: str, tmp_path: Path) -> None:
    hub, leaf = domains(leafs, pair, tmp_path)
    api = "$JS.down.API"
    wait_until(lambda: hub.has_responders(f"{api}.INFO"), "the other domain")
    made = json.loads(hub.request(f"{api}.STREAM.CREATE.S", {"name": "S", "subjects": ["kept.>"]}).payload)
    assert made["config"]["name"] == "S", made
    wait_until(lambda: hub.has_responders("kept.probe"), "the stream's interest")
    assert hub.stored("kept.x", b"1")["stream"] == "S"
    config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "kept.x"}
    durable = {"stream_name": "S", "config": config}
    assert "error" not in json.loads(hub.request(f"{api}.CONSUMER.CREATE.S.C", durable).payload)
    box = hub.subscribe("pulled")
    hub.publish(f"{api}.CONSUMER.MSG.NEXT.S.C", {"batch": 1}, reply="pulled")
    message = hub.next(box)
    assert (message.subject, message.payload) == ("kept.x", b"1")
    assert hub.request(message.reply, b"+ACK").payload == b""
    info = json.loads(leaf.request("$JS.API.CONSUMER.INFO.S.C").payload)
    assert (info["ack_floor"]["consumer_seq"], info["num_pending"]) == (1, 0)
    assert not json.loads(hub.request("$JS.API.STREAM.NAMES").payload)["streams"]


@pytest.mark.parametrize("pair", PAIRS)
def test_the_api_of_each_end_stays_at_home(leafs: Leafs, pair: str, tmp_path: Path) -> None:
    """JetStream only at the hub, without domains: the leaf node's clients do not reach it."""
    leafs.hub("hub", pair[0], f'jetstream {{ store_dir: "{tmp_path / "hub store"}" }}\n')
    leafs.leaf("leaf", pair[1], "hub")
    hub, leaf = leafs.clients()
    assert "memory" in json.loads(hub.request("$JS.API.INFO").payload)
    assert not leaf.has_responders("$JS.API.INFO")


@pytest.mark.parametrize("pair", PAIRS)
def test_an_empty_default_domain_opens_the_api_to_the_other_end(
    leafs: Leafs, pair: str, tmp_path: Path
) -> None:
    """Both ends have to say so."""
    empty = 'default_js_domain { $G: "" }\n'
    leafs.hub("hub", pair[0], f'{empty}jetstream {{ store_dir: "{tmp_path / "hub store"}" }}\n')
    leafs.leaf("leaf", pair[1], "hub", empty)
    leafs.leaf("closed", pair[1], "hub")
    hub, leaf = leafs.clients()
    closed = leafs.join("closed")
    leafs.meet(hub, closed)
    assert "memory" in json.loads(leaf.request("$JS.API.INFO").payload)
    assert not closed.has_responders("$JS.API.INFO")


# -- services and streams of other accounts -----------------------------------------------------------

SHARED: Final = """
accounts {
  A { users: [{user: a, password: a}]
      exports: [{service: "help.>"}, {stream: "feed.>"}] }
  B { users: [{user: b, password: b}]
      imports: [{service: {account: A, subject: "help.>"}}, {stream: {account: A, subject: "feed.>"}}] }
}
"""


def user_of(leafs: Leafs, name: str) -> MeshClient:
    """A client of the hub."""
    return leafs.join("hub", user=name, **{"pass": name})


def shared(leafs: Leafs, pair: str, at_hub: str, at_leaf: str) -> tuple[MeshClient, MeshClient]:
    """A client of the hub, and one of a leaf node that is another user there."""
    leafs.hub("hub", pair[0], SHARED)
    leafs.leaf("leaf", pair[1], "hub", user=f"{at_leaf}:{at_leaf}@")
    return user_of(leafs, at_hub), leafs.join("leaf")


def asks_and_is_answered(asking: MeshClient, serving: MeshClient, sid: int) -> None:
    reply = asking.ask("help.me", b"please")
    serving.publish(serving.next(sid).reply, b"done")
    assert asking.answer(reply).payload == b"done"


@pytest.mark.parametrize("pair", PAIRS)
def test_a_service_of_another_account_is_asked_over_the_link(leafs: Leafs, pair: str) -> None:
    """The leaf node is in the importing account."""
    server, leaf = shared(leafs, pair, "a", "b")
    sid, probes = server.subscribe("help.me"), server.subscribe("help.probe")
    server.sync()
    wait_until(lambda: leaf.has_responders("help.probe"), "the service")
    server.next(probes)
    asks_and_is_answered(leaf, server, sid)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_service_at_a_leaf_node_is_imported_at_the_hub(leafs: Leafs, pair: str) -> None:
    """The leaf node is in the exporting account, and the responder is there."""
    asking, leaf = shared(leafs, pair, "b", "a")
    sid = leaf.subscribe("help.me")
    leafs.meet(leaf, user_of(leafs, "a"))
    asks_and_is_answered(asking, leaf, sid)


@pytest.mark.parametrize("at_leaf", ["publisher", "importer"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_stream_is_imported_from_one_end_at_the_other(leafs: Leafs, pair: str, at_leaf: str) -> None:
    if at_leaf == "publisher":
        importing, publishing = shared(leafs, pair, "b", "a")
    else:
        publishing, importing = shared(leafs, pair, "a", "b")
    sid, probes = importing.subscribe("feed.x"), importing.subscribe("feed.probe")
    importing.sync()
    wait_until(lambda: publishing.has_responders("feed.probe"), "the import's interest")
    importing.next(probes)
    publishing.publish("feed.x", b"news", {"K": "v"})
    message = importing.next(sid)
    assert (message.payload, message.header("K")) == (b"news", "v")


# -- monitoring ---------------------------------------------------------------------------------------


def comparable(value: Any) -> Any:
    """Return what must be the same, without what differs between any two servers and runs."""
    if isinstance(value, dict):
        varying = {"server_id", "now", "id", "port", "rtt", "compression"}
        kept = {k: comparable(v) for k, v in value.items() if k not in varying}
        return kept | {k: type(value[k]).__name__ for k in value if k in varying}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return value


def test_leafz_and_varz_are_those_of_the_go_server(tmp_path: Path) -> None:
    seen = {}
    for kind in ("gg", "hh", "gh", "hg"):
        folder = tmp_path / kind
        folder.mkdir()
        with Leafs(folder) as leafs:
            leafs.hub("hub", kind[0], MONITOR)
            leafs.leaf("leaf", kind[1], "hub", MONITOR, remote='deny_imports: "no.>"')
            hub, leaf = leafs.clients()
            leaf.subscribe("at.leaf")
            hub.subscribe("at.hub")
            leafs.meet(hub, leaf)
            pages = {}
            for name in ("hub", "leaf"):
                found = page(leafs, name, "/leafz?subs=1")
                for each in found["leafs"]:
                    listed = each.pop("subscriptions_list")
                    assert f"at.{'hub' if name == 'leaf' else 'leaf'}" in listed
                    assert each.pop("subscriptions") == len(listed)
                    for counter in ("in_msgs", "out_msgs", "in_bytes", "out_bytes"):
                        assert isinstance(each.pop(counter), int)
                varz = page(leafs, name, "/varz")
                block = comparable(varz["leaf"])
                block.pop("remotes", None)
                pages[name] = comparable(found), varz["leafnodes"], block
                remotes = varz["leaf"].get("remotes")
                if name == "leaf":
                    (remote,) = remotes
                    assert remote["local_account"] == "$G"
                    assert remote["deny"] == {"imports": ["no.>"]}
                    assert remote["urls"] == [f"127.0.0.1:{leafs.port('hub')}"]
                assert page(leafs, name, "/leafz?acc=nobody")["leafs"] == []
            seen[kind] = pages
    for kind, pages in seen.items():
        for name in ("hub", "leaf"):
            assert pages[name] == seen["gg"][name], (kind, name)


# -- reload -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
def test_a_reload_adds_and_takes_away_hubs(leafs: Leafs, pair: str) -> None:
    leafs.hub("hub", pair[0])
    node = leafs.leaf("leaf", pair[1], "hub")
    hub, leaf = leafs.clients()
    config = node.server.config_file
    before = config.read_text()
    remotes = f'remotes: [ {{ url: "{leafs.url("hub")}"'
    assert remotes in before
    start = before.index("remotes:")
    end = before.index("} ]", start)
    config.write_text(before[:start] + "remotes: [" + before[end + 2 :])
    node.server.signal(signal.SIGHUP)
    leafs.nodes["hub"].server.wait_for_line("Leafnode connection closed")
    assert not leaf.has_responders("probe.none")
    config.write_text(before)
    node.server.signal(signal.SIGHUP)
    leafs.meet(hub, leaf)


@pytest.mark.parametrize("block", ["", "leafnodes { }"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_server_without_leaf_nodes_becomes_one_and_is_none_again(
    leafs: Leafs, pair: str, block: str
) -> None:
    leafs.hub("hub", pair[0])
    node = leafs.server("leaf", pair[1], block)
    hub, leaf = leafs.join("hub"), leafs.join("leaf")
    hub.subscribe("there")
    config = node.server.config_file
    before = config.read_text()
    for _ in range(2):
        remotes = f'leafnodes {{ remotes: [ {{ url: "{leafs.url("hub")}" }} ] }}'
        config.write_text(before.replace("leafnodes { }", "") + remotes)
        node.server.signal(signal.SIGHUP)
        leafs.meet(hub, leaf)
        assert leaf.has_responders("there")
        config.write_text(before)
        node.server.signal(signal.SIGHUP)
        wait_until(lambda: not leaf.has_responders("there"), "the link is gone")


@pytest.mark.parametrize("letter", ["h", "a"])
def test_a_port_for_leaf_nodes_does_not_come_with_a_reload(leafs: Leafs, letter: str) -> None:
    node = leafs.server("leaf", letter, "")
    config = node.server.config_file
    config.write_text(config.read_text() + "leafnodes { listen: 127.0.0.1:-1 }")
    node.server.signal(signal.SIGHUP)
    node.server.wait_for_line(r"\[ERR\] .*config reload not supported for leafnodes")


@pytest.mark.parametrize("letter", ["g", "h", "a"])
def test_the_system_account_is_told_of_leaf_nodes(leafs: Leafs, letter: str) -> None:
    accounts = (
        SHARED.rstrip().removesuffix("}") + "  S { users: [{user: s, password: s}] }\n}\nsystem_account: S"
    )
    leafs.hub("hub", letter, accounts)
    leafs.leaf("leaf", letter, "hub", user="b:b@")
    system = user_of(leafs, "s")
    leafs.meet(user_of(leafs, "b"), leafs.join("leaf"))
    for subject, asked, accounts_shown in (
        ("$SYS.REQ.SERVER.PING.LEAFZ", None, ["B"]),
        ("$SYS.REQ.SERVER.PING.LEAFZ", {"account": "A"}, []),
        ("$SYS.REQ.ACCOUNT.B.LEAFZ", {"subscriptions": True}, ["B"]),
        ("$SYS.REQ.ACCOUNT.A.LEAFZ", None, []),
    ):
        data = system.request(subject, asked).json()["data"]
        assert [each["account"] for each in data["leafs"]] == accounts_shown
        assert data["leafnodes"] == len(accounts_shown)
    info = system.request("$SYS.REQ.ACCOUNT.B.INFO").json()["data"]
    assert (info["leafnode_connections"], info["client_connections"]) == (1, 1)


# -- hubs and leaf nodes that are none ----------------------------------------------------------------

BAD_HUBS: Final = {
    "nothing": (b"", "no INFO came in time"),
    "closes": (None, "connection closed before INFO"),
    "half a line": (b'INFO {"server_id":', "no INFO came in time"),
    "another protocol": (b"HTTP/1.1 400 Bad Request\r\n", "expected INFO"),
    "too long": (b"INFO " + b"x" * 200_000, "INFO is too long"),
    "no JSON": (b"INFO {]\r\n", "INFO is not valid JSON"),
    "a client port": (b'INFO {"server_id":"N","client_id":1,"version":"2.15.1"}\r\n', "wrong port"),
    "then garbage": (
        b'INFO {"server_id":"N","client_id":1,"leafnode_urls":["a:1"]}\r\nRS+ x\r\n',
        "Leafnode parser ERROR",
    ),
    "then too much": (
        b'INFO {"server_id":"N","client_id":1,"leafnode_urls":["a:1"]}\r\nLMSG x 99999999\r\n',
        "Maximum Message Payload Exceeded",
    ),
}


class BadHub:
    """Plays something that is no hub to everybody who connects, before the leaf node starts and after it."""

    def __init__(self, port: int, said: bytes | None) -> None:
        self.met: list[socket.socket] = []
        self._said = said
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # shut down
                return
            self.met.append(sock)
            if self._said is None:
                sock.close()
            else:
                with suppress(ConnectionError):
                    sock.sendall(self._said)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for sock in (self._listener, *self.met):
            sock.close()


@pytest.mark.parametrize("letter", ["h", "a"])
@pytest.mark.parametrize("name", BAD_HUBS)
def test_a_hub_that_is_none_is_an_error_and_tried_again(leafs: Leafs, letter: str, name: str) -> None:
    said, complaint = BAD_HUBS[name]
    hub = BadHub(leafs.port("hub"), said)
    try:
        more = 'first_info_timeout: "100ms"'
        node = leafs.leaf("leaf", letter, "hub", remote=more, block='reconnect: "20ms"')
        node.server.wait_for_line(complaint)
        wait_until(lambda: len(hub.met) > 1, "it is tried again")
    finally:
        hub.close()
    leaf = leafs.join("leaf")
    sid = leaf.subscribe("alive")
    leaf.publish("alive")
    leaf.next(sid)


@pytest.mark.parametrize("letter", ["h", "a"])
def test_what_is_no_leaf_node_is_refused_and_leaves_nothing(leafs: Leafs, letter: str) -> None:
    leafs.hub("hub", letter, MONITOR)
    for said in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"CONNECT {" + b"x" * 100_000,
        b"CONNECT []\r\n",
        b'CONNECT {"server_id":5}\r\n',
        b'CONNECT {"name":"x"}\r\nLMSG a 99999999\r\n',
        b'CONNECT {"name":"x"}\r\nLS+ a b c d\r\n',
        b'CONNECT {"name":"x"}\r\nLMSG a 5\r\nxy',
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ):
        address = "127.0.0.1", leafs.port("hub")
        with socket.create_connection(address, timeout=10) as sock, suppress(ConnectionError):
            sock.sendall(said)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
    wait_until(lambda: page(leafs, "hub", "/varz")["leafnodes"] == 0, "all are gone")
    leafs.leaf("leaf", letter, "hub")
    leafs.clients()
