"""Who may upgrade to WebSocket, and what the request says of the client."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request

from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.console_options import ConsoleOptions
from headrace.conf.options import Options
from headrace.conf.websocket_options import WebSocketOptions
from headrace.server.websocket.access import own_authenticator
from headrace.server.websocket.deflate import DeflateFactory
from headrace.server.websocket.listener import max_message
from headrace.server.websocket.request import Refusal, UpgradeRequest, UpgradeRules

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120 Safari/537.36"


def request(path: str = "/", method: str = "GET", **changes: str | list[str] | None) -> Request:
    headers: dict[str, str | list[str] | None] = {
        "Host": "here.example",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    rows = Headers()
    for name, values in headers.items():
        for value in [values] if isinstance(values, str) else values or ():
            rows[name] = value
    return Request(path, rows, method)


def check(asked: Request, *, is_secure: bool = False, **options: Any) -> UpgradeRequest:
    return UpgradeRules(WebSocketOptions(no_tls=True, **options), lambda: False).check(
        asked, is_secure=is_secure
    )


@pytest.mark.parametrize(
    "asked",
    [
        request(),
        request("/any/path?a=b"),
        request("/leafnode/x"),
        request(Connection="keep-alive, upgrade"),
        request(Connection=["close", "Upgrade"]),
        request(Upgrade="h2c, WebSocket"),
        request(Origin="http://anywhere.example"),
    ],
)
def test_upgrade_is_granted(asked: Request) -> None:
    assert check(asked) == UpgradeRequest()


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    [
        (request("/mqtt"), 404, "mqtt websocket endpoint not enabled"),
        (request("/x/leafnode?a"), 404, "not configured to accept leaf node connections"),
        (request(method="POST"), 405, "request method must be GET"),
        (request(Host=None), 400, "'Host' missing in request"),
        (request(Upgrade=None), 400, "invalid value for header 'Upgrade'"),
        (request(Upgrade="websockets"), 400, "invalid value for header 'Upgrade'"),
        (request(Connection="keep-alive"), 400, "invalid value for header 'Connection'"),
        (request(Sec_WebSocket_Key=None), 400, "key missing"),
        (request(Sec_WebSocket_Key="abc"), 400, "invalid websocket key"),
        (request(Sec_WebSocket_Key="é" * 24), 400, "invalid websocket key"),
        (request(Sec_WebSocket_Key="YWJj"), 400, "invalid websocket key"),
        (request(Sec_WebSocket_Version="12"), 400, "invalid version"),
        (request(Sec_WebSocket_Version=None), 400, "invalid version"),
    ],
)
def test_upgrade_is_refused(asked: Request, status: int, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        check(asked)
    assert (refused.value.status, str(refused.value)) == (HTTPStatus(status), reason)


@pytest.mark.parametrize(
    ("options", "origin", "is_secure", "reason"),
    [
        ({"same_origin": True}, "http://here.example", False, None),
        ({"same_origin": True}, "http://HERE.example:80", False, None),
        ({"same_origin": True}, None, False, None),
        ({"same_origin": True}, "http://here.example:81", False, "not same origin"),
        ({"same_origin": True}, "http://there.example", False, "not same origin"),
        ({"same_origin": True}, "https://here.example", False, "not same origin"),
        ({"same_origin": True}, "https://here.example", True, None),
        ({"same_origin": True}, "null", False, "allowed origins must be"),
        ({"allowed_origins": ("http://a", "https://b:8443")}, "http://a", False, None),
        ({"allowed_origins": ("http://a", "https://b:8443")}, "https://b:8443", False, None),
        ({"allowed_origins": ("http://a", "https://b:8443")}, "https://b", False, "not in the allowed list"),
        ({"allowed_origins": ("http://a",)}, "http://a.evil", False, "not in the allowed list"),
        ({"allowed_origins": ("http://a",)}, "http://evil#http://a", False, "not in the allowed list"),
        (
            {"same_origin": True, "allowed_origins": ("http://a",)},
            "http://here.example",
            False,
            "not in the allowed list",
        ),
    ],
)
def test_origin(options: dict[str, Any], origin: str | None, is_secure: bool, reason: str | None) -> None:
    asked = request(Origin=origin)
    if reason is None:
        check(asked, is_secure=is_secure, **options)
        return
    with pytest.raises(Refusal, match=reason) as refused:
        check(asked, is_secure=is_secure, **options)
    assert refused.value.status == HTTPStatus.FORBIDDEN


def test_old_name_of_the_origin_header_counts_too() -> None:
    with pytest.raises(Refusal, match="not in the allowed list"):
        check(request(Sec_WebSocket_Origin="http://b"), allowed_origins=("http://a",))


def test_cookies_stand_in_for_credentials_and_do_not_show() -> None:
    cookie = ['u=joe; p="se=cret"; other=x', "t=token; t=later; j; u2=no"]
    upgrade = check(
        request(Cookie=cookie), user_cookie="u", pass_cookie="p", token_cookie="t", jwt_cookie="j"
    )
    assert upgrade.credentials == {"user": "joe", "password": "se=cret", "auth_token": "later"}
    assert "cret" not in repr(upgrade)
    assert check(request(Cookie=cookie)).credentials == {}


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "[2001:db8::1]"),
        ("1.2.3.4, 5.6.7.8", ""),
        ("evil.example", ""),
    ],
)
def test_forwarded_address_is_one_or_nothing(header: str, shown: str) -> None:
    assert check(request(X_Forwarded_For=header)).forwarded_for == shown


def test_browser_is_known_by_its_name() -> None:
    assert check(request(User_Agent=CHROME)).is_browser
    assert not check(request(User_Agent="nats.go")).is_browser


@pytest.mark.parametrize(
    ("payload", "most"), [(1 << 20, 8 << 20), (64, 32 << 10), (8 << 20, 64 << 20), (64 << 20, 64 << 20)]
)
def test_largest_message(payload: int, most: int) -> None:
    assert max_message(Options(max_payload=payload, max_control_line=4096)) == most


def test_compression_asks_both_sides_to_keep_no_context() -> None:
    params, extension = DeflateFactory().process_request_params([("client_max_window_bits", None)], [])
    assert params == [("server_no_context_takeover", None), ("client_no_context_takeover", None)]
    assert extension.remote_no_context_takeover
    assert extension.local_no_context_takeover


USERS = AuthorizationOptions(users=(UserOptions(user="a", password="b"),))


def test_block_without_credentials_has_no_authenticator_of_its_own() -> None:
    assert own_authenticator(Options(authorization=USERS), WebSocketOptions(no_tls=True)) is None


def test_token_of_the_block_replaces_the_servers_user() -> None:
    block = WebSocketOptions(no_tls=True, authorization=AuthorizationOptions(token="t"))
    own = own_authenticator(Options(authorization=USERS), block)
    assert own is not None
    assert own.required
    assert own.default_identity() is None


def test_guest_of_the_block_is_one_of_the_servers_users() -> None:
    own = own_authenticator(Options(authorization=USERS), WebSocketOptions(no_tls=True, no_auth_user="a"))
    assert own is not None
    identity = own.default_identity()
    assert identity is not None
    assert identity.user == "a"


@pytest.mark.parametrize("path", ["/leafnode", "/behind/a/proxy/leafnode?x=1"])
def test_path_of_leaf_nodes_is_theirs_where_they_may_connect(path: str) -> None:
    """Also the checks of other requests hold for them."""
    rules = UpgradeRules(WebSocketOptions(no_tls=True, same_origin=True), lambda: True)
    assert rules.check(request(path), is_secure=False).is_leaf
    assert not rules.check(request("/leafnode/x"), is_secure=False).is_leaf
    with pytest.raises(Refusal, match="not same origin"):
        rules.check(request(path, Origin="http://evil.example"), is_secure=False)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
def test_proxy_that_passes_a_client_on_is_noticed(header: str) -> None:
    assert not check(request()).is_forwarded
    assert check(request(**{header.replace("-", "_"): "10.0.0.1"})).is_forwarded


def test_console_keeps_browsers_to_its_origin_unless_others_are_named() -> None:
    console = ConsoleOptions()

    assert WebSocketOptions(console=console).keeps_to_origin
    assert not WebSocketOptions(console=console, allowed_origins=("http://a",)).keeps_to_origin
    assert not WebSocketOptions().keeps_to_origin
