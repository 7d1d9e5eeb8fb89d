"""`ocsp_peer` on every port that has it, its cache, its events and what monitoring shows, beside nats-server;
and what a server that asks others must stand.
"""

from __future__ import annotations

import datetime
import json
import signal
import socket
import ssl
import urllib.request
from base64 import b64decode
from dataclasses import dataclass, field
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import pytest
from cryptography import x509
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from harness.certificates import Authority, tls_config
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.responder import GOOD, REVOKED, SILENCE, Responder, answer, key_of, says
from harness.waiting import PATIENCE, wait_until
from harness.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.certificates import Pair
    from harness.processes import Program

PROGRAM: Final = HEADRACES[0]
BOTH: Final = (PROGRAM, NATS_SERVER)
LEAF_PORT: Final = r"Listening for leafnode connections on 127\.0\.0\.1:(\d+)"
WEBSOCKET_PORT: Final = r"Listening for websocket clients on wss://127\.0\.0\.1:(\d+)"
HTTPS_PORT: Final = r"Starting https monitor on 127\.0\.0\.1:(\d+)"
OBSERVED: Final = (
    "allow_non_tls: true\nhttp: '127.0.0.1:-1'\naccounts { S { users: [{user: s, password: s}] } }\n"
)
ANONYMOUS: Final = (
    "accounts { A { users: [{user: a, password: a}] }, S { users: [{user: s, password: s}] } }\n"
)
AS_SYSTEM: Final = b'{"verbose":false,"user":"s","pass":"s"}'


@dataclass
class Place:
    """Servers that end with the test, an authority, and its responder."""

    folder: Path
    responder: Responder
    authority: Authority
    running: list[ServerProcess] = field(default_factory=list)

    def pair(self, name: str, status: ocsp.OCSPCertStatus = GOOD) -> Pair:
        """Of whom the responder says so."""
        pair = self.authority.issue(name, responders=[self.responder.place(name)])
        self.says(name, pair, status)
        return pair

    def says(self, name: str, pair: Pair, status: ocsp.OCSPCertStatus) -> None:
        self.responder.replies[name] = says(answer(pair.x509, self.authority, status))

    def tls(self, *more: str, ocsp_peer: str = "ocsp_peer: true", verify: str = "verify: true") -> str:
        server = self.authority.issue("server")
        return tls_config(server, f'ca_file: "{self.authority.file}"', verify, ocsp_peer, *more)

    def start(self, program: Program, config: str, name: str = "one", *flags: str) -> ServerProcess:
        folder = self.folder / name
        folder.mkdir()
        self.running.append(ServerProcess(program, folder, *flags, config=config))
        return self.running[-1]

    def client(self, server: ServerProcess, pair: Pair) -> Wire:
        wire = Wire(("127.0.0.1", server.port))
        wire.upgrade(self.authority.client_context(pair))
        return wire

    def gets_in(self, server: ServerProcess, pair: Pair) -> bool:
        try:
            with self.client(server, pair) as wire:
                wire.connect()
                return True
        except (AssertionError, ssl.SSLError, ConnectionError):
            return False


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Responder() as responder:
        found = Place(tmp_path, responder, Authority(tmp_path, "root"))
        yield found
        for server in reversed(found.running):
            server.stop()
        assert [line for server in found.running for line in server.lines if "internal error" in line] == []


def varz(server: ServerProcess) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.monitor_url}/varz", timeout=PATIENCE) as found:
        document: dict[str, Any] = json.load(found)
    return document


@pytest.mark.parametrize("program", BOTH, ids=str)
def test_responder_is_asked_in_the_url_without_a_nonce(program: Program, place: Place) -> None:
    pair = place.pair("alice")
    assert place.gets_in(place.start(program, place.tls()), pair)
    ((_, asked),) = place.responder.asked
    request = ocsp.load_der_ocsp_request(asked)
    assert request.serial_number == pair.x509.serial_number
    assert request.hash_algorithm.name == "sha1"
    assert len(request.extensions) == 0


