"""Checks of servers together: how many there are, who sees whom, their versions.

Never lives here: their texts and severities (`table`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.diagnosis.symptoms import Symptom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.diagnosis.evidence import Evidence, ServerEvidence

_PAIR = 2


def cluster_of_two(evidence: Evidence) -> Iterator[Symptom]:
    """Clusters of two servers with JetStream, where one alone is no majority.

    Headrace has no votes: each stream is on one server, or in a bucket.
    """
    options = evidence.options
    if options is not None and options.cluster is not None and options.jetstream is not None:
        hosts = {(url.host, url.port) for url in options.cluster.routes}
        own = {(options.cluster.host, options.cluster.port), (options.host, options.cluster.port)}
        if 0 < len(hosts) <= _PAIR and len(hosts - own) == 1:
            yield Symptom(_file(evidence), "cluster: routes name one other server")
    told = set()
    for server in evidence.servers:
        if server.is_headrace:
            continue
        members = frozenset((server.server_id, *_peers(server)))
        if len(members) == _PAIR and server.varz.get("jetstream") and members not in told:
            told.add(members)
            yield Symptom(server.name, f"the cluster {_cluster(server)!r} has two servers")


def incomplete_mesh(evidence: Evidence) -> Iterator[Symptom]:
    """Servers of one cluster that have no route to each other."""
    for server in evidence.servers:
        missing = [
            other.name
            for other in evidence.servers
            if other.server_id != server.server_id
            and _cluster(other)
            and _cluster(other) == _cluster(server)
            and server.routez
            and other.server_id not in _peers(server)
        ]
        if missing:
            yield Symptom(server.name, f"no route to {', '.join(missing)}")


def silent_servers(evidence: Evidence) -> Iterator[Symptom]:
    """Servers that did not answer: those at the addresses given, and those that others have routes to."""
    for name, reason in evidence.silent:
        yield Symptom(name, reason)


def versions(evidence: Evidence) -> Iterator[Symptom]:
    """Servers of different versions."""
    by_version: dict[str, list[str]] = {}
    for server in evidence.servers:
        if server.varz:
            by_version.setdefault(_version(server), []).append(server.name)
    if len(by_version) > 1:
        for version, names in sorted(by_version.items()):
            yield Symptom(version, ", ".join(sorted(names)))


def nameless(evidence: Evidence) -> Iterator[Symptom]:
    """Servers of a cluster whose names change with each start."""
    options = evidence.options
    if options is not None and options.cluster is not None and not options.server_name:
        yield Symptom(_file(evidence), "server_name is not set")
    for server in evidence.servers:
        if _cluster(server) and server.varz.get("server_name") == server.varz.get("server_id"):
            yield Symptom(server.name, "its name is its id")


def _peers(server: ServerEvidence) -> frozenset[str]:
    return frozenset(str(route.get("remote_id")) for route in server.routez.get("routes") or ())


def _cluster(server: ServerEvidence) -> str:
    return str((server.varz.get("cluster") or {}).get("name", ""))


def _version(server: ServerEvidence) -> str:
    version = str(server.varz.get("version", "?"))
    return f"Headrace {server.varz['git_commit'][9:]}" if server.is_headrace else f"nats-server {version}"


def _file(evidence: Evidence) -> str:
    assert evidence.file is not None
    return evidence.file.path
