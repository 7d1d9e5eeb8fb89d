"""Atomic batches, fast ingest, counters and schedules in a stream, with answers as clients get them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.js_account import SECOND, HeldCommitter, Place
from headrace.errors import StorageError
from headrace.jetstream.limits import BatchLimits, ServerSettings
from headrace.protocol.jetstream import headers as block
from headrace.protocol.rfc3339 import format_time

if TYPE_CHECKING:
    from pathlib import Path


def header(**lines: object) -> bytes:
    return block.added(
        b"", *((name.replace("_", "-").encode(), str(text).encode()) for name, text in lines.items())
    )


def in_batch(number: int, batch: str = "b", **lines: object) -> bytes:
    return header(Nats_Batch_Id=batch, Nats_Batch_Sequence=number, **lines)


def send(place: Place, subject: str, payload: bytes = b"", headers: bytes = b"") -> bytes | None:
    answer = place.raw(subject, payload, headers=headers)
    return None if answer is None else answer.payload


def code(answer: bytes | None) -> int:
    assert answer
    return int(json.loads(answer)["error"]["err_code"])


def held(place: Place, stream: str = "S") -> list[tuple[int, str, bytes]]:
    log = place.account.streams[stream].log
    messages = log.read_from(0, max_messages=100_000).messages
    return [(message.sequence, message.subject.decode(), message.payload) for message in messages]


def atomic(**config: Any) -> Place:
    settings = config.pop("settings", None)
    place = Place(config.pop("directory", None), settings=settings)
    place.stream("S", subjects=["s.>"], allow_atomic=True, **config)
    return place


# -- atomic batches ------------------------------------------------------------------------------------


def test_a_batch_counts_when_it_is_committed() -> None:
    place = atomic()
    assert send(place, "s.a", b"1", in_batch(1)) == b""
    assert send(place, "s.b", b"2", in_batch(2)) == b""
    assert held(place) == []
    assert send(place, "s.c", b"other") == b'{"stream":"S","seq":1}'
    assert json.loads(send(place, "s.a", b"3", in_batch(3, Nats_Batch_Commit=1)) or b"") == {
        "stream": "S", "seq": 4, "batch": "b", "count": 3,
    }  # fmt: skip
    assert held(place) == [(1, "s.c", b"other"), (2, "s.a", b"1"), (3, "s.b", b"2"), (4, "s.a", b"3")]
    assert place.system.batches.atomic == 0


def test_a_batch_that_ends_without_a_message() -> None:
    place = atomic()
    send(place, "s.a", b"1", in_batch(1))
    answer = send(place, "s.z", b"", in_batch(2, Nats_Batch_Commit="eob"))
    assert answer is not None
    assert json.loads(answer) == {"stream": "S", "seq": 1, "batch": "b", "count": 1}
    message = place.account.streams["S"].log.read(1)
    assert message is not None
    assert message.payload == b"1"
    assert block.value(message.headers, b"Nats-Batch-Commit") == b"1"


def test_a_batch_of_one() -> None:
    answer = send(atomic(), "s.a", b"1", in_batch(1, Nats_Batch_Commit=1))
    assert answer is not None
    assert json.loads(answer) == {"stream": "S", "seq": 1, "batch": "b", "count": 1}


def test_its_answer_waits_for_the_disk(tmp_path: Path) -> None:
    committer = HeldCommitter()
    place = Place(committer=committer)
    place.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_atomic": True})
    committer.commit()
    place.host.tick()
    send(place, "s.a", b"1", in_batch(1))
    assert send(place, "s.a", b"2", in_batch(2, Nats_Batch_Commit=1)) is None
    committer.commit()
    place.host.tick()
    (answer,) = [one for one in place.host.sent if one.to == b"_INBOX.ask"]
    assert answer.json()["count"] == 2


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (header(Nats_Batch_Id="b"), 10175),
        (in_batch("x"), 10175),  # type: ignore[arg-type]
        (in_batch(1 << 64), 10175),
        (in_batch(1, batch="x" * 65), 10179),
        (in_batch(2), 10176),
        (in_batch(0), 10176),
        (in_batch(1002), 10199),
        (in_batch(1001, Nats_Batch_Commit="eob"), 10176),
        (in_batch(1, Nats_Batch_Commit="eob"), 10176),
        (in_batch(1, Nats_Batch_Commit="2"), 10200),
        (in_batch(1, Nats_Required_Api_Level=99), 10185),
        (in_batch(1, Nats_Batch_Commit=1, Nats_Expected_Last_Msg_Id="x"), 10177),
        (in_batch(1, Nats_Batch_Commit=1, Nats_Expected_Stream="T"), 10060),
        (in_batch(1, Nats_Batch_Commit=1, Nats_TTL="5s"), 10166),
        (in_batch(1, Nats_Batch_Commit=1, Nats_Stream_Source="x"), 10227),
        (in_batch(1, Nats_Batch_Commit=1, Nats_Incr="1"), 10168),
        (in_batch(1, Nats_Batch_Commit=1, Nats_Expected_Last_Sequence=7), 10071),
        (in_batch(1, Nats_Batch_Commit=1, Nats_Expected_Last_Subject_Sequence=7), 10071),
        (in_batch(1, Nats_Batch_Commit=1, Nats_Expected_Last_Subject_Sequence_Subject="s.a"), 10193),
        (in_batch(1, Nats_Batch_Commit=1, Nats_Rollup="sub"), 10111),
        (in_batch(1, Nats_Batch_Commit=1, Nats_Schedule="@every 5s"), 10188),
    ],
)
def test_what_is_refused(headers: bytes, expected: int) -> None:
    place = atomic()
    assert code(send(place, "s.a", b"", headers)) == expected
    assert held(place) == []
    assert place.system.batches.atomic == 0


def test_streams_that_take_no_batch() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"])
    assert code(send(place, "s.a", b"", in_batch(1))) == 10174
    place = atomic(sealed=False, max_msg_size=10)
    assert code(send(place, "s.a", b"x" * 11, in_batch(1))) == 10054


def test_a_gap_ends_a_batch() -> None:
    place = atomic()
    place.host.heard.add(b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S")
    send(place, "s.a", b"1", in_batch(1))
    assert code(send(place, "s.a", b"3", in_batch(3))) == 10176
    (advisory,) = place.advisories()
    assert advisory["type"] == "io.nats.jetstream.advisory.v1.stream_batch_abandoned"
    assert (advisory["stream"], advisory["batch"], advisory["reason"]) == ("S", "b", "incomplete")
    assert code(send(place, "s.a", b"2", in_batch(2, Nats_Batch_Commit=1))) == 10176
    assert held(place) == []


def test_a_batch_that_is_idle_is_abandoned() -> None:
    place = atomic()
    place.host.heard.add(b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S")
    send(place, "s.a", b"1", in_batch(1))
    place.host.pass_time(9)
    send(place, "s.a", b"2", in_batch(2))
    place.host.pass_time(9)
    assert place.advisories() == []
    assert place.system.batches.atomic == 1
    place.host.pass_time(2)
    (advisory,) = place.advisories()
    assert advisory["reason"] == "timeout"
    assert place.system.batches.atomic == 0


def test_a_batch_may_not_be_too_large() -> None:
    place = atomic()
    place.host.heard.add(b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S")
    for number in range(1, 1001):
        assert send(place, "s.a", b"", in_batch(number)) == b""
    answer = send(place, "s.a", b"", in_batch(1001))
    assert code(answer) == 10199
    assert b"too large: 1000" in (answer or b"")
    (advisory,) = place.advisories()
    assert advisory["reason"] == "large"
    for number in range(1, 1001):
        send(place, "s.a", b"", in_batch(number))
    answer = send(place, "s.a", b"", in_batch(1001, Nats_Batch_Commit="eob"))
    assert answer is not None
    assert json.loads(answer)["count"] == 1000


def test_only_so_many_batches_at_once() -> None:
    limits = BatchLimits(atomic_per_stream=2, atomic_total=3)
    place = atomic(settings=ServerSettings(batches=limits))
    place.stream("T", subjects=["t.>"], allow_atomic=True)
    answers = [send(place, subject, b"", in_batch(1, batch)) for subject, batch in
               [("s.a", "1"), ("s.a", "2"), ("s.a", "3"), ("t.a", "1"), ("t.a", "2")]]  # fmt: skip
    assert [answer and code(answer) for answer in answers] == [b"", b"", 10210, b"", 10210]
    place.ask("STREAM.DELETE.S")
    assert send(place, "t.a", b"", in_batch(1, "2")) == b""
    assert place.system.batches.atomic == 2


def commit(place: Place, *messages: tuple[str, dict[str, object]]) -> bytes | None:
    answer: bytes | None = None
    for number, (subject, lines) in enumerate(messages, 1):
        last = {"Nats_Batch_Commit": 1} if number == len(messages) else {}
        answer = send(place, subject, b"", in_batch(number, **lines, **last))
    return answer


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([("s.a", {"Nats_Msg_Id": "1"}), ("s.a", {"Nats_Msg_Id": "1"})], 10201),
        ([("s.a", {"Nats_Msg_Id": "before"}), ("s.a", {})], 10201),
        ([("s.a", {}), ("s.a", {"Nats_Expected_Last_Sequence": 2})], 10164),
        ([("s.a", {}), ("s.a", {"Nats_Expected_Last_Sequence": 1})], 10071),
        ([("s.a", {}), ("s.a", {"Nats_Expected_Last_Subject_Sequence": 0})], 10164),
        ([("s.a", {}), ("s.b", {"Nats_Rollup": "all"})], 10111),
        ([("s.a", {}), ("s.a", {"Nats_Rollup": "sub"})], 10111),
        ([("s.a", {"Nats_Rollup": "some"}), ("s.a", {})], 10111),
    ],
)
def test_what_is_refused_together(messages: list[tuple[str, dict[str, object]]], expected: int) -> None:
    place = atomic(allow_rollup_hdrs=True)
    place.publish("s.z", headers=header(Nats_Msg_Id="before"))
    assert code(commit(place, *messages)) == expected
    assert len(held(place)) == 1


def test_conditions_that_hold_for_the_whole_batch() -> None:
    place = atomic(allow_rollup_hdrs=True)
    place.publish("s.x", b"x")
    place.publish("s.y", b"y")
    answer = commit(
        place,
        ("s.y", {"Nats_Expected_Last_Sequence": 2, "Nats_Rollup": "sub", "Nats_Msg_Id": "m"}),
        (
            "s.y",
            {"Nats_Expected_Last_Subject_Sequence": 1, "Nats_Expected_Last_Subject_Sequence_Subject": "s.x"},
        ),
        (
            "s.y",
            {"Nats_Expected_Last_Subject_Sequence": 1, "Nats_Expected_Last_Subject_Sequence_Subject": "s.x"},
        ),
    )
    assert answer is not None
    assert json.loads(answer)["seq"] == 5
    assert [sequence for sequence, *_ in held(place)] == [1, 3, 4, 5]
    assert place.publish("s.y", headers=header(Nats_Msg_Id="m"))["duplicate"] is True


def test_all_or_nothing_where_room_is_limited() -> None:
    place = atomic(max_msgs=3, discard="new")
    place.publish("s.a")
    assert code(commit(place, *[("s.b", {})] * 3)) == 10077
    assert len(held(place)) == 1
    answer = commit(place, *[("s.b", {})] * 2)
    assert answer is not None
    assert json.loads(answer)["count"] == 2


def test_counters_in_a_batch_add_up() -> None:
    place = atomic(allow_msg_counter=True)
    place.publish("s.a", headers=header(Nats_Incr="5"))
    answer = commit(
        place, ("s.a", {"Nats_Incr": "1"}), ("s.b", {"Nats_Incr": "7"}), ("s.a", {"Nats_Incr": "-3"})
    )
    assert answer is not None
    assert json.loads(answer)["count"] == 3
    assert [payload for *_, payload in held(place)] == [
        b'{"val":"5"}',
        b'{"val":"6"}',
        b'{"val":"7"}',
        b'{"val":"3"}',
    ]
    assert code(commit(place, ("s.a", {}))) == 10169


def test_what_was_not_committed_is_gone_after_a_restart(tmp_path: Path) -> None:
    place = atomic(directory=tmp_path)
    send(place, "s.a", b"1", in_batch(1))
    again = place.restart()
    assert code(send(again, "s.a", b"2", in_batch(2, Nats_Batch_Commit=1))) == 10176
    assert held(again) == []


# -- fast ingest ---------------------------------------------------------------------------------------


class Fast:
    """A publisher; `said` is what it was told, as JSON."""

    def __init__(self, place: Place, *, flow: int = 10, mode: str = "fail", batch: str = "u") -> None:
        self.place = place
        self.where = f"_INBOX.fast.{batch}.{flow}.{mode}"

    def put(
        self, number: int, operation: int, subject: str = "s.a", headers: bytes = b"", payload: bytes = b""
    ) -> None:
        reply = f"{self.where}.{number}.{operation}.$FI".encode()
        self.place.host.put(subject.encode(), payload, reply, headers)

    def said(self) -> list[Any]:
        self.place.host.sent.clear()
        self.place.host.tick()
        return [one.json() for one in self.place.host.sent if one.to.startswith(b"_INBOX.fast.")]

    def send(self, number: int, operation: int, subject: str = "s.a", headers: bytes = b"") -> list[Any]:
        self.put(number, operation, subject, headers)
        return self.said()


def batched(**config: Any) -> Place:
    place = Place()
    place.stream("S", subjects=["s.>"], allow_batched=True, **config)
    return place


def test_fast_ingest_from_start_to_commit() -> None:
    place = batched()
    fast = Fast(place, flow=2)
    assert fast.send(1, 0) == [{"type": "ack", "seq": 0, "msgs": 2}]
    assert fast.send(2, 1) == [{"type": "ack", "seq": 2, "msgs": 2}]
    assert fast.send(3, 1) == []
    assert fast.send(4, 1) == [{"type": "ack", "seq": 4, "msgs": 2}]
    assert fast.send(5, 2) == [{"stream": "S", "seq": 5, "batch": "u", "count": 5}]
    assert len(held(place)) == 5
    assert place.system.batches.fast == 0


def test_fast_ingest_that_ends_without_a_message() -> None:
    fast = Fast(batched())
    fast.send(1, 0)
    fast.send(2, 1)
    assert fast.send(3, 3) == [{"stream": "S", "seq": 2, "batch": "u", "count": 2}]


def test_fast_ingest_of_one_message() -> None:
    assert Fast(batched()).send(1, 2) == [{"stream": "S", "seq": 1, "batch": "u", "count": 1}]


def in_one_tick(committer: HeldCommitter, *operations: tuple[int, int]) -> Place:
    """A publisher's operations under way together; nothing of them is durable."""
    place = Place(committer=committer)
    place.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_batched": True})
    committer.commit()
    place.host.tick()
    fast = Fast(place)
    for number, operation in operations:
        fast.put(number, operation)
    place.host.sent.clear()
    place.host.tick()
    return place


