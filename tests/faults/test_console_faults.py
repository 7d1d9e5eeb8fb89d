"""Browsers, and strangers, that ask the WebSocket port for files of the console."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from harness.waiting import PATIENCE
from harness.websocket import WebSocket, request
from headrace import limits
from headrace.conf.console_options import ConsoleOptions
from headrace.conf.tls_options import TLSOptions
from headrace.conf.websocket_options import WebSocketOptions
from headrace.console.files import INDEX, table

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from faults.conftest import Served
    from harness.certificates import Authority

GET = b"GET /console/ HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def with_console(serve: Callable[..., Served]) -> Callable[..., Served]:
    """A server with a console: `console` fields of its block, `websocket` of that around."""

    def start(console: dict[str, Any] | None = None, **websocket: Any) -> Served:
        block = {"host": "127.0.0.1", "no_tls": True, **websocket}
        return serve(websocket=WebSocketOptions(console=ConsoleOptions(**(console or {})), **block))

    return start


class Browser:
    """One raw connection to the port."""

    def __init__(self, served: Served, context: ssl.SSLContext | None = None) -> None:
        port = served.server.websocket_port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self._received = b""

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def take(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers in lower case, body."""
        while b"\r\n\r\n" not in self._received:
            self._fill()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        size = int(headers.get("content-length", "0"))
        while len(self._received) < size:
            self._fill()
        body, self._received = self._received[:size], self._received[size:]
        return int(first.split(" ")[1]), headers, body

    def _fill(self) -> None:
        data = self.socket.recv(1 << 16)
        assert data, f"closed after {self._received!r}"
        self._received += data

    def take_end(self) -> bytes:
        """What else comes until the server closes."""
        rest = self._received
        while True:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return rest
            if not data:
                return rest
            rest += data


def test_page_comes_and_the_port_is_one_for_clients_still(with_console: Callable[..., Served]) -> None:
    served = with_console()
    with Browser(served) as browser:
        browser.send(GET)
        status, headers, body = browser.take()
        assert (status, body) == (200, table()[INDEX].body)
        browser.send(
            b"GET /console/ HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: %b\r\n\r\n"
            % headers["etag"].encode()
        )
        assert browser.take()[0] == 304
        with WebSocket(served.server.websocket_port or 0) as client:
            client.connect()
            client.send(b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
            assert client.sync() == b"MSG a 1 2\r\nhi\r\n"
    served.wait_for_connections(0)
    assert served.closed_reasons() == ["Client Closed"]  # a browser that reads the page is no client


def test_request_may_come_byte_by_byte_and_several_together(with_console: Callable[..., Served]) -> None:
    served = with_console()
    with Browser(served) as browser:
        for at in range(len(GET)):
            browser.send(GET[at : at + 1])
        assert browser.take()[0] == 200
        browser.send(GET * 3)
        assert [browser.take()[0] for _ in range(3)] == [200, 200, 200]


def test_page_over_tls(with_console: Callable[..., Served], authority: Authority) -> None:
    pair = authority.issue("console")
    tls = TLSOptions(cert_file=str(pair.certificate), key_file=str(pair.key))
    served = with_console(no_tls=False, tls=tls, host="0.0.0.0")
    with Browser(served, authority.client_context()) as browser:
        browser.send(GET + GET)
        assert browser.take()[2] == browser.take()[2] == table()[INDEX].body
        browser.send(GET.replace(b"localhost", b"evil.example"))
        assert browser.take()[0] == 421
        assert browser.take_end() == b""


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"POST /console/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        (GET.replace(b"localhost", b"evil.example"), 421),
        (b"GET /console/ HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /console/ HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 9000, 431),
        (b"GET /console/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n123456789", 400),
        (b"GET /console/ HTTP/9\r\n\r\n", 400),
    ],
    ids=["method", "host", "large", "large-cut", "body", "version"],
)
def test_refused_and_closed(with_console: Callable[..., Served], text: bytes, status: int) -> None:
    served = with_console()
    with Browser(served) as browser:
        browser.send(text)
        found, headers, _ = browser.take()

        assert (found, headers["connection"]) == (status, "close")
        assert browser.take_end() == b""


@pytest.mark.parametrize("target", ["/", "/varz", "/consoles", "/x" * 100])
def test_other_paths_are_upgrades_or_nothing(with_console: Callable[..., Served], target: str) -> None:
    served = with_console()
    with Browser(served) as browser:
        browser.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert browser.take()[0] == 400
        browser.take_end()


