"""Clients that connect and say nothing, stop answering, or vanish."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from headrace.conf.account_options import AccountOptions, AuthorizationOptions, UserOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.conftest import Served
    from harness.wire import Wire

BEGINNINGS: Final = (
    b"",
    b"P",
    b"PUB a 100000\r\n",
    b"PUB a 100000\r\n" + bytes(70000),
    b"PUB a 10\r\n0123456789",
    b"PUB a 10\r\n0123456789\r",
    b"HPUB a 12 100\r\nNATS/1.0\r\n",
    b"SUB a.b.c",
    b"SUB a 1\r\nSUB b q 2\r\nUNSUB 1 5\r\nPI",
    b'CONNECT {"verbose":fal',
    b"PING\r\n" * 100 + b"PIN",
)
"""What a client had said when it went away."""


def reset(wire: Wire) -> None:
    """Away without a goodbye: the server gets a reset."""
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


def test_silent_client_without_authentication_stays(serve: Callable[..., Served]) -> None:
    served = serve(authorization=AuthorizationOptions(timeout=0.05))
    with served.connect(None) as silent:
        time.sleep(0.2)  # several times the timeout: what is tested is that nothing happens
        served.check()

        assert silent.sync() == b""


def test_silent_client_that_must_authenticate_is_told_and_closed(serve: Callable[..., Served]) -> None:
    served = serve(authorization=AuthorizationOptions(token="t", timeout=0.05))
    with served.connect(None) as silent:
        assert silent.take_rest() == b"-ERR 'Authentication Timeout'\r\n"
    with served.connect(b'{"verbose":false,"auth_token":"t"}') as authenticated:
        time.sleep(0.15)  # the timeout was for authentication, which is done
        assert authenticated.sync() == b""

    assert served.closed_reasons()[0] == "Authentication Timeout"


@pytest.mark.parametrize("account", ["$G", "A"])
def test_silent_client_is_no_guest(serve: Callable[..., Served], account: str) -> None:
    """Who acts as `no_auth_user` has said something; as with the Go server others are given up."""
    users = (UserOptions(user="guest", password="p"),)
    authorization = AuthorizationOptions(users=users if account == "$G" else (), timeout=0.05)
    accounts = (AccountOptions("A", users=users),) if account == "A" else ()
    served = serve(authorization=authorization, accounts=accounts, no_auth_user="guest")
    with served.connect(None) as guest, served.connect(None) as silent:
        assert guest.sync() == b""
        assert silent.take_rest() == b"-ERR 'Authentication Timeout'\r\n"
        assert guest.sync() == b""


def test_client_that_stops_answering_pings_is_stale(serve: Callable[..., Served]) -> None:
    served = serve(ping_interval=0.05, ping_max=2)
    with served.connect() as dead, served.connect() as lively:
        dead.send(b"SUB a 1\r\n")
        said = b""
        while not dead.closed:
            lively.send(b"PONG\r\n")
            lively.sync()
            dead.fill(0.01)
        said = dead.take()

        assert said.endswith(b"-ERR 'Stale Connection'\r\n")
        assert said.count(b"PING\r\n") == 2
        assert lively.sync() in (b"", b"PING\r\n")
        assert served.server.clients.stale_connections == 1


@pytest.mark.parametrize("leave", [reset, lambda wire: wire.close()], ids=["reset", "close"])
def test_clients_that_vanish_inside_a_frame_leave_nothing(
    serve: Callable[..., Served], leave: Callable[[Wire], None]
) -> None:
    served = serve()
    with served.connect() as witness:
        witness.send(b"SUB > 1\r\n")
        witness.sync()
        for beginning in BEGINNINGS:
            wire = served.connect(None)
            wire.send(beginning)
            leave(wire)
        served.wait_for_connections(1)

        assert witness.sync() == b""


def test_client_that_closes_its_side_still_hears_what_it_asked_for(serve: Callable[..., Served]) -> None:
    served = serve()
    with served.connect() as wire:
        wire.send(b"SUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n")
        wire.half_close()

        assert wire.take_rest() == b"MSG a 1 2\r\nhi\r\nPONG\r\n"


def test_killed_clients_leave_nothing(serve: Callable[..., Served]) -> None:
    served = serve()
    program = (
        "import socket, sys, time\n"
        f"socks = [socket.create_connection(('127.0.0.1', {served.server.port})) for _ in range(50)]\n"
        "for s in socks: s.sendall(b'CONNECT {}\\r\\nSUB a 1\\r\\nPUB b 100\\r\\nhalf')\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as clients:
        assert clients.stdout is not None
        assert clients.stdout.readline() == b"ready\n"
        served.wait_for_connections(50)
        with served.connect() as publisher:
            for _ in range(20):
                publisher.send(b"PUB a 10\r\n0123456789\r\n")
            publisher.sync()
            clients.kill()
            clients.wait()
            served.wait_for_connections(1)
            publisher.send(b"PUB a 1\r\nx\r\n")
            assert publisher.sync() == b""
    served.check()
