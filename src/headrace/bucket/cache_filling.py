"""Filling the local files of a shard beforehand, so that who takes over waits for nothing.

A server whose disk is empty, or that evicted much, has what it needs only when somebody asks for it. Here it
is brought while nobody does: what opening the logs reads comes first, then all the rest, the newest files
first and each from its end. It stops where `cache_bytes`, or the disk, has no more room. So much a second is
asked for, by few requests at once, which those of readers do not wait for.

Where a server stands by, this makes room and keeps the index of the cache, too; an owner does both with each
snapshot. Never here: how bytes are brought (`cache`), which of them opening reads (`first_bytes`).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import wait
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from headrace.bucket.extents import MOST_AT_ONCE
from headrace.bucket.first_bytes import FirstBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.bucket.place import ShardPlace
    from headrace.bucket.replica import Replica
    from headrace.bucket.status import CacheState
    from headrace.bucket.tree import TreeFile

ROUND_S: Final = 30.0
"""Seconds between two looks for bytes that are not here."""
INDEX_S: Final = 300.0
"""Seconds after which the index is written again where nothing was brought: the owner's snapshots go on."""
BATCH_BYTES: Final = 16 << 20
"""Bytes that are asked for together; then what they may take is waited for."""
BATCH_RANGES: Final = 128
"""Ranges of files that are asked for together: who reads one of them may wait for all."""
REQUESTS_PER_S: Final = 50.0
"""Requests a second at most, whatever they bring."""
FILLED: Final = 0.8
"""The share of `cache_bytes` that is filled. The rest is for what is written and read: less is never taken
away, so nothing is brought again and again."""
LOOK_S: Final = 1.0
"""Seconds after which who waits for the rate sees that it was changed."""
LEAST_FREE: Final = 1 << 30
"""Bytes of the disk that are left to others."""
RETRY_S: Final = 5.0
"""Seconds of a pause after bytes that could not be brought, doubled with each up to `SLOWEST_RETRY_S`."""
SLOWEST_RETRY_S: Final = 60.0

_Range: TypeAlias = "tuple[TreeFile, int, int]"


