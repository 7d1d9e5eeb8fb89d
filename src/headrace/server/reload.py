"""A running server takes over a changed configuration: all checks first, then every change at once.

Here live the steps. Never lives here: which of them an option needs (`conf.options`), what differs
(`conf.changes`), what becomes of clients (`reauthorization`), what belongs to the process (`app`).
Source: which options the Go server 2.15.1 reloads, and its log lines. Other than there what can be checked is
checked before anything is changed, and a file without changes is not answered with "Reloaded: accounts".
"""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from headrace.conf.changes import changed_options, differences, shown_value
from headrace.conf.leaf_options import LeafNodeOptions
from headrace.conf.options import Options
from headrace.core.accounts import all_accounts
from headrace.core.mapping import Mappings
from headrace.core.service import memberships
from headrace.engine.reasons import CloseReason
from headrace.errors import StartError
from headrace.server.account_membership import keep_to_limits
from headrace.server.auth import Authenticator, authentication_timeout
from headrace.server.listeners import drop_unpinned, open_leafs
from headrace.server.preflight import check_accounts
from headrace.server.reauthorization import close_excess, judge_clients
from headrace.server.tls_contexts import make_contexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.conf.account_options import AccountOptions
    from headrace.conf.jetstream_options import JetStreamOptions
    from headrace.conf.keys import Reload
    from headrace.conf.mqtt_options import MqttOptions
    from headrace.conf.peer_options import ClusterOptions
    from headrace.conf.streaming_options import StreamingOptions
    from headrace.conf.tls_options import TLSOptions
    from headrace.server.server import Server

    Step = Callable[[Server, Options], Callable[[], None]]


class ProcessSurroundings(Protocol):
    """The process around a server: its log and its files."""

    def before_clients(self) -> None:
        """Do what is due before the first client: everything else is ready."""

    def prepare(self, new: Options, changed: Sequence[str]) -> Callable[[], None]:
        """Check what of the changed options concerns it, and give what takes them over.

        Raises: StartError; nothing has changed then.
        """


def reload(server: Server) -> None:
    """Read the server's configuration file again and take over what has changed.

    Raises: ConfigError for a file that is wrong; StartError where there is no file, where a change needs a
    restart, and for certificates and log files that cannot be used. Nothing has changed then.
    """
    from headrace.conf.binding import load_options

    if server.worker is not None:
        raise StartError("this process is one of several: have the whole server reload, with SIGHUP")
    path = server.options.config_file
    if path is None:
        raise StartError("can only reload config when a file is provided using -c or --config")
    change_options(server, load_options(path, overrides=server.options.overrides))


def change_options(server: Server, new: Options) -> None:
    """Take over everything in which `new` differs.

    Raises: ConfigError, StartError; nothing has changed then.
    """
    old = server.options
    changes = differences(old, new)
    refused = [change for change in changes if change.needs_restart]
    if refused:
        raise StartError(
            "\n".join(
                f"config reload not supported for {change.path}: old={change.before}, new={change.after}"
                for change in refused
            )
        )
    changed = changed_options(old, new)
    named = [Options.KEYS[name].reload for name in changed] + [change.reload for change in changes]
    steps = dict.fromkeys(step for reloaded in named for step in _STEPS[reloaded])
    prepared = [step(server, new) for step in steps]
    if server.surroundings is not None:
        prepared.append(server.surroundings.prepare(new, changed))
    contexts = make_contexts(new)  # also when the options are the same: the files may be others
    server.options = new
    server.use_contexts(contexts)
    for warning in (*new.warnings, *new.remarks):
        server.log.warning("%s", warning)
    for apply in prepared:
        apply()
    drop_unpinned(server)
    server.listeners.reloaded()
    server.cluster_changed()
    server.config_load_ns = time_ns()
    timeout = authentication_timeout(new)
    if timeout != authentication_timeout(old):
        server.log.info("Reloaded: authorization timeout = %g", timeout)
    for line in _lines(old, new, changed):
        server.log.info("Reloaded: %s", line)
    server.log.info("Reloaded server configuration (%s)", new.config_digest)


# -- steps --------------------------------------------------------------------------------------------
#
# A step checks and gives what takes the change over, called when `server.options` are the new ones. It may
# raise, what it gives must not.


def _connections(server: Server, _new: Options) -> Callable[[], None]:
    def apply() -> None:
        closed = close_excess(server)
        if closed:
            server.log.info("Closed %d connections to fall within max_connections", closed)

    return apply


def _client_limits(server: Server, new: Options) -> Callable[[], None]:
    def apply() -> None:
        for host in server.hosts:
            host.max_payload = new.max_payload
        for session in list(server.clients):
            if not session.link.is_closing:
                session.link.limit_ops(
                    max_control_line=new.max_control_line, max_subscription_tokens=new.max_sub_tokens
                )
                keep_to_limits(session)

    return apply


def _back_pressure(server: Server, new: Options) -> Callable[[], None]:
    def apply() -> None:
        server.router.limit(max_pending=new.max_pending, drops_when_congested=new.no_fast_producer_stall)

    return apply


def _tracing(server: Server, new: Options) -> Callable[[], None]:
    def apply() -> None:
        peers = (connection for host in server.peer_hosts for connection in host.connections)
        for connection in (*server.clients, *peers):
            connection.link.traced = new.trace

    return apply


def _cluster(server: Server, new: Options) -> Callable[[], None]:
    """Take over the options of the cluster. Raises: ConfigError for permissions that are no subjects."""
    routes, options = server.routes, new.cluster
    if routes is None or options is None:
        return lambda: None
    from headrace.cluster.rules import Rules  # only a server with a cluster has peers

    Rules(options)
    return lambda: routes.reload(options)


