"""Who may connect over MQTT: users, the block's own credentials, tokens, kinds of connections, certificates,
proxies; side by side with the Go server.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from clients.test_tokens import CALLOUT
from clients.test_tokens import serve as serve_callout
from harness.certificates import tls_config
from harness.claims import ACCOUNT_KEY, ACCOUNT_LIMITS, account_token, user_token
from harness.mqtt_servers import mqtt_port, started, websocket_port
from harness.mqtt_stranger import ACCEPTED, Stranger, connect_packet
from harness.operators import configuration
from harness.processes import ALL, HEADRACES
from harness.waiting import wait_until
from harness.websocket import CLOSE, WebSocket, request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clients.conftest import Clients
    from harness.certificates import Authority
    from harness.processes import Program, ServerProcess

REFUSED = "20020005"
USERS = """
authorization { users: [
  {user: any, password: p}
  {user: tcp, password: p, allowed_connection_types: ["MQTT"]}
  {user: web, password: p, allowed_connection_types: ["MQTT_WS"]}
  {user: nats, password: p, allowed_connection_types: ["STANDARD", "WEBSOCKET"]}
] }
"""


@pytest.fixture(scope="module", params=ALL, ids=str)
def program(request: pytest.FixtureRequest) -> Program:
    chosen: Program = request.param
    return chosen


@pytest.fixture(scope="module")
def users(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with users, and a guest over MQTT."""
    folder = tmp_path_factory.mktemp("users")
    with started(program, folder, mqtt="no_auth_user: any", websocket="no_tls: true", more=USERS) as running:
        yield running


def answer(port: int, packet: bytes, **options: Any) -> str:
    """The answer to a CONNECT, in hexadecimal."""
    with Stranger(port, **options) as stranger:
        stranger.send(packet)
        return stranger.take(4).hex()


def answer_by_web(port: int, packet: bytes) -> str:
    """The answer over WebSocket; empty where the connection is closed without one."""
    with WebSocket(port, request(port, path="/mqtt")) as client:
        client.send(packet)
        found = client.take_frame()
        return "" if found.opcode == CLOSE else found.data.hex()


@pytest.mark.parametrize(
    ("user", "password", "over_tcp", "over_web"),
    [
        ("any", "p", True, True),
        ("any", "wrong", False, False),
        ("any", b"p\xff", False, False),
        ("", "", True, True),
        ("nobody", "p", False, False),
        ("tcp", "p", True, False),
        ("web", "p", False, True),
        ("nats", "p", False, False),
    ],
)
def test_users_and_their_kinds_of_connections(
    users: ServerProcess, user: str, password: str | bytes, over_tcp: bool, over_web: bool
) -> None:
    packet = connect_packet(f"{user}-{len(password)}", user=user, password=password)

    assert answer(mqtt_port(users), packet) == (ACCEPTED if over_tcp else REFUSED)
    assert (answer_by_web(websocket_port(users), packet) == ACCEPTED) == over_web


def test_the_upgrade_says_mqtt_whether_it_was_asked_for_or_not(users: ServerProcess) -> None:
    port = websocket_port(users)
    for asked in ({}, {"Sec_WebSocket_Protocol": "mqtt"}):
        with WebSocket(port, request(port, path="/some/mqtt?x=y", **asked)) as client:
            assert "sec-websocket-protocol: mqtt" in client.response.lower()


def end_by_web(server: ServerProcess, *packets: bytes) -> tuple[str, int | None]:
    """The answers to these packets, and the code of the close frame."""
    port = websocket_port(server)
    with WebSocket(port, request(port, path="/mqtt")) as client:
        for packet in packets:
            client.send(packet)
        answers, code = client.take_end()
    return answers.hex(), code


def test_disconnect_over_websocket_is_answered_by_a_close_frame(users: ServerProcess) -> None:
    leaving = bytes.fromhex("e000")

    assert end_by_web(users, connect_packet("leaves", user="any", password="p"), leaving) == (ACCEPTED, 1000)


def test_refusals_over_websocket_are_told(users: ServerProcess, program: Program) -> None:
    if not program.is_headrace:
        pytest.skip("nats-server loses the last words now and then")
    good = connect_packet("twice", user="any", password="p")

    assert end_by_web(users, good, good) == (ACCEPTED, 1002)
    assert end_by_web(users, connect_packet(user="nobody", password="p")) == (REFUSED, 1008)


def test_a_connect_over_websocket_may_have_a_large_will(users: ServerProcess) -> None:
    packet = connect_packet("large", user="any", password="p", will=("t", bytes(65_535)))

    assert answer_by_web(websocket_port(users), packet) == ACCEPTED


