"""Reading the write-ahead log of a shard in order, by its owner-to-be, a standby or a restore.

An object is believed by its epoch alone: that of the current owner is applied, one of an earlier owner behind
a fence is passed over, a fence begins the next epoch. ADR 0038 says what a reader concludes from an object
that is not there, and why. Never lives here: what applying changes; who may write (`claim`, `writer`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.bucket.errors import Behind, DamagedObject
from headrace.bucket.keys import MILESTONE, milestone_above
from headrace.bucket.told_objects import ToldObjects
from headrace.bucket.wal_object import Kind, WalObject
from headrace.objects.errors import KeyMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.bucket.keys import ShardKeys
    from headrace.objects.port import AsyncObjectStore

READ_AHEAD: Final = 32
"""Objects that are asked for at once while many are to be read. As many are in memory."""
READ_AHEAD_BYTES: Final = 64 << 20
"""Bytes that they may have, by the size of the last one: fewer are asked for where they are large."""

CHECK_EVERY_S: Final = 60.0
"""Seconds between two looks of an idle reader whether what it waits for is deleted already."""


class Point(NamedTuple):
    """A place in the log: the last number that was read, and the owner there. The default: its beginning."""

    number: int = 0
    epoch: int = 0
    writer: bytes = b""


class WalFollower:
    """A reader of one shard's log. `apply` is called with each object that counts, in order.

    If `apply` raises, the object is read again with the next call. All methods raise StoreError,
    DamagedObject, NewerFormat, and Behind: then what was applied is no longer a state of the shard.
    """

    def __init__(
        self,
        store: AsyncObjectStore,
        keys: ShardKeys,
        point: Point,
        apply: Callable[[WalObject], object],
    ) -> None:
        self.store: Final = store
        self.keys: Final = keys
        self.point = point
        self.is_released = False
        """True if the last owner has given the shard up."""
        self.told: Final = ToldObjects(keys.shard)
        """The objects that the owner told of; they are not asked for."""
        self._apply: Final = apply
        self._checked_at = -CHECK_EVERY_S

    async def read_on(self, last: int | None = None) -> bool:
        """Read up to number `last`, or the first object that is not there; True if there was any.

        Many are asked for at once where there are many. To a `last` that is there it costs a request for each
        object; without one it costs some more, for objects that are not there.
        """
        before = self.point.number
        await self._read_on(last)
        is_missed = last is None or self.point.number < last
        if is_missed and asyncio.get_running_loop().time() - self._checked_at >= CHECK_EVERY_S:
            await self._is_next_unused()
        return self.point.number != before

    async def catch_up(self) -> None:
        """Read up to the first number that nobody used before."""
        while True:
            await self._read_on()
            if await self._is_next_unused():
                return

    async def take(self, found: WalObject) -> None:
        """Go on by the object that stands at the next number."""
        point = self.point
        mistake = _contradiction(found, point)
        if mistake:
            where = f"object {found.number} of shard {self.keys.shard}"
            if found.number % MILESTONE == 0 or await is_there(
                self.store, self.keys, milestone_above(found.number)
            ):
                raise Behind(f"{where} {mistake}: objects before it are deleted")
            raise DamagedObject(f"{where} {mistake}")
        if found.epoch < point.epoch:
            self.point = point._replace(number=found.number)
            return
        self._accept(found)

    def take_told(self) -> None:
        """Go on by what the owner told of, as far as it follows. Nobody reads on, or claims, meanwhile.

        Raises: DamagedObject, NewerFormat, and what `apply` raises; then the object is asked for later.
        """
        while (told := self._next_told()) is not None:
            self._accept(told)

    def _next_told(self) -> WalObject | None:
        """Return the next object if it was told of; one that disagrees with the log is left to the bucket."""
        told = self.told.take(self.point)
        return told if told is not None and not _contradiction(told, self.point) else None

    def _accept(self, found: WalObject) -> None:
        self._apply(found)
        self.point = Point(found.number, found.epoch, found.writer)
        self.is_released = found.kind is Kind.RELEASE

    async def _read_on(self, last: int | None = None) -> None:
        """Read up to the first object that is missing, more of them at once the longer it goes on."""
        asked: deque[asyncio.Task[WalObject | None]] = deque()
        width = 1 if last is None else READ_AHEAD // 2
        try:
            while last is None or self.point.number < last:
                if (told := self._next_told()) is not None:
                    self._accept(told)
                    if asked:
                        asked.popleft().cancel()
                    continue
                while len(asked) < width:
                    number = self.point.number + 1 + len(asked)
                    if last is not None and number > last:
                        break
                    asked.append(asyncio.create_task(read_object(self.store, self.keys, number)))
                    asked[-1].add_done_callback(_look_at)
                found = await asked[0]
                if found is None:
                    return
                asked.popleft()
                await self.take(found)
                most = max(READ_AHEAD_BYTES // max(len(found.payload), 1), 1)
                width = min(2 * width, READ_AHEAD, most)
        finally:
            for task in asked:
                task.cancel()

    async def _is_next_unused(self) -> bool:
        """True if the next number, which was missing, was so for ever; False if it is there by now.

        The milestone above it exists only if all numbers below were used. Raises: Behind.
        """
        number = self.point.number + 1
        if not await is_there(self.store, self.keys, milestone_above(number)):
            self._checked_at = asyncio.get_running_loop().time()
            return True
        if await is_there(self.store, self.keys, number):
            return False
        raise Behind(f"object {number} of shard {self.keys.shard} is deleted: a snapshot has what was in it")


def _contradiction(found: WalObject, point: Point) -> str:
    """Return how an object disagrees with all before it; "" if it does not."""
    if found.epoch < point.epoch:
        is_impossible = found.number % MILESTONE == 0
        return f"is of epoch {found.epoch}, behind epoch {point.epoch}" if is_impossible else ""
    if found.kind is Kind.FENCE:
        if found.epoch != point.epoch + 1:
            return f"begins epoch {found.epoch} in epoch {point.epoch}"
    elif (found.epoch, found.writer) != (point.epoch, point.writer):
        return f"is of epoch {found.epoch}, by a writer who has not begun it"
    return ""


def _look_at(task: asyncio.Task[object]) -> None:
    """Take note of how a task ended: nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()


async def read_object(store: AsyncObjectStore, keys: ShardKeys, number: int) -> WalObject | None:
    """Return the object of a number, None if it is not there.

    Raises: DamagedObject, NewerFormat, StoreError.
    """
    try:
        data = await store.get(keys.wal(number))
    except KeyMissing:
        return None
    return WalObject.unpack(data, keys.shard, number)


async def is_there(store: AsyncObjectStore, keys: ShardKeys, number: int) -> bool:
    """True if a number of the log has an object now. Raises: StoreError."""
    try:
        await store.head(keys.wal(number))
    except KeyMissing:
        return False
    return True
