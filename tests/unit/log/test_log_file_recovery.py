"""Opening a file log that was damaged, cut off or deprived of a file; golden files; the sparse index."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import START, Clock, is_sound

from headrace.engine.records import HEADER_BYTES as RECORD
from headrace.errors import MessageDamaged, StorageError
from headrace.log.file import FileLog
from headrace.log.index import NEVER, SparseIndex
from headrace.log.port import NO_LIMITS, Limits, NewMessage, SyncPolicy
from headrace.log.segment import BEGINNING, HEADER_BYTES, Header, Segment

if TYPE_CHECKING:
    from headrace.log.damage import Damage

GOLDEN: Final = Path(__file__).with_name("golden")
BODY: Final = b"x" * 52
LENGTH: Final = RECORD + 1 + len(BODY)


class Bed:
    """A log in a directory, with its reports, to be opened again and again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reports: list[int] = []
        self.texts: list[str] = []

    def note(self, damage: Damage) -> None:
        self.reports += range(damage.first, damage.last + 1)
        self.texts.append(str(damage))

    def open(self, limits: Limits = NO_LIMITS, segment_bytes: int = 1 << 20) -> FileLog:
        return FileLog(
            self.directory,
            limits=limits,
            clock=Clock(),
            segment_bytes=segment_bytes,
            report=self.note,
        )

    def fill(self, count: int = 10, segment_bytes: int = 1 << 20) -> None:
        log = self.open(segment_bytes=segment_bytes)
        for _ in range(count):
            log.append([NewMessage(b"a", BODY)])
        log.close()

    @property
    def segments(self) -> list[Path]:
        return sorted(self.directory.glob("*.log"))

    def forget_rest(self) -> None:
        """Only the records are left."""
        for path in [*self.directory.glob("*.index"), self.directory / "checkpoint"]:
            path.unlink(missing_ok=True)

    def spoil(self, record: int, offset: int, data: bytes = b"\xff\xff", segment: int = 0) -> None:
        """Overwrites bytes of the n-th record, counted from 0."""
        path = self.segments[segment]
        content = bytearray(path.read_bytes())
        at = BEGINNING + record * LENGTH + offset
        content[at : at + len(data)] = data
        path.write_bytes(content)

    def lose(self, sequence: int) -> None:
        """Zeros where the record of a message was."""
        for path in self.segments:
            content = bytearray(path.read_bytes())
            for at in range(len(content) - RECORD):
                found = struct.unpack_from("<BBHIQ", content, at + 8)
                if found == (1, 1, 1, LENGTH - RECORD, sequence):  # version, message, subject, body
                    content[at : at + LENGTH] = bytes(LENGTH)
                    path.write_bytes(content)
                    return
        raise AssertionError(f"no record of {sequence}")


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path / "log")


def present(log: FileLog) -> list[int]:
    return [m.sequence for m in log.read_from(1, max_messages=10_000).messages]


