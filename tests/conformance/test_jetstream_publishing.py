"""What a publication to a stream is answered, and what is stored of it, as the Go server does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import MS, SECOND, Play, Scenario, Scenarios, compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()

ID: Final = "Nats-Msg-Id"
STREAM: Final = "Nats-Expected-Stream"
LAST_ID: Final = "Nats-Expected-Last-Msg-Id"
LAST: Final = "Nats-Expected-Last-Sequence"
LAST_OF_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence"
WHICH_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
ROLLUP: Final = "Nats-Rollup"
TTL: Final = "Nats-TTL"

HEADERS: Final[dict[str, tuple[str, dict[str, str] | bytes]]] = {
    "none of ours": ("s.a", {"A": "b", "Nats": "x", "Natsy-Msg-Id": "y"}),
    "the same header twice": ("s.a", b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"),
    "a value without a space": ("s.a", b"NATS/1.0\r\nNats-Msg-Id:one\r\n\r\n"),
    "an empty id": ("s.a", {ID: ""}),
    "an id in lower case": ("s.a", {"nats-msg-id": "one"}),
    "a known id": ("s.a", {ID: "one"}),
    "a new id": ("s.a", {ID: "new"}),
    "an id and a wrong last sequence": ("s.a", {ID: "one", LAST: "9"}),
    "the stream": ("s.a", {STREAM: "S"}),
    "another stream": ("s.a", {STREAM: "T"}),
    "the last id": ("s.a", {LAST_ID: "two"}),
    "another last id": ("s.a", {LAST_ID: "one"}),
    "an unknown last id": ("s.a", {LAST_ID: "nine"}),
    "an empty last id": ("s.a", {LAST_ID: ""}),
    "the last sequence": ("s.a", {LAST: "4"}),
    "an older last sequence": ("s.a", {LAST: "3"}),
    "a zero last sequence": ("s.a", {LAST: "0"}),
    "a last sequence that is none": ("s.a", {LAST: "x"}),
    "a negative last sequence": ("s.a", {LAST: "-1"}),
    "an empty last sequence": ("s.a", {LAST: ""}),
    "the subject's last": ("s.a", {LAST_OF_SUBJECT: "3"}),
    "the subject's last, wrong": ("s.a", {LAST_OF_SUBJECT: "1"}),
    "the subject's last, too late": ("s.a", {LAST_OF_SUBJECT: "4"}),
    "the subject is there": ("s.a", {LAST_OF_SUBJECT: "0"}),
    "the subject is not there": ("s.new", {LAST_OF_SUBJECT: "0"}),
    "the subject is not there yet": ("s.new", {LAST_OF_SUBJECT: "2"}),
    "the subject's last is none": ("s.a", {LAST_OF_SUBJECT: "abc"}),
    "another subject's last": ("s.a", {LAST_OF_SUBJECT: "4", WHICH_SUBJECT: "s.b"}),
    "another subject's last, wrong": ("s.a", {LAST_OF_SUBJECT: "3", WHICH_SUBJECT: "s.b"}),
    "a wildcard's last": ("s.a", {LAST_OF_SUBJECT: "4", WHICH_SUBJECT: "s.*"}),
    "a wildcard's last, wrong": ("s.a", {LAST_OF_SUBJECT: "3", WHICH_SUBJECT: "s.>"}),
    "a bad subject's last": ("s.a", {LAST_OF_SUBJECT: "4", WHICH_SUBJECT: "s..b"}),
    "only a subject to be the last of": ("s.a", {WHICH_SUBJECT: "s.b"}),
    "everything right": ("s.a", {STREAM: "S", LAST_ID: "two", LAST: "4", LAST_OF_SUBJECT: "3", ID: "n"}),
    "sequence and subject wrong": ("s.a", {LAST: "9", LAST_OF_SUBJECT: "9"}),
    "stream and sequence wrong": ("s.a", {STREAM: "T", LAST: "9"}),
    "roll up the subject": ("s.a", {ROLLUP: "sub"}),
    "roll up everything": ("s.a", {ROLLUP: "all"}),
    "roll up in capitals": ("s.a", {ROLLUP: "ALL"}),
    "roll up something": ("s.a", {ROLLUP: "some"}),
    "roll up nothing": ("s.a", {ROLLUP: ""}),
    "ttl": ("s.a", {TTL: "10s"}),
    "ttl in seconds": ("s.a", {TTL: "10"}),
    "ttl never": ("s.a", {TTL: "never"}),
    "ttl of zero": ("s.a", {TTL: "0"}),
    "ttl too short": ("s.a", {TTL: "500ms"}),
    "ttl negative": ("s.a", {TTL: "-1s"}),
    "ttl that is none": ("s.a", {TTL: "soon"}),
    "counter": ("s.a", {"Nats-Incr": "1"}),
    "schedule": ("s.a", {"Nats-Schedule": "@every 5s", "Nats-Schedule-Target": "s.t"}),
    "batch": ("s.a", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"}),
    "required level": ("s.a", {"Nats-Required-Api-Level": "9"}),
    "a stream source": ("s.a", {"Nats-Stream-Source": "X 1 > > s.a"}),
    "not what headers begin with": ("s.a", b"HTTP/1.0\r\nA: b\r\n\r\n"),
    "a status": ("s.a", b"NATS/1.0 503\r\n\r\n"),
    "a broken line": ("s.a", b"NATS/1.0\r\nbroken\r\nNats-Msg-Id: x\r\n\r\n"),
}

KINDS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "in memory": {"storage": "memory"},
    "that allows all": {"allow_rollup_hdrs": True, "allow_msg_ttl": True, "allow_direct": True},
}


def _headed(subject: str, fields: dict[str, str] | bytes, config: dict[str, Any]) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"], **config)
        play.publish("s.a", "1", {ID: "one"})
        play.publish("s.b", "2")
        play.publish("s.a", "3")
        play.publish("s.b", "4", {ID: "two"})
        play.publish(subject, "5", fields)
        play.publish(subject, "6", fields)
        play.read()
        play.state(subjects_filter=">")

    return act


for _kind, _config in KINDS.items():
    for _name, (_subject, _fields) in HEADERS.items():
        SCENARIOS.row(f"{_name} to a stream {_kind}", _headed(_subject, _fields, _config))


@SCENARIOS.add
def no_acks(play: Play) -> None:
    play.stream("S", ["s.>"], no_ack=True)
    play.unanswered("s.a", "x")
    play.unanswered("s.a", "y", {LAST: "9"})
    play.state()


@SCENARIOS.add
def size_limits(play: Play) -> None:
    play.stream("S", ["s.>"], max_msg_size=10)
    for size, fields in ((9, None), (10, None), (11, None), (0, {"A": "b"}), (0, {"A": "b" * 20})):
        play.publish("s.a", "x" * size, fields)
    play.stream("B", ["b.>"], max_bytes=300)
    for size in (100, 100, 100, 400, 10):
        play.publish("b.a", "x" * size)
    play.state("B")


@SCENARIOS.add
def large_headers(play: Play) -> None:
    play.stream("S", ["s.>"])
    for size in (65_000, 65_535, 65_536, 70_000):
        play.publish("s.a", "", {"A": "b" * (size - 17)})
    play.state()


@SCENARIOS.add
def duplicates_after_purge_and_deletion(play: Play) -> None:
    play.stream("S", ["s.>"])
    for number in range(3):
        play.publish("s.a", "x", {ID: f"id{number}"})
    play.api("STREAM.MSG.DELETE.S", {"seq": 2})
    play.publish("s.a", "again", {ID: "id1"})
    play.api("STREAM.PURGE.S")
    for number in range(4):
        play.publish("s.a", "again", {ID: f"id{number}"})
    play.state()


@SCENARIOS.add
def duplicates_in_short_windows(play: Play) -> None:
    play.stream("S", ["s.>"], duplicate_window=200 * MS)
    play.publish("s.a", "x", {ID: "one"})
    play.publish("s.a", "x", {ID: "one"})
    while play.wire.stored("s.a", "y", {ID: "one"}).get("duplicate"):
        pass
    play.state()


@SCENARIOS.add
def duplicate_window_that_is_taken_away(play: Play) -> None:
    play.stream("S", ["s.>"], duplicate_window=5 * SECOND)
    play.publish("s.a", "x", {ID: "one"})
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "duplicate_window": 10 * SECOND})
    play.publish("s.a", "x", {ID: "one"})
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"]})
    play.publish("s.a", "x", {ID: "one"})


@SCENARIOS.add
def interleaved_without_waiting(play: Play) -> None:
    """Publications sent together, conditions among them, take effect in their order."""
    play.stream("S", ["s.>"], allow_rollup_hdrs=True)
    fields: list[dict[str, str] | None] = [None, {LAST: "1"}, {ID: "a"}, {ID: "a"}, {LAST: "2"}, None]
    fields += [{ROLLUP: "sub"}, None, {LAST_OF_SUBJECT: "6"}, {LAST_OF_SUBJECT: "7"}, {LAST_ID: "a"}]
    replies = [play.wire.ask("s.a", str(number), fields) for number, fields in enumerate(fields * 3)]
    for reply in replies:
        play.say(play.wire.answer(reply).json())
    play.read()


@SCENARIOS.add
def rollups(play: Play) -> None:
    play.stream("S", ["s.>"], allow_rollup_hdrs=True)
    play.fill(4, "s.#")
    play.fill(3, "s.1")
    play.publish("s.1", "sub", {ROLLUP: "sub"})
    play.state(subjects_filter=">")
    play.publish("s.3", "expected", {ROLLUP: "sub", LAST_OF_SUBJECT: "3"})
    play.publish("s.3", "not expected", {ROLLUP: "sub", LAST_OF_SUBJECT: "3"})
    play.publish("s.2", "all", {ROLLUP: "all"})
    play.state(subjects_filter=">")
    play.read()


@SCENARIOS.add
def transforms(play: Play) -> None:
    transform = {"src": "s.*.*", "dest": "t.{{wildcard(2)}}.{{wildcard(1)}}"}
    play.stream("S", ["s.>"], subject_transform=transform, allow_direct=True)
    play.publish("s.a.b", "1")
    play.publish("s.a", "2")
    play.publish("s.x.y", "3", {LAST_OF_SUBJECT: "0"})
    play.publish("s.x.y", "4", {LAST_OF_SUBJECT: "0"})
    play.publish("s.x.y", "5", {LAST_OF_SUBJECT: "3"})
    play.state(subjects_filter=">")
    play.read()


@SCENARIOS.add
def republished(play: Play) -> None:
    play.stream("S", ["s.>"], republish={"src": "s.*", "dest": "r.{{wildcard(1)}}.x"})
    play.stream("H", ["h.>"], republish={"src": ">", "dest": "rh.>", "headers_only": True})
    sid = play.wire.subscribe("r.>")
    other = play.wire.subscribe("rh.>")
    play.publish("s.a", "1")
    play.publish("s.b", "2", {"A": "b"})
    play.publish("s.a.c", "no")
    play.publish("s.a", "3", {ID: "x"})
    play.publish("s.a", "3", {ID: "x"})
    play.publish("s.a", "4")
    play.take(sid, 4)
    play.publish("h.a", "1")
    play.publish("h.b", "22", {"A": "b"})
    play.take(other, 2)


@SCENARIOS.add
def sequences_that_begin_later(play: Play) -> None:
    play.stream("S", ["s.>"], first_seq=1000)
    play.state()
    play.publish("s.a", "1", {LAST: "0"})
    play.publish("s.a", "1", {LAST: "999"})
    play.publish("s.a", "1")
    play.state()
    play.api("STREAM.PURGE.S")
    play.state()
    play.publish("s.a", "1")


@SCENARIOS.add
def subjects_with_strange_names(play: Play) -> None:
    play.stream("S", ["s.>"])
    for subject in ("s.ü", "s.$x", "s.a-b_c=d", "s.*", "s.>", "s.a.>"):
        play.publish(subject, "x")
    play.state(subjects_filter=">")
    play.read()


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_publication(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
