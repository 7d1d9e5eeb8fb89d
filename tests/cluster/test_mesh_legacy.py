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
    from harness.mesh import Party

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


def publish_everywhere(mesh: Mesh, parties: list[Party], subject: str, count: int = MESSAGES) -> None:
    for who, party in enumerate(parties):
        for number in range(count):
            party.publish(subject, f"{who}.{number}")
    mesh.fence(*parties)


def texts(messages: list[Message]) -> list[str]:
    return [message.payload.decode() for message in messages]


def due(mesh: Mesh, at: int, count: int = MESSAGES) -> Counter[str]:
    """What a subscription at a node gets of that."""
    return Counter(f"{who}.{number}" for who in reached(mesh, at) for number in range(count))


def all_of(mesh: Mesh, count: int = MESSAGES) -> Counter[str]:
    return Counter(f"{who}.{number}" for who in mesh.up() for number in range(count))


def all_of_them(parties: list[Party], count: int) -> Counter[str]:
    return Counter(f"{who}.{number}" for who in range(len(parties)) for number in range(count))


def test_plain_subscriptions_get_everything_once_and_in_order(mesh: Mesh) -> None:
    parties = mesh.join_all()
    wanted = ("plain.a", "plain.*", "plain.>", "plain.a", "*.a")
    sids = [[party.subscribe(subject) for subject in wanted] for party in parties]
    mesh.converge()
    publish_everywhere(mesh, parties, "plain.a")
    for at, (party, several) in enumerate(zip(parties, sids, strict=True)):
        for sid in several:
            found = texts(party.got(sid))
            assert Counter(found) == due(mesh, at)
            for who in reached(mesh, at):
                numbers = [int(text.split(".")[1]) for text in found if text.startswith(f"{who}.")]
                assert all(one < other for one, other in pairwise(numbers))


def test_groups_get_everything_once(mesh: Mesh) -> None:
    parties = mesh.join_all()
    first = [[party.subscribe(subject, "g") for subject in ("work.a", "work.*")] for party in parties]
    second = [[party.subscribe("work.a", "h")] for party in parties]
    plain = [party.subscribe("work.>") for party in parties]
    mesh.converge()
    publish_everywhere(mesh, parties, "work.a")
    for group in (first, second):
        found = [
            [t for sid in sids for t in texts(p.got(sid))] for p, sids in zip(parties, group, strict=True)
        ]
        assert Counter(text for some in found for text in some) == all_of(mesh)
        assert all(found), "every node has members, so every node serves some"
    for at, (party, sid) in enumerate(zip(parties, plain, strict=True)):
        assert Counter(texts(party.got(sid))) == due(mesh, at)


def test_members_weigh_the_same_wherever_they_are(mesh: Mesh) -> None:
    parties = mesh.join_all()
    members = [[party.subscribe("weigh", "g") for _ in range(2**at)] for at, party in enumerate(parties)]
    mesh.converge()
    total = 1200
    for number in range(total):
        parties[0].publish("weigh", str(number))
    mesh.fence(parties[0])
    found = [sum(len(p.got(sid)) for sid in sids) for p, sids in zip(parties, members, strict=True)]
    assert sum(found) == total
    count = sum(len(members[at]) for at in reached(mesh, 0))
    for at in reached(mesh, 0):
        share = len(members[at]) / count
        spread = 6 * (total * share * (1 - share)) ** 0.5
        assert abs(found[at] - total * share) < spread, f"{found} of {list(map(len, members))}"


def test_a_group_at_one_node_gets_everything_of_those_that_reach_it(mesh: Mesh) -> None:
    parties = mesh.join_all()
    sids = [parties[-1].subscribe("far", "g") for _ in range(3)]
    mesh.converge()
    publish_everywhere(mesh, parties, "far")
    found = Counter(text for sid in sids for text in texts(parties[-1].got(sid)))
    assert found == due(mesh, len(parties) - 1)


