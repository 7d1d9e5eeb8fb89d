"""What the JetStream API answers with: configurations and PubAcks as the Go server writes them.

Which fields are always there and which are left out when they say nothing is said here; state is its owner's.
Source: JetStream specification, 1 and 2; nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from headrace.protocol.jetstream.levels import with_server

if TYPE_CHECKING:
    from headrace.protocol.jetstream.configs import ConsumerConfig, StreamConfig

TYPE_PREFIX: Final = "io.nats.jetstream.api.v1."

_ALWAYS: Final[dict[str, frozenset[str]]] = {
    "StreamConfig": frozenset(
        [
            *("name", "retention", "discard", "storage", "compression", "num_replicas", "consumer_limits"),
            *("max_consumers", "max_msgs", "max_bytes", "max_age", "max_msgs_per_subject"),
            *("allow_direct", "mirror_direct", "allow_rollup_hdrs", "allow_msg_ttl"),
            *("sealed", "deny_delete", "deny_purge"),
        ]
    ),
    "ConsumerConfig": frozenset(["deliver_policy", "ack_policy", "replay_policy", "num_replicas"]),
    "StreamSource": frozenset(["name"]),
    "SubjectTransformConfig": frozenset(["src", "dest"]),
    "ExternalStream": frozenset(["api", "deliver"]),
    "RePublish": frozenset(["dest"]),
}
"""Fields that are written even if they say nothing, by the Go server's name of their type."""
_DEFAULTS: Final = {"persist_mode": "default", "priority_policy": "none"}
"""What is left out although it says something: it is so anyway."""


def encode(response: object) -> bytes:
    """A response as JSON. Text and numbers only; bytes become base64."""
    return msgspec.json.encode(response)


def stream_config(config: StreamConfig, *, with_version: str = "") -> dict[str, Any]:
    """As it stands in a StreamInfo; `with_version`: which server answers, in its metadata."""
    return _with_version(_shown(config), with_version)


def consumer_config(config: ConsumerConfig, *, with_version: str = "") -> dict[str, Any]:
    """As it stands in a ConsumerInfo; `with_version`: which server answers, in its metadata."""
    return _with_version(_shown(config), with_version)


def _with_version(shown: dict[str, Any], version: str) -> dict[str, Any]:
    if version:
        shown["metadata"] = with_server(shown.get("metadata", {}), version)
    return shown


def _shown(struct: msgspec.Struct) -> dict[str, Any]:
    """As Go writes it: in the order of its fields, without those that may be left out."""
    always = _ALWAYS.get(struct.go_name, frozenset())  # type: ignore[attr-defined]
    shown: dict[str, Any] = {}
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if value or name in always:
            shown[name] = _value(value)
    for name, left_out in _DEFAULTS.items():
        if shown.get(name) == left_out:
            del shown[name]
    return shown


def _value(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _shown(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, dict):
        return dict(sorted(value.items()))
    return value
