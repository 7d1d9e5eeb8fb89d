"""TLS clients that stall, leave, speak plain text or talk rubbish."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

import pytest

from harness.waiting import wait_until
from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.tls_options import TLSOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.conftest import Served
    from harness.certificates import Authority
    from harness.wire import Wire


HASTE: Final = 1.0
"""The TLS timeout where a client stalls; a proper one, which has to be in time too, comes after it."""


@pytest.fixture
def tls(authority: Authority) -> Callable[..., TLSOptions]:
    pair = authority.issue("server")

    def make(**more: object) -> TLSOptions:
        return TLSOptions(str(pair.certificate), str(pair.key), **{"timeout": 30.0, **more})  # type: ignore[arg-type]

    return make


def hello(authority: Authority) -> bytes:
    """The first flight of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = authority.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def check_tls(served: Served, authority: Authority, *, first: bool = False) -> None:
    """The server still serves proper clients."""
    with served.connect(None, greeted=not first) as wire:
        wire.upgrade(authority.client_context())
        if first:
            wire.take_info()
        wire.connect()
        wire.send(b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
        assert wire.sync() == b"MSG a 1 2\r\nhi\r\n"


def ends(served: Served, wire: Wire) -> bytes:
    rest = wire.take_rest()
    served.wait_for_connections(0)
    return rest


@pytest.mark.parametrize("part", [0, 1, 5, 100])
def test_handshake_that_stalls_is_closed_after_the_tls_timeout(
    serve: Callable[..., Served], tls: Callable[..., TLSOptions], authority: Authority, part: int
) -> None:
    served = serve(tls=tls(timeout=HASTE))
    with served.connect(None) as wire:
        wire.send(hello(authority)[:part])

        assert ends(served, wire) == b""
    assert served.closed_reasons() == ["TLS Handshake Failure"]
    check_tls(served, authority)


def test_handshake_that_stalls_before_its_last_flight_is_closed(
    serve: Callable[..., Served], tls: Callable[..., TLSOptions], authority: Authority
) -> None:
    served = serve(tls=tls(timeout=HASTE))
    with served.connect(None) as wire:
        wire.send(hello(authority))

        answer = ends(served, wire)

        assert answer.startswith(b"\x16\x03")
    check_tls(served, authority)


@pytest.mark.parametrize(
    "rubbish",
    [
        b'CONNECT {"verbose":false}\r\nPING\r\n',
        b"\x16",
        b"\x16\x03\x01\xff\xff" + bytes(200),
        b"\x16\x03\x01\x00\x05hello",
        b"\x16" + b"\xff" * 5000,
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(100_000),
    ],
    ids=["plain", "one-byte", "huge-record", "bad-record", "noise", "alert", "http", "zeros"],
)
@pytest.mark.parametrize("first", [None, 0.0, 0.05], ids=["info-first", "handshake-first", "auto"])
def test_client_that_speaks_no_tls_is_closed_without_a_text(
    serve: Callable[..., Served],
    tls: Callable[..., TLSOptions],
    authority: Authority,
    rubbish: bytes,
    first: float | None,
) -> None:
    served = serve(tls=tls(handshake_first=first, timeout=HASTE))
    with served.connect(None, greeted=first is None) as wire:
        wire.send(rubbish)

        assert b"-ERR" not in ends(served, wire)
    assert served.closed_reasons() == ["TLS Handshake Failure"]
    check_tls(served, authority, first=first == 0.0)


def test_client_that_leaves_inside_the_handshake_leaves_nothing(
    serve: Callable[..., Served], tls: Callable[..., TLSOptions], authority: Authority
) -> None:
    served = serve(tls=tls(timeout=30.0))
    for part in (0, 1, 5, 100, 10_000):
        with served.connect(None) as wire:
            wire.send(hello(authority)[:part])
    served.wait_for_connections(0)

    check_tls(served, authority)


def test_established_tls_client_that_is_cut_off_leaves_nothing(
    serve: Callable[..., Served], tls: Callable[..., TLSOptions], authority: Authority
) -> None:
    served = serve(tls=tls())
    with served.connect(None) as wire:
        wire.upgrade(authority.client_context())
        wire.connect()
        wire.send(b"SUB a 1\r\nPUB b 1000\r\nhalf")
        wire.close()
    served.wait_for_connections(0)

    check_tls(served, authority)


def test_silent_client_where_plain_and_tls_are_served_is_taken_for_plain(
    serve: Callable[..., Served], tls: Callable[..., TLSOptions], authority: Authority
) -> None:
    """Nothing within the TLS timeout is no ClientHello: the clock on authentication must run."""
    served = serve(
        tls=tls(timeout=0.05), allow_non_tls=True, authorization=AuthorizationOptions(token="t", timeout=0.1)
    )
    with served.connect(None) as silent:
        assert ends(served, silent) == b"-ERR 'Authentication Timeout'\r\n"


def test_silent_client_of_automatic_handshake_gets_info_and_then_the_tls_timeout(
    serve: Callable[..., Served], tls: Callable[..., TLSOptions]
) -> None:
    served = serve(tls=tls(handshake_first=0.05, timeout=HASTE))
    with served.connect(None) as silent:
        assert silent.info["tls_required"] is True
        assert ends(served, silent) == b""


@pytest.mark.parametrize("first", [None, 0.0, 30.0], ids=["info-first", "handshake-first", "auto"])
@pytest.mark.parametrize("plain_too", [False, True])
def test_server_that_ends_inside_handshakes_leaves_nothing(
    serve: Callable[..., Served],
    tls: Callable[..., TLSOptions],
    authority: Authority,
    first: float | None,
    plain_too: bool,
) -> None:
    served = serve(tls=tls(timeout=30.0, handshake_first=first), allow_non_tls=plain_too)
    silent = served.connect(None, greeted=False)
    begun = served.connect(None, greeted=False)
    begun.send(hello(authority)[:100])
    served.wait_for_connections(2)

    served.embedded.call(served.server.stop)

    for wire in (silent, begun):
        wire.take_rest()
        wire.close()
    wait_until(lambda: not served.server.clients, "no session")
