"""Mirrors, sources, counters, schedules, batches and fast ingest, as the Go server has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import QUIET, SECOND, Play, Scenario, Scenarios, compare, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()


def _has(play: Play, stream: str, messages: int) -> None:
    play.until(lambda info: info["state"]["messages"] == messages, f"STREAM.INFO.{stream}")


def _described(play: Play, stream: str) -> None:
    """What a stream's info says of where its messages come from."""
    info = play.quiet(f"STREAM.INFO.{stream}")
    play.say(stream, {name: info.get(name) for name in ("mirror", "sources")}, info["state"])


ORIGINS: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "everything": ({}, 9),
    "from a sequence": ({"opt_start_seq": 4}, 6),
    "from a time past": ({"opt_start_time": "2020-01-01T00:00:00Z"}, 9),
    "a subject": ({"filter_subject": "o.1"}, 3),
    "transformed": ({"subject_transforms": [{"src": "o.*", "dest": "new.{{wildcard(1)}}"}]}, 9),
    "some transformed": (
        {"subject_transforms": [{"src": "o.1", "dest": "one"}, {"src": "o.2", "dest": ""}]}, 6,
    ),
}  # fmt: skip


def _copied(kind: str, config: dict[str, Any], count: int) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("O", ["o.>"])
        for number in range(9):
            play.publish(f"o.{number % 3}", str(number), {"N": "x"} if number % 2 else None)
        source = {"name": "O", **config}
        made = {"mirror": source} if kind == "mirror" else {"sources": [source], "subjects": ["own"]}
        play.say(play.quiet("STREAM.CREATE.S", {"name": "S", **made})["config"])
        _has(play, "S", count)
        play.read()
        _described(play, "S")
        play.publish("o.1", "after")
        _has(play, "S", count + 1)
        play.publish("own" if kind == "sources" else "o.1", "own")
        _has(play, "S", count + 2)
        play.state()

    return act


for _kind in ("mirror", "sources"):
    for _name, (_config, _count) in ORIGINS.items():
        SCENARIOS.row(f"{_kind} of {_name}", _copied(_kind, _config, _count))


@SCENARIOS.add
def two_sources(play: Play) -> None:
    for name in "AB":
        play.stream(name, [f"{name}.>"])
        for number in range(3):
            play.publish(f"{name}.x", str(number))
    play.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "A"}, {"name": "B"}]})
    _has(play, "S", 6)
    play.state(subjects_filter=">")


@SCENARIOS.add
def mirror_of_what_comes_later(play: Play) -> None:
    play.api("STREAM.CREATE.S", {"name": "S", "mirror": {"name": "O"}})
    play.state()
    play.api("STREAM.CREATE.T", {"name": "T", "sources": [{"name": "O"}]})
    play.state("T")


@SCENARIOS.add
def mirror_keeps_gaps(play: Play) -> None:
    play.stream("O", ["o.>"])
    play.fill(5, "o.a")
    for sequence in (2, 4):
        play.api("STREAM.MSG.DELETE.O", {"seq": sequence})
    play.api("STREAM.CREATE.S", {"name": "S", "mirror": {"name": "O"}, "mirror_direct": True})
    _has(play, "S", 3)
    play.state(deleted_details=True)


MIRRORS: Final[dict[str, dict[str, Any]]] = {
    "KEPT": {},
    "ROLLED": {"allow_rollup_hdrs": True},
    "NAMED": {"subject_transform": {"src": "o.*", "dest": "t.$1"}},
    "NOBODY": {"retention": "interest"},
    "LIVING": {"allow_msg_ttl": True},
    "SMALL": {"max_msg_size": 20},
}


