"""Snapshots of a server for monitoring: its state gathered into the frozen structures of `monitor.source`.

Nothing here is formatted; field names and JSON belong to the endpoint modules.
"""

from __future__ import annotations

import os
from collections import Counter
from time import monotonic_ns, process_time, time_ns
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.server.connection_snapshot import (
    client_snapshot,
    connection_snapshot,
    subscription_rows,
    subscriptions_of,
)
from headrace.server.info import GIT_COMMIT, LANGUAGE
from headrace.server.monitor.bucket import BucketSource
from headrace.server.monitor.jetstream import JetStreamSource
from headrace.server.monitor.source import (
    AccountSnapshot,
    ConnectionState,
    HealthSnapshot,
    KindCounts,
    ServerSnapshot,
    SublistSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.conf.options import Options
    from headrace.core.account import Account
    from headrace.core.accounts import Accounts
    from headrace.engine.link import Router
    from headrace.server.clients import Clients
    from headrace.server.monitor.bucket import BucketStats
    from headrace.server.monitor.jetstream import JetStreamStats
    from headrace.server.monitor.source import ConnectionSnapshot, MqttSnapshot, SubscriptionSnapshot
    from headrace.server.peers.gateways import GatewayHost
    from headrace.server.peers.leafs import LeafNodes
    from headrace.server.peers.routes import Routes
    from headrace.server.services import ServiceHost
    from headrace.server.session import ClientSession
    from headrace.server.tls_contexts import ServerTLS

    class HasTraffic(Protocol):
        """The service of the system account, as monitoring sees it."""

        @property
        def traffic(self) -> Mapping[str, int]:
            """Messages and bytes of the server's own service."""

    class _HasServices(Protocol):
        @property
        def services(self) -> object: ...

    class _HasMqtt(Protocol):
        def snapshot(self) -> MqttSnapshot:
            """Count what there is of MQTT."""

    class _Listeners(Protocol):
        @property
        def awaits_clients(self) -> bool: ...
        @property
        def mqtt_port(self) -> int | None: ...
        @property
        def mqtt(self) -> _HasMqtt | None: ...

    class MonitoredServer(Protocol):
        """A server, as monitoring sees it."""

        options: Options
        server_id: str
        name: str
        start_ns: int
        config_load_ns: int
        tls: ServerTLS
        router: Router
        accounts: Accounts
        hosts: list[ServiceHost]
        is_lame_duck: bool
        routes: Routes | None
        gateways: GatewayHost | None
        leafs: LeafNodes | None

        @property
        def services(self) -> Sequence[object]: ...
        @property
        def clients(self) -> Clients: ...
        @property
        def port(self) -> int: ...
        @property
        def websocket_port(self) -> int | None: ...
        @property
        def monitor_port(self) -> int | None: ...
        @property
        def listeners(self) -> _Listeners: ...
        @property
        def system(self) -> HasTraffic: ...
        @property
        def account_services(self) -> _HasServices | None: ...


SERVICE_CID: Final = 0
"""The connection number that /subsz shows for subscriptions of services: they are listed and counted, as the
reference server does with its own, but are no connection."""


def account_snapshot(account: Account, loaded_ns: int) -> AccountSnapshot:
    """One account now, with its configuration of `loaded_ns`."""
    return AccountSnapshot(
        options=account.options,
        connections=account.connections,
        leafnodes=account.leafnodes,
        sublist=_stats([account]),
        loaded_ns=loaded_ns,
        slow_consumers=account.slow_consumers,
        **account.traffic._asdict(),
    )


class ServerMonitor:
    """A server as monitoring sees it (`MonitorSource`)."""

    def __init__(self, server: MonitoredServer) -> None:
        self._server = server
        self._cpu_at = (monotonic_ns(), process_time())

    def server(self) -> ServerSnapshot:
        server = self._server
        totals = server.router.statistics()
        for name, own in server.system.traffic.items():  # what the server says itself is nobody's message
            totals[name] -= own
        options, routes, gateways, leafs = server.options, server.routes, server.gateways, server.leafs
        contexts, mqtt = server.tls.contexts, server.listeners.mqtt
        is_https = options.https_port is not None
        return ServerSnapshot(
            server_id=server.server_id,
            server_name=server.name,
            version=COMPATIBLE_VERSION,
            git_commit=GIT_COMMIT,
            language_version=LANGUAGE,
            host=options.host,
            port=server.port,
            http_host=options.http_host or options.host,
            http_port=0 if is_https else server.monitor_port or 0,
            https_port=server.monitor_port or 0 if is_https else 0,
            options=options,
            auth_required=options.requires_authentication,
            tls_required=options.tls is not None and not options.allow_non_tls,
            tls_verify=options.tls is not None and options.tls.verify,
            start_ns=server.start_ns,
            now_ns=time_ns(),
            config_load_time_ns=server.config_load_ns,
            config_digest=options.config_digest or "",
            tls_certificate_expires_ns=contexts.client.expires_ns,
            websocket_port=server.websocket_port or 0,
            websocket_certificate_expires_ns=contexts.websocket.expires_ns,
            mqtt_port=server.listeners.mqtt_port or 0,
            mqtt_certificate_expires_ns=contexts.mqtt.expires_ns,
            mqtt=mqtt.snapshot() if mqtt is not None else None,
            memory_bytes=_resident_bytes(),
            cores=os.cpu_count() or 1,
            cpu_percent=self._cpu_percent(),
            cluster=routes.snapshot() if routes is not None else None,
            gateways=gateways.snapshot() if gateways is not None else None,
            leafnodes=leafs.snapshot() if leafs is not None else None,
            connect_urls=routes.connect_urls if routes is not None else (),
            ws_connect_urls=routes.ws_connect_urls if routes is not None else (),
            connections=len(server.clients),
            total_connections=server.clients.total,
            in_msgs=totals["in_msgs"],
            in_bytes=totals["in_bytes"],
            out_msgs=totals["out_msgs"],
            out_bytes=totals["out_bytes"],
            in_client_msgs=totals["in_msgs"] - totals["remote_in_msgs"],
            in_client_bytes=totals["in_bytes"] - totals["remote_in_bytes"],
            out_client_msgs=totals["out_msgs"] - totals["remote_out_msgs"],
            out_client_bytes=totals["out_bytes"] - totals["remote_out_bytes"],
            slow_consumers=KindCounts(
                server.clients.slow_consumers,
                routes.slow_consumers if routes else 0,
                gateways.slow_consumers if gateways else 0,
                leafs=leafs.slow_consumers if leafs else 0,
            ),
            stale_connections=KindCounts(
                server.clients.stale_connections,
                routes.stale_connections if routes else 0,
                gateways.stale_connections if gateways else 0,
                leafs=leafs.stale_connections if leafs else 0,
            ),
            stalled_clients=totals["stalls"],
            subscriptions=sum(account.interest.statistics()["subscriptions"] for account in server.accounts),
            system_account=server.accounts.system,
            ocsp_cache=server.tls.snapshot(),
        )

    def connections(self, state: ConnectionState) -> Iterable[ConnectionSnapshot]:
        if state is not ConnectionState.CLOSED:
            for session in list(self._server.clients):
                if not session.is_closed:  # it may have ended while the caller paused
                    yield connection_snapshot(session)
        if state is not ConnectionState.OPEN:
            for record in list(self._server.clients.closed):
                yield client_snapshot(record)

    def subscriptions(self, account: str | None = None) -> SublistSnapshot:
        chosen = [each for each in self._server.accounts if account in (None, each.name)]
        return replace(_stats(chosen), details=lambda: self._listed(chosen))

    def accounts(self) -> Sequence[AccountSnapshot]:
        return [account_snapshot(a, self._server.config_load_ns) for a in self._server.accounts]

    def open_in(self, account: Account) -> Iterable[ConnectionSnapshot]:
        """Yield the open connections of one account; the snapshot of each is taken when it is reached."""
        for ops in account.sessions():
            session: ClientSession = ops.connection
            if not session.is_closed:
                yield connection_snapshot(session)

    def _listed(self, accounts: Sequence[Account]) -> Iterable[SubscriptionSnapshot]:
        names = {account.name for account in accounts}
        for session in self._server.clients:
            if session.account is not None and session.account.name in names:
                yield from subscriptions_of(session.link, session.account.name, session.cid)
        for account in accounts:
            yield from subscriptions_of(account.link, account.name, SERVICE_CID)
        for host in self._server.hosts:
            if host.account in names:
                yield from subscriptions_of(host.link, host.account, SERVICE_CID)
        yield from self._shadows(accounts)

    def _shadows(self, accounts: Sequence[Account]) -> Iterable[SubscriptionSnapshot]:
        """Yield the shadow subscriptions for imported streams, which are in the account that exports them."""
        exporting = {id(account.interest) for account in accounts}
        importing = {
            account.name
            for account in self._server.accounts
            if exporting & {id(item.exporter) for item in account.interest.imports}
        }
        if not importing:
            return
        for session in self._server.clients:
            if session.account is not None and session.account.name in importing:
                rows = session.link.shadows(exporting)
                yield from subscription_rows(rows, session.account.name, session.cid)
        for host in self._server.hosts:
            if host.account in importing:
                yield from subscription_rows(host.link.shadows(exporting), host.account, SERVICE_CID)

    def health(self) -> HealthSnapshot:
        server = self._server
        if server.is_lame_duck:
            return HealthSnapshot("server is in lame duck mode")
        if server.listeners.awaits_clients:
            return HealthSnapshot(
                "failed to be ready for connections after 1ms: server"
            )  # nats-server's words
        routes = server.routes
        conflicts = routes.mesh.duplicates.conflicts if routes is not None else {}
        return HealthSnapshot(next(iter(conflicts.values()), None))

    def jetstream(self) -> JetStreamStats | None:
        hosted = self._server.account_services
        if hosted is None or not isinstance(hosted.services, JetStreamSource):
            return None
        return hosted.services.stats()

    def buckets(self) -> Mapping[str, BucketStats]:
        hosted = self._server.account_services
        sources = [("JetStream", hosted.services)] if hosted is not None else []
        sources += [("Streaming", service) for service in self._server.services]
        found = {
            name: service.bucket_status() for name, service in sources if isinstance(service, BucketSource)
        }
        return {name: stats for name, stats in found.items() if stats is not None}

    def _cpu_percent(self) -> float:
        """Return the CPU time since the last call, in percent of one core."""
        then, used_then = self._cpu_at
        now, used = monotonic_ns(), process_time()
        self._cpu_at = (now, used)
        return round((used - used_then) / max(now - then, 1) * 1e11, 1)


def _stats(accounts: Iterable[Account]) -> SublistSnapshot:
    """The counters of these accounts' interest, together."""
    total: Counter[str] = Counter()
    max_fanout = 0
    for account in accounts:
        stats = account.interest.statistics()
        total.update(stats)
        max_fanout = max(max_fanout, stats["fanout_max"])
    lookups, misses = total["matches"], total["misses"]
    return SublistSnapshot(
        num_subscriptions=total["subscriptions"],
        num_cache=total["cached_plans"],
        num_inserts=total["inserts"],
        num_removes=total["removes"],
        num_matches=lookups,
        cache_hit_rate=total["hits"] / lookups if lookups else 0.0,
        max_fanout=max_fanout,
        avg_fanout=total["fanout_total"] / misses if misses else 0.0,
    )


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no /proc on this system
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
