"""The `accounts` block: spaces of subjects with their users, exports, imports, mappings and limits.

Here lives its reading. Never lives here: what concerns several accounts at once (`account_rules`).
Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct, field

from headrace.conf.authorization import users
from headrace.conf.exports import exports, imports
from headrace.conf.fields import UNSET, Binder, Field, Table, string_of, whole
from headrace.conf.jetstream import account_jetstream
from headrace.conf.mappings import mappings
from headrace.conf.names import is_account_nkey
from headrace.conf.options import GLOBAL_ACCOUNT, AccountLimits, AccountOptions
from headrace.conf.permissions import permissions
from headrace.conf.problems import shown
from headrace.conf.tracing import message_trace
from headrace.conf.tree import ListNode, MapNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.exports import Placed
    from headrace.conf.fields import UnsetType
    from headrace.conf.options import (
        ExportOptions,
        ImportOptions,
        JetStreamAccountLimits,
        Permissions,
        SubjectMapping,
        TraceOptions,
        UserOptions,
    )
    from headrace.conf.tree import Entry, Node
    from headrace.errors import Position

_UNLIMITED: Final = -1


class AccountsBlock(Struct, frozen=True):
    """The accounts as written, and where each export, import and user list stands."""

    accounts: tuple[AccountOptions, ...] = ()
    positions: dict[tuple[str, str, int], Position] = field(default_factory=dict)
    """By account, "export" or "import" or "account", and index."""


def accounts(binder: Binder, entry: Entry) -> AccountsBlock | UnsetType:
    """The whole block: a map, or only names."""
    node = entry.node
    block = AccountsBlock()
    found: list[AccountOptions] = []
    if isinstance(node, MapNode):
        for account in node.entries.values():
            if account.key == GLOBAL_ACCOUNT:
                binder.problem(f"{shown(account.key)} is a reserved account", account.position)
                continue
            read = _account(binder, account, block)
            if read is not UNSET:
                found.append(read)
    else:
        names = node.items if isinstance(node, ListNode) else (node,)
        for item in names:
            name = _name(binder, entry, item)
            if name is None:
                continue
            if any(other.name == name for other in found):
                binder.problem(f"duplicate account {shown(name)}", item.position)
            else:
                found.append(AccountOptions(name))
    return AccountsBlock(tuple(found), block.positions)


def _name(binder: Binder, entry: Entry, node: Node) -> str | None:
    name = string_of(node)
    if name is None:
        binder.wrong_type(entry, "a map of accounts, or their names")
        return None
    if not name or name == GLOBAL_ACCOUNT:
        binder.problem(f"{shown(name)} is a reserved account", node.position)
        return None
    return name


def _account(binder: Binder, entry: Entry, block: AccountsBlock) -> AccountOptions | UnsetType:
    if not isinstance(entry.node, MapNode):
        return binder.wrong_node(f"account {shown(entry.key)}", entry.node, "a map")
    values = binder.bind(entry.node, _ACCOUNT).values
    exported = cast("tuple[Placed[ExportOptions], ...]", values.get("exports", ()))
    imported = cast("tuple[Placed[ImportOptions], ...]", values.get("imports", ()))
    block.positions[entry.key, "account", 0] = entry.position
    block.positions.update({(entry.key, "export", i): item.position for i, item in enumerate(exported)})
    block.positions.update({(entry.key, "import", i): item.position for i, item in enumerate(imported)})
    return AccountOptions(
        name=entry.key,
        users=cast("tuple[UserOptions, ...]", values.get("users", ())),
        default_permissions=cast("Permissions | None", values.get("default_permissions")),
        mappings=cast("tuple[SubjectMapping, ...]", values.get("mappings", ())),
        exports=tuple(item.value for item in exported),
        imports=tuple(item.value for item in imported),
        limits=cast("AccountLimits", values.get("limits", AccountLimits())),
        jetstream=cast("Mapping[str, JetStreamAccountLimits] | None", values.get("jetstream")),
        trace=cast("TraceOptions | None", values.get("trace")),
    )


def _limits(binder: Binder, entry: Entry) -> AccountLimits | UnsetType:
    bound = binder.bind_map(entry, _LIMITS)
    if bound is UNSET:
        return UNSET
    return AccountLimits(**cast("dict[str, int]", bound.values))


def _limit(binder: Binder, entry: Entry) -> int | UnsetType:
    value = whole(binder, entry)
    return value if value is UNSET or value >= 0 else _UNLIMITED


def _nkey(binder: Binder, entry: Entry) -> str | UnsetType:
    value = string_of(entry.node)
    if value is None:
        return binder.wrong_type(entry, "a string")
    if not is_account_nkey(value):
        return binder.problem("not a valid public nkey of an account", entry.node.position)
    return value


_LIMITS: Final = Table(
    (
        Field(
            ("max_connections", "max_conn"),
            _limit,
            text="Connections of the account",
            kind="integer",
            default="no limit",
        ),
        Field(
            ("max_subscriptions", "max_subs"),
            _limit,
            text="Subscriptions of each of its connections",
            kind="integer",
            default="no limit",
        ),
        Field(
            ("max_payload", "max_pay"),
            _limit,
            text="Bytes of a message of each of its connections",
            kind="integer",
            default="no limit",
        ),
        Field(
            ("max_leafnodes", "max_leafs"),
            _limit,
            text="Leaf nodes at a time",
            kind="integer",
            default="no limit",
        ),
    ),
)
_ACCOUNT: Final = Table(
    (
        Field(
            ("nkey",),
            _nkey,
            text="Public key of the account (`A…`); accepted, and used for nothing",
            kind="string",
        ),
        Field(
            ("users",),
            users,
            text="Its users, as of `authorization`; a name belongs to one account only",
            kind="list of maps",
        ),
        Field(
            ("default_permissions", "default_permission", "permissions"),
            permissions,
            text="Permissions of users that have none of their own",
            kind="map",
        ),
        Field(("mappings", "maps"), mappings, text="Its subject mappings", kind="map"),
        Field(("exports",), exports, text="What others may import", kind="list of maps"),
        Field(("imports",), imports, text="What it takes from others", kind="list of maps"),
        Field(("limits",), _limits, text="Limits of the account", kind="map"),
        Field(
            ("jetstream",),
            account_jetstream,
            text=(
                "JetStream for the account, where the server has it; see below. Without any account `$G` "
                "has it"
            ),
            kind='true, false, "enabled", "disabled" or map',
            default="false",
        ),
        Field(
            ("msg_trace", "trace_dest"),
            message_trace,
            option="trace",
            text="Where traces go of messages that a tracing system has marked (`traceparent`)",
            kind="subject or map",
        ),
    ),
    unsupported={"trace_msg": frozenset(("",))},
)
