"""Taking over a shard: a fence in the first free number, and none left free that the old owner may reach.

No clock decides: whoever creates the fence is the owner, and no put of an earlier owner counts behind it. All
may fail between any two requests; another claim, by anybody, is always possible afterwards (ADR 0038). Never
lives here: who should claim, and when.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.bucket.errors import Behind, DamagedObject, Overtaken
from headrace.bucket.follower import is_there, read_object
from headrace.bucket.keys import milestone_above
from headrace.bucket.wal_object import Kind, WalObject
from headrace.objects.errors import KeyExists, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.bucket.follower import WalFollower
    from headrace.bucket.keys import ShardKeys
    from headrace.objects.port import AsyncObjectStore

MOST_IN_FLIGHT: Final = 16
"""Numbers that an owner may have under way: from its first unconfirmed one on, never beyond these."""

_ATTEMPTS: Final = 3
"""Tries to create an object before a claim is given up. The store's client has tried each several times."""


class Claim(Struct, frozen=True):
    """A shard that was taken over."""

    epoch: int
    writer: bytes
    next_number: int
    """The first number of the owner's own: it and all behind it are free."""
    fence: int
    """The number of the fence."""
    proved_at: float
    """A time of the loop when nobody had taken the shard from this owner."""


async def claim(
    follower: WalFollower,
    *,
    writer: bytes,
    owner: bytes,
    wall_ns: Callable[[], int],
    position: Callable[[], int] = lambda: 0,
) -> Claim:
    """Make `writer` the owner of the shard; the follower has read everything up to its first number then.

    `writer` is new and random for each call: readers tell claims apart by it. `owner` is the fence's payload.
    `position`: returns the position that the log covers as far as the follower has read it, for the fence.

    Raises: Overtaken if somebody was faster, which the follower has read; Behind, DamagedObject, NewerFormat;
    StoreError, with or without a fence.
    """
    return await _Claiming(follower, writer, owner, wall_ns, position).run()


class _Claiming:
    def __init__(
        self,
        follower: WalFollower,
        writer: bytes,
        owner: bytes,
        wall_ns: Callable[[], int],
        position: Callable[[], int],
    ) -> None:
        self._follower: Final = follower
        self._writer: Final = writer
        self._owner: Final = owner
        self._wall_ns: Final = wall_ns
        self._position: Final = position
        self._covered = 0

    async def run(self) -> Claim:
        follower = self._follower
        await follower.catch_up()
        self._covered = self._position()
        proved_at = asyncio.get_running_loop().time()
        fence = self._made(follower.point.number + 1, follower.point.epoch + 1, Kind.FENCE)
        if await self._stands(fence) != fence:
            await follower.catch_up()
            raise Overtaken(f"shard {fence.shard}: object {fence.number} is another server's")
        await self._check(fence)
        filled = await self._fill(fence)
        for found in (fence, *filled):
            await follower.take(found)
        return Claim(fence.epoch, self._writer, filled[-1].number + 1, fence.number, proved_at)

    def _made(self, number: int, epoch: int, kind: Kind) -> WalObject:
        payload = self._owner if kind is Kind.FENCE else b""
        shard = self._follower.keys.shard
        return WalObject(shard, epoch, self._writer, number, kind, self._wall_ns(), payload, self._covered)

    async def _check(self, fence: WalObject) -> None:
        """Raise Behind if the fence is in a number that had been used, and its object deleted."""
        follower = self._follower
        if await is_there(follower.store, follower.keys, milestone_above(fence.number)):
            raise Behind(
                f"object {fence.number} of shard {fence.shard} had been used before: the fence is void"
            )

    async def _fill(self, fence: WalObject) -> list[WalObject]:
        """Settle all numbers that the old owner may have puts under way for, and return their objects.

        A milestone and the numbers behind it wait until all numbers below it are settled.
        """
        first, end = fence.number + 1, fence.number + MOST_IN_FLIGHT
        milestone = min(milestone_above(fence.number), end)
        return [
            *await self._settle(range(first, milestone), fence.epoch),
            *await self._settle(range(milestone, end), fence.epoch),
        ]

    async def _settle(self, numbers: range, epoch: int) -> list[WalObject]:
        """Create empty objects at numbers, or find those of earlier owners there."""
        outcomes = await asyncio.gather(
            *(self._stands(self._made(number, epoch, Kind.COMMIT)) for number in numbers),
            return_exceptions=True,
        )
        found = []
        for number, outcome in zip(numbers, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is None or outcome.epoch > epoch:
                raise Overtaken(f"shard {self._follower.keys.shard}: object {number} is another server's")
            if outcome.epoch == epoch and outcome.writer != self._writer:
                raise DamagedObject(f"object {number}: two writers have epoch {epoch}")
            found.append(outcome)
        return found

    async def _stands(self, made: WalObject) -> WalObject | None:
        return await create_object(self._follower.store, self._follower.keys, made)


async def create_object(store: AsyncObjectStore, keys: ShardKeys, made: WalObject) -> WalObject | None:
    """Create an object, and return what stands at its number now: it, or another's.

    None: another's, which is deleted already. Raises: StoreError if that cannot be found out.
    """
    data = made.pack()
    for attempt in range(_ATTEMPTS):
        try:
            await store.create(keys.wal(made.number), data)
        except KeyExists:
            return await read_object(store, keys, made.number)
        except StoreError:
            found = await read_object(store, keys, made.number)
            if found is not None:
                return found
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return made
    raise AssertionError("the last attempt returns or raises")
