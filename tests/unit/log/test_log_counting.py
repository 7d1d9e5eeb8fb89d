"""Counts by sequence and filter, gone sequences, removal of many: held to what the messages say."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from log_makers import HEADERS, SMALL, START, is_sound, message, pages, put

from headrace.errors import LogFull
from headrace.log.file import FileLog
from headrace.log.memory import MemoryLog
from headrace.log.port import Limits, LogDiscard, NewMessage, Weights
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Set
    from pathlib import Path

    from log_makers import Maker

    from headrace.log.port import MessageLog

SUBJECTS = [b"a", b"a.b", b"a.c", b"b.c.d", b"x"]
FILTERS: list[tuple[bytes, ...]] = [
    *((), (b"a",), (b"a.>",), (b"a.*", b"a.b"), (b"none",), (b"none.>",), (b">",)),
    *((b"a.b", b"b.c.d"), (b"a", b"a.c", b"x"), (b"*.*", b"*.*.*")),
]


def _expected(log: MessageLog, sequence: int, filters: tuple[bytes, ...]) -> int:
    held = [m for m in pages(log, 1) if m.sequence >= sequence]
    return sum(not filters or any(matches(f, m.subject) for f in filters) for m in held)


def _check(log: MessageLog, *, left_out: Set[int] = frozenset()) -> None:
    state = log.state()
    for sequence in {0, 1, state.first_sequence, 7, 20, 33, state.last_sequence, state.last_sequence + 5}:
        for filters in FILTERS:
            assert log.count_from(sequence, filters) == _expected(log, sequence, filters), (sequence, filters)
    newest = {m.subject: m.sequence for m in pages(log, 1)}
    for pattern in [*SUBJECTS, b"a.*", b">", b"none", b"a..b"]:
        matching = [s for subject, s in newest.items() if matches(pattern, subject)]
        assert log.last_of(pattern) == max(matching, default=0)
        totals = Counter(m.subject for m in pages(log, 1) if matches(pattern, m.subject))
        assert dict(log.totals(pattern)) == totals
    held = {m.sequence for m in pages(log, 1)}
    had = {*range(1, state.last_sequence + 1)} - left_out
    assert set(log.absent(sorted(had))) == had - held
    whole = [s for s in range(state.first_sequence, state.last_sequence + 1) if s not in held]
    found: list[int] = []
    at = 0
    while at <= state.last_sequence:
        some, at = log.gone(at, 3)
        found += some
    assert found == whole
    assert len(whole) == state.deleted
    assert log.gone(0) == (whole, state.last_sequence + 1)


class TestCounts:
    def test_an_empty_log_has_nothing(self, make: Maker) -> None:
        log = make()
        assert log.count_from(0) == log.count_from(1, [b">"]) == log.count_from(9, [b"a"]) == 0
        assert log.gone(1) == ([], 1)
        put(log, b"a")
        log.purge()
        assert log.count_from(0) == log.count_from(0, [b"a"]) == 0
        assert log.gone(0) == ([], 2)

    @pytest.mark.parametrize("seed", range(4))
    def test_counts_are_those_of_the_messages(self, make: Maker, seed: int) -> None:
        random = Random(seed)
        log = make()
        for _ in range(8):
            log.append([message(random.choice(SUBJECTS), b"x" * random.randrange(90)) for _ in range(6)])
            log.delete(random.randrange(1, 40))
            log.remove(random.sample(range(1, 50), 3))
            _check(log)
        log.purge(b"a.*", up_to=25)
        _check(make.reopen(log))

    def test_sequences_that_were_left_out_are_gone_and_not_counted(self, make: Maker) -> None:
        log = make()
        put(log, b"a", b"a.b")
        log.append([message(b"a"), message(b"a.c")], 10)
        log.append([], 15)
        log.append([message(b"x")])
        left_out = {*range(3, 10), *range(12, 15)}
        _check(log, left_out=left_out)
        assert log.gone(1) == ([3, 4, 5, 6, 7, 8, 9, 12, 13, 14], 16)
        log.remove([2, 10])
        _check(make.reopen(log), left_out=left_out)

    def test_limits_that_remove_are_seen(self, make: Maker) -> None:
        log = make(Limits(max_messages=12, max_messages_per_subject=3))
        for n in range(40):
            put(log, SUBJECTS[n % 5], payload=b"y" * 50)
        _check(log)


class TestWeights:
    WEIGHTS = Weights(10, 3)

    def test_are_what_messages_count_for(self, make: Maker) -> None:
        log = make(Limits(max_bytes=100, weights=self.WEIGHTS))
        log.append([NewMessage(b"a", b"x" * 9), NewMessage(b"a", b"x" * 5, b"", HEADERS)])
        assert log.state().bytes == 10 + 10 + 10 + 3 + 6 + len(HEADERS)
        log = make.reopen(log)
        assert log.state().bytes == 10 + 10 + 10 + 3 + 6 + len(HEADERS)
        log.append([NewMessage(b"b", b"x" * 34)])
        assert [m.sequence for m in pages(log, 1)] == [2, 3]
        assert log.purge(b"a") == 1
        assert log.state().bytes == 10 + 35
        is_sound(log)

    def test_refuse_by_them(self, make: Maker) -> None:
        log = make(Limits(max_bytes=40, discard=LogDiscard.NEW, weights=self.WEIGHTS))
        log.append([NewMessage(b"a", b"x" * 9), NewMessage(b"a", b"x" * 9)])
        with pytest.raises(LogFull):
            log.append([NewMessage(b"a", b"")])

    def test_stay(self, make: Maker) -> None:
        log = make(Limits(weights=self.WEIGHTS))
        with pytest.raises(ValueError, match="as it did when it was opened"):
            log.limits = Limits()
        log.limits = Limits(max_messages=1, weights=self.WEIGHTS)

    def test_of_a_log_that_was_counted_otherwise(self, tmp_path: Path) -> None:
        log = FileLog(tmp_path, clock=lambda: START)
        log.append([message(b"a")] * 3)
        log.close()
        again = FileLog(tmp_path, clock=lambda: START, limits=Limits(weights=self.WEIGHTS))
        assert not again.opened_from_checkpoint
        assert again.state().bytes == 3 * 12
        again.close()
        again = FileLog(tmp_path, clock=lambda: START, limits=Limits(weights=self.WEIGHTS))
        assert again.opened_from_checkpoint
        again.close()


class TestRemove:
    def test_removes_what_is_there(self, make: Maker) -> None:
        log = make()
        put(log, *[b"a", b"b"] * 100)

        assert log.remove([1, 2, 3, 3, 50, 199, 0, 500, -1]) == 5
        assert log.remove([3, 50]) == 0
        assert log.remove([]) == 0

        log = make.reopen(log)
        state = log.state()
        assert (state.messages, state.first_sequence, state.deleted) == (195, 4, 2)
        assert (log.read(50), log.count_from(1, [b"b"])) == (None, 98)
        is_sound(log)

    def test_everything(self, make: Maker) -> None:
        log = make()
        put(log, *[b"a"] * 30)
        assert log.remove(range(1, 31)) == 30
        state = make.reopen(log).state()
        assert (state.messages, state.first_sequence, state.last_sequence) == (0, 31, 30)

    def test_more_than_one_write(self, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headrace.log.file.PURGED_AT_ONCE", 7)
        log = make()
        put(log, *[b"a"] * 60)
        assert log.remove(range(1, 61, 2)) == 30
        assert [m.sequence for m in pages(make.reopen(log), 1)] == list(range(2, 61, 2))


def test_a_damaged_message_is_neither_counted_nor_gone(tmp_path: Path) -> None:
    log = FileLog(tmp_path, segment_bytes=SMALL, clock=lambda: START)
    log.append([NewMessage(b"a", bytes([65 + n]) * 40) for n in range(20)])
    log.close()
    (segment,) = tmp_path.glob("*.log")
    data = bytearray(segment.read_bytes())
    at = data.index(b"F" * 40)
    data[at] ^= 1
    segment.write_bytes(data)
    (tmp_path / "checkpoint").unlink()

    log = FileLog(tmp_path, segment_bytes=SMALL, clock=lambda: START)

    assert log.state().damaged == (6,)
    assert (log.count_from(1), log.count_from(5), log.count_from(7), log.gone(1)) == (19, 15, 14, ([], 21))
    log.delete(3)
    assert (log.count_from(1), log.count_from(6), log.gone(1)) == (18, 14, ([3], 21))
    assert log.absent([3, 6, 7]) == [3]
    log.remove(range(4, 12))
    assert log.gone(1, 3) == ([3, 4, 5], 6)
    assert log.gone(6, 2) == ([7, 8], 9)
    log.remove(range(12, 21))
    assert log.gone(5, 2) == ([5, 7], 8)
    assert log.gone(6, 4) == ([7, 8, 9, 10], 11)
    log.close()


def test_in_memory_many_gone_sequences_are_given_in_pages() -> None:
    log = MemoryLog(clock=lambda: START)
    log.append([message(b"a")])
    log.append([message(b"a")], 1 << 40)
    assert log.gone(0, 4) == ([2, 3, 4, 5], 6)
    assert log.gone((1 << 40) - 2, 4) == ([(1 << 40) - 2, (1 << 40) - 1], (1 << 40) + 1)
