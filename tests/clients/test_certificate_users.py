"""`verify_and_map`: which user a certificate is, side by side with the Go server."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from harness.certificates import tls_config
from harness.processes import ALL, ServerProcess
from harness.websocket import WebSocket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.certificates import Authority, Pair

CN, ORG, UNIT, DC = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.DOMAIN_COMPONENT,
)
EMAIL, DNS, URI = x509.RFC822Name, x509.DNSName, x509.UniformResourceIdentifier
USERS = """
authorization { timeout: 5, users: [
  {user: "joe@acme.example"}, {user: "joe.acme.example"}, {user: "spiffe://acme/joe"}
  {user: "CN=joe,OU=ops,O=Acme"}, {user: "O=Acme,CN=turned"}, {user: "CN=ann, O=Acme, DC=acme, DC=example"}
  {user: "CN=both,OU=a+OU=b"}, {user: "CN=esc\\\\,aped"}
  {user: "with.password", password: secret}, {user: plain, password: p}
] }
"""


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("mapping-server")


@pytest.fixture(scope="module", params=ALL, ids=str)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, authority: Authority, pair: Pair
) -> Iterator[ServerProcess]:
    tls = tls_config(pair, f'ca_file: "{authority.file}"', "verify_and_map: true")
    config = f'{USERS}{tls}websocket {{ listen: "127.0.0.1:-1"\n{tls} }}\n'
    folder = tmp_path_factory.mktemp("mapping")
    with ServerProcess(request.param, folder, "-m", "-1", config=config) as running:
        yield running


def issue(authority: Authority, subject: Sequence[Any], alternatives: Sequence[x509.GeneralName]) -> Pair:
    """A pair for a client with these names."""
    parts = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
    return authority.issue("mapped-client", subject=parts, names=alternatives)


def who(
    server: ServerProcess, authority: Authority, pair: Pair, connect: bytes = b"{}"
) -> dict[str, Any] | None:
    """The connection as /connz shows it; None when it is refused."""
    with server.connect() as wire:
        wire.upgrade(authority.client_context(pair))
        wire.send(b"CONNECT " + connect + b"\r\nPING\r\n")
        while b"PONG" not in wire.received and not wire.closed:
            wire.fill(10)
        if b"PONG" not in wire.received:
            assert b"-ERR 'Authorization Violation'" in wire.received
            return None
        url = f"{server.monitor_url}/connz?auth=1&cid={wire.info['client_id']}"
        with urllib.request.urlopen(url) as answer:
            (shown,) = json.load(answer)["connections"]
        found: dict[str, Any] = shown
        return found


@pytest.mark.parametrize(
    ("subject", "alternatives", "user"),
    [
        ([(CN, "x")], [EMAIL("joe@acme.example")], "joe@acme.example"),
        ([(CN, "x")], [DNS("joe.acme.example")], "joe.acme.example"),
        ([(CN, "x")], [URI("spiffe://acme/joe")], "spiffe://acme/joe"),
        ([(CN, "x")], [DNS("joe.acme.example"), EMAIL("joe@acme.example")], "joe@acme.example"),
        ([(CN, "x")], [EMAIL("ann@acme.example"), DNS("joe.acme.example")], "joe.acme.example"),
        ([(ORG, "Acme"), (UNIT, "ops"), (CN, "joe")], [], "CN=joe,OU=ops,O=Acme"),
        ([(CN, "joe"), (ORG, "Acme"), (UNIT, "ops")], [], "CN=joe,OU=ops,O=Acme"),
        ([(ORG, "Acme"), (CN, "turned")], [], "O=Acme,CN=turned"),
        (
            [(DC, "example"), (DC, "acme"), (ORG, "Acme"), (CN, "ann")],
            [],
            "CN=ann, O=Acme, DC=acme, DC=example",
        ),
        ([(CN, "both"), (UNIT, "a"), (UNIT, "b")], [], "CN=both,OU=a+OU=b"),
        ([(CN, "esc,aped")], [], "CN=esc\\,aped"),
        ([(CN, "joe")], [], None),
        ([(CN, "joe.acme.example")], [], None),
        ([(CN, "x")], [EMAIL("eve@acme.example"), DNS("eve.example")], None),
        ([(ORG, "Acme"), (UNIT, "ops"), (CN, "x"), (CN, "joe")], [], "CN=joe,OU=ops,O=Acme"),
        ([(ORG, "Acme"), (UNIT, "ops"), (CN, "joe"), (CN, "x")], [], None),
        ([(ORG, "Acme"), (UNIT, "ops"), (UNIT, "x"), (CN, "joe")], [], None),
    ],
    ids=[
        *("email", "dns", "uri", "email-first", "next", "subject", "subject-reordered", "user-turned"),
        *("domain", "joined", "escaped", "part", "cn-only", "unknown"),
        *("last-name", "other-name", "more"),
    ],
)
def test_certificate_is_a_user(
    server: ServerProcess, authority: Authority, subject: Any, alternatives: Any, user: str | None
) -> None:
    pair = issue(authority, subject, alternatives)

    found = who(server, authority, pair)

    assert (found["authorized_user"] if found else None) == user


def test_password_is_asked_for_beside_the_certificate(server: ServerProcess, authority: Authority) -> None:
    pair = issue(authority, [(CN, "x")], [DNS("with.password")])

    assert who(server, authority, pair) is None
    assert who(server, authority, pair, b'{"pass":"wrong"}') is None
    found = who(server, authority, pair, b'{"pass":"secret"}')
    assert found is not None
    assert found["authorized_user"] == "with.password"


def test_user_in_connect_does_not_count(server: ServerProcess, authority: Authority) -> None:
    pair = issue(authority, [(CN, "x")], [DNS("joe.acme.example")])
    found = who(server, authority, pair, b'{"user":"plain"}')
    assert found is not None
    assert found["authorized_user"] == "joe.acme.example"
    assert who(server, authority, issue(authority, [(CN, "x")], []), b'{"user":"plain","pass":"p"}') is None


def test_op_before_connect_is_refused(server: ServerProcess, authority: Authority) -> None:
    with server.connect() as wire:
        wire.upgrade(authority.client_context(issue(authority, [(CN, "x")], [])))
        wire.send(b"SUB a 1\r\nPING\r\n")

        assert b"+OK" not in wire.take_rest()


def test_monitoring_shows_the_certificate(server: ServerProcess, authority: Authority) -> None:
    pair = issue(authority, [(ORG, "A,me"), (UNIT, "ops"), (CN, "x")], [DNS("joe.acme.example")])
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    key = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    found = who(server, authority, pair)

    assert found is not None
    assert found["tls_peer_certs"][0] == {
        "subject": "CN=x,OU=ops,O=A\\,me",
        "spki_sha256": hashlib.sha256(key).hexdigest(),
        "cert_sha256": hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest(),
    }


def test_certificates_over_websocket(server: ServerProcess, authority: Authority) -> None:
    port = int(server.wait_for_line(r"Listening for websocket clients on wss://\S+:(\d+)")[1])
    known = issue(authority, [(CN, "x")], [DNS("joe.acme.example")])
    with WebSocket(port, context=authority.client_context(known)) as client:
        client.connect()
    unknown = issue(authority, [(CN, "x")], [])
    with WebSocket(port, context=authority.client_context(unknown)) as client:
        client.take_through(b"\r\n")
        client.send(b"CONNECT {}\r\nPING\r\n")
        assert client.take_end() == (b"-ERR 'Authorization Violation'\r\n", 1008)


def test_user_without_a_password_is_nobodys_on_another_port(
    any_server: Callable[..., ServerProcess], authority: Authority, pair: Pair
) -> None:
    """The WebSocket port maps certificates, the client port asks for passwords: an empty one is none."""
    tls = tls_config(pair, f'ca_file: "{authority.file}"', "verify_and_map: true")
    server = any_server(f'{USERS}websocket {{ listen: "127.0.0.1:-1"\n{tls} }}\n')
    for connect, is_let_in in (
        (b'{"user":"joe.acme.example"}', False),
        (b'{"user":"plain","pass":"p"}', True),
        (b'{"user":"with.password","pass":"secret"}', True),
    ):
        with server.connect() as wire:
            wire.send(b"CONNECT " + connect + b"\r\nPING\r\n")
            while b"PONG" not in wire.received and not wire.closed:
                wire.fill(10)
            assert (b"PONG" in wire.received) == is_let_in
