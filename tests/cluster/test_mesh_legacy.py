"""Meshes with nodes that speak the routes of before 2.0.

They are among themselves, beside nodes that speak both, and beside nodes, the Go server among them, that
speak only the newer ones.

Letters as in `harness.mesh`: l speaks 1.x, x both, h, a and g 2.x. Nodes without a protocol in common are not
connected: one of the nodes that speak both carries what they say.

HEADRACE_TEST_GNATSD names the binary of a gnatsd from 1.1 on, which is in the meshes as o then. (Before 1.1 a
member that leaves takes messages with it.)
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest

from harness.mesh import PROGRAMS, Mesh
from harness.processes import Program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.jetstream import Message
    from harness.mesh import MeshClient

KINDS: Final = ("ll", "lll", "xl", "lx", "xx", "xll", "lxl", "xlg", "xhl", "xlag", "xxlg", "xglx")
MESSAGES: Final = 100
HEADERS: Final = b"NATS/1.0\r\nOne: a\r\n\r\n"


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with Mesh(tmp_path_factory.mktemp(request.param), request.param) as running:
        yield running


def reached(mesh: Mesh, at: int) -> list[int]:
    """Nodes whose clients get what is published at one of them."""
    return [number for number in mesh.up() if mesh.hears(number, at)]


def publish_everywhere(mesh: Mesh, clients: list[MeshClient], subject: str, count: int = MESSAGES) -> None:
    for who, client in enumerate(clients):
        for number in range(count):
            client.publish(subject, f"{who}.{number}")
    mesh.fence(*clients)


def texts(messages: list[Message]) -> list[str]:
    return [message.payload.decode() for message in messages]


def due(mesh: Mesh, at: int, count: int = MESSAGES) -> Counter[str]:
    """What a subscription at a node gets of that."""
    return Counter(f"{who}.{number}" for who in reached(mesh, at) for number in range(count))


def all_of(mesh: Mesh, count: int = MESSAGES) -> Counter[str]:
    return Counter(f"{who}.{number}" for who in mesh.up() for number in range(count))


def all_of_them(clients: list[MeshClient], count: int) -> Counter[str]:
    return Counter(f"{who}.{number}" for who in range(len(clients)) for number in range(count))


def test_plain_subscriptions_get_everything_once_and_in_order(mesh: Mesh) -> None:
    clients = mesh.join_all()
    wanted = ("plain.a", "plain.*", "plain.>", "plain.a", "*.a")
    sids = [[client.subscribe(subject) for subject in wanted] for client in clients]
    mesh.converge()
    publish_everywhere(mesh, clients, "plain.a")
    for at, (client, several) in enumerate(zip(clients, sids, strict=True)):
        for sid in several:
            found = texts(client.got(sid))
            assert Counter(found) == due(mesh, at)
            for who in reached(mesh, at):
                numbers = [int(text.split(".")[1]) for text in found if text.startswith(f"{who}.")]
                assert all(one < other for one, other in pairwise(numbers))


def test_groups_get_everything_once(mesh: Mesh) -> None:
    clients = mesh.join_all()
    first = [[client.subscribe(subject, "g") for subject in ("work.a", "work.*")] for client in clients]
    second = [[client.subscribe("work.a", "h")] for client in clients]
    plain = [client.subscribe("work.>") for client in clients]
    mesh.converge()
    publish_everywhere(mesh, clients, "work.a")
    for group in (first, second):
        found = [
            [t for sid in sids for t in texts(p.got(sid))] for p, sids in zip(clients, group, strict=True)
        ]
        assert Counter(text for some in found for text in some) == all_of(mesh)
        assert all(found), "every node has members, so every node serves some"
    for at, (client, sid) in enumerate(zip(clients, plain, strict=True)):
        assert Counter(texts(client.got(sid))) == due(mesh, at)


def test_members_weigh_the_same_wherever_they_are(mesh: Mesh) -> None:
    clients = mesh.join_all()
    members = [[client.subscribe("weigh", "g") for _ in range(2**at)] for at, client in enumerate(clients)]
    mesh.converge()
    total = 1200
    for number in range(total):
        clients[0].publish("weigh", str(number))
    mesh.fence(clients[0])
    found = [sum(len(p.got(sid)) for sid in sids) for p, sids in zip(clients, members, strict=True)]
    assert sum(found) == total
    count = sum(len(members[at]) for at in reached(mesh, 0))
    for at in reached(mesh, 0):
        share = len(members[at]) / count
        spread = 6 * (total * share * (1 - share)) ** 0.5
        assert abs(found[at] - total * share) < spread, f"{found} of {list(map(len, members))}"


def test_a_group_at_one_node_gets_everything_of_those_that_reach_it(mesh: Mesh) -> None:
    clients = mesh.join_all()
    sids = [clients[-1].subscribe("far", "g") for _ in range(3)]
    mesh.converge()
    publish_everywhere(mesh, clients, "far")
    found = Counter(text for sid in sids for text in texts(clients[-1].got(sid)))
    assert found == due(mesh, len(clients) - 1)


def test_nothing_is_lost_while_members_come_and_go(mesh: Mesh) -> None:
    """A member that leaves while messages for it are on their way: its group has them."""
    clients = mesh.join_all()
    at_home = reached(mesh, 0)
    staying = {at: clients[at].subscribe("moving", "g") for at in at_home}
    mesh.converge()
    leaving: list[tuple[MeshClient, int]] = []
    for number in range(600):
        clients[0].publish("moving", str(number))
        if number % 20 == 0:
            client = clients[at_home[number // 20 % len(at_home)]]
            leaving.append((client, client.subscribe("moving", "g")))
        elif number % 20 == 10:
            leaving[-1][0].unsubscribe(leaving[-1][1])
    mesh.fence(clients[0])
    found = Counter(text for at, sid in staying.items() for text in texts(clients[at].got(sid)))
    for client, sid in leaving:
        found.update(texts(client.got(sid)))
    assert found == Counter(map(str, range(600)))


def test_a_limit_of_deliveries_holds(mesh: Mesh) -> None:
    clients = mesh.join_all()
    sids = [client.subscribe("most") for client in clients]
    grouped = clients[0].subscribe("most", "g")
    for client, sid in zip(clients, sids, strict=True):
        client.unsubscribe(sid, 7)
        client.sync()
    clients[0].unsubscribe(grouped, 3)
    mesh.converge()
    publish_everywhere(mesh, clients, "most", 10)
    assert [len(client.got(sid)) for client, sid in zip(clients, sids, strict=True)] == [7] * len(clients)
    assert len(clients[0].got(grouped)) == 3
    mesh.converge()
    assert not any(client.has_responders("most") for client in clients)


@pytest.mark.parametrize("size", [0, 1, 1000, 70_000, 1_048_000])
def test_payload_and_reply_arrive_as_they_were_and_headers_where_they_can(mesh: Mesh, size: int) -> None:
    clients = mesh.join_all()
    sids = [client.subscribe("bytes.>") for client in clients]
    mesh.converge()
    payload = (bytes(number * 7 % 256 for number in range(1000)) * (size // 1000 + 1))[:size]
    for client in clients:
        client.publish("bytes.headers", payload, HEADERS, reply="some.reply")
        client.publish("bytes.bare", payload)
    mesh.fence(*clients)
    letters = [node.letter for node in mesh.nodes]
    for at, (client, sid) in enumerate(zip(clients, sids, strict=True)):
        found = client.got(sid)
        assert {message.payload for message in found} == {payload}
        with_headers = [
            who for who in reached(mesh, at) if who == at or "l" not in (letters[who], letters[at])
        ]
        got = Counter(message[:3] for message in found)
        expected = Counter(
            {
                ("bytes.headers", "some.reply", HEADERS): len(with_headers),
                ("bytes.headers", "some.reply", b""): len(reached(mesh, at)) - len(with_headers),
                ("bytes.bare", "", b""): len(reached(mesh, at)),
            }
        )
        assert got == +expected


def test_requests_are_answered_and_unanswerable_ones_too(mesh: Mesh) -> None:
    clients = mesh.join_all()
    services = [client.subscribe(f"service.{at}", "workers") for at, client in enumerate(clients)]
    mesh.converge()
    for at, (answering, sid) in enumerate(zip(clients, services, strict=True)):
        for who in reached(mesh, at):
            reply = clients[who].ask(f"service.{at}", "question")
            answering.publish(answering.next(sid).reply, "answer")
            assert clients[who].answer(reply).payload == b"answer"
        for who in set(mesh.up()) - set(reached(mesh, at)):
            assert not clients[who].has_responders(f"service.{at}")


def test_a_node_that_comes_back_is_as_it_was(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Mesh(tmp_path_factory.mktemp("again"), "xlgx") as mesh:
        mesh.converge()
        for number in (1, 3, 0):
            node = mesh.nodes[number]
            (node.kill if number else node.stop)()
            node.start()
            clients = mesh.join_all()
            sids = [client.subscribe("again") for client in clients]
            groups = [client.subscribe("again", "g") for client in clients]
            mesh.converge()
            publish_everywhere(mesh, clients, "again", 20)
            for at, (client, sid) in enumerate(zip(clients, sids, strict=True)):
                assert Counter(texts(client.got(sid))) == due(mesh, at, 20)
            found = Counter(
                text for p, sid in zip(clients, groups, strict=True) for text in texts(p.got(sid))
            )
            assert found == all_of(mesh, 20)
            mesh.leave()


def test_another_node_carries_when_the_bridge_is_gone(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Mesh(tmp_path_factory.mktemp("bridge"), "xlgx") as mesh:
        mesh.join_all()
        mesh.converge()
        mesh.nodes[0].kill()
        mesh.leave()
        clients = mesh.join_all()
        sids = [client.subscribe("bridge") for client in clients]
        mesh.converge()
        publish_everywhere(mesh, clients, "bridge", 50)
        for client, sid in zip(clients, sids, strict=True):
            assert Counter(texts(client.got(sid))) == all_of_them(clients, 50)
        server = mesh.nodes[3].server
        server.wait_for_line("Carrying messages between routes of 1.x and of 2.x")
        assert server.log.count("Carrying messages between routes of 1.x and of 2.x") == 1


@pytest.mark.parametrize("kind", ["xl", "xlg", "lll"])
def test_all_are_told_of_all_and_need_a_password(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    cluster = 'authorization { user: route, password: "right", timeout: 2 }'
    folder = tmp_path_factory.mktemp(kind)
    with Mesh(folder, kind, cluster=cluster, route_user="route:right@", told_of="all") as mesh:
        clients = mesh.join_all()
        sids = [client.subscribe("told") for client in clients]
        mesh.converge()
        publish_everywhere(mesh, clients, "told", 20)
        for at, (client, sid) in enumerate(zip(clients, sids, strict=True)):
            assert Counter(texts(client.got(sid))) == due(mesh, at, 20)


@pytest.mark.skipif(not os.environ.get("HEADRACE_TEST_GNATSD"), reason="HEADRACE_TEST_GNATSD names no gnatsd")
@pytest.mark.parametrize("kind", ["lo", "xo", "xol", "xxo", "xogo"])
def test_beside_a_real_server_of_before_2(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    """Of what is true of others, what needs no headers and no word of who is not there."""
    gnatsd = Program("gnatsd", (os.environ["HEADRACE_TEST_GNATSD"],))
    with Mesh(tmp_path_factory.mktemp(kind), kind, programs={**PROGRAMS, "o": gnatsd}) as mesh:
        for holds in (
            test_plain_subscriptions_get_everything_once_and_in_order,
            test_groups_get_everything_once,
            test_members_weigh_the_same_wherever_they_are,
            test_a_group_at_one_node_gets_everything_of_those_that_reach_it,
            test_nothing_is_lost_while_members_come_and_go,
        ):
            holds(mesh)
            mesh.leave()
