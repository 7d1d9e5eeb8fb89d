"""Nodes on hosts of their own, with links that delay, lose, cut and come back.

Skipped, saying why, where such networks are not permitted.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from cluster.test_mesh_changes import Traffic
from harness.depth import deep
from harness.mesh import Mesh
from harness.network import Network, why_not
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.network import Host
    from harness.processes import ServerProcess

KINDS: Final = ("hg", "hag", "ghg", *(["ggg"] if deep else []))
"""Without a node of Headrace nothing is said about Headrace: what these tests expect is nats-server's own
behaviour, which `make test-deep` looks at."""
WATCHFUL: Final = 'ping_interval: "250ms"\nping_max: 3\n'
"""A route that says nothing is given up after a second: soon, but not because the machine is busy."""
_ROUTE: Final = re.compile(
    r"\[INF\] (\S+):\d+ - (rid:\d+) - (Route connection created|Router connection closed)"
)


@pytest.fixture(scope="module", autouse=True)
def _permitted() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(params=KINDS)
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    with Network(len(request.param)) as running:
        yield running


@pytest.fixture
def kind(request: pytest.FixtureRequest, network: Network) -> str:
    return str(request.node.callspec.params["network"])


@pytest.fixture
def spread(network: Network, kind: str, tmp_path: Path) -> Iterator[Mesh]:
    """A mesh with a host for each node."""
    with Mesh(tmp_path, kind, cluster=WATCHFUL, hosts=network.hosts) as running:
        running.converge()
        yield running


@pytest.fixture
def traffic(spread: Mesh) -> Traffic:
    found = Traffic(spread)
    spread.converge()
    return found


def assert_heard_by_all(traffic: Traffic, sent: list[str]) -> None:
    for heard in traffic.heard.values():
        assert Counter(heard) == Counter(sent)
    assert Counter(traffic.served) == Counter(sent)


def has_given_up(server: ServerProcess, other: Host) -> bool:
    """Whether no connection is left to a host. Each of a pool is given up at a time of its own; one that is
    not when the link comes back lives on, and what was lost of the others nobody misses for half a minute."""
    last: dict[str, str] = {}
    for line in server.lines:
        found = _ROUTE.search(line)
        if found is not None and found[1] == other.address:
            last[found[2]] = found[3]
    return bool(last) and "Route connection created" not in last.values()


def wait_until_apart(mesh: Mesh, network: Network, one: int, other: int) -> None:
    for at, far in ((one, other), (other, one)):
        server, host = mesh.nodes[at].server, network.hosts[far]
        wait_until(lambda s=server, h=host: has_given_up(s, h), f"n{at} gave n{far} up")


def test_slow_links_that_lose_packets_lose_no_message(network: Network, traffic: Traffic) -> None:
    for link in network.links.values():
        link.delay, link.jitter, link.loss = 0.002, 0.003, 0.02
    everyone = traffic.mesh.up()

    sent: list[str] = []
    for _ in range(50):  # a burst may be few packets, which all may get through
        sent += traffic.burst(*everyone)
        traffic.settle(*everyone)
        if network.lost:
            break

    assert network.lost
    assert_heard_by_all(traffic, sent)


def test_a_link_that_comes_back_soon_has_lost_nothing(network: Network, traffic: Traffic) -> None:
    """Sooner than a route is given up: what was said meanwhile is still on its way."""
    everyone = traffic.mesh.up()
    network.cut(0, 1)
    sent = traffic.burst(*everyone)
    wait_until(lambda: network.lost, "packets are lost")
    network.heal()
    traffic.settle(*everyone)

    assert_heard_by_all(traffic, sent)


@pytest.mark.parametrize("one_way", [False, True], ids=["both ways", "one way"])
def test_nodes_that_cannot_reach_each_other_find_each_other_again(
    network: Network, traffic: Traffic, *, one_way: bool
) -> None:
    mesh = traffic.mesh
    everyone = mesh.up()
    first, second = traffic.clients[0], traffic.clients[1]
    first.subscribe("at.first")
    second.subscribe("at.second")
    mesh.converge()
    whole = traffic.burst(*everyone)
    traffic.settle(*everyone)

    network.cut(0, 1)
    if one_way:
        network.links[1, 0].is_cut = False
    lost = traffic.burst(0, 1)
    wait_until(lambda: not first.has_responders("at.second"), "the first gave the second up")
    wait_until(lambda: not second.has_responders("at.first"), "the second gave the first up")
    wait_until_apart(mesh, network, 0, 1)
    apart = traffic.burst(*everyone)
    traffic.take(*everyone)
    network.heal()
    mesh.converge()
    again = traffic.burst(*everyone)
    traffic.settle(*everyone)

    for at in everyone:
        found = Counter(traffic.heard[at])
        assert set(found.values()) == {1}, "delivered twice"
        near = [text for text in (*lost, *apart) if not (at < 2 and text.startswith(f"{1 - at}."))]
        assert not {*whole, *again, *near} - set(found), "lost although there was a way"
    served = Counter(traffic.served)
    assert set(served.values()) == {1}
    assert not {*whole, *apart, *again} - set(served), "lost for the queue group"


def test_an_isolated_node_goes_on_alone_and_is_taken_back(network: Network, traffic: Traffic) -> None:
    mesh = traffic.mesh
    everyone = mesh.up()
    alone = everyone[-1]
    rest = everyone[:-1]
    for at in everyone:
        traffic.clients[at].subscribe(f"at.{at}")
    mesh.converge()
    for at in rest:
        network.cut(at, alone)
    for at in rest:
        one, other = traffic.clients[at], traffic.clients[alone]
        wait_until(lambda p=one: not p.has_responders(f"at.{alone}"), "the others gave it up")
        wait_until(lambda p=other, at=at: not p.has_responders(f"at.{at}"), "it gave the others up")
        wait_until_apart(mesh, network, at, alone)

    inside = traffic.burst(*everyone)
    traffic.take(*everyone)
    network.heal()
    mesh.converge()
    after = traffic.burst(*everyone)
    traffic.settle(*everyone)

    for at in everyone:
        found = Counter(traffic.heard[at])
        assert set(found.values()) == {1}
        own = [text for text in inside if (int(text.split(".")[0]) == alone) == (at == alone)]
        assert not {*own, *after} - set(found)
    served = Counter(traffic.served)
    assert served == Counter((*inside, *after))
