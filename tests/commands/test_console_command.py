"""`headrace console`: the page for browsers, from this machine, for a server elsewhere."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from typing import TYPE_CHECKING

import pytest

from harness.waiting import PATIENCE
from headrace import limits
from headrace.cli.client.console import websocket_of, websocket_url
from headrace.cli.client.console_serving import ConsoleServer
from headrace.cli.outcomes import CommandError
from headrace.console.files import INDEX, table
from headrace.console.site import ConsoleSite, HostNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine

GET = b"GET /console/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def test_page_is_served_until_it_is_interrupted(alone: CommandLine) -> None:
    flags = ("--websocket", "wss://nats.example:8443", "--read-only", "--hide", "map", "--json")
    with alone.started("console", *flags) as running:
        told = json.loads(running.line())
        with urllib.request.urlopen(f"{told['url']}console.json") as page:
            settings, policy = json.load(page), page.headers["Content-Security-Policy"]
        with urllib.request.urlopen(told["url"]) as page:
            assert page.read() == table()[INDEX].body
        running.interrupt()
        assert running.process.wait(PATIENCE) == 130
    assert told["websocket"] == settings["socket"] == "wss://nats.example:8443/"
    assert told["url"].startswith(told["origin"] + "/console/")
    assert (settings["read_only"], settings["hide"], settings["server_name"]) == (True, ["map"], None)
    assert "connect-src 'self' wss://nats.example:8443; base-uri" in policy


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--websocket", "http://a"), "is no ws://HOST:PORT"),
        (("--websocket", "ws://"), "is no ws://HOST:PORT"),
        (("--websocket", "ws://a:b"), "is no ws://HOST:PORT"),
        (("--websocket", "ws://u:p@a:1"), "is no ws://HOST:PORT"),
        (("--websocket", "ws://a;script-src:1"), "is no ws://HOST:PORT"),
        (("--websocket", "ws://a:1", "--hide", "wall"), "'wall' is no page"),
        (("--websocket", "ws://a:1", "--port", "70000"), "--port is 1 to 65535"),
    ],
)
def test_what_cannot_be_meant_is_wrong_use(
    alone: CommandLine, flags: tuple[str, ...], complaint: str
) -> None:
    ran = alone("console", *flags)

    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err


def test_only_the_system_account_is_told_where_the_port_is(cli: CommandLine) -> None:
    """Of either server: none of them has a WebSocket port here."""
    assert cli("console").code == 5
    ran = cli("console", "--user", "admin", "--password", "secret")
    assert (ran.code, "has no WebSocket port" in ran.err) == (4, True)


def test_port_that_is_taken_is_an_error(alone: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = alone("console", "--websocket", "ws://a:1", "--port", str(taken.getsockname()[1]))
    assert ran.code == 1
    assert "cannot listen on 127.0.0.1:" in ran.err


@pytest.mark.parametrize(
    ("block", "host", "found"),
    [
        ({"port": 8080, "no_tls": True}, "10.0.0.1", "ws://10.0.0.1:8080/"),
        ({"port": 443}, "n1.example", "wss://n1.example:443/"),
        ({"port": 443}, "::1", "wss://[::1]:443/"),
        ({"port": 1, "advertise": "a.example:443"}, "10.0.0.1", "wss://a.example:443/"),
        ({"port": 1, "advertise": "a.example"}, "10.0.0.1", "wss://a.example:1/"),
        ({}, "10.0.0.1", None),
        (None, "10.0.0.1", None),
        ("x", "10.0.0.1", None),
    ],
)
def test_port_that_a_server_tells_of(block: object, host: str, found: str | None) -> None:
    assert websocket_of({"websocket": block}, host) == found


def test_port_that_a_server_makes_up_gets_into_no_policy() -> None:
    with pytest.raises(CommandError):
        websocket_of({"websocket": {"port": "1; script-src *"}}, "a")
    assert websocket_url("ws://A.example") == "ws://A.example/"


@pytest.fixture(scope="module")
def served() -> Iterator[ConsoleServer]:
    site = ConsoleSite("/console", b"{}", HostNames([]))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ConsoleServer(site, port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def answers(server: ConsoleServer, sent: bytes) -> bytes:
    """All that the server says to these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=PATIENCE) as browser:
        browser.sendall(sent)
        text = b""
        while data := browser.recv(1 << 16):
            text += data
        return text


def test_bounds_are_those_of_a_server(served: ConsoleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONSOLE_REQUEST_TIMEOUT", 0.2)
    assert answers(served, GET * 12).count(b"HTTP/1.1 200 OK") == limits.CONSOLE_REQUESTS
    assert answers(served, b"GET /console/ HTTP/1.1\r\nX: " + b"x" * 9000).startswith(b"HTTP/1.1 431")
    assert answers(served, GET[:20]) == b""
    assert answers(served, GET.replace(b"127.0.0.1", b"evil.example")).startswith(b"HTTP/1.1 421")


def test_connections_of_a_laptop_are_counted(served: ConsoleServer) -> None:
    for _ in range(limits.CONSOLE_CONNECTIONS):
        served.places.acquire(timeout=PATIENCE)
    try:
        assert answers(served, GET).startswith(b"HTTP/1.1 503")
    finally:
        for _ in range(limits.CONSOLE_CONNECTIONS):
            served.places.release()
