"""Taking snapshots of a shard, and reading them.

A snapshot is taken in steps, and nothing is half true whichever of them is the last:

1. SnapshotBegun goes into the WAL, which is cut behind it: WAL object `number` ends there, and the
   snapshot is of the tree after it. What only the WAL holds becomes `copying`.
2. These bytes are copied from the local files into segment objects while the files change. A reader applies
   the changes since, so newer bytes do no harm; a file that is gone by now is gone for the reader, too.
3. SnapshotTaken, which says what was stored, goes into the WAL. When it is committed, in object `settled`,
   all who read along have the same extents, whichever snapshot they began with.
4. The manifest is created as `snapshots/<number>`, when `settled` is there. Its readers go on to that.

Never lives here: what is stored anew besides (`uploads`), what is deleted (`collection`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from headrace.bucket.changes import FileExtent, SnapshotBegun, SnapshotTaken
from headrace.bucket.errors import BucketError
from headrace.bucket.extents import BLOCK, fetches, pieces
from headrace.bucket.manifest import Manifest
from headrace.bucket.ranges import Ranges
from headrace.bucket.tree import TreeFile
from headrace.bucket.uploads import grouped, spans_to_store
from headrace.engine.records import crc32c, join
from headrace.log.filesystem import FileMode
from headrace.objects.errors import KeyExists, KeyMissing, StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from headrace.bucket.changes import Change
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.tree import FileEntry, Tree
    from headrace.bucket.uploads import FileSpan
    from headrace.log.filesystem import FileSystem
    from headrace.objects.port import AsyncObjectStore

T = TypeVar("T")

WAL_BYTES: Final = 64 << 20
"""Bytes of WAL objects after which a snapshot is due."""
WAL_OBJECTS: Final = 500
"""WAL objects after which a snapshot is due."""
LATE: Final = 2
"""Times as much as makes a snapshot due, since the last one began: the one that is taken is late then."""
UPLOADS: Final = 1
"""Segment objects that are read and put at once. More take turns, and a thread, from the log's puts."""
LATE_UPLOADS: Final = 2
"""The same for a snapshot that begins late: the log is behind with what it needs no more."""
REWRITTEN: Final = 64 << 20
"""Bytes of mostly dead objects that one snapshot stores anew at most."""
RETRY_S: Final = 5.0
"""Seconds until the next attempt behind one that failed, doubled with each up to `SLOWEST_RETRY_S`."""
SLOWEST_RETRY_S: Final = 60.0


class Recorder(Protocol):
    """The owner's way into the WAL (`journal`)."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock under which files are changed, and these changes recorded."""

    @property
    def position(self) -> int:
        """The position behind all that is recorded."""

    def record(self, change: Change) -> object:
        """Have a change of the tree written. With the lock."""

    def cut(self) -> int:
        """End a WAL object here; return the position of its end. With the lock."""


class Offload(Protocol):
    """The way in which work is done that would keep the event loop for long."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class PutAdmission(Protocol):
    """The wait for a put within the budget. `is_late`: it may hold the log up."""

    def __call__(self, *, is_late: bool) -> Awaitable[None]: ...


class Term(NamedTuple):
    """An owner's term: its shard, its epoch, and the random bytes of its claim."""

    shard: str
    epoch: int
    writer: bytes


async def in_thread(work: Callable[[], T]) -> T:
    """Do on another thread what would keep the event loop for long."""
    return await asyncio.to_thread(work)


