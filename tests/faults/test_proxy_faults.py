"""A client port behind proxies: headers that come slowly, broken, or not at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headrace import limits
from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.tls_options import TLSOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.conftest import Served
    from harness.certificates import Authority
    from harness.wire import Wire

V1 = b"PROXY TCP4 192.0.2.1 10.0.0.1 5000 4222\r\n"
V2 = (
    b"\r\n\r\n\x00\r\nQUIT\n\x21\x21\x00\x24"
    + bytes.fromhex("20010db8" + "00" * 11 + "01") * 2
    + b"\x13\x88\x10\x7e"
)
LOCAL = b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
CONNECT = b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n'


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROXY_HEADER_TIMEOUT", 0.2)


def addresses(served: Served) -> list[tuple[str, int]]:
    return served.embedded.call(lambda: [(s.address, s.port) for s in served.server.clients])


def converse(wire: Wire) -> dict[str, object]:
    """CONNECT, and the INFO that says what it settled."""
    wire.send(CONNECT)
    wire.take_through(b"PONG\r\n")
    line = wire.take_line()
    wire.send(b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
    assert wire.sync() == b"MSG a 1 2\r\nhi\r\n"
    info: dict[str, object] = json.loads(line[5:])
    return info


@pytest.mark.parametrize(
    ("header", "source"), [(V1, ("192.0.2.1", 5000)), (V2, ("2001:db8::1", 5000))], ids=["v1", "v2"]
)
@pytest.mark.parametrize("step", [1, 1000])
def test_client_is_who_the_proxy_says(
    serve: Callable[..., Served], header: bytes, source: tuple[str, int], step: int
) -> None:
    served = serve(proxy_protocol=True)
    with served.connect(None) as wire:
        assert "client_ip" not in wire.info
        for at in range(0, len(header), step):
            wire.send(header[at : at + step])

        assert converse(wire)["client_ip"] == source[0]

        assert addresses(served) == [source]


@pytest.mark.parametrize("header", [LOCAL, b"PROXY UNKNOWN\r\n", b""], ids=["local", "unknown", "none"])
def test_client_without_a_source_is_where_its_connection_is(
    serve: Callable[..., Served], header: bytes
) -> None:
    served = serve(proxy_protocol=True)
    with served.connect(None) as wire:
        wire.send(header)

        assert converse(wire)["client_ip"] == "127.0.0.1"


def test_header_and_connect_in_one_segment(serve: Callable[..., Served]) -> None:
    served = serve(proxy_protocol=True)
    with served.connect(None) as wire:
        wire.send(V1 + CONNECT)
        wire.take_through(b"PONG\r\n")

        assert addresses(served) == [("192.0.2.1", 5000)]


def test_op_that_begins_as_a_header_is_an_op_byte_by_byte(serve: Callable[..., Served]) -> None:
    served = serve(proxy_protocol=True)
    with served.connect(None) as wire:
        for byte in b"PUB a 1\r\nx\r\nPING\r\n":
            wire.send(bytes([byte]))

        assert wire.take_through(b"PONG\r\n") == b"+OK\r\nPONG\r\n"


@pytest.mark.parametrize(
    "rubbish",
    [
        b"PROXY TCP4 nowhere 10.0.0.1 5000 4222\r\n",
        b"PROXY " + b"x" * 200,
        V2[:12] + b"\x31" + V2[13:],
        V2[:13] + b"\x31" + V2[14:],
        V2[:8] + b"GARBAGE!",
    ],
    ids=["address", "long", "version", "unix", "signature"],
)
def test_broken_header_closes_without_a_word(serve: Callable[..., Served], rubbish: bytes) -> None:
    served = serve(proxy_protocol=True)
    with served.connect(None) as wire:
        wire.send(rubbish)

        assert wire.take_rest() == b""
    served.wait_for_connections(0)
    assert served.closed_reasons() == ["Protocol Violation"]


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize("part", [0, 3, 20])
def test_header_that_does_not_end_is_closed_in_time(serve: Callable[..., Served], part: int) -> None:
    served = serve(proxy_protocol=True)
    with served.connect(None) as wire:
        wire.send(V1[:part])

        assert wire.take_rest() == b""
    served.wait_for_connections(0)
    assert served.closed_reasons() == ["Protocol Violation"]


@pytest.mark.parametrize("part", [0, 3, 20])
def test_proxy_that_leaves_within_the_header_leaves_nothing(serve: Callable[..., Served], part: int) -> None:
    served = serve(proxy_protocol=True)
    with served.connect(None) as wire:
        wire.send(V1[:part])
    served.wait_for_connections(0)
    assert served.closed_reasons() == ["Protocol Violation"]


def test_server_that_ends_while_a_header_is_due_leaves_nothing(serve: Callable[..., Served]) -> None:
    served = serve(proxy_protocol=True)
    with served.connect(None) as silent, served.connect(None) as begun:
        begun.send(V1[:10])
        served.wait_for_connections(2)

        served.embedded.call(served.server.stop)

        assert silent.take_rest() == begun.take_rest() == b""


@pytest.mark.parametrize("first", [None, 0.0, 0.1], ids=["info-first", "handshake-first", "auto"])
@pytest.mark.parametrize("plain_too", [False, True])
@pytest.mark.parametrize("header", [V1, b""], ids=["header", "none"])
def test_header_comes_before_the_handshake(
    serve: Callable[..., Served],
    authority: Authority,
    first: float | None,
    plain_too: bool,
    header: bytes,
) -> None:
    pair = authority.issue("proxied")
    tls = TLSOptions(str(pair.certificate), str(pair.key), handshake_first=first)
    served = serve(proxy_protocol=True, tls=tls, allow_non_tls=plain_too)
    with served.connect(None, greeted=first is None) as wire:
        wire.send(header)
        wire.upgrade(authority.client_context())
        if first is not None:
            assert wire.take_info()["client_ip"] == ("192.0.2.1" if header else "127.0.0.1")

        converse(wire)

        assert addresses(served)[0][0] == ("192.0.2.1" if header else "127.0.0.1")


def test_plain_client_behind_a_proxy_where_both_kinds_are_served(
    serve: Callable[..., Served], authority: Authority
) -> None:
    pair = authority.issue("both")
    served = serve(
        proxy_protocol=True, tls=TLSOptions(str(pair.certificate), str(pair.key)), allow_non_tls=True
    )
    with served.connect(None) as wire:
        wire.send(V1)

        assert converse(wire)["client_ip"] == "192.0.2.1"


def test_what_is_no_handshake_after_the_header_is_closed(
    serve: Callable[..., Served], authority: Authority
) -> None:
    pair = authority.issue("strict")
    served = serve(proxy_protocol=True, tls=TLSOptions(str(pair.certificate), str(pair.key)))
    with served.connect(None) as wire:
        wire.send(V1 + CONNECT)

        assert b"-ERR" not in wire.take_rest()
    served.wait_for_connections(0)
    assert served.closed_reasons() == ["TLS Handshake Failure"]


def test_clock_on_authentication_runs_after_the_header(serve: Callable[..., Served]) -> None:
    served = serve(proxy_protocol=True, authorization=AuthorizationOptions(token="t", timeout=0.1))
    with served.connect(None) as wire:
        wire.send(V1)

        assert wire.take_rest() == b"-ERR 'Authentication Timeout'\r\n"
