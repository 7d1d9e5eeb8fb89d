"""Reload beside every way to say who one is: nkeys, tokens of accounts, certificates, WebSocket."""

from __future__ import annotations

import base64
import json
import signal
from typing import TYPE_CHECKING

import pytest

from harness import operators
from harness.claims import account_token, user_token
from harness.keys import ACCOUNT, USER, KeyPair, key_pair
from harness.waiting import wait_until
from harness.websocket import WebSocket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.certificates import Authority
    from harness.processes import ServerProcess
    from harness.wire import Wire

RELOADED = r"\[INF\] Reloaded server configuration"
REFUSED = r"\[ERR\] Failed to reload server configuration: "
ONE, TWO = key_pair(USER, "one"), key_pair(USER, "two")


def reload(server: ServerProcess, text: str, expected: str = RELOADED) -> None:
    mark = len(server.lines)
    server.config_file.write_text(text)
    server.signal(signal.SIGHUP)
    server.wait_for_line(expected, after=mark)


# -- nkeys --------------------------------------------------------------------------------------------


def nkeys(*pairs: KeyPair, more: str = "") -> str:
    return f"authorization {{ users: [{', '.join(f'{{nkey: {pair.public} {more}}}' for pair in pairs)}] }}\n"


def enter(server: ServerProcess, pair: KeyPair) -> Wire:
    wire = server.connect()
    signature = base64.urlsafe_b64encode(pair.sign(wire.info["nonce"].encode())).decode().rstrip("=")
    options = {"nkey": pair.public, "sig": signature, "verbose": False, "pedantic": False}
    wire.connect(json.dumps(options).encode())
    return wire


def test_nkeys_come_and_go(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config=nkeys(ONE, TWO))
    with enter(server, ONE) as one, enter(server, TWO) as two:
        one.send(b"SUB x 1\r\n")
        one.sync()

        reload(server, nkeys(ONE, more=', permissions: {publish: ["x"]}'))

        assert two.take_rest() == b""
        one.send(b"PUB x 1\r\n.\r\nPUB y 1\r\n.\r\n")
        assert one.sync() == b"MSG x 1 1\r\n.\r\n-ERR 'Permissions Violation for Publish to \"y\"'\r\n"
        reload(server, nkeys(TWO))
        assert one.take_rest() == b""
    with enter(server, TWO) as two:
        assert two.sync() == b""


def test_nonce_comes_with_the_first_nkey(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config="ping_max: 5\n")
    with server.connect() as early:
        assert "nonce" not in early.info
        reload(server, nkeys(ONE))
        with enter(server, ONE) as one:
            assert one.sync() == b""
        early.send(b"CONNECT {}\r\n")
        assert early.take_rest() == b"-ERR 'Authorization Violation'\r\n"


# -- operator mode ------------------------------------------------------------------------------------

TENANT = key_pair(ACCOUNT, "tenant")
OTHER = key_pair(ACCOUNT, "other tenant")


def test_clients_with_tokens_are_not_disturbed(serve: Callable[..., ServerProcess]) -> None:
    tokens = {TENANT.public: account_token(subject=TENANT)}
    server = serve(config=operators.configuration(tokens))
    with operators.enter(server, user_token(TENANT, ONE), ONE) as client:
        client.send(b"SUB x 1\r\n")
        client.sync()

        reload(server, operators.configuration(tokens, more="max_payload: 5\nmappings: {a: b}\nping_max: 7"))

        client.send(b"PUB x 5\r\n12345\r\n")
        assert client.sync() == b"MSG x 1 5\r\n12345\r\n"
        with operators.enter(server, user_token(TENANT, TWO), TWO) as other:
            assert other.info["max_payload"] == 5
        client.send(b"PUB x 6\r\n123456\r\n")
        assert b"Maximum Payload Violation" in client.take_rest()


def test_other_tokens_of_accounts_need_a_restart(serve: Callable[..., ServerProcess]) -> None:
    tokens = {TENANT.public: account_token(subject=TENANT)}
    server = serve(config=operators.configuration(tokens))
    with operators.enter(server, user_token(TENANT, ONE), ONE) as client:
        more = {**tokens, OTHER.public: account_token(subject=OTHER)}
        reload(server, operators.configuration(more), REFUSED + r"config reload not supported for operator")
        assert client.sync() == b""


