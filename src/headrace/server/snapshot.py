"""What the server tells monitoring: its state gathered into the frozen snapshots of `monitor.source`.

Nothing here is formatted; field names and JSON belong to the endpoint modules.
"""

from __future__ import annotations

import os
from collections import Counter
from time import monotonic_ns, process_time, time_ns
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.server.auth import shown_user
from headrace.server.info import GIT_COMMIT, LANGUAGE
from headrace.server.monitor.jetstream import JetStreamSource
from headrace.server.monitor.source import (
    AccountSnapshot,
    ConnectionSnapshot,
    ConnectionState,
    HealthSnapshot,
    KindCounts,
    ServerSnapshot,
    SublistSnapshot,
    SubscriptionSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.core.account import Account
    from headrace.engine.link import Link
    from headrace.server.monitor.jetstream import JetStreamFigures
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.server import Server
    from headrace.server.session import ClientSession

SERVICE_CID: Final = 0
"""The connection number that /subsz shows for subscriptions of services: they are listed and counted, as the
reference server does with its own, but are no connection."""


def closed_snapshot(session: ClientSession) -> ConnectionSnapshot:
    """The last picture of a connection, taken before it is detached; keeps nothing of it alive."""
    return _connection(session, tuple(_subscriptions(session)))


def _subscriptions(session: ClientSession) -> Iterable[SubscriptionSnapshot]:
    return _subscriptions_of(session.link, session.identity.account if session.identity else "", session.cid)


def _subscriptions_of(link: Link, account: str, cid: int) -> Iterable[SubscriptionSnapshot]:
    return _rows(link.subscriptions(), account, cid)


def _rows(
    rows: Iterable[tuple[bytes, bytes | None, bytes, int, int]], account: str, cid: int
) -> Iterable[SubscriptionSnapshot]:
    for subject, queue, sid, delivered, limit in rows:
        yield subscription_snapshot(account, subject, queue, sid, cid, msgs=delivered, max_msgs=limit)


def subscription_snapshot(
    account: str,
    subject: bytes,
    queue: bytes | None,
    sid: bytes,
    cid: int,
    *,
    msgs: int = 0,
    max_msgs: int = 0,
) -> SubscriptionSnapshot:
    """One subscription, as the engine names it."""
    return SubscriptionSnapshot(
        account=account,
        subject=text_of(subject),
        queue=text_of(queue or b""),
        sid=text_of(sid),
        msgs=msgs,
        max_msgs=max_msgs,
        cid=cid,
    )


def text_of(wire: bytes) -> str:
    return wire.decode("utf-8", "replace")


def link_figures(party: ClientSession | PeerConnection[Any], rtt_ns: int) -> dict[str, Any]:
    """The fields of `LinkSnapshot` as they are now, but for the number of subscriptions."""
    link = party.link
    in_msgs, in_bytes, out_msgs, out_bytes, _ = link.counters
    last = max(link.last_activity, link.last_written)
    return {
        "ip": party.address,
        "port": party.port,
        "start_ns": party.start_ns,
        "last_activity_ns": max(party.start_ns, time_ns() - (monotonic_ns() - last)),
        "rtt_ns": rtt_ns,
        "pending_bytes": link.pending,
        "in_msgs": in_msgs,
        "out_msgs": out_msgs,
        "in_bytes": in_bytes,
        "out_bytes": out_bytes,
    }


def _connection(
    session: ClientSession, subscriptions: tuple[SubscriptionSnapshot, ...] | None = None
) -> ConnectionSnapshot:
    link, options, identity = session.link, session.options, session.identity
    token = identity.token if identity else None
    return ConnectionSnapshot(
        cid=session.cid,
        type=session.access.kind,
        **link_figures(session, session.rtt_ns),
        stop_ns=session.stop_ns or None,
        reason=session.close_reason.text,
        stalls=link.counters[-1],
        num_subscriptions=link.subscriptions_count,
        name=options.name,
        lang=options.lang,
        version=options.version,
        tls_version=session.tls_version,
        tls_cipher=session.tls_cipher,
        tls_first=session.tls_first,
        peer_certificates=session.peer_certificates,
        user=shown_user(options) or (identity.user if identity else "") or "",
        account=identity.account if identity else "",
        account_tag=token.account_name if token else "",
        issuer=token.issuer if token else "",
        tags=token.tags if token else (),
        proxy_key=session.proxy_key,
        subscriptions=(lambda: tuple(_subscriptions(session)))
        if subscriptions is None
        else lambda: subscriptions,
    )


def account_snapshot(account: Account, loaded_ns: int) -> AccountSnapshot:
    """One account now, with its configuration of `loaded_ns`."""
    return AccountSnapshot(
        options=account.options,
        connections=account.connections,
        leafnodes=account.leafnodes,
        sublist=_figures([account]),
        loaded_ns=loaded_ns,
        slow_consumers=account.slow_consumers,
        **account.traffic._asdict(),
    )


class ServerMonitor:
    """A server as monitoring sees it (`MonitorSource`)."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cpu_at = (monotonic_ns(), process_time())

    def server(self) -> ServerSnapshot:
        server = self._server
        totals = server.router.statistics()
        for name, own in server.system.traffic.items():  # what the server says itself is nobody's message
            totals[name] -= own
        options, routes, gateways, leafs = server.options, server.routes, server.gateways, server.leafs
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
            tls_certificate_expires_ns=server.contexts.client.expires_ns,
            websocket_port=server.websocket_port or 0,
            websocket_certificate_expires_ns=server.contexts.websocket.expires_ns,
            memory_bytes=_resident_bytes(),
            cores=os.cpu_count() or 1,
            cpu_percent=self._cpu_percent(),
            cluster=routes.snapshot() if routes is not None else None,
            gateways=gateways.snapshot() if gateways is not None else None,
            leafnodes=leafs.snapshot() if leafs is not None else None,
            connect_urls=routes.connect_urls if routes is not None else (),
            ws_connect_urls=routes.ws_connect_urls if routes is not None else (),
            connections=len(server.sessions),
            total_connections=server.total_connections,
            in_msgs=totals["in_msgs"],
            in_bytes=totals["in_bytes"],
            out_msgs=totals["out_msgs"],
            out_bytes=totals["out_bytes"],
            in_client_msgs=totals["in_msgs"] - totals["far_in_msgs"],
            in_client_bytes=totals["in_bytes"] - totals["far_in_bytes"],
            out_client_msgs=totals["out_msgs"] - totals["far_out_msgs"],
            out_client_bytes=totals["out_bytes"] - totals["far_out_bytes"],
            slow_consumers=KindCounts(
                server.slow_consumers,
                routes.slow_consumers if routes else 0,
                gateways.slow_consumers if gateways else 0,
                leafs=leafs.slow_consumers if leafs else 0,
            ),
            stale_connections=KindCounts(
                server.stale_connections,
                routes.stale_connections if routes else 0,
                gateways.stale_connections if gateways else 0,
                leafs=leafs.stale_connections if leafs else 0,
            ),
            stalled_clients=totals["stalls"],
            subscriptions=sum(account.interest.statistics()["subscriptions"] for account in server.accounts),
            system_account=server.accounts.system,
            ocsp_cache=server.peer_checks.snapshot() if server.peer_checks is not None else None,
        )

    def connections(self, state: ConnectionState) -> Iterable[ConnectionSnapshot]:
        if state is not ConnectionState.CLOSED:
            for session in list(self._server.sessions.values()):
                if not session.is_closed:  # it may have ended while the caller paused
                    yield _connection(session)
        if state is not ConnectionState.OPEN:
            yield from list(self._server.closed)

    def subscriptions(self, account: str | None = None) -> SublistSnapshot:
        chosen = [each for each in self._server.accounts if account in (None, each.name)]
        return replace(_figures(chosen), details=lambda: self._listed(chosen))

    def accounts(self) -> Sequence[AccountSnapshot]:
        return [account_snapshot(a, self._server.config_load_ns) for a in self._server.accounts]

    def open_in(self, account: Account) -> Iterable[ConnectionSnapshot]:
        """The open connections of one account, pictured when they are reached."""
        for session in account.sessions():
            if not session.is_closed:
                yield _connection(session)

    def _listed(self, accounts: Sequence[Account]) -> Iterable[SubscriptionSnapshot]:
        names = {account.name for account in accounts}
        for session in self._server.sessions.values():
            if session.account is not None and session.account.name in names:
                yield from _subscriptions_of(session.link, session.account.name, session.cid)
        for account in accounts:
            yield from _subscriptions_of(account.link, account.name, SERVICE_CID)
        for host in self._server.hosts:
            if host.account in names:
                yield from _subscriptions_of(host.link, host.account, SERVICE_CID)
        yield from self._shadows(accounts)

    def _shadows(self, accounts: Sequence[Account]) -> Iterable[SubscriptionSnapshot]:
        """Subscriptions to imported streams, which hang in the account that exports them."""
        exporting = {id(account.interest) for account in accounts}
        importing = {
            account.name
            for account in self._server.accounts
            if exporting & {id(item.exporter) for item in account.interest.imports}
        }
        if not importing:
            return
        for session in self._server.sessions.values():
            if session.account is not None and session.account.name in importing:
                rows = session.link.shadows(exporting)
                yield from _rows(rows, session.account.name, session.cid)
        for host in self._server.hosts:
            if host.account in importing:
                yield from _rows(host.link.shadows(exporting), host.account, SERVICE_CID)

    def health(self) -> HealthSnapshot:
        server = self._server
        if server.is_lame_duck:
            return HealthSnapshot("server is in lame duck mode")
        if server.awaits_clients:
            return HealthSnapshot(
                "failed to be ready for connections after 1ms: server"
            )  # nats-server's words
        conflicts = server.routes.mesh.duplicates.conflicts if server.routes is not None else {}
        return HealthSnapshot(next(iter(conflicts.values()), None))

    def jetstream(self) -> JetStreamFigures | None:
        hosted = self._server.account_services
        if hosted is None or not isinstance(hosted.services, JetStreamSource):
            return None
        return hosted.services.figures()

    def _cpu_percent(self) -> float:
        """Of one core, since the last time this was asked."""
        then, used_then = self._cpu_at
        now, used = monotonic_ns(), process_time()
        self._cpu_at = (now, used)
        return round((used - used_then) / max(now - then, 1) * 1e11, 1)


def _figures(accounts: Iterable[Account]) -> SublistSnapshot:
    """The counters of these accounts' interest, together."""
    total: Counter[str] = Counter()
    max_fanout = 0
    for account in accounts:
        figures = account.interest.statistics()
        total.update(figures)
        max_fanout = max(max_fanout, figures["fanout_max"])
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
