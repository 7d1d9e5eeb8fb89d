"""What every log does, run over the log in memory and the log in files; limits have a file of their own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from log_makers import HEADERS, SECOND, START, is_sound, message, pages, put, sequences

from headrace.engine.messages import NewMessages
from headrace.errors import LogClosed, LogError, MessageTooLarge
from headrace.log.port import LARGEST_SEQUENCE as LARGEST
from headrace.log.port import (
    LARGEST_TIME,
    LONGEST_SUBJECT,
    NewMessage,
    StoredMessage,
    SubjectState,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from log_makers import Clock, Maker

    from headrace.log.port import MessageLog


class TestAppendAndRead:
    def test_new_log_is_empty_and_starts_at_one(self, make: Maker) -> None:
        log = make()
        state = log.state()

        assert (state.messages, state.bytes, state.first_sequence, state.last_sequence) == (0, 0, 1, 0)
        assert (state.first_time_ns, state.last_time_ns, state.deleted, state.subjects) == (0, 0, 0, 0)
        assert state.damaged == ()
        assert log.read(1) is None
        assert log.last() is None
        assert log.last(b"a") is None
        assert log.next_expiry() is None
        assert list(log.subjects()) == []
        assert log.read_from(1) == ([], 1, [])
        assert log.sequence_at(0) == 1
        assert (log.purge(), log.expire(START), log.delete(1)) == (0, 0, False)

    def test_every_part_comes_back_as_it_was(self, make: Maker) -> None:
        log = make()

        first = log.append([NewMessage(b"a.b", b"\x00\xff\r\n", b"_INBOX.1", HEADERS, START + 5)])

        assert first == 1
        expected = StoredMessage(1, START + 5, b"a.b", b"_INBOX.1", HEADERS, b"\x00\xff\r\n")
        assert log.read(1) == log.last() == expected
        assert log.read_from(1) == ([expected], 2, [])

    def test_appends_take_a_batch_as_it_is_or_leave_it_alone(self, make: Maker) -> None:
        log = make()
        appends = log.appends
        sizes = []
        for n in range(1, 50):
            batch = NewMessages(NewMessage, [NewMessage(b"s", b"%d" % n, headers=HEADERS, time_ns=START + n)])
            before = log.state()
            first = appends.append(batch)
            if not first:
                assert log.state() == before
                first = log.append(batch)
            assert first == n
            sizes.append(log.size)

        assert log.appends is appends
        assert [m.payload for m in log.read_from(1).messages] == [b"%d" % n for n in range(1, 50)]
        assert sizes == sorted(set(sizes))

    def test_appends_leave_everything_to_a_log_that_is_closed(self, make: Maker) -> None:
        log = make()
        put(log, b"s")
        batch = NewMessages(NewMessage, [NewMessage(b"s", b"more")])
        log.close()

        assert log.appends.append(batch) == 0
        with pytest.raises(LogClosed):
            log.append(batch)

    @pytest.mark.parametrize("payload", [b"", b"x", b"\x00" * 70_000, bytes(range(256)) * 8192])
    def test_payloads_of_any_size(self, make: Maker, payload: bytes) -> None:
        log = make()
        put(log, b"a", payload=payload)

        stored = make.reopen(log).read(1)

        assert stored is not None
        assert stored.payload == payload

    def test_a_batch_has_consecutive_sequences_and_one_time(self, make: Maker, clock: Clock) -> None:
        log = make()
        put(log, b"a")
        clock.now += 7

        first = log.append([message(b"b", bytes([n])) for n in range(100)])

        assert first == 2
        held = pages(log, 2)
        assert [m.sequence for m in held] == list(range(2, 102))
        assert [m.payload[0] for m in held] == list(range(100))
        assert {m.time_ns for m in held} == {clock.now}
        is_sound(log)

    def test_an_empty_batch_changes_nothing(self, make: Maker) -> None:
        log = make()
        put(log, b"a")
        before, written = log.state(), log.written

        assert log.append([]) == 2

        assert (log.state(), log.written) == (before, written)

    def test_odd_subjects_are_stored_and_found_by_no_filter(self, make: Maker) -> None:
        log = make()
        odd = [b"", b"a..b", b".", b"a."]
        put(log, *odd)

        assert [m.subject for m in pages(make.reopen(log))] == odd

    @pytest.mark.parametrize("subject", [b"a..b", b"", b".a"])
    def test_a_subject_with_an_empty_token_matches_nothing(self, make: Maker, subject: bytes) -> None:
        log = make()
        put(log, subject)

        for asked in (b">", subject, b"*.*.*", b"*"):
            assert sequences(log, filters=[asked]) == []
            assert log.last(asked) is None
            assert list(log.subjects(asked)) == []
            assert log.purge(asked) == 0
        assert log.state().subjects == 1
        assert log.purge() == 1

    @pytest.mark.parametrize("sequence", [0, -1, 4, LARGEST, 1 << 63, 1 << 64])
    def test_sequences_that_are_not_there(self, make: Maker, sequence: int) -> None:
        log = make()
        put(log, b"a", b"a", b"a")

        assert log.read(sequence) is None
        assert not log.delete(sequence)

    def test_times_never_go_back(self, make: Maker, clock: Clock) -> None:
        log = make()
        times = [START + 10, START + 5, 0, START + 11]
        for time_ns in times:
            log.append([message(time_ns=time_ns)])

        assert [m.time_ns for m in pages(log)] == [START + 10, START + 10, START + 10, START + 11]
        clock.now = START - SECOND
        log = make.reopen(log)
        put(log, b"a")
        assert pages(log, 5)[0].time_ns == START + 11
        assert log.state().last_time_ns == START + 11

    @pytest.mark.parametrize(
        "wrong", [{"time_ns": -1}, {"ttl_ns": -1}, {"time_ns": LARGEST_TIME + 1}, {"ttl_ns": 1 << 64}]
    )
    def test_impossible_times_are_refused_with_the_whole_batch(
        self, make: Maker, wrong: dict[str, int]
    ) -> None:
        log = make()

        with pytest.raises(ValueError, match="negative"):
            log.append([message(), message(**wrong)])

        assert log.state().last_sequence == 0

    def test_the_longest_subject(self, make: Maker) -> None:
        log = make()
        longest = b"s" * LONGEST_SUBJECT
        log.append([message(longest, reply=longest)])

        for wrong in (message(longest + b"s"), message(reply=longest + b"r")):
            with pytest.raises(MessageTooLarge):
                log.append([message(), wrong])

        assert [(m.subject, m.reply) for m in pages(make.reopen(log))] == [(longest, longest)]

    def test_a_ttl_beyond_all_times(self, make: Maker) -> None:
        log = make()
        log.append([message(ttl_ns=LARGEST_TIME)])

        log = make.reopen(log)

        assert log.expire(START + 10**6 * SECOND) == 0
        assert sequences(log) == [1]

    def test_what_is_appended_is_read_at_once(self, make: Maker) -> None:
        log = make()
        for n in range(1, 50):
            put(log, b"a", payload=b"%d" % n)
            stored = log.read(n)
            assert stored is not None
            assert stored.payload == b"%d" % n
            assert log.last() == stored

    def test_everything_is_there_after_reopening(self, make: Maker) -> None:
        log = make()
        for n in range(200):
            log.append([message(b"s.%d" % (n % 7), b"p" * n, reply=b"r", headers=HEADERS)])
        before, state = pages(log), log.state()

        log = make.reopen(log)

        assert pages(log) == before
        assert log.state() == state
        assert put(log, b"a") == 201
        is_sound(log)


class TestGaps:
    def test_a_later_first_sequence_leaves_a_gap(self, make: Maker) -> None:
        log = make()
        put(log, b"a")

        assert log.append([message(), message()], 1_000_000_000_000) == 1_000_000_000_000

        assert sequences(log) == [1, 1_000_000_000_000, 1_000_000_000_001]
        assert log.read(2) is None
        assert log.state().deleted == 1_000_000_000_001 - 3
        log = make.reopen(log)
        assert sequences(log) == [1, 1_000_000_000_000, 1_000_000_000_001]
        assert put(log, b"a") == 1_000_000_000_002
        is_sound(log)

    def test_the_next_sequence_may_be_named(self, make: Maker) -> None:
        log = make()

        assert [log.append([message()], 1), log.append([message()], 2)] == [1, 2]
        assert log.state().deleted == 0

    def test_a_log_may_start_late(self, make: Maker) -> None:
        log = make()
        log.append([message()], 500)

        state = make.reopen(log).state()

        assert (state.first_sequence, state.last_sequence, state.deleted) == (500, 500, 0)

    @pytest.mark.parametrize("first", [1, 2, 3, -1])
    def test_an_earlier_first_sequence_is_refused(self, make: Maker, first: int) -> None:
        log = make()
        put(log, b"a", b"a", b"a")

        with pytest.raises(ValueError, match="sequence"):
            log.append([message()], first)

        assert log.state().messages == 3

    def test_an_empty_batch_moves_the_last_sequence(self, make: Maker) -> None:
        log = make()
        put(log, b"a")

        assert log.append([], 10) == 10

        assert log.state().last_sequence == 9
        log = make.reopen(log)
        assert log.state().last_sequence == 9
        assert log.state().first_sequence == 1
        assert put(log, b"a") == 10

    def test_an_empty_log_can_start_late(self, make: Maker) -> None:
        log = make()
        log.append([], 10)

        log = make.reopen(log)

        assert (log.state().first_sequence, log.state().last_sequence) == (10, 9)
        assert put(log, b"a") == 10

    def test_sequences_end(self, make: Maker) -> None:
        log = make()
        log.append([message()], LARGEST - 1)

        with pytest.raises(LogError, match="sequence"):
            log.append([message(), message()])

        assert put(log, b"a") == LARGEST
        assert sequences(log, LARGEST - 5) == [LARGEST - 1, LARGEST]
        with pytest.raises(LogError, match="sequence"):
            log.append([message()])


class TestPages:
    @pytest.fixture
    def log(self, make: Maker) -> MessageLog:
        """a b c a b c … 1 to 30, in appends of 3."""
        log = make()
        for n in range(10):
            log.append([message(s, b"%d" % n) for s in (b"x.a", b"x.b", b"y.c")])
        return log

    def test_max_messages(self, log: MessageLog) -> None:
        page = log.read_from(5, max_messages=4)

        assert [m.sequence for m in page.messages] == [5, 6, 7, 8]
        assert page.next_sequence == 9
        assert sequences(log, max_messages=7) == list(range(1, 31))

    def test_max_bytes_counts_as_size_of(self, log: MessageLog) -> None:
        two = size_of(message(b"x.a")) * 2

        assert [m.sequence for m in log.read_from(1, max_bytes=two).messages] == [1, 2]
        assert [m.sequence for m in log.read_from(1, max_bytes=two - 1).messages] == [1]
        assert sequences(log, max_bytes=two) == list(range(1, 31))

    @pytest.mark.parametrize("bounds", [{"max_bytes": 1}, {"max_messages": 1}])
    def test_one_message_at_least(self, log: MessageLog, bounds: dict[str, int]) -> None:
        page = log.read_from(3, **bounds)  # type: ignore[arg-type]

        assert [m.sequence for m in page.messages] == [3]
        assert page.next_sequence == 4

    def test_up_to_is_not_included(self, log: MessageLog) -> None:
        page = log.read_from(5, up_to=8)

        assert [m.sequence for m in page.messages] == [5, 6, 7]
        assert page.next_sequence == 8
        assert log.read_from(8, up_to=8) == ([], 8, [])
        assert log.read_from(9, up_to=8) == ([], 9, [])
        assert log.read_from(29, up_to=1000).next_sequence == 31

    def test_the_end(self, log: MessageLog) -> None:
        assert log.read_from(30).next_sequence == 31
        assert log.read_from(31) == ([], 31, [])
        assert log.read_from(500) == ([], 500, [])

    def test_before_the_first(self, log: MessageLog) -> None:
        log.purge(up_to=28)

        assert sequences(log, 0) == sequences(log, 1) == sequences(log, 27) == [28, 29, 30]

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            ([b"x.a"], [1, 4, 7]),
            ([b"x.*"], [1, 2, 4, 5, 7, 8]),
            ([b"*.c"], [3, 6, 9]),
            ([b"y.>", b"x.a"], [1, 3, 4, 6, 7, 9]),
            ([b"x.a", b"x.b"], [1, 2, 4, 5, 7, 8]),
            ([b">", b"x.>", b"x.a"], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
            ([b"x"], []),
            ([b"x.a.b"], []),
            ([b""], []),
            ([b"x.a", b"x.a"], [1, 4, 7]),
            ([b">.a"], []),
        ],
    )
    def test_filters(self, log: MessageLog, filters: list[bytes], expected: list[int]) -> None:
        log.purge(up_to=None, keep=30)
        assert sequences(log, 1, filters, up_to=10) == expected
        assert sequences(log, 1, filters, up_to=10, max_messages=1) == expected
        assert sequences(log, 1, filters, up_to=10, max_bytes=1) == expected

    def test_a_filter_that_matches_nothing_gets_to_the_end(self, make: Maker) -> None:
        log = make()
        for _ in range(60):
            log.append([message()] * 200)
        put(log, b"rare.x", b"a")

        assert sequences(log, filters=[b"rare.*"]) == [12001]
        assert sequences(log, filters=[b"rare.x"]) == [12001]
        assert sequences(log, filters=[b"none.*", b"none"]) == []

    def test_wildcards_in_stored_subjects_are_letters(self, make: Maker) -> None:
        log = make()
        put(log, b"a.*", b"a.>", b"a.b")

        assert sequences(log, filters=[b"a.*"]) == [1, 2, 3]
        assert sequences(log, filters=[b"a.b"]) == [3]

    def test_reading_goes_on_while_appending_and_removing(self, log: MessageLog) -> None:
        page = log.read_from(1, max_messages=10)
        log.purge(up_to=15)
        put(log, b"z")

        assert [m.sequence for m in pages(log, page.next_sequence)] == list(range(15, 32))
        assert [m.payload for m in page.messages[:3]] == [b"0"] * 3


class TestByTimeAndSubject:
    def test_sequence_at(self, make: Maker, clock: Clock) -> None:
        log = make()
        for _ in range(300):
            clock.now += SECOND
            log.append([message(), message()])

        def at(seconds: float) -> int:
            return log.sequence_at(START + int(seconds * SECOND))

        assert [at(0), at(1), at(1.5), at(2), at(300), at(300.5)] == [1, 1, 3, 3, 599, 601]
        assert [at(n) for n in range(1, 300)] == list(range(1, 599, 2))
        assert log.sequence_at(0) == 1
        log.delete(3)
        assert at(2) == 4
        log.delete(4)
        assert at(2) == 5
        log.purge(up_to=11)
        assert at(0) == at(3) == 11
        log.purge()
        assert at(0) == 601

    def test_last_by_subject(self, make: Maker) -> None:
        log = make()
        put(log, b"a.x", b"b.y", b"a.y", b"c")

        def last(subject: bytes) -> int:
            return found.sequence if (found := log.last(subject)) else 0

        asked = (b"a.x", b"a.*", b"*.y", b"b.>", b">", b"*", b"d")
        assert [last(s) for s in asked] == [1, 3, 3, 2, 4, 4, 0]
        log.delete(3)
        assert [last(s) for s in asked] == [1, 1, 2, 2, 4, 4, 0]
        log.delete(4)
        assert [last(s) for s in asked] == [1, 1, 2, 2, 2, 0, 0]
        log = make.reopen(log)
        assert [last(s) for s in asked] == [1, 1, 2, 2, 2, 0, 0]

    def test_subjects_with_counts(self, make: Maker) -> None:
        log = make()
        put(log, b"a.x", b"b", b"a.x", b"a.y", b"a.x")

        assert dict(log.subjects()) == {
            b"a.x": SubjectState(3, 1, 5),
            b"b": SubjectState(1, 2, 2),
            b"a.y": SubjectState(1, 4, 4),
        }
        assert dict(log.subjects(b"a.*")).keys() == {b"a.x", b"a.y"}
        assert dict(log.subjects(b"b")).keys() == {b"b"}
        assert list(log.subjects(b"c")) == []
        log.delete(5)
        log.delete(2)
        assert dict(log.subjects()) == {b"a.x": SubjectState(2, 1, 3), b"a.y": SubjectState(1, 4, 4)}
        log.delete(1)
        assert dict(make.reopen(log).subjects())[b"a.x"] == SubjectState(1, 3, 3)

    def test_subjects_may_be_walked_while_the_log_changes(self, make: Maker) -> None:
        log = make()
        put(log, b"a", b"b", b"c")
        seen = set()

        for n, (subject, _) in enumerate(log.subjects()):
            seen.add(subject)
            put(log, b"new.%d" % n)
            log.purge(subject)

        assert seen <= {b"a", b"b", b"c"} | {b"new.%d" % n for n in range(100)}
        assert {b"a", b"b", b"c"} <= seen
        is_sound(log)

    def test_many_subjects(self, make: Maker) -> None:
        log = make()
        log.append([message(b"s.%d" % n) for n in range(5000)])
        log.append([message(b"s.%d" % n) for n in range(0, 5000, 2)])

        assert log.state().subjects == 5000
        assert dict(log.subjects(b"s.4998")) == {b"s.4998": SubjectState(2, 4999, 7500)}
        assert sequences(log, filters=[b"s.4998"]) == [4999, 7500]
        assert log.purge(b"s.4998") == 2
        log = make.reopen(log)
        assert log.state().subjects == 4999
        is_sound(log)


class TestDelete:
    @pytest.mark.parametrize("erase", [False, True])
    def test_once(self, make: Maker, erase: bool) -> None:
        log = make()
        put(log, *[b"a"] * 5)

        assert log.delete(3, erase=erase)

        assert not log.delete(3, erase=erase)
        assert log.read(3) is None
        assert sequences(log) == [1, 2, 4, 5]
        log = make.reopen(log)
        assert sequences(log) == [1, 2, 4, 5]
        assert not log.delete(3, erase=erase)
        is_sound(log)

    def test_first_and_last(self, make: Maker) -> None:
        log = make()
        put(log, *[b"a"] * 5)
        log.delete(1)
        log.delete(2)
        log.delete(5)

        state = log.state()

        assert (state.first_sequence, state.last_sequence, state.messages, state.deleted) == (3, 5, 2, 1)
        assert log.last().sequence == 4  # type: ignore[union-attr]
        assert put(make.reopen(log), b"a") == 6

    @pytest.mark.parametrize("erase", [False, True])
    @pytest.mark.parametrize("order", [range(1, 41), range(40, 0, -1), [*range(1, 41, 2), *range(2, 41, 2)]])
    def test_all_one_by_one(self, make: Maker, order: list[int], erase: bool) -> None:
        log = make()
        for n in range(40):
            put(log, b"s.%d" % (n % 3), payload=b"p" * 200)

        for n in order:
            assert log.delete(n, erase=erase)
            is_sound(log)

        state = make.reopen(log).state()
        assert (state.messages, state.bytes, state.first_sequence, state.last_sequence) == (0, 0, 41, 40)
        assert state.subjects == 0
        assert state.last_time_ns == START


class TestPurge:
    @pytest.fixture
    def log(self, make: Maker) -> MessageLog:
        log = make()
        put(log, b"a.x", b"b", b"a.y", b"b", b"a.x", b"b", b"a.y", b"b", b"a.x", b"b")
        return log

    @pytest.mark.parametrize(
        ("arguments", "left"),
        [
            ({}, []),
            ({"up_to": 4}, [4, 5, 6, 7, 8, 9, 10]),
            ({"up_to": 1}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            ({"up_to": 11}, []),
            ({"up_to": 1000}, []),
            ({"keep": 3}, [8, 9, 10]),
            ({"keep": 100}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            ({"up_to": 6, "keep": 2}, [4, 5, 6, 7, 8, 9, 10]),
            ({"subject": b"b"}, [1, 3, 5, 7, 9]),
            ({"subject": b"b", "up_to": 6}, [1, 3, 5, 6, 7, 8, 9, 10]),
            ({"subject": b"b", "keep": 1}, [1, 3, 5, 7, 9, 10]),
            ({"subject": b"a.*"}, [2, 4, 6, 8, 10]),
            ({"subject": b"a.*", "keep": 2}, [2, 4, 6, 7, 8, 9, 10]),
            ({"subject": b"a.*", "up_to": 6, "keep": 1}, [2, 4, 5, 6, 7, 8, 9, 10]),
            ({"subject": b">"}, []),
            ({"subject": b"none"}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ],
    )
    def test_forms(self, make: Maker, log: MessageLog, arguments: dict[str, int], left: list[int]) -> None:
        assert log.purge(**arguments) == 10 - len(left)  # type: ignore[arg-type]

        assert sequences(log) == left
        is_sound(log)
        log = make.reopen(log)
        assert sequences(log) == left
        assert log.purge(**arguments) == 0  # type: ignore[arg-type]
        is_sound(log)
        assert put(log, b"b") == 11

    def test_an_empty_log_keeps_its_last_sequence_and_time(self, make: Maker, log: MessageLog) -> None:
        log.purge()

        for _ in range(3):
            state = log.state()
            assert (state.first_sequence, state.last_sequence, state.deleted) == (11, 10, 0)
            assert (state.first_time_ns, state.last_time_ns, state.bytes) == (0, START, 0)
            assert log.read_from(1) == ([], 11, [])
            log = make.reopen(log)
        assert put(log, b"a") == 11

    def test_purging_much_again_and_again(self, make: Maker) -> None:
        log = make()
        for n in range(30):
            log.append([message(payload=b"p" * 100)] * 20)
            assert log.purge(keep=5) == (15 if n == 0 else 20)

        log = make.reopen(log)

        assert sequences(log) == [596, 597, 598, 599, 600]
        is_sound(log)


class TestLife:
    def test_written_grows_with_every_change_and_no_other_call(self, make: Maker) -> None:
        log = make()
        changes: list[Callable[[], object]] = [
            lambda: put(log, b"a", b"a", b"a", b"a"),
            lambda: log.delete(1),
            lambda: log.purge(up_to=3),
            lambda: log.purge(b"a"),
        ]
        for change in changes:
            before = log.written
            change()
            assert log.written > before
        before = log.written
        log.read(1), log.read_from(1), log.state(), log.last(), log.delete(1), log.purge(), log.sync()
        assert log.written == before

    def test_sync_returns_what_was_written(self, make: Maker) -> None:
        log = make()
        put(log, b"a")

        assert log.sync() == log.written
        put(log, b"a")
        assert log.sync() == log.written

    def test_sync_on_another_thread_while_appending(self, make: Maker) -> None:
        log = make()
        done = threading.Event()
        seen: list[int] = []

        def sync() -> None:
            while not done.is_set():
                seen.append(log.sync())

        thread = threading.Thread(target=sync)
        thread.start()
        try:
            for n in range(300):
                log.append([message(payload=b"p" * 100)] * 3)
                if n % 50 == 0:
                    log.purge(keep=10)
        finally:
            done.set()
            thread.join()

        assert seen == sorted(seen)
        assert log.sync() == log.written
        assert log.state().last_sequence == 900
        is_sound(log)

    def test_after_close_every_call_is_refused(self, make: Maker) -> None:
        log = make()
        put(log, b"a")
        log.close()
        log.close()

        calls: list[Callable[[], object]] = [
            lambda: log.append([message()]),
            lambda: log.read(1),
            lambda: log.read_from(1),
            lambda: log.sequence_at(0),
            log.last,
            lambda: list(log.subjects()),
            lambda: log.delete(1),
            log.purge,
            lambda: log.expire(0),
            log.next_expiry,
            log.state,
        ]
        for call in calls:
            with pytest.raises(LogClosed):
                call()

    def test_state_is_a_snapshot(self, make: Maker) -> None:
        log = make()
        put(log, b"a")
        before = log.state()
        put(log, b"b")

        assert before.messages == 1
        assert log.state().messages == 2
