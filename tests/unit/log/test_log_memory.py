"""What only the log in memory does: its cost, its table under removals in any order, appends in one call."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest
from log_makers import LIMITS, START, Clock, is_sound, message, put, sequences

from headrace.engine.memory import live_objects
from headrace.engine.memory_log import BLOCK, SLACK, MemoryTable
from headrace.engine.memory_reading import MemoryReads
from headrace.engine.messages import NewMessages, StoredMessages
from headrace.errors import LogError
from headrace.log.memory import SCAN, MemoryLog
from headrace.log.port import FOREVER, NO_LIMITS, Limits, MessageLog, NewMessage, StoredMessage


def stored(sequence: int, subject: bytes = b"a", payload: bytes = b"") -> StoredMessage:
    return StoredMessage(sequence, sequence, subject, b"", b"", payload)


class Table(MemoryTable):
    """A table with what reads it."""

    def __init__(self, *sequences: int) -> None:
        super().__init__(lambda: 1, lambda _: None)
        self.obey(NO_LIMITS)
        self.reads = MemoryReads(self, StoredMessage)
        self.take_in(*map(stored, sequences))

    def take_in(self, *new: StoredMessage) -> None:
        for one in new:
            draft = NewMessage(one.subject, one.payload, one.reply, one.headers, one.time_ns)
            self.add(NewMessages(NewMessage, [draft]), one.sequence)

    def walked(self, start: int) -> list[StoredMessage]:
        """Every message from `start` on, read as one page."""
        found = StoredMessages(StoredMessage)
        self.reads.page(
            found,
            start,
            self.last_sequence + 1,
            literals=[],
            patterns=[],
            most=1 << 40,
            room=1 << 60,
            most_looked_at=1,
        )
        return list(found)


def test_it_is_a_message_log() -> None:
    log: MessageLog = MemoryLog()
    assert log.limits == Limits()


@pytest.mark.parametrize("ends", ["closed", "purged", "forgotten"])
def test_its_end_gives_the_memory_back(ends: str) -> None:
    gc.collect()
    before = live_objects()
    log = MemoryLog()
    log.append([message(b"a.%d" % (i % 7), payload=b"four") for i in range(3 * BLOCK)])
    log.remove(range(1, 3 * BLOCK, 3))
    assert live_objects()["blocks"] > before["blocks"] + 2 * BLOCK

    if ends == "closed":
        log.close()
    elif ends == "purged":
        log.purge()
    else:
        del log
    gc.collect()

    assert live_objects() == before


def test_what_was_read_stays_when_the_log_forgets_it() -> None:
    log = MemoryLog()
    log.append(
        [message(b"a", b"one"), message(b"b", b"two", reply=b"r", headers=b"NATS/1.0\r\nA: b\r\n\r\n")]
    )
    page = log.read_from(1).messages
    log.purge()
    log.append([message(b"c", b"x" * 100)] * 10)

    assert [(m.subject, m.reply, m.headers, m.payload) for m in page] == [
        (b"a", b"", b"", b"one"),
        (b"b", b"r", b"NATS/1.0\r\nA: b\r\n\r\n", b"two"),
    ]


def test_a_wildcard_read_looks_at_a_bounded_number_of_messages() -> None:
    log = MemoryLog()
    log.append([message()] * (2 * SCAN + 10))

    assert log.read_from(1, filters=[b"b.*"]) == ([], SCAN + 1, [])
    assert log.read_from(1, filters=[b"b"]) == ([], 2 * SCAN + 11, [])
    assert sequences(log, filters=[b"b.*"]) == []


@pytest.mark.parametrize(
    "filters", [[b"s.1"], [b"s.0", b"s.3", b"s.9"], [b"*.2", b"s.0"], [b"s.>"], [b"s..1"]]
)
@pytest.mark.parametrize("bounds", [{}, {"max_messages": 3}, {"max_bytes": 120}, {"up_to": 37}])
def test_filtered_pages_are_those_of_a_plain_choice(filters: list[bytes], bounds: dict[str, int]) -> None:
    log = MemoryLog()
    log.append([message(b"s.%d" % (i * i % 5)) for i in range(80)] + [message(b"t.2"), message(b"s.1.x")])
    log.remove(range(1, 70, 4))
    everything = log.read_from(1, max_messages=1000).messages
    chosen = {
        b"s.1": {b"s.1"},
        b"s.0": {b"s.0", b"s.3", b"s.9"},
        b"*.2": {b"s.2", b"t.2", b"s.0"},
        b"s.>": {b"s.0", b"s.1", b"s.4", b"s.1.x"},
        b"s..1": set[bytes](),
    }[filters[0]]

    expected = [
        m.sequence for m in everything if m.subject in chosen and m.sequence < bounds.get("up_to", 99)
    ]
    assert sequences(log, 1, filters, **bounds) == expected
    assert sequences(log, 30, filters, **bounds) == [s for s in expected if s >= 30]
    if "up_to" not in bounds:
        assert log.count_from(30, filters) == len([s for s in expected if s >= 30])


class TestMemoryTable:
    def test_blocks_are_dropped_with_their_last_message(self) -> None:
        messages = Table(*range(1, 10 * BLOCK + 1))

        messages.remove(s for s in range(1, 10 * BLOCK + 1) if s % BLOCK)
        assert (messages.messages, len(messages)) == (10, 10)
        messages.remove(range(BLOCK, 5 * BLOCK + 1, BLOCK))

        assert (messages.messages, len(messages)) == (5, 5)
        assert messages.first() == 6 * BLOCK
        assert messages.last() == 10 * BLOCK
        messages.remove([8 * BLOCK, 10 * BLOCK])
        assert (len(messages), messages.last()) == (3, 9 * BLOCK)

    @pytest.mark.parametrize("at", [BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 2, 2 * BLOCK + 1])
    def test_positions_at_the_borders_of_blocks(self, at: int) -> None:
        messages = Table(*range(1, 3 * BLOCK + 1))

        assert messages.reads.below(at) == at - 1
        assert [m.sequence for m in messages.walked(at)] == list(range(at, 3 * BLOCK + 1))
        assert messages.reads.at_time(at) == at
        assert messages.reads.up_to(at, at + 3) == [at, at + 1, at + 2, at + 3]

    def test_gaps_cost_nothing(self) -> None:
        messages = Table(1, 10**15, 10**18)

        assert [m.sequence for m in messages.walked(2)] == [10**15, 10**18]
        assert (messages.reads.below(10**18), messages.reads.get(5), messages.remove([10**16])) == (
            2,
            None,
            0,
        )
        assert messages.reads.gone(0, 3) == ([2, 3, 4], 5)
        assert messages.reads.gone(10**15 - 1, 2) == ([10**15 - 1, 10**15 + 1], 10**15 + 2)

    @pytest.mark.parametrize("sequence", [-1, 0, 4, 1 << 63, 1 << 64, 1 << 70])
    def test_sequences_that_no_message_can_have(self, sequence: int) -> None:
        messages = Table(1, 2, 3)

        assert messages.reads.get(sequence) is None
        assert sequence not in messages
        assert messages.remove([sequence]) == 0
        assert messages.messages == 3

    @pytest.mark.parametrize("seed", range(5))
    def test_against_a_dictionary(self, seed: int) -> None:
        dice = random.Random(seed)
        messages, model, last = Table(), dict[int, StoredMessage](), 0
        for _ in range(4000):
            if dice.random() < 0.55:
                last += dice.choice([1] * 50 + [2, 1000])
                model[last] = stored(last, b"s.%d" % dice.randrange(4), b"x" * dice.randrange(20))
                messages.take_in(model[last])
            else:
                low = next(iter(model), 1)
                sequence = dice.choice([low, last, dice.randint(low, last + 1)])
                assert messages.reads.get(sequence) == model.get(sequence)
                assert messages.remove([sequence]) == (model.pop(sequence, None) is not None)
            assert messages.messages == len(model)
            assert messages.first() == next(iter(model), last + 1)
            assert messages.last() == next(reversed(model), 0)
        at = dice.randint(0, last)
        expected = [m for m in model.values() if m.sequence >= at]
        assert messages.walked(at) == expected
        assert messages.reads.below(at) == len(model) - len(expected)
        assert messages.size == sum(32 + len(m.subject) + len(m.payload) for m in model.values())
        absent = [s for s in range(max(at, messages.first()), last + 1) if s not in model]
        assert messages.reads.gone(at, 10_000)[0] == absent[:10_000]
        for subject in (b"s.0", b"s.1", b"s.2", b"s.3"):
            own = [m.sequence for m in model.values() if m.subject == subject]
            assert messages.sequences(subject) == own
            assert messages.sequences(subject, most=2) == own[:2]
            assert messages.count_from(subject, at) == len([s for s in own if s >= at])
            held = messages.subjects.get(subject)
            assert held == ((len(own), own[0], own[-1], True, True) if own else None)

    def test_what_is_gone_is_forgotten(self) -> None:
        """However messages go, a subject keeps about twice as many sequences as it has messages."""
        dice = random.Random(1)
        there = set(range(1, 5001))
        messages = Table(*sorted(there))

        for sequence in dice.sample(sorted(there), 4990):
            there.remove(sequence)
            messages.remove([sequence])
            assert messages.entries_of(b"a") <= 3 * len(there) + 2 * SLACK

        assert messages.sequences(b"a") == sorted(there)
        assert messages.subjects.get(b"a") == (10, min(there), max(there), True, True)

    def test_a_queue_of_one_subject_stays_small(self) -> None:
        log = MemoryLog(Limits(max_messages=10))
        for _ in range(5000):
            put(log, b"a")

        assert log._table.entries_of(b"a") < 10 + 3 * SLACK
        assert len(log._table) <= 2
        is_sound(log)


def test_ends_of_removed_messages_are_forgotten() -> None:
    log = MemoryLog(Limits(max_messages=10))
    for _ in range(5000):
        log.append([message(ttl_ns=10**12)])

    assert len(log._queue) <= 2 * 10 + SLACK + 1
    assert len(log._ends) == 10


class _Player:
    """One log and its script; `outcome` is what it said. Not `compiled`: every append names its sequence."""

    def __init__(self, seed: int, *, compiled: bool) -> None:
        self._dice = random.Random(seed)
        self._compiled = compiled
        self._clock = Clock(START)
        self.log = MemoryLog(self._dice.choice(LIMITS), self._clock)
        self.outcome: list[Any] = []

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self._clock.now += self._dice.choice((0, 1, 7))
            step = self._dice.choice([self._append] * 12 + [self._remove, self._expire, self._change])
            try:
                self.outcome.append(step())
            except (LogError, ValueError) as error:
                self.outcome.append((type(error), str(error)))
            self.outcome.append((self.log.state(), self.log.next_expiry()))
            is_sound(self.log)
        self.outcome.append(list(self.log.read_from(1, max_messages=10_000).messages))

    def _append(self) -> int:
        dice = self._dice
        batch = [
            NewMessage(
                b"s.%d" % dice.randrange(6),
                b"x" * dice.randrange(90),
                dice.choice((b"", b"reply")),
                dice.choice((b"", b"NATS/1.0\r\nA: b\r\n\r\n")),
                dice.choice((0, 0, 0, self._clock.now - 3, self._clock.now + 3)),
                dice.choice((0, 0, 0, 0, 0, 20, FOREVER)),
            )
            for _ in range(dice.choice((1, 1, 1, 2, 5)))
        ]
        return self.log.append(batch, 0 if self._compiled else self.log.state().last_sequence + 1)

    def _remove(self) -> int:
        last = self.log.state().last_sequence
        return self.log.remove([self._dice.randint(1, last + 1) for _ in range(3)])

    def _expire(self) -> int:
        return self.log.expire(self._clock.now)

    def _change(self) -> None:
        self.log.limits = self._dice.choice(LIMITS)


@pytest.mark.parametrize("seed", range(30))
def test_an_append_in_one_call_is_an_append(seed: int) -> None:
    compiled, interpreted = _Player(seed, compiled=True), _Player(seed, compiled=False)
    compiled.play(120)
    interpreted.play(120)
    assert compiled.outcome == interpreted.outcome


def test_a_plain_append_does_not_pass_through_python(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog(Limits(max_messages=10, max_messages_per_subject=5))
    admitted = []
    monkeypatch.setattr(log, "_admit", lambda batch, first: admitted.append(len(batch)) or first)
    put(log, *(b"s.%d" % (i % 3) for i in range(20)))
    assert admitted == []
    log.append([message(ttl_ns=1)], 21)
    assert admitted == [1]
    is_sound(log)
