"""A batch of which a crash left only the beginning counts as never published; what was whole stays."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from headrace.jetstream.batch.recovery import remove_incomplete_batch
from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.protocol.jetstream import headers as block

if TYPE_CHECKING:
    from pathlib import Path


def batch(count: int, name: bytes = b"b", of: int = 0) -> list[NewMessage]:
    """The first `count` messages of a batch of `of`."""
    made = []
    for number in range(1, count + 1):
        lines = [(b"Nats-Batch-Id", name), (b"Nats-Batch-Sequence", b"%d" % number)]
        if number == (of or count):
            lines.append((b"Nats-Batch-Commit", b"1"))
        made.append(NewMessage(b"s.a", b"x", b"", block.added(b"", *lines)))
    return made


def sequences(log: MemoryLog) -> list[int]:
    return [message.sequence for message in log.read_from(0).messages]


PLAIN = NewMessage(b"s.a", b"plain")


@pytest.mark.parametrize(
    ("messages", "left"),
    [
        ([], []),
        ([PLAIN], [1]),
        ([PLAIN, *batch(3)], [1, 2, 3, 4]),
        ([PLAIN, *batch(2, of=3)], [1]),
        (batch(1, of=2), []),
        ([*batch(2), *batch(1, b"c", of=2)], [1, 2]),
        ([*batch(2, of=3), PLAIN], [1, 2, 3]),  # somebody wrote after it: it was looked at before
        ([PLAIN, NewMessage(b"s.a", b"", b"", block.added(b"", (b"Nats-Batch-Id", b"b")))], [1, 2]),
        ([PLAIN, *batch(9, of=10)[8:]], [1]),  # more than there ever was
    ],
)
def test_what_is_left(messages: list[NewMessage], left: list[int]) -> None:
    log = MemoryLog()
    log.append(messages)
    assert remove_incomplete_batch(log) == len(messages) - len(left)
    assert sequences(log) == left
    assert remove_incomplete_batch(log) == 0


def test_a_batch_whose_last_message_was_deleted_was_whole() -> None:
    log = MemoryLog()
    log.append(batch(3))
    log.delete(3)
    assert remove_incomplete_batch(log) == 0
    assert sequences(log) == [1, 2]


@pytest.mark.parametrize("reserved", [0, 5000])
def test_wherever_the_write_was_cut_off(reserved: int, tmp_path: Path) -> None:
    """All of a batch or nothing is there, whatever the disk has of it; room behind it may be reserved."""
    whole = tmp_path / "whole"
    store = FileStore(whole)
    log = store.open(b"S")
    log.append([PLAIN])
    store.close()
    (file,) = whole.rglob("*.log")
    before = file.stat().st_size
    store = FileStore(whole)
    store.open(b"S").append(batch(4))
    store.close()
    after = file.stat().st_size
    found = set()
    for size in range(before, after + 1, 5):
        torn = tmp_path / "torn"
        shutil.rmtree(torn, ignore_errors=True)
        shutil.copytree(whole, torn)
        with (torn / file.relative_to(whole)).open("r+b") as handle:
            handle.truncate(size)
            handle.truncate(size + reserved)
        again = FileStore(torn)
        log = again.open(b"S")
        remove_incomplete_batch(log)
        found.add(log.state().messages)
        again.close()
    with (whole / file.relative_to(whole)).open("r+b"):
        store = FileStore(whole)
        assert remove_incomplete_batch(store.open(b"S")) == 0
        store.close()
    assert found <= {1, 5}
    assert 1 in found
