"""Segments in the middle of a log that are mostly dead: taken away or rewritten, and what a start says."""

from __future__ import annotations

import shutil
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import SECOND, START, Clock, is_sound

from headrace.engine.messages import NewMessages, StoredMessages
from headrace.engine.records import Scan, encode, encode_removal, encode_segments
from headrace.engine.sequence_set import SequenceSet
from headrace.engine.subject_index import SubjectIndex
from headrace.errors import StorageError
from headrace.log.encryption import Cipher
from headrace.log.file import FileLog
from headrace.log.port import NO_LIMITS, Limits, NewMessage, StoredMessage, SyncPolicy
from headrace.log.segment import BEGINNING, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = bytes(range(32))

SMALL: Final = 2048 + BEGINNING - HEADER_BYTES


class Bench:
    """A log of small segments in a directory, to be opened after a close, a kill, or with records only."""

    def __init__(self, directory: Path, cipher: Cipher | None = None) -> None:
        self.directory = directory
        self.reports: list[int] = []
        self.clock = Clock()
        self.cipher = cipher
        self.log = self.open()

    def open(self, limits: Limits = NO_LIMITS) -> FileLog:
        return FileLog(
            self.directory,
            limits=limits,
            clock=self.clock,
            segment_bytes=SMALL,
            sync=SyncPolicy.GROUP,
            cipher=self.cipher,
            report=lambda damage: self.reports.extend(range(damage.first, damage.last + 1)),
        )

    def fill(self, count: int, subjects: int = 3) -> None:
        for _ in range(count):
            n = self.log.state().last_sequence + 1
            self.clock.now += 1
            self.log.append([content(n, subjects)])

    def settle(self) -> None:
        """Lets everything that waits for an append or a sync happen."""
        for _ in range(30):
            self.log._checkpoints.write()  # of its own accord when it is worth it
            self.log.append([], self.log.state().last_sequence + 1)
            self.log.sync()

    def files(self) -> dict[int, int]:
        return {int(path.stem): path.stat().st_size for path in self.directory.glob("*.log")}

    def starts(self, limits: Limits = NO_LIMITS) -> Iterator[FileLog]:
        """The log as a kill leaves it, as it is without a checkpoint, and after a close."""
        expected = held(self.log)
        for way in ("killed", "records", "closed"):
            copy = self.directory.with_name(f"{self.directory.name}-{way}")
            shutil.rmtree(copy, ignore_errors=True)
            if way == "closed":
                self.log.close()
            shutil.copytree(self.directory, copy)
            if way == "records":
                for path in [*copy.glob("*.index"), copy / "checkpoint"]:
                    path.unlink(missing_ok=True)
            log = FileLog(
                copy,
                limits=limits,
                clock=self.clock,
                segment_bytes=SMALL,
                cipher=self.cipher,
                report=lambda damage: self.reports.extend(range(damage.first, damage.last + 1)),
            )
            assert log.opened_from_checkpoint == (way != "records"), way
            assert held(log) == expected, way
            is_sound(log)
            yield log
            log.close()
        assert self.reports == []


def content(sequence: int, subjects: int = 3) -> NewMessage:
    return NewMessage(
        b"s.%d" % (sequence % subjects), b"%06d" % sequence * 8, b"r", b"NATS/1.0\r\nA: b\r\n\r\n"
    )


def held(log: FileLog) -> list[StoredMessage]:
    page = log.read_from(1, max_messages=100_000, max_bytes=1 << 30)
    assert not page.damaged
    return list(page.messages)


