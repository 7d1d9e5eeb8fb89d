"""`proxy` of a remote of leafnodes: the HTTP proxy that its hub is reached through.

Never lives here: connections (`headrace.server.peers`). Source: the Go server 2.15.1, its words too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from headrace.conf.fields import (
    UNSET,
    Binder,
    Field,
    KeyTable,
    duration_or_seconds,
    fields_of,
    text,
    values_of,
)
from headrace.conf.leaf_options import LeafProxy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.fields import Bound, UnsetType
    from headrace.conf.leaf_options import LeafRemote
    from headrace.conf.tree import Entry
    from headrace.errors import Position

_PORTS: Final = {"http": 80, "https": 443}
_NO_TLS: Final = (
    "proxy is configured but remote URL {} requires TLS and no TLS configuration is provided. When using"
    " proxy with TLS endpoints, ensure TLS is properly configured for the leafnode remote"
)


def leaf_proxy(binder: Binder, entry: Entry) -> LeafProxy | UnsetType:
    """The whole block; UNSET for an empty one, for then there is no proxy."""
    bound = binder.bind_map(entry, _PROXY)
    if bound is UNSET or bound.failed or not any(bound.values.values()):
        return UNSET
    problem = _problem(bound.values)
    if problem:
        return binder.problem(problem, entry.position)
    found = _at(binder, bound)
    if found is UNSET:
        return UNSET
    values = values_of(bound, LeafProxy)
    del values["url"]
    return LeafProxy(*found, **cast("dict[str, Any]", values))


def _problem(values: Mapping[str, object]) -> str:
    """Return the error between the keys; "" for none."""
    if not values.get("url"):
        return "proxy URL must be specified when other proxy options are set"
    if bool(values.get("user")) != bool(values.get("password")):
        return "proxy username and password must both be specified or both be empty"
    return "proxy timeout must be >= 0" if cast("float", values.get("timeout", 0.0)) < 0 else ""


def _at(binder: Binder, bound: Bound) -> tuple[str, int] | UnsetType:
    position = bound.positions["url"]
    try:
        url = urlsplit(cast("str", bound.values["url"]))
        port = url.port
    except ValueError as error:
        return binder.problem(f"invalid proxy URL: {error}", position)
    if url.scheme not in _PORTS:
        message = f"proxy URL scheme must be http or https, got: {url.scheme}"
        return binder.problem(message, position)
    if not url.hostname:
        return binder.problem("proxy URL must specify a host", position)
    if url.scheme == "https":
        message = "a proxy is spoken to without TLS, as by nats-server; what goes to the hub may have its own"
        binder.problems.warn(message, position)
    return url.hostname, _PORTS[url.scheme] if port is None else port


def check_proxied(binder: Binder, remote: LeafRemote, position: Position | None) -> None:
    """Check that the hub can be reached through the proxy."""
    for url in remote.urls:
        if url.scheme == "wss" and remote.tls is None:
            binder.problem(_NO_TLS.format(f"{url.scheme}://{url}"), position)


_PROXY: Final[KeyTable] = KeyTable(
    (
        Field(("url",), text, text="`http://host:port`; the proxy must allow CONNECT to the hub"),
        *fields_of(LeafProxy, {"timeout": duration_or_seconds}),
    )
)