def test_nothing_is_lost_while_members_come_and_go(mesh: Mesh) -> None:
    """A member that leaves while messages for it are on their way: its group has them."""
    parties = mesh.join_all()
    at_home = reached(mesh, 0)
    staying = {at: parties[at].subscribe("moving", "g") for at in at_home}
    mesh.converge()
    leaving: list[tuple[Party, int]] = []
    for number in range(600):
        parties[0].publish("moving", str(number))
        if number % 20 == 0:
            party = parties[at_home[number // 20 % len(at_home)]]
            leaving.append((party, party.subscribe("moving", "g")))
        elif number % 20 == 10:
            leaving[-1][0].unsubscribe(leaving[-1][1])
    mesh.fence(parties[0])
    found = Counter(text for at, sid in staying.items() for text in texts(parties[at].got(sid)))
    for party, sid in leaving:
        found.update(texts(party.got(sid)))
    assert found == Counter(map(str, range(600)))


def test_a_limit_of_deliveries_holds(mesh: Mesh) -> None:
    parties = mesh.join_all()
    sids = [party.subscribe("most") for party in parties]
    grouped = parties[0].subscribe("most", "g")
    for party, sid in zip(parties, sids, strict=True):
        party.unsubscribe(sid, 7)
        party.sync()
    parties[0].unsubscribe(grouped, 3)
    mesh.converge()
    publish_everywhere(mesh, parties, "most", 10)
    assert [len(party.got(sid)) for party, sid in zip(parties, sids, strict=True)] == [7] * len(parties)
    assert len(parties[0].got(grouped)) == 3
    mesh.converge()
    assert not any(party.has_responders("most") for party in parties)


@pytest.mark.parametrize("size", [0, 1, 1000, 70_000, 1_048_000])
def test_payload_and_reply_arrive_as_they_were_and_headers_where_they_can(mesh: Mesh, size: int) -> None:
    parties = mesh.join_all()
    sids = [party.subscribe("bytes.>") for party in parties]
    mesh.converge()
    payload = (bytes(number * 7 % 256 for number in range(1000)) * (size // 1000 + 1))[:size]
    for party in parties:
        party.publish("bytes.headers", payload, HEADERS, reply="some.reply")
        party.publish("bytes.bare", payload)
    mesh.fence(*parties)
    letters = [node.letter for node in mesh.nodes]
    for at, (party, sid) in enumerate(zip(parties, sids, strict=True)):
        found = party.got(sid)
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
    parties = mesh.join_all()
    services = [party.subscribe(f"service.{at}", "workers") for at, party in enumerate(parties)]
    mesh.converge()
    for at, (answering, sid) in enumerate(zip(parties, services, strict=True)):
        for who in reached(mesh, at):
            reply = parties[who].ask(f"service.{at}", "question")
            answering.publish(answering.next(sid).reply, "answer")
            assert parties[who].answer(reply).payload == b"answer"
        for who in set(mesh.up()) - set(reached(mesh, at)):
            assert not parties[who].has_responders(f"service.{at}")


def test_a_node_that_comes_back_is_as_it_was(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Mesh(tmp_path_factory.mktemp("again"), "xlgx") as mesh:
        mesh.converge()
        for number in (1, 3, 0):
            node = mesh.nodes[number]
            (node.kill if number else node.stop)()
            node.start()
            parties = mesh.join_all()
            sids = [party.subscribe("again") for party in parties]
            groups = [party.subscribe("again", "g") for party in parties]
            mesh.converge()
            publish_everywhere(mesh, parties, "again", 20)
            for at, (party, sid) in enumerate(zip(parties, sids, strict=True)):
                assert Counter(texts(party.got(sid))) == due(mesh, at, 20)
            found = Counter(
                text for p, sid in zip(parties, groups, strict=True) for text in texts(p.got(sid))
            )
            assert found == all_of(mesh, 20)
            mesh.leave()


def test_another_node_carries_when_the_bridge_is_gone(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Mesh(tmp_path_factory.mktemp("bridge"), "xlgx") as mesh:
        mesh.join_all()
        mesh.converge()
        mesh.nodes[0].kill()
        mesh.leave()
        parties = mesh.join_all()
        sids = [party.subscribe("bridge") for party in parties]
        mesh.converge()
        publish_everywhere(mesh, parties, "bridge", 50)
        for party, sid in zip(parties, sids, strict=True):
            assert Counter(texts(party.got(sid))) == all_of_them(parties, 50)
        assert mesh.nodes[3].server.log.count("Carrying messages between routes of 1.x and of 2.x") == 1


@pytest.mark.parametrize("kind", ["xl", "xlg", "lll"])
def test_all_are_told_of_all_and_need_a_password(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    cluster = 'authorization { user: route, password: "right", timeout: 2 }'
    folder = tmp_path_factory.mktemp(kind)
    with Mesh(folder, kind, cluster=cluster, route_user="route:right@", told_of="all") as mesh:
        parties = mesh.join_all()
        sids = [party.subscribe("told") for party in parties]
        mesh.converge()
        publish_everywhere(mesh, parties, "told", 20)
        for at, (party, sid) in enumerate(zip(parties, sids, strict=True)):
            assert Counter(texts(party.got(sid))) == due(mesh, at, 20)


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