class TestDamage:
    @pytest.mark.parametrize("offset", [0, 4, 8, 9, 10, 12, 13, 16, 24, 32, 40, 44, 46, 48, 60, LENGTH - 2])
    @pytest.mark.parametrize("checkpoint", [False, True])
    def test_one_record(self, bed: Bed, offset: int, checkpoint: bool) -> None:
        """Wherever it is, it costs that message; all others are there, and it is reported by sequence."""
        bed.fill()
        bed.spoil(4, offset)
        if not checkpoint:
            bed.forget_rest()

        log = bed.open()
        page = log.read_from(1)

        assert [m.sequence for m in page.messages] == [1, 2, 3, 4, 6, 7, 8, 9, 10]
        assert (page.damaged, page.next_sequence) == ([5], 11)
        assert bed.reports == [5]
        state = log.state()
        assert (state.damaged, state.messages, state.deleted) == ((5,), 9, 0)
        with pytest.raises(MessageDamaged, match="message 5 is damaged"):
            log.read(5)
        assert log.append([NewMessage(b"a", b"next")]) == 11
        assert log.read_from(6).damaged == []

    @pytest.mark.parametrize("damaged", [1, 3, 8])
    def test_the_newest_message_is_the_newest_that_can_be_read(self, bed: Bed, damaged: int) -> None:
        """Of a log that is opened from its checkpoint, which reads none of them."""
        bed.fill(70 + damaged)
        for record in range(70, 70 + damaged):
            bed.spoil(record, 60)

        newest = bed.open().last()

        assert newest is not None
        assert newest.sequence == 70

    def test_the_newest_message_of_a_log_that_is_damaged_as_a_whole(self, bed: Bed) -> None:
        bed.fill(70)
        for record in range(70):
            bed.spoil(record, 60)

        assert bed.open().last() is None

    @pytest.mark.parametrize("checkpoint", [False, True])
    def test_what_a_lost_message_had_no_room_beside_is_there_again(self, bed: Bed, checkpoint: bool) -> None:
        """A power loss may take a message and leave what was written behind it: a removal that it caused."""
        limits = Limits(max_messages_per_subject=1)
        log = bed.open(limits)
        log.append([NewMessage(b"a", BODY)])
        log.close()
        log = bed.open(limits)
        log.append([NewMessage(b"a", BODY)])
        log.append([NewMessage(b"b", BODY)])  # says that the first is removed
        before = {path: path.read_bytes() for path in bed.directory.iterdir()}
        log.close()
        for path in bed.directory.iterdir():
            path.unlink()
        for path, content in before.items():  # as if the process had been killed
            path.write_bytes(content)
        bed.lose(2)
        if not checkpoint:
            bed.forget_rest()

        again = bed.open(limits)

        assert present(again) == [1, 3]
        assert again.append([NewMessage(b"a", BODY)]) == 4
        assert present(again) == [3, 4]

    def test_a_damaged_message_can_be_deleted_and_purged(self, bed: Bed) -> None:
        bed.fill()
        bed.spoil(0, 60)
        bed.spoil(4, 60)
        bed.forget_rest()
        log = bed.open()
        assert log.state().first_sequence == 1

        assert log.delete(5)
        assert log.purge(up_to=4) == 2

        assert log.read_from(1).damaged == []
        assert (log.state().first_sequence, log.state().messages, log.state().deleted) == (4, 6, 1)
        log.close()
        assert present(bed.open()) == [4, 6, 7, 8, 9, 10]

    def test_neighbours(self, bed: Bed) -> None:
        bed.fill()
        bed.spoil(3, 0, bytes(3 * LENGTH))
        bed.forget_rest()

        log = bed.open()

        assert log.read_from(1).damaged == bed.reports == [4, 5, 6]
        assert present(log) == [1, 2, 3, 7, 8, 9, 10]

    def test_deleted_messages_are_not_missed(self, bed: Bed) -> None:
        bed.fill()
        log = bed.open()
        log.delete(5)
        log.close()
        bed.spoil(4, 0, bytes(LENGTH))
        bed.forget_rest()

        log = bed.open()

        assert bed.reports == []
        is_sound(log)

    def test_bytes_of_a_publisher_never_pass_for_a_record(self, bed: Bed) -> None:
        bed.fill(3)
        record = bed.segments[0].read_bytes()[BEGINNING : BEGINNING + LENGTH]
        other = Bed(bed.directory.with_name("other"))
        log = other.open()
        log.append([NewMessage(b"a", b"1"), NewMessage(b"a", record * 3), NewMessage(b"a", b"3")])
        log.close()
        path = other.segments[0]
        content = bytearray(path.read_bytes())
        content[BEGINNING + RECORD + 2] ^= 1  # the header of the message that holds records
        path.write_bytes(content)
        other.forget_rest()

        log = other.open()

        assert [m.payload for m in log.read_from(1).messages] == [b"1", b"3"]
        assert log.read_from(1).damaged == [2]

    @pytest.mark.parametrize("which", [0, 1, -1])
    def test_a_file_that_is_cut_while_the_log_is_open(self, bed: Bed, which: int) -> None:
        log = bed.open(segment_bytes=BEGINNING + 4 * LENGTH)
        for _ in range(10):
            log.append([NewMessage(b"a", BODY)])
        with bed.segments[which].open("r+b") as file:
            file.truncate(BEGINNING + LENGTH + 3)  # one message of its four is whole, or of its two
        first = {0: 1, 1: 5, -1: 9}[which]
        lost = list(range(first + 1, min(first + 4, 11)))
        assert present(log) == [n for n in range(1, 11) if n not in lost]
        assert bed.reports == lost
        assert log.state().messages == 10 - len(lost)
        log.close()

    def test_found_after_opening(self, bed: Bed) -> None:
        bed.fill()
        log = bed.open()
        assert log.opened_from_checkpoint
        bed.spoil(7, 50)

        assert log.read_from(1).damaged == [8]

        assert (bed.reports, log.state().damaged, log.state().messages) == ([8], (8,), 9)

    @pytest.mark.parametrize("what", ["first", "middle", "last"])
    def test_header_of_a_segment(self, bed: Bed, what: str) -> None:
        """It is there twice: nothing is lost, and it is written again."""
        bed.fill(30, segment_bytes=1200)
        assert len(bed.segments) == 3
        path = bed.segments[["first", "middle", "last"].index(what)]
        before = path.read_bytes()
        path.write_bytes(b"\0" * HEADER_BYTES + before[HEADER_BYTES:])
        bed.forget_rest()

        log = bed.open()

        assert present(log) == list(range(1, 31))
        assert path.read_bytes()[: len(before)] == before
        assert bed.texts == [f"the header of {path.name} is damaged; it is restored from what is there twice"]
        assert log.append([NewMessage(b"a", b"next")]) == 31

    @pytest.mark.parametrize("what", ["first", "middle", "last"])
    def test_first_block_of_a_segment(self, bed: Bed, what: str) -> None:
        """Both headers are gone: the index and the checkpoint know what the other records need."""
        bed.fill(30, segment_bytes=1200)
        path = bed.segments[["first", "middle", "last"].index(what)]
        first = int(path.stem)
        path.write_bytes(b"\0" * (BEGINNING + LENGTH) + path.read_bytes()[BEGINNING + LENGTH :])

        for _ in range(2):
            log = bed.open()
            assert log.state().last_sequence == 30
            assert set(present(log)) == set(range(1, 31)) - {first}
            assert log.read_from(1).damaged == [first]
            log.close()
        assert bed.reports == [first, first]

    @pytest.mark.parametrize("what", ["first", "middle", "last"])
    def test_a_segment_of_which_nothing_is_known(self, bed: Bed, what: str) -> None:
        """Its messages are lost and reported, in one report; their sequences are not given again."""
        bed.fill(30, segment_bytes=1200)
        assert len(bed.segments) == 3
        path = bed.segments[["first", "middle", "last"].index(what)]
        first = int(path.stem)
        path.write_bytes(b"\0" * BEGINNING + path.read_bytes()[BEGINNING:])
        bed.forget_rest()

        log = bed.open()

        assert len(bed.texts) == 1
        assert set(range(first, first + 10)) <= set(log.read_from(1).damaged)
        assert set(present(log)) == set(range(1, 31)) - set(range(first, first + 10))
        assert log.append([NewMessage(b"a", b"next")]) > 30

    def test_missing_segment(self, bed: Bed) -> None:
        bed.fill(30, segment_bytes=1200)
        bed.segments[1].unlink()

        log = bed.open()

        assert log.state().messages == 20
        assert log.read_from(1).damaged == list(range(11, 21))

    def test_random_bytes_anywhere(self, bed: Bed) -> None:
        """Nothing that is read was not written; the log opens and takes appends."""
        bed.fill(40, segment_bytes=1100)
        kept = bed.directory.with_name("kept")
        shutil.copytree(bed.directory, kept)
        for seed in range(150):
            random = Random(seed)
            shutil.rmtree(bed.directory)
            shutil.copytree(kept, bed.directory)
            path = random.choice(sorted(bed.directory.iterdir()))
            content = bytearray(path.read_bytes())
            for _ in range(random.randrange(1, 5)):
                at = random.randrange(len(content))
                n = random.choice([1, 4, 100])
                content[at : at + n] = random.randbytes(n)
            path.write_bytes(content)

            log = bed.open(segment_bytes=1100)

            for m in log.read_from(1, max_messages=1000).messages:
                assert (m.subject, m.payload, m.time_ns) == (b"a", BODY, START)
            assert log.append([NewMessage(b"a", b"next")]) > 35
            log.close()


