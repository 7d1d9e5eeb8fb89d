"""Channels of a running server become tables: option `archive` of the `streaming` section.

Here lives the thread that archives, again and again, and how it reads: it asks the loop for one page after
the other, as replays are sent, and makes Parquet of them itself. The loop never waits for it. Rules of tables
are `headrace.tables`, what a channel shows is `streaming.stored`. A write that is cut off by the end of the
process leaves a table that is whole (docs/tables.md).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from headrace.errors import HeadraceError
from headrace.objects.opening import open_store
from headrace.protocol.columns import Columns
from headrace.streaming.naming import shown
from headrace.streaming.snapshot import ArchiveSnapshot
from headrace.subjects.grammar import matches
from headrace.tables.archive import archive_and_merge
from headrace.tables.files import FileLimits
from headrace.tables.open import table_name
from headrace.tables.source import SourceBatch, SourceState
from headrace.tables.table import Table

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterator

    from headrace.conf.streaming_options import ArchiveOptions
    from headrace.streaming.stored import StoredChannels, StoredPage
    from headrace.tables.archive import ArchiveReport

T = TypeVar("T")

LEAVE_S: Final = 10.0
"""Seconds that the end of the server waits for a file that is being written or uploaded."""


LOOK_S: Final = 0.5
"""Seconds between two looks whether the service serves."""


class _Stopped(Exception):
    """The server ends."""


class _NotServing(Exception):
    """The service has no channels yet: it starts, or stands by."""


class Ask(Protocol):
    """Runs a question on the loop's thread."""

    def __call__(self, question: Callable[[StoredChannels], T]) -> T: ...


class ChannelSource:
    """A channel of the server as a source of a table."""

    def __init__(self, ask: Ask, name: bytes) -> None:
        self._ask = ask
        self._name = name

    @property
    def stream(self) -> str:
        return self._name.decode("utf-8", "surrogateescape")

    def state(self) -> SourceState | None:
        found = self._ask(lambda stored: stored.state(self._name))
        return None if found is None else SourceState(*found)

    def batches(self, first: int, end: int) -> Iterator[SourceBatch]:
        at = first
        while at < end:
            page = self._page(at, end)
            if page.damaged:
                yield SourceBatch(None, [(one, one) for one in page.damaged])
            for frame in page.frames:
                yield SourceBatch(Columns.read(frame))
            if page.next <= at:
                return
            at = page.next

    def _page(self, first: int, end: int) -> StoredPage:
        return self._ask(lambda stored: stored.page(self._name, first, end))


class Archiver:
    """Archives on a thread of its own from `start` to `stop`, which the loop's thread calls.

    `stored` gives the channels while the service has them; it is called on the loop.
    Raises: UnsupportedError without the packages that tables need, StoreError for a place that is none.
    """

    def __init__(
        self,
        options: ArchiveOptions,
        stored: Callable[[], StoredChannels | None],
        log: logging.Logger,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        open_store(options.to)
        self._options = options
        self._stored = stored
        self._log = log
        self._clock = clock
        self._stats = ArchiveSnapshot(options.to)
        self._failed: dict[bytes, str] = {}
        """The last errors of channels that could not be archived; each is logged once."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._asked: concurrent.futures.Future[Any] | None = None
        self._thread = threading.Thread(target=self._work, name="headrace-archiver", daemon=True)

    def stats(self) -> ArchiveSnapshot:
        """The statistics of the archiving so far; consistent at any time."""
        return self._stats

    def start(self) -> None:
        """Begin; call it on the loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """End what is under way: a file that is not whole is given up, and made again next time."""
        with self._lock:
            self._stopping.set()
            if self._asked is not None:
                self._asked.cancel()
        self._thread.join(LEAVE_S)
        if self._thread.is_alive():
            self._log.warning("STREAM: Archiving to %s was cut off in a write", self._options.to)

    # -- on the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            pause = self._options.interval
            try:
                self._round()
            except _NotServing:
                pause = min(pause, LOOK_S)
            except _Stopped:
                return
            except Exception:  # noqa: BLE001  # a mistake of ours ends this round, not the next
                self._log.exception("STREAM: Archiving failed")
                self._count(failures=1)

    def _round(self) -> None:
        patterns = [pattern.encode() for pattern in self._options.channels]
        names = self._ask(lambda stored: stored.names())
        for name in names:
            if any(matches(pattern, name) for pattern in patterns):
                self._archive(name)
        for name in self._failed.keys() - set(names):
            del self._failed[name]
        self._stats = replace(self._stats, rounds=self._stats.rounds + 1, last_ns=self._clock())

    def _archive(self, name: bytes) -> None:
        options, source = self._options, ChannelSource(self._ask, name)
        table = Table(open_store(f"{options.to.rstrip('/')}/{table_name(source.stream)}"), self._clock)
        started = time.monotonic()
        try:
            report = archive_and_merge(
                table, source, retain=options.retain, limits=FileLimits(file_bytes=options.file_size)
            )
        except HeadraceError as error:
            text = str(error)
            self._count(failures=1)
            self._stats = replace(self._stats, last_error=f"{shown(name)}: {text}")
            if self._failed.get(name) != text:
                self._failed[name] = text
                self._log.error("STREAM: Channel %s could not be archived: %s", shown(name), text)
            return
        self._failed.pop(name, None)
        self._count(report.rows, report.bytes, report.files, report.removed)
        self._note(name, report, time.monotonic() - started)

    def _note(self, name: bytes, report: ArchiveReport, seconds: float) -> None:
        for what, ranges in (
            ("removed before they were archived", report.missed),
            ("damaged", report.damaged),
        ):
            if ranges:
                spans = ", ".join(f"{low} to {high}" for low, high in ranges[:20])
                self._log.error("STREAM: Channel %s: sequences %s: %s", shown(name), what, spans)
        if report.rows or report.removed:
            self._log.info(
                "STREAM: Archived channel %s up to sequence %d: %d rows, %d bytes, %d rows removed, %.3fs",
                shown(name), report.next - 1, report.rows, report.bytes, report.removed, seconds,
            )  # fmt: skip

    def _count(
        self, rows: int = 0, size: int = 0, files: int = 0, removed: int = 0, failures: int = 0
    ) -> None:
        now = self._stats
        self._stats = replace(
            now,
            rows=now.rows + rows,
            bytes=now.bytes + size,
            files=now.files + files,
            removed=now.removed + removed,
            failures=now.failures + failures,
        )

    def _ask(self, question: Callable[[StoredChannels], T]) -> T:
        """The answer of the loop's thread. Raises: _Stopped, _NotServing, what the question raises."""

        async def answer() -> T:
            stored = self._stored()
            if stored is None:
                raise _NotServing
            return question(stored)

        with self._lock:
            if self._stopping.is_set():
                raise _Stopped
            asked = asyncio.run_coroutine_threadsafe(answer(), self._loop)
            self._asked = asked
        try:
            return asked.result()
        except concurrent.futures.CancelledError:
            raise _Stopped from None
