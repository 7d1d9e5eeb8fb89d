"""Nodes that come, go and come back, under load: what is lost and what may not be."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from cluster.test_mesh_delivery import assert_in_order, texts
from harness.mesh import KINDS, Mesh
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.mesh import MeshClient

BURST: Final = 400
LAME_DUCK: Final = 'lame_duck_grace_period: "100ms"\nlame_duck_duration: "30s"\n'
LARGE_KINDS: Final = tuple(kind for kind in KINDS if len(kind) > 2)


class Traffic:
    """Every node that runs publishes to plain subscribers and a queue group on every node.

    Texts are `<who>.<number>`, where who is the node; what was published is kept in `sent`.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.clients: dict[int, MeshClient] = {}
        self.plain: dict[int, int] = {}
        self.queue: dict[int, int] = {}
        self.sent: list[str] = []
        self.heard: dict[int, list[str]] = {}
        self.served: list[str] = []
        for at in mesh.up():
            self.enter(at)

    def enter(self, at: int) -> None:
        client = self.clients[at] = self.mesh.join(at)
        self.plain[at] = client.subscribe("load")
        self.queue[at] = client.subscribe("load", "g")
        self.heard[at] = []
        client.sync()

    def burst(self, *who: int) -> list[str]:
        """What these have published now; nobody waits for it."""
        begin = len(self.sent)
        for number in range(begin, begin + BURST):
            for at in who:
                self.clients[at].publish("load", f"{at}.{number}")
                self.sent.append(f"{at}.{number}")
        return self.sent[begin:]

    def take(self, *who: int) -> None:
        """Notes what these have got by now."""
        for at in who:
            client = self.clients[at]
            if self.mesh.nodes[at].running is client.server:
                client.sync()
            else:
                client.take_in_the_rest()
            self.heard[at] += texts(client.taken(self.plain[at]))
            self.served += texts(client.taken(self.queue[at]))

    def settle(self, *who: int) -> None:
        """Wait until all that these clients have published has arrived."""
        self.mesh.fence(*(self.clients[at] for at in who))
        self.take(*who)


def _repeated(found: Counter[str]) -> dict[str, int]:
    return {text: times for text, times in found.items() if times > 1}


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
@pytest.mark.parametrize("victim", [0, -1], ids=["first", "last"])
def test_a_node_that_ends_under_load_costs_only_its_own(
    build: Callable[..., Mesh], victim: int, end: signal.Signals
) -> None:
    mesh = build()
    everyone = mesh.up()
    lost = everyone[victim]
    rest = [at for at in everyone if at != lost]
    mesh.converge()
    traffic = Traffic(mesh)
    mesh.converge()

    while_whole = traffic.burst(*everyone)
    traffic.settle(*everyone)
    assert Counter(traffic.served) == Counter(while_whole)

    before = traffic.burst(*everyone)
    if end is signal.SIGKILL:
        mesh.nodes[lost].kill()
    else:
        mesh.nodes[lost].stop()
    traffic.take(lost)
    meanwhile = traffic.burst(*rest)
    mesh.converge()
    alone = traffic.burst(*rest)
    traffic.settle(*rest)

    mesh.nodes[lost].start()
    coming = traffic.burst(*rest)
    traffic.enter(lost)
    mesh.converge()
    again = traffic.burst(*everyone)
    traffic.settle(*everyone)

    from_rest = [
        text
        for text in (*while_whole, *before, *meanwhile, *alone, *coming, *again)
        if int(text.split(".")[0]) != lost
    ]
    # A nats-server that stops closes its clients first. What still comes for a member of a group there it
    # sends on to another server, where it is for plain subscriptions too: they had it already.
    sent_on = {*before, *meanwhile} if mesh.nodes[lost].letter == "g" and end is signal.SIGTERM else set()
    for at in rest:
        found = Counter(traffic.heard[at])
        repeated = _repeated(found)
        assert not set(repeated) - sent_on, "delivered twice"
        assert set(repeated.values()) <= {2}, repeated
        assert not set(from_rest) - set(found), "lost between nodes that stayed"
        assert not set(while_whole) - set(found), "lost although the mesh was whole"
        assert not set(again) - set(found), "lost although the mesh was whole again"
        once = [text for text in traffic.heard[at] if text not in repeated]
        assert_in_order([text for text in once if int(text.split(".")[0]) != lost])
    back = Counter(traffic.heard[lost])
    assert not _repeated(back), "delivered twice to the node that came back"
    assert not set(again) - set(back)
    served = Counter(traffic.served)
    assert not _repeated(served), "a queue group got it twice"
    for kept in (while_whole, alone, again):
        assert not set(kept) - set(served), "lost for the queue group although nothing changed"


