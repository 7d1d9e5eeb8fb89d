"""The `leafnodes` block: where leaf nodes connect, who they may be, and the hubs this server connects to.

Here lives its reading and the rules inside it, and between it and the accounts. Never lives here: connections
(`headrace.server.peers`), what is said on them (`headrace.cluster`). Source: the Go server 2.15.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from headrace import limits
from headrace.conf.account_options import DEFAULT_SYSTEM_ACCOUNT, GLOBAL_ACCOUNT
from headrace.conf.compression import compression
from headrace.conf.fields import (
    UNSET,
    Binder,
    KeyTable,
    duration_or_seconds,
    fields_of,
    string_of,
    text,
    values_of,
)
from headrace.conf.leaf_options import ClientTLS, LeafAuthorization, LeafNodeOptions, LeafRemote, LeafUser
from headrace.conf.leaf_proxy import check_proxied, leaf_proxy
from headrace.conf.listen import listen_row, split_address
from headrace.conf.names import is_account_nkey, is_user_nkey, is_user_seed, is_valid_subject
from headrace.conf.peer_fields import write_timeout
from headrace.conf.peer_options import PeerURL, parse_peer_url
from headrace.conf.problems import shown
from headrace.conf.tree import ListNode, MapNode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.conf.fields import Bound, UnsetType
    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.tree import Entry, Node

_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:[-+].*)?\Z")
_OLDEST: Final = (2, 8, 0)
_HIGH_TIMEOUT: Final = 60.0
_OFF: Final[frozenset[object]] = frozenset((False,))


def leafnodes(binder: Binder, entry: Entry) -> LeafNodeOptions | UnsetType:
    """The whole block."""
    bound = binder.bind_map(entry, _LEAFNODES)
    if bound is UNSET:
        return UNSET
    values = values_of(bound, LeafNodeOptions)
    options = LeafNodeOptions(**cast("dict[str, Any]", values))
    if not -1 <= options.port <= 65535:
        binder.problem("leafnode port must lie between -1 and 65535", bound.positions.get("port"))
    return options


def leafnode_problems(
    options: LeafNodeOptions, accounts: Collection[str], *, has_operator: bool, system_account: str | None
) -> Iterator[str]:
    """All that is wrong between the block and the accounts of the configuration, by their names."""
    authorization = options.authorization
    if has_operator:
        if authorization.users:
            yield "operator mode does not allow specifying users in leafnode config"
        if any(not is_account_nkey(remote.account) for remote in options.remotes):
            yield (
                "operator mode requires account nkeys in remotes. Please add an `account` key to each remote"
                " in your `leafnodes` section, to assign it to an account. Each account value should be a 56"
                " character public key, starting with the letter 'A'"
            )
        named = authorization.account
        if options.port and named != GLOBAL_ACCOUNT and not is_account_nkey(named):
            yield "operator mode and non account nkeys are incompatible"
        return
    known = {*accounts, GLOBAL_ACCOUNT}
    if system_account == DEFAULT_SYSTEM_ACCOUNT:
        known.add(system_account)
    for kind, names in (
        ("authorization", [authorization.account, *(user.account for user in authorization.users)]),
        ("remote", [remote.account for remote in options.remotes]),
    ):
        for name in dict.fromkeys(names):
            if name not in known:
                yield f"cannot find local account {shown(name)} specified in leafnode {kind}"


# -- who connects -----------------------------------------------------------------------------------


def _authorization(binder: Binder, entry: Entry) -> LeafAuthorization | UnsetType:
    bound = binder.bind_map(entry, _AUTHORIZATION)
    if bound is UNSET:
        return UNSET
    values = values_of(bound, LeafAuthorization)
    found = LeafAuthorization(**cast("dict[str, Any]", values))
    position = entry.position
    if found.users and found.user:
        binder.problem("can not have a single user/pass and a users array", position)
    if found.users and found.nkey:
        binder.problem("can not have a single nkey and a users array", position)
    names = [user.user for user in found.users]
    for name in sorted({name for name in names if names.count(name) > 1}):
        binder.problem(f"duplicate user {shown(name)} detected in leafnode authorization", position)
    if found.nkey and not is_user_nkey(found.nkey):
        binder.problem("Not a valid public nkey for leafnode authorization", bound.positions["nkey"])
    if found.timeout is not None and found.timeout > _HIGH_TIMEOUT:
        message = f"timeout of {found.timeout:g} seconds is high, consider keeping it under 60 seconds"
        binder.problems.warn(message, bound.positions["timeout"], 'a duration needs quotes: "1m", not 1m')
    return found


def _users(binder: Binder, entry: Entry) -> tuple[LeafUser, ...] | UnsetType:
    node = entry.node
    if not isinstance(node, ListNode):
        return binder.wrong_type(entry, "a list")
    found = []
    for item in node.items:
        if not isinstance(item, MapNode):
            binder.wrong_node("each of the users", item, "a map")
            continue
        values = {name: value for name, value in binder.bind(item, _USER).values.items() if value != ""}
        if "user" not in values:
            binder.problem("a user of leafnode authorization needs a name", item.position)
            continue
        found.append(LeafUser(**cast("dict[str, Any]", values)))
    return tuple(found)


# -- whom this server connects to -------------------------------------------------------------------


def _remotes(binder: Binder, entry: Entry) -> tuple[LeafRemote, ...] | UnsetType:
    node = entry.node
    if not isinstance(node, ListNode):
        return binder.wrong_type(entry, "a list")
    found: list[LeafRemote] = []
    for item in node.items:
        if not isinstance(item, MapNode):
            binder.wrong_node("each of the remotes", item, "a map")
            continue
        remote = _remote(binder, item)
        if remote is None:
            continue
        if any(remote.key == other.key for other in found):
            binder.problem(f"duplicate remote {remote}", item.position)
        else:
            found.append(remote)
    return tuple(found)


def _remote(binder: Binder, node: MapNode) -> LeafRemote | None:
    before = len(binder.problems)
    bound = binder.bind(node, _REMOTE)
    values = values_of(bound, LeafRemote)
    _check_remote(binder, bound)
    if len(binder.problems) > before:
        return None
    remote = LeafRemote(**cast("dict[str, Any]", values))
    if not remote.urls:
        binder.problem("a remote of leafnodes needs a url", node.position)
        return None
    if any(url.is_websocket != remote.is_websocket for url in remote.urls):
        message = "remote leaf node configuration cannot have a mix of websocket and non-websocket urls"
        binder.problem(f"{message}: {remote}", bound.positions["urls"])
        return None
    if remote.proxy is not None:
        check_proxied(binder, remote, bound.positions["proxy"])
    return None if len(binder.problems) > before else remote


def _check_remote(binder: Binder, bound: Bound) -> None:
    values, positions = bound.values, bound.positions
    if values.get("nkey") and not is_user_seed(cast("str", values["nkey"])):
        binder.problem("Remote leafnode nkey is not a valid seed", positions["nkey"])
    if values.get("nkey") and values.get("credentials"):
        binder.problem("Remote leafnode can not have both creds and nkey defined", positions["nkey"])
    for option in ("deny_imports", "deny_exports"):
        for subject in cast("tuple[str, ...]", values.get(option, ())):
            if not is_valid_subject(subject):
                binder.problem(
                    f"invalid {option}: {shown(subject)} is not a valid subject", positions[option]
                )


def _urls(binder: Binder, entry: Entry) -> tuple[PeerURL, ...] | UnsetType:
    """One or several; their schemes mean the same, since the hub says whether there is TLS."""
    nodes = entry.node.items if isinstance(entry.node, ListNode) else (entry.node,)
    found: dict[str, PeerURL] = {}
    for node in nodes:
        value = string_of(node)
        if value is None:
            binder.wrong_node("each url of a remote", node, "a string")
        elif value in found:
            binder.problems.warn("Duplicate leafnode entry detected", node.position)
        else:
            url = _url(binder, value, node)
            if url is not None:
                found[value] = url
    return tuple(found.values())


def _url(binder: Binder, value: str, node: Node) -> PeerURL | None:
    try:
        url = parse_peer_url(value, limits.LEAF_PORT)
    except ValueError as error:
        binder.problem(f"error parsing leafnode url: {error}", node.position)
        return None
    return url


# -- both -------------------------------------------------------------------------------------------


def _tls(binder: Binder, entry: Entry) -> TLSOptions | UnsetType:
    from headrace.conf.tls import tls

    return tls(binder, entry)


def _client_tls(binder: Binder, entry: Entry) -> ClientTLS | UnsetType:
    from headrace.conf.tls import client_tls

    found = client_tls(binder, entry)
    return found if found is UNSET else ClientTLS(*found)


def _advertise(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is not UNSET and ":" in value:
        try:
            split_address(value)
        except ValueError as error:
            return binder.problem(f"leafnode advertise: {error}", entry.node.position)
    return value


def _min_version(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is UNSET or not value:
        return value
    match = _VERSION.match(value)
    if match is None:
        return binder.problem(f"invalid leafnode's minimum version: {shown(value)}", entry.node.position)
    if tuple(int(part) for part in match.groups()) < _OLDEST:
        return binder.problem("the minimum version should be at least 2.8.0", entry.node.position)
    return value


_COMPRESSION: Final = compression("s2_auto", "s2_auto")
_USER: Final = KeyTable(fields_of(LeafUser))
_AUTHORIZATION: Final = KeyTable((*fields_of(LeafAuthorization, {"users": _users}),))
_REMOTE: Final = KeyTable(
    (
        *fields_of(
            LeafRemote,
            {
                "urls": _urls,
                "tls": _client_tls,
                "first_info_timeout": duration_or_seconds,
                "dial_timeout": duration_or_seconds,
                "compression": _COMPRESSION,
                "proxy": leaf_proxy,
            },
        ),
    ),
    unsupported={
        **dict.fromkeys(("jetstream_cluster_migrate", "js_cluster_migrate"), _OFF),
    },
)
_LEAFNODES: Final = KeyTable(
    (
        *fields_of(
            LeafNodeOptions,
            {
                "authorization": _authorization,
                "remotes": _remotes,
                "reconnect": duration_or_seconds,
                "dial_timeout": duration_or_seconds,
                "tls": _tls,
                "advertise": _advertise,
                "min_version": _min_version,
                "compression": _COMPRESSION,
                "write_deadline": duration_or_seconds,
                "write_timeout": write_timeout,
            },
        ),
        listen_row("Address and port for leaf nodes"),
    )
)
