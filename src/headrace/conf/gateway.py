"""The `gateway` block: of how many clusters this one is one, where their servers are, and who may connect.

Here lives its reading and the rules inside it. Never lives here: connections (`headrace.server.peers`), what
servers say to each other (`headrace.cluster`). Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.fields import UNSET, Field, KeyTable, duration_or_seconds, fields_of, text, values_of
from headrace.conf.listen import advertise, listen_row
from headrace.conf.peer_fields import (
    peer_authorization,
    peer_credentials,
    peer_tls,
    peer_url,
    peer_urls,
    write_timeout,
)
from headrace.conf.peer_options import GatewayOptions, PeerURL, RemoteGatewayOptions
from headrace.conf.problems import shown
from headrace.conf.tree import ListNode, MapNode

if TYPE_CHECKING:
    from headrace.conf.account_options import AuthorizationBlock
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.tree import Entry
    from headrace.errors import Position


def gateway(binder: Binder, entry: Entry) -> GatewayOptions | UnsetType:
    """The whole block; UNSET for one that says neither a name nor a port."""
    bound = binder.bind_map(entry, _GATEWAY)
    if bound is UNSET:
        return UNSET
    values = values_of(bound, GatewayOptions)
    block = cast("AuthorizationBlock | None", values.pop("authorization", None))
    values |= peer_credentials(block, cast("TLSOptions | None", values.get("tls")))
    options = GatewayOptions(**cast("dict[str, Any]", values))
    if not options.name and not options.port and not {"name", "port"} & set(bound.positions):
        return UNSET
    _check(binder, options, entry.position, bound.positions)
    return options


def _check(
    binder: Binder, options: GatewayOptions, position: Position, positions: dict[str, Position]
) -> None:
    if not options.name:
        binder.problem("gateway has no name", position)
    elif not options.port:
        message = f"gateway {shown(options.name)} has no port specified (select -1 for random port)"
        binder.problem(message, position)
    if not -1 <= options.port <= 65535:
        binder.problem("gateway port must lie between -1 and 65535", positions.get("port"))
    for place, remote in enumerate(options.gateways):
        if not remote.name:
            binder.problem(f"gateway in the list {place} has no name", positions.get("gateways"))
        elif not remote.urls:
            binder.problem(f"gateway {shown(remote.name)} has no URL", positions.get("gateways"))


def _name(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is not UNSET and " " in value:
        return binder.problem("gateway name cannot contain spaces", entry.node.position)
    return value


def _authorization(binder: Binder, entry: Entry) -> AuthorizationBlock | UnsetType:
    return peer_authorization(binder, entry, "Gateway")


def _gateways(binder: Binder, entry: Entry) -> tuple[RemoteGatewayOptions, ...] | UnsetType:
    node = entry.node
    if not isinstance(node, ListNode):
        return binder.wrong_type(entry, "a list of maps")
    found = []
    for item in node.items:
        if not isinstance(item, MapNode):
            binder.wrong_node("each gateway", item, "a map")
            continue
        values = binder.bind(item, _REMOTE).values
        urls = cast("tuple[PeerURL, ...]", values.get("urls", values.get("url", ())))
        found.append(
            RemoteGatewayOptions(
                name=cast("str", values.get("name", "")),
                urls=urls,
                tls=cast("TLSOptions | None", values.get("tls")),
            )
        )
    return tuple(found)


def _url(binder: Binder, entry: Entry) -> tuple[PeerURL, ...] | UnsetType:
    url = peer_url(binder, entry.node, "gateway")
    return UNSET if url is None else (url,)


def _urls(binder: Binder, entry: Entry) -> tuple[PeerURL, ...] | UnsetType:
    return peer_urls(binder, entry, "gateway")


_REMOTE: Final = KeyTable(
    (
        *fields_of(RemoteGatewayOptions, {"tls": peer_tls, "urls": _urls}),
        Field(("url",), _url, text="A server of it: `nats://user:password@host:port`", kind="string"),
    )
)
_GATEWAY: Final = KeyTable(
    (
        *fields_of(
            GatewayOptions,
            {
                "name": _name,
                "tls": peer_tls,
                "advertise": advertise,
                "gateways": _gateways,
                "write_deadline": duration_or_seconds,
                "write_timeout": write_timeout,
            },
        ),
        listen_row("Address and port for other clusters"),
        Field(
            ("authorization",),
            _authorization,
            text=(
                "`user`, `password` and `timeout` of servers that connect; also what this one says of itself"
            ),
            kind="map",
        ),
    )
)