@pytest.mark.parametrize("program", BOTH, ids=str)
def test_answers_are_remembered_and_counted(program: Program, place: Place) -> None:
    good, revoked, plain = place.pair("good"), place.pair("revoked", REVOKED), place.authority.issue("plain")
    server = place.start(program, place.tls() + "http: '127.0.0.1:-1'\n")
    found = [place.gets_in(server, pair) for pair in (good, good, good, revoked, revoked, plain)]
    assert found == [True, True, True, False, False, True]
    assert (place.responder.times("good"), place.responder.times("revoked")) == (1, 1)
    shown = varz(server)
    assert shown["tls_ocsp_peer_verify"] is True
    assert shown["ocsp_peer_cache"] == {
        "cache_type": "local",
        "cache_hits": 3,
        "cache_misses": 2,
        "cached_responses": 2,
        "cached_revoked_responses": 1,
        "cached_good_responses": 1,
    }


@pytest.mark.parametrize("program", BOTH, ids=str)
@pytest.mark.parametrize("cache", ["ocsp_cache: false", "ocsp_cache { type: none }"])
def test_nothing_is_remembered_without_a_cache(program: Program, cache: str, place: Place) -> None:
    pair = place.pair("alice")
    server = place.start(program, f"{place.tls()}\n{cache}\nhttp: '127.0.0.1:-1'\n")
    assert place.gets_in(server, pair)
    place.says("alice", pair, REVOKED)
    assert not place.gets_in(server, pair)
    assert place.responder.times("alice") == 2
    assert "ocsp_peer_cache" not in varz(server)


@pytest.mark.parametrize("program", BOTH, ids=str)
@pytest.mark.parametrize("preserves", [True, False])
def test_revocation_that_was_known_outlives_its_answer(
    program: Program, preserves: bool, place: Place
) -> None:
    """The answer is past when it comes, but within what clocks may differ; then nobody answers any more."""
    pair = place.pair("alice")
    old = answer(pair.x509, place.authority, REVOKED, until=None)  # an hour old
    place.responder.replies["alice"] = says(old)
    peer = "ocsp_peer { verify: true, allow_when_ca_unreachable: true, allowed_clockskew: 0, %s }"
    text = place.tls(ocsp_peer=peer % 'cache_ttl_when_next_update_unset: "2h"')
    cache = f"ocsp_cache {{ type: local, preserve_revoked: {str(preserves).lower()} }}\n"
    server = place.start(program, text + cache)
    assert not place.gets_in(server, pair)
    place.responder.replies["alice"] = lambda _: (500, {}, b"")
    text = place.tls(ocsp_peer=peer % 'cache_ttl_when_next_update_unset: "1m"')
    server.config_file.write_text(text + cache)
    server.signal(signal.SIGHUP)
    server.wait_for_line(r"Reloaded server configuration")
    # The first who comes finds the old answer, whether it is kept or thrown away then.
    assert [place.gets_in(server, pair) for _ in range(2)] == [False, not preserves]