def fast_answers(place: Place) -> list[tuple[str, Any]]:
    """Number and operation that were answered, and what."""
    place.host.tick()
    sent = [one for one in place.host.sent if one.to.startswith(b"_INBOX.fast.")]
    return [(one.to.decode().removeprefix("_INBOX.fast.u.10.fail."), one.json()) for one in sent]


def test_an_operation_is_answered_at_its_own_reply_when_all_before_it_is_durable() -> None:
    committer = HeldCommitter()
    place = in_one_tick(committer, (1, 0), (2, 1), (2, 4), (3, 1), (4, 3))
    first = [("1.0.$FI", {"type": "ack", "seq": 0, "msgs": 10})]
    assert fast_answers(place) == first
    committer.commit()
    assert fast_answers(place) == [
        *first,
        ("2.4.$FI", {"type": "ack", "seq": 0, "msgs": 10}),
        ("4.3.$FI", {"stream": "S", "seq": 3, "batch": "u", "count": 3}),
    ]
    assert place.system.batches.fast == 0


def test_a_disk_that_fails_is_told_instead_of_what_was_to_be_said() -> None:
    committer = HeldCommitter()
    place = in_one_tick(committer, (1, 0), (2, 1), (3, 1), (3, 4), (4, 3))
    committer.commit(StorageError("no space left"))
    _, (reply, answer) = fast_answers(place)
    assert reply == "1.0.$FI"
    assert answer["error"]["description"] == "no space left"
    assert place.system.batches.fast == 0


