"""The backlog of an owner with `commit: disk`: what is synced is found again, whatever fails and when."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from headrace.bucket import backlog as backlog_module
from headrace.bucket import spare_segments
from headrace.bucket.backlog import MOST_PARTS, BucketBacklog, read_back
from headrace.bucket.backlog_format import HEAD_BYTES, SegmentHead, pack_record, records_of, url_digest
from headrace.bucket.changes import Write, decode
from headrace.bucket.errors import CacheFailed, DamagedObject, NewerFormat, NotOurs
from headrace.bucket.journal import Journal
from headrace.bucket.leftover import Leftover, read_leftover
from headrace.engine.records import crc32c
from headrace.errors import StorageError
from headrace.log.filesystem import pwrite_all
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem, holding, image_of

if TYPE_CHECKING:
    from headrace.log.filesystem import FileSystem

FOLDER = Path("/store/.bucket/backlog")
URL = url_digest("s3://b/p")
WRITER = bytes(range(16))


class Owner:
    """A backlog, and what its journal was given: change N is one byte at place N of file 1."""

    def __init__(self, files: FileSystem, number: int = 0, base: int = 0, pace_s: float = 0.0) -> None:
        self.now = 0.0
        self.kicks = 0
        self.journal = Journal(position=base)
        self.backlog = BucketBacklog(
            files,
            FOLDER,
            SegmentHead("js", URL, number, 1, WRITER, base),
            self.journal,
            pace_s=pace_s,
            clock=lambda: self.now,
            wall_ns=lambda: 7,
        )
        self.backlog.kick = self._kick
        self.backlog.begin()

    def _kick(self) -> None:
        self.kicks += 1

    def change(self, size: int = 1) -> int:
        """Record a change; return its number."""
        number = self.journal.position + 1
        with self.journal.lock:
            self.journal.record(Write(1, number * 1000, bytes([number % 256]) * size))
        return number


def leftover(files: FileSystem) -> Leftover:
    return read_leftover(files, FOLDER, "js", URL)


def changes(files: FileSystem, position: int = 0) -> list[int]:
    """The numbers of the changes that a start finds behind a position."""
    found = []
    left = leftover(files)
    for record in left.behind(position):
        numbers = [
            change.offset // 1000 for change in decode(read_back(files, record)) if type(change) is Write
        ]
        assert numbers == list(range(record.start + 1, record.end + 1))
        found += numbers
    left.close(files)
    return found


def test_what_was_synced_is_found_and_what_was_only_written_after_a_kill_too() -> None:
    files = MemoryFileSystem()
    owner = Owner(files)
    for _ in range(3):
        owner.change()
    assert owner.backlog.sync() == 3
    owner.change()
    assert owner.backlog.write()
    owner.change()
    files.kill()

    assert changes(files) == [1, 2, 3, 4]
    assert changes(files, 3) == [4]


@pytest.mark.parametrize(
    "only",
    [(), ("fsync", "fdatasync", "fsync_dir"), ("pwrite",), ("rename", "unlink")],
    ids=["all", "syncs", "writes", "names"],
)
@pytest.mark.parametrize("seed", range(4))
def test_power_is_lost_after_each_call_that_fails(
    only: tuple[str, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_power_after_each_failure(only, seed, monkeypatch)


def lose_power_after_each_failure(only: tuple[str, ...], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the first call of some kinds, then the second, and so on, until none is left."""
    monkeypatch.setattr(backlog_module, "SEGMENT_BYTES", 2000)
    fail_at = 0
    while True:
        fail_at += 1
        random, inner = Random(f"{seed} {fail_at}"), MemoryFileSystem()
        files = FaultyFileSystem(inner, fail_at, only=only, failures=random.choice([1, 3]))
        acknowledged, last, reached, ends = 0, 0, 0, [0]
        try:
            owner = Owner(files)
            for _ in range(random.randrange(20, 40)):
                last = owner.change(random.randrange(1, 300))
                if random.random() < 0.3:
                    owner.backlog.write()
                if random.random() < 0.4:
                    try:
                        acknowledged = owner.backlog.sync()
                        ends.append(acknowledged)
                    except StorageError:
                        assert owner.backlog.trouble is not None
                if random.random() < 0.3:
                    reached = max(reached, random.choice(ends[-3:]))
                    owner.backlog.reached(reached)
                    with suppress(OSError):
                        owner.backlog.remove_reached()
        except CacheFailed:
            pass
        inner.crash(random)

        found = changes(inner, reached)

        assert found == list(range(reached + 1, reached + len(found) + 1))
        assert acknowledged <= reached + len(found) <= max(last, reached)
        if not files.failed:
            return


