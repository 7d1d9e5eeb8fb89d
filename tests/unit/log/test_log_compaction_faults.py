"""Rewriting of segments when the file system fails or the power goes; refused batches after a power loss."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import Clock, is_sound

from harness import depth
from harness.tallies import note
from headrace.errors import StorageError
from headrace.log.file import FileLog
from headrace.log.port import NO_LIMITS, Limits, NewMessage
from headrace.log.recovery import CHECKPOINT
from headrace.testing.faultfs import Fault, FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.filesystem import FileSystem

HERE: Final = Path("/logs/one")
SEEDS: Final = 600
FIRST_CALL: Final = 4
"""Of those to the file system: before it a log does not open."""


def open_log(files: FileSystem, limits: Limits = NO_LIMITS) -> FileLog:
    return FileLog(HERE, limits=limits, clock=Clock(), filesystem=files, segment_bytes=1024)


def held(log: FileLog) -> dict[int, bytes]:
    page = log.read_from(1, max_messages=100_000, max_bytes=1 << 30)
    return {m.sequence: m.payload for m in page.messages}


def damaged_in(log: FileLog) -> set[int]:
    return set(log.read_from(1, max_messages=100_000, max_bytes=1 << 30).damaged)


class Story:
    """Appends and deletes, and knows what must be there, what may be and what must not be."""

    def __init__(self, files: FileSystem, random: Random) -> None:
        self.files = files
        self.random = random
        self.limits = Limits(compresses=random.random() < 0.5)
        self.log = open_log(files, self.limits)
        self.must: dict[int, bytes] = {}
        """Synced, and nobody tried to delete it."""
        self.may: dict[int, bytes] = {}
        """Everything that was ever taken."""
        self.gone: set[int] = set()
        """Deleted, and synced."""
        self.going: set[int] = set()
        self.fresh: dict[int, bytes] = {}
        self.refused = 0
        self.rewritten = self.taken_away = 0

    def attempt(self, call: Callable[[], object]) -> bool:
        before = self.log._ledger.last_sequence  # `state` reads
        try:
            call()
        except StorageError:
            assert self.log._ledger.last_sequence == before
            return False
        return True

    def append(self, count: int) -> None:
        """Of equal length, so that the rest of a refused batch would fit behind a shorter one."""
        batch = [
            NewMessage(b"s.%d" % self.random.randrange(4), self.random.randbytes(40)) for _ in range(count)
        ]
        first = self.log._ledger.last_sequence + 1
        if self.attempt(lambda: self.log.append(batch)):
            taken = {first + n: m.payload for n, m in enumerate(batch)}
            self.may |= taken
            self.fresh |= taken
        else:
            self.refused += 1

    def delete(self, sequence: int, erase: bool) -> None:
        self.must.pop(sequence, None)
        self.fresh.pop(sequence, None)
        if self.attempt(lambda: self.log.delete(sequence, erase=erase)):
            self.going.add(sequence)

    def sync(self) -> None:
        if self.attempt(self.log.sync):
            self.must |= self.fresh
            self.fresh = {}
            self.gone |= self.going
            self.going = set()

    def delete_some(self) -> None:
        live = sorted(held(self.log))
        if not live:
            return
        start = self.random.randrange(len(live))
        for sequence in live[start : start + self.random.randrange(30)]:
            if self.random.random() < 0.8:
                self.delete(sequence, self.random.random() < 0.1)

    def note_compactions(self) -> None:
        self.rewritten += self.log._compaction.rewritten
        self.taken_away += self.log._compaction.taken_away

    def reopen(self) -> None:
        self.note_compactions()
        self.log = open_log(self.files, self.limits)

    def check(self) -> None:
        found = held(self.log)
        missing = {s for s in self.must if s not in found}
        assert not missing, "acknowledged messages are lost"
        assert all(self.may.get(s) == p for s, p in found.items()), "messages were invented"
        assert not self.gone & set(found), "deleted messages came back"
        damaged = damaged_in(self.log)  # what was torn before it was acknowledged
        assert not damaged & (set(self.must) | self.gone)
        if not damaged:
            is_sound(self.log)

    def go_on_from_here(self) -> None:
        """After a power loss: opening synced what was found."""
        found = held(self.log)
        self.must = {s: p for s, p in self.may.items() if s in found}
        self.may = dict(self.must)
        last = self.log.state().last_sequence
        self.gone |= {s for s in self.going - set(found) - damaged_in(self.log) if s <= last}
        self.fresh, self.going = {}, set()


def run(story: Story) -> None:
    """Fills some segments, deletes most of the middle, and goes on until it is rewritten."""
    for _ in range(14):
        story.append(3)
        story.sync()
    for sequence in [*range(10, 20), *range(21, 33), 34, 35]:
        story.delete(sequence, erase=sequence == 12)
    for _ in range(12):
        story.append(2)
        story.sync()
    story.append(1)


def test_the_story_rewrites() -> None:
    story = Story(MemoryFileSystem(), Random(1))
    run(story)
    story.note_compactions()
    assert story.rewritten >= 1
    assert story.taken_away >= 1


@pytest.mark.parametrize("fault", list(Fault))
def test_failure_at_every_call_while_segments_are_rewritten(fault: Fault) -> None:
    counting = FaultyFileSystem(MemoryFileSystem())
    run(Story(counting, Random(1)))
    total = counting.calls
    assert total > 150
    for n in depth.seeds(total + 1):
        if n < FIRST_CALL or n > total:
            continue
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner, 0, errno.ENOSPC if n % 2 else errno.EIO, fault=fault)
        try:
            files.fail_at = n
            story = Story(files, Random(1))
        except StorageError:
            continue
        run(story)
        assert files.failed, n
        files.fail_at = 0
        story.check()
        story.append(2)
        story.sync()
        story.append(1)
        story.files = inner
        inner.kill()
        story.reopen()
        story.check()
        story.go_on_from_here()
        inner.crash(Random(n))
        story.reopen()
        story.check()
        note("log: calls that failed", 1)
        note("log: images after them", 2)


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_power_loss_while_segments_are_rewritten(seed: int) -> None:
    """Also when a write failed before: a refused batch does not come back, nor a part of it."""
    random = Random(seed)
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only=["write", "pwrite"], fault=random.choice(list(Fault)))
    story = Story(files, random)
    for _ in range(5):
        for _ in range(random.randrange(60)):
            if random.random() < 0.1:
                files.fail_at = files.calls + random.randrange(1, 3)
            story.append(random.randrange(1, 6))
            files.fail_at = 0
            if random.random() < 0.6:
                story.sync()
            if random.random() < 0.2:
                story.delete_some()
        inner.crash(random)
        story.reopen()
        story.check()
        story.go_on_from_here()
        note("log: power losses", 1)
    note("log: batches refused before one", story.refused)
    note("log: segments rewritten", story.rewritten)
    note("log: segments taken away", story.taken_away)


def test_a_refused_batch_does_not_come_back() -> None:
    """Its cut-back is durable before the publisher hears of the refusal."""
    for seed in range(200):
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner, only=["pwrite"], fault=Fault.SHORT)
        log = open_log(files)
        log.append([NewMessage(b"a", b"first")])
        log.sync()
        files.fail_at = files.calls + 1
        with pytest.raises(StorageError):
            log.append([NewMessage(b"a", b"refused")] * 4)
        if seed % 2:
            log.append([NewMessage(b"a", b"another")])
        inner.crash(Random(seed))
        assert set(held(open_log(inner)).values()) <= {b"first", b"another"}
        note("log: power losses", 1)


def test_no_append_while_a_cut_back_is_not_durable() -> None:
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only=["pwrite", "fdatasync"], fault=Fault.PARTIAL)
    log = open_log(files)
    log.append([NewMessage(b"a", b"1")])
    files.fail_at, files.failures = files.calls + 1, 3
    for _ in range(2):  # the write and the sync of its cut-back, then that again
        with pytest.raises(StorageError):
            log.append([NewMessage(b"a", b"2")])

    assert files.failed == ["pwrite", "fdatasync", "fdatasync"]
    assert log.append([NewMessage(b"a", b"3")]) == 2
    log.sync()
    inner.crash(Random(1))
    assert held(open_log(inner)) == {1: b"1", 2: b"3"}


class NoCheckpoint(FaultyFileSystem):
    """Takes no new checkpoint once `is_full`, and does not give up the old one while it `is_stuck`."""

    is_full = is_stuck = False

    def rename(self, old: Path, new: Path) -> None:
        if self.is_full and new.name == CHECKPOINT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        if self.is_stuck and path.name == CHECKPOINT:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().unlink(path)


def with_checkpoint_amid_a_segment(files: NoCheckpoint, *, is_stuck: bool) -> Story:
    """Its first segment was larger after the checkpoint, which is the last one, and is to be rewritten.

    Where the checkpoint ends, behind three messages and a removal, a record ends after that too: the mark of
    a rewritten segment is as long as a removal.
    """
    story = Story(files, Random(1))
    story.append(3)
    story.delete(2, erase=False)
    story.log._checkpoints.write()
    story.sync()
    assert story.log._segments.after_sync.saved == story.log._segments.drafted == 1
    files.is_full, files.is_stuck = True, is_stuck
    for _ in range(12):
        story.append(2)
    for sequence in range(5, 10):
        story.delete(sequence, erase=False)
    story.sync()
    return story


def go_on_until_rewritten(story: Story) -> bool:
    for _ in range(20):
        story.append(2)
        story.log._checkpoints.write()
        story.sync()
    return story.log._compaction.rewritten > 0


def test_a_checkpoint_that_could_not_be_replaced_does_not_outlive_what_it_counts_on() -> None:
    """It would fit a rewritten segment of at least the size it had then, and be read on amid its records."""
    inner = MemoryFileSystem()
    files = NoCheckpoint(inner)
    story = with_checkpoint_amid_a_segment(files, is_stuck=False)
    assert go_on_until_rewritten(story)
    inner.kill()
    story.reopen()
    assert not story.log.opened_from_checkpoint
    assert story.log.state().damaged == ()
    story.check()


def test_a_checkpoint_that_stays_keeps_what_it_counts_on() -> None:
    inner = MemoryFileSystem()
    files = NoCheckpoint(inner)
    story = with_checkpoint_amid_a_segment(files, is_stuck=True)
    assert not go_on_until_rewritten(story)
    files.is_stuck = False  # it cannot be replaced still, but taken away
    assert go_on_until_rewritten(story)
    inner.kill()
    story.reopen()
    story.check()


def test_nothing_is_erased_that_a_checkpoint_counts() -> None:
    """A start from it would look for the message, and its subject is in no record any more."""
    inner = MemoryFileSystem()
    files = NoCheckpoint(inner)
    story = with_checkpoint_amid_a_segment(files, is_stuck=True)
    with pytest.raises(StorageError, match="checkpoint that counts a message to be erased cannot be"):
        story.log.delete(3, erase=True)
    assert story.log.read(3) is None
    inner.kill()
    story.must.pop(3)
    story.reopen()
    story.check()

    files.is_stuck = False
    assert not story.log.delete(3, erase=True)  # removed already: its bytes are what it is about
    inner.kill()
    story.reopen()
    story.check()


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_segment_that_could_not_be_begun_does_not_come_back(call: str) -> None:
    """Not after the segment before it took the messages that it was for."""
    for seed in range(100):
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner, only=[call], fault=Fault.PARTIAL)
        story = Story(files, Random(seed))
        while story.log._segments.active.size < 800:
            story.append(1)
        story.sync()
        files.fail_at = files.calls + 1
        story.append(4)
        assert files.failed == [call]
        story.append(1)
        story.sync()
        story.append(4)  # begins a segment
        inner.crash(Random(seed))
        story.reopen()
        story.check()
        assert not damaged_in(story.log) & set(held(story.log))
