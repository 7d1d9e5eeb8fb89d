"""One client in a record, as it was at one moment: thousands are kept of clients that are gone.

Never lives here: what monitoring makes of a record (`connection_snapshot`), which is loaded with its first
question.
"""

from __future__ import annotations

from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.server.auth import shown_user

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.engine.link import Link
    from headrace.engine.reasons import CloseReason
    from headrace.server.session import ClientSession


class ClientRecord(Struct, frozen=True):
    """The state of one client that monitoring shows, at one moment; keeps nothing of the client alive.

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
    mqtt_client: str
    rows: Sequence[tuple[bytes, bytes | None, bytes, int, int]] = ()


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
        last_activity_ns(link, session.start_ns),
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
        (session.tls_version, session.tls_cipher, session.tls_first, session.credentials.peer_certificates)
        if session.tls_version or session.tls_first or session.credentials.peer_certificates
        else None,
        session.proxy_key,
        session.mqtt_client,
        link.subscriptions() if is_last and subscribed else (),
    )


def last_activity_ns(link: Link, start_ns: int) -> int:
    """The time at which bytes that mean something went in or out last, in ns since 1970."""
    last = max(link.last_activity, link.last_written)
    return max(start_ns, time_ns() - (monotonic_ns() - last))
