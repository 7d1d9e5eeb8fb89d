"""What becomes of connections when one cannot be accepted, is gone already, or cannot be opened."""

from __future__ import annotations

import errno
import logging
import socket
import struct
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from harness.waiting import wait_until
from headrace.engine.reasons import CloseReason
from headrace.server import acceptor
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable

TRANSPORTS = ["epoll", "asyncio"] if sys.platform == "linux" else ["asyncio"]


def greeting(server: Server) -> bytes:
    with socket.create_connection((server.host, server.port), timeout=20) as client:
        return client.recv(6, socket.MSG_WAITALL)


@pytest.fixture(params=TRANSPORTS)
def serve(request: pytest.FixtureRequest) -> Callable[..., Server]:
    return partial(Server, transport=request.param)


class Failing:
    """A poller, or a listening socket, that fails to accept so often and does everything else."""

    def __init__(self, inner: Any, failures: list[OSError]) -> None:
        self._inner = inner
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def accept(self, *arguments: Any) -> Any:
        if self._failures:
            raise self._failures.pop()
        return self._inner.accept(*arguments)


@pytest.mark.parametrize("number", [errno.ENFILE, errno.ENOBUFS])
def test_accepting_pauses_when_the_system_has_no_room(
    serve: Callable[..., Server],
    number: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(acceptor, "ACCEPT_PAUSE", 0.001)
    failures = [OSError(number, "no room in the kitchen")]
    with serve() as server, caplog.at_level(logging.ERROR):
        listener = server.server.listeners.client
        assert listener is not None
        name = "_sock" if listener._poller is None else "_poller"
        monkeypatch.setattr(listener, name, Failing(getattr(listener, name), failures))
        assert greeting(server) == b"INFO {"
        assert not failures
    assert caplog.messages == [
        "Temporary Client Accept Error (no room in the kitchen), sleeping 1ms",
    ]


def test_peer_that_resets_at_once_is_a_closed_connection_like_others(serve: Callable[..., Server]) -> None:
    with serve() as server:
        for _ in range(20):
            client = socket.create_connection(("127.0.0.1", server.port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        wait_until(lambda: server.call(lambda: len(server.server.clients.closed)) == 20, "all are gone")
        assert server.call(lambda: len(server.server.clients)) == 0
        reasons = {record.reason for record in server.call(lambda: list(server.server.clients.closed))}
        assert reasons <= {CloseReason.READ_ERROR, CloseReason.WRITE_ERROR, CloseReason.CLIENT_CLOSED}
        assert greeting(server) == b"INFO {"


@pytest.mark.skipif(sys.platform != "linux", reason="epoll")
def test_mistake_while_a_connection_is_opened_is_logged_and_the_next_one_is_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Server() as server:
        clients = server.server.clients
        new_session = clients.new_session

        def fail_once(*_: object) -> Any:
            monkeypatch.setattr(clients, "new_session", new_session)
            raise mistake

        mistake = RuntimeError("a mistake of ours")
        monkeypatch.setattr(clients, "new_session", fail_once)
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            assert client.recv(1) == b""
        assert greeting(server) == b"INFO {"
    (record,) = caplog.records
    assert record.getMessage() == "internal error"
    assert record.exc_info is not None
    assert record.exc_info[1] is mistake


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_address_of_a_client_is_the_one_it_has(serve: Callable[..., Server], host: str) -> None:
    with serve(host=host) as server, socket.create_connection((host, server.port)) as client:
        assert client.recv(6, socket.MSG_WAITALL) == b"INFO {"
        (session,) = server.call(lambda: list(server.server.clients))
        assert (session.address, session.port) == client.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        assert session.label == f"{shown}:{session.port} - cid:{session.cid} -"
