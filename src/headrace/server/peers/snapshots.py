"""Snapshots of routes, leaf links and gateways, as monitoring shows them: what they are at one moment.

Nothing here is formatted. Never lives here: the counters themselves (`headrace.engine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cluster.dialect import LEGACY_ACCOUNT
from headrace.conf.account_options import SubjectPermission
from headrace.server.connection_snapshot import link_stats, subscription_snapshot, text_of
from headrace.server.monitor.source import (
    ClusterSnapshot,
    ConnectionSnapshot,
    GatewayAccountSnapshot,
    GatewaySnapshot,
    GatewaysSnapshot,
    LeafNodesSnapshot,
    LeafSnapshot,
    RouteSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.gateway import GatewaySession
    from headrace.cluster.leaf import LeafSession
    from headrace.cluster.route import RouteSession
    from headrace.protocol.peers import PeerPermission
    from headrace.server.monitor.source import SubscriptionSnapshot
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.peers.gateways import GatewayHost
    from headrace.server.peers.host import PeerHost


def cluster_snapshot(name: str, routes: PeerHost[RouteSession]) -> ClusterSnapshot:
    """The cluster of this name now. Connections whose handshake goes on are not shown."""
    return ClusterSnapshot(
        name=name,
        host=routes.options.host,
        port=routes.port,
        certificate_expires_ns=routes.certificate_expires_ns,
        routes=tuple(map(_route, routes.registered_connections())),
    )


def _route(connection: PeerConnection[RouteSession]) -> RouteSnapshot:
    session, remote = connection.session, connection.session.remote
    assert remote is not None, "a registered one has introduced itself"
    return RouteSnapshot(
        rid=connection.number,
        remote_id=remote.server_id,
        remote_name=remote.server_name,
        did_solicit=session.is_solicited,
        is_configured=session.is_explicit,
        **link_stats(connection, session.rtt_ns),
        imports=_subjects(remote.imports),
        exports=_subjects(remote.exports),
        num_subscriptions=session.link.subscriptions_count,
        account=session.account,
        compression=session.compression,
        subscriptions=lambda: tuple(_subscriptions(connection)),
    )


def _subjects(given: PeerPermission | None) -> SubjectPermission | None:
    return None if given is None else SubjectPermission(given.allow or None, given.deny)


def _subscriptions(connection: PeerConnection[RouteSession]) -> Iterator[SubscriptionSnapshot]:
    """The sid is what the peer said to make it, as nats-server has it."""
    for account, subject, queue, sid in _rows(connection.session):
        yield subscription_snapshot(text_of(account), subject, queue, sid, connection.number)


def _rows(session: RouteSession) -> Iterator[tuple[bytes, bytes, bytes | None, bytes]]:
    """Account, subject, queue group and sid of each."""
    if session.is_legacy:
        for subject, queue, sid, _, _ in session.link.subscriptions():
            yield LEGACY_ACCOUNT.encode(), subject, queue, sid
        return
    is_dedicated = bool(session.account)
    for account, subject, queue, _ in session.link.interest_rows():
        words = [b"R", *(() if is_dedicated else (account,)), subject, *(() if queue is None else (queue,))]
        yield account, subject, queue, b" ".join(words)


def leafnodes_snapshot(leafs: PeerHost[LeafSession]) -> LeafNodesSnapshot:
    """The leaf links now. Connections whose handshake goes on are not shown."""
    has_port = leafs.listener is not None
    return LeafNodesSnapshot(
        host=leafs.options.host if has_port else "",
        port=leafs.port if has_port else 0,
        certificate_expires_ns=leafs.certificate_expires_ns,
        links=tuple(map(_leaf, leafs.registered_connections())),
    )


def _leaf(connection: PeerConnection[LeafSession]) -> LeafSnapshot:
    session, link = connection.session, connection.session.link
    return LeafSnapshot(
        lid=connection.number,
        name=session.remote_name,
        is_spoke=session.is_spoke,
        is_isolated=session.is_isolated,
        account=session.account,
        **link_stats(connection, session.rtt_ns),
        num_subscriptions=link.subscriptions_count,
        compression=session.compression,
        subjects=lambda: [text_of(subject) for subject, _, _ in link.interest_rows()],
    )


_MODES = ("Optimistic", "Transitioning", "Interest-Only")


def gateways_snapshot(host: GatewayHost) -> GatewaysSnapshot:
    """The gateways now. Connections whose handshake goes on are not shown."""
    machine, identity, shown = host.machine, host.machine.port.identity(), host.registered_connections()
    urls = {name: tuple(other.urls) for name, other in machine.remotes.items()}
    own = next((each for each in host.options.gateways if each.name == host.options.name), None)
    if own is not None:
        urls[own.name] = tuple(map(str, own.urls))
    return GatewaysSnapshot(
        name=machine.name,
        host=identity.host,
        port=identity.port,
        bound_host=host.host,
        bound_port=host.port,
        certificate_expires_ns=host.certificate_expires_ns,
        urls=urls,
        outbound=tuple(_gateway(each) for each in shown if each.session.is_outbound),
        inbound=tuple(_gateway(each) for each in shown if not each.session.is_outbound),
    )


def _gateway(connection: PeerConnection[GatewaySession]) -> GatewaySnapshot:
    session, remote = connection.session, connection.session.remote
    assert remote is not None, "a registered one has introduced itself"
    return GatewaySnapshot(
        gateway=session.gateway,
        is_configured=session.other is not None and session.other.is_explicit,
        connection=ConnectionSnapshot(
            cid=connection.number,
            kind="Gateway",
            type="",
            **link_stats(connection, session.rtt_ns),
            num_subscriptions=len(session.link.interest_rows()),
            name=remote.server_id,
            tls_version=connection.tls_version,
            tls_cipher=connection.tls_cipher,
        ),
        accounts=lambda: tuple(_accounts(connection)),
    )


def _accounts(connection: PeerConnection[GatewaySession]) -> Iterator[GatewayAccountSnapshot]:
    """An inbound one is told everything that is wanted, so only its accounts' names say something."""
    link = connection.session.link
    if not connection.session.is_outbound:
        for account in link.served:
            yield GatewayAccountSnapshot(name=account.decode(), mode=_MODES[-1])
        return
    wanted: dict[bytes, list[tuple[bytes, bytes | None]]] = {}
    for account, subject, queue in link.interest_rows():
        wanted.setdefault(account, []).append((subject, queue))
    for account, mode, refused, plain, queued in link.views():
        yield GatewayAccountSnapshot(
            name=account.decode(),
            mode=_MODES[mode],
            refused=refused,
            num_subscriptions=plain + queued,
            num_queue_subscriptions=queued,
            subscriptions=tuple(
                subscription_snapshot(account.decode(), subject, queue, b"", connection.number)
                for subject, queue in wanted.get(account, ())
            ),
        )