@SCENARIOS.add
def mirrors_with_rules_of_their_own(play: Play) -> None:
    play.stream("O", ["o.>"], allow_rollup_hdrs=True, allow_msg_ttl=True)
    for name, rules in MIRRORS.items():
        play.quiet(f"STREAM.CREATE.{name}", {"name": name, "mirror": {"name": "O"}, **rules})
    for number, fields in enumerate(({}, {"Nats-TTL": "1s"}, {}, {"Nats-Rollup": "sub"}), 1):
        play.publish("o.b" if number == 2 else "o.a", str(number), fields)
        for name in MIRRORS:
            if name != "SMALL" or number < 2:
                play.until(lambda info, n=number: info["state"]["last_seq"] == n, f"STREAM.INFO.{name}")
    play.until(lambda info: info["state"]["messages"] == 1, "STREAM.INFO.O")
    play.until(lambda info: info["state"]["messages"] == 3, "STREAM.INFO.LIVING")
    for name in MIRRORS:
        play.state(name, subjects_filter=">", deleted_details=True)


@SCENARIOS.add
def mirror_is_promoted(play: Play) -> None:
    play.stream("O", ["o.>"])
    play.fill(2, "o.a")
    play.api("STREAM.CREATE.S", {"name": "S", "mirror": {"name": "O"}})
    _has(play, "S", 2)
    play.api("STREAM.DELETE.O")
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["o.>"]})
    play.publish("o.a", "own")
    play.state()


@SCENARIOS.add
def sources_in_a_circle(play: Play) -> None:
    play.stream("A", ["a"])
    play.api("STREAM.CREATE.B", {"name": "B", "subjects": ["b"], "sources": [{"name": "A"}]})
    play.api("STREAM.UPDATE.A", {"name": "A", "subjects": ["a"], "sources": [{"name": "B"}]})


INCREMENTS: Final = ("1", "+2", "-3", "0", "x", "", "1.5", "+", "99999999999999999999999999", "-1")


@SCENARIOS.add
def counters(play: Play) -> None:
    play.stream("S", ["s.>"], allow_msg_counter=True, allow_direct=True)
    for increment in INCREMENTS:
        play.publish("s.a", "", {"Nats-Incr": increment})
    play.publish("s.a", "body", {"Nats-Incr": "1"})
    play.publish("s.a", "")
    play.publish("s.b", "", {"Nats-Incr": "5"})
    play.publish("s.b", "", {"Nats-Incr": "5", "Nats-Msg-Id": "x"})
    play.publish("s.b", "", {"Nats-Incr": "5", "Nats-Msg-Id": "x"})
    play.publish("s.b", "", {"Nats-Incr": "5", "Nats-Expected-Last-Subject-Sequence": "1"})
    play.publish("s.b", "", {"Nats-Incr": "5", "Nats-Rollup": "sub"})
    play.publish("s.b", "", {"Nats-Incr": "5", "A": "b"})
    play.read()
    play.say(shown(play.wire.request("$JS.API.DIRECT.GET.S.s.a")))


@SCENARIOS.add
def counters_from_two_places(play: Play) -> None:
    for name in "AB":
        play.stream(name, [f"{name}.>"], allow_msg_counter=True)
        play.publish(f"{name}.x", "", {"Nats-Incr": "3"})
        play.publish(f"{name}.x", "", {"Nats-Incr": "4"})
    sources = [{"name": name, "subject_transforms": [{"src": f"{name}.>", "dest": "sum.>"}]} for name in "AB"]
    play.api("STREAM.CREATE.S", {"name": "S", "sources": sources, "allow_msg_counter": True})
    _has(play, "S", 4)
    answer = play.quiet("STREAM.MSG.GET.S", {"last_by_subj": "sum.x"})
    play.say(answer["message"]["data"])


def _batch(name: str, number: int, commit: str = "", **more: str) -> dict[str, str]:
    fields = {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(number)}
    return fields | ({"Nats-Batch-Commit": commit} if commit else {}) | more


def _batched(play: Play, subject: str, payload: str, fields: dict[str, str]) -> None:
    play.say("batch", fields, shown(play.wire.request(subject, payload, fields)))


