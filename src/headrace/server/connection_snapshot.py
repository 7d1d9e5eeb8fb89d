"""One connection as monitoring shows it: its session and its link in a record, which makes a snapshot.

Nothing here is formatted; field names and JSON belong to the endpoint modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.server.client_record import last_activity_ns, record_of
from headrace.server.monitor.source import ConnectionSnapshot, SubscriptionSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.engine.link import Link
    from headrace.server.client_record import ClientRecord
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.session import ClientSession


def client_snapshot(
    record: ClientRecord, subscriptions: Callable[[], Sequence[SubscriptionSnapshot]] | None = None
) -> ConnectionSnapshot:
    """A client for `/connz`. `subscriptions` gives them where they are not the rows that were kept."""
    in_msgs, in_bytes, out_msgs, out_bytes, stalls = record.counters
    account_tag, issuer, tags = record.granted or ("", "", ())
    tls_version, tls_cipher, tls_first, certificates = record.tls or ("", "", False, ())
    return ConnectionSnapshot(
        cid=record.cid,
        type=record.kind,
        ip=record.address,
        port=record.port,
        start_ns=record.start_ns,
        last_activity_ns=record.last_activity_ns,
        rtt_ns=record.rtt_ns,
        pending_bytes=record.pending_bytes,
        in_msgs=in_msgs,
        out_msgs=out_msgs,
        in_bytes=in_bytes,
        out_bytes=out_bytes,
        stop_ns=record.stop_ns or None,
        reason=record.reason.text,
        stalls=stalls,
        num_subscriptions=record.num_subscriptions,
        name=record.name,
        lang=record.lang,
        version=record.version,
        tls_version=tls_version,
        tls_cipher=tls_cipher,
        tls_first=tls_first,
        peer_certificates=certificates,
        user=record.user,
        account=record.account,
        account_tag=account_tag,
        issuer=issuer,
        tags=tags,
        proxy_key=record.proxy_key,
        mqtt_client=record.mqtt_client,
        subscriptions=subscriptions
        or (lambda: tuple(subscription_rows(record.rows, record.account, record.cid))),
    )


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


def link_stats(connection: PeerConnection[Any], rtt_ns: int) -> dict[str, Any]:
    """The fields of `LinkSnapshot` as they are now, but for the number of subscriptions."""
    link = connection.link
    in_msgs, in_bytes, out_msgs, out_bytes, _ = link.counters
    return {
        "ip": connection.address,
        "port": connection.port,
        "start_ns": connection.start_ns,
        "last_activity_ns": last_activity_ns(link, connection.start_ns),
        "rtt_ns": rtt_ns,
        "pending_bytes": link.pending,
        "in_msgs": in_msgs,
        "out_msgs": out_msgs,
        "in_bytes": in_bytes,
        "out_bytes": out_bytes,
    }


def connection_snapshot(session: ClientSession) -> ConnectionSnapshot:
    """An open connection; its subscriptions are gathered if they are asked for."""
    return client_snapshot(record_of(session), lambda: tuple(_subscriptions(session)))