@pytest.mark.parametrize("program", BOTH, ids=str)
def test_system_account_hears_of_who_was_refused(program: Program, place: Place) -> None:
    pair = place.pair("alice", REVOKED)
    server = place.start(program, place.tls() + OBSERVED + "system_account: S\n")
    with server.connect(AS_SYSTEM) as system:
        system.send(b"SUB $SYS.SERVER.*.OCSP.PEER.> 1\r\n")
        system.sync()
        assert not place.gets_in(server, pair)
        events = [system.take_message() for _ in range(2)]
    found = [(head[1].decode().split(".", 3)[3], json.loads(body)) for head, body in events]
    assert [subject for subject, _ in found] == ["OCSP.PEER.LINK.INVALID", "OCSP.PEER.CONN.REJECT"]
    link, peer = (event for _, event in found)
    assert link["type"] == "io.nats.server.advisory.v1.ocsp_peer_link_invalid"
    assert list(link) == ["type", "id", "timestamp", "link", "peer", "server", "reason"]
    assert link["reason"] == "Invalid OCSP response status: revoked"
    assert link["link"] == link["peer"] == peer["peer"]
    assert peer["type"] == "io.nats.server.advisory.v1.ocsp_peer_reject"
    assert list(peer) == ["type", "id", "timestamp", "kind", "peer", "server", "reason"]
    assert (peer["kind"], peer["reason"]) == ("Client", "client not OCSP valid")
    assert peer["peer"]["subject"] == "CN=alice"
    assert peer["peer"]["issuer"] == "CN=root"
    assert x509.load_der_x509_certificate(b64decode(peer["peer"]["raw"])) == pair.x509


# -- ports ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", BOTH, ids=str)
def test_clients_over_websocket_are_checked(program: Program, place: Place) -> None:
    block = f"websocket {{ listen: '127.0.0.1:-1'\n{place.tls()} }}\nhttp: '127.0.0.1:-1'\n"
    server = place.start(program, block)
    port = int(server.wait_for_line(WEBSOCKET_PORT)[1])
    good, revoked = place.pair("good"), place.pair("revoked", REVOKED)
    assert b"101 Switching" in over_tls(place, port, good, upgrade_request(port))
    assert over_tls(place, port, revoked, upgrade_request(port)) == b""
    assert varz(server)["websocket"]["tls_ocsp_peer_verify"] is True


@pytest.mark.parametrize("program", BOTH, ids=str)
def test_readers_of_monitoring_are_checked_then(program: Program, place: Place) -> None:
    server = place.start(program, place.tls() + "https: '127.0.0.1:-1'\n")
    port = int(server.wait_for_line(HTTPS_PORT)[1])
    asks = b"GET /varz HTTP/1.0\r\n\r\n"
    assert b"200 OK" in over_tls(place, port, place.pair("good"), asks)
    assert over_tls(place, port, place.pair("revoked", REVOKED), asks) == b""
    assert over_tls(place, port, None, asks) == b""