def test_a_node_that_is_a_lame_duck_is_not_offered_any_more(build: Callable[..., Mesh]) -> None:
    mesh = build(more=LAME_DUCK)
    mesh.converge()
    traffic = Traffic(mesh)
    everyone = mesh.up()
    mesh.converge()
    urls = [f"127.0.0.1:{node.port}" for node in mesh.nodes]
    for client in traffic.clients.values():
        wait_until(lambda p=client: p.sync() or sorted(p.info["connect_urls"]) == sorted(urls), "all offered")

    leaving = everyone[-1]
    before = traffic.burst(*everyone)
    traffic.settle(*everyone)
    mesh.nodes[leaving].server.signal(signal.SIGUSR2)
    rest = everyone[:-1]
    after = traffic.burst(*rest)
    for at in rest:
        client = traffic.clients[at]
        wait_until(
            lambda p=client: p.sync() or sorted(p.info["connect_urls"]) == sorted(urls[:-1]), "not offered"
        )
    warned = traffic.clients[leaving].wire
    warned.take_through(b'"ldm":true')
    assert mesh.nodes[leaving].server.wait() == 0
    mesh.nodes[leaving].running = None
    traffic.take(leaving)

    mesh.converge()
    last = traffic.burst(*rest)
    traffic.settle(*rest)
    for at in rest:
        assert Counter(traffic.heard[at]) == Counter((*before, *after, *last))
    served = Counter(traffic.served)
    assert set(served.values()) == {1}
    assert not {*before, *last} - set(served)


def test_a_node_that_comes_later_is_found_by_all(build: Callable[..., Mesh], kind: str) -> None:
    """It is told of one node only; the others hear of it, and clients of its address."""
    mesh = build()
    mesh.converge()
    last = mesh.nodes[-1]
    last.stop()
    rest = [mesh.join(at) for at in mesh.up()]
    mesh.converge()

    last.start()
    mesh.converge()
    offered = [f"127.0.0.1:{node.port}" for node in mesh.nodes]
    for client in (*rest, mesh.join(len(kind) - 1)):
        wait_until(
            lambda p=client: p.sync() or sorted(p.info.get("connect_urls", [])) == sorted(offered), "offered"
        )


def test_routes_in_all_directions_and_to_itself_make_one_mesh(build: Callable[..., Mesh]) -> None:
    mesh = build(told_of="all")
    mesh.converge()
    traffic = Traffic(mesh)
    mesh.converge()

    sent = traffic.burst(*mesh.up())
    traffic.settle(*mesh.up())

    for heard in traffic.heard.values():
        assert Counter(heard) == Counter(sent)
    assert Counter(traffic.served) == Counter(sent)


def test_nodes_without_a_cluster_name_agree_on_one(build: Callable[..., Mesh]) -> None:
    mesh = build(name="", told_of="all")
    mesh.converge()
    clients = mesh.join_all()
    names = {client.info["cluster"] for client in clients}
    for client in clients:
        wait_until(lambda p=client: p.sync() or p.info["cluster"] == max(names), "the greatest name wins")


def test_no_advertise_keeps_addresses_from_clients(build: Callable[..., Mesh]) -> None:
    mesh = build(cluster="no_advertise: true")
    clients = mesh.join_all()
    mesh.converge()

    for at, client in enumerate(clients):
        client.sync()
        own = [f"127.0.0.1:{mesh.nodes[at].port}"]
        assert client.info.get("connect_urls", own) == own


@pytest.mark.parametrize("large", LARGE_KINDS)
def test_nodes_that_know_each_other_by_gossip_alone_stay_together(large: str, tmp_path: Path) -> None:
    """The one node that all were told of is gone, and a node that was restarted meanwhile waits for it."""
    with Mesh(tmp_path, large) as mesh:
        mesh.converge()
        first, middle, last = mesh.nodes
        first.kill()
        mesh.converge()
        last.stop()
        last.start()
        assert middle.server.process.poll() is None
        first.start()
        mesh.converge()
        traffic = Traffic(mesh)
        mesh.converge()
        sent = traffic.burst(*mesh.up())
        traffic.settle(*mesh.up())
        for heard in traffic.heard.values():
            assert Counter(heard) == Counter(sent)
