"""Streams and channels of a running server become tables: `archive` of its `jetstream` or `streaming` block.

Here lives the thread that archives, again and again, and how it reads: it asks the loop for one page after
the other, as replays are sent, and makes Parquet of them itself. The loop never waits for it. Rules of tables
are `headrace.tables`, what a log shows is `headrace.copying`. A write that is cut off by the end of the
process leaves a table that is whole (docs/tables.md).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.copying import ArchiveSnapshot, TableState
from headrace.errors import HeadraceError
from headrace.objects.opening import open_store
from headrace.protocol.columns import Columns
from headrace.subjects.grammar import matches
from headrace.tables.archive import archive_and_merge
from headrace.tables.files import FileLimits
from headrace.tables.latest import archive_latest
from headrace.tables.manifest import TableKind
from headrace.tables.open import KEY_VALUE, is_meant, table_name, table_place
from headrace.tables.source import SourceBatch, SourceState
from headrace.tables.table import Table

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Iterator

    from headrace.conf.archive_options import ArchiveOptions, ChannelArchiveOptions, StreamArchiveOptions
    from headrace.copying import LogExtent, LogPage
    from headrace.tables.archive import ArchiveReport

    Choose = Callable[[Iterable[bytes]], list["ArchivedStream"]]
    """Picks what is archived, of the names of all that is stored."""

T = TypeVar("T")

LEAVE_S: Final = 10.0
"""Seconds that the end of the server waits for a file that is being written or uploaded."""


LOOK_S: Final = 0.5
"""Seconds between two looks whether the service serves."""


class _Stopped(Exception):
    """The server ends."""


class _NotServing(Exception):
    """The service has no streams yet: it starts, or stands by."""


class StoredLogs(Protocol):
    """The stored streams of a service that serves, each under a name of its own there."""

    def names(self) -> list[bytes]: ...
    def state(self, name: bytes) -> LogExtent | None: ...
    def page(self, name: bytes, first: int, end: int) -> LogPage: ...


class ArchivedStream(Struct, frozen=True):
    """A stream that is archived: its name in its service, its own, and what log lines call it.

    `place`: of its table, below that of all tables. `kind`: what its table has. `account`: "" for channels.
    """

    key: bytes
    stream: str
    title: str
    place: str
    kind: TableKind = TableKind.MESSAGES
    account: str = ""


class Ask(Protocol):
    """Runs a question on the loop's thread."""

    def __call__(self, question: Callable[[StoredLogs], T]) -> T: ...


def archived_channels(options: ChannelArchiveOptions) -> Choose:
    """Return the function that picks, of a streaming service's channels, those to archive."""
    patterns = [pattern.encode() for pattern in options.channels]

    def chosen(names: Iterable[bytes]) -> list[ArchivedStream]:
        found = []
        for name in names:
            if any(matches(pattern, name) for pattern in patterns):
                text = name.decode("utf-8", "surrogateescape")
                found.append(ArchivedStream(name, text, f"channel {shown(text)}", table_name(text)))
        return found

    return chosen


def archived_streams(options: StreamArchiveOptions) -> Choose:
    """Return the function that picks, of the streams of all accounts, those to archive.

    Tables of the account `$G` are in the place itself, those of another in a directory of its name.
    """
    wanted = {
        TableKind.MESSAGES: options.streams,
        TableKind.LATEST: tuple(f"{KEY_VALUE}{name}" for name in options.buckets),
        TableKind.HISTORY: tuple(f"{KEY_VALUE}{name}" for name in options.bucket_histories),
    }

    def chosen(names: Iterable[bytes]) -> list[ArchivedStream]:
        found = []
        for key in names:
            account, _, stream = key.decode("utf-8", "backslashreplace").rpartition("/streams/")
            if options.accounts and account not in options.accounts:
                continue
            folder = "" if account == GLOBAL_ACCOUNT else f"{table_name(account)}/"
            title = f"stream '{account} > {stream}'"
            for kind, patterns in wanted.items():
                if any(is_meant(pattern, stream) for pattern in patterns):
                    place = f"{folder}{table_place(stream, kind)}"
                    found.append(ArchivedStream(key, stream, title, place, kind, account))
        return found

    return chosen


class StoredSource:
    """A stream of the server as a source of a table."""

    def __init__(self, ask: Ask, archived: ArchivedStream) -> None:
        self._ask = ask
        self._archived = archived

    @property
    def stream(self) -> str:
        return self._archived.stream

    def state(self) -> SourceState | None:
        found = self._ask(lambda stored: stored.state(self._archived.key))
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

    present = batches

    def _page(self, first: int, end: int) -> LogPage:
        return self._ask(lambda stored: stored.page(self._archived.key, first, end))


