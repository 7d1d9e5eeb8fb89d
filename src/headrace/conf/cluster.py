"""The `cluster` block: where other servers connect, whom this one connects to, and what they may know.

Here lives its reading, the flags that replace parts of it and the rules inside it. Never lives here:
connections (`headrace.server.peers`), what servers say to each other (`headrace.cluster`).
Source: the Go server 2.15.1. `protocol` is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from headrace import limits
from headrace.conf.compression import compression
from headrace.conf.fields import (
    UNSET,
    Binder,
    Field,
    KeyTable,
    duration_or_seconds,
    fields_of,
    text,
    values_of,
)
from headrace.conf.listen import advertise, listen_row
from headrace.conf.names import is_valid_subject
from headrace.conf.peer_fields import peer_authorization, peer_credentials, peer_tls, peer_urls, write_timeout
from headrace.conf.peer_options import ClusterOptions, PeerURL, parse_peer_url
from headrace.conf.permissions import permissions
from headrace.conf.problems import shown
from headrace.protocol.durations import format_duration
from headrace.structures import defaults_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.account_options import AuthorizationBlock, Permissions
    from headrace.conf.fields import Bound, UnsetType
    from headrace.conf.problems import Problems
    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.tree import Entry

_PROTOCOLS: Final = ("2.x", "1.x", "auto")


def cluster(binder: Binder, entry: Entry) -> ClusterOptions | UnsetType:
    """The whole block."""
    bound = binder.bind_map(entry, _CLUSTER)
    if bound is UNSET:
        return UNSET
    values = values_of(bound, ClusterOptions)
    given = cast("Permissions | None", values.pop("permissions", None))
    block = cast("AuthorizationBlock | None", values.pop("authorization", None))
    if block is not None:
        given = given or block.default_permissions
    values |= peer_credentials(block, cast("TLSOptions | None", values.get("tls")))
    if given is not None:
        values |= {"imports": given.publish, "exports": given.subscribe}
    options = ClusterOptions(**cast("dict[str, Any]", values))
    _check(binder, bound, options)
    return options


def with_flags(
    options: ClusterOptions | None, flags: Mapping[str, object], problems: Problems
) -> ClusterOptions:
    """The block after the flags, by option; `listen` beside them is a URL."""
    usual = defaults_of(ClusterOptions)
    said = {option: value if value != "" else usual.get(option, "") for option, value in flags.items()}
    changed = options or ClusterOptions()
    if "listen" in said:
        changed = _listening(changed, cast("str", said.pop("listen")), problems)
    if "routes" in said:
        routes = (part.strip() for part in cast("str", flags["routes"]).split(",") if part.strip())
        said["routes"] = tuple(url for url in (_flag_url(route, problems) for route in routes) if url)
        if not changed.port:
            problems.add("solicited routes require cluster capabilities, e.g. --cluster", None)
    if " " in cast("str", said.get("name", "")):
        problems.add("cluster name cannot contain spaces", None)
    return replace(changed, **cast("dict[str, Any]", said))


def _listening(options: ClusterOptions, address: str, problems: Problems) -> ClusterOptions:
    """Return the options with what the flag `--cluster` says.

    The flag says where to listen, and as whom servers come; an empty one turns the cluster off.
    """
    if not address:
        return replace(options, port=0)
    is_any = address.endswith(":-1")
    try:
        parts = urlsplit(f"{address[:-2]}1" if is_any else address)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if not parts.scheme or port is None:
        problems.add("--cluster must be a URL with a port, such as nats://127.0.0.1:6222", None)
        return options
    if parts.username is not None and parts.password is None:
        problems.add("expected cluster password to be set", None)
        return options
    return replace(
        options,
        host=parts.hostname or limits.DEFAULT_HOST,
        port=-1 if is_any else port,
        user=unquote(parts.username) if parts.username is not None else None,
        password=unquote(parts.password) if parts.password is not None else None,
    )


def _flag_url(text_of_url: str, problems: Problems) -> PeerURL | None:
    try:
        return parse_peer_url(text_of_url)
    except ValueError as error:
        problems.add(f"error parsing route url: {error}", None)
        return None


def _check(binder: Binder, bound: Bound, options: ClusterOptions) -> None:
    def report(message: str, option: str) -> None:
        binder.problem(message, bound.positions.get(option))

    if not -1 <= options.port <= 65535:
        report("cluster port must lie between -1 and 65535", "port")
    if options.accounts and options.pool_size < 0:
        report("pool_size cannot be negative if pinned accounts are specified", "pool_size")
    for name in {name for name in options.accounts if options.accounts.count(name) > 1}:
        listed = " ".join(map(shown, options.accounts))
        report(f"found duplicate account name {shown(name)} in pinned accounts list [{listed}]", "accounts")
    if options.ping_interval is not None and options.ping_interval > limits.ROUTE_PING_INTERVAL:
        most = format_duration(limits.ROUTE_PING_INTERVAL)
        message = f"Cluster 'ping_interval' will reset to {most} which is the max for routes"
        binder.problems.warn(message, bound.positions.get("ping_interval"))


def _name(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is not UNSET and " " in value:
        return binder.problem("cluster name cannot contain spaces", entry.node.position)
    return value


def _authorization(binder: Binder, entry: Entry) -> AuthorizationBlock | UnsetType:
    block = peer_authorization(binder, entry, "Cluster")
    if block is not UNSET and block.default_permissions is not None:
        _check_exports(binder, entry, block.default_permissions)
        message = 'setting "permissions" within cluster authorization block is deprecated'
        binder.problems.warn(message, entry.position)
    return block


def _permissions(binder: Binder, entry: Entry) -> Permissions | UnsetType:
    given = permissions(binder, entry)
    if given is UNSET:
        return UNSET
    if given.allow_responses is not None:
        message = "Cluster permissions do not support dynamic responses"
        return binder.problem(message, entry.position)
    _check_exports(binder, entry, given)
    return given


def _check_exports(binder: Binder, entry: Entry, given: Permissions) -> None:
    """Permissions of clients may name queue groups, those of a cluster may not."""
    if given.subscribe is not None:
        for kind, subjects in (("allow", given.subscribe.allow or ()), ("deny", given.subscribe.deny)):
            for subject in subjects:
                if not is_valid_subject(subject):
                    message = f"cluster export {kind}: subject {shown(subject)} is not a valid subject"
                    binder.problem(message, entry.position)


def _routes(binder: Binder, entry: Entry) -> tuple[PeerURL, ...] | UnsetType:
    return peer_urls(binder, entry, "route")


def _protocol(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is UNSET or value in _PROTOCOLS:
        return value
    choices = ", ".join(_PROTOCOLS)
    return binder.problem(f"protocol must be one of {choices}, not {shown(value)}", entry.node.position)


_CLUSTER: Final = KeyTable(
    (
        *fields_of(
            ClusterOptions,
            {
                "name": _name,
                "routes": _routes,
                "tls": peer_tls,
                "advertise": advertise,
                "compression": compression("s2_fast", "accept"),
                "ping_interval": duration_or_seconds,
                "write_deadline": duration_or_seconds,
                "write_timeout": write_timeout,
                "protocol": _protocol,
            },
        ),
        listen_row("Address and port for other servers"),
        Field(
            ("authorization",),
            _authorization,
            text="`user`, `password` and `timeout` of servers that connect",
            kind="map",
        ),
        Field(
            ("permissions",),
            _permissions,
            text=(
                "`import`: subjects whose interest is told to other servers, `export`: whose interest is "
                "taken from them; each as `publish` of `permissions`"
            ),
            kind="map",
        ),
    )
)