class Snapshotter:
    """Takes snapshots while a server owns a shard. All methods are for the event loop's thread.

    `fences`: numbers of all fences of the shard so far, to which the owner may add. `admit`: awaited before
    each put. `latest`: the number of the newest snapshot that is known.
    """

    def __init__(
        self,
        store: AsyncObjectStore,
        keys: ShardKeys,
        term: Term,
        *,
        tree: Tree,
        recorder: Recorder,
        files: FileSystem,
        directory: Path,
        fences: Collection[int],
        wall_ns: Callable[[], int],
        admit: PutAdmission,
        latest: int = 0,
        offload: Offload = in_thread,
    ) -> None:
        self._store: Final = store
        self._keys: Final = keys
        self._term: Final = term
        self._tree: Final = tree
        self._recorder: Final = recorder
        self._local: Final = LocalFiles(files, directory, offload)
        self._fences: Final = fences
        self._wall_ns: Final = wall_ns
        self._admit: Final = admit
        self._offload: Final = offload
        self._asked: Final = asyncio.Event()
        self._taking: Final = asyncio.Lock()
        self._waiting: list[tuple[int, asyncio.Future[int]]] = []
        self._begun_at = self._number = latest
        self._bytes = 0
        self._made = 0
        self.latest: Manifest | None = None
        """The newest snapshot of this term."""
        self.when_taken: Callable[[Manifest], object] = lambda _: None
        """Called with each snapshot, whoever asked for it: `Collector` counts them."""
        self.pending: Final[set[str]] = set()
        """Segment objects of this term that no manifest names yet, though one may soon."""
        self.dying: frozenset[str] = frozenset()
        """Segment objects of which more than half is dead: the next snapshots store the rest of them anew."""
        self.collected = 0
        """The number that `Collector` has deleted WAL objects up to, for the next manifest."""
        self.trouble: str | None = None
        """Why the last attempt came to nothing; None: it did not."""

    # ---- when -------------------------------------------------------------------------------

    def committed(self, position: int, number: int, size: int) -> None:
        """Note that WAL object `number` is committed, which ends at a position and has so many bytes."""
        self._bytes += size
        self._number = number
        while self._waiting and self._waiting[0][0] <= position:
            told = self._waiting.pop(0)[1]
            if not told.done():
                told.set_result(number)
        if self._is_due():
            self._asked.set()

    def _is_due(self, times: int = 1) -> bool:
        """True if the log has grown by so many times as much as one snapshot is taken of."""
        objects = self._number - self._begun_at
        return objects >= times * WAL_OBJECTS or self._bytes >= times * WAL_BYTES

    async def run(self, taken: Callable[[Manifest], object] = lambda _: None) -> None:
        """Take snapshots as they are due, until it is cancelled. `taken`: called with each."""
        wait = RETRY_S
        while True:
            await self._asked.wait()
            try:
                manifest = await self.take()
            except (StoreError, BucketError, OSError) as error:
                self.trouble = f"no snapshot could be taken: {error}"
                await asyncio.sleep(wait)
                wait = min(2 * wait, SLOWEST_RETRY_S)
                self._asked.set()
            else:
                wait, self.trouble = RETRY_S, None
                taken(manifest)

    # ---- how --------------------------------------------------------------------------------

    async def take(self) -> Manifest:
        """Take a snapshot of this moment; return its manifest, which is in the bucket.

        Raises: StoreError, BucketError, OSError; the WAL goes on being needed then.
        """
        async with self._taking:
            self._asked.clear()
            with self._recorder.lock:
                cut = self._begin()
            number = await self._committed_at(cut.position)
            at_once = LATE_UPLOADS if self._is_due(LATE) else UPLOADS
            self._begun_at, self._bytes = number, 0
            stored = await self._store_all(cut, at_once)
            change = SnapshotTaken(number, tuple((file, one) for file in stored for one in stored[file]))
            with self._recorder.lock:
                self._check_all_stored(stored)
                self._record(change)
                position = self._recorder.position
            settled = await self._committed_at(position)
            manifest = await self._offload(lambda: self._manifest(cut, stored, number, settled))
            await self._create(manifest)
            self.latest = manifest
            self.pending.clear()
            self.when_taken(manifest)
            return manifest

    def _begin(self) -> _Cut:
        """Record the beginning, and take down what the tree is at this moment."""
        tree = self._tree
        self._record(SnapshotBegun())
        position = self._recorder.cut()
        spans: list[FileSpan] = []
        rest = REWRITTEN
        for file in tree.files.values():
            is_dying = bool(self.dying) and rest > 0 and any(one.object in self.dying for one in file.extents)
            if not (file.copying or is_dying):
                continue
            found = spans_to_store(file.id, file.extents, file.copying, self.dying if is_dying else ())
            rest -= sum(span.size for span in found) if is_dying else 0
            spans += found
        extents = {span.file: tuple(tree.files[span.file].extents) for span in spans}
        copying = {number: Ranges(tree.files[number].copying) for number in extents}
        fences = tuple(sorted(self._fences))
        directories = tuple(tree.directories())
        return _Cut(position, spans, extents, copying, directories, tree.entries(), tree.next_id, fences)

    def _record(self, change: Change) -> None:
        self._tree.apply(change)
        self._recorder.record(change)

    async def _committed_at(self, position: int) -> int:
        """Wait until everything up to a position is committed; return the number of the object it is in."""
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((position, told))
        return await told

    async def _store_all(self, cut: _Cut, at_once: int) -> dict[int, list[FileExtent]]:
        """Copy what is to be stored into segment objects; return the extents of each file, ascending."""
        return await stored_groups(grouped(cut.spans), lambda group: self._store_group(group, cut), at_once)

    async def _store_group(self, group: list[FileSpan], cut: _Cut) -> list[tuple[int, FileExtent]]:
        """Put one object; return its extents. Spans of files that are gone are left out."""
        with self._recorder.lock:  # no file changes its name between the look at it and the opening
            alive = [span for span in group if span.file in self._tree.files]
            handles = self._local.open([self._tree.files[span.file] for span in alive])
        contents = await self._local.read(handles, alive)
        for span, content in zip(alive, contents, strict=True):
            await self._fetch_clean(span, content, cut)
        name = f"{self._term.writer.hex()}-{self._made}"
        self._made += 1
        if not alive:
            return []
        data, extents = await self._offload(lambda: packed(name, alive, contents))
        self.pending.add(name)
        await self._admit(is_late=self._is_due(LATE))
        await self._store.put(self._keys.segment(name), data)
        return extents

    async def _fetch_clean(self, span: FileSpan, content: list[bytes], cut: _Cut) -> None:
        """Put in what the bucket has already: the local files need not have it, and here it is checked."""
        unsaved = cut.copying[span.file]
        clean = [
            one
            for one in cut.extents[span.file]
            if one.start < span.end
            and one.end > span.start
            and not unsaved.covers(max(one.start, span.start), min(one.end, span.end))
        ]
        for fetch in fetches(clean):
            data = await self._store.get_range(self._keys.segment(fetch.object), fetch.start, fetch.end)
            for at, piece in pieces(fetch, data):
                for start, end in unsaved.missing(max(at, span.start), min(at + len(piece), span.end)):
                    _overwrite(content, span, start, piece[start - at : end - at])

    def _check_all_stored(self, stored: dict[int, list[FileExtent]]) -> None:
        """Raise BucketError if a file that is there has bytes that would be in no object and in no WAL."""
        for file in self._tree.unsaved.values():
            there = Ranges((one.start, one.end) for one in stored.get(file.id, ()))
            for start, end in file.copying:
                if not there.covers(start, end):
                    raise BucketError(f"bytes {start} to {end} of {file.path} were not stored")

    def _manifest(
        self, cut: _Cut, stored: dict[int, list[FileExtent]], number: int, settled: int
    ) -> Manifest:
        files = tuple(_with_extents(entry, stored.get(entry.id, ())) for entry in cut.entries)
        return Manifest(
            *self._term,
            number,
            settled,
            self._wall_ns(),
            cut.next_id,
            cut.fences,
            self.collected,
            cut.directories,
            files,
        )

    async def _create(self, manifest: Manifest) -> None:
        key = self._keys.snapshot(manifest.number)
        data = await self._offload(manifest.pack)
        await self._admit(is_late=self._is_due(LATE))
        try:
            await self._store.create(key, data)
        except KeyExists:  # an answer was lost; nobody else has this number
            if await self._store.get(key) != data:
                raise BucketError(f"{key} is there already, and is another snapshot") from None


