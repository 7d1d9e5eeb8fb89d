"""How much of a file a read of some messages looks at: about what it gives, where a read stopped before."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from log_makers import message

from headrace.log.file import FileLog
from headrace.log.filesystem import RealFileSystem
from headrace.log.reader import KNOWN, LARGE_WINDOW, WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAYLOAD = b"p" * 200
RECORD = 48 + len(b"a.b") + len(PAYLOAD)
COUNT = 4000


class _Metered(RealFileSystem):
    """`asked`: the bytes of each read. No descriptors: point reads would not be seen."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        self.asked.append(size)
        return super().pread(handle, size, offset)

    def descriptor(self, handle: int) -> int | None:
        return None


@pytest.fixture
def files() -> _Metered:
    return _Metered()


@pytest.fixture
def filled(tmp_path: Path, files: _Metered) -> Iterator[FileLog]:
    log = FileLog(tmp_path / "log", filesystem=files)
    for _ in range(COUNT // 1000):
        log.append([message(b"a.b", PAYLOAD)] * 1000)
    files.asked.clear()
    yield log
    log.close()


def _read_on(log: FileLog, sequence: int, count: int, filters: tuple[bytes, ...] = ()) -> int:
    page = log.read_from(sequence, max_messages=count, filters=filters)
    assert page.messages.sequences() == range(sequence, sequence + count)
    return page.next_sequence


@pytest.mark.parametrize("filters", [(), (b"a.*",)])
def test_pages_read_one_after_the_other_read_little_more_than_they_give(
    filled: FileLog, files: _Metered, filters: tuple[bytes, ...]
) -> None:
    following = _read_on(filled, 1, 500, filters)
    files.asked.clear()
    for _ in range(6):
        following = _read_on(filled, following, 500, filters)
    assert len(files.asked) == 6
    assert sum(files.asked) < 6 * 500 * RECORD * 1.15


def test_messages_read_one_by_one_read_a_few_records_each(filled: FileLog, files: _Metered) -> None:
    following = _read_on(filled, 1000, 1)
    files.asked.clear()
    for _ in range(50):
        following = _read_on(filled, following, 1)
    assert files.asked == [KNOWN] * 50


def test_a_message_anywhere_is_found_with_one_read_of_a_block(filled: FileLog, files: _Metered) -> None:
    for sequence in (777, 3100, 1500):
        found = filled.read(sequence)
        assert found is not None
        assert found.sequence == sequence
    assert len(files.asked) == 3
    assert max(files.asked) <= WINDOW


def test_what_is_far_away_is_read_in_growing_steps(tmp_path: Path, files: _Metered) -> None:
    log = FileLog(tmp_path / "log", filesystem=files)
    first = log.append([message(b"x", PAYLOAD)])
    log.append([message(b"a", PAYLOAD)] * COUNT)
    log.append([message(b"x", PAYLOAD)])
    following = log.read_from(first, filters=(b"x",), max_messages=1).next_sequence
    assert following == first + COUNT + 1  # it looked for the next one, too
    assert max(files.asked) == LARGE_WINDOW
    assert len(files.asked) <= 3 + COUNT * RECORD // LARGE_WINDOW + 2
    log.close()


def test_messages_read_alone_are_not_walked_to(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "log", segment_bytes=300_000)
    log.append([message(b"a.b", PAYLOAD)] * 1000)
    log.append([message(b"a.b", PAYLOAD)] * COUNT)
    reader = log._reader
    reader._walk_to = lambda sequence: pytest.fail(f"walked to {sequence}")  # type: ignore[method-assign]
    for sequence in (777, 3100, 1500, 5000, 1, 2500):
        found = log.read(sequence)
        assert found is not None
        assert found.sequence == sequence
    log.append([message(b"x")])
    found = log.read(5001)
    assert found is not None
    assert found.subject == b"x"
    log.close()


def test_what_was_closed_or_rewritten_meanwhile_is_read_from_the_file_that_is_there(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "log", segment_bytes=20_000)
    payloads = {}
    for number in range(1, 800):
        payloads[number] = b"%d" % number * 40
        log.append([message(b"a.%d" % (number % 7), payloads[number])])
    numbers = random.Random(11)
    for _ in range(6):
        gone = set(numbers.sample(sorted(payloads), 120))
        log.remove(gone)
        for number in gone:
            del payloads[number]
        log.append([message(b"last", b"l" * 9000)] * 3)  # more files, and a slice of a sweep for each
        for number in range(1, 800):
            found = log.read(number)
            assert (found and found.payload) == payloads.get(number)
    log.close()