def test_a_second_life_goes_on_behind_the_first_whatever_the_power_took() -> None:
    for seed in range(60):
        random, files = Random(seed), MemoryFileSystem()
        base = number = acknowledged = 0
        for _ in range(5):
            owner = Owner(files, number, base)
            for _ in range(random.randrange(8)):
                owner.change()
                if random.random() < 0.5:
                    owner.backlog.write()
                if random.random() < 0.3:
                    acknowledged = owner.backlog.sync()
            files.crash(random)
            found = changes(files)
            assert found == list(range(1, len(found) + 1))
            assert len(found) >= acknowledged
            base, number = len(found), leftover(files).last_number
            acknowledged = base  # it was read from the disk


def synced_image() -> tuple[dict[Path, bytes], Path]:
    """Files of a backlog of five syncs of one change each, and the path of its segment."""
    files = MemoryFileSystem()
    owner = Owner(files)
    for _ in range(5):
        owner.change(3)
        owner.backlog.sync()
    image = image_of(files, FOLDER)
    (path,) = image
    return {path: image[path].rstrip(b"\0")}, path


def test_a_file_cut_at_every_byte_has_what_is_whole_or_says_that_it_is_damaged() -> None:
    image, path = synced_image()
    data = image[path]
    counts = []
    for size in range(len(data) + 1):
        files = holding({path: data[:size]})
        found = changes(files)
        assert found == list(range(1, len(found) + 1))
        counts.append(len(found))

    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3, 4, 5}


def test_every_byte_that_changes_costs_the_last_group_or_is_named() -> None:
    image, path = synced_image()
    data = image[path]
    is_named = False
    for at in range(len(data)):
        files = holding({path: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]})
        try:
            assert changes(files) in ([1, 2, 3, 4], [1, 2, 3, 4, 5])
        except (DamagedObject, NotOurs, NewerFormat):
            is_named = True

    assert is_named


def test_damage_that_the_bucket_makes_good_is_none() -> None:
    image, path = synced_image()
    data = bytearray(image[path])
    data[HEAD_BYTES + 60] ^= 1  # in the first record
    files = holding({path: bytes(data)})

    with pytest.raises(
        DamagedObject, match="changes behind position 0 were acknowledged and are damaged, up to 4"
    ):
        leftover(files).behind(0)
    assert changes(files, 1) == [2, 3, 4, 5]


def test_what_a_failed_sync_had_is_in_the_next_segment() -> None:
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only=["fdatasync"])
    owner = Owner(files)
    owner.change()
    owner.backlog.sync()
    owner.change()
    files.fail_at = files.calls + 1
    with pytest.raises(StorageError, match=r"0001: Input/output error"):
        owner.backlog.sync()
    with pytest.raises(OSError, match=r"0001: Input/output error"):
        owner.journal.check(adds=True)
    owner.change()

    assert owner.backlog.sync() == 3
    assert owner.backlog.trouble is None
    inner.crash(Random(1))
    assert changes(inner) == [1, 2, 3]
    assert len(leftover(inner).segments) == 2


def test_a_full_disk_is_said_and_what_waits_goes_to_the_bucket_all_the_same() -> None:
    files = MemoryFileSystem(capacity=HEAD_BYTES + 10)
    owner = Owner(files)
    owner.change(100)
    with pytest.raises(StorageError, match="No space left on device"):
        owner.backlog.sync()
    owner.change(100)

    taken = owner.backlog.take(1 << 20)

    assert taken is not None
    assert taken.position == 2
    assert [len(change.data) for change in decode(b"".join(taken.parts)) if type(change) is Write] == [
        100,
        100,
    ]


def taken_positions(owner: Owner, most: int = 1 << 20) -> list[int]:
    found = []
    while (taken := owner.backlog.take(most)) is not None:
        found.append(taken.position)
    return found


