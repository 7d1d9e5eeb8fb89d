"""The websocket block as options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.binding import load_options
from headrace.conf.websocket_options import WebOrigin, WebSocketOptions, parse_host, parse_origin

if TYPE_CHECKING:
    from headrace.conf.options import Options


def load(text: str) -> Options:
    return load_options(text=text, environ={})


def test_every_field() -> None:
    options = load(
        """
        authorization { users: [{user: guest, password: g}] }
        websocket {
          listen: "127.0.0.1:8080", no_tls: true, advertise: "a.example:443"
          same_origin: true, allowed_origins: ["http://a", "https://b"]
          handshake_timeout: "3s", compression: true, ping_interval: "20s", no_auth_user: guest
          user_cookie: u, pass_cookie: p, token_cookie: t
          headers { X-One: "1", X-Two: "2" }
          authorization { timeout: 1.5 }
        }
        """
    )
    assert options.websocket == WebSocketOptions(
        host="127.0.0.1",
        port=8080,
        advertise="a.example:443",
        no_tls=True,
        same_origin=True,
        allowed_origins=("http://a", "https://b"),
        handshake_timeout=3.0,
        compression=True,
        authorization=AuthorizationOptions(timeout=1.5),
        no_auth_user="guest",
        user_cookie="u",
        pass_cookie="p",
        token_cookie="t",
        headers=(("X-One", "1"), ("X-Two", "2")),
        ping_interval=20.0,
    )
    assert options.websocket.overrides_authorization


def test_defaults_and_empty_values() -> None:
    options = load(
        'websocket { port: -1, no_tls: true, advertise: "", no_auth_user: "", ping_interval: "0s" }'
    )
    assert options.websocket == WebSocketOptions(no_tls=True)
    assert options.websocket.host == "0.0.0.0"
    assert not options.websocket.overrides_authorization


def test_block_with_a_user_of_its_own() -> None:
    websocket = load(
        "websocket { port: 1, no_tls: true, authorization { user: u, password: secret } }"
    ).websocket
    assert websocket is not None
    assert websocket.authorization == AuthorizationOptions(users=(UserOptions(user="u", password="secret"),))
    assert "secret" not in repr(websocket)


@pytest.mark.parametrize("text", ["websocket {}", "websocket { no_tls: true }", "websocket { port: 0 }"])
def test_block_without_a_port_is_no_listener(text: str) -> None:
    options = load(text)
    assert options.websocket is None
    assert "without a port" in options.warnings[0]


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://a", WebOrigin("http", "a", 80)),
        ("https://A.example", WebOrigin("https", "a.example", 443)),
        ("http://a:8080/path?q#f", WebOrigin("http", "a", 8080)),
        ("http://[::1]:81", WebOrigin("http", "::1", 81)),
        ("http://user@a", WebOrigin("http", "a", 80)),
    ],
)
def test_origin(text: str, origin: WebOrigin) -> None:
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "a", "a:80", "//a", "ftp://a", "http://", "http://:80", "http://a b", "http://a:x"),
        *("http://a:99999", "http://é", "http://a\x00", "http://[::1", "javascript:alert(1)"),
    ],
)
def test_what_is_no_origin(text: str) -> None:
    with pytest.raises(ValueError):
        parse_origin(text)


@pytest.mark.parametrize(
    ("text", "is_secure", "address"),
    [
        ("a", False, ("a", 80)),
        ("A", True, ("a", 443)),
        ("a:8443", True, ("a", 8443)),
        ("[::1]:81", False, ("::1", 81)),
    ],
)
def test_host(text: str, is_secure: bool, address: tuple[str, int]) -> None:
    assert parse_host(text, is_secure=is_secure) == address


@pytest.mark.parametrize("text", ["", "a/b", "a?b", "u@a", "a:x", ":80"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(ValueError):
        parse_host(text, is_secure=False)
