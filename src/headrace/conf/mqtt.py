"""The `mqtt` block: where clients over MQTT connect, and what they and their sessions get.

Here lives its reading and the rules inside it, and those of a server that has it. Never lives here: rules
that concern the users of the server (`options_builder`), connections (`headrace.server.mqtt`).
Source: the Go server 2.15.1, whose texts these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.fields import (
    UNSET,
    Binder,
    Field,
    KeyTable,
    duration_or_seconds,
    fields_of,
    values_of,
    whole,
)
from headrace.conf.listen import listen_row
from headrace.conf.mqtt_options import MqttOptions
from headrace.conf.port_authorization import port_authorization
from headrace.conf.problems import shown
from headrace.conf.tree import MapNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.conf.fields import Bound, UnsetType
    from headrace.conf.leaf_options import LeafNodeOptions
    from headrace.conf.peer_options import ClusterOptions
    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.tree import Entry

_WITHOUT_EFFECT: Final = frozenset(("handshake_first", "first", "immediate", "connection_rate_limit"))
"""Keys of `tls` that say how the client port takes a handshake."""

_TWO_BYTES: Final = 65535
_LEVELS: Final = (4, 5)
_NOT_POSITIVE: Final = {
    "ack_wait": "ack wait must be a positive value",
    "js_api_timeout": "JS API timeout must be a positive value",
    "consumer_inactive_threshold": "consumer_inactive_threshold cannot be negative",
    "max_session_expiry": "max_session_expiry cannot be negative",
}
"""The texts for durations below zero, by option."""


def mqtt(binder: Binder, entry: Entry) -> MqttOptions | UnsetType:
    """The whole block; UNSET where it has no port, for then there is no listener."""
    bound = binder.bind_map(entry, _MQTT)
    if bound is UNSET:
        return UNSET
    if not bound.values.get("port"):
        if "port" not in bound.failed:
            binder.problems.remark("mqtt without a port: no such clients can connect", entry.position)
        return UNSET
    _check(binder, bound)
    values = cast("dict[str, Any]", values_of(bound, MqttOptions))
    if "authorization" in values:
        values["authorization"] = values["authorization"].options()
    return MqttOptions(**values)


def mqtt_problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a server with such a port lacks, each as a message with the option that it is about."""
    cluster = cast("ClusterOptions | None", values.get("cluster"))
    leafnodes = cast("LeafNodeOptions | None", values.get("leafnodes"))
    has_cluster = (cluster is not None and bool(cluster.port)) or values.get("gateway") is not None
    if has_cluster and not values.get("server_name"):
        yield "mqtt requires server name to be explicitly set", "mqtt"
    has_leafs = leafnodes is not None and bool(leafnodes.port or leafnodes.remotes)
    if values.get("jetstream") is None and not has_cluster and not has_leafs:
        yield "mqtt requires JetStream to be enabled if running in standalone mode", "mqtt"


def _check(binder: Binder, bound: Bound) -> None:
    values = bound.values
    if not -1 <= cast("int", values["port"]) <= _TWO_BYTES:
        binder.problem("port must lie between -1 and 65535", bound.positions["port"])
    for option, message in _NOT_POSITIVE.items():
        if cast("float", values.get(option, 0.0)) < 0:
            binder.problem(message, bound.positions[option])
    keep_alive = values.get("max_keep_alive")
    if keep_alive is not None and not 1 <= cast("float", keep_alive) <= _TWO_BYTES:
        binder.problem("max_keep_alive must lie between 1s and 65535s", bound.positions["max_keep_alive"])
    if values.get("max_level", 5) not in _LEVELS:
        binder.problem("max_level must be 4 (MQTT 3.1.1) or 5", bound.positions["max_level"])
    for option, key in MqttOptions.KEYS.items():
        if key.between is not None and option in values:
            low, high = key.between
            if not low <= cast("int", values[option]) <= high:
                message = f"{option} must lie between {low:g} and {high:g}"
                binder.problem(message, bound.positions[option])


def _tls(binder: Binder, entry: Entry) -> TLSOptions | UnsetType:
    from headrace.conf.tls import tls

    if isinstance(entry.node, MapNode):
        for key, inner in entry.node.entries.items():
            if key.lower() in _WITHOUT_EFFECT:
                binder.problems.warn(f"{key} has no effect in tls of mqtt", inner.position)
    return tls(binder, entry)


def _max_ack_pending(binder: Binder, entry: Entry) -> int | UnsetType:
    value = whole(binder, entry)
    if value is not UNSET and not 0 <= value <= _TWO_BYTES:
        message = f"invalid value {value}, should in [0..{_TWO_BYTES}] range"
        return binder.problem(message, entry.node.position)
    return value


def _ignored(binder: Binder, entry: Entry) -> UnsetType:
    why = "consumer replicas setting ignored in this server version"
    binder.problems.warn(f"invalid use of field {shown(entry.key)}: {why}", entry.position)
    return UNSET


_MQTT: Final = KeyTable(
    (
        listen_row("Address and port", default="0.0.0.0"),
        *fields_of(
            MqttOptions,
            {
                "tls": _tls,
                "authorization": port_authorization,
                "ack_wait": duration_or_seconds,
                "max_ack_pending": _max_ack_pending,
                "js_api_timeout": duration_or_seconds,
                "consumer_inactive_threshold": duration_or_seconds,
                "max_session_expiry": duration_or_seconds,
                "max_keep_alive": duration_or_seconds,
            },
        ),
        Field(
            ("consumer_replicas",),
            _ignored,
            binds=False,
            text="Without effect, as in nats-server: consumers have the replicas of their stream",
            kind="integer",
        ),
    )
)