class TestTail:
    def test_cut_at_every_byte(self, bed: Bed) -> None:
        bed.fill(3)
        bed.forget_rest()
        whole = bed.segments[0].read_bytes()
        for cut in range(BEGINNING + 2 * LENGTH, len(whole)):
            bed.segments[0].write_bytes(whole[:cut])
            log = bed.open()
            assert present(log) == [1, 2]
            assert log.cut_bytes == len(whole[BEGINNING + 2 * LENGTH : cut].rstrip(b"\0"))
            assert bed.segments[0].stat().st_size == BEGINNING + 2 * LENGTH
            assert log.append([NewMessage(b"a", b"again")]) == 3
            log.close()
            bed.forget_rest()
        assert bed.reports == []

    @pytest.mark.parametrize("tail", [b"\0", b"\0" * 5000, b"\x01" * 500, bytes(range(256)) * 9])
    def test_garbage_behind_the_last_record(self, bed: Bed, tail: bytes) -> None:
        bed.fill(3)
        bed.forget_rest()
        with bed.segments[0].open("ab") as file:
            file.write(tail)

        log = bed.open()

        assert present(log) == [1, 2, 3]
        assert log.cut_bytes == len(tail.rstrip(b"\0"))  # zeros are room that was reserved

    @pytest.mark.parametrize("size", range(0, HEADER_BYTES + 1, 8))
    def test_a_segment_that_was_only_begun(self, bed: Bed, size: int) -> None:
        bed.fill(3)
        header = Header(7, 4, START, 1, 1).pack()
        (bed.directory / f"{4:020}.log").write_bytes(header[:size])

        log = bed.open()

        assert present(log) == [1, 2, 3]
        assert log.append([NewMessage(b"a", b"next")]) == 4
        log.close()
        assert present(bed.open()) == [1, 2, 3, 4]

    def test_what_was_synced_and_is_gone_is_reported(self, bed: Bed) -> None:
        """The checkpoint was written after a sync: a shorter file has lost acknowledged messages."""
        bed.fill(5)
        path = bed.segments[0]
        path.write_bytes(path.read_bytes()[: BEGINNING + 3 * LENGTH])

        log = bed.open()

        assert (present(log), log.read_from(1).damaged) == ([1, 2, 3], [4, 5])
        assert log.append([NewMessage(b"a", b"next")]) == 6