def upgrade_request(port: int) -> bytes:
    lines = [
        "GET / HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def over_tls(place: Place, port: int, pair: Pair | None, data: bytes) -> bytes:
    """The first that comes back; b"" when the connection ends before."""
    context = place.authority.client_context(pair)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as secured:
                secured.sendall(data)
                return secured.recv(4096)
        except (ssl.SSLError, ConnectionError):
            return b""


LEAFS: Final = [(PROGRAM, NATS_SERVER), (NATS_SERVER, PROGRAM), (PROGRAM, PROGRAM)]
"""Who is the hub, and who connects."""


@pytest.mark.parametrize(("hub", "leaf"), LEAFS, ids=str)
def test_hub_checks_leaf_nodes(hub: Program, leaf: Program, place: Place) -> None:
    first = place.start(hub, f"leafnodes {{ listen: '127.0.0.1:-1'\n{place.tls()} }}\nhttp: '127.0.0.1:-1'\n")
    for name, status, comes_in in (("bad", REVOKED, False), ("fine", GOOD, True)):
        second = place.start(leaf, remote(place, first, place.pair(name, status)), name)
        if comes_in:
            second.wait_for_line("Leafnode connection created")
            wait_until(lambda: varz(first)["leafnodes"] == 1, "the leaf node")
        else:
            first.wait_for_line(r"TLS leafnode handshake error: client not OCSP valid")
            assert varz(first)["leafnodes"] == 0
        place.running.pop().stop()
    assert varz(first)["leaf"]["tls_ocsp_peer_verify"] is True


@pytest.mark.parametrize(("hub", "leaf"), LEAFS, ids=str)
@pytest.mark.parametrize("status", [GOOD, REVOKED], ids=["good", "revoked"])
def test_leaf_node_checks_its_hub(
    hub: Program, leaf: Program, status: ocsp.OCSPCertStatus, place: Place
) -> None:
    block = tls_config(place.pair("hub", status))
    first = place.start(hub, f"leafnodes {{ listen: '127.0.0.1:-1'\n{block} }}\nhttp: '127.0.0.1:-1'\n")
    text = remote(place, first, None, "ocsp_peer { verify: true }")
    second = place.start(leaf, text, "two")
    if status is GOOD:
        wait_until(lambda: varz(first)["leafnodes"] == 1, "the leaf node")
    else:
        second.wait_for_line(r"server not OCSP valid")
        assert varz(first)["leafnodes"] == 0
    assert varz(second)["leaf"]["remotes"][0]["tls_ocsp_peer_verify"] is True


@pytest.mark.parametrize("program", BOTH, ids=str)
def test_hub_that_may_be_anybody_cannot_be_checked(program: Program, place: Place) -> None:
    block = tls_config(place.pair("hub"))
    hub = place.start(PROGRAM, f"leafnodes {{ listen: '127.0.0.1:-1'\n{block} }}\nhttp: '127.0.0.1:-1'\n")
    leaf = place.start(program, remote(place, hub, None, "insecure: true", "ocsp_peer: true"), "two")
    leaf.wait_for_line(r"server not OCSP valid")
    assert varz(hub)["leafnodes"] == 0


def test_hub_over_websocket_is_checked(place: Place) -> None:
    block = tls_config(place.pair("hub", REVOKED))
    hub = place.start(
        PROGRAM,
        f"websocket {{ listen: '127.0.0.1:-1'\n{block} }}\nleafnodes {{ listen: '127.0.0.1:-1' }}\n"
        "http: '127.0.0.1:-1'\n",
    )
    port = hub.wait_for_line(WEBSOCKET_PORT)[1]
    leaf = place.start(
        PROGRAM,
        f"leafnodes {{ remotes: [{{ url: 'wss://127.0.0.1:{port}'\n"
        f'tls {{ ca_file: "{place.authority.file}", ocsp_peer: true }} }}] }}\n',
        "two",
    )
    leaf.wait_for_line(r"server not OCSP valid")
    assert varz(hub)["leafnodes"] == 0


def remote(place: Place, hub: ServerProcess, pair: Pair | None, *more: str) -> str:
    port = hub.wait_for_line(LEAF_PORT)[1]
    own = [f'cert_file: "{pair.certificate}"', f'key_file: "{pair.key}"'] if pair is not None else []
    lines = "\n".join([f'ca_file: "{place.authority.file}"', *own, *more])
    url = f"nats-leaf://127.0.0.1:{port}"
    return f"http: '127.0.0.1:-1'\nleafnodes {{ remotes: [{{ url: '{url}'\ntls {{ {lines} }} }}] }}\n"


# -- what a configuration must say ------------------------------------------------------------------


@pytest.mark.parametrize("program", BOTH, ids=str)
@pytest.mark.parametrize("block", ["%s", "leafnodes { port: -1\n%s }", "websocket { port: -1\n%s }"])
def test_certificates_must_be_asked_for(program: Program, block: str, place: Place) -> None:
    server = ServerProcess(program, place.folder, config=block % place.tls(verify=""), ready=False)
    with server:
        server.wait_for_line(r"OCSP peer verification for client connections requires TLS verify \(mTLS\)")


# -- life -------------------------------------------------------------------------------------------


def test_reload_turns_it_on_and_off(place: Place) -> None:
    pair = place.pair("alice", REVOKED)
    server = place.start(PROGRAM, place.tls(ocsp_peer="ocsp_peer: false"))
    assert place.gets_in(server, pair)
    for peer, expected in (("ocsp_peer: true", False), ("ocsp_peer { verify: true, warn_only: yes }", True)):
        seen = len(server.lines)
        server.config_file.write_text(place.tls(ocsp_peer=peer))
        server.signal(signal.SIGHUP)
        server.wait_for_line("Reloaded server configuration", after=seen)
        assert place.gets_in(server, pair) is expected


def test_session_that_is_resumed_is_checked_like_the_first(place: Place) -> None:
    """In TLS 1.2, where the server knows the chain of the first only."""
    pair = place.pair("alice")
    server = place.start(PROGRAM, place.tls() + "ocsp_cache: false\n")
    context = place.authority.client_context(pair)
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def served(session: ssl.SSLSession | None) -> tuple[bool, ssl.SSLSession | None, bool | None]:
        with Wire(("127.0.0.1", server.port)) as wire:
            secured = context.wrap_socket(wire.socket, server_hostname="localhost", session=session)  # type: ignore[arg-type]
            wire.socket = secured
            try:
                wire.connect()
            except AssertionError:
                return False, None, secured.session_reused
            found, is_resumed = secured.session, secured.session_reused
            wire.socket = secured.unwrap()  # a session whose connection ends without it is forgotten
            return True, found, is_resumed

    is_served, session, is_resumed = served(None)
    assert (is_served, is_resumed) == (True, False)
    assert served(session)[::2] == (True, True)
    place.says("alice", pair, REVOKED)
    assert served(session)[::2] == (False, True)
    assert place.responder.times("alice") == 3


@pytest.mark.parametrize("program", BOTH, ids=str)
@pytest.mark.parametrize("allows", [True, False])
def test_silent_responder_costs_its_time_and_no_more(program: Program, allows: bool, place: Place) -> None:
    """The time of the handshake is as long by default, and does not end the check."""
    pair = place.pair("alice")
    place.responder.replies["alice"] = lambda _: SILENCE
    peer = f"ocsp_peer {{ verify: true, ca_timeout: 1, allow_when_ca_unreachable: {str(allows).lower()} }}"
    server = place.start(program, place.tls("timeout: 1", ocsp_peer=peer))
    began = monotonic()
    assert place.gets_in(server, pair) is allows
    assert 1 <= monotonic() - began < PATIENCE


def test_silent_responder_of_websocket_costs_its_time_and_no_more(place: Place) -> None:
    pair = place.pair("alice")
    place.responder.replies["alice"] = lambda _: SILENCE
    peer = "ocsp_peer { verify: true, ca_timeout: 1, allow_when_ca_unreachable: true }"
    block = f"listen: '127.0.0.1:-1'\nhandshake_timeout: '1s'\n{place.tls(ocsp_peer=peer)}"
    server = place.start(PROGRAM, f"websocket {{ {block} }}")
    port = int(server.wait_for_line(WEBSOCKET_PORT)[1])
    assert b"101 Switching" in over_tls(place, port, pair, upgrade_request(port))


def test_others_are_served_while_a_responder_is_silent(place: Place) -> None:
    pair, other = place.pair("alice"), place.authority.issue("other")
    place.responder.replies["alice"] = lambda _: SILENCE
    peer = "ocsp_peer { verify: true, ca_timeout: 600 }"
    server = place.start(PROGRAM, place.tls("timeout: 600", ocsp_peer=peer))
    with place.client(server, pair) as waiting:
        waiting.send(b"CONNECT {}\r\nPING\r\n")
        wait_until(lambda: place.responder.asked, "a request")
        assert place.gets_in(server, other)
        assert not waiting.fill(0.05)  # nothing is said to who is not checked
        assert not waiting.closed
        server.signal(signal.SIGTERM)  # nor is it waited for
        assert server.process.wait(PATIENCE) == 0


def test_client_that_is_sent_away_while_it_is_checked_is_closed(place: Place) -> None:
    pair, other = place.pair("alice"), place.authority.issue("other")
    said, is_released = says(answer(pair.x509, place.authority)), Event()
    place.responder.replies["alice"] = lambda asked: said(asked) if is_released.wait(PATIENCE) else SILENCE
    text = place.tls(ocsp_peer="ocsp_peer { verify: true, ca_timeout: 600 }")
    server = place.start(PROGRAM, text)
    with place.client(server, other) as first, place.client(server, pair) as second:
        first.connect()
        wait_until(lambda: place.responder.asked, "a request")
        server.config_file.write_text(f"{text}max_connections: 1\n")
        server.signal(signal.SIGHUP)
        server.wait_for_line("Reloaded server configuration")
        is_released.set()
        assert second.take_through(b"\r\n") == b"-ERR 'maximum connections exceeded'\r\n"
        wait_until(lambda: not second.fill(0.01) and second.closed, "the end")
        assert first.sync() == b""


def test_many_who_wait_for_one_answer_ask_once(place: Place) -> None:
    pair = place.pair("alice")
    said = answer(pair.x509, place.authority)
    place.responder.replies["alice"] = lambda _: SILENCE
    peer = "ocsp_peer { verify: true, ca_timeout: 1 }"
    server = place.start(PROGRAM, place.tls("timeout: 60", ocsp_peer=peer) + "http: '127.0.0.1:-1'\n")
    wires = [place.client(server, pair) for _ in range(5)]
    for wire in wires:
        wire.send(b"PING\r\n")
        with pytest.raises(AssertionError, match="closed"):
            wire.take_through(b"PONG\r\n")
        wire.close()
    assert place.responder.times("alice") < len(wires)
    place.responder.replies["alice"] = says(said)
    assert place.gets_in(server, pair)


@pytest.mark.parametrize("program", BOTH, ids=str)
def test_answer_about_another_certificate_is_none(program: Program, place: Place) -> None:
    """nats-server takes whatever its authority has signed: a revoked client needs a good one's answer."""
    good, revoked = place.pair("good"), place.pair("revoked", REVOKED)
    place.responder.replies["revoked"] = says(answer(good.x509, place.authority))
    server = place.start(program, place.tls())
    assert place.gets_in(server, revoked) is (program is NATS_SERVER)


@pytest.mark.parametrize("program", BOTH, ids=str)
def test_delegate_whose_time_is_over_says_nothing(program: Program, place: Place) -> None:
    """nats-server does not look at the time of its certificate."""
    usages = [ExtendedKeyUsageOID.OCSP_SIGNING]
    old = place.authority.issue("old", usages=usages, shift=-datetime.timedelta(days=90))
    pair = place.pair("alice")
    said = answer(pair.x509, place.authority, key=key_of(old), signer=old.x509, shows=True)
    place.responder.replies["alice"] = says(said)
    assert place.gets_in(place.start(program, place.tls()), pair) is (program is NATS_SERVER)


@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}], ids=["with its size", "without"])
def test_answer_that_is_too_large_is_not_read(headers: dict[str, str], place: Place) -> None:
    pair = place.pair("alice")
    size = 64 * 1024 * 1024
    place.responder.replies["alice"] = lambda _: (200, headers, bytes(size))
    server = place.start(PROGRAM, place.tls())
    assert not place.gets_in(server, pair)
    server.wait_for_line(r"\[WRN\] Attempt to obtain OCSP response .*\[CN=alice\] failed: .*too large")


def test_answers_of_several_processes_are_counted_together(place: Place) -> None:
    pair = place.pair("alice")
    server = place.start(PROGRAM, place.tls() + "http: '127.0.0.1:-1'\nprocesses: 2\n")
    assert all(place.gets_in(server, pair) for _ in range(6))
    shown = varz(server)["ocsp_peer_cache"]
    assert shown["cache_hits"] + shown["cache_misses"] == 6
    assert shown["cached_responses"] == place.responder.times("alice")
