"""bcrypt takes long on purpose; nobody but the client that must prove itself waits for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import bcrypt
import pytest

from headrace.conf.account_options import AuthorizationOptions, UserOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.conftest import Served

ROUNDS = 10
"""About fifty milliseconds a check."""

JOE = b'CONNECT {"user":"joe","pass":"pw","verbose":false,"pedantic":false}\r\n'
AMY = b'{"user":"amy","pass":"plain","verbose":false,"pedantic":false}'


@pytest.fixture(scope="module")
def users() -> AuthorizationOptions:
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(ROUNDS)).decode()
    return AuthorizationOptions(
        users=(UserOptions(user="joe", password=hashed), UserOptions(user="amy", password="plain"))
    )


def test_others_are_served_while_passwords_are_checked(
    serve: Callable[..., Served], users: AuthorizationOptions
) -> None:
    served = serve(authorization=users)
    slow = [served.connect(None) for _ in range(8)]
    try:
        with served.connect(AMY) as quick:
            for wire in slow:
                wire.send(JOE + b"PING\r\n")
            waits = []
            for _ in range(20):
                began = time.monotonic()
                quick.sync()
                waits.append(time.monotonic() - began)
            assert sorted(waits)[10] < 0.05  # one check alone takes as long
        for wire in slow:
            assert wire.take_through(b"PONG\r\n") == b"PONG\r\n"
    finally:
        for wire in slow:
            wire.close()


def test_ops_sent_behind_connect_wait_for_the_check_in_order(
    serve: Callable[..., Served], users: AuthorizationOptions
) -> None:
    served = serve(authorization=users)
    with served.connect(None) as wire:
        wire.send(JOE + b"SUB a 1\r\nPUB a 300000\r\n" + b"x" * 300_000 + b"\r\nPING\r\n")

        assert wire.take_through(b"PONG\r\n") == b"MSG a 1 300000\r\n" + b"x" * 300_000 + b"\r\nPONG\r\n"


def test_client_that_leaves_during_its_check_leaves_nothing(
    serve: Callable[..., Served], users: AuthorizationOptions
) -> None:
    served = serve(authorization=users)
    for ending in (b"", b"SUB a 1\r\n", b"PUB a 100000\r\nhalf"):
        wire = served.connect(None)
        wire.send(JOE + ending)
        wire.close()
    served.wait_for_connections(0)

    with served.connect(AMY) as other:
        assert other.sync() == b""


def test_server_that_ends_during_a_check_leaves_nothing(
    serve: Callable[..., Served], users: AuthorizationOptions
) -> None:
    served = serve(authorization=users)
    with served.connect(None) as wire:
        wire.send(JOE + b"SUB a 1\r\n")
        served.wait_for_connections(1)

        served.embedded.call(served.server.stop)

        assert wire.take_rest() == b""