def test_objects_are_made_of_whole_records_and_end_at_cuts() -> None:
    owner = Owner(MemoryFileSystem())
    for number in range(6):
        owner.change()
        if number == 3:
            with owner.journal.lock:
                owner.journal.cut()
        owner.backlog.sync()

    assert taken_positions(owner) == [4, 6]
    assert owner.backlog.waiting_bytes > 0
    owner.backlog.reached(6)
    assert owner.backlog.waiting_bytes == 0
    assert owner.backlog.is_empty


def test_changes_wait_for_others_unless_there_are_many_or_it_is_urgent() -> None:
    owner = Owner(MemoryFileSystem(), pace_s=0.5)
    waits: list[float] = []
    owner.backlog.when_due = waits.append
    owner.change()
    owner.backlog.sync()
    assert taken_positions(owner) == []
    owner.now = 0.4
    owner.change()
    owner.backlog.sync()
    assert taken_positions(owner) == []
    assert waits == [0.5, pytest.approx(0.1)]
    owner.now = 0.5
    assert taken_positions(owner) == [2]

    owner.change()
    owner.backlog.sync()
    owner.change(9 << 20)
    kicks = owner.kicks
    owner.backlog.sync()
    assert owner.kicks == kicks + 1
    assert taken_positions(owner) == [3, 4]

    owner.change()
    owner.backlog.sync()
    owner.backlog.is_hurried = True
    assert taken_positions(owner) == [5]


def test_what_is_too_much_for_memory_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_module, "MOST_KEPT", 1000)
    files = MemoryFileSystem()
    owner = Owner(files)
    for _ in range(10):
        owner.change(400)
        owner.backlog.sync()
    payloads = []
    while (taken := owner.backlog.take(1 << 20)) is not None:
        payloads.append(b"".join(taken.parts))

    written = [change for payload in payloads for change in decode(payload) if type(change) is Write]
    assert [bytes(change.data) for change in written] == [bytes([number]) * 400 for number in range(1, 11)]


def test_many_small_changes_are_one_piece_and_large_ones_are_not_copied() -> None:
    owner = Owner(MemoryFileSystem())
    for _ in range(2 * MOST_PARTS):
        owner.change()
    owner.backlog.sync()
    taken = owner.backlog.take(1 << 20)
    assert taken is not None
    assert len(taken.parts) == 1
    assert len(decode(taken.parts[0])) == 2 * MOST_PARTS

    data = bytes(5000)
    with owner.journal.lock:
        owner.journal.record(Write(1, 0, data))
    owner.backlog.sync()
    taken = owner.backlog.take(1 << 20)
    assert taken is not None
    assert any(part is data for part in taken.parts)


def test_a_record_that_cannot_be_read_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_module, "MOST_KEPT", 0)
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only=["pread"])
    owner = Owner(files)
    owner.change(400)
    owner.backlog.sync()
    files.fail_at, files.error = 1, errno.EIO

    with pytest.raises(CacheFailed, match="Input/output error"):
        owner.backlog.take(1 << 20)


def test_segments_that_the_bucket_has_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_module, "SEGMENT_BYTES", 1000)
    files = MemoryFileSystem()
    owner = Owner(files)
    for _ in range(12):
        owner.change(400)
        owner.backlog.sync()
    names = sorted(files.listdir(FOLDER))
    assert len(names) > 4

    assert not owner.backlog.reached(1)
    assert owner.backlog.reached(7)
    owner.backlog.remove_reached()

    assert changes(files, 7) == [8, 9, 10, 11, 12]
    assert len(files.listdir(FOLDER)) < len(names)
    owner.backlog.reached(12)
    owner.backlog.remove()
    assert files.listdir(FOLDER) == []
    with pytest.raises(StorageError, match="given up"):
        owner.backlog.sync()
    assert files.open_handles == 0


def spares(files: FileSystem) -> list[str]:
    return [name for name in files.listdir(FOLDER) if not name.isdecimal()]


