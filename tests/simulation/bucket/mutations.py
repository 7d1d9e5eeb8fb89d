"""Rules of the log broken on purpose. Each is found by the simulation, or the simulation is worth nothing."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from headrace.bucket import claim as claiming
from headrace.bucket import collection as collecting
from headrace.bucket import follower as following
from headrace.bucket import keys as bucket_keys
from headrace.bucket import writer as writing
from headrace.bucket.claim import Claim
from headrace.bucket.wal_object import Kind
from headrace.bucket.writer import WalWriter
from simulation.bucket import server as serving
from simulation.bucket.store import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from headrace.bucket.follower import WalFollower
    from headrace.bucket.wal_object import WalObject

SMALL_MILESTONE: Final = 32
"""More than the numbers that a claim fills, and few enough for a run to delete what is below some of them."""
_WITH_MILESTONES: Final = (bucket_keys, following, writing, collecting)


@contextmanager
def small_milestones() -> Iterator[None]:
    """Have a milestone every 32 objects, so that short runs delete much."""
    with ExitStack() as stack:
        for module in _WITH_MILESTONES:
            stack.enter_context(mock.patch.object(module, "MILESTONE", SMALL_MILESTONE))
        yield


async def _claim_without_fence(follower: WalFollower, *, writer: bytes, **_rest: Any) -> Claim:
    await follower.catch_up()
    number, epoch, _ = follower.point
    return Claim(epoch + 1, writer, number + 1, number, serving.asyncio.get_running_loop().time())


async def _take_anything(self: WalFollower, found: WalObject) -> None:
    """Apply every object, whatever its epoch."""
    self._apply(found)
    epoch = max(found.epoch, self.point.epoch)
    self.point = following.Point(found.number, epoch, found.writer)


def _confirm_early(self: WalWriter, put: Any) -> None:
    """Tell of a put that others before it have not followed yet."""
    if put.position is not None:
        self._committed(put.position, put.number)
    _ARRIVED(self, put)


_ARRIVED: Final = WalWriter._arrived


def _tell_at_once(self: WalWriter, *args: Any) -> None:
    """Tell of an object when it is sent."""
    _BEGIN(self, *args)
    put = self._puts[-1]
    if put.kind is Kind.COMMIT:
        self._confirmed(put.number, put.data)


_BEGIN: Final = WalWriter._begin


async def _true(*_args: object) -> bool:
    return True


async def _nothing(*_args: object) -> None:
    return None


def _everything(snapshots: list[tuple[int, float]], _before: float) -> int | None:
    return max((number for number, _ in snapshots), default=None)


async def _collect_first(self: serving.Term, held: Any) -> None:
    """Delete what a snapshot is going to have before it is there."""
    server = self._server
    self._snapshots.append((held.number, server.world.loop.time() - server.world.history_s))
    await self._collect()
    await _SNAPSHOT(self, held)


_SNAPSHOT: Final = serving.Term._snapshot


def broken_by(*patches: AbstractContextManager[Any]) -> Callable[[], AbstractContextManager[None]]:
    """Return what enters all of some patches."""

    @contextmanager
    def broken() -> Iterator[None]:
        with ExitStack() as stack:
            for each in patches:
                stack.enter_context(each)
            yield

    return broken


MUTATIONS: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    "a claim without a fence": broken_by(mock.patch.object(serving, "claim", _claim_without_fence)),
    "a fence is deleted": broken_by(
        mock.patch.object(serving.Term, "_may_go", lambda _self, number: number % bucket_keys.MILESTONE != 0)
    ),
    "a milestone is deleted": broken_by(
        mock.patch.object(serving.Term, "_may_go", lambda self, number: number not in self._fences)
    ),
    "an acknowledgement does not wait for the puts before it": broken_by(
        mock.patch.object(WalWriter, "_arrived", _confirm_early)
    ),
    "a claim does not fill the numbers behind its fence": broken_by(
        mock.patch.object(claiming, "MOST_IN_FLIGHT", 2)
    ),
    "the clock is trusted: nobody proves that it is the owner": broken_by(
        mock.patch.object(serving.Term, "is_proven", True)
    ),
    "a number is used again": broken_by(mock.patch.object(Connection, "create", Connection.put)),
    "the next number is taken for free without a look at the milestone": broken_by(
        mock.patch.object(following.WalFollower, "_is_next_unused", _true),
        mock.patch.object(claiming._Claiming, "_check", _nothing),
    ),
    "the log is deleted before the snapshot is there": broken_by(
        mock.patch.object(serving.Term, "_snapshot", _collect_first)
    ),
    "the log is deleted without a grace": broken_by(mock.patch.object(serving, "collectable", _everything)),
    "servers that stand by are told of an object before it is in the bucket": broken_by(
        mock.patch.object(WalWriter, "_begin", _tell_at_once)
    ),
    "objects count whatever their epoch": broken_by(
        mock.patch.object(following.WalFollower, "take", _take_anything)
    ),
}
"""What is broken while the context is entered."""