class _Cut(Struct, frozen=True):
    """The tree at the moment of a snapshot, and what is to be stored of it."""

    position: int
    spans: list[FileSpan]
    extents: dict[int, tuple[FileExtent, ...]]
    """The extents of the files in `spans`."""
    copying: dict[int, Ranges]
    directories: tuple[str, ...]
    entries: list[FileEntry]
    next_id: int
    fences: tuple[int, ...]


async def stored_groups(
    groups: Iterator[list[FileSpan]],
    store: Callable[[list[FileSpan]], Awaitable[list[tuple[int, FileExtent]]]],
    at_once: int,
) -> dict[int, list[FileExtent]]:
    """Store groups of spans, so many at once; return the extents of each file, ascending.

    `store`: puts the object of a group, and returns the files and extents that are in it. Raises: what it
    raises first of StoreError, BucketError, OSError; then no further group is begun.
    """
    stored: dict[int, list[FileExtent]] = {}
    failures: list[BaseException] = []

    async def work() -> None:
        for group in groups:
            if failures:
                return
            try:
                for file, extent in await store(group):
                    stored.setdefault(file, []).append(extent)
            except (StoreError, BucketError, OSError) as error:
                failures.append(error)

    await asyncio.gather(*(work() for _ in range(at_once)))
    if failures:
        raise failures[0]
    for extents in stored.values():
        extents.sort(key=lambda extent: extent.start)
    return stored


