"""Gateways as monitoring shows them: frozen pictures of what they are at one moment."""

from __future__ import annotations

from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

from headrace.server.monitor.source import (
    ConnectionSnapshot,
    GatewayAccountSnapshot,
    GatewaySnapshot,
    GatewaysSnapshot,
    SubscriptionSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.gateway import GatewaySession
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.peers.gateways import GatewayHost

_MODES = ("Optimistic", "Transitioning", "Interest-Only")


def gateways_snapshot(host: GatewayHost, certificate_expires_ns: int | None) -> GatewaysSnapshot:
    """The gateways now. Connections whose handshake goes on are not shown."""
    machine, identity = host.machine, host.identity()
    shown = sorted(
        (each for each in host.connections if each.session.is_registered), key=lambda each: each.number
    )
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
        certificate_expires_ns=certificate_expires_ns,
        urls=urls,
        outbound=tuple(_gateway(each) for each in shown if each.session.is_outbound),
        inbound=tuple(_gateway(each) for each in shown if not each.session.is_outbound),
    )


def _gateway(connection: PeerConnection[GatewaySession]) -> GatewaySnapshot:
    session, link = connection.session, connection.session.link
    remote = session.remote
    assert remote is not None, "a registered one has introduced itself"
    in_msgs, in_bytes, out_msgs, out_bytes, _ = link.counters
    last = max(link.last_activity, link.last_written)
    return GatewaySnapshot(
        gateway=session.gateway,
        is_configured=session.other is not None and session.other.is_explicit,
        connection=ConnectionSnapshot(
            cid=connection.number,
            kind="Gateway",
            type="",
            ip=connection.address,
            port=connection.port,
            start_ns=connection.start_ns,
            last_activity_ns=max(connection.start_ns, time_ns() - (monotonic_ns() - last)),
            rtt_ns=session.rtt_ns,
            pending_bytes=link.pending,
            in_msgs=in_msgs,
            out_msgs=out_msgs,
            in_bytes=in_bytes,
            out_bytes=out_bytes,
            num_subscriptions=len(link.interest_rows()),
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
                SubscriptionSnapshot(
                    account=account.decode(),
                    subject=subject.decode("utf-8", "replace"),
                    queue=(queue or b"").decode("utf-8", "replace"),
                    sid="",
                    cid=connection.number,
                )
                for subject, queue in wanted.get(account, ())
            ),
        )
