"""What clients of any two nodes may rely on, in meshes of Headrace, of the Go server, and of both."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from harness.mesh import counts

if TYPE_CHECKING:
    from harness.jetstream import Message
    from harness.mesh import Mesh, Party

MESSAGES = 200
HEADERS = b"NATS/1.0\r\nOne: a\r\nOne: b\r\n  Odd : \tx\r\n\r\n"


def publish_all(parties: list[Party], subject: str, count: int) -> None:
    """Every party publishes so many numbered messages; their text says who and which."""
    for who, party in enumerate(parties):
        for number in range(count):
            party.publish(subject, f"{who}.{number}")


def texts(messages: list[Message]) -> list[str]:
    return [message.payload.decode() for message in messages]


def expected(parties: list[Party], count: int) -> Counter[str]:
    return Counter(f"{who}.{number}" for who in range(len(parties)) for number in range(count))


def assert_in_order(messages: list[str]) -> None:
    by_sender: dict[str, list[int]] = {}
    for text in messages:
        who, number = text.split(".")
        by_sender.setdefault(who, []).append(int(number))
    for numbers in by_sender.values():
        assert all(one < other for one, other in pairwise(numbers))


def test_every_node_delivers_what_any_publishes_once_and_in_order(mesh: Mesh) -> None:
    parties = mesh.join_all()
    sids = [party.subscribe("plain.one") for party in parties]
    mesh.converge()

    publish_all(parties, "plain.one", MESSAGES)
    mesh.fence(*parties)

    for party, sid in zip(parties, sids, strict=True):
        found = texts(party.got(sid))
        assert Counter(found) == expected(parties, MESSAGES)
        assert_in_order(found)


def test_overlapping_subscriptions_get_a_copy_each_on_every_node(mesh: Mesh) -> None:
    parties = mesh.join_all()
    wanted = ("lap.a.b", "lap.*.b", "lap.>", "*.a.*", "lap.a.b")
    sids = [[party.subscribe(subject) for subject in wanted] for party in parties]
    near_misses = [party.subscribe("lap.a") for party in parties]
    mesh.converge()

    publish_all(parties, "lap.a.b", 20)
    mesh.fence(*parties)

    for party, several in zip(parties, sids, strict=True):
        for sid in several:
            assert Counter(texts(party.got(sid))) == expected(parties, 20)
    assert counts(parties, near_misses) == [0] * len(parties)


def test_queue_group_over_all_nodes_gets_each_message_once(mesh: Mesh) -> None:
    parties = mesh.join_all()
    sids = [party.subscribe("work.one", "g") for party in parties]
    mesh.converge()

    publish_all(parties, "work.one", MESSAGES)
    mesh.fence(*parties)

    found = [texts(party.got(sid)) for party, sid in zip(parties, sids, strict=True)]
    assert Counter(text for some in found for text in some) == expected(parties, MESSAGES)
    for some in found:
        assert_in_order(some)
        assert some, "every node has a member, so every node serves some"


def test_queue_members_weigh_the_same_wherever_they_are(mesh: Mesh) -> None:
    parties = mesh.join_all()
    members = [[party.subscribe("weigh", "g") for _ in range(3**at)] for at, party in enumerate(parties)]
    mesh.converge()

    total = 1500
    for number in range(total):
        parties[0].publish("weigh", str(number))
    mesh.fence(parties[0])

    found = [sum(len(party.got(sid)) for sid in sids) for party, sids in zip(parties, members, strict=True)]
    assert sum(found) == total
    count = sum(map(len, members))
    for got, sids in zip(found, members, strict=True):
        share = len(sids) / count
        spread = 6 * (total * share * (1 - share)) ** 0.5
        assert abs(got - total * share) < spread, f"{found} of members {list(map(len, members))}"


def test_two_groups_and_plain_interest_share_a_message(mesh: Mesh) -> None:
    parties = mesh.join_all()
    plain = [party.subscribe("both.*") for party in parties]
    first = [party.subscribe("both.x", "g1") for party in parties]
    second = [party.subscribe("both.>", "g2") for party in parties]
    lonely = parties[-1].subscribe("both.x", "g3")
    mesh.converge()

    publish_all(parties, "both.x", 60)
    mesh.fence(*parties)

    everything = expected(parties, 60)
    for party, sid in zip(parties, plain, strict=True):
        assert Counter(texts(party.got(sid))) == everything
    for group in (first, second):
        found = [text for party, sid in zip(parties, group, strict=True) for text in texts(party.got(sid))]
        assert Counter(found) == everything
    assert Counter(texts(parties[-1].got(lonely))) == everything


def test_members_that_leave_get_nothing_more(mesh: Mesh) -> None:
    parties = mesh.join_all()
    sids = [party.subscribe("leave", "g") for party in parties]
    mesh.converge()
    for party, sid in zip(parties[1:], sids[1:], strict=True):
        party.unsubscribe(sid)
        party.sync()
    mesh.converge()

    publish_all(parties, "leave", 30)
    mesh.fence(*parties)

    assert counts(parties, sids) == [30 * len(parties), *[0] * (len(parties) - 1)]


def test_interest_that_ended_is_forgotten_everywhere(mesh: Mesh) -> None:
    asking, *others = mesh.join_all()
    for party in others:
        party.subscribe("ended.plain")
        party.subscribe("ended.queue", "g")
    mesh.converge()
    assert asking.has_responders("ended.plain")
    assert asking.has_responders("ended.queue")

    for party in others:
        party.close()
    while asking.has_responders("ended.plain") or asking.has_responders("ended.queue"):
        mesh.converge()


def test_a_limit_of_deliveries_holds_over_routes(mesh: Mesh) -> None:
    parties = mesh.join_all()
    sids = [party.subscribe("most") for party in parties]
    for party, sid in zip(parties, sids, strict=True):
        party.unsubscribe(sid, 7)
        party.sync()
    mesh.converge()

    publish_all(parties, "most", 10)
    mesh.fence(*parties)

    assert counts(parties, sids) == [7] * len(parties)
    mesh.converge()
    assert not any(party.has_responders("most") for party in parties)


@pytest.mark.parametrize("size", [0, 1, 1000, 70_000, 1_048_000])
def test_payload_headers_and_reply_arrive_as_they_were_sent(mesh: Mesh, size: int) -> None:
    parties = mesh.join_all()
    sids = [party.subscribe("bytes.>") for party in parties]
    mesh.converge()
    payload = bytes(number * 7 % 256 for number in range(1000)) * (size // 1000 + 1)

    for party in parties:
        party.publish("bytes.headers", payload[:size], HEADERS, reply="some.reply")
        party.publish("bytes.plain", payload[:size], reply="other.reply")
        party.publish("bytes.bare", payload[:size])
    mesh.fence(*parties)

    for party, sid in zip(parties, sids, strict=True):
        found = party.got(sid)
        assert len(found) == 3 * len(parties)
        wanted = {
            ("bytes.headers", "some.reply", HEADERS),
            ("bytes.plain", "other.reply", b""),
            ("bytes.bare", "", b""),
        }
        assert {message[:3] for message in found} == wanted
        assert {message.payload for message in found} == {payload[:size]}


def test_requests_are_answered_from_any_node(mesh: Mesh) -> None:
    parties = mesh.join_all()
    services = [party.subscribe(f"service.{at}") for at, party in enumerate(parties)]
    mesh.converge()

    for at, (answering, sid) in enumerate(zip(parties, services, strict=True)):
        for asking in parties:
            reply = asking.ask(f"service.{at}", "question", {"Key": "value"})
            question = answering.next(sid)
            answering.publish(question.reply, b"answer to " + question.payload, question.headers)
            answer = asking.answer(reply)
            assert answer.payload == b"answer to question"
            assert answer.header("Key") == "value"


def test_every_responder_answers(mesh: Mesh) -> None:
    parties = mesh.join_all()
    services = [party.subscribe("service.all") for party in parties]
    mesh.converge()

    reply = parties[0].ask("service.all", "x")
    for party, sid in zip(parties, services, strict=True):
        party.publish(party.next(sid).reply, str(party.number))

    found = {parties[0].answer(reply).payload for _ in parties}
    assert found == {str(party.number).encode() for party in parties}


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
    parties = mesh.join_all(echo=False)
    sids = [party.subscribe("echo") for party in parties]
    mesh.converge()

    publish_all(parties, "echo", 5)
    mesh.fence(*parties)

    assert counts(parties, sids) == [5 * (len(parties) - 1)] * len(parties)


def test_much_interest_is_known_and_forgotten(mesh: Mesh) -> None:
    telling, *others = mesh.join_all()
    lines = b"".join(b"SUB much.%d %d\r\n" % (number, number + 1000) for number in range(20_000))
    telling.wire.send(lines)
    telling.sync()
    mesh.converge()
    for number in (0, 777, 19_999):
        for party in others:
            party.publish(f"much.{number}", "x")
    mesh.fence(*others)
    assert [len(telling.got(number + 1000)) for number in (0, 777, 19_999)] == [len(others)] * 3

    telling.close()
    while others[0].has_responders("much.19999") or others[0].has_responders("much.0"):
        mesh.converge()
