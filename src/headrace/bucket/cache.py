"""The local files of a shard as a cache: which bytes are here, bringing those that are not, making room.

A file of the tree is there locally with its whole size, but perhaps only some of its bytes are: the others
are holes in it, until somebody reads them. Then the blocks that they are in come from segment objects,
checked against the checksums of their extents. Who reads on and on has more brought ahead, by other threads.

What a directory holds from earlier is believed of a file if the index says so (`cache_index`): with the
extents that the tree has now, and not touched since. All else is taken for absent: a server that lost the
shard may have a tail that was never committed, and that nobody will ever have written.

Bytes are installed under `changes`, the lock under which files are changed (by the mirror, then by an owner,
whose journal takes it over), so that what is brought never lies over what was written meanwhile. Requests
are made without any lock.
Never lives here: what a change of a file is (`capture`, `mirror`), which extents a file has (`tree`).
"""

from __future__ import annotations

import errno
import threading
from collections import Counter, OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field

from headrace.bucket.cache_index import CacheIndex
from headrace.bucket.capture import LOCAL_NAMES
from headrace.bucket.errors import CacheFailed, DamagedObject
from headrace.bucket.extents import BLOCK, MOST_AT_ONCE, Fetch, fetches, pieces
from headrace.bucket.ranges import Ranges
from headrace.bucket.snapshots import in_thread
from headrace.bucket.tree import Directory, FileEntry, TreeFile
from headrace.log.blocking import NotHere, may_wait
from headrace.log.filesystem import FileMode, make_directory, pwrite_all
from headrace.objects.errors import AccessRefused, KeyMissing, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from headrace.bucket.counted_reading import RangeReads
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.snapshots import Offload
    from headrace.bucket.tree import Tree
    from headrace.log.filesystem import FileSystem

OWN: Final = ".bucket"
"""The folder in a shard's directory with the cache's own files."""
READ_AHEAD: Final = 64 << 20
"""Bytes that are brought ahead of a sequential reader at most, and a quarter of `cache_bytes`.

What a store of 1 GB/s sends in 64 ms.
"""
MOST_AHEAD: Final = 128 << 20
"""Bytes that are asked for ahead of all readers at most, and have not come yet."""
THREADS: Final = 16
"""Requests for bytes of files that are under way at once: each has at most `MOST_AT_ONCE` bytes in memory."""
BACKGROUND_THREADS: Final = 4
"""Requests under way at once that nobody waits for; those of readers do not wait for them."""
ATTEMPTS: Final = 3
"""The number of times a request is made before a read fails."""
LOW_WATER: Final = 0.9
"""The share of `cache_bytes` that is left in use when room is made."""
NEIGHBOURS: Final = 64 << 10
"""Bytes between two ranges of an object that are brought for nothing, rather than by another request."""
_NEAR: Final = 256 << 10
"""A read that begins so near behind the end of the one before goes on with it."""
_AGAIN: Final = 8 << 20
"""A read that begins so near before that end goes on with it, too: what lacked bytes is read again."""


class _Flight(Struct, eq=False):
    """The range [start, end) of a file, which is being brought: `jobs` requests have not ended yet."""

    start: int
    end: int
    jobs: int
    in_background: bool = False
    """True if nobody waits for it: then its failure is not kept for a reader."""
    is_told: bool = False
    """True if `arrival` is done, or about to be."""
    failure: BaseException | None = None
    arrival: Future[None] = field(default_factory=Future)
    """Done when all bytes are installed; the OSError for which they are not."""


class _Partial(Struct, eq=False):
    """A file of which not all bytes are here."""

    size: int
    present: Ranges = field(default_factory=Ranges)
    following: int = -1
    """The end of the last read."""
    run: int = 0
    """Bytes that were read one behind the other up to there."""
    ahead: int = 0
    """The end of what is brought ahead."""
    flights: list[_Flight] = field(default_factory=list)
    """Ranges that are being brought, and those that could not be, until their reader is told so."""


class _Leg(NamedTuple):
    """The part of a flight that one request brings."""

    file: TreeFile
    part: _Partial
    flight: _Flight
    fetch: Fetch