def test_a_disk_that_fails_later_ends_the_batch_with_what_is_durable() -> None:
    committer = HeldCommitter()
    place = in_one_tick(committer, (1, 0))
    committer.commit()
    fast = Fast(place)
    for number, operation in ((2, 1), (3, 1), (3, 4), (4, 3)):
        fast.put(number, operation)
    place.host.tick()
    committer.commit(StorageError("no space left"))
    _, error, last = fast_answers(place)
    assert error == ("2.1.$FI", {"type": "err", "seq": 2, "error": error[1]["error"]})
    assert last == ("4.3.$FI", {"stream": "S", "seq": 1, "batch": "u", "count": 1})


def test_messages_of_one_tick_are_stored_together() -> None:
    place = batched()
    fast = Fast(place, flow=100)
    for number in range(1, 101):
        fast.put(number, int(number > 1), payload=b"%d" % number)
    assert fast.said() == [{"type": "ack", "seq": 0, "msgs": 100}, {"type": "ack", "seq": 100, "msgs": 100}]
    assert [payload for *_, payload in held(place)] == [b"%d" % number for number in range(1, 101)]


def test_a_gap_ends_fast_ingest_unless_gaps_are_fine() -> None:
    fast = Fast(batched())
    fast.send(1, 0)
    assert fast.send(3, 1) == [
        {"type": "gap", "last_seq": 2, "seq": 3},
        {"stream": "S", "seq": 1, "batch": "u", "count": 1},
    ]
    place = batched()
    fast = Fast(place, mode="ok")
    fast.send(1, 0)
    assert fast.send(3, 1) == [{"type": "gap", "last_seq": 2, "seq": 3}]
    assert fast.send(4, 2) == [{"stream": "S", "seq": 3, "batch": "u", "count": 4}]


