"""Answers that tell what is stored, or confirm a removal, wait until that is durable."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pytest
from js_streams import World

from harness.js_account import HeldCommitter, Place
from headrace.core.service import Delivery
from headrace.engine.batches import Gathered
from headrace.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

GETS: dict[str, tuple[bytes, bytes]] = {
    "last by the subject": (b"", b"s.a"),
    "last by the body": (b'{"last_by_subj":"s.a"}', b""),
    "by sequence": (b'{"seq":2}', b""),
    "next": (b'{"seq":2,"next_by_subj":"s.a"}', b""),
    "without headers": (b'{"seq":2,"no_hdr":true}', b""),
    "last of many": (b'{"multi_last":["s.>"]}', b""),
}
GONE: dict[str, tuple[bytes, bytes]] = {
    "by sequence": (b'{"seq":1}', b""),
    "without headers": (b'{"seq":1,"no_hdr":true}', b""),
    "no subject": (b"", b"s.none"),
    "none of many": (b'{"multi_last":["s.none"]}', b""),
}


def asked(world: World, body: bytes, subject: bytes) -> list[tuple[bytes, bytes]]:
    """The headers and payloads of answers that came at once."""
    world.take()
    world.stream.direct(Delivery(1, b"x", b"inbox", b"", body), subject)
    return answers(world)


def answers(world: World) -> list[tuple[bytes, bytes]]:
    return [(headers, payload) for to, headers, payload in world.take() if to == b"inbox"]


def overwritten() -> World:
    """A stream with one message for each subject: a durable one, and a newer one that is not."""
    world = World(max_msgs_per_subject=1, allow_direct=True)
    world.receive((b"s.a", b"", b"old"))
    world.account.committer.held = True
    world.receive((b"s.a", b"", b"new"))
    return world


@pytest.mark.parametrize("get", GETS)
def test_a_get_shows_a_message_once_it_is_durable(get: str) -> None:
    world = overwritten()
    body, subject = GETS[get]

    assert asked(world, body, subject) == []
    world.account.committer.release()
    assert answers(world)[0][1] == b"new"

    assert asked(world, body, subject)[0][1] == b"new"  # at once now


@pytest.mark.parametrize("get", GONE)
def test_a_get_says_that_nothing_is_there_once_that_is_durable(get: str) -> None:
    world = overwritten()
    body, subject = GONE[get]

    assert asked(world, body, subject) == []
    world.account.committer.release()
    ((headers, payload),) = answers(world)
    assert headers.startswith(b"NATS/1.0 404")
    assert payload == b""

    assert asked(world, body, subject) == [(headers, b"")]


@pytest.mark.parametrize("get", [*GETS.values(), *GONE.values()])
def test_what_cannot_be_made_durable_is_not_shown(get: tuple[bytes, bytes]) -> None:
    world = overwritten()

    assert asked(world, *get) == []
    world.account.committer.release(StorageError("the bucket is away"))
    assert answers(world) == [(b"NATS/1.0 503\r\n\r\n", b"")]


def test_what_is_durable_is_shown_whatever_else_waits() -> None:
    world = overwritten()
    world.account.committer.release()
    world.receive((b"s.b", b"", b"later"))

    for get in ("last by the subject", "by sequence", "without headers"):
        assert asked(world, *GETS[get])[0][1] == b"new"
    assert asked(world, *GETS["last of many"]) == []


def placed() -> tuple[Place, HeldCommitter]:
    committer = HeldCommitter()
    place = Place(committer=committer)
    place.host.tick()
    place.stream("S", subjects=["s.>"], max_msgs_per_subject=1)
    committer.commit()
    return place, committer


def told(place: Place, committer: HeldCommitter, failure: StorageError | None = None) -> Any:
    """The answer to a request that waits, once everything is durable or cannot be."""
    place.host.sent.clear()
    committer.commit(failure)
    place.host.tick()
    return [json.loads(one.payload) for one in place.host.sent if one.to == b"_INBOX.ask"][-1]


def test_a_get_of_the_api_waits_too() -> None:
    place, committer = placed()
    place.publish("s.a", b"new")
    for body in ({"last_by_subj": "s.a"}, {"seq": 1}, {"next_by_subj": "s.>"}):
        assert place.ask("STREAM.MSG.GET.S", body) is None
    assert place.ask("STREAM.MSG.GET.S", {"seq": 9}) is None
    place.host.sent.clear()
    committer.commit()
    place.host.tick()
    found = [json.loads(one.payload) for one in place.host.sent if one.to == b"_INBOX.ask"]
    assert [b64decode(one["message"]["data"]) for one in found[1:4]] == [b"new"] * 3
    assert found[4]["error"]["err_code"] == 10037

    assert place.ask("STREAM.MSG.GET.S", {"seq": 1})["message"]["seq"] == 1
    place.publish("s.a", b"newer")
    place.ask("STREAM.MSG.GET.S", {"last_by_subj": "s.a"})
    refused = told(place, committer, StorageError("the bucket is away"))
    assert refused["error"] == {"code": 500, "err_code": 10051, "description": "the bucket is away"}


INFOS: dict[str, Callable[[Any], tuple[int, int]]] = {
    "STREAM.INFO.S": lambda told: (told["state"]["messages"], told["state"]["last_seq"]),
    "STREAM.LIST": lambda told: (told["total"], told["streams"][0]["state"]["last_seq"]),
    "CONSUMER.INFO.S.c": lambda told: (1, told["num_pending"]),
    "CONSUMER.LIST.S": lambda told: (told["total"], told["consumers"][0]["num_pending"]),
}
"""What infos tell of a stream `S` with one message, and one consumer: a pair of ones."""


@pytest.mark.parametrize("name", INFOS)
def test_an_info_tells_of_messages_once_they_are_durable(name: str) -> None:
    place, committer = placed()
    place.consumer("S", "c")
    committer.commit()
    place.publish("s.a", b"new")
    assert place.ask(name) is None
    place.host.put(b"s.b", b"newer", b"", b"")  # is not told of
    place.host.tick()
    assert INFOS[name](told(place, committer)) == (1, 1)

    assert place.ask(name)["type"], "at once now"
    place.host.put(b"s.c", b"newest", b"", b"")
    assert place.ask(name) is None
    refused = told(place, committer, StorageError("the bucket is away"))
    assert refused["error"] == {"code": 500, "err_code": 10051, "description": "the bucket is away"}


def test_a_list_waits_for_every_stream_that_it_tells_of() -> None:
    place, committer = placed()
    place.ask("STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"]})
    committer.commit()
    place.publish("s.a", b"new")
    place.publish("t.a", b"new")
    assert place.ask("STREAM.LIST") is None
    publications, infos = committer.waiting[:-2], committer.waiting[-2:]
    committer.waiting = [*publications, infos[0]]
    place.host.sent.clear()
    committer.commit()
    place.host.tick()
    assert not any(b"stream_list" in one.payload for one in place.host.sent)
    committer.waiting = [infos[1]]
    answer = told(place, committer)
    assert [each["state"]["messages"] for each in answer["streams"]] == [1, 1]


@pytest.mark.parametrize(
    ("name", "body", "fields", "err_code"),
    [
        ("STREAM.MSG.DELETE.S", {"seq": 1}, {"success": True}, 10057),
        ("STREAM.MSG.DELETE.S", {"seq": 1, "no_erase": True}, {"success": True}, 10057),
        ("STREAM.PURGE.S", None, {"success": True, "purged": 1}, 10110),
    ],
)
def test_a_removal_is_confirmed_once_it_is_durable(
    name: str, body: Any, fields: dict[str, object], err_code: int
) -> None:
    for failure in (None, StorageError("the bucket is away")):
        place, committer = placed()
        place.publish("s.a", b"x")
        committer.commit()
        assert place.ask(name, body) is None
        answer = told(place, committer, failure)
        if failure is None:
            assert {key: answer.get(key) for key in fields} == fields
        else:
            assert answer["error"]["err_code"] == err_code
            assert answer["error"]["description"] == "the bucket is away"


@pytest.mark.parametrize("is_late", [False, True])
def test_a_refusal_for_the_sake_of_a_message_that_is_lost_says_so(*, is_late: bool) -> None:
    """Else a client would learn of a message that nobody can read, before a crash or after it."""
    world = World()
    committer = world.account.committer
    committer.held = True
    world.receive((b"s.a", b"", b"1"))
    if is_late:
        committer.release(StorageError("the bucket is away"))
    world.take()
    expects = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n"
    world.stream.ingest.receive(gathered(expects))
    world.account.turns.settle()
    assert world.take() == []

    committer.release(StorageError("the bucket is away"))

    error = {"code": 503, "err_code": 10077, "description": "the bucket is away"}
    refused = [json.loads(payload)["error"] for to, _, payload in world.take() if to == b"second"]
    assert refused == [error]


def gathered(headers: bytes) -> Any:
    return Gathered(Delivery, 1, [Delivery(1, b"s.a", b"second", headers, b"2")])


class Woken:
    """A consumer and a follower of the stream, which are told of what they may read."""

    def __init__(self) -> None:
        self.times = 0

    def wake(self) -> None:
        self.times += 1

    fresh = wake


def test_a_message_whose_commit_failed_is_delivered_when_it_is_durable_all_the_same() -> None:
    """A bucket that is late refuses it, and has it a moment later: its publisher hears that it is there."""
    world = World()
    committer, consumer, follower = world.account.committer, Woken(), Woken()
    world.stream.consumers["C"] = consumer  # type: ignore[assignment]
    world.stream.followers[follower] = None  # type: ignore[index]
    committer.held = True
    world.receive((b"s.a", b"", b"1"))
    committer.release(StorageError("the bucket is away"))
    assert world.acks()[0]["error"]["description"] == "the bucket is away"
    world.host.pass_time(1.0)
    committer.release(StorageError("the bucket is away"))
    assert (world.stream.visible, consumer.times, follower.times) == (0, 0, 0)

    world.host.pass_time(1.0)
    committer.release()

    assert (world.stream.visible, consumer.times, follower.times) == (1, 1, 1)
    world.host.pass_time(10.0)
    assert not committer.waiting  # nobody asks on and on