@SCENARIOS.add
def batches(play: Play) -> None:
    play.stream("S", ["s.>"], allow_atomic=True)
    for number in (1, 2):
        _batched(play, "s.a", str(number), _batch("one", number))
    play.state()
    _batched(play, "s.a", "3", _batch("one", 3, "1"))
    play.state()
    _batched(play, "s.a", "1", _batch("alone", 1, "1"))
    _batched(play, "s.a", "1", _batch("end", 1))
    _batched(play, "s.a", "", _batch("end", 2, "eob"))
    play.read()


@SCENARIOS.add
def batches_that_are_wrong(play: Play) -> None:
    play.stream("S", ["s.>"], allow_atomic=True)
    _batched(play, "s.a", "x", _batch("gap", 1))
    _batched(play, "s.a", "x", _batch("gap", 3))
    _batched(play, "s.a", "x", _batch("gap", 4, "1"))
    _batched(play, "s.a", "x", _batch("late", 2))
    _batched(play, "s.a", "x", _batch("x" * 65, 1))
    _batched(play, "s.a", "x", _batch("word", 1, "yes"))
    _batched(play, "s.a", "x", {"Nats-Batch-Id": "none"})
    _batched(play, "s.a", "x", {"Nats-Batch-Id": "text", "Nats-Batch-Sequence": "x"})
    _batched(play, "s.a", "x", {"Nats-Batch-Sequence": "1"})
    _batched(play, "s.a", "x", _batch("ids", 1, **{"Nats-Msg-Id": "a"}))
    _batched(play, "s.a", "x", _batch("ids", 2, "1", **{"Nats-Msg-Id": "a"}))
    _batched(play, "s.a", "x", _batch("last", 1, **{"Nats-Expected-Last-Msg-Id": "a"}))
    _batched(play, "s.a", "x", _batch("last", 2, "1"))
    _batched(play, "s.a", "x", _batch("seq", 1, **{"Nats-Expected-Last-Sequence": "9"}))
    _batched(play, "s.a", "x", _batch("seq", 2, "1"))
    _batched(play, "s.a", "x", _batch("sub", 1, **{"Nats-Expected-Last-Subject-Sequence": "9"}))
    _batched(play, "s.a", "x", _batch("sub", 2, "1"))
    _batched(play, "s.a", "x", _batch("roll", 1, "1", **{"Nats-Rollup": "all"}))
    play.state()


@SCENARIOS.add
def batch_with_expectations(play: Play) -> None:
    play.stream("S", ["s.>"], allow_atomic=True, allow_rollup_hdrs=True)
    play.publish("s.a", "0")
    _batched(play, "s.a", "1", _batch("b", 1, **{"Nats-Expected-Last-Sequence": "1"}))
    _batched(play, "s.b", "2", _batch("b", 2, **{"Nats-Expected-Last-Subject-Sequence": "0"}))
    _batched(play, "s.c", "3", _batch("b", 3, "1", **{"Nats-Msg-Id": "id"}))
    play.read()
    play.publish("s.a", "x", {"Nats-Msg-Id": "id"})


