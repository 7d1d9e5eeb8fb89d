"""TLS settings at work: pins, limits of handshakes, certificates out of their time, new certificates."""

from __future__ import annotations

import datetime
import hashlib
import logging
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from harness.certificates import Pair
from harness.waiting import wait_until
from harness.websocket import WebSocket
from headrace.conf.tls_options import TLSOptions
from headrace.conf.websocket_options import WebSocketOptions
from headrace.errors import StartError
from headrace.server.listeners import drop_unpinned
from headrace.server.tls_contexts import make_contexts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from faults.conftest import Served
    from harness.certificates import Authority
    from harness.wire import Wire
    from headrace.conf.options import Options

THROTTLED = b"Connection throttling is active. Please try again later."
LATER = datetime.timedelta(days=100)


def tls_of(pair: Pair, **more: object) -> TLSOptions:
    return TLSOptions(str(pair.certificate), str(pair.key), **more)  # type: ignore[arg-type]


def digest_of(pair: Pair) -> str:
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).hexdigest()


def name_shown(wire: Wire) -> str:
    """What the server's certificate is made out to."""
    assert isinstance(wire.socket, ssl.SSLSocket)
    der = wire.socket.getpeercert(True)
    assert der is not None
    subject = x509.load_der_x509_certificate(der).subject
    return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


