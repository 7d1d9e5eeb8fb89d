"""Fields that blocks about other servers share: credentials, TLS, addresses, time limits.

Never lives here: the blocks (`cluster`, `gateway`). Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace import limits
from headrace.conf.authorization import any_authorization
from headrace.conf.fields import UNSET, string_of, text
from headrace.conf.peer_options import PeerURL, parse_peer_url
from headrace.conf.tree import ListNode

if TYPE_CHECKING:
    from headrace.conf.account_options import AuthorizationBlock
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.tree import Entry, Node

_WRITE_TIMEOUTS: Final = ("default", "close", "retry")


def peer_authorization(binder: Binder, entry: Entry, kind: str) -> AuthorizationBlock | UnsetType:
    """One user with a password. `kind` is how errors call the block."""
    block = any_authorization(binder, entry)
    if block is UNSET:
        return UNSET
    position = entry.position
    if block.lists_users:
        return binder.problem(f"{kind} authorization does not allow multiple users", position)
    if block.token:
        return binder.problem(f"{kind} authorization does not support tokens", position)
    if block.callout is not None:
        return binder.problem(f"{kind} authorization does not support callouts", position)
    return block


def peer_credentials(block: AuthorizationBlock | None, tls: TLSOptions | None) -> dict[str, object]:
    """The options that say who servers that connect must be, and how long they have to say it.

    `block`: `authorization`, None: it was not given. With TLS the handshake comes first.
    """
    usual = limits.ROUTE_AUTH_TIMEOUT if tls is None else tls.timeout + 1
    if block is None:
        return {"auth_timeout": usual}
    return {"user": block.user, "password": block.password, "auth_timeout": block.timeout or usual}


def peer_url(binder: Binder, node: Node, kind: str) -> PeerURL | None:
    """One URL; None after reporting why there is none. `kind`: what it leads to."""
    value = string_of(node)
    if value is None:
        binder.wrong_node(f"each {kind}", node, "a string")
        return None
    try:
        return parse_peer_url(value)
    except ValueError as error:
        binder.problem(f"error parsing {kind} url: {error}", node.position)
        return None


def peer_urls(binder: Binder, entry: Entry, kind: str) -> tuple[PeerURL, ...] | UnsetType:
    """A list of URLs, each once."""
    node = entry.node
    if not isinstance(node, ListNode):
        return binder.wrong_type(entry, "a list of urls")
    found: dict[str, PeerURL] = {}
    for item in node.items:
        value = string_of(item)
        if value in found:
            binder.problems.warn(f"Duplicate {kind} entry detected", item.position)
            continue
        url = peer_url(binder, item, kind)
        if url is not None and value is not None:
            found[value] = url
    return tuple(found.values())


def peer_tls(binder: Binder, entry: Entry) -> TLSOptions | UnsetType:
    """Read the `tls` block of a port for servers.

    As in the Go server both sides show a certificate, and both are checked.
    """
    from headrace.conf.tls import tls_of_peers

    options = tls_of_peers(binder, entry)
    if options is UNSET:
        return UNSET
    if options.ocsp_peer is not None:
        binder.problems.warn(
            "ocsp_peer has no effect between servers of a cluster or of clusters", entry.position
        )
    return replace(options, verify=True, ocsp_peer=None)


def write_timeout(binder: Binder, entry: Entry) -> str | UnsetType:
    """Read the consequence of a write that takes too long."""
    value = text(binder, entry)
    if value is not UNSET and value not in _WRITE_TIMEOUTS:
        return binder.problem("write_timeout must be 'default', 'close' or 'retry'", entry.node.position)
    return value
