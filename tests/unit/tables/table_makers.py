"""Streams to archive and stores that die, for the tests of tables."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from headrace.log.filesystem import RealFileSystem
from headrace.log.memory import MemoryLog
from headrace.log.port import NO_LIMITS, NewMessage
from headrace.tables.archive import archive
from headrace.tables.files import FileLimits
from headrace.tables.rewrite import compact
from headrace.tables.source import LogSource, SourceBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.log.port import Limits
    from headrace.tables import Table

SECOND = 10**9
START = 1_700_000_000 * SECOND
SMALL = FileLimits(file_bytes=1, group_rows=10)
"""A file for each ten messages and more."""


class Stream(LogSource):
    """A stream in memory: message n has the time START + n seconds and says `message n`."""

    def __init__(self, count: int = 0, name: str = "orders", limits: Limits = NO_LIMITS) -> None:
        self.log = MemoryLog(limits)
        self.name = name
        self.created_ns = 7
        self.page = 10
        self.is_there = True
        self.reads = 0
        self.damaged: set[int] = set()
        self.on_batch: Callable[[int], object] = lambda _first: None
        super().__init__(self.log, name)
        self.publish(count)

    def publish(self, count: int) -> None:
        first = self.log.state().last_sequence + 1
        self.log.append([message(n) for n in range(first, first + count)])

    def state(self) -> Any:
        if not self.is_there:
            return None
        self._created_ns = self.created_ns
        return super().state()

    def batches(self, first: int, end: int) -> Iterator[SourceBatch]:
        """In pages of `page`; `damaged` cannot be read."""
        self.reads += 1
        for at in range(first, end, self.page):
            stop = min(at + self.page, end)
            bad = [n for n in range(at, stop) if n in self.damaged]
            for low, high in pairwise([at - 1, *bad, stop]):
                yield from super().batches(low + 1, high)
            if bad:
                yield SourceBatch(None, [(n, n) for n in bad])
            self.on_batch(at)

    def live(self) -> list[int]:
        return [n for n in range(1, self.log.state().last_sequence + 1) if self.log.read(n) is not None]


def message(n: int) -> NewMessage:
    headers = b"NATS/1.0\r\nKind: even\r\nKind: two\r\n\r\n" if n % 2 == 0 else b""
    reply = b"inbox.%d" % n if n % 3 == 0 else b""
    return NewMessage(b"orders.%d" % (n % 4), b"message %d" % n, reply, headers, START + n * SECOND + 123)


def sequences(table: Table) -> list[int]:
    """What the table has, read through its manifest."""
    return [n for batch in table.batches(["sequence"]) for n in batch.column("sequence").to_pylist()]


def archived(table: Table, stream: Stream, limits: FileLimits = SMALL, **options: Any) -> Any:
    return archive(table, stream, limits=limits, **options)


class Unsynced(RealFileSystem):
    """Files whose power does not fail, for tests that have no use for fsync and many of them."""

    def fsync(self, handle: int) -> None: ...

    def fsync_dir(self, directory: Path) -> None: ...


def merge_and_erase(table: Table, stream: Stream, erased: tuple[int, int], more: int) -> None:
    """Gives a table a history: small files that are merged, rows erased, new files behind them."""
    archived(table, stream)
    with table.writing() as writer:
        compact(writer)
    for sequence in range(erased[0], erased[1] + 1):
        stream.log.delete(sequence, erase=True)
    stream.publish(more)
    archived(table, stream)
