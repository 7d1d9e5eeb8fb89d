"""The blocks that say who may connect: `authorization` (a token, a single user, or a list of users, and their
permissions) and `proxies`, which are believed when they sign for the connections that they pass on.

Here lives their reading. Never lives here: what may stand together (`account_options.check_credentials`),
checking of credentials and of signatures (`headrace.server`).

No message here shows a password or token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.account_options import CONNECTION_TYPES, AuthorizationBlock, UserOptions, check_credentials
from headrace.conf.fields import UNSET, Binder, Field, KeyTable, fields_of, lazily, strings, text, values_of
from headrace.conf.names import is_user_nkey
from headrace.conf.options import MonitorAuthorization
from headrace.conf.permissions import permissions
from headrace.conf.problems import shown
from headrace.conf.tree import ListNode, MapNode
from headrace.protocol.nkeys import NKeyError, decode_public

if TYPE_CHECKING:
    from headrace.conf.fields import Bound, UnsetType
    from headrace.conf.tree import Entry, Node
    from headrace.errors import Position

_HIGH_TIMEOUT: Final = 60.0  # seconds; the Go server warns above


def authorization(binder: Binder, entry: Entry) -> AuthorizationBlock | UnsetType:
    """The whole block of the client port."""
    block = any_authorization(binder, entry)
    if block is not UNSET and block.default_permissions is not None and block.user and not block.lists_users:
        binder.problems.warn("permissions restrict only listed users, not a single user", entry.position)
    return block


def any_authorization(binder: Binder, entry: Entry) -> AuthorizationBlock | UnsetType:
    """The whole block, of any port; contradictions in it are reported at its key."""
    bound = binder.bind_map(entry, _AUTHORIZATION)
    if bound is UNSET:
        return UNSET
    values = cast("dict[str, Any]", values_of(bound, AuthorizationBlock))
    block = AuthorizationBlock(**values, lists_users="users" in values)
    _check(binder, block, bound, entry.position)
    return block


def http_authorization(binder: Binder, entry: Entry) -> MonitorAuthorization | UnsetType:
    """User and password, or a token; a block that lets everyone in is a problem."""
    found_before = len(binder.problems)
    bound = binder.bind_map(entry, _HTTP_AUTHORIZATION)
    if bound is UNSET:
        return UNSET
    given = cast("dict[str, str]", bound.values)
    user, password, token = (given.get(name) or None for name in ("user", "password", "token"))
    block = AuthorizationBlock(user=user, password=password, token=token)
    check_credentials(block, binder.problems, entry.position)
    if len(binder.problems) > found_before:
        return UNSET
    if token is None and (user is None or password is None):
        return binder.problem("http_authorization needs a user and a password, or a token", entry.position)
    return MonitorAuthorization(user, password, token)


def _check(binder: Binder, block: AuthorizationBlock, bound: Bound, position: Position) -> None:
    check_credentials(block, binder.problems, position)
    if block.timeout is not None and block.timeout > _HIGH_TIMEOUT:
        message = f"timeout of {block.timeout:g} seconds is high, consider keeping it under 60 seconds"
        binder.problems.warn(message, bound.positions["timeout"], 'a duration needs quotes: "1m", not 1m')


def users(binder: Binder, entry: Entry) -> tuple[UserOptions, ...] | UnsetType:
    """A list of users, here or in an account."""
    node = entry.node
    if not isinstance(node, ListNode):
        return binder.wrong_type(entry, "a list")
    found: list[UserOptions] = []
    seen: set[str] = set()
    for item in node.items:
        user = _user(binder, item)
        if user is None:
            continue
        name = user.nkey or user.user or ""
        if name in seen:
            kind = "nkey" if user.nkey else "user"
            binder.problem(f"duplicate {kind} {shown(name)}", item.position)
        seen.add(name)
        found.append(user)
    return tuple(found)


def _user(binder: Binder, node: Node) -> UserOptions | None:
    if not isinstance(node, MapNode):
        binder.wrong_node("each of the users", node, "a map")
        return None
    found_before = len(binder.problems)
    bound = binder.bind(node, _USER)
    user = UserOptions(**cast("dict[str, Any]", values_of(bound, UserOptions)))
    if user.nkey is not None:
        if user.user or user.password:
            binder.problem("a user with an nkey takes no user name or password", node.position)
        if not is_user_nkey(user.nkey):
            binder.problem("not a valid public nkey of a user", bound.positions["nkey"])
    elif user.user is None:
        # Whoever misspelled the key need not hear that it is missing.
        if len(binder.problems) == found_before:
            binder.problem("a user needs a name or an nkey", node.position)
        return None
    return user


def _connection_types(binder: Binder, entry: Entry) -> frozenset[str] | UnsetType | None:
    """Names in any case; none at all allows all, as one that is not known allows nothing."""
    node = entry.node
    listed = strings(binder, entry)
    if listed is UNSET:
        return UNSET
    names = [name.upper() for name in listed]
    unknown = [name for name in names if name not in CONNECTION_TYPES]
    if unknown:
        quoted = " ".join(map(shown, unknown))
        return binder.problem(f"invalid connection types [{quoted}]", node.position)
    return frozenset(names) or None


_USER: Final = KeyTable(
    fields_of(UserOptions, {"permissions": permissions, "connection_types": _connection_types})
)
_AUTHORIZATION: Final = KeyTable(
    fields_of(
        AuthorizationBlock,
        {
            "users": users,
            "default_permissions": permissions,
            "callout": lazily("callout:callout"),  # only who has one pays for loading tokens
        },
    )
)
_HTTP_AUTHORIZATION: Final = KeyTable(fields_of(MonitorAuthorization))


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


def _proxy_key(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is not UNSET:
        try:
            decode_public(value)
        except NKeyError:
            return binder.problem(f"invalid proxy key {shown(value)}", entry.node.position)
    return value


_PROXY: Final = KeyTable(
    (Field(("key", "public_key"), _proxy_key, option="key", text="Public key", kind="string"),)
)
_PROXIES: Final = KeyTable((Field(("trusted",), _trusted, text="Their keys", kind="list of maps"),))