class TestIndexAndCheckpoint:
    @pytest.mark.parametrize("suffix", [".index", "checkpoint"])
    @pytest.mark.parametrize("change", ["missing", "empty", "other", "flipped"])
    def test_missing_or_wrong(self, bed: Bed, suffix: str, change: str) -> None:
        log = bed.open(segment_bytes=200_000)
        for _ in range(60):
            log.append([NewMessage(b"a", b"y" * 1000)] * 10)
        log.delete(300)
        log.close()
        paths = [p for p in bed.directory.iterdir() if p.name.endswith(suffix)]
        for path in paths:
            data = path.read_bytes()
            path.unlink()
            if change != "missing":
                flipped = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
                path.write_bytes({"empty": b"", "other": b"nothing of ours", "flipped": flipped}[change])

        log = bed.open(segment_bytes=200_000)

        assert log.opened_from_checkpoint == (suffix == ".index")  # an index is made again on its own
        assert len(present(log)) == 599
        is_sound(log)
        assert log.read(431) is not None
        log.close()
        assert bed.open().opened_from_checkpoint

    def test_index_of_another_segment_is_refused(self) -> None:
        index = SparseIndex()
        index.add([[0, 1, 5, NEVER], [70_000, 9, 6, 50]], NEVER)
        data = index.dump(1, 2, 3)

        loaded = SparseIndex.load(data, 1, 2, 3)
        assert loaded is not None
        assert (loaded.before_sequence(8), loaded.before_sequence(9)) == ((0, 1), (70_000, 9))
        assert (loaded.before_time(5), loaded.before_time(6), loaded.before_time(7)) == (0, 1, 9)
        assert loaded.next_expiry == 50
        assert SparseIndex.load(data, 9, 2, 3) is None
        assert SparseIndex.load(data, 1, 9, 3) is None
        assert SparseIndex.load(data, 1, 2, 9) is None
        assert SparseIndex.load(data[:-1], 1, 2, 3) is None

    def test_a_start_reads_only_what_came_after(self, bed: Bed) -> None:
        bed.fill(50, segment_bytes=1100)
        log = bed.open(segment_bytes=1100)
        log.append([NewMessage(b"late", b"1")])
        del log  # not closed: the checkpoint is of before

        log = bed.open(segment_bytes=1100)

        assert log.opened_from_checkpoint
        assert log.state().messages == 51
        is_sound(log)

    @pytest.mark.parametrize("sync", [SyncPolicy.GROUP, SyncPolicy.NEVER])
    @pytest.mark.parametrize(
        "limits", [NO_LIMITS, Limits(max_messages=900), Limits(max_messages_per_subject=90)]
    )
    def test_a_start_after_a_kill_reads_two_segments_at_most(
        self, tmp_path: Path, limits: Limits, sync: SyncPolicy
    ) -> None:
        """And of what was removed since the checkpoint, the blocks it was in."""
        size = 200_000
        log = FileLog(tmp_path / "log", clock=Clock(), segment_bytes=size, limits=limits, sync=sync)
        random = Random(1)
        for n in range(100):
            log.append([NewMessage(b"s.%d" % random.randrange(12), random.randbytes(900)) for _ in range(20)])
            log.sync()
            if n % 10 == 9:
                shutil.rmtree(tmp_path / "killed", ignore_errors=True)
                shutil.copytree(tmp_path / "log", tmp_path / "killed")
                killed = FileLog(tmp_path / "killed", clock=Clock(), segment_bytes=size, limits=limits)
                assert killed.opened_from_checkpoint == (n > 10)  # the first segment has none yet
                assert (
                    killed.opened_by_reading <= 2 * size + (2 * size if limits.max_messages else 0) + 500_000
                )
                assert killed.state() == log.state()
                is_sound(killed)
                killed.close()
            if n % 7 == 0:
                log.delete(log.state().last_sequence - 30)
        assert log.written > 8 * size

    def test_a_purge_and_a_kill(self, tmp_path: Path) -> None:
        """All of what the checkpoint counts is gone: nothing of it is read."""
        log = FileLog(tmp_path / "log", clock=Clock(), segment_bytes=100_000)
        for _ in range(50):
            log.append([NewMessage(b"a", b"x" * 900)] * 10)
        log.sync()
        log._checkpoints.written_at = log._segments.written + (1 << 40)  # no checkpoint comes any more
        log.purge()
        log.append([NewMessage(b"b", b"y")])
        log = FileLog(tmp_path / "log", clock=Clock(), segment_bytes=100_000)

        assert log.opened_from_checkpoint
        assert log.opened_by_reading <= 200_000
        assert [m.subject for m in log.read_from(1).messages] == [b"b"]
        is_sound(log)

    def test_the_work_of_a_limit_by_subject_is_bounded(self, tmp_path: Path) -> None:
        """A sparse subject over 1,000 messages: one append reads no more than the way to its next message."""
        log = FileLog(tmp_path / "log", clock=Clock(), limits=Limits(max_messages_per_subject=1500))
        for _ in range(1500):
            log.append(
                [NewMessage(b"sparse", b"x"), *[NewMessage(b"other.%d" % n, b"y" * 900) for n in range(8)]]
            )
        reads: list[int] = []
        pread = log._segments.files.pread

        def spy(segment: Segment, size: int, offset: int) -> bytes:
            data = pread(segment, size, offset)
            reads.append(len(data))
            return data

        log._segments.files.pread = spy  # type: ignore[method-assign]
        worst = 0
        for _ in range(300):
            reads.clear()
            log.append([NewMessage(b"sparse", b"x")])
            worst = max(worst, sum(reads))
        assert log.state().messages == 1500 * 9
        assert worst < 2_000_000


