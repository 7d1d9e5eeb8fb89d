"""Messages into a stream: what is answered, what is refused and why, what is stored once only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from js_streams import SECOND, START, World, block

from headrace.errors import StorageError
from headrace.jetstream.leadership import Leadership
from headrace.jetstream.limits import ServerSettings
from headrace.log.file import FileLog
from headrace.log.memory import MemoryLog
from headrace.log.port import Limits, NewMessage, Weights
from headrace.protocol.jetstream.configs import (
    DiscardPolicy,
    PersistMode,
    Republish,
    RetentionPolicy,
    SubjectTransformConfig,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class TestAnswers:
    def test_bytes_of_an_answer(self) -> None:
        world = World()
        world.receive((b"s.a", b"", b"x"), b"s.b")
        assert world.take() == [
            (b"r.1", b"", b'{"stream":"S","seq":1}'),
            (b"r.2", b"", b'{"stream":"S","seq":2}'),
        ]

    def test_with_a_domain(self) -> None:
        world = World(settings=ServerSettings(domain="hub"))
        world.receive(b"s.a")
        assert world.take() == [(b"r.1", b"", b'{"stream":"S","domain":"hub","seq":1}')]

    def test_bytes_of_a_refusal_and_of_a_duplicate(self) -> None:
        world = World(settings=ServerSettings(domain="hub"))
        world.receive((b"s.a", block(Nats_Expected_Stream="x<y"), b""))
        (sent,) = world.take()
        assert sent[2] == (
            b'{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},'
            b'"stream":"S","seq":0}'
        )
        world.put(Nats_Msg_Id="1")
        world.receive((b"s.a", block(Nats_Msg_Id="1"), b""))
        assert world.take() == [(b"r.1", b"", b'{"stream":"S","domain":"hub","seq":1,"duplicate": true}')]

    def test_text_of_a_client_is_escaped(self) -> None:
        world = World()
        world.put(Nats_Msg_Id='<&>"')
        world.receive((b"s.a", block(Nats_Expected_Last_Msg_Id="x"), b""))
        (sent,) = world.take()
        assert b'"wrong last msg ID: \\u003c\\u0026\\u003e\\""' in sent[2]

    def test_answers_wait_for_the_disk(self) -> None:
        world = World()
        world.account.committer.held = True
        world.receive(b"s.a", b"s.b")
        assert world.take() == []
        assert (world.stream.visible, world.stream.last_sequence) == (0, 2)
        world.account.committer.release()
        assert [answer["seq"] for answer in world.acks()] == [1, 2]
        assert world.stream.visible == 2

    def test_publications_that_wait_for_a_slow_disk_are_bounded(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headrace.jetstream.stream.ingest.MOST_UNANSWERED", 2000)
        world = World()
        world.account.committer.held = True
        world.receive((b"s.a", b"", b"x" * 1000))
        assert world.take() == []
        world.receive((b"s.a", b"", b"x" * 1000))
        assert len(world.take()) == 2
        world.account.committer.release()
        assert world.take() == []

    def test_a_disk_that_fails(self) -> None:
        world = World()
        world.account.committer.held = True
        world.receive(b"s.a")
        world.account.committer.release(StorageError("disk on fire"))
        (answer,) = world.acks()
        assert answer["error"] == {"code": 503, "err_code": 10077, "description": "disk on fire"}
        assert world.stream.visible == 0

    def test_async_persistence_does_not_wait(self) -> None:
        world = World(persist_mode=PersistMode.ASYNC)
        world.account.committer.held = True
        world.receive(b"s.a")
        assert [answer["seq"] for answer in world.acks()] == [1]
        assert world.stream.visible == 1

    def test_no_ack(self) -> None:
        world = World(no_ack=True)
        world.receive(b"s.a", (b"s.a", block(Nats_Expected_Stream="T"), b""))
        assert (world.take(), world.held()) == ([], [(1, b"s.a")])

    def test_one_turn_is_one_append(self) -> None:
        world = World()
        written = world.log.written
        world.receive(b"s.a", b"s.b", settle=False)
        world.receive((b"s.c", block(Nats_Msg_Id="1"), b""), b"s.d", settle=False)
        assert world.held() == []
        world.account.turns.settle()
        assert world.log.written == written + 1
        assert world.held() == [(1, b"s.a"), (2, b"s.b"), (3, b"s.c"), (4, b"s.d")]


class TestHeaders:
    def test_are_stored_as_sent(self) -> None:
        world = World()
        world.put(Nats_Msg_Id="1", X="y")
        message = world.log.read(1)
        assert message is not None
        assert message.headers == block(Nats_Msg_Id="1", X="y")

    def test_a_status_is_not(self) -> None:
        world = World()
        world.receive(
            (b"s.a", b"NATS/1.0 503\r\n\r\n", b""), (b"s.a", b"NATS/1.0 100 x\r\nA: b\r\n\r\n", b"")
        )
        assert [m.headers for m in world.log.read_from(1).messages] == [b"", block(A="b")]

    def test_what_the_server_added_for_a_request_is_not(self) -> None:
        world = World()
        world.put(A="b", Nats_Request_Info="{}", C="d")
        message = world.log.read(1)
        assert message is not None
        assert message.headers == block(A="b", C="d")

    def test_too_large(self) -> None:
        world = World()
        assert world.put_error(X="y" * 70_000) == (10097, "header size exceeds maximum allowed of 64k")

    def test_of_a_source_are_refused(self) -> None:
        world = World()
        assert world.put_error(Nats_Stream_Source="x 1 >") == (
            10227,
            "message stream source header is not allowed",
        )


class TestDuplicates:
    def test_the_first_counts(self) -> None:
        world = World()
        assert world.put(Nats_Msg_Id="a") == {"stream": "S", "seq": 1}
        assert world.put(Nats_Msg_Id="b") == {"stream": "S", "seq": 2}
        assert world.put(Nats_Msg_Id="a") == {"stream": "S", "seq": 1, "duplicate": True}
        assert len(world.held()) == 2

    def test_in_one_turn(self) -> None:
        world = World()
        one, two = (b"s.a", block(Nats_Msg_Id="a"), b""), (b"s.a", block(Nats_Msg_Id="b"), b"")
        world.receive(one, b"s.b", one, two, one)
        assert [(a["seq"], a.get("duplicate")) for a in world.acks()] == [
            *((1, None), (2, None), (1, True), (3, None), (1, True))
        ]

    def test_end_with_the_window(self) -> None:
        world = World(duplicate_window=10 * SECOND)
        world.put(Nats_Msg_Id="a")
        world.host.pass_time(9.9)
        assert world.put(Nats_Msg_Id="a").get("duplicate")
        world.host.pass_time(0.1)
        assert world.put(Nats_Msg_Id="a") == {"stream": "S", "seq": 2}
        assert len(world.stream.dedupe) == 1

    def test_are_remembered_over_a_purge(self) -> None:
        world = World()
        world.put(Nats_Msg_Id="a")
        assert world.stream.removal.purge() == 1
        assert world.put(Nats_Msg_Id="a") == {"stream": "S", "seq": 1, "duplicate": True}

    def test_are_remembered_over_a_restart(self) -> None:
        world = World()
        world.put(Nats_Msg_Id="old")
        world.host.pass_time(100)
        world.put(Nats_Msg_Id="new")
        world.host.pass_time(30)
        again = World(world.log)
        again.host.now = world.host.now
        assert again.stream.dedupe.last_id == b"new"
        assert again.put(Nats_Msg_Id="new") == {"stream": "S", "seq": 2, "duplicate": True}
        assert again.put(Nats_Msg_Id="old") == {"stream": "S", "seq": 3}

    @pytest.mark.parametrize("hours", [1, -1])
    def test_are_remembered_by_another_server_whose_clock_is_wrong(self, hours: int) -> None:
        """How long ago the newest message was stored is not known then: a moment ago."""
        world = World()
        world.put(Nats_Msg_Id="old")
        world.host.pass_time(150)
        world.put(Nats_Msg_Id="a")
        world.host.pass_time(60)
        world.put(Nats_Msg_Id="b")
        shared = ServerSettings(leadership=lambda: Leadership("C", "S2", is_leader=True))
        again = World(world.log, settings=shared, at_ns=world.host.now + hours * 3600 * SECOND)
        assert again.put(Nats_Msg_Id="a") == {"stream": "S", "seq": 2, "duplicate": True}
        assert again.put(Nats_Msg_Id="b") == {"stream": "S", "seq": 3, "duplicate": True}
        assert again.put(Nats_Msg_Id="old") == {"stream": "S", "seq": 4}
        if hours > 0:
            again.host.pass_time(60)
            assert again.put(Nats_Msg_Id="a") == {"stream": "S", "seq": 5}
            assert again.put(Nats_Msg_Id="b").get("duplicate")
            again.host.pass_time(60)
            assert again.put(Nats_Msg_Id="b") == {"stream": "S", "seq": 6}

    def test_a_table_that_is_full_forgets_the_oldest(self) -> None:
        world = World()
        world.stream.dedupe.most = 2
        for name in "abc":
            world.put(Nats_Msg_Id=name)
        assert len(world.stream.dedupe) == 2
        assert world.put(Nats_Msg_Id="b").get("duplicate")
        assert not world.put(Nats_Msg_Id="a").get("duplicate")

    def test_a_window_of_nothing(self) -> None:
        world = World(duplicate_window=0)
        world.put(Nats_Msg_Id="a")
        assert world.put(Nats_Msg_Id="a") == {"stream": "S", "seq": 2}


class TestExpectations:
    def test_last_sequence(self) -> None:
        world = World()
        world.put()
        assert world.put(Nats_Expected_Last_Sequence="1")["seq"] == 2
        assert world.put_error(Nats_Expected_Last_Sequence="1") == (10071, "wrong last sequence: 2")
        assert world.put_error(Nats_Expected_Last_Sequence="x") == (10071, "wrong last sequence: 2")
        assert world.put_error(Nats_Expected_Last_Sequence="-1") == (10071, "wrong last sequence: 2")

    def test_holds_for_what_came_before_in_the_same_turn(self) -> None:
        world = World()
        expecting = (b"s.a", block(Nats_Expected_Last_Sequence="2"), b"")
        world.receive(b"s.a", b"s.b", expecting, expecting, b"s.c")
        assert [a.get("error", a).get("err_code", a["seq"]) for a in world.acks()] == [1, 2, 3, 10071, 4]

    def test_last_sequence_of_a_subject(self) -> None:
        world = World()
        world.put(b"s.a")
        world.put(b"s.b")
        name: dict[str, Any] = {"Nats_Expected_Last_Subject_Sequence": "1"}
        assert world.put(b"s.a", **name)["seq"] == 3
        assert world.put_error(b"s.a", **name) == (10071, "wrong last sequence: 3")
        zero: dict[str, Any] = {"Nats_Expected_Last_Subject_Sequence": "0"}
        assert world.put(b"s.new", **zero)["seq"] == 4
        assert world.put_error(b"s.new", **zero) == (10071, "wrong last sequence: 4")
        assert world.put_error(b"s.none", **name) == (10071, "wrong last sequence: 0")

    def test_of_other_subjects(self) -> None:
        world = World()
        for subject in (b"s.x.1", b"s.x.2", b"s.y"):
            world.put(subject)
        companion = "Nats_Expected_Last_Subject_Sequence_Subject"
        number = "Nats_Expected_Last_Subject_Sequence"
        narrow: dict[str, Any] = {number: "2", companion: "s.x.*"}
        wide: dict[str, Any] = {number: "2", companion: "s.*"}
        alone: dict[str, Any] = {companion: "s.*"}
        assert world.put(b"s.z", **narrow)["seq"] == 4
        assert world.put_error(b"s.z", **wide) == (10071, "wrong last sequence: 4")
        assert world.put_error(b"s.z", **alone) == (
            10193,
            "missing sequence for expected last sequence per subject",
        )

    def test_last_id_and_stream(self) -> None:
        world = World()
        world.put(Nats_Msg_Id="a")
        assert world.put(Nats_Expected_Last_Msg_Id="a", Nats_Expected_Stream="S")["seq"] == 2
        assert world.put_error(Nats_Expected_Last_Msg_Id="a") == (10070, "wrong last msg ID: ")
        assert world.put_error(Nats_Expected_Stream="T") == (10060, "expected stream does not match")


class TestRollups:
    def test_of_a_subject(self) -> None:
        world = World(allow_rollup_hdrs=True)
        world.receive(b"s.a", b"s.b", b"s.a", (b"s.a", block(Nats_Rollup="sub"), b""), b"s.a")
        assert world.held() == [(2, b"s.b"), (4, b"s.a"), (5, b"s.a")]
        assert world.stream.epoch == 1

    def test_of_everything(self) -> None:
        world = World(allow_rollup_hdrs=True)
        world.receive(b"s.a", b"s.b", (b"s.c", block(Nats_Rollup="ALL"), b""))
        assert world.held() == [(3, b"s.c")]

    @pytest.mark.parametrize("fields", [{}, {"allow_rollup_hdrs": True, "deny_purge": True}])
    def test_not_allowed(self, fields: dict[str, Any]) -> None:
        world = World(**fields)
        assert world.put_error(Nats_Rollup="sub") == (10111, "rollup not permitted")

    def test_of_something_else(self) -> None:
        world = World(allow_rollup_hdrs=True)
        assert world.put_error(Nats_Rollup="x") == (10111, 'rollup value invalid: "x"')


class TestLimits:
    def test_a_message_that_is_too_large(self) -> None:
        world = World(max_msg_size=10)
        world.receive(
            (b"s.a", b"", b"x" * 10), (b"s.a", b"", b"x" * 11), (b"s.a", b"NATS/1.0\r\nA: b\r\n\r\n", b"")
        )
        answers = world.acks()
        assert [a.get("error", a).get("err_code", a["seq"]) for a in answers] == [1, 10054, 10054]

    def test_size_comes_before_conditions_and_after_the_seal(self) -> None:
        world = World(max_msg_size=100)
        assert world.put_error(b"s.a", b"x" * 101, Nats_Expected_Stream="T")[0] == 10054
        assert world.put_error(b"s.a", b"x" * 10, Nats_Expected_Stream="T")[0] == 10060
        world = World(sealed=True, max_msg_size=100)
        assert world.put_error(b"s.a", b"x" * 101)[0] == 10109

    def test_discard_new_refuses(self) -> None:
        world = World(max_msgs=3, discard=DiscardPolicy.NEW)
        world.receive(*[b"s.a"] * 6)
        answers = world.acks()
        assert [a["seq"] for a in answers] == [1, 2, 3, 0, 0, 0]
        assert answers[5]["error"] == {
            "code": 503,
            "err_code": 10077,
            "description": "maximum messages exceeded",
        }
        assert world.put_error() == (10077, "maximum messages exceeded")

    def test_discard_new_by_bytes_takes_what_fits(self) -> None:
        world = World(max_bytes=250, discard=DiscardPolicy.NEW)
        world.receive((b"s.a", b"", b"x" * 100), (b"s.a", b"", b"x" * 200), (b"s.a", b"", b"x" * 50))
        answers = world.acks()
        assert [a["seq"] for a in answers] == [1, 0, 2]
        assert answers[1]["error"]["description"] == "maximum bytes exceeded"

    def test_discard_new_per_subject(self) -> None:
        world = World(max_msgs_per_subject=1, discard=DiscardPolicy.NEW, discard_new_per_subject=True)
        world.receive(b"s.a", b"s.b", b"s.a", b"s.c", b"s.b")
        answers = world.acks()
        assert [a["seq"] for a in answers] == [1, 2, 0, 3, 0]
        assert answers[2]["error"]["description"] == "maximum messages per subject exceeded"

    def test_a_rollup_of_a_full_subject(self) -> None:
        world = World(
            max_msgs_per_subject=1,
            discard=DiscardPolicy.NEW,
            discard_new_per_subject=True,
            allow_rollup_hdrs=True,
        )
        world.receive(b"s.a", (b"s.a", block(Nats_Rollup="sub"), b""), b"s.a")
        assert [a["seq"] for a in world.acks()] == [1, 2, 0]
        assert world.held() == [(2, b"s.a")]

    def test_discard_old_makes_room(self) -> None:
        world = World(max_msgs=2)
        world.receive(b"s.a", b"s.b", b"s.c")
        assert world.held() == [(2, b"s.b"), (3, b"s.c")]
        assert world.stream.epoch == 1
        world.receive(b"s.d")
        assert world.stream.epoch == 2

    def test_a_message_that_is_too_large_for_all_of_the_stream(self) -> None:
        world = World(max_bytes=100)
        world.receive((b"s.a", b"", b"x" * 20), (b"s.a", b"", b"x" * 200))
        assert [a["seq"] for a in world.acks()] == [1, 2]
        assert world.held() == []
        assert world.put()["seq"] == 3

    def test_history_of_a_subject(self) -> None:
        world = World(max_msgs_per_subject=1, discard=DiscardPolicy.NEW)
        world.receive(b"s.a", b"s.b", b"s.a")
        assert world.held() == [(2, b"s.b"), (3, b"s.a")]

    def test_an_account_without_room(self) -> None:
        world = World()
        world.account.quota.room = 25
        world.receive(*[(b"s.a", b"", b"x" * 10)] * 3, (b"s.a", b"", b"x" * 30))
        answers = world.acks()
        assert [a.get("error", a).get("err_code", a["seq"]) for a in answers] == [1, 2, 3, 10002]

    def test_sealed(self) -> None:
        world = World(sealed=True)
        assert world.put_error() == (10109, "invalid operation on sealed stream")

    @pytest.mark.parametrize("taken", [0, 1, 2, 40])
    def test_a_full_log_refuses_thousands_in_a_row(self, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """With a few among them that it takes. Each is looked at a few times, however many are refused."""
        looked_at = 0
        append = MemoryLog.append

        def counting(log: MemoryLog, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
            nonlocal looked_at
            looked_at += len(batch)
            return append(log, batch, first_sequence)

        monkeypatch.setattr(MemoryLog, "append", counting)
        world = World(max_msgs=2, max_msgs_per_subject=1, discard=DiscardPolicy.NEW)
        subjects = [b"s.%d" % n for n in range(3000)]
        for n in range(taken):
            subjects[30 + n * (2900 // taken)] = b"s.1"
        world.receive(*subjects)
        sequences = [a["seq"] for a in world.acks()]
        assert sequences.count(0) == 2998 - taken
        assert [s for s in sequences if s] == list(range(1, 3 + taken))
        assert all(sequences[n] for n, subject in enumerate(subjects) if subject == b"s.1")
        assert looked_at < 10 * len(subjects)

    def test_what_a_log_takes_and_refuses_in_turns_keeps_its_order(self) -> None:
        world = World(max_msgs=2, max_msgs_per_subject=1, discard=DiscardPolicy.NEW)
        subjects = [b"s.%d" % n for n in range(5)] * 40 + [b"s.0", b"s.1"] * 100
        world.receive(*subjects)
        sequences = [a["seq"] for a in world.acks()]
        assert [bool(s) for s in sequences] == [subject in (b"s.0", b"s.1") for subject in subjects]
        assert [s for s in sequences if s] == list(range(1, 1 + 280))


class TestInterest:
    def test_without_consumers_nothing_is_kept(self) -> None:
        world = World(retention=RetentionPolicy.INTEREST)
        world.receive(b"s.a", b"s.b", (b"s.c", block(Nats_Msg_Id="x"), b""))
        assert [a["seq"] for a in world.acks()] == [1, 2, 3]
        assert world.put(Nats_Msg_Id="x") == {"stream": "S", "seq": 3, "duplicate": True}
        state = world.stream.state()
        assert (state["messages"], state["first_seq"], state["last_seq"]) == (0, 4, 3)


class TestTransformAndRepublish:
    def test_a_transform_on_the_way_in(self) -> None:
        world = World(subject_transform=SubjectTransformConfig(src="s.*", dest="t.$1"))
        world.receive(b"s.a", b"s.b.c")
        assert world.held() == [(1, b"t.a"), (2, b"s.b.c")]

    def test_republish(self) -> None:
        world = World(republish=Republish(src="s.>", dest="again.>"))
        world.receive(b"s.a", (b"s.b", block(A="b"), b"xyz"), b"s.a")
        sent = [s for s in world.take() if s[0].startswith(b"again")]
        time = b"Nats-Time-Stamp: 2023-11-14T22:13:20Z\r\n"
        first = b"Nats-Stream: S\r\nNats-Subject: s.a\r\nNats-Sequence: %d\r\n" + time
        assert sent == [
            (b"again.a", b"NATS/1.0\r\n" + first % 1 + b"Nats-Last-Sequence: 0\r\n\r\n", b""),
            (
                b"again.b",
                b"NATS/1.0\r\nA: b\r\nNats-Stream: S\r\nNats-Subject: s.b\r\nNats-Sequence: 2\r\n"
                + time
                + b"Nats-Last-Sequence: 0\r\n\r\n",
                b"xyz",
            ),
            (b"again.a", b"NATS/1.0\r\n" + first % 3 + b"Nats-Last-Sequence: 1\r\n\r\n", b""),
        ]

    def test_without_a_destination_nothing_is_changed_or_republished(self) -> None:
        world = World(republish=Republish(src=">"), subject_transform=SubjectTransformConfig(src="s.a"))
        world.receive(b"s.a")
        assert [s[0] for s in world.take()] == [b"r.1"]
        assert world.held() == [(1, b"s.a")]

    def test_republish_of_headers_only(self) -> None:
        world = World(republish=Republish(src="s.a", dest="again", headers_only=True))
        world.receive((b"s.a", b"", b"xyz"), b"s.b")
        sent = [s for s in world.take() if s[0] == b"again"]
        assert len(sent) == 1
        assert sent[0][1].endswith(b"Nats-Last-Sequence: 0\r\nNats-Msg-Size: 3\r\n\r\n")
        assert sent[0][2] == b""

    def test_republish_waits_for_the_disk(self) -> None:
        world = World(republish=Republish(src=">", dest="again.>"))
        world.account.committer.held = True
        world.receive(b"s.a")
        assert world.take() == []
        world.account.committer.release()
        assert [s[0] for s in world.take()] == [b"r.1", b"again.s.a"]


class TestTtl:
    def test_a_message_that_lives_for_a_second(self) -> None:
        world = World(allow_msg_ttl=True)
        world.put(Nats_TTL="1s")
        world.put(Nats_TTL="5")
        world.put(Nats_TTL="never")
        world.host.pass_time(1)
        assert [s for s, _ in world.held()] == [2, 3]
        world.host.pass_time(4)
        assert [s for s, _ in world.held()] == [3]
        assert world.stream.epoch == 2

    def test_not_allowed_and_malformed(self) -> None:
        world = World()
        assert world.put_error(Nats_TTL="1s") == (10166, "per-message TTL is disabled")
        assert world.put_error(Nats_TTL="x") == (10165, "invalid per-message TTL")
        world = World(allow_msg_ttl=True)
        for text in ("x", "10ms", "-1", "-5s"):
            assert world.put_error(Nats_TTL=text) == (10165, "invalid per-message TTL")

    def test_one_below_that_of_markers_is_made_longer(self) -> None:
        world = World(allow_msg_ttl=True, subject_delete_marker_ttl=60 * SECOND)
        world.put(Nats_TTL="5", A="b")
        message = world.log.read(1)
        assert message is not None
        assert message.headers == block(A="b", Nats_TTL="60")


def test_on_disk(tmp_path: Path) -> None:
    limits = Limits(weights=Weights(30, 4))
    log = FileLog(tmp_path, limits=limits, clock=lambda: START)
    world = World(log, allow_rollup_hdrs=True, max_msgs_per_subject=2)
    world.receive(b"s.a", b"s.a", b"s.b", b"s.a", (b"s.b", block(Nats_Rollup="sub", Nats_Msg_Id="x"), b"z"))
    assert world.held() == [(2, b"s.a"), (4, b"s.a"), (5, b"s.b")]
    held = world.stream.state()["bytes"]
    assert held == 3 * 30 + 9 + 4 + len(block(Nats_Rollup="sub", Nats_Msg_Id="x")) + 1
    log.close()
    log = FileLog(tmp_path, limits=limits, clock=lambda: START)
    assert log.opened_from_checkpoint
    again = World(log, allow_rollup_hdrs=True)
    assert again.stream.state()["bytes"] == held
    assert again.put(Nats_Msg_Id="x") == {"stream": "S", "seq": 5, "duplicate": True}
    assert again.put(Nats_Expected_Last_Msg_Id="x")["seq"] == 6
    log.close()