class LocalFiles:
    """Reads spans of local files for uploads."""

    def __init__(self, files: FileSystem, directory: Path, offload: Offload) -> None:
        self._files: Final = files
        self._directory: Final = directory
        self._offload: Final = offload

    def open(self, files: list[TreeFile]) -> list[int]:
        """Open files by the paths that they have now; return handles for `read`. Raises: OSError."""
        handles: list[int] = []
        try:
            for file in files:
                handles.append(self._files.open(self._directory / file.path, FileMode.READ))
        except OSError:
            self._close(handles)
            raise
        return handles

    async def read(self, handles: list[int], spans: list[FileSpan]) -> list[list[bytes]]:
        """Return the bytes of spans by blocks, zeros where a file has become shorter; close the files.

        Blocks are read one by one, and joined once: a large copy would hold other threads up.

        Raises: OSError.
        """
        turn = iter([True])  # who gets it closes the files: the thread goes on when the caller is cancelled

        def work() -> list[list[bytes]]:
            if not next(turn, False):
                return []
            try:
                return [self._content(handle, span) for handle, span in zip(handles, spans, strict=True)]
            finally:
                self._close(handles)

        try:
            return await self._offload(work)
        finally:
            if next(turn, False):
                self._close(handles)

    def _close(self, handles: list[int]) -> None:
        for handle in handles:
            self._files.close(handle)

    def _content(self, handle: int, span: FileSpan) -> list[bytes]:
        return [
            self._files.pread(handle, end - start, start).ljust(end - start, b"\0")
            for start, end in _blocks(span)
        ]


def _blocks(span: FileSpan) -> Iterator[tuple[int, int]]:
    """Yield the parts of a span that lie in one block of its file each."""
    start = span.start
    while start < span.end:
        end = min((start // BLOCK + 1) * BLOCK, span.end)
        yield start, end
        start = end


def _overwrite(content: list[bytes], span: FileSpan, start: int, data: memoryview) -> None:
    """Lay the bytes of a file from `start` on over the blocks of a span, which they lie in."""
    for number, (first, behind) in enumerate(_blocks(span)):
        low, high = max(first, start), min(behind, start + len(data))
        if low < high:
            block, part = content[number], data[low - start : high - start]
            content[number] = b"".join((block[: low - first], part, block[high - first :]))


def packed(
    name: str, spans: list[FileSpan], contents: list[list[bytes]]
) -> tuple[bytes, list[tuple[int, FileExtent]]]:
    """Return the bytes of an object, and the extents that lie in it."""
    extents: list[tuple[int, FileExtent]] = []
    offset = 0
    for span, content in zip(spans, contents, strict=True):
        for (start, end), block in zip(_blocks(span), content, strict=True):
            size = end - start
            extents.append((span.file, FileExtent(start, size, name, offset, size, crc32c(block))))
            offset += size
    return join(tuple(block for content in contents for block in content)), extents


def _with_extents(entry: FileEntry, stored: Collection[FileExtent]) -> FileEntry:
    """The file of a tree with what was stored laid over the extents that it had."""
    if not stored:
        return entry
    file = TreeFile(entry.id, entry.path, None, entry.size, list(entry.extents))
    for extent in stored:
        file.lay(extent)
    return type(entry)(entry.id, entry.path, entry.size, tuple(file.extents))


# ---- reading them ---------------------------------------------------------------------------------


async def read_snapshot(store: AsyncObjectStore, keys: ShardKeys, number: int) -> Manifest:
    """Read one snapshot. Raises: StoreError (KeyMissing), DamagedObject, NewerFormat."""
    return Manifest.unpack(await store.get(keys.snapshot(number)), keys.shard, number)


async def snapshot_numbers(store: AsyncObjectStore, keys: ShardKeys) -> list[int]:
    """Return the numbers of a shard's snapshots, as a listing has them, descending. Raises: StoreError."""
    found = [keys.number_of(one.key) async for one in store.list(keys.snapshots_prefix)]
    return sorted((number for number in found if number is not None), reverse=True)


async def newest_snapshot(store: AsyncObjectStore, keys: ShardKeys) -> Manifest | None:
    """Read the newest snapshot that a listing names and that is there; None: there is none.

    The listing may be old. Who reads on from a snapshot that is not the newest meets everything in the WAL,
    or `Behind`, and asks again. Raises: StoreError, DamagedObject, NewerFormat.
    """
    for number in await snapshot_numbers(store, keys):
        try:
            return await read_snapshot(store, keys, number)
        except KeyMissing:
            continue
    return None
