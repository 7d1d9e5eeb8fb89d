"""Channels listed, purged and deleted over NATS, and what tells a channel from one that was there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from stan_harness import HeldCommitter, World

from headrace.conf.streaming_options import StoreLimits, StreamingOptions
from headrace.errors import StorageError
from headrace.log.port import NewMessage
from headrace.log.store import MemoryStore
from headrace.protocol.stan import PubAck, PubMsg, StartPosition
from headrace.streaming import administration
from headrace.streaming.limits import limits_for
from headrace.streaming.state import STATE_LOG, load_state

if TYPE_CHECKING:
    from headrace.log.port import MessageLog

PREFIX = b"_STAN.admin.test-cluster."


def ask(world: World, verb: bytes, request: Any = None, **values: Any) -> dict[str, Any]:
    reply = world.name("admin")
    payload = request if isinstance(request, bytes) else json.dumps(values).encode()
    world.send(PREFIX + verb, payload, reply)
    world.settle()
    (answer,) = world.take(reply)
    found: dict[str, Any] = json.loads(answer)
    return found


def names(answer: dict[str, Any]) -> list[str]:
    return [one["name"] for one in answer["channels"]]


@pytest.fixture
def world() -> World:
    world = World()
    world.connect()
    world.publish(b"orders.eu", b"1", b"2", b"3", b"4")
    world.advance(10)
    world.publish(b"orders.us", b"1")
    world.publish(b"idle", b"1")
    return world


# ---- looking --------------------------------------------------------------------------------------------


def test_channels_are_listed_by_name(world: World) -> None:
    answer = ask(world, b"channels", b"")

    assert (answer["total"], answer["offset"], names(answer)) == (3, 0, ["idle", "orders.eu", "orders.us"])
    one = answer["channels"][1]
    assert one.pop("bytes") > 4
    assert one == {
        "name": "orders.eu",
        "msgs": 4,
        "first_seq": 1,
        "last_seq": 4,
        "last_time": "2023-11-14T22:13:20.000000000Z",
        "subs_count": 0,
        "created": "2023-11-14T22:13:20.000000000Z",
        "damaged": 0,
    }


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"channel": "orders.*"}, (2, ["orders.eu", "orders.us"])),
        ({"channel": "idle"}, (1, ["idle"])),
        ({"channel": "nowhere"}, (0, [])),
        ({"offset": 2}, (3, ["orders.us"])),
        ({"offset": 99}, (3, [])),
    ],
)
def test_channels_are_chosen(request_: dict[str, Any], expected: object, world: World) -> None:
    answer = ask(world, b"channels", **request_)

    assert (answer["total"], names(answer)) == expected


def test_report_has_subscriptions_too(world: World) -> None:
    world.subscribe(b"orders.eu", durable=b"mine", start=StartPosition.FIRST, max_in_flight=3)
    world.subscribe(b"orders.eu", queue=b"workers")
    world.disconnect()

    (one,) = ask(world, b"report", channel="orders.eu")["channels"]

    assert one["subs_count"] == 1
    assert one["subscriptions"] == [
        {
            "client_id": "me",
            "durable_name": "mine",
            "queue_name": "",
            "is_offline": True,
            "last_sent": 3,
            "pending_count": 3,
        }
    ]


def test_answers_are_bounded_and_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "ANSWER_BYTES", 1)
    found: list[str] = []
    while len(found) < 3:
        answer = ask(world, b"report", offset=len(found))
        assert len(answer["channels"]) == 1
        found += names(answer)

    assert found == ["idle", "orders.eu", "orders.us"]


def test_names_that_are_no_text_come_back_as_they_went(world: World) -> None:
    world.publish(b"bad\xff", b"1")
    (name,) = (name for name in names(ask(world, b"channels")) if name.startswith("bad"))

    assert name.encode("utf-8", "surrogateescape") == b"bad\xff"
    assert ask(world, b"delete", channel=name)["deleted"]
    assert world.service.channel_names() == ["idle", "orders.eu", "orders.us"]


# ---- purge ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "first", "purged"),
    [
        ({}, 6, 5),
        ({"before_sequence": 3}, 3, 2),
        ({"before_sequence": 0}, 1, 0),
        ({"before_sequence": 99}, 6, 5),
        ({"keep": 2}, 4, 3),
        ({"keep": 99}, 1, 0),
        ({"before_sequence": 4, "keep": 1}, 3, 2),
        ({"before_time": "2023-11-14T22:13:21Z"}, 5, 4),
        ({"before_time": "1950-01-01T00:00:00Z"}, 1, 0),
        ({"before_time": "2200-01-01T00:00:00+01:00"}, 6, 5),
        ({"before_time": "2023-11-14T22:13:21Z", "before_sequence": 2}, 2, 1),
    ],
)
def test_purge_removes_what_it_is_told(
    request_: dict[str, Any], first: int, purged: int, world: World
) -> None:
    world.publish(b"orders.eu", b"5")
    answer = ask(world, b"purge", channel="orders.eu", **request_)

    assert answer["purged"] == purged
    assert (answer["channel"]["first_seq"], answer["channel"]["msgs"]) == (first, 5 - purged)
    world.publish(b"orders.eu", b"next")
    assert ask(world, b"channels", channel="orders.eu")["channels"][0]["last_seq"] == 6


def test_purged_messages_are_pending_no_more_and_make_room(world: World) -> None:
    sub = world.subscribe(b"orders.eu", durable=b"d", start=StartPosition.FIRST, max_in_flight=3)
    offline = world.subscribe(b"orders.eu", durable=b"gone", start=StartPosition.FIRST, max_in_flight=2)
    world.close_sub(offline)
    assert world.sequences(sub) == [1, 2, 3]

    ask(world, b"purge", channel="orders.eu", before_sequence=3)

    assert world.sequences(sub) == [4]
    assert world.pending(sub) == 2
    assert world.pending(offline) == 0
    world.restart()
    assert world.pending(sub) == 2
    assert world.pending(offline) == 0


def test_group_goes_on_after_a_purge(world: World) -> None:
    sub = world.subscribe(b"orders.eu", queue=b"workers", start=StartPosition.FIRST, max_in_flight=2)
    assert world.sequences(sub) == [1, 2]

    ask(world, b"purge", channel="orders.eu")
    world.publish(b"orders.eu", b"5")

    assert world.sequences(sub) == [5]
    world.advance(60)
    assert set(world.sequences(sub)) == {5}


def test_purge_takes_what_came_before_it_in_the_same_tick(world: World) -> None:
    world.send(b"_STAN.pub.test-cluster.idle", PubMsg(b"me", b"g", b"idle", data=b"2").encode())

    assert ask(world, b"purge", channel="idle")["purged"] == 2


def test_purge_is_answered_when_it_is_durable() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    world.store.open(b"a").append([NewMessage(b"a", b"1")])
    world.restart()
    reply = world.name("admin")
    world.send(PREFIX + b"purge", b'{"channel": "a"}', reply)
    world.settle()
    assert world.take(reply) == []

    committer.commit(StorageError("no space left"))

    assert json.loads(world.take(reply)[0]) == {"error": {"code": 500, "description": "no space left"}}


# ---- delete ---------------------------------------------------------------------------------------------


def test_delete_ends_everything_of_a_channel(world: World) -> None:
    plain = world.subscribe(b"orders.eu")
    world.subscribe(b"orders.eu", durable=b"d", start=StartPosition.FIRST)
    world.subscribe(b"orders.eu", queue=b"q", start=StartPosition.FIRST)
    world.subscribe(b"orders.eu", queue=b"q", durable=b"dq", start=StartPosition.FIRST)
    world.subscribe(b"orders.eu", queue=b"q", durable=b"dq", start=StartPosition.FIRST)
    offline = world.subscribe(b"orders.eu", durable=b"offline")
    world.close_sub(offline)
    before = len(world.host.subscriptions)

    answer = ask(world, b"delete", channel="orders.eu")

    assert answer == {"deleted": True, "messages": 4, "subscriptions": 6}
    assert names(ask(world, b"channels")) == ["idle", "orders.us"]
    assert b"orders.eu" not in world.store.names()
    assert len(world.host.subscriptions) == before - 5
    world.received(plain)
    world.advance(120)
    assert world.received(plain) == []
    assert world.unsubscribe(plain) == b"stan: unknown channel"
    world.disconnect()
    world.restart()
    assert load_state(world.store).subscriptions == {}


def test_deleted_channel_begins_anew(world: World) -> None:
    world.subscribe(b"orders.eu", durable=b"d", start=StartPosition.FIRST)
    ask(world, b"delete", channel="orders.eu")
    world.publish(b"orders.eu", b"new")

    sub = world.subscribe(b"orders.eu", durable=b"d", start=StartPosition.FIRST)

    assert [(message.sequence, message.data) for message in world.received(sub)] == [(1, b"new")]


def test_channel_that_is_being_deleted_takes_nothing() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    world.store.open(b"a").append([NewMessage(b"a", b"1")])
    world.restart()
    world.send(
        b"_STAN.discover.test-cluster",
        b'\n\x02me\x12\x03_HB\x18\x01"\x02me',
        reply := world.name("reply"),
    )
    world.settle()
    committer.commit()
    assert world.take(reply)
    first, second = world.name("admin"), world.name("admin")
    world.send(PREFIX + b"delete", b'{"channel": "a"}', first)
    world.settle()

    ack = world.name("ack")
    world.send(b"_STAN.pub.test-cluster.a", PubMsg(b"me", b"g", b"a", data=b"2").encode(), ack)
    world.send(PREFIX + b"delete", b'{"channel": "a"}', second)
    world.settle()
    assert [PubAck.decode(one).error for one in world.take(ack)] == [b"stan: channel is being deleted"]
    assert world.refused(b"a") == b"stan: channel is being deleted"
    assert json.loads(world.take(second)[0])["error"]["code"] == 409
    assert world.take(first) == []
    assert b"a" in world.store.names()

    committer.commit()

    assert json.loads(world.take(first)[0])["deleted"]
    assert b"a" not in world.store.names()


def test_publications_under_way_are_answered_before_their_channel_goes() -> None:
    committer = HeldCommitter()
    world = World(committer=committer)
    world.send(b"_STAN.discover.test-cluster", b'\n\x02me\x12\x03_HB\x18\x01"\x02me', world.name("reply"))
    world.settle()
    committer.commit()
    ack, answer = world.name("ack"), world.name("admin")
    world.send(b"_STAN.pub.test-cluster.a", PubMsg(b"me", b"g", b"a", data=b"1").encode(), ack)
    world.send(PREFIX + b"delete", b'{"channel": "a"}', answer)
    world.settle()
    state_log: MessageLog = world.store.open(STATE_LOG)
    committer.commit(only=state_log)
    world.advance(1)
    assert world.take(answer) == []
    assert world.take(ack) == []

    committer.commit()
    world.advance(1)

    assert [PubAck.decode(one).error for one in world.take(ack)] == [b""]
    assert json.loads(world.take(answer)[0])["messages"] == 1
    assert world.store.names() == [STATE_LOG]


def test_channel_that_cannot_be_deleted_lives_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ask(world, b"channels", channel="idle")["channels"]

    def fail(_name: bytes) -> bool:
        raise StorageError("permission denied")

    monkeypatch.setattr(world.store, "remove", fail)
    answer = ask(world, b"delete", channel="idle")

    assert answer == {"error": {"code": 500, "description": "permission denied"}}
    assert ask(world, b"channels", channel="idle")["channels"] == before
    assert world.publish(b"idle", b"2") == [b""]


# ---- incarnations -----------------------------------------------------------------------------------------


def created(world: World, channel: str = "idle") -> str:
    text: str = ask(world, b"channels", channel=channel)["channels"][0]["created"]
    return text


@pytest.mark.parametrize("clean", [True, False])
def test_incarnation_survives_a_restart(clean: bool, world: World) -> None:
    before = created(world)
    world.advance(5)
    world.restart(clean=clean)

    assert created(world) == before


def test_incarnation_is_another_after_a_deletion_even_at_the_same_moment(world: World) -> None:
    seen = {created(world)}
    for _ in range(3):
        ask(world, b"delete", channel="idle")
        world.publish(b"idle", b"1")
        seen.add(created(world))

    assert len(seen) == 4


def test_incarnation_is_in_snapshots_of_the_state(world: World) -> None:
    before = created(world)
    world.tenure._journal.snapshot_due = True
    world.connect(b"other")  # something to write
    assert world.store.open(STATE_LOG).state().first_sequence > 1
    world.restart()

    assert created(world) == before


def test_channel_that_nobody_knew_gets_an_incarnation_that_stays() -> None:
    store = MemoryStore()
    store.open(b"idle").append([NewMessage(b"idle", b"imported")])
    world = World(store=store)
    before = created(world)
    world.advance(5)
    world.restart()

    assert created(world) == before


def test_incarnation_is_told_when_it_is_durable() -> None:
    committer = HeldCommitter()
    store = MemoryStore()
    store.open(b"idle")
    world = World(store=store, committer=committer)
    reply = world.name("admin")
    world.send(PREFIX + b"channels", b"", reply)
    world.settle()
    assert world.take(reply) == []

    committer.commit()

    assert len(world.take(reply)) == 1


def test_channel_that_goes_by_inactivity_is_forgotten_too() -> None:
    options = StreamingOptions(limits=StoreLimits(max_inactivity=5))
    assert limits_for(b"idle", options.limits).max_inactivity == 5
    world = World(options)
    world.connect()
    world.publish(b"idle", b"1")
    assert list(load_state(world.store).channels) == [b"idle"]
    world.advance(20)

    assert world.store.names() == [STATE_LOG]
    assert load_state(world.store).channels == {}


# ---- what goes wrong ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "payload", "code", "text"),
    [
        (b"purge", b"", 400, "not JSON"),
        (b"purge", b"{}", 400, "channel is missing"),
        (b"purge", b'{"channel": "nowhere"}', 404, "no such channel"),
        (b"purge", b'{"channel": "orders.*"}', 400, "without wildcards"),
        (b"purge", b'{"channel": "idle", "keep": -1}', 400, "keep: -1 is not from 0"),
        (b"purge", b'{"channel": "idle", "seq": 1}', 400, 'unknown key "seq"; there are channel, before'),
        (b"delete", b'{"channel": "nowhere"}', 404, "no such channel"),
        (b"delete", b'{"channel": "idle", "keep": 1}', 400, "unknown key"),
        (b"delete", b'["idle"]', 400, "not a JSON object"),
        (b"channels", b'{"offset": "1"}', 400, "offset: a whole number is expected"),
        (b"report", b'{"channel": ""}', 400, "channel: it is empty"),
        (b"destroy", b"{}", 404, "there are channels, report, purge, delete"),
    ],
)
def test_bad_request_is_refused_with_a_reason(
    verb: bytes, payload: bytes, code: int, text: str, world: World
) -> None:
    answer = ask(world, verb, payload)

    assert answer["error"]["code"] == code
    assert text in answer["error"]["description"]
    assert names(ask(world, b"channels")) == ["idle", "orders.eu", "orders.us"]


def test_storage_error_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> int:
        raise StorageError("input/output error")

    monkeypatch.setattr(world.store.open(b"idle"), "purge", fail)

    assert ask(world, b"purge", channel="idle") == {
        "error": {"code": 500, "description": "input/output error"}
    }


def test_request_without_reply_is_done_all_the_same(world: World) -> None:
    world.send(PREFIX + b"delete", b'{"channel": "idle"}')
    world.settle()

    assert names(ask(world, b"channels")) == ["orders.eu", "orders.us"]
