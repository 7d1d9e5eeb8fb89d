"""The responses of the JetStream API: configurations as the Go server writes them.

Fields that say nothing are left out, but for those that are `always` there (`configs`). State is its owner's.
Source: JetStream specification, 1 and 2; nats-server 2.15.1.
"""

from __future__ import annotations

import functools
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from headrace.protocol.jetstream.levels import with_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.protocol.jetstream.configs import ConsumerConfig, StreamConfig

TYPE_PREFIX: Final = "io.nats.jetstream.api.v1."

_DEFAULTS: Final = {"persist_mode": "default", "priority_policy": "none"}
"""Default values that are left out although they are not empty."""


def encode(response: object) -> bytes:
    """A response as JSON. Text and numbers only; bytes become base64."""
    return msgspec.json.encode(response)


def stream_config(config: StreamConfig, *, with_version: str = "") -> dict[str, Any]:
    """Return a configuration as in StreamInfo; `with_version`: with the server's version in its metadata."""
    return _with_version(_shown(config), with_version)


def consumer_config(config: ConsumerConfig, *, with_version: str = "") -> dict[str, Any]:
    """Return a configuration as ConsumerInfo has it; `with_version`: with the server's version in its
    metadata.
    """
    return _with_version(_shown(config), with_version)


def _with_version(shown: dict[str, Any], version: str) -> dict[str, Any]:
    if version:
        shown["metadata"] = with_server(shown.get("metadata", {}), version)
    return shown


class _Shape(NamedTuple):
    """The written form of a type: its fields in order, those that are always written, those with parts."""

    names: tuple[str, ...]
    values: Callable[[msgspec.Struct], tuple[Any, ...]]
    always: tuple[bool, ...]
    nested: tuple[str, ...]
    defaults: tuple[tuple[str, str], ...]


@functools.cache
def _shape(kind: type[msgspec.Struct]) -> _Shape:
    names = kind.__struct_fields__
    always: frozenset[str] = kind.always  # type: ignore[attr-defined]
    return _Shape(
        names,
        attrgetter(*names),
        tuple(name in always for name in names),
        tuple(name for name, hint in get_type_hints(kind).items() if name in names and _has_parts(hint)),
        tuple((name, left_out) for name, left_out in _DEFAULTS.items() if name in names),
    )


def _has_parts(hint: Any) -> bool:
    if get_origin(hint) in (list, dict):
        return True
    return any(
        isinstance(kind, type) and issubclass(kind, msgspec.Struct) for kind in (hint, *get_args(hint))
    )


def _shown(struct: msgspec.Struct) -> dict[str, Any]:
    """Return a structure as Go writes it: in the order of its fields, without those that may be left out."""
    shape = _shape(type(struct))
    fields = zip(shape.names, shape.values(struct), shape.always, strict=True)
    shown = {name: value for name, value, always in fields if value or always}
    for name in shape.nested:
        if name in shown:
            shown[name] = _value(shown[name])
    for name, left_out in shape.defaults:
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
