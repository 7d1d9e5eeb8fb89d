"""The `accounts` block: spaces of subjects with their users, exports, imports, mappings and limits.

Here lives its reading. Never lives here: what concerns several accounts at once (`account_rules`).
Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct, field

from headrace.conf.account_options import GLOBAL_ACCOUNT, AccountLimits, AccountOptions, TraceOptions
from headrace.conf.authorization import users
from headrace.conf.exports import exports, imports
from headrace.conf.fields import UNSET, Binder, Field, KeyTable, fields_of, string_of, values_of
from headrace.conf.jetstream import account_jetstream
from headrace.conf.mappings import mappings
from headrace.conf.names import is_account_nkey, is_valid_subject
from headrace.conf.permissions import permissions
from headrace.conf.problems import shown
from headrace.conf.tree import ListNode, MapNode, Scalar

if TYPE_CHECKING:
    from headrace.conf.exports import Placed
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tree import Entry, Node
    from headrace.errors import Position


class AccountsBlock(Struct, frozen=True):
    """The accounts as written, and where each export, import and user list stands."""

    accounts: tuple[AccountOptions, ...] = ()
    positions: dict[tuple[str, str, int], Position] = field(default_factory=dict)
    """Positions by account, "export" or "import" or "account", and index."""


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
    values = cast("dict[str, Any]", binder.bind(entry.node, _ACCOUNT).values)
    block.positions[entry.key, "account", 0] = entry.position
    for option, kind in (("exports", "export"), ("imports", "import")):
        placed: tuple[Placed[object], ...] = values.get(option, ())
        block.positions.update({(entry.key, kind, i): item.position for i, item in enumerate(placed)})
        values[option] = tuple(item.value for item in placed)
    return AccountOptions(entry.key, **values)


def _limits(binder: Binder, entry: Entry) -> AccountLimits | UnsetType:
    bound = binder.bind_map(entry, _LIMITS)
    if bound is UNSET:
        return UNSET
    return AccountLimits(**cast("dict[str, Any]", values_of(bound, AccountLimits)))


def _nkey(binder: Binder, entry: Entry) -> str | UnsetType:
    value = string_of(entry.node)
    if value is None:
        return binder.wrong_type(entry, "a string")
    if not is_account_nkey(value):
        return binder.problem("not a valid public nkey of an account", entry.node.position)
    return value


def message_trace(binder: Binder, entry: Entry) -> TraceOptions | UnsetType:
    """A subject, or a map of that and how much is sampled."""
    if not isinstance(entry.node, MapNode):
        dest = _destination(binder, entry)
        return UNSET if dest is UNSET else TraceOptions(dest)
    bound = binder.bind_map(entry, _TRACE)
    if bound is UNSET:
        return UNSET
    values = cast("dict[str, str | int]", bound.values)
    if "dest" not in values:
        if "sampling" in values:
            text = "Trace destination sampling ignored since no destination was set"
            binder.problems.warn(text, entry.position)
        return UNSET
    return TraceOptions(str(values["dest"]), int(values.get("sampling", 100)))


def _destination(binder: Binder, entry: Entry) -> str | UnsetType:
    dest = string_of(entry.node)
    if dest is None:
        return binder.wrong_type(entry, "a subject, or a map of dest and sampling")
    if not is_valid_subject(dest) or {"*", ">"} & set(dest.split(".")):
        return binder.problem(f"Trace destination {shown(dest)} is not valid", entry.node.position)
    return dest


def _sampling(binder: Binder, entry: Entry) -> int | UnsetType:
    node = entry.node
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, str):
        digits = value.removesuffix("%")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 9
        if not is_number:
            text = f"Invalid trace destination sampling value {shown(value)}"
            return binder.problem(text, node.position, "80 or 80%")
        value = int(digits)
    if isinstance(value, bool) or not isinstance(value, int):
        return binder.wrong_type(entry, "an integer or a percentage")
    if not 1 <= value <= 100:
        text = f"Trace destination sampling value {value} is invalid, needs to be [1..100]"
        return binder.problem(text, node.position)
    return value


_TRACE: Final = KeyTable(fields_of(TraceOptions, {"dest": _destination, "sampling": _sampling}))
_LIMITS: Final = KeyTable(fields_of(AccountLimits))
_ACCOUNT: Final = KeyTable(
    (
        Field(
            ("nkey",),
            _nkey,
            text="Public key of the account (`A…`); accepted, and used for nothing",
            kind="string",
            binds=False,
        ),
        *fields_of(
            AccountOptions,
            {
                "users": users,
                "default_permissions": permissions,
                "mappings": mappings,
                "exports": exports,
                "imports": imports,
                "limits": _limits,
                "jetstream": account_jetstream,
                "trace": message_trace,
            },
        ),
    ),
    unsupported={"trace_msg": frozenset(("",))},
)
