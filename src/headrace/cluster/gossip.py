"""Gossip: a peer that is new here is made known to the other peers.

Source: cluster specification B6; which mode is said to whom: nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from headrace.conf.peer_options import PeerURL
from headrace.protocol.peers import GOSSIP, GOSSIP_ALWAYS, GOSSIP_NO_FURTHER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.cluster.route import RouteSession
    from headrace.conf.peer_options import ClusterOptions
    from headrace.protocol.peers import PeerInfo


def is_to_be_told(session: RouteSession, info: PeerInfo) -> bool:
    """Return True when others are to be told of a peer that has just been registered on this connection.

    Not of one that was itself heard of, for those who told of it tell the others, nor if it asks not to.
    Servers before 2.0, which know no such rule, are told of always, and told always: who told of a server
    may have no connection to them.
    """
    if session.is_legacy:
        return True
    was_heard_of = session.was_solicited and not session.is_explicit
    if was_heard_of and session.gossip_mode != GOSSIP_ALWAYS:
        return False
    return info.gossip_mode != GOSSIP_NO_FURTHER


def tell(session: RouteSession, others: Iterable[RouteSession]) -> None:
    """Send the INFO of the peer on this connection to other peers that can reach it, on one connection each.

    A mode goes with it. Servers that are configured to know each other, on either side, may see different
    parts of the cluster: who is reached there is told of always. One that connected by itself tells of
    itself everywhere it connects, so it need not be told of further.
    """
    assert session.remote is not None
    for other in others:
        if not _can_connect(session, other):
            continue
        if (session if session.was_solicited else other).is_explicit:
            mode = GOSSIP_ALWAYS
        elif not session.was_solicited:
            mode = GOSSIP_NO_FURTHER
        else:
            mode = GOSSIP
        told = replace(session.remote, nonce="", gossip_mode=mode)
        other.link.send(other.dialect.info_line(told))


def _can_connect(one: RouteSession, other: RouteSession) -> bool:
    """Return True when the two peers have a protocol in common, as far as they have said."""
    if one.is_legacy == other.is_legacy:
        return True
    modern = other if one.is_legacy else one
    return modern.remote is not None and modern.remote.legacy_routes


def url_of(info: PeerInfo) -> PeerURL | None:
    """The URL of a server that was told of; None when its address cannot be read."""
    try:
        split = urlsplit(info.ip)
        host, port = split.hostname, split.port
    except ValueError:
        return None
    if not host or not port:
        return None
    return PeerURL(host, port)


def url_to(info: PeerInfo, host: str, port: int, options: ClusterOptions) -> PeerURL:
    """The URL of a server, with this cluster's own credentials if the peer asks for any."""
    if info.auth_required:
        return PeerURL(host, port, options.user, options.password)
    return PeerURL(host, port)


def is_at(info: PeerInfo, urls: Iterable[PeerURL]) -> bool:
    """Return True when a server listens where one of these URLs points.

    By the host that it says, or as others see it.
    """
    seen = url_of(info)
    hosts = {info.host.lower()} | ({seen.host.lower()} if seen is not None else set())
    return any(url.port == info.port and url.host.lower() in hosts for url in urls)
