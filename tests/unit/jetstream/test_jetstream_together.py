"""Features that meet: schedules in batches, dead letters and updates, restores beside other streams."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from harness.js_account import SECOND, Place, Sent
from headrace.protocol import archive, s2
from headrace.protocol.archive import ArchiveEntry

if TYPE_CHECKING:
    from pathlib import Path


def place(**config: Any) -> Place:
    made = Place()
    made.stream("S", subjects=["s.>"], **config)
    return made


def block(**headers: bytes) -> bytes:
    lines = [b"%b: %b\r\n" % (name.replace("_", "-").encode(), text) for name, text in headers.items()]
    return b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n"


# -- schedules and batches -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2])
def test_schedule_of_an_atomic_batch_produces_a_message_that_belongs_to_none(
    tmp_path: Path, number: int
) -> None:
    made = Place(tmp_path)
    made.stream("S", subjects=["s.>"], allow_msg_schedules=True, allow_atomic=True)
    due = datetime.fromtimestamp(made.host.now / SECOND, UTC) + timedelta(seconds=2)
    schedule = {"Nats_Schedule": f"@at {due:%Y-%m-%dT%H:%M:%SZ}".encode(), "Nats_Schedule_Target": b"s.due"}
    for place_in_batch in (1, 2):
        headers = {"Nats_Batch_Id": b"b", "Nats_Batch_Sequence": b"%d" % place_in_batch}
        headers |= {"Nats_Batch_Commit": b"1"} if place_in_batch == 2 else {}
        headers |= schedule if place_in_batch == number else {}
        made.raw(f"s.{place_in_batch}", b"x", headers=block(**headers))
    made.host.pass_time(3)

    produced = made.ask("STREAM.MSG.GET.S", {"seq": 3})["message"]
    assert produced["subject"] == "s.due"
    assert made.restart().ask("STREAM.MSG.GET.S", {"seq": 3})["message"] == produced, "no torn batch"


# -- dead letters and updates ----------------------------------------------------------------------------


def letters(made: Place, subject: bytes) -> list[Sent]:
    return [one for one in made.host.sent if one.to == subject]


def with_a_letter_that_nobody_takes() -> Place:
    made = place()
    made.host.deaf.add(b"dead.old")
    made.consumer("S", "c", metadata={"headrace.dead_letter_subject": "dead.old"})
    made.publish("s.a", b"x")
    (message,) = made.fetch("S", "c")
    made.host.put(message.reply, b"+TERM why")
    made.host.tick()
    assert made.ask("CONSUMER.INFO.S.c")["num_ack_pending"] == 1
    return made


def test_dead_letters_that_wait_go_where_the_new_configuration_says() -> None:
    made = with_a_letter_that_nobody_takes()
    made.consumer("S", "c", metadata={"headrace.dead_letter_subject": "dead.new"})

    (letter,) = letters(made, b"dead.new")
    assert b"Headrace-Reason: why\r\n" in letter.headers
    made.host.put(letter.reply, b'{"stream":"D","seq":1}')
    made.host.tick()
    assert made.ask("CONSUMER.INFO.S.c")["num_ack_pending"] == 0


def test_messages_given_up_are_done_with_where_no_dead_letters_are_wanted_any_more() -> None:
    made = with_a_letter_that_nobody_takes()
    made.consumer("S", "c", metadata={})

    assert made.ask("CONSUMER.INFO.S.c")["num_ack_pending"] == 0


# -- restores and other streams --------------------------------------------------------------------------


def state(**fields: int) -> ArchiveEntry:
    said = ",".join(f'"{name}":{number}' for name, number in fields.items())
    return ArchiveEntry(b"state.json", payload=b"{%b}" % said.encode())


def restore(made: Place, *entries: ArchiveEntry, **config: Any) -> tuple[str, bytes]:
    begun = made.ask("STREAM.RESTORE.R", {"config": {"name": "R", **config}, "state": {}})
    data = s2.STREAM_BEGIN + s2.frames(archive.MAGIC + b"".join(map(archive.encode, entries)))
    return begun["deliver_subject"], data


def ended(made: Place, subject: str, data: bytes) -> int:
    """The error that it ends with; 0 for none."""
    for piece in (data, b""):
        answer = made.raw(subject, piece)
        assert answer is not None
        if answer.payload:
            return int(answer.json().get("error", {}).get("err_code", 0))
    raise AssertionError("the end is answered")


def test_stream_that_was_made_meanwhile_keeps_its_subjects() -> None:
    made = Place()
    subject, data = restore(made, state(), ArchiveEntry(b""), subjects=["s.a"])
    made.stream("S", subjects=["s.>"])

    assert ended(made, subject, data) == 10065
    assert made.error("STREAM.INFO.R") == 10059
    made.stream("R", subjects=["r"])  # nothing is left in its way


def test_backup_with_a_consumer_twice_leaves_nothing() -> None:
    made = Place()
    one = ArchiveEntry(
        b"consumers/c",
        payload=b'{"config":{"ack_policy":"explicit"},"state":{"delivered":{},"ack_floor":{}}}',
    )
    subject, data = restore(made, state(consumer_count=2), one, one, ArchiveEntry(b""), subjects=["s.a"])

    assert ended(made, subject, data) == 10062
    assert made.error("STREAM.INFO.R") == 10059
