"""Mirrors and sources: what they take, in which order, and where they go on after a stop."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.js_account import SECOND, HeldCommitter, Place
from headrace.jetstream.limits import AccountLimits
from headrace.jetstream.sourcing.origin import SourceOrigin, identity_of, index_name, noted, short_hash
from headrace.log.store import FileStore
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.configs import (
    External,
    StreamConsumerSource,
    StreamSource,
    SubjectTransformConfig,
)
from headrace.protocol.jetstream.times import to_ns
from headrace.protocol.rfc3339 import format_time
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.errors import StorageError
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import MessageLog


def header(**lines: object) -> bytes:
    return block.added(
        b"", *((name.replace("_", "-").encode(), str(text).encode()) for name, text in lines.items())
    )


def held(place: Place, stream: str) -> list[tuple[int, str, bytes]]:
    log = place.account.streams[stream].log
    messages = log.read_from(0, max_messages=100_000).messages
    return [(message.sequence, message.subject.decode(), message.payload) for message in messages]


def put(place: Place, *subjects: str, **lines: object) -> None:
    for subject in subjects:
        answer = place.publish(subject, subject.encode(), headers=header(**lines) if lines else b"")
        assert "error" not in answer, answer


def memory_store(files: FileSystem | None = None) -> FileStore:
    return FileStore(Path("/store"), filesystem=files or MemoryFileSystem(), remembers=False)


def origin(directory: Path | None = None, **config: Any) -> Place:
    place = Place(directory)
    place.stream("O", subjects=["o.>"], **config)
    return place


def sources(place: Place, stream: str = "T") -> list[Any]:
    return list(place.ask(f"STREAM.INFO.{stream}")["sources"])


# -- what is configured, and what is noted of it -------------------------------------------------------


def test_names_are_those_of_the_go_server() -> None:
    """Values from a Go server 2.15.1."""
    assert identity_of(to_ns("2026-11-23T19:38:38.872612222Z")) == "qiZmyhny"
    assert index_name(StreamSource(name="O")) == "O > >"
    assert index_name(StreamSource(name="O", filter_subject="o.a")) == "O o.a >"
    two = [SubjectTransformConfig(src="o.*", dest="t.$1"), SubjectTransformConfig(src="", dest="")]
    assert index_name(StreamSource(name="O", subject_transforms=two)) == "O o.*\f> t.$1\f>"
    external = StreamSource(name="O", external=External(api="X.API"))
    assert index_name(external) == f"O:{short_hash('X.API')} > >"
    durable = StreamSource(name="O", consumer=StreamConsumerSource(name="c", deliver_subject="d"))
    assert index_name(durable) == f"O:C={short_hash('c')} > >"


@pytest.mark.parametrize("text", ["", "O", "O 1", "O x > >", "$JS.ACK.O.c.1.1.1.1.0"])
def test_headers_that_say_no_source(text: str) -> None:
    assert noted(header(Nats_Stream_Source=text)) is None


def test_what_is_noted_is_read_again() -> None:
    source = SourceOrigin(StreamSource(name="O", filter_subject="o.*"))
    headers = source.headers_here(
        header(A="1", Nats_Stream_Source="P 9 > >", Nats_Expected_Stream="O"), b"o.a", 7, "id"
    )
    assert headers == header(A="1", Nats_Stream_Source="O 7 o.* > o.a id")
    assert noted(headers) == ("O o.* >", 7, "id")
    assert source.headers_here(b"", b"o.a", 7, "") == header(Nats_Stream_Source="O 7 o.* > o.a")


# -- sources -------------------------------------------------------------------------------------------


def test_a_source_takes_what_is_there_and_what_comes() -> None:
    place = origin()
    put(place, "o.1", "o.2")
    place.stream("T", sources=[{"name": "O"}])
    place.host.tick()
    put(place, "o.3")
    assert held(place, "T") == [(1, "o.1", b"o.1"), (2, "o.2", b"o.2"), (3, "o.3", b"o.3")]
    message = place.account.streams["T"].log.read(3)
    identity = identity_of(place.account.streams["O"].created_ns)
    assert message is not None
    assert block.value(message.headers, b"Nats-Stream-Source") == f"O 3 > > o.3 {identity}".encode()
    (info,) = sources(place)
    assert info == {"name": "O", "lag": 0, "seq": 3, "active": 0}


def test_filters_and_transforms() -> None:
    place = origin()
    transforms = [{"src": "o.a.*", "dest": "t.{{wildcard(1)}}"}, {"src": "o.b", "dest": ""}]
    place.stream("T", sources=[{"name": "O", "subject_transforms": transforms}])
    place.stream("F", sources=[{"name": "O", "filter_subject": "o.a.*"}])
    put(place, "o.a.1", "o.b", "o.c", "o.a.2")
    assert [subject for _, subject, _ in held(place, "T")] == ["t.1", "o.b", "t.2"]
    assert [subject for _, subject, _ in held(place, "F")] == ["o.a.1", "o.a.2"]
    assert sources(place)[0]["subject_transforms"] == transforms
    assert sources(place, "F")[0]["filter_subject"] == "o.a.*"


def test_where_a_source_begins() -> None:
    place = origin()
    put(place, "o.1", "o.2")
    place.host.pass_time(10)
    then = format_time(place.host.now)
    put(place, "o.3", "o.4")
    place.stream("S", sources=[{"name": "O", "opt_start_seq": 2}])
    place.stream("U", sources=[{"name": "O", "opt_start_time": then}])
    place.host.tick()
    assert [payload for *_, payload in held(place, "S")] == [b"o.2", b"o.3", b"o.4"]
    assert [payload for *_, payload in held(place, "U")] == [b"o.3", b"o.4"]


def test_two_sources_and_own_subjects() -> None:
    place = origin()
    place.stream("P", subjects=["p.>"])
    place.stream("T", subjects=["t.>"], sources=[{"name": "O"}, {"name": "P"}])
    put(place, "o.1", "t.1", "p.1", "o.2")
    assert [subject for _, subject, _ in held(place, "T")] == ["o.1", "t.1", "p.1", "o.2"]
    assert [(info["name"], info["seq"]) for info in sources(place)] == [("O", 2), ("P", 1)]


def test_an_origin_that_comes_later_and_goes_and_comes_again() -> None:
    place = Place()
    place.stream("T", sources=[{"name": "O"}])
    (info,) = sources(place)
    assert info["active"] == -1
    assert info["error"]["err_code"] == 10059
    assert "seq" not in info
    place.stream("O", subjects=["o.>"])
    put(place, "o.1", "o.2")
    assert held(place, "T") == []
    place.host.pass_time(3)
    assert [subject for _, subject, _ in held(place, "T")] == ["o.1", "o.2"]
    place.ask("STREAM.DELETE.O")
    assert sources(place)[0]["error"]["err_code"] == 10059
    place.host.pass_time(1)
    place.stream("O", subjects=["o.>"])
    put(place, "o.3")
    place.host.pass_time(3)
    assert [subject for _, subject, _ in held(place, "T")] == ["o.1", "o.2", "o.3"]
    assert "error" not in sources(place)[0]


def test_a_long_origin_is_taken_page_by_page() -> None:
    place = origin()
    for number in range(1000):
        place.host.put(b"o.a", b"%d" % number)
    place.host.tick()
    place.stream("T", sources=[{"name": "O"}])
    place.host.pass_time(0.1)
    assert [payload for *_, payload in held(place, "T")] == [b"%d" % number for number in range(1000)]


def test_sources_go_on_where_they_were(tmp_path: Path) -> None:
    place = origin(tmp_path)
    place.stream("T", sources=[{"name": "O"}, {"name": "P"}], max_msgs=2)
    put(place, "o.1", "o.2", "o.3")
    place.ask("STREAM.PURGE.T")
    again = place.restart()
    again.host.pass_time(1)
    assert held(again, "T") == []
    put(again, "o.4")
    assert held(again, "T") == [(4, "o.4", b"o.4")]
    assert sources(again)[0]["seq"] == 4


def test_messages_say_how_far_a_source_was(tmp_path: Path) -> None:
    """What was not journaled any more is read from the messages."""
    place = origin(tmp_path)
    place.stream("T", sources=[{"name": "O"}])
    put(place, "o.1", "o.2")
    place.account.journal.position = lambda *_: None  # type: ignore[method-assign, assignment]
    put(place, "o.3")
    again = place.restart()
    again.host.pass_time(1)
    assert [payload for *_, payload in held(again, "T")] == [b"o.1", b"o.2", b"o.3"]
    put(again, "o.4")
    assert [payload for *_, payload in held(again, "T")] == [b"o.1", b"o.2", b"o.3", b"o.4"]


def test_a_full_stream_holds_up_its_sources_and_loses_nothing() -> None:
    place = origin()
    place.stream("T", sources=[{"name": "O"}], max_msgs=2, discard="new")
    put(place, "o.1", "o.2", "o.3", "o.4")
    assert [subject for _, subject, _ in held(place, "T")] == ["o.1", "o.2"]
    (info,) = sources(place)
    assert info["lag"] == 2
    assert info["error"]["err_code"] == 10077
    place.ask("STREAM.PURGE.T", {"keep": 1})
    place.host.pass_time(3)
    assert [subject for _, subject, _ in held(place, "T")] == ["o.2", "o.3"]
    place.ask("STREAM.PURGE.T")
    place.host.pass_time(3)
    assert [subject for _, subject, _ in held(place, "T")] == ["o.4"]
    assert "error" not in sources(place)[0]


def test_duplicates_are_passed_over() -> None:
    place = origin(duplicate_window=SECOND)
    place.stream("T", sources=[{"name": "O"}], duplicate_window=100 * SECOND)
    put(place, "o.1", Nats_Msg_Id="m")
    place.host.pass_time(2)
    put(place, "o.2", Nats_Msg_Id="m")
    put(place, "o.3")
    assert [subject for _, subject, _ in held(place, "T")] == ["o.1", "o.3"]


def test_sources_that_are_added_and_taken_away() -> None:
    place = origin()
    place.stream("P", subjects=["p.>"])
    place.stream("T", sources=[{"name": "O"}])
    put(place, "o.1", "p.1")
    updated = place.ask("STREAM.UPDATE.T", {"name": "T", "sources": [{"name": "P"}]})
    assert "error" not in updated, updated
    put(place, "o.2", "p.2")
    assert [subject for _, subject, _ in held(place, "T")] == ["o.1", "p.1", "p.2"]
    assert [info["name"] for info in sources(place)] == ["P"]


def test_counters_of_sources_are_merged() -> None:
    place = Place()
    for name in ("EAST", "WEST"):
        place.stream(name, subjects=[f"{name.lower()}.>"], allow_msg_counter=True)
    rename = [
        {"name": name, "subject_transforms": [{"src": f"{name.lower()}.*", "dest": "all.$1"}]}
        for name in ("EAST", "WEST")
    ]
    place.stream("ALL", sources=rename, allow_msg_counter=True)
    for subject, increment in (("east.c", 5), ("west.c", 10), ("east.c", 2)):
        place.publish(subject, headers=header(Nats_Incr=increment))
    message = place.account.streams["ALL"].log.last(b"all.c")
    assert message is not None
    assert json.loads(message.payload) == {"val": "17"}
    seen = json.loads(block.value(message.headers, b"Nats-Counter-Sources"))
    assert seen == {"EAST": {"east.c": "7"}, "WEST": {"west.c": "10"}}


def test_a_work_queue_gives_its_messages_away() -> None:
    place = origin(retention="workqueue")
    place.stream("T", sources=[{"name": "O"}])
    put(place, "o.1", "o.2")
    place.host.pass_time(12)
    put(place, "o.3")
    place.host.pass_time(12)
    assert [subject for _, subject, _ in held(place, "T")] == ["o.1", "o.2", "o.3"]
    assert held(place, "O") == []


# -- mirrors -------------------------------------------------------------------------------------------


def test_a_mirror_has_sequences_and_times_of_its_origin() -> None:
    place = origin()
    put(place, "o.1", "o.2", "o.3")
    place.ask("STREAM.MSG.DELETE.O", {"seq": 2})
    place.host.pass_time(5)
    place.stream("M", mirror={"name": "O"})
    place.host.tick()
    put(place, "o.4")
    assert held(place, "M") == [(1, "o.1", b"o.1"), (3, "o.3", b"o.3"), (4, "o.4", b"o.4")]
    theirs, ours = place.account.streams["O"].log.read(3), place.account.streams["M"].log.read(3)
    assert ours == theirs
    info = place.ask("STREAM.INFO.M")
    assert info["mirror"] == {"name": "O", "lag": 0, "active": 0}
    assert info["state"]["num_deleted"] == 1
    assert "sources" not in info


def test_the_last_time_of_a_mirror_is_its_origins_before_and_after_a_restart(tmp_path: Path) -> None:
    place = origin(tmp_path)
    put(place, "o.1", "o.2")
    place.host.pass_time(5)
    place.stream("M", mirror={"name": "O"})
    place.host.tick()
    expected = place.ask("STREAM.INFO.O")["state"]["last_ts"]
    assert place.ask("STREAM.INFO.M")["state"]["last_ts"] == expected
    assert place.restart().ask("STREAM.INFO.M")["state"]["last_ts"] == expected


def test_a_mirror_of_what_was_purged() -> None:
    place = origin()
    put(place, "o.1", "o.2", "o.3")
    place.ask("STREAM.PURGE.O")
    place.stream("M", mirror={"name": "O"})
    place.host.tick()
    state = place.ask("STREAM.INFO.M")["state"]
    assert (state["first_seq"], state["last_seq"], state["messages"]) == (4, 3, 0)
    put(place, "o.4")
    assert held(place, "M") == [(4, "o.4", b"o.4")]


def test_a_mirror_with_a_filter_and_a_beginning() -> None:
    place = origin()
    put(place, "o.a", "o.b", "o.a", "o.b", "o.a")
    place.stream("M", mirror={"name": "O", "filter_subject": "o.a", "opt_start_seq": 2})
    place.stream("R", mirror={"name": "O", "subject_transforms": [{"src": "o.b", "dest": "r.b"}]})
    place.host.tick()
    assert held(place, "M") == [(3, "o.a", b"o.a"), (5, "o.a", b"o.a")]
    assert held(place, "R") == [(2, "r.b", b"o.b"), (4, "r.b", b"o.b")]


def test_a_mirror_goes_on_where_it_was(tmp_path: Path) -> None:
    place = origin(tmp_path)
    place.stream("M", mirror={"name": "O"})
    put(place, "o.1", "o.2")
    again = place.restart()
    put(again, "o.3")
    again.ask("STREAM.PURGE.M")
    third = again.restart()
    third.host.pass_time(1)
    assert held(third, "M") == []
    put(third, "o.4")
    assert held(third, "M") == [(4, "o.4", b"o.4")]


@pytest.mark.parametrize("copied", [{"mirror": {"name": "O"}}, {"sources": [{"name": "O"}]}], ids=repr)
@pytest.mark.parametrize("call", range(1, 9))
@pytest.mark.parametrize("failures", [1, 6])
def test_a_copy_whose_disk_fails_neither_loses_nor_repeats(
    copied: dict[str, Any], call: int, failures: int
) -> None:
    files = FaultyFileSystem(MemoryFileSystem())
    place = Place(file=memory_store(files))
    place.stream("O", subjects=["o.>"], storage="memory")
    place.stream("M", **copied)
    put(place, "o.1", "o.2")
    files.fail_at, files.failures = files.calls + call, failures
    put(place, "o.3", "o.4", "o.5")
    files.fail_at = 0
    put(place, "o.6")
    place.host.pass_time(10)

    assert held(place, "M") == held(place, "O")


@pytest.mark.parametrize("copied", [{"mirror": {"name": "O"}}, {"sources": [{"name": "O"}]}], ids=repr)
@pytest.mark.parametrize(
    "removes",
    [{"allow_rollup_hdrs": True}, {"max_msgs": 2}, {"max_bytes": 45}, {"retention": "interest"}],
    ids=repr,
)
@pytest.mark.parametrize("failures", [1, 6])
def test_a_copy_that_removes_messages_neither_loses_nor_repeats(
    copied: dict[str, Any], removes: dict[str, Any], failures: int
) -> None:
    """A removal may fail after the append, and the copy of one message while the next is looked at."""

    rollup = header(Nats_Rollup="sub") if "allow_rollup_hdrs" in removes else b""

    def play(call: int) -> tuple[int, list[tuple[int, str, bytes]]]:
        files = FaultyFileSystem(MemoryFileSystem())
        place = Place(file=memory_store(files))
        place.stream("O", subjects=["o.>"], storage="memory", allow_rollup_hdrs=True)
        place.stream("M", **copied, **removes)
        if "retention" in removes:
            place.consumer("M", "c", filter_subject="o.1")
        put(place, "o.1", "o.2", "o.1")
        begun = files.calls
        files.fail_at, files.failures = begun + call if call else 0, failures
        place.host.put(b"o.1", b"o.1")
        place.host.put(b"o.2", b"rolled up", headers=rollup)
        place.host.put(b"o.1", b"last")
        place.host.tick()
        files.fail_at, calls = 0, files.calls - begun
        put(place, "o.2")
        place.host.pass_time(10)
        return calls, held(place, "M")

    calls, expected = play(0)
    for call in range(1, calls + 1):
        assert play(call)[1] == expected, call


class SlowFor(HeldCommitter):
    """Commits at once, but one log when a test says so."""

    slow: MessageLog | None = None

    def request(self, log: MessageLog, done: Callable[[StorageError | None], None]) -> None:
        if log is self.slow:
            super().request(log, done)
        else:
            done(None)


def test_a_source_is_held_up_by_a_write_that_fails_while_others_wait_for_their_sync() -> None:
    files, committer = FaultyFileSystem(MemoryFileSystem()), SlowFor()
    place = Place(file=memory_store(files), committer=committer)
    place.stream("O", subjects=["o.>"], storage="memory")
    place.stream("T", sources=[{"name": "O"}])
    committer.slow = place.account.streams["T"].log
    put(place, "o.1")
    files.fail_at = files.calls + 1
    put(place, "o.2")
    files.fail_at = 0
    put(place, "o.3", "o.4")
    committer.slow = None
    committer.commit()
    place.host.pass_time(10)

    assert held(place, "T") == held(place, "O")


def test_nothing_of_a_source_overtakes_what_its_account_has_no_room_for() -> None:
    place = Place(file=memory_store(), limits=AccountLimits(max_storage=800))
    place.stream("O", subjects=["o.>"], storage="memory")
    place.stream("T", sources=[{"name": "O"}])
    place.stream("U", subjects=["u"])
    place.publish("u", bytes(500))
    for payload in (b"1", bytes(400), b"3"):
        place.host.put(b"o.a", payload)
    place.host.tick()
    assert [payload for *_, payload in held(place, "T")] == [b"1"]
    (info,) = sources(place)
    assert (info["lag"], info["error"]["err_code"]) == (2, 10002)
    place.ask("STREAM.PURGE.U")
    place.host.pass_time(3)
    assert held(place, "T") == held(place, "O")


def test_what_was_taken_before_a_refusal_is_not_taken_again_by_a_restart(tmp_path: Path) -> None:
    place = origin(tmp_path)
    place.stream("T", sources=[{"name": "O"}], max_msgs=2, discard="new")
    for number in range(3):
        place.host.put(b"o.%d" % number, b"")
    place.host.tick()
    assert [subject for _, subject, _ in held(place, "T")] == ["o.0", "o.1"]
    place.ask("STREAM.PURGE.T")
    again = place.restart()
    again.host.pass_time(3)
    assert [subject for _, subject, _ in held(again, "T")] == ["o.2"]


def test_what_was_purged_of_one_source_does_not_come_back_while_another_has_nothing(tmp_path: Path) -> None:
    place = origin(tmp_path)
    place.stream("T", sources=[{"name": "O"}, {"name": "P"}])
    put(place, "o.1", "o.2", "o.3")
    place.ask("STREAM.PURGE.T", {"filter": "o.3"})
    again = place.restart()
    again.host.pass_time(3)
    assert [subject for _, subject, _ in held(again, "T")] == ["o.1", "o.2"]


def test_a_late_sync_says_nothing_of_another_stream_of_the_origins_name() -> None:
    files, committer = MemoryFileSystem(), SlowFor()
    place = Place(file=memory_store(files), committer=committer)
    place.stream("O", subjects=["o.>"])
    place.stream("T", sources=[{"name": "O"}])
    committer.slow = place.account.streams["T"].log
    put(place, "o.1", "o.2", "o.3")
    place.ask("STREAM.DELETE.O")
    place.host.pass_time(1)
    place.stream("O", subjects=["o.>"])
    place.host.pass_time(3)
    committer.slow = None
    committer.commit()
    place.ask("STREAM.PURGE.T")
    place.account.stop()
    place.file.close()
    again = Place(file=memory_store(files))
    put(again, "o.4")
    again.host.pass_time(3)
    assert [subject for _, subject, _ in held(again, "T")] == ["o.4"]


def test_a_mirror_keeps_messages_without_their_conditions() -> None:
    place = origin(allow_atomic=True)
    place.stream("M", mirror={"name": "O"})
    put(place, "o.1", Nats_Expected_Stream="O", Nats_Msg_Id="m", A="1")
    message = place.account.streams["M"].log.read(1)
    assert message is not None
    assert message.headers == header(Nats_Msg_Id="m", A="1")


def test_a_mirror_is_held_up_by_a_message_that_is_too_large_for_it_and_says_so() -> None:
    place = origin()
    put(place, "o.1", "o.2", "o.three", "o.4")
    place.stream("M", mirror={"name": "O"}, max_msg_size=4)
    place.host.tick()
    assert [sequence for sequence, *_ in held(place, "M")] == [1, 2]
    info = place.ask("STREAM.INFO.M")["mirror"]
    assert (info["error"]["err_code"], info["lag"]) == (10054, 2)
    config = place.ask("STREAM.INFO.M")["config"]
    assert "error" not in place.ask("STREAM.UPDATE.M", config | {"max_msg_size": -1})
    place.host.pass_time(3)
    assert [sequence for sequence, *_ in held(place, "M")] == [1, 2, 3, 4]
    info = place.ask("STREAM.INFO.M")["mirror"]
    assert "error" not in info
    assert info["lag"] == 0


def test_a_mirror_follows_its_own_rules() -> None:
    place = origin(allow_rollup_hdrs=True)
    put(place, "o.1", "o.2", "o.1")
    put(place, "o.1", Nats_Rollup="sub")
    put(place, "o.2")
    place.ask("STREAM.MSG.DELETE.O", {"seq": 2})
    mirror = {"name": "O", "opt_start_seq": 1}
    place.stream("ROLLED", mirror=mirror, allow_rollup_hdrs=True)
    place.stream("KEPT", mirror=mirror)
    place.stream("NAMED", mirror=mirror, subject_transform={"src": "o.*", "dest": "t.$1"})
    place.stream("NOBODY", mirror=mirror, retention="interest")
    place.stream("SOME", mirror=mirror, retention="interest")
    place.consumer("SOME", "c", filter_subject="o.1")
    put(place, "o.1", "o.2", "o.1")
    put(place, "o.1", Nats_Rollup="sub")
    put(place, "o.2")
    place.host.tick()

    def of(stream: str) -> list[tuple[int, str]]:
        return [(sequence, subject) for sequence, subject, _ in held(place, stream)]

    assert of("O") == [(5, "o.2"), (7, "o.2"), (9, "o.1"), (10, "o.2")]
    assert of("ROLLED") == of("O")
    subjects = {4: "o.1", 5: "o.2", 6: "o.1", 7: "o.2", 8: "o.1", 9: "o.1", 10: "o.2"}
    assert of("KEPT") == list(subjects.items())
    assert of("NAMED") == [(sequence, subject.replace("o", "t")) for sequence, subject in of("KEPT")]
    assert of("NOBODY") == []
    assert place.ask("STREAM.INFO.NOBODY")["state"]["last_seq"] == 10
    assert of("SOME") == [(6, "o.1"), (8, "o.1"), (9, "o.1")]


@pytest.mark.parametrize("described", [{"mirror": {"name": "O"}}, {"sources": [{"name": "O"}]}], ids=str)
def test_lifetimes_mean_nothing_where_they_are_not_allowed(described: dict[str, Any]) -> None:
    place = origin(allow_msg_ttl=True)
    place.stream("KEEPS", **described)
    place.stream("FOLLOWS", allow_msg_ttl=True, **described)
    put(place, "o.1", Nats_TTL="1s")
    place.host.pass_time(3)
    assert held(place, "O") == held(place, "FOLLOWS") == []
    assert held(place, "KEEPS") == [(1, "o.1", b"o.1")]
    message = place.account.streams["KEEPS"].log.read(1)
    assert message is not None
    assert block.value(message.headers, b"Nats-TTL") == b"1s"


def test_a_mirror_takes_no_publication() -> None:
    place = origin()
    place.stream("M", mirror={"name": "O"})
    assert place.raw("M", b"x") is None
    assert held(place, "M") == []


def test_a_chain_of_streams() -> None:
    place = origin()
    place.stream("M", mirror={"name": "O"})
    place.stream("T", sources=[{"name": "M"}])
    place.stream("U", sources=[{"name": "T"}])
    put(place, "o.1")
    message = place.account.streams["U"].log.read(1)
    assert message is not None
    assert block.value(message.headers, b"Nats-Stream-Source").startswith(b"T 1 > > o.1 ")


@pytest.mark.parametrize("name", ["T", "M"])
def test_what_is_not_durable_at_the_origin_is_not_taken(name: str) -> None:
    """Else a crash could leave a copy of what never was."""
    from harness.js_account import HeldCommitter

    committer = HeldCommitter()
    place = Place(committer=committer)
    for config in (
        {"name": "O", "subjects": ["o.>"]},
        {"name": "T", "sources": [{"name": "O"}]},
        {"name": "M", "mirror": {"name": "O"}},
    ):
        place.ask(f"STREAM.CREATE.{config['name']}", config)
        committer.commit()
        place.host.tick()
    place.host.put(b"o.1", b"")
    place.host.tick()
    assert held(place, name) == []
    committer.commit()
    place.host.tick()
    assert len(held(place, name)) == 1


def test_a_kill_at_any_moment_neither_loses_nor_repeats(tmp_path: Path) -> None:
    """Every step's files are copied as they are on disk: a process that is killed leaves them so."""
    place = origin(tmp_path / "live")
    place.stream("T", sources=[{"name": "O"}], subjects=["t.>"])
    place.stream("M", mirror={"name": "O"})
    for step in range(12):
        put(place, f"o.{step}")
        if step % 4 == 3:
            put(place, f"t.{step}")
        if step == 6:
            place.ask("STREAM.PURGE.T", {"keep": 2})
        left = tmp_path / f"step{step}"
        shutil.copytree(tmp_path / "live", left)
        again = Place(left)
        again.host.pass_time(1)
        put(again, "o.after")
        there = [payload for *_, payload in held(again, "O")]
        taken = [payload for _, subject, payload in held(again, "T") if subject.startswith("o.")]
        assert taken == there[len(there) - len(taken) :]
        assert len(taken) == len(there) if step < 6 else len(taken) >= step - 4
        assert held(again, "M") == held(again, "O")
        again.account.stop()
        again.file.close()
