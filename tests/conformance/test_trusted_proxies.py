"""Connections that a proxy signs for: the Go server and Headrace alike."""

from __future__ import annotations

import json
import signal
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from harness.keys import SERVER, KeyPair, key_pair
from harness.operators import signed
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.processes import Program

pytestmark = pytest.mark.clients

PROXY, OTHER_PROXY, STRANGER = (key_pair(SERVER, f"proxy {number}") for number in range(3))
KEYS = f"proxies {{ trusted: [{{key: {PROXY.public}}}, {{public_key: {OTHER_PROXY.public}}}] }}\n"
USERS = """
    authorization { users: [
        {user: inner, password: p, proxy_required: true}
        {user: outer, password: p}
    ] }
"""
SINGLE = "authorization { user: inner, password: p, proxy_required: true }"
TOKEN = "authorization { token: t0ken, proxy_required: true }"
GUEST = f"no_auth_user: inner\n{USERS}"


@pytest.fixture(
    scope="module", params=[USERS, SINGLE, TOKEN, GUEST], ids=["users", "single", "token", "guest"]
)
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[ServerProcess]]:
    started = [
        ServerProcess(
            program, tmp_path_factory.mktemp("proxies"), "-D", "-m", "-1", config=KEYS + request.param
        )
        for program in (NATS_SERVER, *HEADRACES)
    ]
    yield started
    for server in started:
        server.stop()


def fate(
    server: ServerProcess, proxy: KeyPair | None, text: str | None = None, **said: Any
) -> tuple[bytes, str]:
    with server.connect() as wire:
        cid = wire.info["client_id"]
        if proxy is not None:
            said["proxy_sig"] = text if text is not None else signed(proxy, wire.info["nonce"])
        wire.send(b"CONNECT " + json.dumps({"verbose": False, **said}).encode() + b"\r\nPING\r\n")
        answer = wire.take_line()
        if answer == b"PONG\r\n":
            return answer, ""
        answer += wire.take_rest()
        return answer, server.wait_for_line(rf"cid:{cid} .*Client connection closed: (.*)")[1]


SAID: dict[str, dict[str, Any]] = {
    "inner": {"user": "inner", "pass": "p"},
    "outer": {"user": "outer", "pass": "p"},
    "token": {"auth_token": "t0ken"},
    "nothing": {},
}
PROXIES: dict[str, tuple[KeyPair | None, str | None]] = {
    "none": (None, None),
    "trusted": (PROXY, None),
    "the other": (OTHER_PROXY, None),
    "a stranger": (STRANGER, None),
    "another nonce": (PROXY, signed(PROXY, "nonce")),
    "no signature": (PROXY, "*"),
}


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("said", SAID)
def test_connection_has_the_fate_it_has_at_the_go_server(
    servers: list[ServerProcess], said: str, proxy: str
) -> None:
    go, *ours = (fate(server, *PROXIES[proxy], **SAID[said]) for server in servers)

    assert [told for told, _ in ours] == [go[0]] * len(ours)
    if go[1] != "Proxy Required" or right_for(servers[0], said):
        assert [reason for _, reason in ours] == [go[1]] * len(ours)


def right_for(server: ServerProcess, said: str) -> bool:
    """Whether only the proxy is missing; of two reasons either server chooses its own."""
    return fate(server, PROXY, **SAID[said])[0] == b"PONG\r\n"


def test_first_op_other_than_connect_is_no_way_around(servers: list[ServerProcess]) -> None:
    for server in servers:
        with server.connect() as wire:
            wire.send(b"PING\r\n")
            assert b"Authorization Violation" in wire.take_rest()


def test_connz_names_the_proxy(servers: list[ServerProcess]) -> None:
    for server in servers:
        with server.connect() as wire:
            said = {**SAID["token"], **SAID["inner"], "proxy_sig": signed(PROXY, wire.info["nonce"])}
            wire.connect(json.dumps({"verbose": False, **said}).encode())
            with urllib.request.urlopen(f"{server.monitor_url}/connz") as answer:
                (shown,) = json.load(answer)["connections"]
        assert shown["proxy"] == {"key": PROXY.public}


@pytest.mark.parametrize("program", [NATS_SERVER, *HEADRACES], ids=str)
def test_connections_of_a_proxy_that_is_trusted_no_more_are_closed(program: Program, tmp_path: Path) -> None:
    with ServerProcess(program, tmp_path, "-D", config=KEYS + USERS) as server:
        wires = []
        for proxy in (PROXY, OTHER_PROXY):
            wire = server.connect()
            said = {**SAID["inner"], "proxy_sig": signed(proxy, wire.info["nonce"])}
            wire.connect(json.dumps({"verbose": False, **said}).encode())
            wires.append(wire)
        server.config_file.write_text(f"proxies {{ trusted: [{{key: {PROXY.public}}}] }}\n{USERS}")
        server.signal(signal.SIGHUP)
        assert b"Authorization Violation" in wires[1].take_rest()
        server.wait_for_line("Client connection closed: Proxy Not Trusted")
        wires[0].sync()
        for wire in wires:
            wire.close()
