"""`ocsp_peer` of a `tls` block, and `ocsp_cache`: peers' certificates checked with OCSP responders.

Here lives their reading. Never lives here: requests and answers (`headrace.server.ocsp`).
Source: forms, defaults and what a negative time means compared with the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from headrace.conf.fields import UNSET, Field, KeyTable, fields_of, flag, seconds, text
from headrace.conf.options import OCSPCacheOptions
from headrace.conf.problems import shown
from headrace.conf.tls_options import OCSPPeerOptions
from headrace.conf.tree import Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tree import Entry

_TYPES: Final = ("none", "local")
_IN_MEMORY: Final = "answers are kept in memory only, and asked for again after a start"


def ocsp_peer(binder: Binder, entry: Entry) -> OCSPPeerOptions | UnsetType | None:
    """Read an `ocsp_peer` block; None: peers are not checked."""
    if _is_flag(entry):
        return OCSPPeerOptions() if flag(binder, entry) is True else None
    bound = binder.bind_map(entry, _PEER)
    if bound is UNSET:
        return UNSET
    # A time below zero says nothing, and no time at all is none to wait for an answer.
    values = {
        name: value
        for name, value in bound.values.items()
        if isinstance(value, bool) or cast("float", value) >= 0
    }
    if not values.pop("verify", False):
        return None
    if not values.get("ca_timeout"):
        values.pop("ca_timeout", None)
    return OCSPPeerOptions(**values)  # type: ignore[arg-type]  # the table has the types


def ocsp_cache(binder: Binder, entry: Entry) -> OCSPCacheOptions | UnsetType:
    if _is_flag(entry):
        return OCSPCacheOptions(keeps=flag(binder, entry) is True)
    bound = binder.bind_map(entry, _CACHE)
    return UNSET if bound is UNSET else OCSPCacheOptions(**bound.values)  # type: ignore[arg-type]  # as above


def _is_flag(entry: Entry) -> bool:
    return isinstance(entry.node, Scalar) and isinstance(entry.node.value, bool)


def _keeps(binder: Binder, entry: Entry) -> bool | UnsetType:
    value = text(binder, entry)
    if value is UNSET:
        return UNSET
    if value.lower() not in _TYPES:
        message = f"error parsing OCSP peer cache config, unknown type {shown(value)}"
        return binder.problem(message, entry.node.position, "none or local")
    return value.lower() == "local"


_PEER: Final = KeyTable(
    (
        *fields_of(OCSPPeerOptions),
        Field(("verify",), flag, text="Check peers; without it the block does nothing", default="false"),
    )
)
_CACHE: Final = KeyTable(
    (
        *fields_of(OCSPCacheOptions, {"keeps": _keeps}),
        Field(
            ("local_store",),
            text,
            idle=_IN_MEMORY,
            binds=False,
            text="Without effect: answers are in memory",
            default="",
        ),
        Field(
            ("save_interval",),
            seconds,
            idle=_IN_MEMORY,
            binds=False,
            text="Without effect, as there is nothing to save",
            default="",
        ),
    )
)