@pytest.fixture(scope="module")
def own(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose MQTT block has a user of its own."""
    folder = tmp_path_factory.mktemp("own")
    block = "authorization { user: m, password: q, timeout: 5 }"
    with started(program, folder, mqtt=block, more="authorization { user: g, password: p }") as running:
        yield running


@pytest.mark.parametrize(
    ("user", "password", "expected"), [("m", "q", ACCEPTED), ("g", "p", REFUSED), ("", "", REFUSED)]
)
def test_credentials_of_the_block_replace_the_server_s(
    own: ServerProcess, user: str, password: str, expected: str
) -> None:
    assert answer(mqtt_port(own), connect_packet(user=user, password=password)) == expected


def test_a_token_is_given_as_the_password_of_any_user(program: Program, tmp_path: Path) -> None:
    with started(program, tmp_path, more='authorization { token: "secret" }') as server:
        port = mqtt_port(server)
        given = [("x", "secret"), ("y", "secret"), ("x", "wrong"), ("secret", ""), ("", "")]
        answers = [answer(port, connect_packet(user=user, password=word)) for user, word in given]

    assert answers == [ACCEPTED, ACCEPTED, REFUSED, REFUSED, REFUSED]


def test_a_bearer_token_of_a_user_is_given_as_the_password(program: Program, tmp_path: Path) -> None:
    limits = {**ACCOUNT_LIMITS, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    accounts = configuration({ACCOUNT_KEY.public: account_token(limits=limits)})
    bearer = user_token(bearer_token=True)
    with started(program, tmp_path, more=accounts) as server:
        port = mqtt_port(server)
        given = [
            bearer,
            user_token(),  # to be signed with a nonce that nobody has
            user_token(bearer_token=True, allowed_connection_types=["STANDARD"]),
            user_token(bearer_token=True, allowed_connection_types=["MQTT"]),
            "no token",
        ]
        answers = [answer(port, connect_packet(user="any", password=token)) for token in given]

    assert answers == [ACCEPTED, REFUSED, REFUSED, ACCEPTED, REFUSED]


async def test_a_callout_service_decides(program: Program, tmp_path: Path, connect: Clients) -> None:
    accounts = CALLOUT.replace("T { users", "T { jetstream: enabled, users")
    assert accounts != CALLOUT
    with started(program, tmp_path, more=accounts) as server:
        await serve_callout(await connect(server, user="service", password="s3rvice"))
        port = mqtt_port(server)
        answers = [
            await asyncio.to_thread(answer, port, connect_packet(user=user, password=password))
            for user, password in (("joe", "j0e"), ("joe", "no"), ("eve", "j0e"), ("local", "l0cal"))
        ]

    assert answers == [ACCEPTED, REFUSED, REFUSED, REFUSED]


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_no_level_of_the_log_shows_a_secret(program: Program, tmp_path: Path) -> None:
    users = "authorization { users: [ {user: a, password: s3cret} ] }\ndebug: true\ntrace: true"
    with started(program, tmp_path, more=users) as server:
        port = mqtt_port(server)
        assert answer(port, connect_packet(user="a", password="s3cret")) == ACCEPTED
        assert answer(port, connect_packet(user="a", password="wr0ng")) == REFUSED
        server.wait_for_line("unable to connect: authentication error")
    assert "username=a password=****" in server.log, "it is traced"
    assert [word for word in ("s3cret", "wr0ng") if word in server.log] == []


# -- TLS ------------------------------------------------------------------------------------------


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.file))


def test_clients_without_tls_may_come_beside_those_with_it(
    program: Program, tmp_path: Path, authority: Authority
) -> None:
    tls = tls_config(authority.issue("mqtt-server"))
    with started(program, tmp_path, mqtt=tls, more=f"allow_non_tls: true\n{tls}") as server:
        port = mqtt_port(server)

        assert answer(port, connect_packet()) == ACCEPTED
        assert answer(port, connect_packet(), context=trusting(authority)) == ACCEPTED


def test_only_pinned_certificates_are_let_in(program: Program, tmp_path: Path, authority: Authority) -> None:
    import hashlib

    from cryptography.hazmat.primitives import serialization

    pinned, other = authority.issue("pinned"), authority.issue("other")
    key = pinned.x509.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    more = (
        f'ca_file: "{authority.file}"',
        "verify: true",
        f'pinned_certs: ["{hashlib.sha256(key).hexdigest()}"]',
    )
    tls = tls_config(authority.issue("pinning-server"), *more)
    with started(program, tmp_path, mqtt=tls) as server:
        answers = []
        for pair in (pinned, other):
            context = trusting(authority)
            context.load_cert_chain(pair.certificate, pair.key)
            with Stranger(mqtt_port(server), context=context) as stranger:
                stranger.send(connect_packet())
                answers.append(stranger.rest_or(4))

    assert answers == [bytes.fromhex(ACCEPTED), b""]


# -- what only this server does --------------------------------------------------------------------


@pytest.mark.parametrize("program", HEADRACES[:1], ids=str)
def test_client_is_who_a_proxy_says(program: Program, tmp_path: Path) -> None:
    with started(program, tmp_path, more="proxy_protocol: true\nhttp: 127.0.0.1:-1") as server:
        port = mqtt_port(server)
        header = b"PROXY TCP4 192.0.2.1 10.0.0.1 5000 1883\r\n"
        with Stranger(port) as stranger, Stranger(port) as plain:
            stranger.send(header + connect_packet("proxied"))
            plain.send(connect_packet("plain"))
            assert stranger.take(4).hex() == plain.take(4).hex() == ACCEPTED
            rows = wait_until(lambda: connections(server, 2), "both in /connz")

    assert {row["mqtt_client"]: (row["ip"], row["port"]) for row in rows} == {
        "proxied": ("192.0.2.1", 5000),
        "plain": plain.address,
    }


def connections(server: ServerProcess, count: int) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{server.monitor_url}/connz") as response:
        rows: list[dict[str, Any]] = json.load(response)["connections"]
    return rows if len(rows) == count else []