def _leafnodes(server: Server, new: Options) -> Callable[[], None]:
    options = new.leafnodes or LeafNodeOptions()

    def change() -> None:
        if server.leafs is not None:
            server.leafs.reload(options)
            return
        server.leafs = open_leafs(server, options)
        if server.leafs is not None:
            server.leafs.start()

    return change


def _users_and_accounts(server: Server, new: Options) -> Callable[[], None]:
    """Take over users and accounts.

    Raises: ConfigError for permissions, mappings or accounts that cannot be.
    """
    check_accounts(new)
    authenticator = Authenticator(new)
    changed, removed = _account_changes(server.options, new)
    for account in changed:
        Mappings(account.mappings)

    def apply() -> None:
        before = {session.access: session.access.authenticator for session in server.clients}
        server.authenticator = authenticator
        if server.authorizer is not None:
            server.authorizer.use(new)
        server.accounts.replace(changed, removed)
        judge_clients(server, before)
        if server.listeners.mqtt is not None:
            server.listeners.mqtt.users_changed()
        if server.leafs is not None:
            server.leafs.judge()

    return apply


def _proxies(server: Server, new: Options) -> Callable[[], None]:
    """Take over the trusted proxies, after the users: these decide whether clients have a nonce to sign."""

    def apply() -> None:
        for session in list(server.clients):
            if session.proxy_key and session.proxy_key not in new.trusted_proxies:
                session.refusal = CloseReason.PROXY_NOT_TRUSTED
                session.reject()

    return apply


def _buckets(server: Server, new: Options) -> Callable[[], None]:
    def apply() -> None:
        if server.account_services is not None:
            server.account_services.reload(new)
        for membership in memberships(server.services):
            membership.reload(new)

    return apply


def _account_changes(old: Options, new: Options) -> tuple[list[AccountOptions], list[str]]:
    before = {account.name: account for account in all_accounts(old)}
    after = all_accounts(new)
    changed = [account for account in after if account != before.get(account.name)]
    return changed, sorted(before.keys() - {account.name for account in after})


_STEPS: Final[dict[Reload, tuple[Step, ...]]] = {
    # before clients are judged, so that nobody is told of a limit and then of something else
    "connections": (_connections,),
    "client limits": (_client_limits,),
    "back pressure": (_back_pressure,),
    "tracing": (_tracing,),
    "users": (_users_and_accounts,),
    "proxies": (_users_and_accounts, _proxies),
    "cluster": (_cluster,),
    "leafnodes": (_leafnodes,),
    "bucket": (_buckets,),
    "lookup": (),
    "always": (),
    "process": (),
    "": (),
}
"""The functions that take changed options over, by the step that the entries of their keys name."""


# -- words --------------------------------------------------------------------------------------------


_TITLES: Final = {"server_tags": "tags", "leafnodes": "leafnodes", "ocsp_cache": "OCSP peer cache"}


def _lines(old: Options, new: Options, changed: Sequence[str]) -> Iterator[str]:
    """The log lines about options that were taken over; the certificates were in any case."""
    for name in changed:
        match name:
            case "authorization":
                yield from _of_authorization(old, new)
            case "accounts" | "mappings":
                if name == "accounts" or "accounts" not in changed:
                    yield "accounts"
            case "no_fast_producer_stall":
                yield f"fast producers will {'not ' if new.no_fast_producer_stall else ''}be stalled"
            case "cluster":
                yield from _of_cluster(old.cluster, new.cluster)
            case "server_tags" | "leafnodes" | "ocsp_cache":
                yield _TITLES[name]
            case "jetstream" | "streaming":
                yield from _of_bucket(name, getattr(new, name))
            case "mqtt":
                yield from _of_mqtt(old.mqtt, new.mqtt)
            case "tls" | "websocket":
                pass
            case _:
                yield f"{name} = {shown_value(getattr(new, name))}"
    yield from _of_tls(old.tls, new.tls)


def _of_tls(before: TLSOptions | None, after: TLSOptions | None) -> Iterator[str]:
    if before is None and after is None:
        return
    if before is not None and after is not None and before.timeout != after.timeout:
        yield f"tls timeout = {after.timeout:g}"
    yield f"tls = {'enabled' if after is not None else 'disabled'}"


def _of_authorization(old: Options, new: Options) -> Iterator[str]:
    before, after = old.authorization, new.authorization
    if (before.users, before.default_permissions) != (after.users, after.default_permissions):
        yield "authorization users"
    if before.token != after.token:
        yield "authorization token"


def _of_cluster(before: ClusterOptions | None, after: ClusterOptions | None) -> Iterator[str]:
    if before is None or after is None:
        return
    if before.routes != after.routes:
        yield "cluster routes"
    if replace(before, routes=after.routes) != after:
        yield "cluster"


def _of_mqtt(before: MqttOptions | None, after: MqttOptions | None) -> Iterator[str]:
    if before is None or after is None:
        return
    for name in after.KEYS:
        value = getattr(after, name)
        if name != "tls" and value != getattr(before, name):
            yield f"MQTT {name} = {shown_value(value)}"


def _of_bucket(title: str, service: JetStreamOptions | StreamingOptions | None) -> Iterator[str]:
    """The line about the bucket of a service: nothing else of the service is taken over."""
    if service is not None and service.bucket is not None:
        yield f"{title} bucket puts_per_second = {service.bucket.puts_per_second:g}"