def test_a_repeated_message_ends_fast_ingest() -> None:
    fast = Fast(batched(), mode="ok")
    fast.send(1, 0)
    fast.send(2, 1)
    assert fast.send(2, 1) == [
        {"type": "gap", "last_seq": 3, "seq": 2},
        {"stream": "S", "seq": 2, "batch": "u", "count": 2},
    ]


def test_a_ping_tells_how_far_it_came() -> None:
    fast = Fast(batched())
    fast.send(1, 0)
    assert fast.send(1, 4) == [{"type": "ack", "seq": 0, "msgs": 10}]
    assert fast.send(3, 4) == [
        {"type": "gap", "last_seq": 2, "seq": 4},
        {"stream": "S", "seq": 1, "batch": "u", "count": 1},
    ]
    fast = Fast(batched(), mode="ok", flow=2)
    fast.send(1, 0)
    assert fast.send(4, 4) == [{"type": "gap", "last_seq": 2, "seq": 5}, {"type": "ack", "seq": 4, "msgs": 2}]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("u.10.fail.2.1", 10208),
        ("u.10.maybe.1.0", 10206),
        ("u.10.fail.0.0", 10206),
        ("u.10.fail.2.0", 10206),
        ("u.10.fail.1.1", 10206),
        ("u.10.fail.1.3", 10206),
        ("u.10.fail.1.5", 10206),
        ("u.10.fail.x.0", 10206),
        ("u.10.fail.18446744073709551615.1", 10206),
        ("0", 10206),
        ("x" * 65 + ".10.fail.1.0", 10207),
    ],
)
def test_replies_that_say_no_place(reply: str, expected: int) -> None:
    place = batched()
    place.host.put(b"s.a", b"", f"_INBOX.fast.{reply}.$FI".encode())
    (answer,) = Fast(place).said()
    assert answer["error"]["err_code"] == expected
    assert held(place) == []