class TestSegments:
    def test_old_ones_are_unlinked_after_a_sync(self, bed: Bed) -> None:
        log = bed.open(Limits(max_messages=10), segment_bytes=1100)
        for _ in range(100):
            log.append([NewMessage(b"a", BODY)])
        assert len(bed.segments) <= 4
        log.purge()
        log.sync()
        assert len(bed.segments) == 1
        log.close()
        assert bed.open().append([NewMessage(b"a", b"next")]) == 101

    def test_erased_bytes_are_gone_at_once(self, bed: Bed) -> None:
        log = bed.open()
        log.append([NewMessage(b"secret.subject", b"secret payload", b"secret.reply", b"secret")] * 2)

        assert log.delete(1, erase=True)

        assert bed.segments[0].read_bytes().count(b"secret payload") == 1
        assert log.delete(2)
        assert log.delete(2, erase=True) is False
        assert b"secret" not in bed.segments[0].read_bytes()
        log.close()
        bed.forget_rest()
        assert present(bed.open()) == []
        assert bed.reports == []

    def test_the_heap_does_not_grow_with_messages(self, bed: Bed) -> None:
        log = bed.open(segment_bytes=4 << 20)
        batch = [NewMessage(b"s.%d" % (n % 100), b"p" * 100) for n in range(1000)]
        for _ in range(100):
            log.append(batch)
        marks = sum(len(s.index) for s in log._segments.all)

        assert log.state().messages == 100_000
        assert marks < 100_000 * 160 / 60_000
        assert len(log._ledger.removed) == 0
        assert len(log._reader.cursors) <= 64

    def test_a_large_message_needs_no_larger_segment(self, bed: Bed) -> None:
        log = bed.open(segment_bytes=4096)
        payload = Random(1).randbytes(3 << 20)
        log.append([NewMessage(b"a", b"1"), NewMessage(b"a", payload), NewMessage(b"a", b"3")])

        message = log.read(2)
        assert message is not None
        assert message.payload == payload
        assert [len(m.payload) for m in log.read_from(1, max_bytes=10).messages] == [1]
        assert [m.sequence for m in log.read_from(2, max_bytes=10).messages] == [2]


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="directory"):
        FileLog(tmp_path / "file" / "log")


