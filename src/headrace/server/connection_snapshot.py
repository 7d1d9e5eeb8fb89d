"""One connection as monitoring shows it: its session and its link in a record, which makes a snapshot.

Nothing here is formatted; field names and JSON belong to the endpoint modules.
"""

from __future__ import annotations

from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.server.auth import shown_user
from headrace.server.monitor.source import ConnectionSnapshot, SubscriptionSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.engine.link import Link
    from headrace.engine.reasons import CloseReason
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.session import ClientSession


class ClientRecord(Struct, frozen=True):
    """A client at one moment, with all that monitoring shows of it; keeps nothing of the client alive.

    Thousands are kept of clients that are gone: what is shown is made of one when somebody asks.
    `counters`: messages and bytes in, messages and bytes out, stalls. `tls`: version, cipher, whether the
    handshake came first, the peer's certificates. `granted`: the name of the account, issuer and tags of a
    token. `rows` are subscriptions as `Link.subscriptions` gives them.
    """

    cid: int
    kind: str
    address: str
    port: int
    start_ns: int
    stop_ns: int
    last_activity_ns: int
    rtt_ns: int
    reason: CloseReason
    pending_bytes: int
    counters: tuple[int, int, int, int, int]
    num_subscriptions: int
    name: str
    lang: str
    version: str
    user: str
    account: str
    granted: tuple[str, str, tuple[str, ...]] | None
    tls: tuple[str, str, bool, tuple[bytes, ...]] | None
    proxy_key: str
    rows: Sequence[tuple[bytes, bytes | None, bytes, int, int]] = ()

    def snapshot(
        self, subscriptions: Callable[[], Sequence[SubscriptionSnapshot]] | None = None
    ) -> ConnectionSnapshot:
        """For `/connz`. `subscriptions` gives them where they are not the rows that were kept."""
        in_msgs, in_bytes, out_msgs, out_bytes, stalls = self.counters
        account_tag, issuer, tags = self.granted or ("", "", ())
        tls_version, tls_cipher, tls_first, certificates = self.tls or ("", "", False, ())
        return ConnectionSnapshot(
            cid=self.cid,
            type=self.kind,
            ip=self.address,
            port=self.port,
            start_ns=self.start_ns,
            last_activity_ns=self.last_activity_ns,
            rtt_ns=self.rtt_ns,
            pending_bytes=self.pending_bytes,
            in_msgs=in_msgs,
            out_msgs=out_msgs,
            in_bytes=in_bytes,
            out_bytes=out_bytes,
            stop_ns=self.stop_ns or None,
            reason=self.reason.text,
            stalls=stalls,
            num_subscriptions=self.num_subscriptions,
            name=self.name,
            lang=self.lang,
            version=self.version,
            tls_version=tls_version,
            tls_cipher=tls_cipher,
            tls_first=tls_first,
            peer_certificates=certificates,
            user=self.user,
            account=self.account,
            account_tag=account_tag,
            issuer=issuer,
            tags=tags,
            proxy_key=self.proxy_key,
            subscriptions=subscriptions
            or (lambda: tuple(subscription_rows(self.rows, self.account, self.cid))),
        )


def record_of(session: ClientSession, *, is_last: bool = False) -> ClientRecord:
    """A client as it is now; `is_last`: its subscriptions too, taken before it is detached."""
    link, options, identity = session.link, session.options, session.identity
    token = identity.token if identity is not None else None
    subscribed = link.subscriptions_count
    return ClientRecord(
        session.cid,
        session.access.kind,
        session.address,
        session.port,
        session.start_ns,
        session.stop_ns,
        _last_activity_ns(link, session.start_ns),
        session.rtt_ns,
        session.close_reason,
        link.pending,
        link.counters,
        subscribed,
        options.name,
        options.lang,
        options.version,
        shown_user(options) or (identity.user if identity is not None else "") or "",
        identity.account if identity is not None else "",
        (token.account_name, token.issuer, token.tags) if token is not None else None,
        (session.tls_version, session.tls_cipher, session.tls_first, session.peer_certificates)
        if session.tls_version or session.tls_first or session.peer_certificates
        else None,
        session.proxy_key,
        link.subscriptions() if is_last and subscribed else (),
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


def link_figures(party: PeerConnection[Any], rtt_ns: int) -> dict[str, Any]:
    """The fields of `LinkSnapshot` as they are now, but for the number of subscriptions."""
    link = party.link
    in_msgs, in_bytes, out_msgs, out_bytes, _ = link.counters
    return {
        "ip": party.address,
        "port": party.port,
        "start_ns": party.start_ns,
        "last_activity_ns": _last_activity_ns(link, party.start_ns),
        "rtt_ns": rtt_ns,
        "pending_bytes": link.pending,
        "in_msgs": in_msgs,
        "out_msgs": out_msgs,
        "in_bytes": in_bytes,
        "out_bytes": out_bytes,
    }


def connection_snapshot(session: ClientSession) -> ConnectionSnapshot:
    """An open connection; its subscriptions are gathered if they are asked for."""
    return record_of(session).snapshot(lambda: tuple(_subscriptions(session)))


def _last_activity_ns(link: Link, start_ns: int) -> int:
    """The time when bytes that mean something last went in or out, in ns since 1970."""
    last = max(link.last_activity, link.last_written)
    return max(start_ns, time_ns() - (monotonic_ns() - last))
