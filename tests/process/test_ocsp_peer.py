"""`ocsp_peer`: the same clients, certificates and responders beside nats-server."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from harness.certificates import Authority, tls_config
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.responder import GOOD, HOUR, REVOKED, SILENCE, UNKNOWN, Responder, answer, key_of, says
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.certificates import Pair
    from harness.processes import Program

PROGRAMS: Final = (*HEADRACES, NATS_SERVER)
MODES: Final = {
    "strict": "",
    "warn": "warn_only: true",
    "lenient": "unknown_is_good: true",
    "alone": "allow_when_ca_unreachable: true",
}
WHO_GETS_IN: Final = {
    "nothing to ask": "strict warn lenient alone",
    "good": "strict warn lenient alone",
    "revoked": "warn",
    "unknown": "warn lenient",
    "error 500": "warn alone",
    "silent": "warn alone",
    "nobody there": "warn alone",
    "expired": "warn",
    "from tomorrow": "warn",
    "clock a bit off": "strict warn lenient alone",
    "without an end": "strict warn lenient alone",
    "without an end, old": "warn",
    "signed by a stranger": "warn",
    "by a stranger's certificate": "warn",
    "with the authority's certificate": "strict warn lenient alone",
    "delegated": "strict warn lenient alone",
    "delegated without the usage": "warn",
    "malformed": "warn",
    "empty": "warn alone",
    "more behind it": "warn",
    "try later": "warn",
    "redirected": "strict warn lenient alone",
    "endless redirects": "warn alone",
    "second responder": "strict warn lenient alone",
    "second responder not asked": "warn",
    "ftp only": "strict warn lenient alone",
    "authority revoked": "warn",
    "authority good": "strict warn lenient alone",
}
"""By what is said of a client's certificate: the modes in which it is let in, by nats-server too."""


class World:
    """An authority, clients by name, and what the responder says of each."""

    def __init__(self, folder: Path, responder: Responder) -> None:
        self.folder = folder
        self.responder = responder
        self.authority = Authority(folder, "root")
        self.stranger = Authority(folder, "stranger")
        self.server = self.authority.issue("server")
        self._clients: dict[str, Pair] = {}

    def client(self, name: str) -> Pair:
        if name not in self._clients:
            self._clients[name] = getattr(self, "_" + "".join(c if c.isalpha() else "_" for c in name))(name)
        return self._clients[name]

    def _issue(self, name: str, *more: str, by: Authority | None = None) -> Pair:
        place = self._place(name)
        return (by or self.authority).issue(name, responders=[*more, self.responder.place(place)])

    def _place(self, name: str) -> str:
        return "".join(c for c in name if c.isalpha())

    def _says(self, name: str, body: bytes) -> None:
        self.responder.replies[self._place(name)] = says(body)

    def _said(self, name: str, status: ocsp.OCSPCertStatus = GOOD, **how: object) -> Pair:
        pair = self._issue(name)
        self._says(name, answer(pair.x509, self.authority, status, **how))  # type: ignore[arg-type]
        return pair

    def _nothing_to_ask(self, name: str) -> Pair:
        return self.authority.issue(name)

    def _good(self, name: str) -> Pair:
        return self._said(name)

    def _revoked(self, name: str) -> Pair:
        return self._said(name, REVOKED)

    def _unknown(self, name: str) -> Pair:
        return self._said(name, UNKNOWN)

    def _error____(self, name: str) -> Pair:
        self.responder.replies[self._place(name)] = lambda _: (500, {}, b"no")
        return self._issue(name)

    def _silent(self, name: str) -> Pair:
        self.responder.replies[self._place(name)] = lambda _: SILENCE
        return self._issue(name)

    def _nobody_there(self, name: str) -> Pair:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        return self.authority.issue(name, responders=[f"http://127.0.0.1:{port}/"])

    def _expired(self, name: str) -> Pair:
        return self._said(name, since=-3 * HOUR, until=-HOUR)

    def _from_tomorrow(self, name: str) -> Pair:
        return self._said(name, since=24 * HOUR, until=48 * HOUR)

    def _clock_a_bit_off(self, name: str) -> Pair:
        return self._said(name, since=HOUR / 6, until=HOUR)

    def _without_an_end(self, name: str) -> Pair:
        return self._said(name, until=None, since=-HOUR / 2)

    def _without_an_end__old(self, name: str) -> Pair:
        return self._said(name, until=None, since=-48 * HOUR)

    def _signed_by_a_stranger(self, name: str) -> Pair:
        return self._said(name, key=self.stranger.key, signer=self.stranger.certificate)

    def _by_a_stranger_s_certificate(self, name: str) -> Pair:
        signer = self.stranger.issue("strange-signer", usages=[ExtendedKeyUsageOID.OCSP_SIGNING])
        return self._said(name, key=key_of(signer), signer=signer.x509, shows=True)

    def _with_the_authority_s_certificate(self, name: str) -> Pair:
        return self._said(name, shows=True)

    def _delegated(self, name: str) -> Pair:
        signer = self.authority.issue("signer", usages=[ExtendedKeyUsageOID.OCSP_SIGNING])
        return self._said(name, key=key_of(signer), signer=signer.x509, shows=True)

    def _delegated_without_the_usage(self, name: str) -> Pair:
        signer = self.authority.issue("no-signer")
        return self._said(name, key=key_of(signer), signer=signer.x509, shows=True)

    def _malformed(self, name: str) -> Pair:
        self._says(name, b"<html>welcome</html>")
        return self._issue(name)

    def _empty(self, name: str) -> Pair:
        self._says(name, b"")
        return self._issue(name)

    def _more_behind_it(self, name: str) -> Pair:
        pair = self._issue(name)
        self._says(name, answer(pair.x509, self.authority) + bytes(64))
        return pair

    def _try_later(self, name: str) -> Pair:
        refused = ocsp.OCSPResponseBuilder.build_unsuccessful(ocsp.OCSPResponseStatus.TRY_LATER)
        self._says(name, refused.public_bytes(Encoding.DER))
        return self._issue(name)

    def _redirected(self, name: str) -> Pair:
        pair = self._issue(name)
        self._says("elsewhere", answer(pair.x509, self.authority))
        place = self.responder.place("elsewhere/")
        self.responder.replies[self._place(name)] = lambda _: (302, {"Location": place}, b"")
        return pair

    def _endless_redirects(self, name: str) -> Pair:
        place = self.responder.place(self._place(name) + "/")
        self.responder.replies[self._place(name)] = lambda _: (302, {"Location": place}, b"")
        return self._issue(name)

    def _second_responder(self, name: str) -> Pair:
        self.responder.replies["first"] = lambda _: (404, {}, b"")
        pair = self._issue(name, self.responder.place("first"))
        self._says(name, answer(pair.x509, self.authority))
        return pair

    def _second_responder_not_asked(self, name: str) -> Pair:
        self.responder.replies["wrong"] = says(b"wrong")
        pair = self._issue(name, self.responder.place("wrong"))
        self._says(name, answer(pair.x509, self.authority))
        return pair

    def _ftp_only(self, name: str) -> Pair:
        return self.authority.issue(name, responders=["ftp://127.0.0.1/x", "nonsense"])

    def _below(self, name: str, status: ocsp.OCSPCertStatus) -> Pair:
        below = Authority(
            self.folder,
            f"below {name}",
            above=self.authority,
            responders=[self.responder.place(self._place(f"above {name}"))],
        )
        self._says(f"above {name}", answer(below.certificate, self.authority, status))
        pair = self._issue(name, by=below)
        self._says(name, answer(pair.x509, below))
        return pair

    def _authority_revoked(self, name: str) -> Pair:
        return self._below(name, REVOKED)

    def _authority_good(self, name: str) -> Pair:
        return self._below(name, GOOD)