def test_segments_that_the_bucket_has_are_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a spare had is not found in the segment that it becomes, wherever that ends."""
    monkeypatch.setattr(backlog_module, "SEGMENT_BYTES", 1000)
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only=["open"])
    owner = Owner(files)
    seen, most = files.calls, 0
    for number in range(1, 100):
        owner.change(number % 7 * 100)
        owner.backlog.sync()
        if number >= 10:
            owner.backlog.reached(number - 3)
            owner.backlog.remove_reached()
            most = most or files.calls
        assert changes(inner, max(number - 3, 0)) == list(range(max(number - 2, 1), number + 1))
    opened = files.calls - seen
    assert opened == most - seen, "all segments since then are files that were there"
    assert len(spares(inner)) <= spare_segments.MOST

    inner.kill()
    again = Owner(inner, leftover(inner).last_number, 99)
    assert spares(inner) == []
    again.change()
    again.backlog.sync()
    assert changes(inner, 99) == [100]
    again.backlog.close()


def named_before_its_head(self: spare_segments.SpareSegments, path: Path, head: bytes) -> Any:
    if not self._kept:
        return None
    spare = self._kept.popleft()
    self._files.rename(spare.path, path)
    self._files.fsync_dir(self._folder)
    pwrite_all(self._files, spare.handle, head, 0)
    self._files.fsync(spare.handle)
    return spare.handle, spare.size


def test_a_spare_that_is_named_before_its_head_is_durable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above sees the rule broken: by the old head, acknowledged records before it do not count."""
    monkeypatch.setattr(spare_segments.SpareSegments, "use", named_before_its_head)
    for seed in range(20):
        try:
            lose_power_after_each_failure(("fsync",), seed, monkeypatch)
        except (AssertionError, DamagedObject):
            return
    pytest.fail("no run saw anything of it")


def test_records_of_a_former_segment_are_none_of_the_one_that_is_written_over_it() -> None:
    """They begin where those of the new segment end, and are whole."""
    heads = [SegmentHead("js", URL, number, 1, WRITER, 0) for number in (1, 2)]
    before, after = (
        head.pack()
        + b"".join(
            pack_record((b"text",), at, at + 1, is_cut=False, synced=0, time_ns=7, seed=head.seed)
            for at in range(3)
        )
        for head in heads
    )
    record = (len(before) - HEAD_BYTES) // 3
    mixed = after[: HEAD_BYTES + record] + before[HEAD_BYTES + record :]

    assert [one.start for _, one in records_of(before, heads[0])] == [0, 1, 2]
    assert [one.start for _, one in records_of(mixed, heads[0])] == [1, 2], "they are whole"
    assert [one.start for _, one in records_of(mixed, heads[1])] == [0]


def test_a_segment_whose_sync_failed_is_not_written_over() -> None:
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only=["fdatasync"])
    owner = Owner(files)
    owner.change()
    files.fail_at = files.calls + 1
    with pytest.raises(StorageError):
        owner.backlog.sync()
    assert owner.backlog.sync() == 1
    owner.backlog.reached(1)
    owner.backlog.remove_reached()

    assert spares(inner) == []
    assert changes(inner, 1) == []


@pytest.mark.parametrize("call", ["rename", "fsync_dir"])
def test_a_segment_that_cannot_become_a_spare_is_removed(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_module, "SEGMENT_BYTES", 300)
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only=[call])
    owner = Owner(files)
    for _ in range(2):
        owner.change(400)
        owner.backlog.sync()
    owner.backlog.reached(1)
    files.fail_at = files.calls + 1
    with pytest.raises(OSError, match="Input/output error"):
        owner.backlog.remove_reached()
    owner.backlog.remove_reached()

    assert len(inner.listdir(FOLDER)) == 1
    assert changes(inner, 1) == [2]
    owner.backlog.close()
    assert inner.open_handles == 0