def test_streams_that_take_no_fast_ingest() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"])
    (answer,) = Fast(place).send(1, 0)
    assert answer["error"]["err_code"] == 10205


def test_only_so_many_at_once() -> None:
    place = Place(settings=ServerSettings(batches=BatchLimits(fast_per_stream=1)))
    place.stream("S", subjects=["s.>"], allow_batched=True)
    Fast(place, batch="1").send(1, 0)
    (answer,) = Fast(place, batch="2").send(1, 0)
    assert answer["error"]["err_code"] == 10211
    place.host.pass_time(11)
    assert Fast(place, batch="2").send(1, 0) == [{"type": "ack", "seq": 0, "msgs": 10}]


def test_an_error_ends_fast_ingest() -> None:
    place = batched()
    fast = Fast(place)
    wrong = header(Nats_Expected_Last_Sequence=9)
    (answer,) = fast.send(1, 0, headers=wrong)[-1:]
    assert answer["error"]["err_code"] == 10071
    assert answer["stream"] == "S"
    fast = Fast(place, batch="v")
    fast.send(1, 0)
    said = fast.send(2, 1, headers=wrong)
    assert said[0]["type"] == "err"
    assert said[0]["seq"] == 2
    assert said[0]["error"]["err_code"] == 10071
    assert said[1] == {"stream": "S", "seq": 1, "batch": "v", "count": 1}


