"""Gateways as monitoring shows them: frozen snapshots of what they are at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.server.connection_snapshot import link_stats, subscription_snapshot
from headrace.server.monitor.source import (
    ConnectionSnapshot,
    GatewayAccountSnapshot,
    GatewaySnapshot,
    GatewaysSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.gateway import GatewaySession
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.peers.gateways import GatewayHost

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