def test_first_line_without_end_is_not_kept(with_console: Callable[..., Served]) -> None:
    served = with_console()
    with Browser(served) as browser:
        browser.send(b"GET /console/" + b"x" * 9000)
        assert browser.take()[0] == 431
        browser.take_end()


def test_without_a_console_a_page_is_no_upgrade(serve: Callable[..., Served]) -> None:
    served = serve(websocket=WebSocketOptions(host="127.0.0.1", no_tls=True))
    with Browser(served) as browser:
        browser.send(GET)
        assert browser.take()[0] == 400
        browser.take_end()


def test_tenth_answer_is_the_last_of_a_connection(with_console: Callable[..., Served]) -> None:
    served = with_console()
    with Browser(served) as browser:
        browser.send(GET * (limits.CONSOLE_REQUESTS + 2))
        ends = [browser.take()[1]["connection"] for _ in range(limits.CONSOLE_REQUESTS)]

        assert ends == ["keep-alive"] * (limits.CONSOLE_REQUESTS - 1) + ["close"]
        assert browser.take_end() == b""


@pytest.mark.parametrize("part", [20, len(GET) - 2, len(GET)], ids=["line", "head", "idle"])
def test_request_that_is_not_finished_in_time_is_closed(
    with_console: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(limits, "CONSOLE_REQUEST_TIMEOUT", 0.1)
    served = with_console(handshake_timeout=0.1)
    with Browser(served) as browser:
        browser.send(GET[:part])
        if part == len(GET):
            assert browser.take()[0] == 200
        assert browser.take_end() == b""


def test_answer_that_is_not_taken_is_given_up(
    with_console: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONSOLE_ANSWER_TIMEOUT", 0.2)
    large = next(iter(table().values()))
    monkeypatch.setattr(large, "body", b"x" * (32 << 20))
    served = with_console()
    with Browser(served) as browser:
        browser.send(b"GET /console/%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % next(iter(table())).encode())

        assert browser.socket.recv(12) == b"HTTP/1.1 200"
        monkeypatch.setattr(limits, "CONSOLE_ANSWER_TIMEOUT", 30.0)
        with Browser(served) as other:  # nobody waits for it
            other.send(b"HEAD /console/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert other.take_end().startswith(b"HTTP/1.1 200")
        assert len(browser.take_end()) < 32 << 20


def test_connections_are_counted(with_console: Callable[..., Served]) -> None:
    served = with_console()
    with ExitStack() as open_ones:
        browsers = [open_ones.enter_context(Browser(served)) for _ in range(limits.CONSOLE_CONNECTIONS)]
        for browser in browsers:
            browser.send(GET)
            assert browser.take()[0] == 200
        with Browser(served) as one_too_many:
            one_too_many.send(GET)
            status, headers, _ = one_too_many.take()
            assert (status, headers["retry-after"]) == (503, "1")
            assert one_too_many.take_end() == b""
        with WebSocket(served.server.websocket_port or 0) as client:  # clients have places of their own
            client.connect()
        browsers[0].send(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        browsers[0].take()
        assert browsers[0].take_end() == b""
        with Browser(served) as next_one:
            next_one.send(GET)
            assert next_one.take()[0] == 200


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:{port}", "http://localhost:{port}", 101),
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}", 101),
        ("127.0.0.1:{port}", None, 101),
        ("evil.example:{port}", None, 101),
        ("127.0.0.1:{port}", "http://evil.example", 403),
        ("127.0.0.1:{port}", "null", 403),
        ("evil.example:{port}", "http://evil.example:{port}", 421),
        ("n1.example:{port}", "http://n1.example:{port}", 101),
    ],
    ids=["same", "address", "program", "program-by-name", "foreign", "null", "rebound", "known"],
)
def test_browsers_come_from_this_page_only(
    with_console: Callable[..., Served], host: str, origin: str | None, status: int
) -> None:
    """Also where a stranger's name leads to this machine: then his page is of the same origin."""
    served = with_console({"hosts": ("n1.example",)})
    port = served.server.websocket_port or 0
    upgrade = request(port, Host=host.format(port=port), Origin=origin and origin.format(port=port))
    with WebSocket(port, upgrade) as client:
        assert client.status == status


def test_allowed_origins_say_who_may_come(with_console: Callable[..., Served]) -> None:
    served = with_console(allowed_origins=("https://ops.example",))
    port = served.server.websocket_port or 0
    for origin, status in (("https://ops.example", 101), (f"http://127.0.0.1:{port}", 403)):
        with WebSocket(port, request(port, Host="proxy.internal", Origin=origin)) as client:
            assert client.status == status
