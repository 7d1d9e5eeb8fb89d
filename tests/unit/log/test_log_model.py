"""Random operations on every log, against a model so naive that it can be read.

The model keeps a plain list and does each thing by its definition. Seeds are fixed: a failure names its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pytest
from log_makers import SECOND, START, is_sound, pages

from harness import depth
from harness.tallies import note
from headrace.errors import LogFull, MessageTooLarge
from headrace.log import retention
from headrace.log.file import FileLog
from headrace.log.port import NO_LIMITS, Limits, LogDiscard, NewMessage, StoredMessage, size_of
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from log_makers import Clock, Maker

    from headrace.log.port import MessageLog

SEEDS = 120
STEPS = 400
SUBJECTS = [b"a", b"b", b"a.b", b"a.c", b"a.b.c", b"x.y.z", b"a.*", b"a..b", b""]
FILTERS = [b"a", b"b", b">", b"*", b"a.>", b"*.b", b"a.*", b"a.*.c", b"none", b"none.>", b"a..b"]


@dataclass
class Model:
    """What a log is, by definition."""

    clock: Clock
    limits: Limits = NO_LIMITS
    messages: list[StoredMessage] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    last_sequence: int = 0
    last_time: int = 0

    def append(self, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
        first = first_sequence or self.last_sequence + 1
        if first <= self.last_sequence:
            raise ValueError("sequence")
        if any(self._too_large(message) for message in batch):
            raise MessageTooLarge
        if self.limits.discard is LogDiscard.NEW:
            self._play(batch)
        self.last_sequence = first - 1
        for message in batch:
            self._add(message)
        self._fit()
        return first

    def _too_large(self, message: NewMessage) -> bool:
        return 0 < self.limits.max_message_size < len(message.headers) + len(message.payload)

    def _play(self, batch: Sequence[NewMessage]) -> None:
        limits = self.limits
        held: list[NewMessage | StoredMessage] = list(self.messages)
        most = max(limits.max_messages, len(held))
        for index, message in enumerate(batch):
            same = [m for m in held if m.subject == message.subject]
            if limits.max_messages_per_subject and len(same) >= limits.max_messages_per_subject:
                if limits.discard_new_per_subject:
                    raise LogFull("subject", index)
                held.remove(same[0])
            held.append(message)
            over_count = limits.max_messages and len(held) > most
            if over_count or 0 < limits.max_bytes < sum(map(size_of, held)):
                raise LogFull("full", index)

    def _add(self, message: NewMessage) -> None:
        self.last_sequence += 1
        self.last_time = max(message.time_ns or self.clock(), self.last_time)
        subject, payload, reply, headers, _, ttl = message
        self.messages.append(
            StoredMessage(self.last_sequence, self.last_time, subject, reply, headers, payload)
        )
        if ttl:
            self.ends[self.last_sequence] = self.last_time + ttl

    def _fit(self) -> None:
        limits = self.limits
        if limits.max_messages_per_subject:
            for subject in {m.subject for m in self.messages}:
                same = [m for m in self.messages if m.subject == subject]
                self._drop(same[: -limits.max_messages_per_subject])
        while (
            limits.discard is LogDiscard.OLD
            and len(self.messages) > 1
            and (
                0 < limits.max_messages < len(self.messages)
                or 0 < limits.max_bytes < sum(map(size_of, self.messages))
            )
        ):
            del self.messages[0]

    def _drop(self, gone: list[StoredMessage]) -> int:
        numbers = {m.sequence for m in gone}
        self.messages = [m for m in self.messages if m.sequence not in numbers]
        return len(gone)

    def set_limits(self, limits: Limits) -> None:
        self.limits = limits
        self._fit()
        self.expire(self.clock())

    def read(self, sequence: int) -> StoredMessage | None:
        return next((m for m in self.messages if m.sequence == sequence), None)

    def find(self, sequence: int, filters: Sequence[bytes], up_to: int | None) -> list[StoredMessage]:
        return [
            m
            for m in self.messages
            if m.sequence >= sequence
            and (up_to is None or m.sequence < up_to)
            and (not filters or any(matches(f, m.subject) for f in filters))
        ]

    def sequence_at(self, time_ns: int) -> int:
        return next((m.sequence for m in self.messages if m.time_ns >= time_ns), self.last_sequence + 1)

    def last(self, subject: bytes | None) -> StoredMessage | None:
        found = self.find(0, [] if subject is None else [subject], None)
        return found[-1] if found else None

    def delete(self, sequence: int) -> bool:
        return self._drop([m for m in self.messages if m.sequence == sequence]) > 0

    def purge(self, subject: bytes | None, up_to: int | None, keep: int) -> int:
        found = self.find(0, [] if subject is None else [subject], up_to)
        return self._drop(found[: max(len(found) - keep, 0)])

    def end(self, message: StoredMessage) -> int | None:
        ends = [self.ends[message.sequence]] if message.sequence in self.ends else []
        if self.limits.max_age_ns:
            ends.append(message.time_ns + self.limits.max_age_ns)
        return min(ends, default=None)

    def expire(self, now: int) -> int:
        return self._drop([m for m in self.messages if (end := self.end(m)) is not None and end <= now])

    def next_expiry(self) -> int | None:
        return min((end for m in self.messages if (end := self.end(m)) is not None), default=None)


class Walk:
    """One random walk of a log and its model, side by side."""

    def __init__(self, make: Maker, clock: Clock, seed: int) -> None:
        self.make = make
        self.clock = clock
        self.random = Random(seed)
        self.model = Model(clock)
        self.log: MessageLog = make()
        self.compacted = 0

    def run(self, steps: int) -> None:
        actions: list[Callable[[], None]] = (
            [self.append] * 12
            + [self.read_pages, self.delete, self.expire] * 3
            + [self.purge, self.pass_time, self.ask] * 2
            + [self.leave_gap, self.reopen]
        )
        change = self.random.randrange(20, 100)
        for step in range(steps):
            self.random.choice(actions)()
            if step % change == 0:
                self.change_limits()
            if step % 10 == 0:
                self.compare()
        self.reopen()
        self.compare()

    def compare(self) -> None:
        is_sound(self.log)
        assert pages(self.log) == self.model.messages
        state = self.log.state()
        assert (state.last_sequence, state.last_time_ns) == (self.model.last_sequence, self.model.last_time)

    def both(self, name: str, *arguments: object, **named: object) -> None:
        """The same call to both, with the same answer or the same refusal."""
        results = []
        for one in (self.log, self.model):
            try:
                results.append(getattr(one, name)(*arguments, **named))
            except (LogFull, MessageTooLarge, ValueError) as error:
                results.append((type(error), getattr(error, "index", None)))
        assert results[0] == results[1], (name, arguments, named)

    def message(self) -> NewMessage:
        random = self.random
        return NewMessage(
            random.choice(SUBJECTS),
            random.randbytes(int(random.paretovariate(0.7)) % 3000),
            random.choice([b"", b"_INBOX.x"]),
            random.choice([b"", b"NATS/1.0\r\nA: b\r\n\r\n"]),
            random.choice([0, 0, 0, self.clock.now + random.randrange(-SECOND, SECOND)]),
            random.choice([0, 0, 0, random.randrange(1, 60 * SECOND)]),
        )

    def batch(self) -> list[NewMessage]:
        return [self.message() for _ in range(self.random.choice([0, 1, 1, 1, 2, 5, 30]))]

    def sequence(self) -> int:
        return self.random.randint(-1, self.model.last_sequence + 2)

    def append(self) -> None:
        self.both("append", self.batch())

    def leave_gap(self) -> None:
        self.both(
            "append", self.batch(), self.model.last_sequence + self.random.choice([-3, 0, 1, 2, 5, 10_000])
        )

    def read_pages(self) -> None:
        filters = self.random.sample(FILTERS, self.random.choice([0, 0, 1, 1, 3]))
        start, up_to = self.sequence(), self.random.choice([None, self.sequence()])
        bounds = {
            "max_messages": self.random.choice([1, 3, 256]),
            "max_bytes": self.random.choice([1, 500, 1 << 20]),
        }
        if up_to is not None:
            bounds["up_to"] = up_to
        assert pages(self.log, start, filters, **bounds) == self.model.find(start, filters, up_to)
        self.both("read", start)

    def ask(self) -> None:
        self.both("sequence_at", self.clock.now + self.random.randrange(-30 * SECOND, SECOND))
        self.both("last", self.random.choice([None, *FILTERS]))
        asked = self.random.choice(FILTERS)
        assert {name for name, _ in self.log.subjects(asked)} == {
            m.subject for m in self.model.messages if matches(asked, m.subject)
        }

    def delete(self) -> None:
        sequence = self.sequence()
        if self.random.random() < 0.5 and self.model.messages:
            sequence = self.random.choice(self.model.messages).sequence
        erase = self.random.random() < 0.5
        assert self.log.delete(sequence, erase=erase) == self.model.delete(sequence)

    def purge(self) -> None:
        random = self.random
        subject = random.choice([None, None, *FILTERS])
        low = self.model.last_sequence - random.randrange(200)
        up_to, keep = random.choice([None, self.sequence(), low, low, low]), random.choice([0, 1, 10, 50])
        assert self.log.purge(subject, up_to=up_to, keep=keep) == self.model.purge(subject, up_to, keep)

    def pass_time(self) -> None:
        self.clock.now += self.random.randrange(3 * SECOND)

    def expire(self) -> None:
        due, first = self.log.next_expiry(), self.model.next_expiry()
        assert first is None or (due is not None and due <= first)
        self.both("expire", self.clock.now)
        due = self.log.next_expiry()
        assert due is None or due > self.clock.now

    def note_compactions(self) -> None:
        if isinstance(self.log, FileLog):
            compaction = self.log._compaction
            compacted = compaction.rewritten + compaction.taken_away
            self.compacted += compacted
            note("log: segments rewritten or taken away in random walks", compacted)

    def limits(self) -> Limits:
        random = self.random
        return Limits(
            max_messages=random.choice([0, 0, 0, 1, 20, 300]),
            max_bytes=random.choice([0, 0, 0, 50, 2000, 50_000]),
            max_age_ns=random.choice([0, 0, 10 * SECOND]),
            max_messages_per_subject=random.choice([0, 0, 0, 1, 3, 40]),
            max_message_size=random.choice([0, 0, 0, 1000]),
            discard=random.choice([LogDiscard.OLD, LogDiscard.OLD, LogDiscard.NEW]),
            discard_new_per_subject=random.random() < 0.3,
        )

    def change_limits(self) -> None:
        limits = self.limits()
        self.log.limits = limits
        self.model.set_limits(limits)
        self.compare()

    def reopen(self) -> None:
        """What opening may do, and in memory nothing does: what is over its age goes."""
        self.note_compactions()
        limits = self.model.limits if self.random.random() < 0.8 else self.limits()
        self.log = self.make.reopen(self.log, limits)
        if self.make.survives:  # it is opened under the limits it had
            self.model.set_limits(self.model.limits)
        self.model.set_limits(limits)
        self.compare()


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_random_operations(make: Maker, clock: Clock, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # limits remove many at once, or one by one
        monkeypatch.setattr(retention, "FEW", 1)
        monkeypatch.setattr(retention, "FEW_BYTES", 1)
    walk = Walk(make, clock, seed)
    walk.run(STEPS)
    assert clock.now >= START
    assert walk.compacted > 0 or not make.has_small_segments