@pytest.mark.parametrize("first", [None, 0.0], ids=["info-first", "handshake-first"])
def test_only_pinned_keys_connect(
    serve: Callable[..., Served], authority: Authority, first: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    known, unknown = authority.issue("known"), authority.issue("unknown")
    pins = ("0" * 64, digest_of(known))
    tls = tls_of(
        authority.issue("server"),
        ca_file=str(authority.file),
        verify=True,
        pinned_certs=pins,
        handshake_first=first,
    )
    served = serve(tls=tls)
    with served.connect(None, greeted=first is None) as wire:
        wire.upgrade(authority.client_context(known))
        if first is not None:
            wire.take_info()
        wire.connect()
    with served.connect(None, greeted=first is None) as wire:
        wire.upgrade(authority.client_context(unknown))
        wire.send(b"CONNECT {}\r\nPING\r\n")
        assert wire.take_rest() == b""
    served.wait_for_connections(0)
    assert served.closed_reasons()[-1] == "TLS Handshake Failure"
    assert "TLS handshake error: certificate not pinned" in caplog.text


def test_handshakes_beyond_the_rate_are_turned_away_and_told(
    serve: Callable[..., Served], authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    served = serve(tls=tls_of(authority.issue("server"), connection_rate_limit=3))
    turned_away = 0
    for _ in range(12):
        with served.connect(None) as wire:
            wire.half_close()
            turned_away += wire.take_rest() == b"-ERR '" + THROTTLED + b"'\r\n"
    served.wait_for_connections(0)
    assert turned_away >= 6  # however slowly this ran, not all of them had a second of their own
    assert served.closed_reasons().count("Maximum Connections Exceeded") == turned_away
    wait_until(lambda: "connections due to TLS rate limiting" in caplog.text, "the line about them")


def test_flood_of_silent_handshakes_leaves_room_for_others(
    serve: Callable[..., Served], authority: Authority
) -> None:
    served = serve(tls=tls_of(authority.issue("server"), timeout=0.5))
    silent = [served.connect(None) for _ in range(200)]
    with served.connect(None) as wire:
        wire.upgrade(authority.client_context())
        wire.connect()
    for wire in silent:
        assert wire.take_rest() == b""
        wire.close()
    served.wait_for_connections(0)
    assert set(served.closed_reasons()) == {"TLS Handshake Failure", "Client Closed"}


@pytest.mark.parametrize(
    ("shift", "reason"),
    [(-LATER, "certificate has expired"), (LATER, "certificate is not yet valid")],
    ids=["expired", "future"],
)
def test_client_certificate_out_of_its_time_is_refused_with_the_reason(
    serve: Callable[..., Served],
    authority: Authority,
    shift: datetime.timedelta,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tls = tls_of(authority.issue("server"), ca_file=str(authority.file), verify=True)
    served = serve(tls=tls)
    with served.connect(None) as wire:
        wire.upgrade(authority.client_context(authority.issue("late", shift=shift)))
        wire.take_rest()
    served.wait_for_connections(0)
    assert f"TLS handshake error: failed to verify certificate: {reason}" in caplog.text


def test_client_certificate_of_a_stranger_is_refused_with_the_reason(
    serve: Callable[..., Served],
    authority: Authority,
    stranger: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tls = tls_of(authority.issue("server"), ca_file=str(authority.file), verify=True)
    served = serve(tls=tls)
    context = authority.client_context(stranger.issue("strange"))
    with served.connect(None) as wire:
        wire.upgrade(context)
        wire.take_rest()
    served.wait_for_connections(0)
    assert "TLS handshake error: failed to verify certificate: unable to get" in caplog.text


@pytest.mark.parametrize(
    ("shift", "line"), [(-LATER, "expired at"), (LATER, "is not valid before")], ids=["expired", "future"]
)
def test_own_certificate_out_of_its_time_is_warned_of(
    serve: Callable[..., Served],
    authority: Authority,
    shift: datetime.timedelta,
    line: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pair = authority.issue("outdated", shift=shift)
    serve(tls=tls_of(pair))
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert any(f'TLS certificate "{pair.certificate}" {line}' in text for text in warnings)


def test_new_certificates_are_for_new_connections(serve: Callable[..., Served], authority: Authority) -> None:
    old, new = authority.issue("old"), authority.issue("new")
    served = serve(tls=tls_of(old), websocket=WebSocketOptions(host="127.0.0.1", tls=tls_of(old)))
    port = served.server.websocket_port
    assert port is not None
    context = authority.client_context()
    with served.connect(context=context) as before, WebSocket(port, context=context) as socket_before:
        socket_before.connect()
        assert name_shown(before) == "old"

        renewed = make_contexts(_with(served, new))
        served.embedded.call(lambda: served.server.use_contexts(renewed))

        with served.connect(context=context) as after, WebSocket(port, context=context) as socket_after:
            assert name_shown(after) == "new"
            assert b"new" in _certificate(socket_after)
            socket_after.connect()
            assert before.sync() == after.sync() == socket_before.sync() == b""


def test_pins_that_are_taken_away_end_connections(serve: Callable[..., Served], authority: Authority) -> None:
    kept, gone = authority.issue("kept"), authority.issue("gone")
    pins = (digest_of(kept), digest_of(gone))
    tls = tls_of(authority.issue("server"), ca_file=str(authority.file), verify=True, pinned_certs=pins)
    served = serve(tls=tls)
    with (
        served.connect(context=authority.client_context(kept)) as one,
        served.connect(context=authority.client_context(gone)) as other,
    ):
        new = replace(served.server.options, tls=replace(tls, pinned_certs=pins[:1]))
        contexts = make_contexts(new)

        def apply() -> None:
            served.server.options = new
            served.server.use_contexts(contexts)
            drop_unpinned(served.server)

        served.embedded.call(apply)

        assert other.take_rest() == b""
        assert one.sync() == b""


def test_certificates_that_cannot_be_used_change_nothing(
    serve: Callable[..., Served], authority: Authority, tmp_path: Path
) -> None:
    served = serve(tls=tls_of(authority.issue("kept")))
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    with pytest.raises(StartError, match="holds no PEM certificate"):
        make_contexts(_with(served, Pair(broken, broken)))
    with served.connect(context=authority.client_context()) as wire:
        assert name_shown(wire) == "kept"


def _with(served: Served, pair: Pair) -> Options:
    options = served.server.options
    websocket = options.websocket and replace(options.websocket, tls=tls_of(pair))
    return replace(options, tls=tls_of(pair), websocket=websocket)


def _certificate(client: WebSocket) -> bytes:
    assert isinstance(client.socket, ssl.SSLSocket)
    return client.socket.getpeercert(True) or b""