def test_an_error_is_passed_over_where_gaps_are_fine() -> None:
    place = batched(max_msgs=2, discard="new")
    fast = Fast(place, mode="ok")
    fast.send(1, 0)
    assert fast.send(2, 1, headers=header(Nats_Expected_Stream="T"))[0]["error"]["err_code"] == 10060
    assert fast.send(3, 1) == []
    said = fast.send(4, 1)
    assert said[0]["type"] == "err"
    assert said[0]["error"]["err_code"] == 10077
    assert fast.send(5, 3) == [{"stream": "S", "seq": 2, "batch": "u", "count": 4}]


def test_duplicates_are_passed_over() -> None:
    place = batched()
    fast = Fast(place, flow=1)
    fast.send(1, 0)
    fast.send(2, 1, headers=header(Nats_Msg_Id="m"))
    assert fast.send(3, 1, headers=header(Nats_Msg_Id="m")) == [{"type": "ack", "seq": 3, "msgs": 1}]
    assert fast.send(4, 2) == [{"stream": "S", "seq": 3, "batch": "u", "count": 4}]
    (first,) = Fast(place, batch="v").send(1, 0, headers=header(Nats_Msg_Id="m"))[-1:]
    assert first.get("type") == "ack" or first["duplicate"] is True


# -- counters ------------------------------------------------------------------------------------------


def test_counters_count() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"], allow_msg_counter=True)
    assert place.publish("s.a", headers=header(Nats_Incr="1")) == {"stream": "S", "seq": 1, "val": "1"}
    assert place.publish("s.a", headers=header(Nats_Incr="+41"))["val"] == "42"
    assert place.publish("s.b", headers=header(Nats_Incr="-1"))["val"] == "-1"
    assert [payload for *_, payload in held(place)] == [b'{"val":"1"}', b'{"val":"42"}', b'{"val":"-1"}']
    for headers, payload, expected in [
        (b"", b"", 10169),
        (header(Nats_Incr="x"), b"", 10171),
        (header(Nats_Incr="1"), b"x", 10170),
        (header(Nats_Incr="1", Nats_Rollup="sub"), b"", 10171),
    ]:
        assert place.publish("s.a", payload, headers=headers)["error"]["err_code"] == expected