class Bringing(NamedTuple):
    """Ranges of files that are being brought: `size` bytes by so many requests, without those that were under
    way before.
    """

    arrivals: list[Future[None]]
    """Done one by one, as the ranges are here or cannot be had."""
    size: int
    requests: int


class LocalCache:
    """The files below a directory, as far as they are here (`capture.Residence`).

    `reads`: the bucket, for threads that wait. `cache_bytes`: bytes on the local disk above which room is
    made; None: never. Of open files, and of those with bytes that are only in the WAL, nothing is taken away.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        reads: RangeReads,
        keys: ShardKeys,
        tree: Tree,
        *,
        cache_bytes: int | None = None,
        offload: Offload = in_thread,
    ) -> None:
        self._files: Final = files
        self._directory: Final = directory
        self._reads: Final = reads
        self._keys: Final = keys
        self._tree: Final = tree
        self._cache_bytes: Final = cache_bytes
        self._offload: Final = offload
        self._index: Final = CacheIndex(files, directory / OWN)
        self._lock: Final = threading.RLock()
        self.changes: AbstractContextManager[object] = threading.RLock()
        """The lock under which files are changed, by whoever changes them."""
        self._partial: Final[dict[int, _Partial]] = {}
        self._gone: Final[set[int]] = set()
        self._open: Final[Counter[int]] = Counter()
        self._used: Final[OrderedDict[int, None]] = OrderedDict()
        """Files that were opened, the one whose use is longest ago first."""
        self._pool: Final = ThreadPoolExecutor(THREADS, "bucket-read")
        self._background: Final = ThreadPoolExecutor(BACKGROUND_THREADS, "bucket-fill")
        most = READ_AHEAD if cache_bytes is None else min(READ_AHEAD, cache_bytes // 4)
        self._most_ahead: Final = max(most, BLOCK)
        self._runs: Final[dict[str, int]] = {}
        """Bytes that readers have read on and on when the file that they read was asked for to its end, by
        directory: they go on with the next file of it."""
        self._installed = 0
        self._ahead_bytes = 0
        self._is_closed = False
        self.fetched = 0
        """Bytes that came from the bucket."""

    # ---- beginning and end ------------------------------------------------------------------

    async def begin(self) -> None:
        """Make the directory what the tree says; what cannot be trusted is absent. Raises: CacheFailed."""
        try:
            await self._offload(self._make_directory)
        except OSError as error:
            raise CacheFailed(f"{self._directory}: {error.strerror or error}") from error

    def close(self) -> None:
        """End what is brought; who waits for it is told so. No file is written from now on."""
        with self.changes, self._lock:
            self._is_closed = True
            flights = [one for part in self._partial.values() for one in part.flights if not one.is_told]
            for one in flights:
                one.is_told = True
        for one in flights:
            one.arrival.set_exception(_closed())
        for pool in (self._pool, self._background):
            pool.shutdown(wait=False, cancel_futures=True)

    async def save(self) -> None:
        """Note which files are wholly here and in the bucket, synced, for the next start. Raises: OSError."""
        with self.changes, self._lock:
            whole = self._whole_files()
        await self._offload(lambda: self._index.sync(whole, self._directory))
        with self.changes, self._lock:
            still = self._whole_files()
            if self._is_closed:
                return
        await self._offload(lambda: self._index.write(still))

    def _whole_files(self) -> list[FileEntry]:
        """The files that are wholly here, and in segment objects."""
        return [
            FileEntry(file.id, file.path, file.size, tuple(file.extents))
            for file in self._tree.files.values()
            if file.size and file.id not in self._partial and self._is_clean(file)
        ]

    def _make_directory(self) -> None:
        make_directory(self._files, self._directory)
        trusted = self._index.read()
        self._remove_strangers(self._directory, self._tree.root)
        for path in self._tree.directories():
            if not self._files.is_directory(self._directory / path):
                self._files.mkdir(self._directory / path)
        for file in self._tree.files.values():
            if not trusted.has(file, self._directory):
                self._make_absent(file)

    def _remove_strangers(self, directory: Path, node: Directory) -> None:
        """Remove what the tree does not have, or has as something else."""
        for name in self._files.listdir(directory):
            if name in LOCAL_NAMES or (node is self._tree.root and name == OWN):
                continue
            path, known = directory / name, node.entries.get(name)
            if self._files.is_directory(path):
                self._remove_strangers(path, known if isinstance(known, Directory) else Directory(name, None))
                if not isinstance(known, Directory):
                    self._remove_directory(path)
            elif not isinstance(known, TreeFile):
                self._files.unlink(path)

    def _remove_directory(self, path: Path) -> None:
        for name in self._files.listdir(path):
            self._files.unlink(path / name)  # a lock of somebody who is gone
        self._files.rmdir(path)

    def _make_absent(self, file: TreeFile) -> None:
        """Have all bytes of a file be holes."""
        handle = self._files.open(self._directory / file.path, FileMode.CREATE)
        try:
            self._files.truncate(handle, 0)
            self._files.truncate(handle, file.size)
        finally:
            self._files.close(handle)
        if file.size:
            self._partial[file.id] = _Partial(file.size)

    # ---- what the files' users say (`Residence`) ---------------------------------------------

    def is_whole(self, number: int) -> bool:
        return number not in self._partial

    def opened(self, number: int) -> None:
        with self._lock:
            self._open[number] += 1
            self._used[number] = None
            self._used.move_to_end(number)

    def closed(self, number: int) -> None:
        with self._lock:
            self._open[number] -= 1
            if self._open[number] > 0:
                return
            del self._open[number]
            if number in self._gone:
                self._forget(number)
            elif (part := self._partial.get(number)) is not None:
                part.ahead = part.run = 0

    def created(self, number: int) -> None:
        """Do nothing: a file that is not noted is wholly here."""

    def wrote(self, number: int, start: int, end: int) -> None:
        with self._lock:
            part = self._partial.get(number)
            if part is not None:
                self._grow(part, start)
                part.present.add(start, end)
                part.size = max(part.size, end)
                self._settle(number, part)

    def truncated(self, number: int, size: int) -> None:
        with self._lock:
            part = self._partial.get(number)
            if part is not None:
                part.present.cut(size)
                self._grow(part, size)
                part.size = size
                self._settle(number, part)

    def removed(self, number: int) -> None:
        with self._lock:
            if self._open[number] > 0:
                self._gone.add(number)
            else:
                self._forget(number)

    def _forget(self, number: int) -> None:
        self._partial.pop(number, None)
        self._used.pop(number, None)
        self._gone.discard(number)
        self._open.pop(number, None)

    def _grow(self, part: _Partial, size: int) -> None:
        """Note the zeros between a file's end and where it is written."""
        part.present.add(part.size, size)

    def _settle(self, number: int, part: _Partial) -> None:
        if part.present.covers(0, part.size):
            self._partial.pop(number, None)

    # ---- reading ----------------------------------------------------------------------------

    def pread(self, file: TreeFile, handle: int, size: int, offset: int) -> bytes:
        """Read bytes of a file; those that are not here are brought first.

        Raises: OSError, EIO if the bucket does not have them or does not answer; NotHere, once they are asked
        for, to who may not wait.
        """
        end = min(offset + size, self._files.size(handle))
        while file.id not in self._gone and (arrivals := self._bring_missing(file, offset, end)):
            self._bring_ahead(file, offset, end)
            if not may_wait():
                raise NotHere(arrivals[0])
            for arrival in arrivals:
                arrival.result()
        if file.id in self._gone:  # nothing more is installed
            return self._read_gone(file, handle, size, offset)
        self._bring_ahead(file, offset, end)
        return self._files.pread(handle, size, offset)

    def missing_bytes(self, file: TreeFile, start: int, end: int) -> int:
        """Return how many bytes `bring` would bring of a range."""
        return sum(behind - first for first, behind in self._missing(file, start, end))

    def bring(self, wanted: Iterable[tuple[TreeFile, int, int]], *, in_background: bool = False) -> Bringing:
        """Begin to bring the ranges [start, end) of files that are not here.

        What lies near each other in the bucket is asked for together, of many files, too. What cannot be
        brought is asked for again by who reads it, and told to him. A quarter of `cache_bytes` at most is
        brought: more would be taken away before it is read. `in_background`: all is brought, and requests
        that others make meanwhile do not wait for these.
        """
        runs: dict[int, tuple[TreeFile, Ranges]] = {}
        waiting: list[Future[None]] = []
        is_endless = self._cache_bytes is None or in_background
        room = float("inf") if is_endless else (self._cache_bytes or 0) // 4
        for file, start, end in wanted:
            missing = runs.setdefault(file.id, (file, Ranges()))[1]
            for first, behind in self._missing(file, start, end):
                missing.add(first, behind)
                room -= behind - first
            if room <= 0:
                break
        with self._lock:
            for file, missing in runs.values():
                part = self._partial.get(file.id)
                for one in [] if part is None else part.flights:
                    if not one.arrival.done() and any(True for _ in missing.within(one.start, one.end)):
                        waiting.append(one.arrival)
                        missing.remove(one.start, one.end)
        begun = self._begin(
            ((file, list(missing)) for file, missing in runs.values()), in_background=in_background
        )
        return begun._replace(arrivals=waiting + begun.arrivals)

    def _bring_missing(self, file: TreeFile, start: int, end: int) -> list[Future[None]]:
        """Begin to bring what is not here of [start, end); return what to wait for. Raises: OSError."""
        wanted = self._missing(file, start, end)
        if not wanted:
            return []
        with self._lock:
            part = self._partial.get(file.id)
            if part is None:
                return []
            flights = [one for one in part.flights if any(one.start < b and one.end > a for a, b in wanted)]
            failed = [one for one in flights if one.arrival.done()]
            part.flights = [one for one in part.flights if one not in failed]
            asked = Ranges((one.start, one.end) for one in part.flights)
        for one in failed:
            if not may_wait():
                one.arrival.result()  # who waits asks once more
        runs = [run for a, b in wanted for run in asked.missing(a, b)]
        begun = self._begin([(file, runs)])
        return [one.arrival for one in flights if one not in failed] + begun.arrivals

    def _missing(self, file: TreeFile, start: int, end: int) -> list[tuple[int, int]]:
        """Return what is not here of the blocks that [start, end) lies in; nothing if that itself is here."""
        with self._lock:
            part = self._partial.get(file.id)
            if part is None or part.present.covers(start, min(end, part.size)):
                return []
            first, behind = start // BLOCK * BLOCK, -(-end // BLOCK) * BLOCK
            return list(part.present.missing(first, min(behind, part.size)))

    def _plan(self, file: TreeFile, wanted: list[tuple[int, int]]) -> list[Fetch]:
        with self.changes:
            extents = {one.start: one for start, end in wanted for one in file.extents_in(start, end)}
        return fetches(extents.values())

    def _begin(
        self, wanted: Iterable[tuple[TreeFile, list[tuple[int, int]]]], *, in_background: bool = False
    ) -> Bringing:
        """Have other threads bring ranges of files, and install them."""
        flights: list[tuple[TreeFile, _Partial, _Flight]] = []
        legs: list[_Leg] = []
        for file, start, end in ((file, *run) for file, runs in wanted for run in runs):
            planned = self._plan(file, [(start, end)])
            flight = _Flight(start, end, len(planned) + 1, in_background)  # one for zeros that no extent has
            with self._lock:
                part = self._partial.get(file.id)
                if part is None:
                    continue
                part.flights.append(flight)
                self._ahead_bytes += end - start
            flights.append((file, part, flight))
            legs += [_Leg(file, part, flight, fetch) for fetch in planned]
        requests = list(_together(legs))
        for together in requests:
            self._send(together, self._background if in_background else self._pool)
        for file, part, flight in flights:
            self._landed(file, part, flight)
        arrivals = [flight.arrival for _, _, flight in flights]
        return Bringing(arrivals, sum(one.end - one.start for _, _, one in flights), len(requests))

    def _submit(self, work: Callable[[], None], pool: ThreadPoolExecutor) -> Future[None]:
        try:
            return pool.submit(work)
        except RuntimeError:  # it was closed
            job: Future[None] = Future()
            job.cancel()
            return job

    def _send(self, legs: list[_Leg], pool: ThreadPoolExecutor) -> None:
        """Have a thread bring what lies near each other in one object, for all files that it belongs to."""
        job = self._submit(partial(self._fetch, legs), pool)
        for leg in legs:
            job.add_done_callback(partial(self._landed, leg.file, leg.part, leg.flight))

    def _fetch(self, legs: list[_Leg]) -> None:
        """Bring bytes and install them. Raises: OSError."""
        first, end = legs[0].fetch, max(leg.fetch.end for leg in legs)
        extents = tuple(extent for leg in legs for extent in leg.fetch.extents)
        found = self._bring(Fetch(first.object, first.start, end, extents))
        for leg in legs:
            count = len(leg.fetch.extents)
            self._install(leg.file, leg.part, found[:count])
            del found[:count]

    def _landed(
        self, file: TreeFile, part: _Partial, flight: _Flight, job: Future[None] | None = None
    ) -> None:
        """End a part of a flight. The last one tells who waits."""
        failure: BaseException | None = None
        if job is not None:
            failure = _closed() if job.cancelled() else job.exception()
        with self.changes, self._lock:
            flight.jobs -= 1
            if self._is_closed:  # what came was not installed
                failure = failure or _closed()
            flight.failure = flight.failure or failure
            if flight.jobs:
                return
            self._ahead_bytes -= flight.end - flight.start
            if flight.failure is None or flight.in_background:
                part.flights.remove(flight)
            if flight.failure is None and self._partial.get(file.id) is part and not file.is_gone:
                part.present.add(flight.start, min(flight.end, part.size))
                self._settle(file.id, part)
            if flight.is_told:
                return
            flight.is_told = True
        if flight.failure is None:
            flight.arrival.set_result(None)
        else:
            flight.arrival.set_exception(flight.failure)

    def _bring(self, fetch: Fetch) -> list[tuple[int, memoryview]]:
        """Return places in the file and bytes, as they were stored. Raises: OSError."""
        key = self._keys.segment(fetch.object)
        failure: Exception | None = None
        for _ in range(ATTEMPTS):
            try:
                data = self._reads.get_range(key, fetch.start, fetch.end)
                with self._lock:
                    self.fetched += len(data)
                return list(pieces(fetch, data))
            except (KeyMissing, AccessRefused) as error:
                failure = error
                break
            except (StoreError, DamagedObject) as error:  # it may have been damaged on its way
                failure = error
        raise OSError(errno.EIO, str(failure)) from failure

    def _install(self, file: TreeFile, part: _Partial, found: list[tuple[int, memoryview]]) -> None:
        """Write what came from the bucket where nothing was written since. Raises: OSError."""
        with self.changes, self._lock:
            if not self._takes(file, part):
                return
            handle = self._files.open(self._directory / file.path, FileMode.UPDATE)
        try:
            for at, piece in found:
                if not self._install_piece(file, part, handle, at, piece):
                    break
        finally:
            self._files.close(handle)
        if self._cache_bytes is not None and self._installed > self._cache_bytes // 16:
            self.make_room()

    def _takes(self, file: TreeFile, part: _Partial) -> bool:
        """True unless a file is gone, was taken away, or is wholly here; or the directory is another's."""
        return not self._is_closed and self._partial.get(file.id) is part and not file.is_gone

    def _install_piece(self, file: TreeFile, part: _Partial, handle: int, at: int, piece: memoryview) -> bool:
        """Write one piece; False if nothing of the file is to be written any more. Raises: OSError.

        Whoever changes files waits for one piece at most.
        """
        with self.changes, self._lock:
            if not self._takes(file, part):
                return False
            end = min(at + len(piece), part.size)
            for start, behind in list(part.present.missing(at, end)):
                pwrite_all(self._files, handle, piece[start - at : behind - at], start)
            part.present.add(at, end)
            self._settle(file.id, part)
            self._installed += len(piece)
        return True

    def _read_gone(self, file: TreeFile, handle: int, size: int, offset: int) -> bytes:
        """Read a file that has no name any more: what is brought is kept nowhere."""
        data = bytearray(self._files.pread(handle, size, offset))
        with self._lock:
            part = self._partial.get(file.id)
            wanted = [] if part is None else list(part.present.missing(offset, offset + len(data)))
        for fetch in self._plan(file, wanted):
            for at, piece in self._bring(fetch):
                for start, end in wanted:
                    first, behind = max(at, start), min(at + len(piece), end)
                    if first < behind:
                        data[first - offset : behind - offset] = piece[first - at : behind - at]
        return bytes(data)

    # ---- reading ahead ----------------------------------------------------------------------

    def _bring_ahead(self, file: TreeFile, start: int, end: int) -> None:
        """Begin to bring what a reader that goes on like this will want."""
        with self._lock:
            part = self._partial.get(file.id)
            if part is None:
                return
            if self._goes_on(file, part, start):
                part.run += max(end - max(part.following, 0), 0)
                part.following = max(part.following, end)
            else:
                part.run = part.ahead = 0
                part.following = end
            span = min(4 * part.run // BLOCK * BLOCK, self._most_ahead)  # reads of a header bring nothing
            first = max(part.ahead, -(-end // BLOCK) * BLOCK)
            unit = min(span, MOST_AT_ONCE)
            asked = Ranges((one.start, one.end) for one in part.flights)
            runs: list[tuple[int, int]] = []
            room = MOST_AHEAD - self._ahead_bytes
            while unit and first < part.size and room >= unit:
                behind = min(first + unit, part.size)
                if behind > end + span + BLOCK:
                    break
                absent = part.present.missing(first, behind)
                runs += [run for a, b in absent for run in asked.missing(a, b)]
                first = part.ahead = behind
                room -= unit
            if part.ahead >= part.size:
                self._runs[file.path.rpartition("/")[0]] = part.run
        self._begin([(file, runs)])

    def _goes_on(self, file: TreeFile, part: _Partial, start: int) -> bool:
        """True if a read goes on with the one before, in this file or at the beginning of the next one."""
        if part.following >= 0:
            return part.following - _AGAIN <= start <= part.following + _NEAR
        if start <= _NEAR:
            part.run = self._runs.pop(file.path.rpartition("/")[0], -1)
        return part.run > 0

    # ---- room -------------------------------------------------------------------------------

    @property
    def absent_bytes(self) -> int:
        """Bytes of files that are not here."""
        with self._lock:
            return sum(part.size - part.present.size for part in self._partial.values())

    @property
    def local_bytes(self) -> int:
        """Bytes of files that are here."""
        with self._lock:
            return sum(file.size for file in list(self._tree.files.values())) - self.absent_bytes

    def room(self, share: float) -> float:
        """Return how many bytes more a share of `cache_bytes` has room for; below 0: it has too many."""
        return float("inf") if self._cache_bytes is None else share * self._cache_bytes - self.local_bytes

    def partial_files(self) -> list[TreeFile]:
        """Return the files of which not all bytes are here, the newest first."""
        with self.changes, self._lock:
            found = (self._tree.files.get(number) for number in sorted(self._partial, reverse=True))
            return [file for file in found if file is not None]

    def make_room(self) -> None:
        """Take files away, those not used for longest first, until `cache_bytes` are enough.

        Raises: OSError.
        """
        with self.changes, self._lock:
            self._installed = 0
            used = self.local_bytes
            if self._cache_bytes is None or used <= self._cache_bytes or self._is_closed:
                return
            never = [number for number in self._tree.files if number not in self._used]
            for number in [*never, *self._used]:
                file = self._tree.files.get(number)
                if used <= self._cache_bytes * LOW_WATER:
                    return
                if file is None or self._open[number] > 0 or not self._is_clean(file):
                    continue
                part = self._partial.get(number)
                used -= file.size if part is None else part.present.size
                self._make_absent(file)

    def _is_clean(self, file: TreeFile) -> bool:
        """True if all bytes of a file are in segment objects."""
        return not file.dirty and not file.copying


def _closed() -> OSError:
    return OSError(errno.EIO, "bytes that are in the bucket are not read any more")


def _together(legs: list[_Leg]) -> Iterator[list[_Leg]]:
    """Yield the parts of flights that one request brings each: neighbours in one object."""
    group: list[_Leg] = []
    end = 0
    for leg in sorted(legs, key=lambda each: (each.fetch.object, each.fetch.start)):
        fetch = leg.fetch
        if group:
            first = group[0].fetch
            is_near = first.object == fetch.object and fetch.start <= end + NEIGHBOURS
            if not is_near or max(end, fetch.end) - first.start > MOST_AT_ONCE:
                yield group
                group, end = [], 0
        group.append(leg)
        end = max(end, fetch.end)
    if group:
        yield group