def test_a_sealed_log_without_a_key_is_refused(bed: Bed) -> None:
    bed.directory.mkdir()
    (bed.directory / f"{1:020}.log").write_bytes(Header(1, 1, 0, 1, 0, flags=1).pack())
    with pytest.raises(StorageError, match="encrypted"):
        bed.open()


# ---- golden files -------------------------------------------------------------------------------


def write_golden(directory: Path) -> None:
    """What the golden log holds."""
    log = FileLog(directory, clock=Clock(), segment_bytes=700, sync=SyncPolicy.GROUP)
    log.append([NewMessage(b"a.b", b"first", b"_INBOX.1", b"NATS/1.0\r\nA: b\r\n\r\n")])
    log.append([NewMessage(b"a.c", b""), NewMessage(b"a.b", b"ttl", ttl_ns=10**9)])
    log.append([NewMessage(b"late", bytes(range(256)))], 10)
    log.delete(2)
    log.append([NewMessage(b"a.b", b"z" * 300), NewMessage(b"e", b"erased")])
    log.delete(12, erase=True)
    log.purge(up_to=2)
    log.close()


@pytest.mark.parametrize("golden", ["v1", "v1-twice", "v1-limits"])
def test_golden_log_is_read(tmp_path: Path, golden: str) -> None:
    """Version 1 as it was when it was first written, since headers are there twice, and since removals by
    limits say so. A new format is a new version, and reads these.
    """
    shutil.copytree(GOLDEN / golden, tmp_path / "log")
    is_old = golden == "v1"  # its checkpoint is of version 1, and disposable
    for from_checkpoint in (not is_old, is_old, not is_old):
        log = FileLog(tmp_path / "log", clock=Clock())
        assert log.opened_from_checkpoint == from_checkpoint
        found = log.read_from(1).messages
        assert [(m.sequence, m.subject, m.payload) for m in found] == [
            (3, b"a.b", b"ttl"),
            (10, b"late", bytes(range(256))),
            (11, b"a.b", b"z" * 300),
        ]
        assert all(m.time_ns == START for m in found)
        assert log.next_expiry() == START + 10**9
        assert log.state().last_sequence == 12
        is_sound(log)
        log.close()
        if from_checkpoint:
            for path in [*(tmp_path / "log").glob("*.index"), tmp_path / "log" / "checkpoint"]:
                path.unlink()


