"""Deleting what no retained snapshot needs: snapshots, WAL objects, segment objects (ADR 0039).

A snapshot is retained until `history` has passed since the next one was made, by the store's own times. An
owner deletes by what it knows of the snapshots of its own term, and nothing before the first of them is so
old: then all that earlier owners made is superseded for long enough, whether or not a listing has it.

- Snapshots below the oldest that is retained go first, so that none is left without what it needs.
- WAL objects go by their numbers, up to the last milestone in front of that snapshot. Fences and milestones
  never go: a server that slept meanwhile must find its next number taken.
- Segment objects go if a listing names them and no manifest does. A later owner's would look like that. So
  the owner proves after the listing that it still is the owner: then all that the listing names is older.

Never lives here: when a snapshot is taken (`snapshots`), or how ownership is proved.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from headrace.bucket.keys import MILESTONE
from headrace.bucket.snapshots import snapshot_numbers
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.manifest import Manifest
    from headrace.objects.port import AsyncObjectStore

BATCH: Final = 1000
"""Keys that one request deletes."""
MOST_BATCHES: Final = 20
"""Requests for deleting that one round makes for each kind of object; the next one goes on."""
SPACING_S: Final = 60.0
"""Seconds from one round to the next at least."""


class Snapshots(Protocol):
    """The snapshots of this term, as the collection sees them (`Snapshotter`)."""

    @property
    def pending(self) -> set[str]:
        """Segment objects that no manifest names yet."""

    dying: frozenset[str]
    collected: int
    when_taken: Callable[[Manifest], object]


class _Retained(Struct):
    """A snapshot of this term."""

    number: int
    objects: dict[str, int]
    """The bytes in use of each segment object that it needs."""
    made_at: float
    """The loop's time when it was there at the latest."""
    modified_ns: int | None = None
    """The store's time when it was made; None: not asked yet."""


class Collector:
    """Deletes what is no longer needed, while a server owns a shard.

    `fences`: the numbers of all fences. `history_s`: seconds that a snapshot is kept once there is a newer
    one. `prove`: asks the store whether the next number is free; True if it is. `collected`: from which WAL
    number on objects may be left, as the snapshot that this server began with says.
    """

    def __init__(
        self,
        store: AsyncObjectStore,
        keys: ShardKeys,
        snapshots: Snapshots,
        *,
        fences: Collection[int],
        history_s: float,
        prove: Callable[[], Awaitable[bool]],
        collected: int = 1,
    ) -> None:
        self._store: Final = store
        self._keys: Final = keys
        self._snapshots: Final = snapshots
        self._fences: Final = fences
        self._history_ns: Final = int(history_s * 1e9)
        self._prove: Final = prove
        self._retained: Final[list[_Retained]] = []
        self._first_ns: int | None = None
        self._looked_ns = 0
        """The store's time of the last round: what was due by then was deleted, or is in `has_more`."""
        self._news: Final = asyncio.Event()
        self.deleted = 0
        """Objects that were deleted."""
        self.trouble: str | None = None
        """The failure of the last round; None: it did not fail."""
        snapshots.collected = max(collected, 1)
        snapshots.when_taken = self._took

    def _took(self, manifest: Manifest) -> None:
        now = asyncio.get_running_loop().time()
        self._retained.append(_Retained(manifest.number, manifest.objects(), now))
        self._news.set()

    async def run(self) -> None:
        """Collect as it is due, until it is cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wait_s()):
                    await self._news.wait()
            self._news.clear()
            try:
                has_more = await self.collect()
            except StoreError as error:
                self.trouble, has_more = f"what is not needed could not be deleted: {error}", True
            else:
                self.trouble = None
            if has_more:
                self._news.set()
            await asyncio.sleep(SPACING_S)

    def _wait_s(self) -> float | None:
        """Seconds until a snapshot has been superseded for long enough; None: there is none that will be."""
        now = self._now_ns()
        if now is None or self._first_ns is None:
            return None
        ends = [one.modified_ns for one in self._retained[1:]] + [self._first_ns]
        due = [end + self._history_ns for end in ends if end is not None]
        return min((max(at - now, 0) / 1e9 for at in due if at > self._looked_ns), default=None)

    async def collect(self) -> bool:
        """Delete what may be deleted now; True if one round does not delete it all. Raises: StoreError."""
        await self._learn_times()
        now = self._now_ns()
        if now is None or self._first_ns is None:
            return False
        self._looked_ns = now
        if now - self._first_ns < self._history_ns:
            return False
        while len(self._retained) > 1 and self._is_over(self._retained[1], now):
            del self._retained[0]
        floor = self._retained[0].number
        known = {one.number for one in self._retained}
        listed = await snapshot_numbers(self._store, self._keys)
        # One of this term that is not known was made although the store said that it failed.
        gone = [number for number in listed if number < max(known) and number not in known]
        has_more = await self._delete([self._keys.snapshot(number) for number in gone])
        has_more |= await self._collect_wal(floor)
        return await self._collect_segments() or has_more

    async def _learn_times(self) -> None:
        for one in self._retained:
            if one.modified_ns is None:
                one.modified_ns = (await self._store.head(self._keys.snapshot(one.number))).modified_ns
                if self._first_ns is None:
                    self._first_ns = one.modified_ns

    def _now_ns(self) -> int | None:
        """The store's time, or a little less; None if the store has no times."""
        known = next((one for one in reversed(self._retained) if one.modified_ns is not None), None)
        if known is None or known.modified_ns is None:
            return None
        return known.modified_ns + int((asyncio.get_running_loop().time() - known.made_at) * 1e9)

    def _is_over(self, following: _Retained, now: int) -> bool:
        """True if the snapshot before `following` has been superseded for long enough."""
        return following.modified_ns is not None and now - following.modified_ns >= self._history_ns

    async def _collect_wal(self, floor: int) -> bool:
        """Delete WAL objects in front of the last milestone that is not behind a snapshot."""
        end = floor // MILESTONE * MILESTONE
        start = min(self._snapshots.collected, end)
        stop = min(start + BATCH * MOST_BATCHES, end)
        gone = [n for n in range(start, stop) if n % MILESTONE and n not in self._fences]
        await self._delete([self._keys.wal(number) for number in gone])
        self._snapshots.collected = max(self._snapshots.collected, stop)
        return stop < end

    async def _collect_segments(self) -> bool:
        prefix = f"{self._keys.segments_prefix}/"
        sizes = {
            one.key.removeprefix(prefix): one.size or 0
            async for one in self._store.list(self._keys.segments_prefix)
        }
        needed = self._snapshots.pending.union(*(one.objects for one in self._retained))
        gone = [name for name in sizes if name not in needed]
        newest = self._retained[-1].objects
        self._snapshots.dying = frozenset(name for name in newest if 2 * newest[name] < sizes.get(name, 0))
        if gone and not await self._prove():
            return False
        return await self._delete([self._keys.segment(name) for name in gone])

    async def _delete(self, keys: list[str]) -> bool:
        """Delete objects, so many at most; True if there were more."""
        most = BATCH * MOST_BATCHES
        for at in range(0, min(len(keys), most), BATCH):
            batch = keys[at : min(at + BATCH, most)]
            await self._store.delete(batch)
            self.deleted += len(batch)
        return len(keys) > most
