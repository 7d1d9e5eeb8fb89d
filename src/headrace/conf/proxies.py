"""The `proxies` block: which proxies are believed when they sign for the connections they pass on.

Here lives its reading. Never lives here: checking of signatures (`headrace.server`).
Source: nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from headrace.conf.fields import UNSET, Field, KeyTable, text
from headrace.conf.problems import shown
from headrace.conf.tree import MapNode
from headrace.protocol.nkeys import NKeyError, decode_public

if TYPE_CHECKING:
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tree import Entry


def trusted_proxies(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    """The public keys of the proxies."""
    bound = binder.bind_map(entry, _PROXIES)
    return UNSET if bound is UNSET else cast("tuple[str, ...]", bound.values.get("trusted", ()))


def _trusted(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    nodes = binder.list(entry)
    if nodes is UNSET:
        return UNSET
    keys = []
    for node in nodes.items:
        if not isinstance(node, MapNode):
            binder.wrong_node("each of the trusted proxies", node, "a map")
            continue
        key = binder.bind(node, _PROXY).values.get("key")
        if key is not None:
            keys.append(cast("str", key))
    return tuple(dict.fromkeys(keys))


def _key(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is not UNSET:
        try:
            decode_public(value)
        except NKeyError:
            return binder.problem(f"invalid proxy key {shown(value)}", entry.node.position)
    return value


_PROXY: Final = KeyTable(
    (Field(("key", "public_key"), _key, option="key", text="Public key", kind="string"),)
)
_PROXIES: Final = KeyTable((Field(("trusted",), _trusted, text="Their keys", kind="list of maps"),))
