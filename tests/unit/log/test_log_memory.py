"""What only the log in memory does: its cost, and its tables under removals in any order."""

from __future__ import annotations

import gc
from random import Random

import pytest
from log_makers import is_sound, message, put, sequences

from headrace.log.memory import SCAN, MemoryLog
from headrace.log.memory_index import BLOCK, SLACK, MessageTable, SubjectIndex
from headrace.log.port import Limits, MessageLog, StoredMessage


def stored(sequence: int, subject: bytes = b"a") -> StoredMessage:
    return StoredMessage(sequence, sequence, subject, b"", b"", b"")


def table(*sequences: int) -> MessageTable:
    made = MessageTable()
    for sequence in sequences:
        made.add(stored(sequence))
    return made


def test_it_is_a_message_log() -> None:
    log: MessageLog = MemoryLog()
    assert log.limits == Limits()


def test_close_gives_the_messages_back() -> None:
    gone = []

    class Payload(bytes):
        def __del__(self) -> None:
            gone.append(len(self))

    log = MemoryLog()
    log.append([message(payload=Payload(b"four"))])
    gc.collect()
    assert gone == []

    log.close()
    gc.collect()
    assert gone == [4]


def test_a_wildcard_read_looks_at_a_bounded_number_of_messages() -> None:
    log = MemoryLog()
    log.append([message()] * (2 * SCAN + 10))

    assert log.read_from(1, filters=[b"b.*"]) == ([], SCAN + 1, [])
    assert log.read_from(1, filters=[b"b"]) == ([], 2 * SCAN + 11, [])
    assert sequences(log, filters=[b"b.*"]) == []


class TestMessageTable:
    def test_blocks_are_dropped_with_their_last_message(self) -> None:
        messages = table(*range(1, 10 * BLOCK + 1))

        for sequence in range(1, 10 * BLOCK + 1):
            if sequence % BLOCK:
                messages.pop(sequence)
        assert (len(messages), len(messages._blocks)) == (10, 10)
        for sequence in range(BLOCK, 5 * BLOCK + 1, BLOCK):
            messages.pop(sequence)

        assert (len(messages), len(messages._blocks)) == (5, 5)
        assert messages.first() == stored(6 * BLOCK)
        assert messages.last() == stored(10 * BLOCK)

    @pytest.mark.parametrize("at", [BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 2, 2 * BLOCK + 1])
    def test_below_and_walk_at_the_borders_of_blocks(self, at: int) -> None:
        messages = table(*range(1, 3 * BLOCK + 1))

        assert messages.below(at) == at - 1
        assert [m.sequence for m in messages.walk(at)] == list(range(at, 3 * BLOCK + 1))
        found = messages.at_time(at)
        assert found is not None
        assert found.sequence == at

    def test_gaps_cost_nothing(self) -> None:
        messages = table(1, 10**15, 10**18)

        assert [m.sequence for m in messages.walk(2)] == [10**15, 10**18]
        assert (messages.below(10**18), messages.get(5), messages.pop(10**16)) == (2, None, None)

    @pytest.mark.parametrize("seed", range(5))
    def test_against_a_dictionary(self, seed: int) -> None:
        random = Random(seed)
        messages, model, last = MessageTable(), dict[int, StoredMessage](), 0
        for _ in range(4000):
            if random.random() < 0.55:
                last += random.choice([1] * 50 + [2, 1000])
                model[last] = stored(last)
                messages.add(model[last])
            else:
                low = next(iter(model), 1)
                sequence = random.choice([low, last, random.randint(low, last + 1)])
                assert messages.pop(sequence) == model.pop(sequence, None)
            assert len(messages) == len(model)
            assert messages.first() == next(iter(model.values()), None)
            assert messages.last() == next(reversed(model.values()), None)
        at = random.randint(0, last)
        expected = [m for m in model.values() if m.sequence >= at]
        assert list(messages.walk(at)) == expected
        assert messages.below(at) == len(model) - len(expected)


class TestSubjectIndex:
    def test_what_is_gone_is_forgotten(self) -> None:
        """However messages go, a subject keeps no more than twice as many entries as it has messages."""
        random = Random(1)
        there = set(range(1, 5001))
        subjects = SubjectIndex(there)
        for sequence in sorted(there):
            subjects.add(b"a", sequence)

        for sequence in random.sample(sorted(there), 4990):
            there.remove(sequence)
            subjects.remove(b"a")
            entry = subjects._subjects[b"a"]
            assert len(entry.sequences) <= 3 * len(there) + 2 * SLACK

        assert list(subjects.sequences(b"a")) == sorted(there)
        assert subjects.state(b"a") == (10, min(there), max(there))

    def test_a_queue_of_one_subject_stays_small(self) -> None:
        log = MemoryLog(Limits(max_messages=10))
        for _ in range(5000):
            put(log, b"a")

        assert len(log._subjects._subjects[b"a"].sequences) < 10 + 3 * SLACK
        assert len(log._messages._blocks) <= 2
        is_sound(log)


def test_ends_of_removed_messages_are_forgotten() -> None:
    log = MemoryLog(Limits(max_messages=10))
    for _ in range(5000):
        log.append([message(ttl_ns=10**12)])

    assert len(log._queue) <= 2 * 10 + SLACK + 1
    assert len(log._ends) == 10
