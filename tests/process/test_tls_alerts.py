"""Who is refused in a TLS handshake is told why, on every port, in nats-server's words: TLS alerts."""

from __future__ import annotations

import datetime
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from harness.certificates import Authority, tls_config
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.certificates import Pair
    from harness.processes import Program

PROGRAMS: Final = (HEADRACES[0], NATS_SERVER)
VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
PORTS: Final = ("client", "first", "websocket", "cluster", "leafnode", "gateway")
"""Where certificates are asked for; `first`: a client port with `handshake_first`."""

GREETS: Final = ("client", "leafnode")
ASKS: Final = b"GET / HTTP/1.0\r\n\r\n"
_FAILURE: Final = "SSLV3_ALERT_HANDSHAKE_FAILURE"
LINES: Final = {
    "websocket": r"websocket clients on wss://127\.0\.0\.1:(\d+)",
    "monitor": r"Starting https monitor on 127\.0\.0\.1:(\d+)",
    "cluster": r"route connections on 127\.0\.0\.1:(\d+)",
    "leafnode": r"leafnode connections on 127\.0\.0\.1:(\d+)",
    "gateway": r"gateways connections on 127\.0\.0\.1:(\d+)",
}


@dataclass(frozen=True)
class Running:
    """One of the programs with all its ports, by name."""

    program: Program
    ports: dict[str, int]
    authority: Authority
    pairs: dict[str, Pair | None]

    def context(self, shows: str, version: str) -> ssl.SSLContext:
        context = self.authority.client_context(self.pairs[shows])
        context.minimum_version = context.maximum_version = VERSIONS[version]
        return context


@pytest.fixture(scope="module", params=PROGRAMS, ids=str)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    program: Program = request.param
    folder = tmp_path_factory.mktemp("alerts")
    authority = Authority(folder, "known")
    pairs = {
        "nothing": None,
        "stranger": Authority(folder, "unknown").issue("stranger"),
        "expired": authority.issue("expired", shift=-datetime.timedelta(days=90)),
        "server only": authority.issue("server-only", usages=[ExtendedKeyUsageOID.SERVER_AUTH]),
        "good": authority.issue("good"),
    }
    block = tls_config(authority.issue("server"), f'ca_file: "{authority.file}"', "verify: true")
    listen = 'listen: "127.0.0.1:-1"'
    config = (
        f'{block}\nhttps: "127.0.0.1:-1"\nwebsocket {{ {listen}\n{block} }}\n'
        f"cluster {{ name: c\n{listen}\n{block} }}\nleafnodes {{ {listen}\n{block} }}\n"
        f"gateway {{ name: c\n{listen}\n{block} }}\n"
        "accounts { S { users: [{user: s, password: s}] } }\nsystem_account: S\n"
    )
    first = block.replace("verify: true", "verify: true\n  handshake_first: true")
    (folder / "first").mkdir()
    with (
        ServerProcess(program, folder, config=config) as server,
        ServerProcess(program, folder / "first", config=first) as greets_late,
    ):
        ports = {name: int(server.wait_for_line(line)[1]) for name, line in LINES.items()}
        yield Running(program, {"client": server.port, "first": greets_late.port, **ports}, authority, pairs)


def outcome(port: int, context: ssl.SSLContext, *, is_greeted: bool, says: bytes = b"") -> str:
    """What a handshake comes to: the alert that ends it, or "end" without one, or "served"."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain:
        if is_greeted:
            with plain.makefile("rb", buffering=0) as lines:
                assert lines.readline().startswith(b"INFO ")
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as secured:
                secured.sendall(says)
                return "served" if secured.recv(1) else "end"
        except ssl.SSLError as error:
            return "end" if error.reason is None or "EOF" in error.reason else error.reason
        except ConnectionError:
            return "end"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("port", PORTS)
def test_client_whose_certificate_is_refused_hears_why(running: Running, port: str, version: str) -> None:
    wanted = {
        "nothing": "TLSV13_ALERT_CERTIFICATE_REQUIRED" if version == "1.3" else _FAILURE,
        "stranger": "TLSV1_ALERT_UNKNOWN_CA",
        "expired": "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "server only": f"SSLV3_ALERT_{'UNSUPPORTED' if running.program.is_headrace else 'BAD'}_CERTIFICATE",
    }
    found = {
        shows: outcome(running.ports[port], running.context(shows, version), is_greeted=port in GREETS)
        for shows in wanted
    }
    assert found == wanted
    good = running.context("good", version)
    assert outcome(running.ports[port], good, is_greeted=port in GREETS, says=ASKS) == "served"


@pytest.mark.parametrize("port", [*PORTS, "monitor"])
def test_client_without_a_common_version_or_cipher_hears_so(running: Running, port: str) -> None:
    is_greeted = port in GREETS
    old = running.context("good", "1.2")
    with pytest.deprecated_call():
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    assert outcome(running.ports[port], old, is_greeted=is_greeted) == "TLSV1_ALERT_PROTOCOL_VERSION"
    foreign = running.context("good", "1.2")
    foreign.set_ciphers("DHE-RSA-AES256-GCM-SHA384")
    assert outcome(running.ports[port], foreign, is_greeted=is_greeted) == _FAILURE


def test_monitoring_asks_nobody_for_a_certificate(running: Running) -> None:
    nobody = running.context("nothing", "1.3")
    assert outcome(running.ports["monitor"], nobody, is_greeted=False, says=ASKS) == "served"


@pytest.mark.parametrize("port", PORTS)
def test_who_speaks_no_tls_gets_no_alert(running: Running, port: str) -> None:
    with socket.create_connection(("127.0.0.1", running.ports[port]), PATIENCE) as plain:
        plain.sendall(ASKS)
        said = b"".join(iter(lambda: plain.recv(4096), b""))
    assert b"\x15\x03" not in said


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_key_that_is_not_pinned_ends_the_connection_in_good_order(program: Program, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "known")
    more = (f'ca_file: "{authority.file}"', "verify: true", f'pinned_certs: ["{"a" * 64}"]')
    with ServerProcess(program, tmp_path, config=tls_config(authority.issue("server"), *more)) as server:
        context = authority.client_context(authority.issue("client"))
        assert outcome(server.port, context, is_greeted=True) == "end"


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_server_that_is_connected_to_hears_why_it_is_not_believed(program: Program, tmp_path: Path) -> None:
    known, unknown = Authority(tmp_path, "known"), Authority(tmp_path, "unknown")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = unknown.issue("impostor")
    context.load_cert_chain(pair.certificate, pair.key)
    block = tls_config(known.issue("server"), f'ca_file: "{known.file}"')
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        route = f'routes: ["nats-route://127.0.0.1:{listening.getsockname()[1]}"]'
        config = f'cluster {{ name: c, listen: "127.0.0.1:-1", {route}\n{block} }}\n'
        with ServerProcess(program, tmp_path, config=config):
            plain, _ = listening.accept()
            plain.settimeout(PATIENCE)
            with plain, pytest.raises(ssl.SSLError, match=r"(?i)unknown.ca|bad.certificate"):
                context.wrap_socket(plain, server_side=True).recv(1)
