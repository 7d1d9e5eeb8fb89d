"""The server that has the streams, of several with the same bucket, as the API and monitoring show it.

Here lives the shape of what is shown. Never lives here: which server it is, and how that changes
(`headrace.ownership`). Source: names and order of the fields are nats-server's (2.15.1); what belongs to Raft
alone (`raft_group`, `quorum_needed`, `snapshot`) is not shown.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from msgspec import Struct

from headrace.protocol.rfc3339 import format_time

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH: Final = 8


class ClusterPeer(Struct, frozen=True):
    """A server with the same bucket as this one.

    `active_ns`: since it was heard last. `lag`: what this server has written or read, and that one not yet.
    """

    name: str
    active_ns: int
    lag: int = 0


class Leadership(Struct, frozen=True):
    """The leader of the streams, as this server knows it now.

    `leader`: its name; "": none is known. `is_leader`: it is this server. `peers`: the others that were
    heard. `since_ns`: when this server began to lead, ns since 1970; 0: it does not. `trouble`: the reason
    why this server can neither serve nor follow; "": it does.
    """

    cluster: str
    leader: str
    is_leader: bool
    peers: tuple[ClusterPeer, ...] = ()
    since_ns: int = 0
    trouble: str = ""


def peer_id(server_name: str) -> str:
    """Return the short id that nats-server gives a server in a cluster: eight digits of its name's hash."""
    return "".join(
        _DIGITS[byte % len(_DIGITS)] for byte in sha256(server_name.encode()).digest()[:_ID_LENGTH]
    )


def cluster_info(leadership: Leadership) -> dict[str, Any]:
    """Return `cluster` of a StreamInfo or ConsumerInfo, as the leader tells it."""
    return {
        "name": leadership.cluster,
        "leader": leadership.leader,
        **({"leader_since": format_time(leadership.since_ns)} if leadership.since_ns else {}),
        **({"replicas": replicas(leadership)} if leadership.peers else {}),
    }


def meta_cluster(leadership: Leadership) -> dict[str, Any]:
    """Return `meta_cluster` of `/jsz`."""
    return {
        "name": leadership.cluster,
        **({"leader": leadership.leader, "peer": peer_id(leadership.leader)} if leadership.leader else {}),
        **({"replicas": replicas(leadership)} if leadership.peers else {}),
        "cluster_size": 1 + len(leadership.peers),
        "pending": 0,
        "pending_requests": 0,
        "pending_infos": 0,
    }


def election(leadership: Leadership) -> dict[str, Any]:
    """Return the fields of an advisory that a leader was elected, as it tells it: all are replicas."""
    own = {"name": leadership.leader, "current": True, "active": 0, "peer": peer_id(leadership.leader)}
    return {"leader": leadership.leader, "replicas": [*replicas(leadership), own]}


def domain_election(leadership: Leadership) -> dict[str, Any]:
    """Return the fields of an advisory that this server leads all streams; its leader is an id, as there."""
    elected = election(leadership)
    return {
        "leader": peer_id(leadership.leader),
        "replicas": elected["replicas"],
        "cluster": leadership.cluster,
    }


def replicas(leadership: Leadership) -> list[dict[str, Any]]:
    """Return the other servers as replicas: those that have read all are current."""
    return [
        {
            "name": each.name,
            "current": not each.lag,
            "active": each.active_ns,
            **({"lag": each.lag} if each.lag else {}),
            "peer": peer_id(each.name),
        }
        for each in leadership.peers
    ]