class CacheFiller:
    """Fills the cache of one shard, from `start` to `stop`. All methods are for the event loop's thread.

    `bytes_per_second`: bytes that it asks for; 0: it does nothing.
    """

    def __init__(self, place: ShardPlace) -> None:
        self.bytes_per_second = place.options.fill_per_second
        self.state: CacheState = "off"
        self.filled_bytes = 0
        """Bytes that were asked for since the server was started."""
        self.trouble = ""
        """The reason why bytes could not be brought, or the index not be kept; "": all went well lately."""
        self._place: Final = place
        self._loop: Final = asyncio.get_running_loop()
        self._replica: Replica | None = None
        self._tidies = False
        self._noted_bytes = 0
        """`filled_bytes` of which the index has everything."""
        self._noted_at = self._tidied_at = self._loop.time()
        self._before = 0
        """`filled_bytes` when the round began."""
        self._task: asyncio.Task[None] | None = None

    def start(self, replica: Replica, *, tidies: bool) -> None:
        """Begin to fill the cache of a replica, unless that is done already.

        `tidies`: make room and keep the index, too, which nobody else does.
        """
        if self._task is not None and self._replica is replica and self._tidies is tidies:
            return
        self.stop()
        self._replica, self._tidies = replica, tidies
        self._task = self._loop.create_task(self._run(replica))
        self._task.add_done_callback(self._note_end)

    def stop(self) -> None:
        """End. What a thread has begun for it may go on until the cache is closed."""
        task, self._task, self._replica = self._task, None, None
        if task is not None:
            task.cancel()
        self.state = "off"

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Have the server hear of a mistake in this program: nobody waits for the task."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "filling a cache ended", "exception": error})

    async def _run(self, replica: Replica) -> None:
        while True:
            self.trouble, self._before = "", self.filled_bytes
            if self.bytes_per_second > 0:
                await self._fill(replica)
            if self.bytes_per_second <= 0:
                self.state = "off"
            await self._tidy(replica)
            await asyncio.sleep(ROUND_S)

    # -- filling ------------------------------------------------------------------------------------------

    async def _fill(self, replica: Replica) -> None:
        """Bring what is not here, as long as there is room for it."""
        place, cache = self._place, replica.cache
        if not cache.absent_bytes:
            self.state = "whole"
            return
        self.state = "filling"

        def first_bytes() -> FirstBytes:
            with cache.changes:  # the tree stays as it is while it is looked at
                return FirstBytes(replica.tree, cache, place.directory, replica.files, place.cipher)

        first = await place.offload(first_bytes)
        has_room = (
            await self._bring(replica, first.by_name, 1.0)
            and await self._bring(replica, first.by_contents, 1.0)
            and await self._bring(replica, lambda: newest_first(cache.partial_files()), FILLED)
        )
        if not has_room:
            self.state = "full"
        elif not cache.absent_bytes:
            self.state = "whole"

    async def _bring(self, replica: Replica, wanted: Callable[[], Iterator[_Range]], share: float) -> bool:
        """Bring wanted ranges; False: a share of `cache_bytes`, or the disk, has no room for more, or nobody
        wants them any more.
        """
        offload, ranges, pause = self._place.offload, wanted(), RETRY_S
        while True:
            began = self._loop.time()
            step = await offload(lambda: self._step(replica, ranges, share))
            self.filled_bytes += step.size
            if step.is_last or step.is_full:
                return not step.is_full
            if step.failure is None:
                pause = RETRY_S
                await self._keep_to_rate(replica, step, began)
            else:
                self.trouble = str(step.failure)
                await asyncio.sleep(pause)
                pause = min(2 * pause, SLOWEST_RETRY_S)
            if self.bytes_per_second <= 0:
                return False

    async def _keep_to_rate(self, replica: Replica, step: _Step, began: float) -> None:
        """Wait until what a step brought is within the rate, which may be changed meanwhile: for hours."""
        while (rate := self.bytes_per_second) > 0:
            cost = max(step.size / rate, step.requests / REQUESTS_PER_S)
            left = began + cost - self._loop.time()
            if left <= 0:
                return
            await asyncio.sleep(min(left, LOOK_S))
            if self._loop.time() >= self._tidied_at + ROUND_S:
                await self._tidy(replica)

    def _step(self, replica: Replica, ranges: Iterator[_Range], share: float) -> _Step:
        """Bring the next of some ranges, and wait until they are here. On a thread."""
        cache, batch, size = replica.cache, list[_Range](), 0
        try:
            room = min(cache.room(share), self._place.free_bytes() - LEAST_FREE)
        except OSError as error:
            return _Step(failure=error)
        for wanted in ranges:
            missing = cache.missing_bytes(*wanted)
            if missing > room - size:
                return _Step(is_full=True)
            if missing:
                batch.append(wanted)
                size += missing
            if size >= BATCH_BYTES or len(batch) >= BATCH_RANGES:
                break
        if not batch:
            return _Step(is_last=True)
        begun = cache.bring(batch, in_background=True)
        wait(begun.arrivals)
        failures = (arrival.exception() for arrival in begun.arrivals)
        return _Step(begun.size, begun.requests, next((each for each in failures if each is not None), None))

    # -- what an owner does with each snapshot ------------------------------------------------------------

    async def _tidy(self, replica: Replica) -> None:
        """Take away what is over `cache_bytes`, and note for the next start which files are wholly here.

        What came in this round may be too young for the index, which the next one writes once more then.
        """
        if not self._tidies:
            return
        self._tidied_at = self._loop.time()
        try:
            await self._place.offload(replica.cache.make_room)
            now = self._loop.time()
            if self.filled_bytes != self._noted_bytes or now >= self._noted_at + INDEX_S:
                self._noted_bytes, self._noted_at = self._before, now
                await replica.cache.save()
        except OSError as error:  # the next round tries again
            self.trouble = f"local files: {error.strerror or error}"


class _Step(NamedTuple):
    """The bytes and requests of one step. `is_last`: nothing was left to bring; `is_full`: it has no room."""

    size: int = 0
    requests: int = 0
    failure: BaseException | None = None
    is_last: bool = False
    is_full: bool = False


def newest_first(files: Iterable[TreeFile]) -> Iterator[tuple[TreeFile, int, int]]:
    """Yield the parts of files, each from its end to its beginning."""
    for file in files:
        end = file.size
        while end > 0 and not file.is_gone:
            start = (end - 1) // MOST_AT_ONCE * MOST_AT_ONCE
            yield file, start, end
            end = start