@dataclass(frozen=True)
class Running:
    world: World
    servers: dict[str, ServerProcess]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with Responder() as responder:
        yield World(tmp_path_factory.mktemp("world"), responder)


def config(world: World, *peer: str) -> str:
    lines = ("verify: true", "ca_timeout: 2", 'allowed_clockskew: "15m"', *filter(None, peer))
    block = "ocsp_peer {\n" + "\n".join(lines) + "\n}"
    return tls_config(
        world.server, f'ca_file: "{world.authority.file}"', "verify: true", "timeout: 10", block
    )


@pytest.fixture(scope="module", params=PROGRAMS, ids=str)
def running(
    request: pytest.FixtureRequest, world: World, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    program: Program = request.param
    servers: dict[str, ServerProcess] = {}
    try:
        for mode, line in MODES.items():
            folder = tmp_path_factory.mktemp(mode)
            servers[mode] = ServerProcess(program, folder, config=config(world, line))
        yield Running(world, servers)
        assert [
            line for server in servers.values() for line in server.lines if "internal error" in line
        ] == []
    finally:
        for server in servers.values():
            server.stop()


def gets_in(server: ServerProcess, authority: Authority, pair: Pair) -> bool:
    """Whether a client that shows this certificate is served."""
    context = authority.client_context(pair)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain:
        assert plain.recv(4096).startswith(b"INFO")
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as secured:
                secured.sendall(b'CONNECT {"verbose": false}\r\nPING\r\n')
                return secured.recv(4096).startswith(b"PONG")
        except (ssl.SSLError, ConnectionError):
            return False


@pytest.mark.parametrize("name", WHO_GETS_IN)
def test_who_gets_in(running: Running, name: str) -> None:
    pair = running.world.client(name)
    found = [
        mode for mode, server in running.servers.items() if gets_in(server, running.world.authority, pair)
    ]
    assert found == WHO_GETS_IN[name].split()
