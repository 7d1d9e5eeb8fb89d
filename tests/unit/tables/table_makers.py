"""Streams to archive and stores that die, for the tests of tables."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from headrace.log.filesystem import RealFileSystem
from headrace.log.memory import MemoryLog
from headrace.log.port import NO_LIMITS, NewMessage
from headrace.tables.archive import archive
from headrace.tables.errors import KeyExists, KeyMissing
from headrace.tables.files import FileLimits
from headrace.tables.rewrite import compact
from headrace.tables.source import LogSource, SourceBatch
from headrace.tables.store import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.log.port import Limits
    from headrace.tables import Table
    from headrace.tables.store import Draft, Store

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


class Killed(BaseException):
    """The process was killed: nothing of it runs any more, so nothing may catch this."""


class KeyedStore:
    """Objects in memory as an object store has them: atomic puts, conditional creates, no lock.

    `fail_at` kills the writer at that call, before it has an effect or, with `after`, behind it.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.times: dict[str, int] = {}
        self.now = START
        self.calls = 0
        self.fail_at = 0
        self.after = False
        self.on_create: Callable[[str], object] = lambda _key: None

    location = "memory"

    @contextmanager
    def _call(self) -> Iterator[None]:
        self.calls += 1
        if self.calls == self.fail_at and not self.after:
            raise Killed
        yield
        if self.calls == self.fail_at:
            raise Killed

    @contextmanager
    def lock(self) -> Iterator[bool]:
        yield False

    def put(self, key: str, data: bytes) -> None:
        self.objects[key], self.times[key] = data, self.now

    def draft(self) -> Draft:
        return _MemoryDraft(self)

    def create(self, key: str, data: bytes) -> None:
        self.on_create(key)
        with self._call():
            if key in self.objects:
                raise KeyExists(key)
            self.put(key, data)

    def read(self, key: str) -> bytes:
        if key not in self.objects:
            raise KeyMissing(key)
        return self.objects[key]

    def open(self, key: str, *, in_parts: bool = False) -> Any:
        import io

        return io.BytesIO(self.read(key))

    def entries(self, folder: str = "") -> list[Entry]:
        return [
            Entry(key, self.times[key]) for key in sorted(self.objects) if key.rpartition("/")[0] == folder
        ]

    def folders(self) -> list[str]:
        return sorted({key.partition("/")[0] for key in self.objects if "/" in key})

    def move(self, old: str, new: str) -> None:
        with self._call():
            self.put(new, self.read(old))
        with self._call():
            del self.objects[old]

    def remove(self, key: str) -> None:
        with self._call():
            self.objects.pop(key, None)


class _MemoryDraft:
    def __init__(self, store: KeyedStore) -> None:
        self._store = store
        self._data = bytearray()
        self.closed = False

    def write(self, data: Any) -> int:
        self._data += data
        return len(memoryview(data).cast("B"))

    def flush(self) -> None: ...

    def tell(self) -> int:
        return len(self._data)

    def close(self) -> None:
        self.closed = True

    def publish(self, key: str) -> str:
        import hashlib

        with self._store._call():
            self._store.put(key, bytes(self._data))
        return hashlib.sha256(self._data).hexdigest()

    def discard(self) -> None: ...


class FakeObstore(ModuleType):
    """What we use of obstore, as its documentation has it, for one store in memory."""

    def __init__(self) -> None:
        super().__init__("obstore")
        self.kept: dict[str, bytes] = {}
        self.store = ModuleType("obstore.store")
        self.store.from_url = self._from_url  # type: ignore[attr-defined]
        self.exceptions = ModuleType("obstore.exceptions")
        base = type("BaseError", (Exception,), {})
        for name in ("AlreadyExistsError", "NotFoundError", "PreconditionError", "GenericError"):
            setattr(self.exceptions, name, type(name, (base,), {}))
        self.exceptions.BaseError = base  # type: ignore[attr-defined]

    def _from_url(self, url: str, **_options: Any) -> object:
        if not url.startswith("s3://"):
            raise self.exceptions.GenericError(f"no store for {url}\nand more lines")
        return self

    def _of(self, path: str) -> bytes:
        if path not in self.kept:
            raise self.exceptions.NotFoundError(path)
        return self.kept[path]

    def put(self, _store: object, path: str, file: Any, *, mode: str = "overwrite") -> None:
        if mode == "create" and path in self.kept:
            raise self.exceptions.AlreadyExistsError(path)
        self.kept[path] = bytes(file) if isinstance(file, bytes) else file.read()

    def get(self, _store: object, path: str) -> Any:
        data = self._of(path)
        return SimpleNamespace(bytes=lambda: data)

    def get_range(self, _store: object, path: str, *, start: int, end: int) -> bytes:
        return self._of(path)[start:end]

    def head(self, _store: object, path: str) -> dict[str, int]:
        return {"size": len(self._of(path))}

    def copy(self, _store: object, old: str, new: str) -> None:
        self.kept[new] = self._of(old)

    def delete(self, _store: object, path: str) -> None:
        self._of(path)  # stores but S3 say when it is not there
        del self.kept[path]

    def list_with_delimiter(self, _store: object, prefix: str | None) -> dict[str, list[Any]]:
        start = f"{prefix}/" if prefix else ""
        below = [path.removeprefix(start) for path in sorted(self.kept) if path.startswith(start)]
        when = datetime.fromtimestamp(START / SECOND, UTC)
        return {
            "objects": [{"path": start + path, "last_modified": when} for path in below if "/" not in path],
            "common_prefixes": sorted({start + path.partition("/")[0] for path in below if "/" in path}),
        }


def as_store(store: Any) -> Store:
    found: Store = store
    return found


def merge_and_erase(table: Table, stream: Stream, erased: tuple[int, int], more: int) -> None:
    """Gives a table a history: small files that are merged, rows erased, new files behind them."""
    archived(table, stream)
    with table.writing() as writer:
        compact(writer)
    for sequence in range(erased[0], erased[1] + 1):
        stream.log.delete(sequence, erase=True)
    stream.publish(more)
    archived(table, stream)
