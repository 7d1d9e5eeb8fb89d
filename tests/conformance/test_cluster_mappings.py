"""Mappings of one cluster: which one decides, in clusters, super-clusters and leaf nodes of both servers.

`g` alone is there as the authority: what fails there is a mistake of the test.
"""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

import pytest

from harness.leafs import PAIRS, Leafs
from harness.mesh import Mesh, counts
from harness.super_clusters import SuperCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.mesh import MeshClient, Node

LETTERS: Final = ("g", "h", "a")


def mapping(source: str, **destinations: str) -> str:
    """A mapping to one destination in each of these clusters, elsewhere to that of `none`."""
    found = []
    for cluster, destination in destinations.items():
        scope = "" if cluster == "none" else f", cluster: {cluster}"
        found.append(f"{{destination: {destination}, weight: 100%{scope}}}")
    return f"{source}: [{', '.join(found)}]"


def mappings(source: str, **destinations: str) -> str:
    return f"mappings {{ {mapping(source, **destinations)} }}\n"


def seen_by(client: MeshClient, *publishers: MeshClient, subject: str) -> list[str]:
    """Under which subjects it gets what they publish, when its server is also theirs."""
    sid = client.subscribe("to.*")
    client.sync()
    for publisher in publishers:
        publisher.publish(subject)
        publisher.sync()
    found = [message.subject for message in client.got(sid)]
    client.unsubscribe(sid)
    return found


def reload(node: Node, before: str, after: str) -> None:
    config = node.server.config_file
    text = config.read_text()
    assert before in text
    config.write_text(text.replace(before, after))
    lines = len(node.server.lines)
    node.server.signal(signal.SIGHUP)
    node.server.wait_for_line("Reloaded server configuration", after=lines)


@pytest.fixture
def leafs(tmp_path: Path) -> Iterator[Leafs]:
    with Leafs(tmp_path) as servers:
        yield servers


@pytest.mark.parametrize("kind", ["g-g", "h-g", "g-h", "a-h"])
def test_in_a_super_cluster_it_is_the_cluster_of_the_publisher_that_counts(tmp_path: Path, kind: str) -> None:
    both = mapping("it", A="to.a", B="to.b", none="to.none"), mapping("other", B="to.b", none="to.none")
    with SuperCluster(tmp_path, kind, more=f"mappings {{ {', '.join(both)} }}") as joined:
        clients = joined.join_all()
        sids = [client.subscribe("to.*") for client in clients]
        joined.converge()
        for client in clients:
            client.publish("it")
            client.publish("other")
        joined.fence(*clients)
        for client, sid in zip(clients, sids, strict=True):
            found = sorted(message.subject for message in client.got(sid))
            assert found == ["to.a", "to.b", "to.b", "to.none"]


@pytest.mark.parametrize("letter", LETTERS)
def test_a_cluster_has_its_name_without_a_port_too_and_another_one_after_a_reload(
    leafs: Leafs, letter: str
) -> None:
    text = mappings("it", east="to.east", west="to.west", none="to.none")
    node = leafs.server("one", letter, text + "cluster { name: east }")
    client = leafs.join("one")
    assert client.info["cluster"] == "east"
    assert seen_by(client, client, subject="it") == ["to.east"]
    reload(node, "name: east", "name: west")
    assert seen_by(client, client, subject="it") == ["to.west"]
    reload(node, "name: west", "name: north")
    assert seen_by(client, client, subject="it") == ["to.none"]


@pytest.mark.parametrize("letter", LETTERS)
def test_destinations_of_a_cluster_come_and_go_with_a_reload(leafs: Leafs, letter: str) -> None:
    node = leafs.server(
        "one", letter, mappings("it", east="to.east", none="to.none") + "cluster { name: east }"
    )
    client = leafs.join("one")
    assert seen_by(client, client, subject="it") == ["to.east"]
    reload(node, "cluster: east", "cluster: west")
    assert seen_by(client, client, subject="it") == ["to.none"]
    reload(node, "cluster: west", "cluster: east")
    assert seen_by(client, client, subject="it") == ["to.east"]


@pytest.mark.parametrize("kind", ["gg", "hg", "gh", "ha"])
def test_a_server_whose_cluster_gets_a_name_maps_by_it(tmp_path: Path, kind: str) -> None:
    """The second node has a name that gives way to the first one's."""
    mesh = Mesh(tmp_path, kind, name="", more=mappings("it", east="to.east", none="to.none"))
    mesh.nodes[0].config = mesh.nodes[0].config.replace("cluster {\n", "cluster {\nname: east\n")
    with mesh:
        clients = mesh.join_all()
        sids = [client.subscribe("to.*") for client in clients]
        mesh.converge()
        for client in clients:
            client.publish("it")
        mesh.fence(*clients)
        assert counts(clients, sids) == [2, 2]
        assert {message.subject for client in clients for message in client.taken(1)} <= {"to.east"}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_leaf_node_is_a_cluster_by_its_name_and_its_hub_maps_by_its_own(leafs: Leafs, pair: str) -> None:
    leafs.hub("hub", pair[0], mappings("up", H="to.hub", leaf="to.leaf") + "cluster { name: H }")
    leafs.leaf("leaf", pair[1], "hub", mappings("down", H="to.hub", leaf="to.leaf"))
    hub, leaf = leafs.clients()
    assert leaf.info["cluster"] == "leaf"
    sid = hub.subscribe("to.*")
    leafs.meet(hub, leaf)
    assert seen_by(leaf, leaf, subject="down") == ["to.leaf"]
    leaf.publish("up")
    leafs.meet(hub, leaf)
    assert [message.subject for message in hub.take(sid, 2)] == ["to.leaf", "to.hub"]


SHOWN: Final = """
http: 127.0.0.1:-1
cluster { name: east }
mappings {
  sorted: [
    {destination: b, weight: 30}, {destination: c, weight: 10}
    {destination: d, weight: 40, cluster: east}, {destination: e, weight: 20, cluster: east}
  ]
  "wild.*.*": [{destination: "x.$2", weight: 30, cluster: east}]
  lost: [{destination: lost, weight: 30, cluster: east}]
  "tail.>": {destination: "other.>", weight: 0}
}
"""


def account_page(leafs: Leafs, letter: str) -> Mapping[str, Any]:
    node = leafs.server(letter, letter, SHOWN)
    with urlopen(node.server.monitor_url + "/accountz?acc=$G") as answer:
        return dict(json.load(answer)["account_detail"]["mappings"])


def test_accountz_shows_them_as_the_go_server_does(leafs: Leafs) -> None:
    expected = account_page(leafs, "g")
    assert len(expected) == 4
    assert account_page(leafs, "h") == expected


@pytest.mark.parametrize("letter", LETTERS)
def test_what_a_weight_of_a_cluster_loses_is_lost_elsewhere_too(leafs: Leafs, letter: str) -> None:
    leafs.server("one", letter, 'mappings { "to.a": [{destination: "to.a", weight: 100, cluster: east}] }')
    client = leafs.join("one")
    assert seen_by(client, client, subject="to.a") == []
