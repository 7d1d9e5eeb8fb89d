"""The logs that the contract's tests run against, a clock that stands still, and short ways to ask a log."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from harness.captured import ROOT, Owner, Standby
from headrace.log.file import FileLog
from headrace.log.filesystem import RealFileSystem
from headrace.log.memory import MemoryLog
from headrace.log.port import NO_LIMITS, Limits, LogDiscard, MessageLog, NewMessage, SyncPolicy, size_of
from headrace.testing.faultfs import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.log.closing import Left
    from headrace.log.damage import Damage
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import StoredMessage

START: Final = 1_700_000_000_000_000_000
SECOND: Final = 1_000_000_000
HEADERS: Final = b"NATS/1.0\r\nA: b\r\n\r\n"
KINDS: Final = [
    *("memory", "file", "file-late", "file-small-segments", "file-asleep", "file-killed", "file-mirrored")
]
"""A late one has no file until it is written to. One that sleeps opens its files after a reopening when it
must. The process of a killed one dies before each reopening: nothing is closed. So does that of a mirrored
one, and another server goes on with the files that it has made of the changes it heard of."""
SMALL: Final = 2048
LIMITS: Final = (
    Limits(),
    Limits(max_messages=7),
    Limits(max_bytes=1500),
    Limits(max_messages_per_subject=1),
    Limits(max_messages_per_subject=3, max_messages=12),
    Limits(max_messages=9, discard=LogDiscard.NEW),
    Limits(max_bytes=1500, discard=LogDiscard.NEW),
    Limits(max_messages_per_subject=2, discard=LogDiscard.NEW, max_messages=20),
    Limits(max_messages_per_subject=2, discard=LogDiscard.NEW, discard_new_per_subject=True),
    Limits(max_message_size=70),
    Limits(max_age_ns=30),
)
"""Limits of logs that are compared; each kind of limit, and some together."""


class Clock:
    """Wall time that moves when told."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Maker:
    """Makes logs of one kind; `reopen` closes one and opens its directory again."""

    def __init__(self, kind: str, directory: Path, clock: Clock) -> None:
        self.kind = kind
        self.clock = clock
        self.reports: list[tuple[int, str]] = []
        self._directory = ROOT / "logs" if self.dies else directory
        self._killed = MemoryFileSystem()
        self._owner = Owner()
        self._recorded: list[bytes] = []
        self._numbers = itertools.count()
        self._open: dict[int, tuple[MessageLog, Path]] = {}

    def __call__(self, limits: Limits = NO_LIMITS) -> MessageLog:
        return self._make(self._directory / str(next(self._numbers)), limits)

    def _note(self, damage: Damage) -> None:
        self.reports += [(sequence, damage.reason) for sequence in range(damage.first, damage.last + 1)]

    @property
    def survives(self) -> bool:
        return self.kind != "memory"

    @property
    def has_small_segments(self) -> bool:
        """True if a segment is mostly dead, and compacted, after some tens of messages."""
        return self.kind in ("file-small-segments", "file-asleep", "file-killed", "file-mirrored")

    @property
    def dies(self) -> bool:
        return self.kind in ("file-killed", "file-mirrored")

    def reopen(self, log: MessageLog, limits: Limits | None = None) -> MessageLog:
        """The same messages under the same or other limits. A log in memory is only given its limits."""
        if not self.survives:
            log.limits = log.limits if limits is None else limits
            return log
        old, directory = self._open.pop(id(log))
        assert isinstance(old, FileLog)
        if self.dies:
            self._kill()
        else:
            old.close()
        # what the same limits removed last may not be written down
        log = self._make(directory, old.limits, old.left if self.kind == "file-asleep" else None)
        if limits is not None:
            log.limits = limits
        return log

    def _kill(self) -> None:
        self._killed.kill()
        if self.kind == "file-mirrored":
            self._recorded.append(self._owner.take())
            standby = Standby()
            for payload in self._recorded:
                standby.mirror.apply(payload)
            self._owner = standby.promoted()

    @property
    def _files(self) -> FileSystem:
        if self.kind == "file-mirrored":
            return self._owner.files
        return self._killed if self.dies else RealFileSystem()

    def close(self) -> None:
        if not self.dies:
            for log, _ in self._open.values():
                log.close()

    def _make(self, directory: Path, limits: Limits, left: Left | None = None) -> MessageLog:
        log = self._new(directory, limits, left)
        self._open[id(log)] = (log, directory)
        return log

    def _new(self, directory: Path, limits: Limits, left: Left | None) -> MessageLog:
        if not self.survives:
            return MemoryLog(limits, self.clock)
        return FileLog(
            directory,
            limits=limits,
            clock=self.clock,
            filesystem=self._files,
            segment_bytes=SMALL if self.has_small_segments else 1 << 20,
            sync=SyncPolicy.GROUP if self.kind == "file-asleep" else SyncPolicy.NEVER,
            cipher=None,
            report=self._note,
            make=directory.mkdir if self.kind == "file-late" and not directory.exists() else None,
            left=left,
        )


def message(subject: bytes = b"a", payload: bytes = b"x", **rest: int | bytes) -> NewMessage:
    return NewMessage(subject, payload, **rest)  # type: ignore[arg-type]


def put(log: MessageLog, *subjects: bytes, payload: bytes = b"x") -> int:
    """One append per subject; the last sequence."""
    return [log.append([NewMessage(subject, payload)]) for subject in subjects][-1]


def pages(
    log: MessageLog, sequence: int = 1, filters: Sequence[bytes] = (), **bounds: int
) -> list[StoredMessage]:
    """Return all messages from `sequence` on, page by page, to the end; checks that reading gets on."""
    found: list[StoredMessage] = []
    end = min(log.state().last_sequence + 1, bounds.get("up_to", 1 << 64))
    while True:
        page = log.read_from(sequence, filters=filters, **bounds)
        assert not page.damaged
        found += page.messages
        if page.next_sequence >= end:
            return found
        assert page.next_sequence > sequence
        assert all(sequence <= m.sequence < page.next_sequence for m in page.messages)
        sequence = page.next_sequence


def sequences(log: MessageLog, sequence: int = 1, filters: Sequence[bytes] = (), **bounds: int) -> list[int]:
    return [m.sequence for m in pages(log, sequence, filters, **bounds)]


def is_sound(log: MessageLog) -> None:
    """What state, subjects, last and next_expiry say is what reading says."""
    held, state = pages(log), log.state()
    assert [m.sequence for m in held] == sorted({m.sequence for m in held})
    assert [m.time_ns for m in held] == sorted(m.time_ns for m in held)
    assert (state.messages, state.bytes) == (len(held), sum(size_of(m, log.limits.weights) for m in held))
    assert state.first_sequence == (held[0].sequence if held else state.last_sequence + 1)
    assert state.first_time_ns == (held[0].time_ns if held else 0)
    assert state.deleted == state.last_sequence + 1 - state.first_sequence - len(held)
    assert log.last() == (held[-1] if held else None)
    by_subject: dict[bytes, list[int]] = {}
    for m in held:
        by_subject.setdefault(m.subject, []).append(m.sequence)
    assert state.subjects == len(by_subject)
    assert {name: tuple(s) for name, s in log.subjects()} == {
        name: (len(s), s[0], s[-1]) for name, s in by_subject.items() if b"" not in name.split(b".")
    }
