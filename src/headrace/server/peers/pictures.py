"""What monitoring is shown of other servers: routes and leaf links as they are now.

Nothing here is formatted. Never lives here: the counters themselves (`headrace.engine`).
"""

from __future__ import annotations

from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

from headrace.cluster.legacy import ACCOUNT as LEGACY_ACCOUNT
from headrace.conf.options import SubjectPermission
from headrace.server.monitor.source import (
    ClusterSnapshot,
    LeafNodesSnapshot,
    LeafSnapshot,
    RouteSnapshot,
    SubscriptionSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.leaf import LeafSession
    from headrace.cluster.route import RouteSession
    from headrace.protocol.peers import PeerPermission
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.peers.leafs import LeafNodes
    from headrace.server.peers.routes import Routes


def cluster_snapshot(routes: Routes, certificate_expires_ns: int | None) -> ClusterSnapshot:
    """The cluster now. Connections whose handshake goes on are not shown."""
    return ClusterSnapshot(
        name=routes.mesh.name.text,
        host=routes.options.host,
        port=routes.port,
        certificate_expires_ns=certificate_expires_ns,
        routes=tuple(_route(each) for each in routes.connections if each.session.is_registered),
    )


def _route(connection: PeerConnection[RouteSession]) -> RouteSnapshot:
    session, link = connection.session, connection.session.link
    remote = session.remote
    assert remote is not None, "a registered one has introduced itself"
    in_msgs, in_bytes, out_msgs, out_bytes, _ = link.counters
    last = max(link.last_activity, link.last_written)
    return RouteSnapshot(
        rid=connection.number,
        remote_id=remote.server_id,
        remote_name=remote.server_name,
        did_solicit=session.is_solicited,
        is_configured=session.is_explicit,
        ip=connection.address,
        port=connection.port,
        start_ns=connection.start_ns,
        last_activity_ns=max(connection.start_ns, time_ns() - (monotonic_ns() - last)),
        rtt_ns=session.rtt_ns,
        imports=_subjects(remote.imports),
        exports=_subjects(remote.exports),
        pending_bytes=link.pending,
        in_msgs=in_msgs,
        out_msgs=out_msgs,
        in_bytes=in_bytes,
        out_bytes=out_bytes,
        num_subscriptions=link.subscriptions_count,
        account=session.account,
        compression=session.compression,
        subscriptions=lambda: tuple(_subscriptions(connection)),
    )


def _subjects(given: PeerPermission | None) -> SubjectPermission | None:
    return None if given is None else SubjectPermission(given.allow or None, given.deny)


def _subscriptions(connection: PeerConnection[RouteSession]) -> Iterator[SubscriptionSnapshot]:
    """The sid is what the peer said to make it, as nats-server has it."""
    for account, subject, queue, sid in _rows(connection.session):
        yield SubscriptionSnapshot(
            account=account.decode("utf-8", "replace"),
            subject=subject.decode("utf-8", "replace"),
            queue=(queue or b"").decode("utf-8", "replace"),
            sid=sid.decode("utf-8", "replace"),
            cid=connection.number,
        )


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


def leafnodes_snapshot(leafs: LeafNodes, certificate_expires_ns: int | None) -> LeafNodesSnapshot:
    """The leaf links now. Connections whose handshake goes on are not shown."""
    has_port = leafs.listener is not None
    return LeafNodesSnapshot(
        host=leafs.options.host if has_port else "",
        port=leafs.port if has_port else 0,
        certificate_expires_ns=certificate_expires_ns,
        links=tuple(
            _leaf(each)
            for each in sorted(leafs.connections, key=lambda each: each.number)
            if each.session.is_registered
        ),
    )


def _leaf(connection: PeerConnection[LeafSession]) -> LeafSnapshot:
    session, link = connection.session, connection.session.link
    in_msgs, in_bytes, out_msgs, out_bytes, _ = link.counters
    return LeafSnapshot(
        lid=connection.number,
        name=session.remote_name,
        is_spoke=session.is_spoke,
        is_isolated=session.is_isolated,
        account=session.account,
        ip=connection.address,
        port=connection.port,
        rtt_ns=session.rtt_ns,
        in_msgs=in_msgs,
        out_msgs=out_msgs,
        in_bytes=in_bytes,
        out_bytes=out_bytes,
        num_subscriptions=link.subscriptions_count,
        compression=session.compression,
        subjects=lambda: [subject.decode("utf-8", "replace") for subject, _, _ in link.interest_rows()],
    )
