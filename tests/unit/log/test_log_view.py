"""Reading a log's files beside the process that writes them: what is seen, in which parts, what is gone."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from log_makers import START, Clock

from headrace.errors import LogGone, StorageError
from headrace.log.file import FileLog
from headrace.log.filesystem import RealFileSystem
from headrace.log.port import Limits, NewMessage
from headrace.log.segment import BEGINNING
from headrace.log.store import FileStore, list_logs, log_name
from headrace.log.view import LogView, read_slice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.log.filesystem import FileMode
    from headrace.log.port import StoredMessage
    from headrace.log.view import ViewSlice

SMALL = 4096 + 112


class NoWriting(RealFileSystem):
    """Fails whoever changes anything or locks."""

    def __init__(self) -> None:
        for name in (
            "write",
            "pwrite",
            "reserve",
            "truncate",
            "fsync",
            "fdatasync",
            "rename",
            "unlink",
            "mkdir",
            "rmdir",
        ):
            setattr(self, name, self._refuse)
        self.fsync_dir = self.lock = self._refuse  # type: ignore[method-assign,assignment]

    def open(self, path: Path, mode: FileMode) -> int:
        assert mode.name == "READ"
        return super().open(path, mode)

    def _refuse(self, *_: object) -> int:
        raise AssertionError("a view changes nothing")


def view(directory: Path) -> LogView:
    return LogView(directory, filesystem=NoWriting())


def rows(parts: list[ViewSlice]) -> list[StoredMessage]:
    return [
        message
        for part in parts
        for messages, _ in read_slice(pickle.loads(pickle.dumps(part)), filesystem=NoWriting())
        for message in messages
    ]


def damage(parts: list[ViewSlice]) -> list[tuple[int, int]]:
    return [both for part in parts for _, found in read_slice(part) for both in found]


def sequences(seen: LogView, count: int = 1) -> list[int]:
    return [message.sequence for message in rows(seen.slices(1, seen.last_sequence + 1, count))]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(directory: Path) -> Iterator[FileLog]:
    """300 messages in some ten segments, open all the time."""
    log = FileLog(directory, clock=Clock(), segment_bytes=SMALL)
    for n in range(1, 301):
        log.append(
            [NewMessage(b"a.%d" % (n % 3), b"%d" % n * 10, b"re" if n % 2 else b"", time_ns=START + n)]
        )
    yield log
    log.close()


def test_open_log_is_seen_whole_and_nothing_is_changed(log: FileLog, directory: Path) -> None:
    before = {path: path.read_bytes() for path in directory.iterdir()}
    seen = view(directory)
    assert (seen.first_sequence, seen.last_sequence, seen.damaged) == (1, 300, [])
    assert rows(seen.slices(1, 301, 1)) == list(
        log.read_from(1, max_messages=1000, max_bytes=1 << 30).messages
    )
    assert {path: path.read_bytes() for path in directory.iterdir()} == before


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 1000])
@pytest.mark.parametrize(("first", "end"), [(1, 301), (0, 999), (17, 18), (18, 230), (300, 301), (5, 5)])
def test_slices_cover_a_span_once(count: int, first: int, end: int, log: FileLog, directory: Path) -> None:
    seen = view(directory)
    parts = seen.slices(first, end, count)
    assert len(parts) <= count
    assert [m.sequence for m in rows(parts)] == list(range(max(first, 1), min(end, 301)))
    if (first, end, count) == (1, 301, 3):
        sizes = [part.size for part in parts]
        assert len(sizes) == 3
        assert max(sizes) < 2 * min(sizes)


@pytest.mark.parametrize("indexed", [True, False])
def test_slices_read_only_what_they_need(indexed: bool, directory: Path) -> None:
    """With marks in one large segment, two halves are about half of the bytes each."""
    log = FileLog(directory, clock=Clock())
    for _ in range(40):
        log.append([NewMessage(b"a", bytes(1000))] * 50)
    log.close()
    if not indexed:
        for path in [*directory.glob("*.index"), directory / "checkpoint"]:
            path.unlink(missing_ok=True)
    one, two = view(directory).slices(1, 2001, 2)
    assert one.end == two.first
    assert two.pieces[0].offset > 0
    assert 0.9 < one.size / two.size < 1.1
    assert [m.sequence for m in rows([two])] == list(range(two.first, 2001))


def test_view_ends_where_it_was_made(log: FileLog, directory: Path) -> None:
    seen = view(directory)
    log.append([NewMessage(b"a", b"later")] * 100)
    assert sequences(seen, 3) == list(range(1, 301))
    assert view(directory).last_sequence == 400


@pytest.mark.parametrize("cut", [1, 40, 60, 80])
def test_torn_tail_is_not_seen(cut: int, directory: Path) -> None:
    log = FileLog(directory, clock=Clock())
    for _ in range(5):
        log.append([NewMessage(b"a", b"x" * 50)])
    path = next(directory.glob("*.log"))
    path.write_bytes(path.read_bytes().rstrip(b"\0")[:-cut])
    assert sequences(view(directory)) == [1, 2, 3, 4]
    path.write_bytes(path.read_bytes() + b"\0" * 1000)
    assert sequences(view(directory)) == [1, 2, 3, 4]


def test_segment_that_was_just_begun_is_no_damage(log: FileLog, directory: Path) -> None:
    (directory / f"{301:020}.log").write_bytes(b"HRLOG")
    seen = view(directory)
    assert (seen.last_sequence, seen.damaged) == (300, [])
    assert sequences(seen) == list(range(1, 301))


@pytest.mark.parametrize("keep_checkpoint", [True, False])
def test_removed_messages_are_not_there(keep_checkpoint: bool, log: FileLog, directory: Path) -> None:
    gone = [2, 3, 150, 299]
    for sequence in gone:
        assert log.delete(sequence, erase=sequence == 150)
    log.append([NewMessage(b"a", b"")])
    log.sync()
    if not keep_checkpoint:
        for path in [*directory.glob("*.index"), directory / "checkpoint"]:
            path.unlink(missing_ok=True)
    seen = view(directory)
    assert seen.damaged == []
    assert sequences(seen, 4) == [n for n in range(1, 302) if n not in gone]
    log.purge(up_to=200)
    log.sync()
    seen = view(directory)
    assert seen.first_sequence == 200
    assert sequences(seen) == [n for n in range(200, 302) if n != 299]
    log.purge()
    log.sync()
    seen = view(directory)
    assert (seen.first_sequence, seen.last_sequence, sequences(seen)) == (302, 301, [])


def test_message_that_is_deleted_later_is_read_or_not_but_never_damage(log: FileLog, directory: Path) -> None:
    seen = view(directory)
    log.delete(7, erase=True)
    log.delete(8)
    assert sequences(seen) == [n for n in range(1, 301) if n != 7]
    assert damage(seen.slices(1, 301, 1)) == []


def test_segments_that_are_removed_meanwhile_are_missed(log: FileLog, directory: Path) -> None:
    seen = view(directory)
    first, *_, last = seen.slices(1, 301, 4)
    log.purge(up_to=100)
    log.sync()
    with pytest.raises(LogGone, match=r"0001\.log is not there any more"):
        rows([first])
    assert [m.sequence for m in rows([last])] == list(range(last.first, 301))


def test_log_that_was_made_again_is_another(log: FileLog, directory: Path) -> None:
    parts = view(directory).slices(1, 301, 1)
    directory.rename(directory.with_name("old"))
    again = FileLog(directory, clock=Clock())
    again.append([NewMessage(b"b", b"")] * 5)
    again.close()
    with pytest.raises(LogGone, match="is another one now"):
        rows(parts)


def test_file_that_is_cut_shorter_meanwhile_ends_with_an_error(log: FileLog, directory: Path) -> None:
    parts = view(directory).slices(1, 301, 1)
    path = sorted(directory.glob("*.log"))[2]
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(LogGone, match="shorter"):
        rows(parts)


def test_damage_is_said_by_sequence_and_the_rest_is_read(directory: Path) -> None:
    log = FileLog(directory, clock=Clock(), segment_bytes=SMALL)
    for _ in range(100):
        log.append([NewMessage(b"a", b"x" * 51)])
    log.close()
    path = sorted(directory.glob("*.log"))[0]
    content = bytearray(path.read_bytes())
    for record, place in ((3, 60), (9, 20)):  # a body, a header
        content[BEGINNING + 100 * record + place] ^= 0xFF
    path.write_bytes(content)
    seen = view(directory)
    parts = seen.slices(1, 101, 1)
    assert damage(parts) == [(4, 4), (10, 10)]
    assert [m.sequence for m in rows(parts)] == [n for n in range(1, 101) if n not in (4, 10)]
    assert damage(seen.slices(5, 9, 1)) == []


def test_segment_that_is_missing_in_the_middle_is_damage(log: FileLog, directory: Path) -> None:
    second, third, *_ = sorted(directory.glob("*.log"))[1:]
    second.unlink()
    (directory / "checkpoint").unlink(missing_ok=True)
    seen = view(directory)
    low, high = int(second.stem), int(third.stem)
    assert seen.damaged == [(low, high - 1)]
    assert sequences(seen, 3) == [n for n in range(1, 301) if not low <= n < high]


def test_segments_that_are_rewritten_meanwhile_give_what_is_left(directory: Path) -> None:
    pytest.importorskip("headrace.log.compaction")
    log = FileLog(directory, clock=Clock(), segment_bytes=64 << 10)
    for n in range(1, 1001):
        log.append([NewMessage(b"a", b"%d" % n * 100)])
    seen = view(directory)
    parts = seen.slices(1, 1001, 5)
    before = {path: path.stat().st_ino for path in directory.glob("*.log")}
    gone = {n for n in range(1, 1001) if n % 5}
    for sequence in gone:
        log.delete(sequence)
    log.sync()
    for _ in range(200):
        log.append([NewMessage(b"b", b"")])
        log.sync()
    assert any(path.stat().st_ino != inode for path, inode in before.items() if path.exists())
    found = [m.sequence for m in rows(parts)]
    assert set(range(5, 1001, 5)) <= set(found) <= set(range(1, 1001))
    assert found == sorted(set(found))
    assert damage(parts) == []
    log.close()


def test_segments_that_go_while_it_looks_are_looked_at_again(log: FileLog, directory: Path) -> None:
    class Vanishing(NoWriting):
        done = False

        def open(self, path: Path, mode: FileMode) -> int:
            if path.suffix == ".log" and not self.done:
                self.done = True
                log.purge(up_to=100)
                log.sync()
            return super().open(path, mode)

    seen = LogView(directory, filesystem=Vanishing())
    assert seen.first_sequence == 100
    assert sequences(seen) == list(range(100, 301))


def test_sealed_end_is_where_the_newest_segment_begins(log: FileLog, directory: Path) -> None:
    seen = view(directory)
    newest = max(int(path.stem) for path in directory.glob("*.log"))
    assert seen.sealed_end == newest
    assert seen.sealed_time_ns == START + newest - 1


def test_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LogGone, match="there is no log in"):
        LogView(tmp_path / "nowhere")


def test_limits_of_the_writer_raise_the_first(directory: Path) -> None:
    log = FileLog(directory, clock=Clock(), limits=Limits(max_messages=10), segment_bytes=SMALL)
    for _ in range(100):
        log.append([NewMessage(b"a", b"x" * 51)])
    log.append([NewMessage(b"a", b"")])
    seen = view(directory)
    state = log.state()
    assert seen.last_sequence == state.last_sequence
    assert seen.first_sequence in (state.first_sequence, state.first_sequence - 1)  # written with the next
    log.close()


def test_encrypted_log_needs_its_key(directory: Path) -> None:
    pytest.importorskip("cryptography")
    from headrace.log.encryption import Cipher

    key = Cipher(b"k" * 32)
    log = FileLog(directory, clock=Clock(), cipher=key, segment_bytes=SMALL)
    for n in range(1, 101):
        log.append([NewMessage(b"a", b"%d" % n)])
    with pytest.raises(StorageError, match="encrypted, and no key"):
        view(directory)
    seen = LogView(directory, cipher=key)
    found = [m for part in seen.slices(1, 101, 3) for ms, _ in read_slice(part, cipher=key) for m in ms]
    assert [(m.sequence, m.payload) for m in found] == [(n, b"%d" % n) for n in range(1, 101)]
    log.close()


def test_logs_of_an_open_store_are_listed(tmp_path: Path) -> None:
    names = [b"orders", b"a b/c", b"x" * 300, b".dot"]
    store = FileStore(tmp_path)
    for name in names:
        store.open(name)
    (tmp_path / "logs" / "lost+found%").mkdir()
    (tmp_path / "logs" / "file").touch()
    found = list_logs(tmp_path)
    assert sorted(found) == sorted(names) == store.names()
    assert all(log_name(path) == name for name, path in found.items())
    store.close()
