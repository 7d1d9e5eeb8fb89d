"""Accounts, their imports and permissions over the nodes of a mesh."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.mesh import counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.mesh import Mesh

CONFIG: Final = """
system_account: SYS
accounts {
  SYS { users: [{user: sys, password: p}] }
  A {
    users: [
      {user: a, password: p}
      {user: limited, password: p, permissions: {
        publish: {allow: "free.>"}, subscribe: {allow: ["free.>", "_INBOX.>"], deny: "free.secret"}
      }}
      {user: answering, password: p, permissions: {
        publish: {deny: ">"}, subscribe: {allow: ["svc.>", "_INBOX.>"]}, allow_responses: true
      }}
    ]
    mappings: {"map.in": "map.out", "map.out": "map.further"}
    exports: [{stream: "out.>"}, {service: "svc.*"}, {service: "many.*", response_type: stream}]
  }
  B {
    users: [{user: b, password: p}]
    imports: [
      {stream: {account: A, subject: "out.>"}, prefix: from}
      {service: {account: A, subject: "svc.one"}, to: "call.one"}
      {service: {account: A, subject: "svc.none"}}
      {service: {account: A, subject: "many.one"}}
    ]
  }
}
"""
A: Final[dict[str, Any]] = {"user": "a", "pass": "p"}
B: Final[dict[str, Any]] = {"user": "b", "pass": "p"}
LIMITED: Final[dict[str, Any]] = {"user": "limited", "pass": "p"}
ANSWERING: Final[dict[str, Any]] = {"user": "answering", "pass": "p"}


def test_accounts_do_not_see_each_other(mesh: Mesh) -> None:
    ours, theirs = mesh.join_all(**A), mesh.join_all(**B)
    sids = [client.subscribe("inside.>") for client in theirs]
    mesh.converge(**A)
    mesh.converge(**B)

    for client in ours:
        assert not client.has_responders("inside.x")
        client.publish("inside.x", "secret")
    mesh.fence(*ours, **A)

    assert counts(theirs, sids) == [0] * len(theirs)


def test_an_imported_stream_reaches_every_node_once(mesh: Mesh) -> None:
    ours, theirs = mesh.join_all(**A), mesh.join_all(**B)
    plain = [client.subscribe("from.out.>") for client in theirs]
    queue = [client.subscribe("from.out.x", "g") for client in theirs]
    own = [client.subscribe("out.x") for client in ours]
    mesh.converge(**A)

    for who, client in enumerate(ours):
        for number in range(40):
            client.publish("out.x", f"{who}.{number}", {"A": "b"})
    mesh.fence(*ours, **A)

    wanted = Counter(f"{who}.{number}".encode() for who in range(len(ours)) for number in range(40))
    for client, sid in zip((*theirs, *ours), (*plain, *own), strict=True):
        found = client.got(sid)
        assert Counter(message.payload for message in found) == wanted
        subject = "out.x" if client in ours else "from.out.x"
        assert {(message.subject, message.header("A")) for message in found} == {(subject, "b")}
    shared = [message for client, sid in zip(theirs, queue, strict=True) for message in client.got(sid)]
    assert Counter(message.payload for message in shared) == wanted


def test_an_imported_service_is_called_from_every_node(mesh: Mesh) -> None:
    ours, theirs = mesh.join_all(**A), mesh.join_all(**B)
    for answering in ours:
        sid = answering.subscribe("svc.one")
        mesh.converge(**A)
        for asking in theirs:
            reply = asking.ask("call.one", "question", {"Key": "value"})
            question = answering.next(sid)
            assert question.subject == "svc.one"
            assert question.reply != reply
            answering.publish(question.reply, b"answer to " + question.payload, {"Other": "thing"})
            answer = asking.answer(reply)
            assert (answer.payload, answer.header("Other")) == (b"answer to question", "thing")
        answering.unsubscribe(sid)


def test_an_imported_service_of_a_queue_group_answers_once(mesh: Mesh) -> None:
    ours, theirs = mesh.join_all(**A), mesh.join_all(**B)
    sids = [client.subscribe("svc.one", "g") for client in ours]
    mesh.converge(**A)

    asked = [(asking, asking.ask("call.one", str(number))) for asking in theirs for number in range(20)]
    mesh.converge(**B)
    mesh.fence(*theirs, **B)
    answered = 0
    while answered < len(asked):
        for answering, sid in zip(ours, sids, strict=True):
            for question in answering.got(sid):
                answering.publish(question.reply, question.payload)
                answered += 1
    for number, (asking, reply) in enumerate(asked):
        assert asking.answer(reply).payload == str(number % 20).encode()
    mesh.fence(*ours, **A)
    for asking, reply in asked:
        asking.sync()
        assert asking.answers(reply) == []


def test_a_service_may_answer_in_parts(mesh: Mesh) -> None:
    ours, theirs = mesh.join_all(**A), mesh.join_all(**B)
    sid = ours[-1].subscribe("many.one")
    mesh.converge(**A)

    for asking in theirs:
        reply = asking.ask("many.one", "q")
        question = ours[-1].next(sid)
        for part in range(5):
            ours[-1].publish(question.reply, str(part))
        assert [asking.answer(reply).payload for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_nobody_behind_an_imported_service_is_said(mesh: Mesh) -> None:
    for asking in mesh.join_all(**B):
        assert asking.request("svc.none", "q").status.startswith("503")


def test_what_a_user_may_not_say_reaches_no_node(mesh: Mesh) -> None:
    limited, ours = mesh.join_all(**LIMITED), mesh.join_all(**A)
    free = [client.subscribe("free.>") for client in ours]
    closed = [client.subscribe("closed.>") for client in ours]
    mesh.converge(**A)

    for client in limited:
        client.publish("closed.x", "no")
        client.publish("free.x", "yes")
        client.sync()
        expected = "-err 'permissions violation for publish to \"closed.x\"'"
        assert [problem.lower() for problem in client.problems] == [expected]
    for client, allowed, refused in zip(ours, free, closed, strict=True):
        assert {message.payload for message in client.take(allowed, len(limited))} == {b"yes"}
        assert client.got(refused) == []


def test_what_a_user_may_not_hear_comes_from_no_node(mesh: Mesh) -> None:
    limited, ours = mesh.join_all(**LIMITED), mesh.join_all(**A)
    wide = [client.subscribe("free.>") for client in limited]
    for client in limited:
        client.subscribe("closed.y")
        client.subscribe("free.secret", "g")
    mesh.converge(**A)

    for client in ours:
        assert not client.has_responders("closed.y")
        client.publish("free.secret", "no")
        client.publish("free.y", "yes")
    mesh.fence(*ours, **A)

    for client, sid in zip(limited, wide, strict=True):
        assert [message.payload for message in client.got(sid)] == [b"yes"] * len(ours)


def test_answers_are_allowed_where_they_were_asked_for_over_a_route(mesh: Mesh) -> None:
    asking, answering = mesh.join(0, **A), mesh.join(len(mesh.nodes) - 1, **ANSWERING)
    sid = answering.subscribe("svc.two")
    mesh.converge(**A)

    reply = asking.ask("svc.two", "q")
    question = answering.next(sid)
    answering.publish("free.x", "unasked")
    answering.publish(question.reply, "answer")
    assert asking.answer(reply).payload == b"answer"
    answering.publish(question.reply, "another")
    answering.sync()
    assert len(answering.problems) == 2, answering.problems


def test_a_mapping_is_applied_where_a_message_is_published_and_nowhere_else(mesh: Mesh) -> None:
    clients = mesh.join_all(**A)
    sids = [client.subscribe("map.*") for client in clients]
    mesh.converge(**A)

    for client in clients:
        client.publish("map.in", "x")
    mesh.fence(*clients, **A)

    for client, sid in zip(clients, sids, strict=True):
        assert [message.subject for message in client.got(sid)] == ["map.out"] * len(clients)


@pytest.mark.parametrize(
    "cluster", ["pool_size: -1", "pool_size: 1", "pool_size: 7", "accounts: [A]", "compression: off"]
)
def test_connections_between_nodes_may_be_shared_out_in_any_way(
    build: Callable[..., Mesh], cluster: str
) -> None:
    mesh = build(more=CONFIG, cluster=cluster)
    mesh.converge(**A)
    mesh.converge(**B)

    test_an_imported_stream_reaches_every_node_once(mesh)
    test_an_imported_service_is_called_from_every_node(mesh)
