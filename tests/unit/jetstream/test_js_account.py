"""An account's JetStream as a whole: what is remembered, when it is answered, what a crash leaves."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from harness.js_account import SECOND, START, HeldCommitter, Place
from headrace.change_log import entry
from headrace.errors import StartError, StorageError
from headrace.jetstream.assets import state_log, stream_log
from headrace.jetstream.limits import ServerSettings
from headrace.jetstream.stats import server_stats
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.protocol.jetstream.headers import added
from headrace.testing.faultfs import MemoryFileSystem


def test_streams_consumers_and_positions_are_there_after_a_restart(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("S", subjects=["s.>"])
    made = place.consumer("S", "c")
    for number in range(5):
        place.publish("s.a", b"%d" % number)
    first, second, _third = place.fetch("S", "c", 3)
    place.acknowledge(first)
    place.acknowledge(second)

    again = place.restart()

    info = again.ask("CONSUMER.INFO.S.c")
    assert info["created"] == made["created"]
    assert info["delivered"]["stream_seq"] == 3
    assert info["ack_floor"]["stream_seq"] == 2
    assert info["num_ack_pending"] == 1
    assert info["num_pending"] == 2
    assert [one.payload for one in again.fetch("S", "c", 5)] == [b"3", b"4"]


def test_a_kill_at_any_moment_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """Every step's files are copied as they are on disk: a process that is killed leaves them so."""
    place = Place(tmp_path / "live")
    steps: list[tuple[str, list[str], int]] = []

    def left(name: str) -> None:
        shutil.copytree(tmp_path / "live", tmp_path / name)
        names = place.ask("STREAM.NAMES")["streams"] or []
        floor = 0
        if "S" in names:
            info = place.ask("CONSUMER.INFO.S.c")
            floor = info["ack_floor"]["stream_seq"] if "error" not in info else 0
        steps.append((name, names, floor))

    place.stream("S", subjects=["s"])
    place.consumer("S", "c")
    left("made")
    place.publish("s", b"1")
    place.publish("s", b"2")
    assert place.acknowledge(place.fetch("S", "c")[0], waits=True)
    left("acknowledged")
    place.stream("T")
    left("another")
    place.ask("STREAM.DELETE.S")
    left("removed")

    for name, names, floor in steps:
        (tmp_path / name / "lock").unlink()
        again = Place(tmp_path / name)
        assert (again.ask("STREAM.NAMES")["streams"] or []) == names
        if floor:
            assert again.ask("CONSUMER.INFO.S.c")["ack_floor"]["stream_seq"] == floor


def test_a_creation_is_answered_when_it_is_durable(tmp_path: Path) -> None:
    committer = HeldCommitter()
    place = Place(tmp_path, committer=committer)
    assert place.ask("STREAM.CREATE.S", {"name": "S"}) is None
    place.host.sent.clear()
    committer.commit()
    assert place.host.sent[0].json()["did_create"] is True


def test_memory_has_nothing_to_wait_for(tmp_path: Path) -> None:
    place = Place(tmp_path, committer=HeldCommitter())
    assert place.stream("M", storage="memory")["did_create"]
    assert place.consumer("M", "c")["name"] == "c"
    assert place.file.names() == []


def test_a_creation_that_cannot_be_made_durable_is_undone(tmp_path: Path) -> None:
    committer = HeldCommitter()
    place = Place(tmp_path, committer=committer)
    place.ask("STREAM.CREATE.S", {"name": "S"})
    place.host.sent.clear()
    committer.commit(StorageError("disk on fire"))
    answer = place.host.sent[0].json()
    assert answer["error"]["err_code"] == 10077
    assert "disk on fire" in answer["error"]["description"]
    assert place.ask("STREAM.NAMES")["streams"] is None


def test_a_double_acknowledgement_is_answered_when_it_is_durable(tmp_path: Path) -> None:
    committer = HeldCommitter()
    place = Place(tmp_path, committer=committer)
    place.stream("S", subjects=["s"])
    committer.commit()
    place.consumer("S", "c")
    committer.commit()
    place.publish("s", b"x")
    committer.commit()
    (message,) = place.fetch("S", "c")
    assert not place.acknowledge(message, waits=True)
    place.host.sent.clear()
    committer.commit()
    assert [one.to for one in place.host.sent] == [b"_INBOX.ack"]


