"""The `auth_callout` block of `authorization`: the service that decides about users.

Here lives its reading. Never lives here: whether there is such an account and such users (`options_builder`),
what is asked and answered (`headrace.core.callout`). Source: nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.account_options import CalloutOptions
from headrace.conf.fields import UNSET, KeyTable, fields_of, strings, text, values_of
from headrace.conf.problems import shown
from headrace.conf.tree import ListNode
from headrace.protocol.jwt.rules import is_key
from headrace.protocol.nkeys import KeyKind

if TYPE_CHECKING:
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tree import Entry


def callout(binder: Binder, entry: Entry) -> CalloutOptions | UnsetType:
    """The whole block."""
    bound = binder.bind_map(entry, _CALLOUT)
    if bound is UNSET or bound.failed:
        return UNSET
    values = cast("dict[str, Any]", values_of(bound, CalloutOptions))
    found_before = len(binder.problems)
    if not values.get("issuer"):
        binder.problem("authorization callouts require an issuer to be specified", entry.position)
    if not values.get("users"):
        message = "authorization callouts require authorized users to be specified"
        binder.problem(message, entry.position)
    if len(binder.problems) > found_before:
        return UNSET
    return CalloutOptions(**values)


def _issuer(binder: Binder, entry: Entry) -> str | UnsetType:
    return _key(binder, entry, KeyKind.ACCOUNT, "expected callout user to be a valid public account nkey")


def _curve_key(binder: Binder, entry: Entry) -> str | UnsetType:
    return _key(binder, entry, KeyKind.CURVE, "expected callout xkey to be a valid public xkey")


def _names(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    return strings(binder, entry) if isinstance(entry.node, ListNode) else binder.wrong_type(entry, "a list")


def _key(binder: Binder, entry: Entry, kind: KeyKind, complaint: str) -> str | UnsetType:
    value = text(binder, entry)
    if value is not UNSET and not is_key(value, kind):
        # A seed may have been taken for a public key.
        seen = "a seed" if value.startswith("S") else shown(value)
        return binder.problem(f"{complaint}, got {seen}", entry.node.position)
    return value


_CALLOUT: Final = KeyTable(
    (
        *fields_of(
            CalloutOptions,
            {"issuer": _issuer, "users": _names, "curve_key": _curve_key, "allowed_accounts": _names},
        ),
    )
)