class Archiver:
    """Archives on a thread of its own from `start` to `stop`, which the loop's thread calls.

    `stored` gives what is stored while the service serves; it is called on the loop. `choose` picks what is
    archived. `title`: of the service, before its log lines.
    Raises: UnsupportedError without the packages that tables need, StoreError for a place that is none.
    """

    def __init__(
        self,
        options: ArchiveOptions,
        choose: Choose,
        stored: Callable[[], StoredLogs | None],
        log: logging.Logger,
        *,
        title: str = "STREAM",
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        open_store(options.to)
        self._options = options
        self._choose = choose
        self._stored = stored
        self._log = log
        self._title = title
        self._clock = clock
        self._stats = ArchiveSnapshot(options.to)
        self._tables: dict[str, tuple[ArchivedStream, TableState]] = {}
        """The state of each place, replaced as a whole: the loop reads it meanwhile."""
        self._failed: dict[str, str] = {}
        """The last error of each place that could not be brought up to date; it is logged once."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._asked: concurrent.futures.Future[Any] | None = None
        self._thread = threading.Thread(target=self._work, name="headrace-archiver", daemon=True)

    def stats(self) -> ArchiveSnapshot:
        """The statistics of the archiving so far; consistent at any time."""
        return self._stats

    def tables(self) -> list[TableState]:
        """Return the state of each table, with how far its stream is now; call it on the loop."""
        stored = self._stored()
        found = []
        for one, state in self._tables.values():
            extent = None if stored is None else stored.state(one.key)
            last = None if extent is None else extent.last_sequence
            found.append(replace(state, last_sequence=last))
        return found

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
            self._log.warning("%s: Archiving to %s was cut off in a write", self._title, self._options.to)

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
                self._log.exception("%s: Archiving failed", self._title)
                self._count(failures=1)

    def _round(self) -> None:
        chosen = self._choose(self._ask(lambda stored: stored.names()))
        for one in chosen:
            self._archive(one)
        places = {one.place for one in chosen}
        for place in self._failed.keys() - places:
            del self._failed[place]
        self._tables = {place: known for place, known in self._tables.items() if place in places}
        self._stats = replace(self._stats, rounds=self._stats.rounds + 1, last_ns=self._clock())

    def _archive(self, one: ArchivedStream) -> None:
        options, source = self._options, StoredSource(self._ask, one)
        table = Table(open_store(f"{options.to.rstrip('/')}/{one.place}"), self._clock)
        limits, started = FileLimits(file_bytes=options.file_size), time.monotonic()
        try:
            if one.kind is TableKind.LATEST:
                report = archive_latest(table, source, limits=limits)
            else:
                report = archive_and_merge(table, source, kind=one.kind, retain=options.retain, limits=limits)
        except HeadraceError as error:
            text = str(error)
            self._count(failures=1)
            self._stats = replace(self._stats, last_error=f"{one.title}: {text}")
            self._know(one, replace(self._known(one), last_error=text))
            if self._failed.get(one.place) != text:
                self._failed[one.place] = text
                self._log.error("%s: The %s could not be archived: %s", self._title, one.title, text)
            return
        self._failed.pop(one.place, None)
        self._count(report.rows, report.bytes, report.files, report.removed)
        self._know(one, self._brought(one, table, report))
        self._note(one, report, time.monotonic() - started)

    def _known(self, one: ArchivedStream) -> TableState:
        known = self._tables.get(one.place)
        if known is not None:
            return known[1]
        to = f"{self._options.to.rstrip('/')}/{one.place}"
        service = "jetstream" if one.account else "streaming"  # channels are of no account
        return TableState(service, one.account, one.stream, one.kind.value, to)

    def _know(self, one: ArchivedStream, state: TableState) -> None:
        self._tables = {**self._tables, one.place: (one, state)}

    def _brought(self, one: ArchivedStream, table: Table, report: ArchiveReport) -> TableState:
        """Return the state of a table that was brought up to date; it is read again where it has changed."""
        known = self._known(one)
        now = replace(known, archived_sequence=report.next - 1, last_ns=self._clock(), last_error="")
        if known.last_ns and not (report.rows or report.removed or report.files):
            return now
        manifest = table.newest()
        if manifest is None:
            return now
        return replace(now, rows=manifest.rows, files=len(manifest.files), bytes=manifest.bytes)

    def _note(self, one: ArchivedStream, report: ArchiveReport, seconds: float) -> None:
        for what, ranges in (
            ("removed before they were archived", report.missed),
            ("damaged", report.damaged),
        ):
            if ranges:
                spans = ", ".join(f"{low} to {high}" for low, high in ranges[:20])
                self._log.error("%s: The %s: sequences %s: %s", self._title, one.title, what, spans)
        if report.rows or report.removed:
            self._log.info(
                "%s: Archived %s up to sequence %d: %d rows, %d bytes, %d rows removed, %.3fs",
                self._title, one.title, report.next - 1, report.rows, report.bytes, report.removed, seconds,
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

    def _ask(self, question: Callable[[StoredLogs], T]) -> T:
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


def shown(name: str) -> str:
    """A name as text that cannot start a log line of its own."""
    return name if name.isprintable() else ascii(name)[1:-1]