def test_a_removed_stream_leaves_no_log_and_its_name_is_free(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("S", subjects=["s"])
    place.publish("s", b"old")
    assert place.ask("STREAM.DELETE.S")["success"]
    assert stream_log("A", "S") not in place.file.names()
    assert place.stream("S", subjects=["s"])["state"]["messages"] == 0


def test_a_creation_waits_for_the_removal_before_it(tmp_path: Path) -> None:
    committer = HeldCommitter()
    place = Place(tmp_path, committer=committer)
    place.stream("S", subjects=["s"])
    committer.commit()
    place.publish("s", b"old")
    committer.commit()
    place.ask("STREAM.DELETE.S")
    place.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    assert place.host.sent == []
    committer.commit()
    removed, created = (one.json() for one in place.host.sent)
    assert removed["success"]
    assert created["state"]["messages"] == 0


def test_a_crash_between_the_entry_and_the_removal_brings_no_message_back(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("S", subjects=["s"])
    place.publish("s", b"old")
    place.account.journal.stream_gone("S")
    place.account.journal.flush()
    place.file.close()

    again = Place(tmp_path)
    assert again.ask("STREAM.NAMES")["streams"] is None
    assert stream_log("A", "S") not in again.file.names()
    assert again.stream("S")["state"]["messages"] == 0


def test_messages_without_a_stream_are_kept_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FileStore(tmp_path)
    store.open(stream_log("A", "LOST")).append([NewMessage(b"LOST", b"still here")])
    store.close()

    with caplog.at_level(logging.ERROR):
        place = Place(tmp_path)
    assert "A > LOST" in caplog.text
    assert place.ask("STREAM.NAMES")["streams"] is None
    assert place.stream("LOST")["state"]["messages"] == 1


@pytest.mark.parametrize("are_lost", [False, True])
def test_messages_that_were_delivered_and_are_gone_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, are_lost: bool
) -> None:
    place = Place(tmp_path)
    place.stream("S", subjects=["s"])
    place.consumer("S", "late", deliver_policy="by_start_sequence", opt_start_seq=100)
    place.consumer("S", "used")
    place.publish("s", b"1")
    assert len(place.fetch("S", "used")) == 1
    place.account.stop()
    if are_lost:
        place.file.remove(stream_log("A", "S"))
    place.file.close()
    with caplog.at_level(logging.WARNING):
        place = Place(tmp_path)
    said = [record.getMessage() for record in caplog.records]
    lost = (
        "stream A > S: consumer used was given messages up to 1, and the last one stored is 0: some are lost"
    )
    assert said == [lost] * are_lost
    place.account.stop()
    place.file.close()


def test_a_damaged_record_is_said_and_the_rest_is_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path)
    place.stream("S")
    log = place.file.open(state_log("A"))
    log.append([NewMessage(b"$JS.state", b"S\xff\xff\xff\xff cut off")])
    place.stream("T")

    with caplog.at_level(logging.ERROR):
        again = place.restart()
    assert "state record 3 skipped: an entry is cut off" in caplog.text
    assert again.ask("STREAM.NAMES")["streams"] == ["S", "T"]