# -- certificates -------------------------------------------------------------------------------------


def mapped(authority: Authority, tmp_path: Path, *names: str) -> str:
    pair = authority.issue("mapping-server")
    users = ", ".join(f'{{user: "CN={name}"}}' for name in names)
    return (
        f'tls {{ cert_file: "{pair.certificate}", key_file: "{pair.key}", ca_file: "{authority.file}"'
        f", verify_and_map: true }}\nauthorization {{ users: [{users}] }}\n"
    )


def test_certificate_that_names_no_user_any_more(
    serve: Callable[..., ServerProcess], authority: Authority, tmp_path: Path
) -> None:
    server = serve(config=mapped(authority, tmp_path, "stays", "goes"))
    wires = []
    for name in ("stays", "goes"):
        wire = server.connect()
        wire.upgrade(authority.client_context(authority.issue(name)))
        wire.connect()
        wires.append(wire)

    reload(server, mapped(authority, tmp_path, "stays"))

    assert wires[0].sync() == b""
    assert wires[1].take_rest() == b""
    for wire in wires:
        wire.close()


# -- WebSocket ----------------------------------------------------------------------------------------

WEBSOCKET = 'websocket { host: "127.0.0.1", port: -1, no_tls: true }\n'


def test_clients_over_websocket_are_judged_alike(serve: Callable[..., ServerProcess]) -> None:
    users = "authorization {{ users: [{{user: a, password: {}}}, {{user: b, password: p}}] }}\n"
    server = serve(config=WEBSOCKET + users.format("p"))
    line = server.wait_for_line(r"Listening for websocket clients on ws://127\.0\.0\.1:(\d+)")

    def websocket(user: str, password: str = "p") -> WebSocket:
        found = WebSocket(int(line.group(1)))
        options = {"user": user, "pass": password, "verbose": False, "pedantic": False}
        found.connect(json.dumps(options).encode())
        return found

    with websocket("a") as a, websocket("b") as b:
        reload(server, WEBSOCKET + users.format("q") + "max_payload: 100\n")
        assert a.take_end()[0] == b"-ERR 'Authorization Violation'\r\n"
        assert b.sync() == b""
    with websocket("a", "q") as a:
        a.send(b"PUB x 101\r\n")
        assert a.take_end()[0] == b"-ERR 'Maximum Payload Violation'\r\n"


def test_other_websocket_settings_need_a_restart(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config=WEBSOCKET)

    text = WEBSOCKET.replace("no_tls: true", "no_tls: true, compression: true")
    reload(
        server, text, REFUSED + r"config reload not supported for websocket\.compression: old=false, new=true"
    )


# -- many at once -------------------------------------------------------------------------------------


def test_burst_of_signals_ends_with_the_last_file(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config="max_payload: 1000\n")
    with server.connect(b"") as wire:
        for number in range(1, 30):
            text = f"max_payload: {number}\n" if number % 3 else "max_payload: {\n"
            server.config_file.write_text(text)
            server.signal(signal.SIGHUP)
        wait_until(lambda: "Reloaded: max_payload = 29" in server.log, "the last file")
        assert wire.sync() == b""
    with server.connect() as wire:
        assert wire.info["max_payload"] == 29
    assert server.stop() == 0


@pytest.mark.parametrize("order", ["reload first", "lame duck first"])
def test_reload_and_lame_duck_at_once(serve: Callable[..., ServerProcess], order: str) -> None:
    server = serve(config='lame_duck_grace_period: "300ms"\n')
    server.config_file.write_text('lame_duck_grace_period: "200ms"\nmax_payload: 9\n')
    with server.connect() as wire:
        wire.connect(b'{"verbose":false,"protocol":1}')
        numbers = [signal.SIGHUP, signal.SIGUSR2]
        for number in numbers if order == "reload first" else reversed(numbers):
            server.signal(number)
        assert server.wait() == 0
    assert "Reloaded server configuration" in server.log
