"""A connection that comes back: with its subscriptions, within a time limit, and not where it is refused."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Self

import pytest

from headrace.client.errors import (
    ClientTimeoutError,
    ConnectError,
    ConnectionLostError,
    NoRespondersError,
    ServerError,
)
from headrace.client.options import ConnectOptions
from headrace.client.reconnecting import reconnecting

if TYPE_CHECKING:
    from types import TracebackType

INFO = b'INFO {"max_payload":64,"headers":true}\r\n'


class Script:
    """A server of which each connection says one text behind CONNECT, and then goes or stays."""

    def __init__(self, *texts: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(30)
        self.url = f"nats://127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard: list[bytes] = []
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run, args=(texts,), daemon=True)
        self._thread.start()

    def _run(self, texts: tuple[bytes, ...]) -> None:
        for place, text in enumerate(texts):
            near, _ = self._listener.accept()
            self._open.append(near)
            near.sendall(INFO)
            heard = near.recv(4096)
            if text.startswith(b"-ERR"):
                near.sendall(text)
                near.close()
                continue
            near.sendall(b"PONG\r\n")
            while b"SUB" not in heard:
                heard += near.recv(4096)
            self.heard.append(heard)
            near.sendall(text)
            if place < len(texts) - 1:
                near.close()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join(30)
        for each in self._open:
            each.close()


def test_subscriptions_are_made_again_and_messages_go_on() -> None:
    told: list[str] = []
    with (
        Script(b"MSG a 1 1\r\n1\r\n", b"MSG a 1 1\r\n2\r\n") as server,
        reconnecting(
            server.url,
            on_loss=lambda error: told.append(type(error).__name__),
            on_return=lambda: told.append("back"),
        ) as connection,
    ):
        sid = connection.subscribe("a")
        payloads = []
        while len(payloads) < 2:
            payloads += connection.receive(30).payloads

    assert (sid, payloads) == (b"1", [b"1", b"2"])
    assert told == ["ConnectionLostError", "back"]
    assert connection.outages == 1
    assert all(b"SUB a 1\r\n" in heard for heard in server.heard)


def test_what_was_asked_before_an_outage_has_no_answer() -> None:
    with Script(b"", b"MSG a 1 1\r\n2\r\n") as server, reconnecting(server.url) as connection:
        sid = connection.subscribe("a")

        assert len(connection.receive_of(sid, 30)) == 0
        assert connection.outages == 1
        assert connection.receive_of(sid, 30).payloads == [b"2"]


def test_it_survives_outages_and_silence_until_it_is_closed() -> None:
    lost, refused = ConnectionLostError("gone"), ServerError("Authorization Violation", fatal=True)
    with Script(b"") as server, reconnecting(server.url) as connection:
        connection.subscribe("a")
        assert connection.survives(lost)
        assert connection.survives(ClientTimeoutError("silent"))
        assert connection.survives(NoRespondersError("not yet"))
        assert not connection.survives(refused)
    assert not connection.survives(lost)


def test_patience_ends() -> None:
    with (
        Script(b"") as server,
        reconnecting(server.url, ConnectOptions(timeout=1), patience=0.05) as connection,
    ):
        connection.subscribe("a")
        server._thread.join(30)
        server._open[0].close()
        with pytest.raises((ConnectError, ConnectionLostError)):
            connection.receive(30)


def test_a_wait_ends_within_an_outage() -> None:
    with Script(b"") as server, reconnecting(server.url, ConnectOptions(timeout=1)) as connection:
        connection.subscribe("a")
        server._thread.join(30)
        server._open[0].close()
        assert len(connection.receive(0.2)) == 0


def test_a_server_that_refuses_the_client_ends_it() -> None:
    with (
        Script(b"MSG a 1 1\r\n1\r\n", b"-ERR 'Authorization Violation'\r\n") as server,
        reconnecting(server.url) as connection,
    ):
        connection.subscribe("a")
        assert connection.receive(30).payloads == [b"1"]
        with pytest.raises(ServerError, match="Authorization Violation"):
            connection.receive(30)


def test_a_closed_connection_does_not_come_back() -> None:
    with Script(b"") as server:
        connection = reconnecting(server.url)
        connection.subscribe("a")
        connection.close()
        with pytest.raises(ConnectionLostError, match="closed by this program"):
            connection.receive(1)
