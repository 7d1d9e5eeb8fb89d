"""The `websocket` block: where clients over WebSocket connect, and what is asked of them.

Here lives its reading and the rules inside it. Never lives here: rules that concern the users of the server
(`options_builder`), connections (`headrace.server.websocket`).
Source: the Go server 2.15.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.fields import (
    UNSET,
    Binder,
    KeyTable,
    duration,
    duration_or_seconds,
    fields_of,
    string_of,
    strings,
    values_of,
)
from headrace.conf.listen import advertise, listen_row
from headrace.conf.port_authorization import port_authorization
from headrace.conf.problems import shown
from headrace.conf.tree import MapNode, Scalar
from headrace.conf.websocket_options import WebSocketOptions, parse_origin

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
    values = cast("dict[str, Any]", values_of(bound, WebSocketOptions))
    if "authorization" in values:
        values["authorization"] = values["authorization"].options()
    return WebSocketOptions(**values)


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


def _tls(binder: Binder, entry: Entry) -> TLSOptions | UnsetType:
    from headrace.conf.tls import tls

    if isinstance(entry.node, MapNode):
        for key, inner in entry.node.entries.items():
            if key.lower() in _WITHOUT_EFFECT:
                hint = "handshake_timeout of websocket is for the handshake too"
                binder.problems.warn(f"{key} has no effect in tls of websocket", inner.position, hint)
    return tls(binder, entry)


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


_WEBSOCKET: Final = KeyTable(
    (
        listen_row("Address and port", default="0.0.0.0"),
        *fields_of(
            WebSocketOptions,
            {
                "advertise": advertise,
                "tls": _tls,
                "allowed_origins": _allowed_origins,
                "handshake_timeout": _handshake_timeout,
                "authorization": port_authorization,
                "headers": _headers,
                "ping_interval": duration_or_seconds,
            },
        ),
    )
)
