"""What peers may say that no client says: numbers without end, nested bodies, times beyond all, odd names.

Each is answered or passed over; nothing of it is an error of the server's, and the account serves on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.js_account import SECOND, Place
from headrace.log.port import LARGEST_SEQUENCE
from headrace.protocol import archive, s2
from headrace.protocol.archive import ArchiveEntry

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.core.service import Delivery

ENDLESS: Final = b"9" * 5000
"""More digits than Python reads."""
DEEP: Final = b'{"a":' + b"[" * 100_000
LONGEST: Final = (1 << 63) - 1
WHOLE_BATCH: Final = {"Nats_Batch_Id": b"b", "Nats_Batch_Sequence": b"1", "Nats_Batch_Commit": b"1"}


def place(**config: Any) -> Place:
    made = Place()
    made.stream("S", subjects=["s.>"], **config)
    return made


def block(**headers: bytes) -> bytes:
    lines = [b"%b: %b\r\n" % (name.replace("_", "-").encode(), text) for name, text in headers.items()]
    return b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n"


def code(answer: Any) -> int:
    return int(answer["error"]["err_code"])


def serves(made: Place) -> bool:
    return bool(made.publish("s.alive", b"x")["seq"])


# -- headers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Nats_Expected_Last_Sequence", "Nats_Expected_Last_Subject_Sequence"])
@pytest.mark.parametrize("number", [ENDLESS, b"1" * 20, b"-1", b"\xb2"])
def test_expected_sequence_that_is_none_is_not_the_last_one(name: str, number: bytes) -> None:
    made = place(allow_atomic=True)

    assert code(made.publish("s.a", headers=block(**{name: number}))) == 10071
    assert code(made.publish("s.a", headers=block(**WHOLE_BATCH, **{name: number}))) == 10071
    assert serves(made)


@pytest.mark.parametrize("level", [ENDLESS, b"6", b"x", b"1_0", b" 1 2"])
def test_level_that_this_server_has_not(level: bytes) -> None:
    made = place(allow_atomic=True, allow_batched=True, allow_direct=True)
    asked = block(Nats_Required_Api_Level=level)
    batch = block(Nats_Batch_Id=b"b", Nats_Batch_Sequence=b"1", Nats_Required_Api_Level=level)
    fast = b"_INBOX.f.id.10.ok.1.0.$FI"

    assert made.error("STREAM.INFO.S", headers=asked) == 10185
    assert code(made.publish("s.a", headers=batch)) == 10185
    made.host.put(b"s.a", b"x", fast, asked)
    made.host.tick()
    assert code(made.host.sent[-1].json()) == 10185
    direct = made.raw("$JS.API.DIRECT.GET.S", {"seq": 1}, headers=asked)
    assert direct is not None
    assert direct.headers.startswith(b"NATS/1.0 412")
    assert serves(made)


@pytest.mark.parametrize("level", [b"5", b"0", b"+1", b"-3"])
def test_level_that_this_server_has(level: bytes) -> None:
    assert place().error("STREAM.INFO.S", headers=block(Nats_Required_Api_Level=level)) == 0


def test_number_in_a_batch_without_end() -> None:
    made = place(allow_batched=True, allow_atomic=True)
    made.host.put(b"s.a", b"x", b"_INBOX.f.id.10.ok.%b.0.$FI" % (b"0" * 20 + b"1" + ENDLESS))
    made.host.tick()

    assert code(made.host.sent[-1].json()) == 10206
    assert code(made.publish("s.a", headers=block(Nats_Batch_Id=b"b", Nats_Batch_Sequence=ENDLESS))) == 10175


@pytest.mark.parametrize(
    "batch", [{}, {"Nats_Batch_Id": b"b", "Nats_Batch_Sequence": b"1", "Nats_Batch_Commit": b"1"}]
)
def test_time_to_live_beyond_all_time(batch: dict[str, bytes]) -> None:
    made = place(allow_msg_ttl=True, allow_atomic=True)

    assert made.publish("s.a", b"x", headers=block(**batch, Nats_TTL=b"9" * 18))["seq"] == 1
    made.host.pass_time(3600)
    assert made.ask("STREAM.INFO.S")["state"]["messages"] == 1


# -- acknowledgements ------------------------------------------------------------------------------------


def test_answer_to_flow_control_without_end() -> None:
    made = place()
    flow = {"flow_control": True, "idle_heartbeat": SECOND, "deliver_subject": "d"}
    made.consumer("S", "c", ack_policy="flow_control", **flow)
    made.publish("s.a", b"x")
    made.host.pass_time(2)
    asked = {one.reply for one in made.host.sent if one.reply.startswith(b"$JS.FC.")}
    assert asked
    for reply in asked:
        made.host.put(reply, b"", headers=block(Nats_Last_Stream=ENDLESS, Nats_Last_Consumer=ENDLESS))
    made.host.tick()

    assert made.ask("CONSUMER.INFO.S.c")["num_ack_pending"] == 1


@pytest.mark.parametrize("delay", [-(1 << 63), -1, 0])
def test_negative_acknowledgement_with_a_delay_before_now(delay: int) -> None:
    made = place()
    made.consumer("S", "c", ack_wait=LONGEST)
    made.publish("s.a", b"x")
    (message,) = made.fetch("S", "c")
    made.host.put(message.reply, b'-NAK {"delay":%d}' % delay)
    made.host.pass_time(1)

    assert [one.payload for one in made.fetch("S", "c")] == [b"x"]


@pytest.mark.parametrize("number", [b"9" * 20, b"18446744073709551615", ENDLESS])
@pytest.mark.parametrize("body", [b"", b"+TERM", b"-NAK"])
def test_acknowledgement_of_what_cannot_be(number: bytes, body: bytes) -> None:
    made = place(retention="workqueue")
    made.consumer("S", "c", deliver_subject="d", flow_control=True, idle_heartbeat=SECOND)
    made.publish("s.a", b"x")
    made.host.put(b"$JS.ACK.S.c.1.%b.%b.1.0" % (number, number), body, b"_INBOX.a")
    made.host.pass_time(1)

    assert made.ask("STREAM.INFO.S")["state"]["messages"] == 1


# -- requests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_name", ["STREAM.DELETE.S", "CONSUMER.INFO.S.c", "CONSUMER.DELETE.S.c"])
def test_nested_body_of_a_request_that_has_none(request_name: str) -> None:
    made = place()

    assert made.error(request_name, DEEP) == 10038
    assert made.ask("STREAM.MSG.GET.S", DEEP)["error"]["err_code"] in (10003, 10025)
    assert serves(made)


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_sequences_end(storage: str) -> None:
    made = place(storage=storage)
    beyond = made.ask("STREAM.CREATE.T", {"name": "T", "storage": storage, "first_seq": LARGEST_SEQUENCE + 1})

    assert code(beyond) == 10052
    assert made.error("STREAM.PURGE.S", {"seq": LARGEST_SEQUENCE + 1}) == 10110
    assert made.error("STREAM.PURGE.S", {"seq": LARGEST_SEQUENCE}) == 0
    assert made.publish("s.a", b"x")["seq"] == LARGEST_SEQUENCE
    assert code(made.publish("s.a", b"y")) == 10077
    assert made.ask("STREAM.INFO.S")["state"]["messages"] == 1


def test_mirror_that_begins_beyond_all_sequences() -> None:
    made = place()
    made.stream("M", mirror={"name": "S", "opt_start_seq": (1 << 64) - 1})
    made.publish("s.a", b"x")
    made.host.pass_time(10)

    assert made.ask("STREAM.INFO.M")["state"]["messages"] == 0
    assert serves(made)


@pytest.mark.parametrize("name", ["a\x0bb", "a\x00b", "a\x1fb"])
def test_names_are_parts_of_subjects(name: str) -> None:
    made = place()

    assert code(made.ask(f"STREAM.CREATE.{name}", {"name": name})) == 10052
    config = {"durable_name": name, "ack_policy": "explicit"}
    assert made.error(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config}) == 10052


def test_longest_name_of_a_consumer_is_still_acknowledged_to() -> None:
    made = place(storage="memory")
    config = {"ack_policy": "explicit"}
    for length, refused in ((512, 0), (513, 10012)):
        name = "c" * length
        body = {"stream_name": "S", "config": {"name": name, **config}}
        assert made.error(f"CONSUMER.CREATE.S.{name}", body) == refused
    made.publish("s.a", b"x")

    (message,) = made.fetch("S", "c" * 512)
    assert made.acknowledge(message, waits=True)


# -- answers of others -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [b"\xff", b'{"seq":"\xff"}', DEEP, b'{"error":"\xff"}', b'{"seq":' + ENDLESS]
)
def test_answer_to_a_dead_letter_that_is_none(answer: bytes) -> None:
    made = place()
    made.consumer("S", "c", metadata={"headrace.dead_letter_subject": "dead"})
    made.publish("s.a", b"x")
    (message,) = made.fetch("S", "c")
    made.host.put(message.reply, b"+TERM")
    made.host.tick()
    (letter,) = (one for one in made.host.sent if one.to == b"dead")
    made.host.put(letter.reply, answer)
    made.host.tick()

    assert made.ask("CONSUMER.INFO.S.c")["num_ack_pending"] == 1, "it waits for a PubAck"


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff", DEEP, b'{"config":{"deliver_subject":"\xff"}}', b'{"config":{"deliver_subject":""}}',
        b'{"config":{"deliver_subject":"a b"}}', b'{"config":{},"delivered":{"stream_seq":-1}}',
        b'{"config":{"deliver_subject":"d"},"delivered":{"stream_seq":%d}}' % (1 << 80),
        b'{"config":{"deliver_subject":"d"},"delivered":{"stream_seq":%d}}' % ((1 << 64) - 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["mirror", "sources"])
def test_answer_of_an_origin_that_is_none(kind: str, answer: bytes) -> None:
    made = place()
    made.host.sent.clear()
    origin = {"name": "O", "external": {"api": "far.api", "deliver": "far.d"}}
    made.stream("M", **{kind: origin if kind == "mirror" else [origin]})
    (asked,) = (one for one in made.host.sent if one.to.startswith(b"far.api.CONSUMER.CREATE.O"))
    made.host.put(asked.reply, answer)
    made.host.pass_time(60)

    assert made.ask("STREAM.INFO.M")["state"]["messages"] == 0
    assert serves(made)


@pytest.mark.parametrize("numbers", [b"1.1.%d.0" % ((1 << 64) - 1), b"%d.1.1.0" % ((1 << 64) - 1)])
def test_message_of_an_origin_that_cannot_be(numbers: bytes) -> None:
    made = place()
    made.host.sent.clear()
    made.stream("M", mirror={"name": "O", "external": {"api": "far.api", "deliver": "far.d"}})
    (asked,) = (one for one in made.host.sent if one.to.startswith(b"far.api.CONSUMER.CREATE.O"))
    made.host.put(asked.reply, b'{"name":"c","config":{"deliver_subject":"far.d.M"}}')
    made.host.tick()
    made.host.put(b"far.d.M", b"x", b"$JS.ACK.O.c.1." + numbers)
    made.host.pass_time(1)

    assert serves(made)


# -- backups ---------------------------------------------------------------------------------------------


def backup(*entries: ArchiveEntry) -> bytes:
    return s2.STREAM_BEGIN + s2.frames(archive.MAGIC + b"".join(map(archive.encode, entries)))


def state(**fields: int) -> ArchiveEntry:
    return ArchiveEntry(b"state.json", payload=json.dumps(fields).encode())


def consumer(config: dict[str, Any], name: bytes = b"consumers/c", **position: Any) -> ArchiveEntry:
    said = {"delivered": {}, "ack_floor": {}} | position
    return ArchiveEntry(name, payload=json.dumps({"config": config, "state": said}).encode())


def restored(made: Place, data: bytes, **config: Any) -> int:
    """The error that a restore ends with; 0 for none."""
    begun = made.ask("STREAM.RESTORE.R", {"config": {"name": "R", **config}, "state": {}})
    for piece in (data, b""):
        answer = made.raw(begun["deliver_subject"], piece)
        assert answer is not None
        if answer.payload:
            return int(answer.json().get("error", {}).get("err_code", 0))
    raise AssertionError("the end is answered")


def message(**headers: bytes) -> ArchiveEntry:
    return ArchiveEntry(b"r", SECOND, 1, block(**headers) if headers else b"", b"x")


EXPLICIT: Final = {"ack_policy": "explicit"}
PENDING: Final = {"Sequence": 1, "Timestamp": 1}


def pending(**changed: int) -> ArchiveEntry:
    return consumer(EXPLICIT, pending={"1": PENDING | changed})


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ([ArchiveEntry(b"state.json", payload=DEEP)], 10062),
        ([ArchiveEntry(b"state.json", payload=b'{"messages":"\xff"}')], 10062),
        ([state(first_seq=1 << 63)], 10062),
        ([state(messages=1), ArchiveEntry(b"r", 1 << 68, 1)], 10062),
        ([state(messages=1), ArchiveEntry(b"r", -5, 1)], 10062),
        ([state(consumer_count=1), ArchiveEntry(b"consumers/c", payload=b'{"config":' + DEEP)], 10062),
        (
            [state(consumer_count=1), ArchiveEntry(b"consumers/c", payload=b'{"config":{"name":"\xff"}}')],
            10062,
        ),
        ([state(consumer_count=1), consumer(EXPLICIT, pending={str(1 << 64): PENDING})], 10062),
        (
            [state(consumer_count=1), pending(Sequence=1 << 70)],
            10062,
        ),
        (
            [state(consumer_count=1), pending(Timestamp=1 << 70)],
            10062,
        ),
        ([state(consumer_count=1), consumer(EXPLICIT, redelivered={"1": 1 << 70})], 10062),
        ([state(consumer_count=1), consumer(EXPLICIT, delivered={"stream_seq": 1 << 63})], 10062),
        ([state(consumer_count=1), consumer(EXPLICIT | {"sample_freq": "zz"})], 10095),
        ([state(consumer_count=1), consumer(EXPLICIT | {"filter_subject": "a b"})], 10052),
        ([state(consumer_count=1), consumer(EXPLICIT | {"deliver_subject": ">"})], 10079),
        ([state(consumer_count=1), consumer(EXPLICIT, b"consumers/a.b")], 10052),
    ],
)
def test_backup_that_cannot_be_leaves_nothing(entries: list[ArchiveEntry], error: int) -> None:
    made = place()

    assert restored(made, backup(*entries)) == error
    assert made.error("STREAM.INFO.R") == 10059
    assert serves(made)


@pytest.mark.parametrize("number", [ENDLESS, "²".encode(), b"9" * 25])
def test_restored_messages_do_not_keep_a_server_from_starting(tmp_path: Path, number: bytes) -> None:
    made = Place(tmp_path)
    torn = block(Nats_Batch_Id=b"b", Nats_Batch_Sequence=number, Nats_Stream_Source=b"O %b > >" % number)
    entries = [state(messages=1), ArchiveEntry(b"r", SECOND, 1, torn, b"x"), ArchiveEntry(b"")]

    assert restored(made, backup(*entries), sources=[{"name": "O"}]) == 0
    made = made.restart()

    assert made.ask("STREAM.INFO.R")["state"]["messages"] == 1


def test_restored_message_may_live_for_ever() -> None:
    made = place()
    entries = [state(messages=1), message(Nats_TTL=b"9" * 18), ArchiveEntry(b"")]

    assert restored(made, backup(*entries), allow_msg_ttl=True) == 0
    assert made.ask("STREAM.INFO.R")["state"]["messages"] == 1


# -- mistakes of ours ------------------------------------------------------------------------------------


def test_mistake_with_one_message_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made = place()

    def mistaken(delivery: Delivery) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(made.account, "_flow_response", mistaken)
    made.account.subscribe(b"$JS.FC.>", mistaken)
    made.host.put(b"$JS.FC.S.c.x", b"")
    made.host.put(b"s.a", b"x", b"_INBOX.p")
    made.host.mistakes = []
    made.host.tick()

    assert [type(error) for _, error in made.host.mistakes] == [ZeroDivisionError]
    assert [one.json()["seq"] for one in made.host.sent if one.to == b"_INBOX.p"] == [1]