@SCENARIOS.add
def schedules(play: Play) -> None:
    play.stream("S", ["s.>"], allow_msg_schedules=True, allow_msg_ttl=True, allow_direct=True)
    target = {"Nats-Schedule-Target": "s.t"}
    for schedule in (
        "@at 2090-01-01T00:00:00Z", "@every 1h", "@every 500ms", "@every x", "@hourly", "@daily", "@never",
        "0 0 12 * * *", "0 0 12 * *", "* * * * * *", "61 * * * * *", "", "@at tomorrow", "0 0 0 31 2 *",
        "0 */15 9-17 * * MON-FRI",
    ):  # fmt: skip
        play.publish("s.schedule", "x", {"Nats-Schedule": schedule, **target})
    hourly = {"Nats-Schedule": "@hourly"}
    for fields in (
        {}, {"Nats-Schedule-Target": "t.x"}, {"Nats-Schedule-Target": "s.*"},
        {"Nats-Schedule-Target": "s.schedule"}, {**target, "Nats-Schedule-TTL": "5m"},
        {**target, "Nats-Schedule-TTL": "x"}, {**target, "Nats-Schedule-Time-Zone": "Europe/Berlin"},
        {**target, "Nats-Schedule-Time-Zone": "Nowhere/Land"}, {**target, "Nats-Schedule-Source": "s.from"},
        {**target, "Nats-Schedule-Source": "s.*"}, {**target, "Nats-Schedule-Rollup": "sub"},
        {**target, "Nats-Schedule-Rollup": "all"}, {**target, "Nats-Rollup": "sub"},
    ):  # fmt: skip
        play.publish("s.schedule", "x", {**hourly, **fields})
    play.read()


@SCENARIOS.add
def schedule_that_comes_due(play: Play) -> None:
    play.stream("S", ["s.>"], allow_msg_schedules=True, allow_msg_ttl=True)
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, filter_subject="s.t", ack_policy="none")
    past = {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "s.t", "A": "b"}
    play.publish("s.once", "x", past)
    play.take(sid, 1)
    play.until(lambda info: info["state"]["messages"] == 1)
    play.publish("s.again", "y", {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": "s.t"})
    play.take(sid, 1)


@SCENARIOS.add
def fast_ingest(play: Play) -> None:
    play.stream("S", ["s.>"], allow_batched=True)
    sid = play.wire.subscribe("in.fast.>")

    def send(number: int, operation: int, payload: str = "x", gap: str = "fail", flow: int = 10) -> None:
        play.wire.publish("s.a", payload, reply=f"in.fast.one.{flow}.{gap}.{number}.{operation}.$FI")

    send(1, 0)
    play.take(sid, 1)
    for number in range(2, 11):
        send(number, 1)
    send(11, 2)
    play.wire.quiet(QUIET)
    for message in play.wire.taken(sid):
        play.say("got", shown(message))
    play.state()
    send(5, 1)
    play.wire.quiet(QUIET)
    for message in play.wire.taken(sid):
        play.say("got", shown(message))


@SCENARIOS.add
def snapshot_of_a_stream(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(5)
    play.consumer()
    sid = play.wire.subscribe("in.snapshot")
    answer = play.quiet("STREAM.SNAPSHOT.S", {"deliver_subject": "in.snapshot", "chunk_size": 65536})
    play.say({name: answer.get(name) for name in ("type", "config", "state", "error")})
    data = b""
    while True:
        message = play.wire.next(sid)
        if not message.payload:
            play.say(shown(message))
            break
        data += message.payload
        if message.reply:
            play.wire.publish(message.reply)
    play.say("data", len(data) > 100)
    for request in (None, {}, {"deliver_subject": ""}, {"deliver_subject": "in.*"}, b"{"):
        play.api("STREAM.SNAPSHOT.S", request)


@SCENARIOS.add
def restore_of_what_is_there(play: Play) -> None:
    play.stream("S", ["s.>"])
    for request in (None, {}, {"config": {"name": "S", "subjects": ["s.>"]}, "state": {}}, b"{"):
        play.api("STREAM.RESTORE.S", request)
    play.api("STREAM.RESTORE.T", {"config": {"name": "U"}, "state": {}})


@SCENARIOS.add
def ages_of_subjects(play: Play) -> None:
    """The life of a message that says so itself is not that of its stream."""
    play.stream("S", ["s.>"], allow_msg_ttl=True, max_age=3600 * SECOND)
    play.publish("s.a", "1", {"Nats-TTL": "1s"})
    play.publish("s.b", "2", {"Nats-TTL": "1h"})
    play.until(lambda info: info["state"]["messages"] == 1)
    play.state()


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_newer_feature(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
