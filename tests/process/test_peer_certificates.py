"""Servers whose certificates say who they are: `verify_cert_and_check_known_urls`, `verify_and_map` and
`pinned_certs` of routes and gateways, beside nats-server on the other side.
"""

from __future__ import annotations

import json
import signal
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from harness.certificates import LOCAL_NAMES, Authority, tls_config
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import wait_until
from headrace.server.tls import key_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.certificates import Pair
    from harness.processes import Program

PAIRS: Final = [(HEADRACES[0], NATS_SERVER), (NATS_SERVER, HEADRACES[0])]
"""Who accepts, and who connects."""

PORTS: Final = {
    "cluster": r"Listening for route connections on 127\.0\.0\.1:(\d+)$",
    "gateway": r"Listening for gateways connections on 127\.0\.0\.1:(\d+)$",
}
REFUSED: Final = r"(?i)(\[ERR\].*(authentication error|authorization violation|not pinned))"


@dataclass
class Place:
    """Makes servers of one kind of link; `names` of a pair are the hosts it is made out to."""

    folder: Path
    kind: str
    authority: Authority
    running: list[ServerProcess]

    def pair(self, *names: str) -> Pair:
        return self.authority.issue(
            names[0], names=[x509.DNSName(name) for name in names] + list(LOCAL_NAMES)
        )

    def accepting(
        self, program: Program, *tls: str, known: str = "two.example", user: str = ""
    ) -> ServerProcess:
        """`known`: a host of its URLs, which nobody answers at."""
        urls = f'["nats://{known}:1"]'
        block = f"routes: {urls}" if self.kind == "cluster" else f"gateways: [{{ name: b, urls: {urls} }}]"
        if user:
            block += f'\nauthorization {{ user: "{user}", password: "unused" }}'
        return self._start(program, "one", "a", self.pair("one"), block, *tls)

    def connecting(self, program: Program, to: ServerProcess, pair: Pair, name: str = "two") -> ServerProcess:
        urls = f'["nats://127.0.0.1:{to.wait_for_line(PORTS[self.kind])[1]}"]'
        block = f"routes: {urls}" if self.kind == "cluster" else f"gateways: [{{ name: a, urls: {urls} }}]"
        return self._start(program, name, "a" if self.kind == "cluster" else "b", pair, block)

    def _start(
        self, program: Program, name: str, cluster: str, pair: Pair, block: str, *tls: str
    ) -> ServerProcess:
        folder = self.folder / name
        folder.mkdir()
        secured = tls_config(pair, f'ca_file: "{self.authority.file}"', *tls)
        config = (
            f'server_name: {name}\nhttp: "127.0.0.1:-1"\n'
            "accounts { S { users: [{user: s, password: s}] } }\nsystem_account: S\n"
            f'{self.kind} {{ name: {cluster}, listen: "127.0.0.1:-1"\n{block}\n{secured} }}\n'
        )
        self.running.append(ServerProcess(program, folder, config=config))
        return self.running[-1]

    def peers(self, server: ServerProcess) -> set[str]:
        path = "/routez" if self.kind == "cluster" else "/gatewayz"
        with urllib.request.urlopen(f"{server.monitor_url}{path}", timeout=10) as answer:
            document: dict[str, Any] = json.load(answer)
        if self.kind == "cluster":
            return {each["remote_name"] for each in document["routes"]}
        return set(document["inbound_gateways"])

    def wait_for_peers(self, server: ServerProcess, *names: str) -> None:
        wanted = set(names) if self.kind == "cluster" else {"b"} if names else set()
        wait_until(lambda: self.peers(server) == wanted, f"{names} as peers")


@pytest.fixture(params=PORTS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    running: list[ServerProcess] = []
    yield Place(tmp_path, request.param, Authority(tmp_path, "authority"), running)
    for server in reversed(running):
        server.stop()


@pytest.mark.parametrize(("accepting", "connecting"), PAIRS, ids=str)
def test_server_of_a_known_host_may_connect_and_no_other(
    accepting: Program, connecting: Program, place: Place
) -> None:
    first = place.accepting(accepting, "verify_cert_and_check_known_urls: true", known="Two.example")
    place.connecting(connecting, first, place.pair("nobody", "*.two.example"), "stranger")
    first.wait_for_line(REFUSED)
    assert place.peers(first) == set()
    place.running.pop().stop()
    place.connecting(connecting, first, place.pair("two.example"))
    place.wait_for_peers(first, "two")


@pytest.mark.parametrize(("accepting", "connecting"), PAIRS, ids=str)
def test_certificate_says_which_user_a_server_is(
    accepting: Program, connecting: Program, place: Place
) -> None:
    first = place.accepting(accepting, "verify_and_map: true", user="two.user")
    place.connecting(connecting, first, place.pair("nobody", "other.user"), "stranger")
    first.wait_for_line(REFUSED)
    assert place.peers(first) == set()
    place.running.pop().stop()
    place.connecting(connecting, first, place.pair("two.user"))
    place.wait_for_peers(first, "two")


@pytest.mark.parametrize(("accepting", "connecting"), PAIRS, ids=str)
def test_only_pinned_keys_connect_and_stay(accepting: Program, connecting: Program, place: Place) -> None:
    right, wrong = place.pair("right"), place.pair("wrong")
    first = place.accepting(accepting, f"pinned_certs: [{digest(right)}]")
    place.connecting(connecting, first, wrong, "stranger")
    first.wait_for_line(REFUSED)
    assert place.peers(first) == set()
    place.running.pop().stop()
    place.connecting(connecting, first, right)
    place.wait_for_peers(first, "two")


def test_key_that_is_not_pinned_any_more_is_cut_off(tmp_path: Path) -> None:
    """At a reload; the other side is not let in again."""
    place = Place(tmp_path, "cluster", Authority(tmp_path, "authority"), [])
    right, wrong = place.pair("right"), place.pair("wrong")
    with (
        place.accepting(HEADRACES[0], f"pinned_certs: [{digest(right)}]") as first,
        place.connecting(NATS_SERVER, first, right),
    ):
        place.wait_for_peers(first, "two")
        text = first.config_file.read_text()
        first.config_file.write_text(text.replace(digest(right), digest(wrong)))
        first.signal(signal.SIGHUP)
        place.wait_for_peers(first)
        first.wait_for_line(REFUSED)


def digest(pair: Pair) -> str:
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    return key_digest(certificate.public_bytes(Encoding.DER))