def test_a_configuration_of_a_later_version_is_kept_as_it_is(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("S")
    later = b'{"name":"NEW","subjects":["n"],"retention":"forever"}'
    log = place.file.open(state_log("A"))
    log.append([NewMessage(b"$JS.state", entry(b"S", (7).to_bytes(8, "little") + later))])

    again = place.restart()
    assert again.ask("STREAM.NAMES")["streams"] == ["S"]
    assert list(again.account.broken) == ["NEW"]
    assert again.error("STREAM.CREATE.NEW", {"name": "NEW"}) == 10194
    assert again.account.assets.gather().streams["NEW"].config == later


def test_a_store_that_cannot_be_read_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    place = Place(tmp_path, start=False)
    place.file.close()
    with pytest.raises(StartError, match="JetStream of account A"):
        place.account.start(place.host)


def test_a_snapshot_replaces_the_changes_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.change_log._MIN_GROWTH", 500)
    monkeypatch.setattr("headrace.change_log._GROWTH_FACTOR", 0)
    place = Place(tmp_path)
    place.stream("S", subjects=["s"])
    place.consumer("S", "c")
    for _ in range(30):
        place.publish("s", b"x")
        place.acknowledge(place.fetch("S", "c")[0], waits=True)
    log = place.file.open(state_log("A"))
    assert log.state().messages < 10 < log.state().last_sequence

    again = place.restart()
    assert again.ask("CONSUMER.INFO.S.c")["ack_floor"]["stream_seq"] == 30


def test_what_a_stop_interrupts_is_answered(tmp_path: Path) -> None:
    committer = HeldCommitter()
    place = Place(tmp_path, committer=committer)
    place.ask("STREAM.CREATE.S", {"name": "S"})
    place.account.stop()
    assert place.host.sent[-1].json()["did_create"] is True


def test_what_an_account_holds_counts_for_the_server(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("S", subjects=["s"])
    place.publish("s", b"x" * 100)
    held = place.account.streams["S"].log.state().bytes
    assert place.system.held.storage == held > 100
    assert place.ask("INFO")["storage"] == held
    place.ask("STREAM.PURGE.S")
    assert place.system.held.storage == 0
    place.publish("s", b"x")
    place.ask("STREAM.DELETE.S")
    assert place.ask("INFO")["storage"] == 0
    place.publish("s", b"x")
    place.account.stop()
    assert place.system.held.storage == 0


def test_an_account_can_be_emptied() -> None:
    place = Place()
    place.stream("S")
    place.stream("M", storage="memory")
    done: list[object] = []
    place.system.purge_account("A", done.append)
    assert done == [None]
    assert place.ask("STREAM.NAMES")["total"] == 0
    place.system.purge_account("nobody", done.append)
    assert done == [None, None]


def test_too_many_requests_at_once_are_dropped_and_said(tmp_path: Path) -> None:
    committer = HeldCommitter()
    place = Place(tmp_path, committer=committer, settings=ServerSettings(request_queue_limit=2))
    place.host.heard.add(b"$JS.EVENT.ADVISORY.API.LIMIT_REACHED")
    for name in ("A", "B", "C"):
        place.ask(f"STREAM.CREATE.{name}", {"name": name})
    assert [one["type"] for one in place.advisories()] == ["io.nats.jetstream.advisory.v1.api_limit_reached"]
    committer.commit()
    assert place.ask("STREAM.NAMES")["streams"] == ["A", "B"]


def test_a_stream_that_cannot_be_served_can_be_removed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("NEW")
    log = place.file.open(state_log("A"))
    later = b'{"name":"NEW","later":1}'
    log.append([NewMessage(b"$JS.state", entry(b"S", (7).to_bytes(8, "little") + later))])

    again = place.restart()
    listed = again.ask("STREAM.LIST")
    assert listed["missing"] == ["NEW"]
    assert "unknown field" in listed["offline"]["NEW"]
    assert again.error("STREAM.INFO.NEW") == 10194
    assert again.ask("STREAM.DELETE.NEW")["success"]
    assert stream_log("A", "NEW") not in again.file.names()
    assert again.restart().account.broken == {}


def test_an_acknowledgement_for_nobody_has_no_responders() -> None:
    place = Place()
    place.stream("S", subjects=["s"])
    for body in (b"", b"-NAK"):
        answer = place.raw("$JS.ACK.S.nobody.1.1.1.1700000000000000000.0", body)
        assert answer is not None
        assert answer.headers.startswith(b"NATS/1.0 503\r\n")
        place.host.elsewhere = {b"$JS.ACK.>"}  # another domain has the consumer, and answers
        assert place.raw("$JS.ACK.S.nobody.1.1.1.1700000000000000000.0", body) is None
        place.host.elsewhere.clear()


def test_a_marker_that_a_start_leaves_comes_to_who_has_subscribed() -> None:
    files, now = MemoryFileSystem(), START

    def begun() -> Place:
        store = FileStore(Path("/store"), clock=lambda: now, filesystem=files, remembers=False)
        place = Place(file=store, start=False)
        place.host.now = now
        place.account.start(place.host)
        return place

    place = begun()
    place.stream("S", subjects=["s"], allow_msg_ttl=True, subject_delete_marker_ttl=5 * SECOND)
    place.consumer("S", "c", deliver_subject="d")
    place.publish("s", b"x", headers=added(b"", (b"Nats-TTL", b"5s")))
    place.account.stop()
    place.file.close()
    now += 20 * SECOND
    again = begun()
    (sent,) = (sent for sent in again.host.sent if sent.to == b"d")
    assert b"Nats-Marker-Reason: MaxAge" in sent.headers


def test_what_nobody_waits_for_is_written_together(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("S", subjects=["s"])
    place.consumer("S", "c")
    for _ in range(10):
        place.publish("s", b"x")
    log = place.file.open(state_log("A"))
    before = log.state().last_sequence
    for _ in range(10):
        place.acknowledge(place.fetch("S", "c")[0])
    assert log.state().last_sequence == before
    place.host.pass_time(0.05)
    assert log.state().last_sequence == before + 2  # one record and its copy
    place.host.pass_time(1)
    assert log.state().last_sequence == before + 2  # one record and its copy
    assert place.restart().ask("CONSUMER.INFO.S.c")["ack_floor"]["stream_seq"] == 10


def test_statistics_look_at_streams_only_when_they_are_asked_for(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("S", subjects=["s"])
    place.publish("s", b"1")
    stats = server_stats(place.system, "")
    (account,) = stats.accounts
    place.publish("s", b"2")
    place.publish("s", b"3")

    (stream,) = account.streams
    assert (stream.name, stream.messages, stream.document()["state"]["messages"]) == ("S", 3, 3)
    assert account.streams[0] is stream

    place.ask("STREAM.DELETE.S")
    assert stream.document() == {}
    assert server_stats(place.system, "").accounts[0].streams == []


def test_a_start_opens_no_files_of_streams_that_nobody_uses(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for name, config in (
        ("PLAIN", {}),
        ("AGED", {"max_age": 3600 * SECOND}),
        ("QUEUE", {"retention": "workqueue"}),
    ):
        place.stream(name, subjects=[name.lower()], **config)
        place.publish(name.lower(), b"x", headers=b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n")
    place.consumer("AGED", "c")
    place = place.restart()
    held = place.ask("STREAM.LIST")["streams"]
    assert [each["state"]["messages"] for each in held] == [1, 1, 1]
    assert place.ask("CONSUMER.INFO.AGED.c")["num_pending"] == 1
    assert _unopened(place) == {"PLAIN", "QUEUE"}  # what is pending is counted in the log

    again = place.publish("plain", b"x", headers=b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n")
    assert again == {"stream": "PLAIN", "seq": 1, "duplicate": True}
    assert place.publish("plain", b"x") == {"stream": "PLAIN", "seq": 2}
    assert _unopened(place) == {"QUEUE"}


def _unopened(place: Place) -> set[str]:
    return {name for name, stream in place.account.streams.items() if stream.log.left is not None}  # type: ignore[attr-defined]


def test_messages_in_flight_do_not_wait_for_a_clock_that_was_ahead(tmp_path: Path) -> None:
    """The owner of a bucket before this one had another clock; or this server's was set back.

    What was delivered waits for `ack_wait` at most; what is to come in a minute comes then.
    """
    place = Place(tmp_path)
    place.stream("S", subjects=["s"])
    place.consumer("S", "c", ack_policy="explicit", ack_wait=10 * 10**9)
    place.host.pass_time(3600)
    for _ in range(3):
        place.publish("s")
    first, second, _ = place.fetch("S", "c", 3)
    assert place.acknowledge(first, waits=True)
    place.host.put(second.reply, b'-NAK {"delay": 60000000000}')
    place.host.pass_time(1)
    again = place.restart()
    assert again.host.now_ns() < place.host.now_ns() - 3600 * 10**9

    def come() -> list[int]:
        return [int(each.reply.split(b".")[5]) for each in again.fetch("S", "c", 3)]

    assert come() == []
    again.host.pass_time(10)
    assert come() == [3]
    again.host.pass_time(51)
    assert 2 in come()
