"""The `websocket` block: where clients over WebSocket connect, and what is asked of them.

Here lives its reading and the rules inside it. Never lives here: rules that concern the users of the server
(`options_builder`), connections (`headrace.server.websocket`).
Source: the Go server 2.15.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from headrace.conf.credentials import AuthorizationBlock, check_credentials
from headrace.conf.fields import (
    UNSET,
    Binder,
    Field,
    Table,
    duration,
    duration_or_seconds,
    flag,
    seconds,
    string_of,
    strings,
    text,
    whole,
)
from headrace.conf.listen import advertise, listen
from headrace.conf.options import WebSocketOptions
from headrace.conf.origins import parse_origin
from headrace.conf.problems import shown
from headrace.conf.tree import MapNode, Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import Bound, UnsetType
    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.tree import Entry

_WITHOUT_EFFECT: Final = frozenset(
    ("timeout", "handshake_first", "first", "immediate", "connection_rate_limit")
)
"""Keys of `tls` that say how the client port takes a handshake; over HTTP it always comes first."""

_RESERVED_HEADERS: Final = frozenset(("host", "content-length", "connection", "upgrade", "nats-no-masking"))
_HEADER_NAME: Final = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def websocket(binder: Binder, entry: Entry) -> WebSocketOptions | UnsetType:
    """The whole block; UNSET where it has no port, for then there is no listener."""
    bound = binder.bind_map(entry, _WEBSOCKET)
    if bound is UNSET:
        return UNSET
    if not bound.values.get("port"):
        if "port" not in bound.failed:
            binder.problems.warn("websocket without a port: no such clients can connect", entry.position)
        return UNSET
    _check(binder, entry, bound)
    values = {name: value for name, value in bound.values.items() if value not in ("", None)}
    block = cast("AuthorizationBlock | None", values.pop("authorization", None))
    if block is not None:
        values["authorization"] = block.options()
    return WebSocketOptions(**values)  # type: ignore[arg-type]


def _check(binder: Binder, entry: Entry, bound: Bound) -> None:
    values = bound.values
    port = cast("int", values["port"])
    if not -1 <= port <= 65535:
        binder.problem("port must lie between -1 and 65535", bound.positions["port"])
    if "tls" not in values and "tls" not in bound.failed and not values.get("no_tls"):
        hint = "no_tls: true lets clients in without, never do so where others can listen"
        binder.problem("websocket requires TLS configuration", entry.position, hint)
    for option in ("handshake_timeout", "ping_interval"):
        if cast("float", values.get(option, 0.0)) < 0:
            binder.problem(f"{option} cannot be negative", bound.positions[option])
    if not values.get("ping_interval", 1.0):
        del values["ping_interval"]


def _tls(binder: Binder, entry: Entry) -> TLSOptions | UnsetType:
    from headrace.conf.tls import tls

    if isinstance(entry.node, MapNode):
        for key, inner in entry.node.entries.items():
            if key.lower() in _WITHOUT_EFFECT:
                hint = "handshake_timeout of websocket is for the handshake too"
                binder.problems.warn(f"{key} has no effect in tls of websocket", inner.position, hint)
    return tls(binder, entry)


def _authorization(binder: Binder, entry: Entry) -> AuthorizationBlock | UnsetType:
    bound = binder.bind_map(entry, _AUTHORIZATION)
    if bound is UNSET:
        return UNSET
    block = AuthorizationBlock(
        user=cast("str | None", bound.values.get("user")),
        password=cast("str | None", bound.values.get("password")),
        token=cast("str | None", bound.values.get("token")),
        timeout=cast("float | None", bound.values.get("timeout")),
    )
    check_credentials(block, binder.problems, entry.position)
    return block


def _allowed_origins(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    origins = strings(binder, entry)
    if origins is UNSET:
        return UNSET
    for origin in origins:
        try:
            parse_origin(origin)
        except ValueError as error:
            binder.problem(f"unable to parse allowed origin {shown(origin)}: {error}", entry.node.position)
    return origins


def _headers(binder: Binder, entry: Entry) -> tuple[tuple[str, str], ...] | UnsetType:
    node = binder.map(entry)
    if node is UNSET:
        return UNSET
    headers = []
    for name, inner in node.entries.items():
        value = string_of(inner.node)
        if value is None:
            binder.wrong_node(f"header {shown(name)}", inner.node, "a string")
        elif name.lower() in _RESERVED_HEADERS:
            binder.problem(f"websocket: invalid header {shown(name)} not allowed", inner.position)
        elif name.lower().startswith("sec-websocket-"):
            message = f'websocket: invalid header {shown(name)}, "Sec-WebSocket-" prefix not allowed'
            binder.problem(message, inner.position)
        elif not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            binder.problem(f"header {shown(name)} cannot stand in an HTTP response", inner.position)
        else:
            headers.append((name, value))
    return tuple(headers)


def _handshake_timeout(binder: Binder, entry: Entry) -> float | UnsetType:
    """A duration, or a whole number of seconds."""
    node = entry.node
    if isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return float(node.value)
    return duration(binder, entry)


_AUTHORIZATION: Final = Table(
    (
        Field(("user", "username"), text, text="Name"),
        Field(("password", "pass"), text, text="Password, or its bcrypt hash"),
        Field(("token",), text, text="Token, in the place of both"),
        Field(("timeout",), seconds, text="Time a client has for CONNECT", default="the server's"),
    )
)
_WEBSOCKET: Final = Table(
    (
        Field(
            ("listen",),
            listen,
            spreads=True,
            text="Address and port",
            kind='port or "host:port"',
            default="0.0.0.0",
        ),
        Field(("host", "net"), text, text="Address"),
        Field(("port",), whole, text="Port; -1 lets the system choose", default="-"),
        Field(("advertise",), advertise, text="Address shown in `/varz`", kind="string"),
        Field(("no_tls",), flag, text="Serve without TLS"),
        Field(("tls",), _tls, text="TLS of this port, as above; this or `no_tls` must be there", kind="map"),
        Field(("same_origin",), flag, text="Browsers only from pages of this host"),
        Field(
            (
                *("allowed_origins", "allowed_origin", "allow_origins", "allow_origin"),
                *("origins", "origin"),
            ),
            _allowed_origins,
            text="Origins that browsers may come from",
            kind="string or list",
            default="all",
        ),
        Field(
            ("handshake_timeout",),
            _handshake_timeout,
            text="Time for TLS and the upgrade",
            kind="duration",
            default="10s",
        ),
        Field(("compression", "compress"), flag, text="permessage-deflate for clients that ask for it"),
        Field(
            ("authorization", "authentication"),
            _authorization,
            text="Who may connect here, in the place of the server's; see below",
            kind="map",
        ),
        Field(("no_auth_user",), text, text="Who a client without credentials is here"),
        Field(("jwt_cookie",), text, text="Cookie with the token of clients whose CONNECT has none"),
        Field(("user_cookie",), text, text="Cookie with the user name"),
        Field(("pass_cookie",), text, text="Cookie with the password"),
        Field(("token_cookie",), text, text="Cookie with the token (of `authorization`)"),
        Field(("headers",), _headers, text="Headers added to the response of an upgrade", kind="map"),
        Field(("ping_interval",), duration_or_seconds, text="Time between PINGs", default="the server's"),
    )
)
