"""PROXY protocol headers, and what monitoring and INFO then say, side by side with the Go server."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes import ALL, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.wire import Wire

CONFIG = "proxy_protocol: true\n"
V2 = b"\r\n\r\n\x00\r\nQUIT\n"
CONNECT = b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n'


@pytest.fixture(scope="module", params=ALL, ids=str)
def proxied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    with ServerProcess(
        request.param, tmp_path_factory.mktemp("proxied"), "-m", "-1", config=CONFIG
    ) as running:
        yield running


@pytest.mark.parametrize(
    ("header", "address"),
    [
        (b"PROXY TCP4 192.0.2.1 10.0.0.1 5000 4222\r\n", ("192.0.2.1", 5000)),
        (b"PROXY TCP6 2001:db8::1 ::1 65535 4222\r\n", ("2001:db8::1", 65535)),
        (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", ("192.0.2.7", 1)),
        (b"PROXY  TCP4\t192.0.2.1   10.0.0.1 9 4222 \r\n", ("192.0.2.1", 9)),
        (V2 + b"\x21\x11\x00\x0c\xc0\x00\x02\x01\x0a\x00\x00\x01\x13\x88\x10\x7e", ("192.0.2.1", 5000)),
        (V2 + b"\x21\x11\x00\x0f\xc0\x00\x02\x01\x0a\x00\x00\x01\x13\x88\x10\x7etlv", ("192.0.2.1", 5000)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN whatever it is\r\n", None),
        (V2 + b"\x20\x00\x00\x00", None),
        (V2 + b"\x20\x11\x00\x03abc", None),
        (V2 + b"\x21\x01\x00\x03abc", None),
        (b"", None),
    ],
    ids=[
        *("v4", "v6", "mapped", "blanks", "binary", "binary-more"),
        *("unknown", "unknown-more", "local", "local-more", "unspecified", "none"),
    ],
)
def test_client_is_who_the_proxy_says(
    proxied: ServerProcess, header: bytes, address: tuple[str, int] | None
) -> None:
    with proxied.connect() as wire:
        assert "client_ip" not in wire.info
        wire.send(header + CONNECT)

        said = later_info(wire)

        (shown,) = connections(proxied, wire, "open")
        assert said["client_ip"] == shown["ip"] == (address[0] if address else "127.0.0.1")
        if address is not None:
            assert shown["port"] == address[1]


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY " + b"x" * 200,
        b"PROXY \r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        b"PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n",
        b"PROXY TCP4 ::1 5.6.7.8 1 2\r\n",
        b"PROXY TCP6 1.2.3.4 ::1 1 2\r\n",
        b"PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n",
        V2[:8] + b"GARBAGE!",
        V2 + b"\x11\x11\x00\x0c" + bytes(12),
        V2 + b"\x22\x11\x00\x0c" + bytes(12),
        V2 + b"\x21\x12\x00\x0c" + bytes(12),
        V2 + b"\x21\x31\x00\xd8" + bytes(216),
        V2 + b"\x21\x11\x00\x0b" + bytes(11),
        V2 + b"\x21\x21\x00\x23" + bytes(35),
    ],
    ids=[
        *("long", "empty", "words", "address", "port", "v6-as-v4", "v4-as-v6", "udp"),
        *("signature", "version", "command", "datagram", "unix", "short-v4", "short-v6"),
    ],
)
def test_broken_header_closes(proxied: ServerProcess, header: bytes) -> None:
    before = len(proxied.lines)
    with proxied.connect() as wire:
        wire.send(header)

        assert wire.take_rest() == b""

        proxied.wait_for_line("Error reading PROXY protocol header from 127.0.0.1", after=before)
        (shown,) = wait_until(lambda: connections(proxied, wire, "closed"), "it is closed")
        assert shown["reason"] == "Protocol Violation"


def later_info(wire: Wire) -> dict[str, Any]:
    """The INFO that the first PING brings."""
    wire.take_through(b"PONG\r\n")
    said: dict[str, Any] = json.loads(wire.take_line()[5:])
    return said


def connections(server: ServerProcess, wire: Wire, state: str) -> list[dict[str, Any]]:
    """What /connz shows of this one."""
    url = f"{server.monitor_url}/connz?state={state}&cid={wire.info['client_id']}"
    with urllib.request.urlopen(url) as answer:
        found: list[dict[str, Any]] = json.load(answer)["connections"]
    return found
