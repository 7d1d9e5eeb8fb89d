"""What clients of any two nodes may rely on, in meshes of Headrace, of the Go server, and of both."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from harness.mesh import counts

if TYPE_CHECKING:
    from harness.jetstream import Message
    from harness.mesh import Mesh, MeshClient

MESSAGES = 200
HEADERS = b"NATS/1.0\r\nOne: a\r\nOne: b\r\n  Odd : \tx\r\n\r\n"


def publish_all(clients: list[MeshClient], subject: str, count: int) -> None:
    """Every client publishes so many numbered messages; their text says who and which."""
    for who, client in enumerate(clients):
        for number in range(count):
            client.publish(subject, f"{who}.{number}")


def texts(messages: list[Message]) -> list[str]:
    return [message.payload.decode() for message in messages]


def expected(clients: list[MeshClient], count: int) -> Counter[str]:
    return Counter(f"{who}.{number}" for who in range(len(clients)) for number in range(count))


def assert_in_order(messages: list[str]) -> None:
    by_sender: dict[str, list[int]] = {}
    for text in messages:
        who, number = text.split(".")
        by_sender.setdefault(who, []).append(int(number))
    for numbers in by_sender.values():
        assert all(one < other for one, other in pairwise(numbers))


def test_every_node_delivers_what_any_publishes_once_and_in_order(mesh: Mesh) -> None:
    clients = mesh.join_all()
    sids = [client.subscribe("plain.one") for client in clients]
    mesh.converge()

    publish_all(clients, "plain.one", MESSAGES)
    mesh.fence(*clients)

    for client, sid in zip(clients, sids, strict=True):
        found = texts(client.got(sid))
        assert Counter(found) == expected(clients, MESSAGES)
        assert_in_order(found)


def test_overlapping_subscriptions_get_a_copy_each_on_every_node(mesh: Mesh) -> None:
    clients = mesh.join_all()
    wanted = ("lap.a.b", "lap.*.b", "lap.>", "*.a.*", "lap.a.b")
    sids = [[client.subscribe(subject) for subject in wanted] for client in clients]
    near_misses = [client.subscribe("lap.a") for client in clients]
    mesh.converge()

    publish_all(clients, "lap.a.b", 20)
    mesh.fence(*clients)

    for client, several in zip(clients, sids, strict=True):
        for sid in several:
            assert Counter(texts(client.got(sid))) == expected(clients, 20)
    assert counts(clients, near_misses) == [0] * len(clients)


def test_queue_group_over_all_nodes_gets_each_message_once(mesh: Mesh) -> None:
    clients = mesh.join_all()
    sids = [client.subscribe("work.one", "g") for client in clients]
    mesh.converge()

    publish_all(clients, "work.one", MESSAGES)
    mesh.fence(*clients)

    found = [texts(client.got(sid)) for client, sid in zip(clients, sids, strict=True)]
    assert Counter(text for some in found for text in some) == expected(clients, MESSAGES)
    for some in found:
        assert_in_order(some)
        assert some, "every node has a member, so every node serves some"


def test_queue_members_weigh_the_same_wherever_they_are(mesh: Mesh) -> None:
    clients = mesh.join_all()
    members = [[client.subscribe("weigh", "g") for _ in range(3**at)] for at, client in enumerate(clients)]
    mesh.converge()

    total = 1500
    for number in range(total):
        clients[0].publish("weigh", str(number))
    mesh.fence(clients[0])

    found = [sum(len(client.got(sid)) for sid in sids) for client, sids in zip(clients, members, strict=True)]
    assert sum(found) == total
    count = sum(map(len, members))
    for got, sids in zip(found, members, strict=True):
        share = len(sids) / count
        spread = 6 * (total * share * (1 - share)) ** 0.5
        assert abs(got - total * share) < spread, f"{found} of members {list(map(len, members))}"


def test_two_groups_and_plain_interest_share_a_message(mesh: Mesh) -> None:
    clients = mesh.join_all()
    plain = [client.subscribe("both.*") for client in clients]
    first = [client.subscribe("both.x", "g1") for client in clients]
    second = [client.subscribe("both.>", "g2") for client in clients]
    lonely = clients[-1].subscribe("both.x", "g3")
    mesh.converge()

    publish_all(clients, "both.x", 60)
    mesh.fence(*clients)

    everything = expected(clients, 60)
    for client, sid in zip(clients, plain, strict=True):
        assert Counter(texts(client.got(sid))) == everything
    for group in (first, second):
        found = [text for client, sid in zip(clients, group, strict=True) for text in texts(client.got(sid))]
        assert Counter(found) == everything
    assert Counter(texts(clients[-1].got(lonely))) == everything


def test_members_that_leave_get_nothing_more(mesh: Mesh) -> None:
    clients = mesh.join_all()
    sids = [client.subscribe("leave", "g") for client in clients]
    mesh.converge()
    for client, sid in zip(clients[1:], sids[1:], strict=True):
        client.unsubscribe(sid)
        client.sync()
    mesh.converge()

    publish_all(clients, "leave", 30)
    mesh.fence(*clients)

    assert counts(clients, sids) == [30 * len(clients), *[0] * (len(clients) - 1)]


def test_interest_that_ended_is_forgotten_everywhere(mesh: Mesh) -> None:
    asking, *others = mesh.join_all()
    for client in others:
        client.subscribe("ended.plain")
        client.subscribe("ended.queue", "g")
    mesh.converge()
    assert asking.has_responders("ended.plain")
    assert asking.has_responders("ended.queue")

    for client in others:
        client.close()
    while asking.has_responders("ended.plain") or asking.has_responders("ended.queue"):
        mesh.converge()


def test_a_limit_of_deliveries_holds_over_routes(mesh: Mesh) -> None:
    clients = mesh.join_all()
    sids = [client.subscribe("most") for client in clients]
    for client, sid in zip(clients, sids, strict=True):
        client.unsubscribe(sid, 7)
        client.sync()
    mesh.converge()

    publish_all(clients, "most", 10)
    mesh.fence(*clients)

    assert counts(clients, sids) == [7] * len(clients)
    mesh.converge()
    assert not any(client.has_responders("most") for client in clients)


@pytest.mark.parametrize("size", [0, 1, 1000, 70_000, 1_048_000])
def test_payload_headers_and_reply_arrive_as_they_were_sent(mesh: Mesh, size: int) -> None:
    clients = mesh.join_all()
    sids = [client.subscribe("bytes.>") for client in clients]
    mesh.converge()
    payload = bytes(number * 7 % 256 for number in range(1000)) * (size // 1000 + 1)

    for client in clients:
        client.publish("bytes.headers", payload[:size], HEADERS, reply="some.reply")
        client.publish("bytes.plain", payload[:size], reply="other.reply")
        client.publish("bytes.bare", payload[:size])
    mesh.fence(*clients)

    for client, sid in zip(clients, sids, strict=True):
        found = client.got(sid)
        assert len(found) == 3 * len(clients)
        wanted = {
            ("bytes.headers", "some.reply", HEADERS),
            ("bytes.plain", "other.reply", b""),
            ("bytes.bare", "", b""),
        }
        assert {message[:3] for message in found} == wanted
        assert {message.payload for message in found} == {payload[:size]}


def test_requests_are_answered_from_any_node(mesh: Mesh) -> None:
    clients = mesh.join_all()
    services = [client.subscribe(f"service.{at}") for at, client in enumerate(clients)]
    mesh.converge()

    for at, (answering, sid) in enumerate(zip(clients, services, strict=True)):
        for asking in clients:
            reply = asking.ask(f"service.{at}", "question", {"Key": "value"})
            question = answering.next(sid)
            answering.publish(question.reply, b"answer to " + question.payload, question.headers)
            answer = asking.answer(reply)
            assert answer.payload == b"answer to question"
            assert answer.header("Key") == "value"


def test_every_responder_answers(mesh: Mesh) -> None:
    clients = mesh.join_all()
    services = [client.subscribe("service.all") for client in clients]
    mesh.converge()

    reply = clients[0].ask("service.all", "x")
    for client, sid in zip(clients, services, strict=True):
        client.publish(client.next(sid).reply, str(client.number))

    found = {clients[0].answer(reply).payload for _ in clients}
    assert found == {str(client.number).encode() for client in clients}


def test_no_responders_is_said_once_and_only_when_true(mesh: Mesh) -> None:
    asking, *others = mesh.join_all()
    sid = others[-1].subscribe("there")
    mesh.converge()

    nobody = asking.ask("nobody.there", "x")
    somebody = asking.ask("there", "x")
    answer = asking.answer(nobody)
    assert answer.headers.startswith(b"NATS/1.0 503\r\n")
    assert others[-1].next(sid).reply == somebody
    mesh.fence(asking)
    asking.sync()
    assert asking.answers(nobody) == asking.answers(somebody) == []


def test_echo_off_is_for_the_own_connection_only(mesh: Mesh) -> None:
    clients = mesh.join_all(echo=False)
    sids = [client.subscribe("echo") for client in clients]
    mesh.converge()

    publish_all(clients, "echo", 5)
    mesh.fence(*clients)

    assert counts(clients, sids) == [5 * (len(clients) - 1)] * len(clients)


def test_much_interest_is_known_and_forgotten(mesh: Mesh) -> None:
    telling, *others = mesh.join_all()
    lines = b"".join(b"SUB much.%d %d\r\n" % (number, number + 1000) for number in range(20_000))
    telling.wire.send(lines)
    telling.sync()
    mesh.converge()
    for number in (0, 777, 19_999):
        for client in others:
            client.publish(f"much.{number}", "x")
    mesh.fence(*others)
    assert [len(telling.got(number + 1000)) for number in (0, 777, 19_999)] == [len(others)] * 3

    telling.close()
    while others[0].has_responders("much.19999") or others[0].has_responders("much.0"):
        mesh.converge()