@pytest.fixture(params=["plain", "sealed"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(tmp_path / "log", Cipher(KEY) if request.param == "sealed" else None)


def delete(log: FileLog, first: int, last: int, spare: int = 0) -> None:
    for sequence in range(first, last + 1):
        if not spare or sequence % spare:
            assert log.delete(sequence)


def test_a_dead_segment_in_the_middle_is_unlinked(bench: Bench) -> None:
    bench.fill(100)
    bases = sorted(bench.files())
    assert len(bases) >= 6
    delete(bench.log, bases[2], bases[4] - 1)
    bench.settle()

    assert set(bases) - set(bench.files()) == set(bases[2:4])
    assert bench.log._compaction.taken_away == 2
    assert bench.log.read(bases[2]) is None
    bench.fill(3)
    bench.log.sync()
    for log in bench.starts():
        assert log.read(bases[3] + 1) is None
        assert [m.sequence for m in log.read_from(bases[2], max_messages=1).messages] == [bases[4]]
        assert log.append([content(1)]) == bench.log._ledger.last_sequence + 1


def test_a_mostly_dead_segment_is_rewritten(bench: Bench) -> None:
    bench.fill(100)
    before = bench.files()
    bases = sorted(before)
    delete(bench.log, bases[1], bases[3] - 1, spare=5)
    left = held(bench.log)
    bench.settle()

    after = bench.files()
    assert bench.log._compaction.rewritten >= 2
    assert all(after[base] < before[base] * 0.7 for base in bases[1:3])
    assert held(bench.log) == left
    for m in left:
        assert bench.log.read(m.sequence) == m
    for log in bench.starts():
        assert [log.read(m.sequence) for m in left] == left
        assert log.sequence_at(left[30].time_ns) == left[30].sequence
        assert log.last(b"s.1") == [m for m in left if m.subject == b"s.1"][-1]


def test_removals_of_earlier_messages_stay_written(bench: Bench) -> None:
    """The only record of some removals lies in a segment that is rewritten or taken away."""
    bench.fill(60)
    bases = sorted(bench.files())
    delete(bench.log, bases[0] + 1, bases[0] + 3)  # too few to rewrite the first segment
    middle = bench.log._segments.active.base
    bench.fill(60)
    after = sorted(b for b in bench.files() if b > middle)[0]
    delete(bench.log, middle, after - 1, spare=9)
    bench.settle()
    assert bench.log._compaction.rewritten == 1
    for log in bench.starts():
        assert log.read(bases[0] + 2) is None
    bench.log = bench.open()
    for sequence in range(middle, after):
        bench.log.delete(sequence)
    bench.settle()
    for log in bench.starts():
        assert log.read(bases[0] + 2) is None


def test_records_of_removals_do_not_pile_up(bench: Bench) -> None:
    """One message that stays, and others that replace each other for ever: the files stay small."""
    bench.log.append([NewMessage(b"stays", b"x")])
    bench.log.limits = Limits(max_messages_per_subject=1)
    sizes = []
    for n in range(1200):
        bench.fill(1, subjects=7)
        bench.log.sync()
        if n % 100 == 99:
            sizes.append(sum(bench.files().values()))
    assert bench.log.state().first_sequence == 1
    assert max(sizes) < 40_000  # of 160,000 that were written
    assert len(bench.files()) <= 30
    for log in bench.starts(bench.log.limits):
        assert log.state().messages == 8


def test_a_checkpoint_says_what_records_say(bench: Bench) -> None:
    """Kills at every step of deletes and rewriting: each start counts what is there."""
    bench.fill(60)
    bench.log.sync()
    random = Random(1)
    for _ in range(40):
        live = [m.sequence for m in held(bench.log)]
        for sequence in random.sample(live, min(3, len(live))):
            bench.log.delete(sequence, erase=random.random() < 0.2)
        bench.fill(random.randrange(3))
        if random.random() < 0.5:
            bench.log.sync()
        copy = bench.directory.with_name("killed")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(bench.directory, copy)
        log = FileLog(copy, clock=bench.clock, segment_bytes=SMALL, cipher=bench.cipher)
        assert held(log) == held(bench.log)
        assert log.state() == bench.log.state()
        assert dict(log.subjects()) == dict(bench.log.subjects())
        is_sound(log)
        log.close()
    assert bench.log._compaction.rewritten > 3


def test_an_erased_message_is_in_no_copy(bench: Bench) -> None:
    """Also when it is erased while its segment is being rewritten, and when its segment is gone."""
    bench.cipher = None
    shutil.rmtree(bench.directory)
    bench.log = bench.open()
    bench.fill(40)
    bases = sorted(bench.files())
    victim = bases[1] + 4
    delete(bench.log, bases[1], bases[2] - 1, spare=4)
    bench.log.append([], bench.log.state().last_sequence + 1)
    drafts = list(bench.directory.glob("*.log.new"))
    secret = b"%06d" % (victim - victim % 4) * 8
    assert any(secret in path.read_bytes() for path in drafts)

    assert bench.log.delete(victim - victim % 4, erase=True)

    assert not any(secret in path.read_bytes() for path in bench.directory.iterdir())
    bench.settle()
    assert bench.log._compaction.rewritten >= 1
    for _ in bench.starts():
        pass


def test_expiry_is_known_in_a_rewritten_segment(bench: Bench) -> None:
    for n in range(60):
        bench.log.append([NewMessage(b"a", b"x" * 90, ttl_ns=(n + 10) * SECOND if n % 10 == 0 else 0)])
    bases = sorted(bench.files())
    delete(bench.log, bases[0] + 1, bases[2] - 1, spare=10)
    bench.settle()
    assert bench.log._compaction.rewritten > 0
    first = bench.log.read(1)
    assert first is not None
    for log in bench.starts():
        due = log.next_expiry()
        assert due is not None
        assert START < due <= START + 10 * SECOND
        count = log.state().messages
        assert log.expire(START + 10 * SECOND) == 1
        assert log.state().messages == count - 1


def test_damage_keeps_a_segment(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "log")
    bench.fill(60)
    bases = sorted(bench.files())
    bench.log.close()
    path = bench.directory / f"{bases[1]:020}.log"
    data = bytearray(path.read_bytes())
    data[BEGINNING + 60] ^= 0xFF
    path.write_bytes(data)
    bench.log = bench.open()
    for sequence in range(bases[1] + 1, bases[2]):
        bench.log.delete(sequence)
    bench.settle()

    assert bases[1] in bench.files()
    assert bench.log.read_from(1).damaged == [bases[1]] == bench.reports


def test_one_step_reads_a_bounded_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.log.compaction.SLICE", 512)
    bench = Bench(tmp_path / "log")
    bench.fill(100)
    bases = sorted(bench.files())
    reads: list[int] = []
    pread = bench.log._segments.files.pread

    def spy(segment: object, size: int, offset: int) -> bytes:
        reads.append(size)
        return pread(segment, size, offset)  # type: ignore[arg-type]

    bench.log._compaction._least = 1 << 60  # not yet
    delete(bench.log, bases[1], bases[2] - 1, spare=4)
    bench.log._compaction._least = 0
    bench.log._ledger.occupancy.look_again()
    monkeypatch.setattr(bench.log._segments.files, "pread", spy)
    steps = 0
    while bench.log._compaction.step():
        assert len(reads) <= 1
        assert sum(reads) <= 512
        steps += len(reads)
        reads.clear()
    assert steps >= 3


def test_a_start_removes_what_was_half_done(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "log")
    bench.fill(30)
    bench.log.close()
    for name in (f"{1:020}.log.new", "checkpoint.new", f"{1:020}.index.new"):
        (bench.directory / name).write_bytes(b"half")
    bench.open().close()

    assert not list(bench.directory.glob("*.new"))


def test_a_segment_that_came_back_does_not_count(tmp_path: Path) -> None:
    """Its unlinking was lost with the power; the record that says it is gone was not."""
    bench = Bench(tmp_path / "log")
    bench.fill(100)
    bench.log.sync()
    bases = sorted(bench.files())
    path = bench.directory / f"{bases[2]:020}.log"
    kept = path.read_bytes()
    delete(bench.log, bases[2], bases[3] - 1)
    bench.settle()
    assert not path.exists()
    path.write_bytes(kept)
    for _ in bench.starts():
        pass


def test_a_missing_segment_is_damage_all_the_same(tmp_path: Path) -> None:
    """Beside one that was taken away."""
    bench = Bench(tmp_path / "log")
    bench.fill(120)
    bases = sorted(bench.files())
    delete(bench.log, bases[3], bases[4] - 1)
    bench.settle()
    bench.log.close()
    (bench.directory / f"{bases[2]:020}.log").unlink()

    log = bench.open()

    assert log.read_from(1).damaged == list(range(bases[2], bases[3])) == bench.reports


def test_a_removal_of_what_is_not_there(tmp_path: Path) -> None:
    """A start that does not find what was removed since the checkpoint reads everything."""
    bench = Bench(tmp_path / "log")
    bench.fill(30)
    bench.log.append([content(50)], 50)
    bench.log.close()
    bench.log = bench.open()
    segments, ledger = bench.log._segments, bench.log._ledger
    segments.append(
        encode_removal([(40, 40)], 0, ledger.last_sequence, ledger.last_time, segments.active.salt)
    )

    log = bench.open()

    assert not log.opened_from_checkpoint
    assert log.state().messages == 31
    assert bench.reports == []


def test_a_failure_costs_only_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path / "log")
    bench.fill(60)

    def fail(*_: object) -> int:
        raise StorageError("no")

    bases = sorted(bench.files())
    monkeypatch.setattr(bench.log._compaction, "_copy", fail)
    delete(bench.log, bases[1], bases[2] - 1)
    bench.settle()

    assert bases[1] in bench.files()
    assert not list(bench.directory.glob("*.log.new"))
    for _ in bench.starts():
        pass


class TestRecords:
    """What `compaction` and `replay` ask of the compiled scan."""

    SALT = 0x01020304

    def data(self) -> bytes:
        batch = NewMessages(NewMessage, [content(n) for n in range(1, 11)])
        messages = encode(batch, 1, 0, START, self.SALT, SubjectIndex())
        removal = encode_removal([(2, 3)], 0, 10, START, self.SALT)
        before = encode_removal([(2, 3)], 0, 0, START, self.SALT)
        return before + messages + removal + encode_segments([(9, 4), (9, 30)], 10, START, self.SALT)

    def test_byte_by_byte(self) -> None:
        record = encode_segments([(0x0102, 3)], 7, 5, 0)
        assert record[8:10] == b"\x01\x05"
        assert record[10:16] == b"\0\0\x10\0\0\0"
        assert record[16:40] == b"\x02\x01" + bytes(6) + b"\x05" + bytes(7) + b"\x07" + bytes(7)
        assert record[48:] == b"\x02\x01" + bytes(6) + b"\x03" + bytes(7)
        assert encode_segments([], 7, 5, 0) == b""

    def test_survivors_are_the_records_as_they_are(self) -> None:
        data = self.data()
        removed = SequenceSet()
        removed.add(4, 6)
        scan = Scan(self.SALT, 1, 1 << 40)
        kept = scan.survivors(data, True, removed, 3)
        assert (scan.ranges, scan.segments) == ([(2, 3), (2, 3)], [(9, 4), (9, 30)])
        out = StoredMessages(StoredMessage)
        again = Scan(self.SALT, 1, 1 << 40)
        again.messages_in(kept, True, 1, 99, None, SequenceSet(), 0, out, 99, 1 << 30)
        assert [m.sequence for m in out] == [3, 7, 8, 9, 10]
        assert all(m.payload == content(m.sequence).payload for m in out)

    def test_withdraw_takes_out_what_is_newly_gone(self) -> None:
        data = self.data()
        table, removed, gone = SubjectIndex(), SequenceSet(), SequenceSet()
        removed.add(4, 4)
        Scan(self.SALT, 1, 1 << 40).census(data, True, table, removed, 1, 0, 1 << 16)
        gone.add(4, 5)
        gone.add(8, 8)
        scan = Scan(self.SALT, 1, 1 << 40)

        assert scan.withdraw(data, True, table, removed, 1, gone, 3) == 2

        assert scan.messages == 4  # 1 and 2 by the floor, 5 and 8 by name
        assert table.span(b">")[0] == 5
        fresh = SubjectIndex()
        removed.add(5, 5)
        removed.add(8, 8)
        Scan(self.SALT, 1, 1 << 40).census(data, True, fresh, removed, 3, 0, 1 << 16)
        assert table.get(b"s.2") is fresh.get(b"s.2") is None
        for n in range(2):
            old, new = table.get(b"s.%d" % n), fresh.get(b"s.%d" % n)
            assert old is not None
            assert new is not None
            assert old[0] == new[0]
            assert old[1] <= new[1] <= new[2] <= old[2]

    def test_any_bytes(self) -> None:
        whole = self.data()
        random = Random(1)
        for _ in range(2000):
            data = bytearray(whole)
            for _ in range(random.randrange(1, 4)):
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            cut = bytes(data[: random.randrange(len(data) + 1)])
            table = SubjectIndex()
            kept = Scan(self.SALT, 1, 1 << 40).survivors(cut, True, SequenceSet(), 0)
            Scan(self.SALT, 1, 1 << 40).withdraw(cut, True, table, SequenceSet(), 0, SequenceSet(), 99)
            scan = Scan(self.SALT, 1, 1 << 40)
            scan.survivors(kept, True, SequenceSet(), 0)
            assert scan.damaged == []
            assert scan.bad_from is None


def test_a_start_agrees_with_the_next_one_on_a_segment_that_was_taken_away(tmp_path: Path) -> None:
    """A power loss kept its file and the record that it was taken away, not those of the removals."""
    bench = Bench(tmp_path / "log")
    bench.fill(60)
    bases = sorted(bench.files())
    bench.log._checkpoints.write()
    active = bench.log._segments.active
    end = active.size
    taken = bases[2], bases[1]
    last = bench.log._ledger.last_sequence
    record = encode_segments([taken], last, bench.clock.now, active.salt)
    bench.log._segments.append(2 * record)
    bench.log.sync()
    images = tmp_path / "killed"
    shutil.copytree(bench.directory, images)
    assert active.size == end + 2 * len(record)

    bench.directory = images
    first = bench.open()
    found = [m.sequence for m in held(first)]
    assert not set(range(bases[2], bases[3])) & set(found)
    assert found == [*range(1, bases[2]), *range(bases[3], last + 1)]
    for path in [*images.glob("*.index"), images / "checkpoint"]:
        path.unlink()
    del first
    assert [m.sequence for m in held(bench.open())] == found
    assert bench.reports == []