def test_a_backlog_that_is_closed_while_a_segment_becomes_a_spare_closes_its_file_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that removes segments is not waited for: its files may have other users by then."""
    monkeypatch.setattr(backlog_module, "SEGMENT_BYTES", 300)
    files = MemoryFileSystem()
    owner = Owner(files)
    for _ in range(2):
        owner.change(400)
        owner.backlog.sync()
    owner.backlog.reached(1)
    keep = spare_segments.SpareSegments.keep

    def keep_and_close(self: spare_segments.SpareSegments, path: Path, handle: int, size: int) -> bool:
        is_kept = keep(self, path, handle, size)
        owner.backlog.close()
        return is_kept

    monkeypatch.setattr(spare_segments.SpareSegments, "keep", keep_and_close)
    owner.backlog.remove_reached()

    assert files.open_handles == 0
    assert changes(files, 1) == [2]


@pytest.mark.parametrize("call", ["pwrite", "fsync", "rename", "fsync_dir"])
def test_a_spare_that_cannot_become_a_segment_is_removed(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each such failure would leave a file behind until the next start."""
    monkeypatch.setattr(backlog_module, "SEGMENT_BYTES", 300)
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only=[call])
    owner = Owner(files)
    for _ in range(2):
        owner.change(400)
        owner.backlog.sync()
    owner.backlog.reached(1)
    owner.backlog.remove_reached()
    assert len(spares(inner)) == 1
    owner.change(400)
    files.fail_at = files.calls + 1
    with pytest.raises(StorageError):
        owner.backlog.sync()
    assert owner.backlog.sync() == 3

    assert spares(inner) == []
    assert len(inner.listdir(FOLDER)) == 2
    assert changes(inner, 1) == [2, 3]
    owner.backlog.close()
    assert inner.open_handles == 0


def test_a_segment_that_became_large_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that waited for a slow disk is in one segment; a spare would hold its room for ever."""
    monkeypatch.setattr(backlog_module, "SEGMENT_BYTES", 300)
    monkeypatch.setattr(spare_segments, "LARGEST", 400_000)
    files = MemoryFileSystem()
    owner = Owner(files)
    for size in (500_000, 400, 1):
        owner.change(size)
        owner.backlog.sync()
    owner.backlog.reached(1)
    owner.backlog.remove_reached()
    assert spares(files) == []
    owner.backlog.reached(2)
    owner.backlog.remove_reached()
    assert len(spares(files)) == 1

    assert changes(files, 2) == [3]
    owner.backlog.close()
    assert files.open_handles == 0


def test_a_backlog_that_is_given_up_makes_no_spares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hand-over does not wait for names that nobody needs any more."""
    monkeypatch.setattr(backlog_module, "SEGMENT_BYTES", 300)
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only=["rename"])
    owner = Owner(files)
    for _ in range(3):
        owner.change(400)
        owner.backlog.sync()
    owner.backlog.reached(3)
    owner.backlog.remove()

    assert files.calls == 0
    assert inner.listdir(FOLDER) == []
    assert inner.open_handles == 0


def test_a_segment_that_was_cut_off_in_its_head_is_none() -> None:
    files = holding({FOLDER / "00000000000000000001": b"HRbl123"})

    assert changes(files) == []
    assert leftover(files).last_number == 1


def test_a_backlog_of_others_and_of_later_versions_is_refused() -> None:
    image, path = synced_image()
    files = holding(image)
    with pytest.raises(NotOurs, match="is of another bucket, or of shard js"):
        read_leftover(files, FOLDER, "other", URL)
    with pytest.raises(NotOurs, match="is of another bucket"):
        read_leftover(files, FOLDER, "js", url_digest("s3://other/p"))
    body = b"\2\0" + image[path][10:HEAD_BYTES]
    later = b"HRbl" + crc32c(body).to_bytes(4, "little") + body + image[path][HEAD_BYTES:]
    with pytest.raises(NewerFormat, match=r"later version of Headrace \(format 2\)"):
        leftover(holding({path: later}))


def test_bytes_of_a_message_are_never_taken_for_a_record() -> None:
    image, path = synced_image()
    inside = image[path][HEAD_BYTES:]
    files = MemoryFileSystem()
    owner = Owner(files, base=10)
    owner.backlog = BucketBacklog(
        files,
        FOLDER,
        SegmentHead("js", URL, 1, 1, b"another writer's", 0),
        owner.journal,
        clock=lambda: 0.0,
        wall_ns=lambda: 7,
    )
    owner.backlog.begin()
    with owner.journal.lock:
        owner.journal.record(Write(1, 0, inside))
    owner.backlog.sync()
    data = bytearray(image_of(files, FOLDER)[FOLDER / "00000000000000000002"])
    data[HEAD_BYTES] ^= 1  # the record that has the message in it
    files = holding({path: bytes(data)})

    assert leftover(files).records == ()


def test_a_journal_that_has_ended_leaves_nothing_to_be_written() -> None:
    owner = Owner(MemoryFileSystem())
    owner.change()
    assert owner.backlog.has_unasked
    owner.journal.end("the shard is another server's")
    assert not owner.backlog.has_unasked