def test_other_streams_have_no_counters() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"])
    assert place.publish("s.a", headers=header(Nats_Incr="1"))["error"]["err_code"] == 10168


# -- schedules -----------------------------------------------------------------------------------------


def scheduled(directory: Path | None = None) -> Place:
    place = Place(directory)
    place.stream("S", subjects=["s.>"], allow_msg_schedules=True, allow_msg_ttl=True, allow_rollup_hdrs=True)
    return place


def schedule(place: Place, pattern: str, subject: str = "s.schedule", **lines: object) -> None:
    headers = header(Nats_Schedule=pattern, Nats_Schedule_Target="s.target", **lines)
    answer = place.publish(subject, b"body", headers=headers)
    assert "error" not in answer, answer


def targets(place: Place) -> list[bytes]:
    log = place.account.streams["S"].log
    messages = log.read_from(0, filters=(b"s.target",)).messages
    return [block.value(message.headers, b"Nats-Schedule-Next") for message in messages]


def test_a_schedule_that_is_due_once() -> None:
    place = scheduled()
    schedule(place, f"@at {format_time(place.host.now + 5 * SECOND)}")
    place.host.pass_time(4)
    assert targets(place) == []
    place.host.pass_time(2)
    assert targets(place) == [b"purge"]
    assert [subject for _, subject, _ in held(place)] == ["s.target"]
    place.host.pass_time(60)
    assert len(targets(place)) == 1


def test_a_schedule_in_the_past_is_due_at_once() -> None:
    place = scheduled()
    schedule(place, "@at 2020-01-01T00:00:00Z")
    place.host.pass_time(1)
    assert targets(place) == [b"purge"]


def test_a_schedule_that_repeats() -> None:
    place = scheduled()
    schedule(place, "@every 10s", Nats_Schedule_TTL="1h")
    place.host.pass_time(35)
    assert len(targets(place)) == 3
    assert [subject for _, subject, _ in held(place)] == ["s.schedule"] + ["s.target"] * 3


def test_a_schedule_is_replaced_and_ended() -> None:
    place = scheduled()
    schedule(place, "@every 10s")
    schedule(place, "@every 30s")
    place.host.pass_time(31)
    assert len(targets(place)) == 1
    place.publish("s.schedule", b"")
    place.host.pass_time(120)
    assert len(targets(place)) == 1
    schedule(place, "@every 10s")
    place.ask("STREAM.PURGE.S", {"filter": "s.schedule"})
    place.host.pass_time(60)
    assert len(targets(place)) == 1
    schedule(place, "@every 10s")
    place.publish("s.other", headers=header(Nats_Scheduler="s.schedule", Nats_Schedule_Next="purge"))
    place.host.pass_time(60)
    assert len(targets(place)) == 1


def test_the_last_message_of_a_source_is_what_is_published() -> None:
    place = scheduled()
    schedule(place, "@every 10s", Nats_Schedule_Source="s.content")
    place.host.pass_time(11)
    place.publish("s.content", b"new")
    place.host.pass_time(10)
    assert [payload for _, subject, payload in held(place) if subject == "s.target"] == [b"body", b"new"]


def test_schedules_are_there_after_a_restart(tmp_path: Path) -> None:
    place = scheduled(tmp_path)
    schedule(place, "@every 10s", "s.one")
    schedule(place, f"@at {format_time(place.host.now + 5 * SECOND)}", "s.two")
    schedule(place, "@every 10s", "s.three")
    place.publish("s.three", b"no schedule any more")
    again = place.restart()
    again.host.pass_time(11)
    assert sorted(targets(again))[-1] == b"purge"
    assert len(targets(again)) == 2


def test_schedules_end_with_their_permission() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"])
    refused = place.publish("s.a", headers=header(Nats_Schedule="@every 5s", Nats_Schedule_Target="s.b"))
    assert refused["error"]["err_code"] == 10188
