"""One connection as monitoring shows it: its session and its link gathered into a frozen snapshot.

Nothing here is formatted; field names and JSON belong to the endpoint modules.
"""

from __future__ import annotations

from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any

from headrace.server.auth import shown_user
from headrace.server.monitor.source import ConnectionSnapshot, SubscriptionSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.engine.link import Link
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.session import ClientSession


def closed_snapshot(session: ClientSession) -> ConnectionSnapshot:
    """The last picture of a connection, taken before it is detached; keeps nothing of it alive."""
    return connection_snapshot(session, tuple(_subscriptions(session)))


def _subscriptions(session: ClientSession) -> Iterable[SubscriptionSnapshot]:
    return subscriptions_of(session.link, session.identity.account if session.identity else "", session.cid)


def subscriptions_of(link: Link, account: str, cid: int) -> Iterable[SubscriptionSnapshot]:
    return subscription_rows(link.subscriptions(), account, cid)


def subscription_rows(
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


def connection_snapshot(
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
