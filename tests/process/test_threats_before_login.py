"""What somebody without credentials can try at the client port, and that it fails (THREAT_MODEL.md)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.waiting import wait_until
from headrace.protocol import nkeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

KEY: Final = Ed25519PrivateKey.generate()
NKEY: Final = nkeys.encode_public(nkeys.KeyKind.USER, KEY.public_key().public_bytes_raw())
CONFIG: Final = f"""
authorization {{
  timeout: "500ms"
  users: [{{user: joe, password: pw}}, {{nkey: {NKEY}}}]
}}
"""
JOE: Final = b'{"verbose":false,"user":"joe","pass":"pw"}'
VIOLATION: Final = b"-ERR 'Authorization Violation'\r\n"
TIMEOUT: Final = b"-ERR 'Authentication Timeout'\r\n"
UNKNOWN: Final = b"-ERR 'Unknown Protocol Operation'\r\n"
TOO_LONG: Final = b"-ERR 'maximum control line exceeded'\r\n"


@pytest.fixture(scope="module")
def server(attacked: ServerProcess) -> ServerProcess:
    return attacked


def resident_bytes(server: ServerProcess) -> int:
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096


def test_flood_without_a_line_end_is_cut_off_at_one_control_line(server: ServerProcess) -> None:
    before = resident_bytes(server)
    for start in (b"CONNECT {", b"CONNECT " + b" " * 100, b"C", b"x", b"\r\n" * 100, b"PING\r\n" * 100):
        with server.connect() as wire:
            wire.send(start)
            for _ in range(160):
                wire.send(b"a" * 65536)
            assert wire.take_rest() in (TOO_LONG, VIOLATION, UNKNOWN, TIMEOUT, b"")
    assert resident_bytes(server) - before < 8 << 20


@pytest.mark.parametrize("size", [4096, 5000, 1 << 20])
def test_connect_that_is_too_long_is_refused_unread(server: ServerProcess, size: int) -> None:
    with server.connect() as wire:
        padded = json.dumps({"user": "joe", "pass": "pw", "name": "x" * size})
        wire.send(f"CONNECT {padded}\r\nPING\r\n".encode())
        assert wire.take_rest() == TOO_LONG


def test_connect_that_comes_byte_by_byte_ends_with_the_authentication_timeout(server: ServerProcess) -> None:
    with server.connect() as wire:
        for number in range(4000):
            wire.send((b'CONNECT {"name":"' + b"a" * 4000)[number : number + 1])
            if wire.fill(0.02):
                break
        assert wire.take_rest() == TIMEOUT


@pytest.mark.parametrize(
    "said", [b"", b"C", b"CONNECT ", b'CONNECT {"user":"joe","pass":"pw"', b"CONNECT {}\r"]
)
def test_slow_sender_ends_with_the_authentication_timeout(server: ServerProcess, said: bytes) -> None:
    with server.connect() as wire:
        wire.send(said)
        assert wire.take_rest() == TIMEOUT


def test_crowd_of_silent_connections_is_gone_after_the_timeout_and_others_are_served(
    server: ServerProcess,
) -> None:
    descriptors = server.descriptors()
    crowd = [server.connect() for _ in range(200)]
    try:
        with server.connect(JOE) as wire:
            wire.sync()
        for silent in crowd:
            assert silent.take_rest() == TIMEOUT
    finally:
        for silent in crowd:
            silent.close()
    wait_until(lambda: server.descriptors() <= descriptors, "descriptors given back")


@pytest.mark.parametrize(
    "op",
    [
        *(b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'x'\r\n", b"INFO {}\r\n", b"SUB > 1\r\n"),
        *(
            b"PUB a 1\r\nx\r\n",
            b"UNSUB 1\r\n",
            b"HPUB a 1 1\r\n",
            b"GET / HTTP/1.1\r\n",
            b"\x16\x03\x01\x02\x00",
        ),
        b"\r\n",
    ],
)
def test_nothing_but_connect_is_taken_before_connect(server: ServerProcess, op: bytes) -> None:
    with server.connect() as listener, server.connect() as wire:
        listener.send(b"CONNECT " + JOE + b"\r\nSUB a 1\r\n")
        listener.sync()
        wire.send(op + b"CONNECT " + JOE + b"\r\nPING\r\n")
        assert wire.take_rest() == VIOLATION
        assert listener.sync() == b""


BOMBS: Final = {
    "nested objects": b'{"a":' * 700 + b"1" + b"}" * 500,
    "nested lists": b'{"a":' + b"[" * 3900 + b"}",
    "balanced lists": b'{"a":' + b"[" * 1900 + b"]" * 1900 + b"}",
    "many digits": b'{"protocol":' + b"9" * 3900 + b"}",
    "unknown many digits": b'{"a":' + b"9" * 3900 + b"}",
    "exponent": b'{"protocol":1e999999999}',
    "unknown exponent": b'{"a":1e999999999}',
    "not a number": b'{"protocol":NaN}',
    "many keys": b"{" + b",".join(b'"%d":0' % number for number in range(500)) + b"}",
    "repeated key": b"{" + b",".join([b'"user":"joe"'] * 300) + b"}",
    "escapes": b'{"name":"' + b"\\u0000" * 600 + b'"}',
    "half a surrogate": b'{"user":"\\ud800","pass":"\\udfff"}',
    "bytes that are no text": b'{"user":"\xff\xfe\x80"}',
    "NUL": b"\0" * 100,
    "list": b"[]",
    "text": b'"joe"',
    "null": b"null",
    "wrong types": b'{"user":{"$ne":""},"pass":["pw"]}',
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_json_bomb_is_refused_at_once(server: ServerProcess, bomb: bytes) -> None:
    with server.connect() as wire:
        wire.send(b"CONNECT " + bomb + b"\r\nPING\r\n")
        assert wire.take_rest() in (VIOLATION, b"")  # not the timeout: it is quick
    with server.connect(JOE) as wire:
        wire.sync()


def test_guess_costs_a_connection_each(server: ServerProcess) -> None:
    with server.connect() as wire:
        wire.send(b"".join(b'CONNECT {"user":"joe","pass":"%d"}\r\n' % number for number in range(100)))
        wire.send(b"CONNECT " + JOE + b"\r\nPING\r\n")
        assert wire.take_rest() == VIOLATION


def signed(nonce: str) -> bytes:
    signature = base64.urlsafe_b64encode(KEY.sign(nonce.encode())).decode().rstrip("=")
    return json.dumps({"verbose": False, "nkey": NKEY, "sig": signature}).encode()


def test_signature_of_another_connections_nonce_is_refused(server: ServerProcess) -> None:
    with server.connect() as first, server.connect() as second:
        assert first.info["nonce"] != second.info["nonce"]
        overheard = signed(first.info["nonce"])
        first.connect(overheard)
        second.send(b"CONNECT " + overheard + b"\r\nPING\r\n")
        assert second.take_rest() == VIOLATION
    with server.connect() as later:  # and when the one it was made for has gone
        later.send(b"CONNECT " + overheard + b"\r\nPING\r\n")
        assert later.take_rest() == VIOLATION


@pytest.mark.parametrize("signature", ["", "AAAA", "A" * 86, "é" * 10, "=" * 86, "A" * 3000])
def test_made_up_signature_is_refused(server: ServerProcess, signature: str) -> None:
    with server.connect() as wire:
        wire.send(f"CONNECT {json.dumps({'nkey': NKEY, 'sig': signature})}\r\nPING\r\n".encode())
        assert wire.take_rest() == VIOLATION


def test_refused_client_learns_the_same_whether_the_user_exists(server: ServerProcess) -> None:
    heard = []
    for user in ("joe", "nobody", "", "joe\u0000", NKEY):
        with server.connect() as wire:
            wire.send(f"CONNECT {json.dumps({'user': user, 'pass': 'guess'})}\r\n".encode())
            heard.append(wire.take_rest())
    assert set(heard) == {VIOLATION}


def test_info_before_login_names_no_user_account_or_subject(server: ServerProcess) -> None:
    with server.connect() as wire:
        assert wire.info.keys() <= {
            *("server_id", "server_name", "version", "proto", "git_commit", "go", "host", "port", "headers"),
            *("auth_required", "max_payload", "client_id", "client_ip", "nonce", "api_lvl"),
        }


def test_flood_of_failed_logins_does_not_flood_the_log(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config=CONFIG)
    before = len(server.lines)
    for _ in range(200):
        with server.connect() as wire:
            wire.send(b'CONNECT {"user":"joe","pass":"guess"}\r\n')
            wire.take_rest()
    server.stop()
    assert len(server.lines) - before < 60
    assert 'more errors that begin with "authentication error" were not logged' in server.log