def test_golden_log_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.log.segments.new_salt", lambda: 0x5EED)
    write_golden(tmp_path / "log")

    for path in sorted((GOLDEN / "v1-limits").glob("*.log")):
        assert (tmp_path / "log" / path.name).read_bytes() == path.read_bytes(), path.name


def test_header_of_a_segment_byte_by_byte() -> None:
    packed = Header(0x01020304, 5, 6, 7, 8, 1).pack()

    assert packed[:16] == b"HRLOG\0\r\n" + struct.pack("<II", 1, 0x01020304)
    assert Header.unpack(packed) == Header(0x01020304, 5, 6, 7, 8, 1)
    for place in range(HEADER_BYTES):
        changed = bytearray(packed)
        changed[place] ^= 1
        assert Header.unpack(bytes(changed)) is None


class TestNearCheckpoints:
    """Of a log whose start reads from far away: after a kill little is behind the last one."""

    NEAR: Final = 256 << 10

    def killed(
        self, directory: Path, *, every: int | None, subjects: int = 1, sync: SyncPolicy = SyncPolicy.NEVER
    ) -> FileLog:
        log = FileLog(directory, segment_bytes=8 << 20, sync=sync, checkpoint_bytes=every)
        for n in range(3000):
            log.append([NewMessage(b"s%d" % (n % subjects), bytes(1000))])
            if n % 100 == 0:
                log.sync()
        return log  # it is not closed

    def opened(self, directory: Path, copy: Path) -> FileLog:
        shutil.copytree(directory, copy)
        return FileLog(copy, segment_bytes=8 << 20, sync=SyncPolicy.NEVER)

    @pytest.mark.parametrize("sync", [SyncPolicy.NEVER, SyncPolicy.GROUP])
    def test_a_start_reads_no_more_than_what_is_between_two(self, tmp_path: Path, sync: SyncPolicy) -> None:
        log = self.killed(tmp_path / "log", every=self.NEAR, sync=sync)
        again = self.opened(tmp_path / "log", tmp_path / "copy")
        assert again.opened_from_checkpoint
        assert again.opened_by_reading <= 2 * self.NEAR, "with what no sync has reached"
        assert again.state().messages == 3000
        again.close()
        log.close()

    def test_any_other_start_reads_the_segment(self, tmp_path: Path) -> None:
        log = self.killed(tmp_path / "log", every=None)
        again = self.opened(tmp_path / "log", tmp_path / "copy")
        assert again.opened_by_reading > 1_500_000
        again.close()
        log.close()

    def test_large_ones_are_an_eighth_of_what_is_written_at_most(self, tmp_path: Path) -> None:
        log = self.killed(tmp_path / "log", every=self.NEAR, subjects=3000)
        assert log._segments.drafted == 2, "at 1.1 MB, and 1.5 MB later"
        log.close()
