"""The upgrade request of a WebSocket client: whether it may upgrade, and what it says of the client.

Here live the checks. Never lives here: sockets, frames.
Source: RFC 6455; the order of the checks, statuses and reasons are the Go server's 2.15.1.
"""

from __future__ import annotations

import base64
import binascii
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from msgspec import field

from headrace.conf.websocket_options import WebOrigin, parse_host, parse_origin
from headrace.structures import Discreet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from websockets.datastructures import Headers
    from websockets.http11 import Request

    from headrace.conf.websocket_options import WebSocketOptions
    from headrace.console.site import HostNames

_KEY_BYTES: Final = 16
_VERSION: Final = "13"
_OF_PROXIES: Final = ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP")


class Refusal(Exception):
    """The client gets an HTTP status; the text is for the log only."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class UpgradeRequest(Discreet, frozen=True):
    """The contents of an upgrade request. `credentials`: fields of CONNECT that cookies stand in for.

    `forwarded_for`: the address that a proxy gives, "" for none; believed in log lines only. `is_browser`:
    small messages suit it. `is_leaf`: it is no client but another server's leaf node. `is_mqtt`: it is a
    client over MQTT. `is_forwarded`: a proxy has passed it on, and says so.
    """

    HIDDEN = frozenset({"credentials"})

    credentials: Mapping[str, str] = field(default_factory=dict)
    forwarded_for: str = ""
    is_browser: bool = False
    is_leaf: bool = False
    is_mqtt: bool = False
    is_forwarded: bool = False


def _never() -> bool:
    return False


class UpgradeRules:
    """The rules of upgrades at one listener. `takes_leafs`: leaf nodes may connect to this server;
    `takes_mqtt`: clients over MQTT.

    `hosts`: the names that browsers may know the port by, where it serves a console; None: any.
    """

    def __init__(
        self,
        options: WebSocketOptions,
        takes_leafs: Callable[[], bool],
        hosts: HostNames | None = None,
        *,
        takes_mqtt: Callable[[], bool] = _never,
    ) -> None:
        self._takes_leafs = takes_leafs
        self._takes_mqtt = takes_mqtt
        self._same_origin = options.keeps_to_origin
        self._hosts = hosts
        self._allowed: frozenset[WebOrigin] = frozenset(map(parse_origin, options.allowed_origins))
        self._cookies = {
            name: field
            for name, field in (
                (options.token_cookie, "auth_token"),
                (options.pass_cookie, "password"),
                (options.user_cookie, "user"),
                (options.jwt_cookie, "jwt"),
            )
            if name
        }

    def check(self, request: Request, *, is_secure: bool) -> UpgradeRequest:
        """Check a request for an upgrade; return what was agreed on. Raises: Refusal."""
        headers = request.headers
        path = request.path.partition("?")[0]
        is_mqtt = path.endswith("/mqtt")
        if is_mqtt and not self._takes_mqtt():
            raise Refusal(HTTPStatus.NOT_FOUND, "mqtt websocket endpoint not enabled")
        is_leaf = path.endswith("/leafnode")
        if is_leaf and not self._takes_leafs():
            raise Refusal(HTTPStatus.NOT_FOUND, "not configured to accept leaf node connections")
        if request.method != "GET":
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "request method must be GET")
        host = _only(headers, "Host")
        if not host:
            raise _bad("'Host' missing in request")
        if not _has_token(headers, "Upgrade", "websocket"):
            raise _bad("invalid value for header 'Upgrade'")
        if not _has_token(headers, "Connection", "Upgrade"):
            raise _bad("invalid value for header 'Connection'")
        _check_key(_only(headers, "Sec-WebSocket-Key"))
        if not _has_token(headers, "Sec-WebSocket-Version", _VERSION):
            raise _bad("invalid version")
        self._check_origin(headers, host, is_secure)
        return UpgradeRequest(
            self._credentials(headers),
            _forwarded_for(headers),
            _only(headers, "User-Agent").startswith("Mozilla/"),
            is_leaf,
            is_mqtt,
            any(headers.get_all(name) for name in _OF_PROXIES),
        )

    def _check_origin(self, headers: Headers, host: str, is_secure: bool) -> None:
        """Programs that are no browsers send none, and are let in."""
        text = _only(headers, "Origin") or _only(headers, "Sec-WebSocket-Origin")
        if not text or not (self._same_origin or self._allowed):
            return
        try:
            origin = parse_origin(text)
            here = WebOrigin("https" if is_secure else "http", *parse_host(host, is_secure=is_secure))
        except ValueError as error:
            raise _foreign(str(error)) from None
        if self._same_origin and origin != here:
            raise _foreign("not same origin")
        if self._allowed and origin not in self._allowed:
            raise _foreign("not in the allowed list")
        if self._hosts is not None and not self._allowed and not self._hosts.have(host):
            # The same origin is no proof where a stranger's name leads here.
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, "origin not allowed: unknown host")

    def _credentials(self, headers: Headers) -> dict[str, str]:
        if not self._cookies:
            return {}
        found = {}
        for line in headers.get_all("Cookie"):
            for pair in line.split(";"):
                name, is_pair, value = pair.strip().partition("=")
                if is_pair and name in self._cookies:
                    found[self._cookies[name]] = value[1:-1] if _is_quoted(value) else value
        return found


def _bad(reason: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, reason)


def _foreign(reason: str) -> Refusal:
    return Refusal(HTTPStatus.FORBIDDEN, f"origin not allowed: {reason}")


def _check_key(key: str) -> None:
    if not key:
        raise _bad("key missing")
    try:
        size = len(base64.b64decode(key, validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if size != _KEY_BYTES:
        raise _bad("invalid websocket key")


def _only(headers: Headers, name: str) -> str:
    """The first value of a header, "" without one."""
    values = headers.get_all(name)
    return values[0] if values else ""


def _has_token(headers: Headers, name: str, token: str) -> bool:
    words = (word for value in headers.get_all(name) for word in value.split(","))
    return any(word.strip(" \t").lower() == token.lower() for word in words)


def _forwarded_for(headers: Headers) -> str:
    text = _only(headers, "X-Forwarded-For")
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    return f"[{address}]" if address.version == 6 else str(address)


def _is_quoted(value: str) -> bool:
    return len(value) > 1 and value.startswith('"') and value.endswith('"')
