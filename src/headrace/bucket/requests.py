"""Requests to a bucket: time limits, retries within a budget, counts.

The store below makes each request once. An answer (it is there, it is not there, you may not) is passed on
at once; anything else is tried again, after a pause that doubles and is drawn anew each time (full jitter),
until the budget of the request's kind is used up. Time is the running loop's, chance is given.

A create whose answer was lost is found out about by a look at the object: see `BucketRequests.create`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from headrace.bucket.request_counts import RequestCounts
from headrace.objects.errors import (
    AccessRefused,
    KeyExists,
    KeyMissing,
    RequestRefused,
    StoreBusy,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from headrace.bucket.request_counts import RequestOutcome
    from headrace.bucket.status import RequestKind
    from headrace.objects.port import AsyncObjectStore, Bytes, Listing, ObjectInfo

    T = TypeVar("T")


class RequestLimits(Struct, frozen=True):
    """The time limits of a kind of request, in seconds. A body adds what it takes at SLOWEST to both."""

    attempt_s: float
    """The limit of one attempt; then it is given up, though it may still have its effect."""
    total_s: float
    """The limit of all attempts and the pauses between them; then the last error is raised."""


LIMITS: Final[Mapping[RequestKind, RequestLimits]] = {
    "create": RequestLimits(3.0, 30.0),
    "put": RequestLimits(3.0, 30.0),
    "get": RequestLimits(5.0, 30.0),
    "head": RequestLimits(2.0, 6.0),
    "list": RequestLimits(30.0, 90.0),
    "delete": RequestLimits(10.0, 30.0),
}
SLOWEST: Final = 4 << 20
"""Bytes a second that a body may take."""
WHOLE_OBJECT: Final = 16 << 20
"""Bytes that an object of unknown size may have, for the time limit of its get; by range there is none."""
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 2.0
FIRST_BUSY_PAUSE_S: Final = 0.25
"""The first pause after the store asked for fewer requests; the pauses up to it are drawn from all of it."""
LONGEST_BUSY_PAUSE_S: Final = 8.0
PAGE: Final = 1000
"""Keys that a store lists in one answer."""

_ANSWERS: Final[Mapping[type[StoreError], RequestOutcome]] = {
    KeyExists: "exists",
    KeyMissing: "missing",
    AccessRefused: "refused",
    RequestRefused: "refused",
}
"""Errors that another attempt does not change."""


class BucketRequests:
    """A store (`headrace.objects.port.AsyncObjectStore`) over one that makes each request once.

    `random` returns numbers in [0, 1). Made on the running loop.
    """

    def __init__(
        self,
        store: AsyncObjectStore,
        random: Callable[[], float],
        limits: Mapping[RequestKind, RequestLimits] = LIMITS,
    ) -> None:
        self._store = store
        self._random = random
        self._limits = limits
        self.counts = RequestCounts(asyncio.get_running_loop().time())

    @property
    def location(self) -> str:
        return self._store.location

    async def get(self, key: str) -> bytes:
        return await self._asked("get", lambda: self._store.get(key), received=len, body=WHOLE_OBJECT)

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        return await self._asked(
            "get",
            lambda: self._store.get_range(key, start, end),
            received=len,
            body=max(end - start, 0),
        )

    async def head(self, key: str) -> ObjectInfo:
        return await self._asked("head", lambda: self._store.head(key))

    async def put(self, key: str, data: Bytes | Path) -> None:
        size = _size(data)
        await self._asked("put", lambda: self._store.put(key, data), body=size, sent=size)

    async def create(self, key: str, data: Bytes | Path) -> None:
        """Create an object; raise KeyExists where another one had the key before.

        When an attempt failed and the next one finds the key taken, the object is read: with these very bytes
        the create has succeeded. So whoever creates a key to be the only one writes something of its own into
        the object. A file is not compared: KeyExists then.
        """
        size = _size(data)
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            await self._store.create(key, data)

        try:
            await self._asked("create", attempt, body=size, sent=size)
        except KeyExists:
            if attempts == 1 or not isinstance(data, (bytes, bytearray, memoryview)):
                raise
            if await self._found(key) != data:
                raise

    async def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[ObjectInfo]:
        """Yield the objects below a folder; all are asked for before the first is given."""

        async def attempt() -> list[ObjectInfo]:
            return [found async for found in self._store.list(prefix, after=after)]

        for found in await self._asked("list", attempt, pages=len):
            yield found

    async def list_folder(self, folder: str = "") -> Listing:
        return await self._asked(
            "list",
            lambda: self._store.list_folder(folder),
            pages=lambda found: len(found.objects) + len(found.folders),
        )

    async def delete(self, keys: Sequence[str]) -> None:
        if keys:
            await self._asked("delete", lambda: self._store.delete(keys))

    async def _found(self, key: str) -> bytes:
        try:
            return await self.get(key)
        except KeyMissing as error:
            raise StoreError(f"cannot write {self.location}/{key}: it was there, and is gone") from error

    async def _asked(
        self,
        kind: RequestKind,
        request: Callable[[], Awaitable[T]],
        *,
        body: int = 0,
        sent: int = 0,
        received: Callable[[T], int] = lambda _answer: 0,
        pages: Callable[[T], int] = lambda _answer: 0,
    ) -> T:
        """Return the answer to a request that is made until there is one.

        `body`: the bytes that it may carry; `received` and `pages` give bytes and keys of the answer.
        Raises: StoreError.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limits[kind].total_s + body / SLOWEST
        attempts = 0
        while True:
            try:
                answer, seconds = await self._attempt(kind, request, body)
            except tuple(_ANSWERS):
                raise
            except StoreError as error:
                pause = self._pause(attempts, isinstance(error, StoreBusy))
                if loop.time() + pause >= end:
                    raise
            else:
                self.counts.count(
                    kind,
                    "ok",
                    loop.time(),
                    seconds,
                    sent=sent,
                    received=received(answer),
                    requests=max(-(-pages(answer) // PAGE), 1),
                )
                return answer
            attempts += 1
            self.counts.count_retry(kind)
            await asyncio.sleep(pause)

    async def _attempt(
        self, kind: RequestKind, request: Callable[[], Awaitable[T]], body: int
    ) -> tuple[T, float]:
        """Return an answer and its latency in seconds; count the attempt where there is none."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        limit = self._limits[kind].attempt_s + body / SLOWEST
        outcome: RequestOutcome = "cancelled"
        try:
            async with asyncio.timeout(limit):
                answer = await request()
            outcome = "ok"
        except TimeoutError as error:
            outcome = "timeout"
            raise StoreError(f"{self.location}: no answer to a {kind} within {limit:.1f} s") from error
        except StoreError as error:
            outcome = outcome_of(error)
            raise
        finally:
            if outcome != "ok":
                self.counts.count(kind, outcome, loop.time(), loop.time() - began)
        return answer, loop.time() - began

    def _pause(self, attempts: int, is_busy: bool) -> float:
        first, most = (
            (FIRST_BUSY_PAUSE_S, LONGEST_BUSY_PAUSE_S) if is_busy else (FIRST_PAUSE_S, LONGEST_PAUSE_S)
        )
        return self._random() * min(first * 2.0 ** min(attempts, 30), most)


def outcome_of(error: StoreError) -> RequestOutcome:
    """Return what a request counts as that ended with an error."""
    if isinstance(error, StoreBusy):
        return "throttled"
    return _ANSWERS.get(type(error), "failed")


def _size(data: Bytes | Path) -> int:
    if isinstance(data, (bytes, bytearray)):
        return len(data)
    return data.nbytes if isinstance(data, memoryview) else data.stat().st_size
