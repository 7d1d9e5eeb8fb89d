"""How connections, interest and gossip grow: by simulation as far as it reaches, and by formulas that it
confirms.

`PYTHONPATH=tests python -m simulation.growth` prints the tables of docs/clusters-growth.md.
"""

from __future__ import annotations

import random
import resource
import sys
from collections import Counter
from dataclasses import dataclass

from headrace.cluster.port import Address
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.engine.interest import Interest
from headrace.engine.link import Router
from headrace.engine.route import RouteLink
from simulation.clock import Clock
from simulation.network import Network
from simulation.node import Node

SUBJECTS = 10  # of each simulated node, none of another's
POOL = 3
DEDICATED = 1  # of the system account
LINE = 40  # bytes of a typical `RS+ account subject` line


def connections(nodes: int, pool: int = POOL, dedicated: int = DEDICATED) -> int:
    """Of one cluster: each two nodes have a pool, and one for each account of its own."""
    return nodes * (nodes - 1) // 2 * (pool + dedicated)


def remote_subscriptions(nodes: int, subjects: int) -> int:
    """That one node keeps: the distinct subjects of each other node."""
    return (nodes - 1) * subjects


@dataclass(frozen=True, slots=True)
class Measured:
    """Of a cluster that was started all at once, until it was whole."""

    nodes: int
    seconds: float
    kept: int
    made: int
    interest: int
    infos: int
    megabytes: float


def measure(nodes: int) -> Measured:
    """All nodes know the first one, and hear of the others."""
    clock = Clock()
    network = Network(clock, random.Random(nodes), mean_delay=0.0005)
    network.lines = Counter()
    first = PeerURL("10.0.0.1", 6222)
    cluster = []
    for number in range(nodes):
        address = Address(f"10.0.{number // 250}.{number % 250 + 1}", 6222)
        options = ClusterOptions(name="C", port=6222, routes=(first,), pool_size=POOL)
        node = Node(network, address, options, accounts=(), server_id=f"N{number:04}", told=None)
        client = node.client("$G")
        for subject in range(SUBJECTS):
            client.subscribe(f"s.{number}.{subject}")
        cluster.append(node)
    want = remote_subscriptions(nodes, SUBJECTS)
    while any(
        node.accounts["$G"].interest.statistics()["subscriptions"] < want + SUBJECTS for node in cluster
    ):
        clock.run(0.05)
        if clock.now_ns > 300e9:
            raise SystemExit(f"{nodes} nodes are not whole after 300 s")
    seconds = clock.now_ns / 1e9
    clock.run(5.0)  # surplus connections are closed
    kept = sum(1 for node in cluster for _ in node.mesh.routes()) // 2
    if kept != connections(nodes):
        raise SystemExit(f"{nodes} nodes have {kept} connections, not {connections(nodes)}")
    made = network.connections // 2
    result = Measured(
        nodes, seconds, kept, made, network.lines["RS+"], network.lines["INFO"], network.bytes_sent / 1e6
    )
    for node in cluster:
        node.crash(is_noticed=False)
    return result


def bytes_of_a_remote_subscription(count: int = 200_000) -> float:
    """Memory, measured: a route that tells so many subjects."""

    class Session:
        def account_interest(self, _name: bytes) -> Interest:
            return interest

    interest = Interest()
    interest.account = b"$G"
    link = RouteLink(Router(), Session())
    link.configure(headers=True, has_origin=True, origin_unsub=True)
    before = _resident()
    link.feed(b"".join(b"RS+ $G _INBOX.%022d.*\r\n" % number for number in range(count)))
    after = _resident()
    link.detach()
    return (after - before) / count


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def simulated() -> None:
    print("| nodes | s until whole | connections | made on the way | RS+ lines | INFO lines | MB sent |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for nodes in (3, 5, 10, 20, 35, 50):
        each = measure(nodes)
        print(
            f"| {nodes} | {each.seconds:.2f} | {each.kept:,} | {each.made:,} | {each.interest:,} "
            f"| {each.infos:,} | {each.megabytes:.1f} |"
        )


def calculated(per_remote: float) -> None:
    print(
        "| clusters × nodes | clients a node | connections a node | of one cluster | remote subs a node "
        "| their memory | RS+ bytes to join |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for clusters, nodes in ((1, 3), (1, 10), (1, 34), (1, 100), (30, 34), (1, 1000)):
        for clients in (1_000, 10_000):
            gateways = 2 * (clusters - 1)  # one out to each other cluster, about as many in
            of_node = (nodes - 1) * (POOL + DEDICATED) + gateways
            remote = remote_subscriptions(nodes, clients + SHARED)
            print(
                f"| {clusters} × {nodes} | {clients:,} | {of_node:,} | {connections(nodes):,} | {remote:,} "
                f"| {remote * per_remote / 1e6:,.0f} MB | {remote * LINE / 1e6:,.0f} MB |"
            )


SHARED = 200
"""Distinct subjects of a node beside one inbox for each client."""


def main() -> int:
    per_remote = bytes_of_a_remote_subscription()
    print(f"\nOne remote subscription to an inbox takes {per_remote:.0f} bytes.\n")
    simulated()
    print()
    calculated(per_remote)
    return 0


if __name__ == "__main__":
    sys.exit(main())
