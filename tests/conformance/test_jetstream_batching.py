"""Batches, fast ingest, origins and backups in their finer points, as the Go server has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import SECOND, USERS, Play, Scenario, Scenarios, compare, shown
from harness.jetstream import JetStreamWire

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()

EVERYTHING: Final[dict[str, Any]] = {
    "allow_atomic": True,
    "allow_rollup_hdrs": True,
    "allow_msg_ttl": True,
    "allow_msg_schedules": True,
}


def _batch(play: Play, *messages: tuple[str, dict[str, str]], name: str = "b", commit: str = "1") -> None:
    """A batch whose last message commits it, and every answer."""
    for number, (subject, fields) in enumerate(messages, 1):
        lines = {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(number), **fields}
        if number == len(messages):
            lines["Nats-Batch-Commit"] = commit
        play.say("batch", number, shown(play.wire.request(subject, str(number), lines)))


SEQUENCE: Final = "Nats-Expected-Last-Sequence"
OF_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence"
SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
TARGET: Final = "Nats-Schedule-Target"

COMMITS: Final[dict[str, list[tuple[str, dict[str, str]]]]] = {
    "plain": [("s.a", {}), ("s.b", {}), ("s.a", {})],
    "with the sequence before it": [("s.a", {SEQUENCE: "2"}), ("s.a", {})],
    "with a wrong sequence": [("s.a", {SEQUENCE: "1"}), ("s.a", {})],
    "with a sequence in its middle": [("s.a", {}), ("s.a", {SEQUENCE: "3"})],
    "with a wrong one in its middle": [("s.a", {}), ("s.a", {SEQUENCE: "2"})],
    "with a subject's sequence": [("s.y", {OF_SUBJECT: "2"}), ("s.x", {OF_SUBJECT: "1"})],
    "with a subject's twice": [("s.y", {OF_SUBJECT: "2"}), ("s.y", {OF_SUBJECT: "3"})],
    "with another subject's twice": [
        ("s.a", {OF_SUBJECT: "1", SUBJECT: "s.x"}),
        ("s.b", {OF_SUBJECT: "1", SUBJECT: "s.x"}),
    ],
    "with another subject's and other numbers": [
        ("s.a", {OF_SUBJECT: "1", SUBJECT: "s.x"}),
        ("s.b", {OF_SUBJECT: "2", SUBJECT: "s.x"}),
    ],
    "with a subject without a number": [("s.a", {SUBJECT: "s.x"})],
    "with a number that is none": [("s.a", {OF_SUBJECT: "x"})],
    "with an ID twice": [("s.a", {"Nats-Msg-Id": "1"}), ("s.b", {"Nats-Msg-Id": "1"})],
    "with an ID that was there": [("s.a", {"Nats-Msg-Id": "known"})],
    "with new IDs": [("s.a", {"Nats-Msg-Id": "1"}), ("s.b", {"Nats-Msg-Id": "2"})],
    "that rolls up a subject first": [("s.x", {"Nats-Rollup": "sub"}), ("s.x", {})],
    "that rolls up a subject later": [("s.x", {}), ("s.x", {"Nats-Rollup": "sub"})],
    "that rolls up everything first": [("s.a", {"Nats-Rollup": "all"}), ("s.b", {})],
    "that rolls up everything later": [("s.a", {}), ("s.b", {"Nats-Rollup": "all"})],
    "that rolls up nonsense": [("s.a", {"Nats-Rollup": "some"})],
    "with lives": [("s.a", {"Nats-TTL": "1h"}), ("s.b", {"Nats-TTL": "never"})],
    "with a wrong life": [("s.a", {"Nats-TTL": "soon"})],
    "of another stream": [("s.a", {"Nats-Expected-Stream": "T"})],
    "with the last ID": [("s.a", {"Nats-Expected-Last-Msg-Id": "known"})],
    "with a source": [("s.a", {"Nats-Stream-Source": "O 1 > >"})],
    "with an increment": [("s.a", {"Nats-Incr": "1"})],
    "with a schedule": [("s.s", {"Nats-Schedule": "@every 1h", TARGET: "s.t"}), ("s.a", {})],
    "with a schedule to itself": [("s.s", {"Nats-Schedule": "@every 1h", TARGET: "s.s"})],
    "that ends its own schedule": [
        ("s.s", {"Nats-Schedule": "@every 1h", TARGET: "s.t"}),
        ("s.a", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.s"}),
    ],
    "that ends what is no schedule": [
        ("s.s", {}),
        ("s.a", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.s"}),
    ],
    "that needs a later API": [("s.a", {"Nats-Required-Api-Level": "99"})],
    "that needs this API": [("s.a", {"Nats-Required-Api-Level": "2"}), ("s.a", {})],
}


def _committed(messages: list[tuple[str, dict[str, str]]], commit: str) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream(**EVERYTHING)
        sid = play.listen("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>")
        play.publish("s.x", "x", {"Nats-Msg-Id": "known"})
        play.publish("s.y", "y")
        given = [*messages, ("s.end", {})] if commit == "eob" else messages
        _batch(play, *given, commit=commit)
        play.read()
        play.state(subjects_filter=">")
        play.wire.sync()
        for message in play.wire.taken(sid):
            play.say("event", shown(message))

    return act


for _name, _messages in COMMITS.items():
    SCENARIOS.row(f"batch {_name}", _committed(_messages, "1"))
    SCENARIOS.row(f"batch {_name}, and an end", _committed(_messages, "eob"))


@SCENARIOS.add
def batches_that_are_abandoned(play: Play) -> None:
    play.stream(allow_atomic=True)
    sid = play.listen("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>")
    for fields in (
        {"Nats-Batch-Id": "a", "Nats-Batch-Sequence": "1"},
        {"Nats-Batch-Id": "a", "Nats-Batch-Sequence": "3"},
        {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "eob"},
        {"Nats-Batch-Id": "c", "Nats-Batch-Sequence": "1", "Nats-Required-Api-Level": "99"},
        {"Nats-Batch-Id": "d", "Nats-Batch-Sequence": "1"},
        {"Nats-Batch-Id": "d", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "x"},
        {"Nats-Batch-Id": "d", "Nats-Batch-Sequence": "0"},
        {"Nats-Batch-Id": "d", "Nats-Batch-Sequence": "1001"},
        {"Nats-Batch-Id": "d", "Nats-Batch-Sequence": "1002", "Nats-Batch-Commit": "eob"},
        {"Nats-Batch-Id": "d", "Nats-Batch-Sequence": "-1"},
        {"Nats-Batch-Id": "", "Nats-Batch-Sequence": "1"},
    ):
        play.say("batch", fields, shown(play.wire.request("s.a", "x", fields)))
    play.events(sid, 3)
    play.state()


@SCENARIOS.add
def a_batch_that_is_too_large(play: Play) -> None:
    play.stream(allow_atomic=True)
    sid = play.listen("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>")
    for number in range(1, 1001):
        play.wire.publish("s.a", "", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(number)})
    last = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1001", "Nats-Batch-Commit": "1"}
    play.say(shown(play.wire.request("s.a", "", last)))
    play.events(sid, 1)
    play.state()


@SCENARIOS.add
def batches_where_they_are_not_allowed(play: Play) -> None:
    play.stream()
    _batch(play, ("s.a", {}), ("s.a", {}))
    play.stream("T", ["t.>"], allow_atomic=True, max_msg_size=100)
    play.say(shown(play.wire.request("t.a", "x" * 200, {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})))
    play.api("STREAM.UPDATE.T", {"name": "T", "subjects": ["t.>"], "allow_atomic": True, "sealed": True})
    _batch(play, ("t.a", {}))


@SCENARIOS.add
def batches_under_limits(play: Play) -> None:
    play.stream(allow_atomic=True, max_msgs=3, discard="new")
    _batch(play, ("s.a", {}), ("s.a", {}), ("s.a", {}), ("s.a", {}))
    _batch(play, ("s.a", {}), ("s.a", {}), ("s.a", {}))
    _batch(play, ("s.a", {}))
    play.read()
    play.stream("T", ["t.>"], allow_atomic=True, max_msgs=2)
    _batch(play, ("t.a", {}), ("t.b", {}), ("t.c", {}))
    play.state("T")
    play.stream(
        "U", ["u.>"], allow_atomic=True, max_msgs_per_subject=1, discard="new", discard_new_per_subject=True
    )
    _batch(play, ("u.a", {}), ("u.a", {}))
    _batch(play, ("u.a", {}), ("u.b", {}))
    _batch(play, ("u.a", {}))
    play.state("U")


@SCENARIOS.add
def batches_of_counters(play: Play) -> None:
    play.stream(allow_atomic=True, allow_msg_counter=True)
    _increments(play, "1", "2", "x")
    _increments(play, "1", "2", "")
    _increments(play, "1", "+20", "-3")
    play.read()


def _increments(play: Play, *increments: str) -> None:
    for number, text in enumerate(increments, 1):
        fields = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(number), "Nats-Incr": text}
        if number == len(increments):
            fields["Nats-Batch-Commit"] = "1"
        play.say("increment", text, shown(play.wire.request("s.a", "", fields)))


# -- fast ingest ---------------------------------------------------------------------------------------

Sent = tuple[int, int, dict[str, str]]
"""Number, operation and headers."""

FAST: Final[dict[str, list[Sent]]] = {
    "one message": [(1, 2, {})],
    "a start, and an end": [(1, 0, {}), (2, 3, {})],
    "ten": [(1, 0, {}), *((number, 1, {}) for number in range(2, 10)), (10, 2, {})],
    "a gap": [(1, 0, {}), (2, 1, {}), (5, 1, {}), (6, 2, {})],
    "a repeated one": [(1, 0, {}), (2, 1, {}), (2, 1, {}), (3, 2, {})],
    "a start twice": [(1, 0, {}), (1, 0, {}), (2, 2, {})],
    "no start": [(2, 1, {})],
    "pings": [(1, 0, {}), (1, 4, {}), (2, 1, {}), (2, 4, {}), (7, 4, {}), (8, 1, {}), (9, 2, {})],
    "a ping first": [(1, 4, {}), (2, 1, {}), (3, 2, {})],
    "a wrong first": [(1, 0, {SEQUENCE: "9"}), (2, 1, {}), (3, 2, {})],
    "a wrong one": [(1, 0, {}), (2, 1, {SEQUENCE: "9"}), (3, 1, {}), (4, 2, {})],
    "a wrong last": [(1, 0, {}), (2, 1, {}), (3, 2, {SEQUENCE: "9"})],
    "a right one": [(1, 0, {}), (2, 1, {SEQUENCE: "2"}), (3, 2, {})],
    "duplicates": [
        (1, 0, {}),
        (2, 1, {"Nats-Msg-Id": "known"}),
        (3, 1, {}),
        (4, 2, {"Nats-Msg-Id": "known"}),
    ],
    "a duplicate first": [(1, 0, {"Nats-Msg-Id": "known"}), (2, 1, {}), (3, 2, {})],
    "a duplicate alone": [(1, 2, {"Nats-Msg-Id": "known"})],
    "rollups": [(1, 0, {}), (2, 1, {"Nats-Rollup": "sub"}), (3, 2, {"Nats-Rollup": "all"})],
    "a wrong operation": [(1, 5, {})],
    "an append as the first": [(1, 1, {})],
    "an end as the first": [(1, 3, {})],
    "a later API": [(1, 0, {}), (2, 1, {"Nats-Required-Api-Level": "99"}), (3, 2, {})],
    "more after its end": [(1, 0, {}), (2, 2, {}), (3, 1, {})],
}


def _said(play: Play, sid: int) -> None:
    """Everything that was answered before what is published now.

    Of messages that are stored together, here those of fast ingest are answered last: hence a second one.
    Sorted by their reply subjects: what a disk keeps waiting is answered behind what is refused after it.
    """
    play.publish("s.end")
    play.publish("s.end")
    for message in sorted(play.wire.taken(sid), key=lambda message: message.subject):
        play.say("got", shown(message))


def _fast(messages: list[Sent], mode: str, flow: int) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream(allow_batched=True, allow_rollup_hdrs=True)
        play.publish("s.x", "x", {"Nats-Msg-Id": "known"})
        sid = play.wire.subscribe("in.fast.>")
        for number, operation, fields in messages:
            reply = f"in.fast.u.{flow}.{mode}.{number}.{operation}.$FI"
            play.wire.publish("s.a", str(number), fields or None, reply)
            play.quiet("INFO")
            play.wire.quiet(0.05)  # one after the other, so that none is acknowledged together with the next
        _said(play, sid)
        play.read()

    return act


for _name, _sent in FAST.items():
    for _mode in ("fail", "ok"):
        SCENARIOS.row(f"fast ingest of {_name}, {_mode}", _fast(_sent, _mode, 3))


def _fast_at_once(messages: list[Sent], mode: str, flow: int) -> Callable[[Play], None]:
    """In one write: what a message or an operation is answered goes to its own reply subject all the same."""

    def act(play: Play) -> None:
        play.stream(allow_batched=True, allow_rollup_hdrs=True)
        play.publish("s.x", "x", {"Nats-Msg-Id": "known"})
        sid = play.wire.subscribe("in.fast.>")
        with play.wire.together():
            for place, (number, operation, fields) in enumerate(messages):
                reply = f"in.fast.{place}.u.{flow}.{mode}.{number}.{operation}.$FI"
                play.wire.publish("s.a", str(number), fields or None, reply)
        _said(play, sid)
        play.read()

    return act


AT_ONCE: Final[dict[str, list[Sent]]] = {
    "an end": [(1, 0, {}), (2, 1, {}), (3, 1, {}), (4, 3, {})],
    "an end that is far": [(1, 0, {}), (2, 1, {}), (7, 3, {})],
    "an end and more": [(1, 0, {}), (2, 1, {}), (3, 3, {}), (3, 1, {}), (4, 2, {})],
    "an end behind a duplicate": [(1, 0, {}), (2, 1, {"Nats-Msg-Id": "known"}), (3, 3, {})],
    "an end behind a wrong one": [(1, 0, {}), (2, 1, {SEQUENCE: "9"}), (3, 3, {})],
    "a ping and an end": [(1, 0, {}), (2, 1, {}), (3, 1, {}), (4, 1, {}), (4, 4, {}), (5, 3, {})],
    "a ping that is far": [(1, 0, {}), (2, 1, {}), (3, 1, {}), (9, 4, {}), (10, 1, {}), (11, 3, {})],
    "a ping behind": [(1, 0, {}), (2, 1, {}), (3, 1, {}), (1, 4, {}), (4, 2, {})],
}
for _name, _sent in (FAST | AT_ONCE).items():
    for _mode in ("fail", "ok"):
        SCENARIOS.row(f"fast ingest at once of {_name}, {_mode}", _fast_at_once(_sent, _mode, 3))


@SCENARIOS.add
def fast_ingest_where_it_is_not_allowed(play: Play) -> None:
    play.stream()
    sid = play.wire.subscribe("in.>")
    for reply in ("in.u.10.fail.1.0.$FI", "in.$FI", "in.u.10.fail.1.0", "in.u.x.ok.1.0.$FI"):
        play.wire.publish("s.a", "x", reply=reply)
        _said(play, sid)
    play.state()


@SCENARIOS.add
def fast_ingest_with_wrong_replies(play: Play) -> None:
    play.stream(allow_batched=True)
    sid = play.wire.subscribe("in.>")
    for reply in (
        "in.u.10.maybe.1.0.$FI", "in.u.0.fail.1.2.$FI", "in.v.-1.ok.1.2.$FI", "in.w.99999999.ok.1.0.$FI",
        "in.u.1.fail.x.0.$FI", "in.u.1.fail.0.0.$FI", "in.u.1.fail.1.x.$FI", "in.$FI", "in.1.0.$FI",
        "in.u.1.fail.18446744073709551615.1.$FI", f"in.{'x' * 65}.1.fail.1.0.$FI",
    ):  # fmt: skip
        play.wire.publish("s.a", "x", reply=reply)
        _said(play, sid)
    play.state()


@SCENARIOS.add
def fast_ingest_of_much(play: Play) -> None:
    """How often is acknowledged may differ with the pace; how it ends may not."""
    play.stream(allow_batched=True)
    sid = play.wire.subscribe("in.fast.>")
    for number in range(1, 3001):
        operation = 0 if number == 1 else 2 if number == 3000 else 1
        play.wire.publish("s.a", str(number), reply=f"in.fast.u.100.fail.{number}.{operation}.$FI")
    while b'"batch"' not in (message := play.wire.next(sid)).payload:
        assert message.payload.startswith(b'{"type":"ack"'), message
    play.say("got", shown(message))
    play.state()


# -- origins -------------------------------------------------------------------------------------------


def _has(play: Play, stream: str, messages: int) -> None:
    play.until(lambda info: info["state"]["messages"] == messages, f"STREAM.INFO.{stream}")


@SCENARIOS.add
def a_work_queue_as_an_origin(play: Play) -> None:
    play.stream("O", ["o.>"], retention="workqueue")
    play.fill(3, "o.a")
    play.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
    _has(play, "S", 3)
    _has(play, "O", 0)
    play.publish("o.b", "later")
    _has(play, "S", 4)
    _has(play, "O", 0)
    play.state("O")
    play.api("CONSUMER.NAMES.O")


@SCENARIOS.add
def an_origin_by_interest(play: Play) -> None:
    play.stream("O", ["o.>"], retention="interest")
    play.consumer("C", "O")
    play.fill(2, "o.a")
    play.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
    _has(play, "S", 2)
    play.state("O")
    for message in play.pull({"batch": 2, "no_wait": True}, 2, stream="O"):
        play.ack(message)
    _has(play, "O", 0)


@SCENARIOS.add
def what_a_mirror_does_not_take(play: Play) -> None:
    play.stream("O", ["o.>"])
    play.api("STREAM.CREATE.S", {"name": "S", "mirror": {"name": "O"}})
    play.unanswered("S", "x")
    for config in (
        {"mirror": {"name": "O"}, "subjects": ["x"]},
        {"mirror": {"name": "O"}, "sources": [{"name": "O"}]},
        {"mirror": {"name": "O", "opt_start_seq": 1, "opt_start_time": "2020-01-01T00:00:00Z"}},
        {"mirror": {"name": "O"}, "first_seq": 5},
        {"mirror": {"name": "O"}, "allow_msg_counter": True},
        {"mirror": {"name": "O"}, "allow_atomic": True},
        {"mirror": {"name": "O"}, "allow_batched": True},
        {"mirror": {"name": "O"}, "allow_msg_schedules": True},
        {"mirror": {"name": ""}},
        {"sources": [{"name": "O"}, {"name": "O"}]},
        {"sources": [{"name": "O"}, {"name": "O", "filter_subject": "o.a"}]},
        {"sources": [{"name": "O", "subject_transforms": [{"src": "o.*", "dest": "x.{{wildcard(2)}}"}]}]},
        {"sources": [{"name": "O"}], "allow_msg_schedules": True},
    ):
        play.api("STREAM.CREATE.T", {"name": "T", **config})


@SCENARIOS.add
def two_filters_of_one_origin(play: Play) -> None:
    play.stream("O", ["o.>"])
    sources = [{"name": "O", "filter_subject": "o.a"}, {"name": "O", "filter_subject": "o.b"}]
    play.api("STREAM.CREATE.S", {"name": "S", "sources": sources})
    play.fill(2, "o.a")
    play.fill(2, "o.b")
    play.fill(2, "o.c")
    _has(play, "S", 4)
    info = play.quiet("STREAM.INFO.S")
    play.say(info["sources"])


@SCENARIOS.add
def a_mirror_with_limits(play: Play) -> None:
    play.stream("O", ["o.>"], max_msgs=3)
    play.fill(5, "o.a")
    play.api("STREAM.CREATE.S", {"name": "S", "mirror": {"name": "O"}, "max_msgs": 2})
    _has(play, "S", 2)
    play.state()
    play.fill(1, "o.b")
    play.until(lambda info: info["state"]["last_seq"] == 6)
    play.read()
    play.state()


@SCENARIOS.add
def headers_of_what_is_taken(play: Play) -> None:
    play.stream("O", ["o.>"], allow_atomic=True, allow_rollup_hdrs=True, allow_msg_ttl=True)
    play.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
    play.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    for name, key in (("S", "sources"), ("M", "mirror")):
        play.until(lambda info, key=key: '"active": -1' not in json.dumps(info[key]), f"STREAM.INFO.{name}")
    fields = {"Nats-Expected-Stream": "O", "A": "1", "Nats-Msg-Id": "m", "Nats-TTL": "1h"}
    play.publish("o.a", "x", fields)
    last = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    play.say(play.wire.request("o.b", "y", last).json())
    play.publish("o.a", "z", {"Nats-Rollup": "sub"})
    for name in "SM":
        play.until(lambda info: info["state"]["last_seq"] >= 3, f"STREAM.INFO.{name}")
        play.read(name)


# -- backups -------------------------------------------------------------------------------------------


def _taken(wire: JetStreamWire, stream: str, **asked: Any) -> tuple[Any, bytes]:
    """A backup as a client takes it: what it is told of the stream, and the data."""
    sid = wire.subscribe("in.backup")
    answer = wire.api(f"STREAM.SNAPSHOT.{stream}", {"deliver_subject": "in.backup", **asked})
    assert "error" not in answer, answer
    data = b""
    while (message := wire.next(sid)).payload:
        data += message.payload
        if message.reply:
            wire.publish(message.reply)
    wire.unsubscribe(sid)
    return {"config": answer["config"], "state": answer["state"]}, data


def _given(wire: JetStreamWire, stream: str, told: Any, data: bytes) -> Any:
    """As tools do: `told` is sent back whole."""
    answer = wire.api(f"STREAM.RESTORE.{stream}", told)
    assert "error" not in answer, answer
    subject = answer["deliver_subject"]
    for start in range(0, len(data), 50_000):
        said = wire.request(subject, data[start : start + 50_000])
        assert said.payload == b"", said
    return wire.request(subject).json()


def _everything(wire: JetStreamWire, stream: str) -> list[Any]:
    info = wire.api(f"STREAM.INFO.{stream}", {"deleted_details": True})
    # The last message is gone, and with it when it was stored.
    found: list[Any] = [{name: held for name, held in info["state"].items() if name != "last_ts"}]
    for sequence in range(info["state"]["first_seq"], info["state"]["last_seq"] + 1):
        found.append(wire.api(f"STREAM.MSG.GET.{stream}", {"seq": sequence}))
    for name in wire.api(f"CONSUMER.NAMES.{stream}")["consumers"]:
        consumer = wire.api(f"CONSUMER.INFO.{stream}.{name}")
        places = [consumer[place].get("stream_seq") for place in ("delivered", "ack_floor")]
        numbers = [consumer[number] for number in ("num_ack_pending", "num_pending", "num_redelivered")]
        found.append([name, places, numbers, consumer["config"]])
    return found


@pytest.mark.parametrize("asked", [{"chunk_size": 4096}, {}], ids=["small chunks", "one chunk"])
@pytest.mark.parametrize("target", [0, 1], ids=["to the Go server", "to Headrace"])
@pytest.mark.parametrize("origin", [0, 1], ids=["from the Go server", "from Headrace"])
def test_backups_are_exchanged(
    origin: int, target: int, asked: dict[str, int], jetstream_pair: tuple[ServerProcess, ServerProcess]
) -> None:
    """A stream with gaps, headers and consumers is the same on the other server, and on its own again."""
    user = USERS[0]
    with (
        JetStreamWire(jetstream_pair[origin], inbox="_INBOX.a", **user) as wire,
        JetStreamWire(jetstream_pair[target], inbox="_INBOX.b", **user) as other,
    ):
        config = {"name": "BACKUP", "subjects": ["backup.>"], "max_age": 3600 * SECOND}
        wire.api("STREAM.CREATE.BACKUP", config)
        for number in range(300):
            fields = {"N": str(number), "Nats-Msg-Id": str(number)} if number % 3 else None
            wire.stored(f"backup.{number % 7}", f"payload {number} " * (number % 40), fields)
        for gone in (1, 2, 150, 300):
            wire.api("STREAM.MSG.DELETE.BACKUP", {"seq": gone})
        for name in ("idle", "busy"):
            request = {"stream_name": "BACKUP", "config": {"durable_name": name, "ack_policy": "explicit"}}
            wire.api(f"CONSUMER.DURABLE.CREATE.BACKUP.{name}", request)
        sid = wire.subscribe("in.pull")
        wire.publish("$JS.API.CONSUMER.MSG.NEXT.BACKUP.busy", {"batch": 10}, reply="in.pull")
        for number, message in enumerate(wire.take(sid, 10)):
            if number % 3 != 1:
                wire.request(message.reply, "+ACK")
        told, data = _taken(wire, "BACKUP", **asked)
        assert {"first_ts", "last_ts"} <= told["state"].keys()
        before = _everything(wire, "BACKUP")
        if origin == target:
            wire.api("STREAM.DELETE.BACKUP")
        try:
            answer = _given(other, "BACKUP", told, data)
            assert "error" not in answer, answer
            assert _everything(other, "BACKUP") == before
        finally:
            for one in (wire, other):
                one.api("STREAM.DELETE.BACKUP")


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_finer_points(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
