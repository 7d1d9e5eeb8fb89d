"""An object store that several processes reach over a bad network. It keeps the rules of
`headrace.objects.port`, and no more.

A request that left its process goes its way whatever becomes of the process: it may have its effect when its
caller was told long ago that it failed. Listings may be minutes old.
"""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from harness.object_operations import ObjectOperations
from headrace.objects.errors import AccessRefused, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from harness.object_operations import Objects

T = TypeVar("T")

NOBODY: Final = contextvars.Context()
"""The context of what belongs to no process."""
START_NS: Final = 1_700_000_000 * 10**9
"""What the store's clock shows when the loop's shows 0."""
GIVES_UP_S: Final = 5.0
"""Seconds after which the client of a store stops waiting for an answer."""
REFUSED_S: Final = 0.01
"""Seconds until a request is refused by a network that is not there."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the store and the way to it are: shares of all requests."""

    delay_s: float = 0.01
    """Seconds of a usual request, there and back."""
    slow: float = 0.0
    """Requests that take 0.1 to 3 s."""
    failing: float = 0.0
    """Requests that fail and have no effect."""
    unanswered: float = 0.0
    """Requests that have their effect, and whose caller is told that they failed."""
    belated: float = 0.0
    """Requests that have their effect up to minutes after their caller was told that they failed."""
    stale: float = 0.0
    """Listings that are up to minutes old."""


class Bucket:
    """The objects, and everything that ever happened to them.

    `watch`: told of each change, before it is answered: the key, and its bytes or None.
    """

    def __init__(self, chance: Random, weather: Weather, now: Callable[[], float]) -> None:
        self.now: Final = now
        """The loop's time."""
        self.chance: Final = chance
        self.weather: Final = weather
        self.objects: Final[dict[str, tuple[bytes, int]]] = {}
        """The bytes and the time (ns) of each object."""
        self.is_away = False
        self.is_refusing = False
        """True: the credentials are not accepted."""
        self.requests = 0
        self.watch: Callable[[str, bytes | None], None] = lambda _key, _data: None
        self._past: list[tuple[float, str, tuple[bytes, int] | None]] = []
        """Of each change: when, of which key, and what was there before."""

    def keep(self, key: str, data: bytes) -> None:
        now = self.now()
        self._past.append((now, key, self.objects.get(key)))
        self.objects[key] = data, START_NS + int(now * 1e9)
        self.watch(key, data)

    def remove(self, key: str) -> None:
        if key in self.objects:
            self._past.append((self.now(), key, self.objects.pop(key)))
            self.watch(key, None)

    def as_of(self, time: float) -> dict[str, tuple[bytes, int]]:
        """Return the objects as they were."""
        view = dict(self.objects)
        for when, key, before in reversed(self._past):
            if when <= time:
                break
            if before is None:
                view.pop(key, None)
            else:
                view[key] = before
        return view


class Connection(ObjectOperations):
    """The store as one process sees it (`headrace.objects.port.AsyncObjectStore`)."""

    location = "simulated"

    def __init__(self, bucket: Bucket) -> None:
        self.is_cut = False
        """True: nothing reaches the store from here, and no answer comes back."""
        self._bucket: Final = bucket

    def _objects(self) -> Objects:
        return self._bucket.objects

    def _keep(self, key: str, content: bytes) -> None:
        self._bucket.keep(key, content)

    def _remove(self, key: str) -> None:
        self._bucket.remove(key)

    def _shown(self) -> Objects:
        bucket = self._bucket
        if bucket.chance.random() < bucket.weather.stale:
            age = bucket.chance.choice((0.1, 2, 20, 200))
            return bucket.as_of(bucket.now() - bucket.chance.uniform(0, age))
        return bucket.objects

    async def _request(self, operation: str, key: str, effect: Callable[[], T]) -> T:
        self._bucket.requests += 1
        request = _Request(self, self._bucket, f"{operation} {key}", effect)
        request.depart()
        return await request.end()


class _Request:
    """A request on its way. What it does belongs to no process."""

    def __init__(self, sender: Connection, bucket: Bucket, what: str, effect: Callable[[], Any]) -> None:
        self._sender: Final = sender
        self._bucket: Final = bucket
        self._what: Final = what
        self._effect: Final = effect
        self._loop: Final = asyncio.get_running_loop()
        self._answer: Final[asyncio.Future[Any]] = self._loop.create_future()

    async def end(self) -> Any:
        """Wait for the answer as long as the client of a store does. Raises: StoreError."""
        late = StoreError(f"{self._what}: no answer")
        timer = self._loop.call_later(GIVES_UP_S, self._fail, late, context=NOBODY)
        try:
            return await self._answer
        finally:
            timer.cancel()

    def depart(self) -> None:
        """Draw what becomes of it."""
        chance, weather = self._bucket.chance, self._bucket.weather
        there, back = weather.delay_s * (0.3 + chance.expovariate(3)), weather.delay_s * 0.3
        if self._sender.is_cut:
            self._later(REFUSED_S, self._fail_perhaps, "the store cannot be reached")
            return
        drawn = chance.random()
        if drawn < weather.failing:
            self._later(there, self._fail, StoreError(f"{self._what}: 503 Slow Down"))
            return
        drawn -= weather.failing
        if drawn < weather.unanswered:
            self._later(there, self._arrive, None)
            self._later(there, self._fail_perhaps, "no answer")
            return
        drawn -= weather.unanswered
        if drawn < weather.belated:
            there = chance.choice((6, 20, 200)) * chance.random()
        elif drawn - weather.belated < weather.slow:
            there = chance.uniform(0.1, 3)
        self._later(there, self._arrive, back)

    def _arrive(self, back: float | None) -> None:
        """Act in the store. `back`: seconds until the caller has the answer, None: it is lost."""
        if self._bucket.is_away:
            return
        outcome: object = None
        error: StoreError | None = None
        try:
            if self._bucket.is_refusing:
                raise AccessRefused(f"{self._what}: the credentials are not accepted")
            outcome = self._effect()
        except StoreError as found:
            error = found
        if back is not None:
            self._later(back, self._leave, outcome, error)

    def _leave(self, outcome: object, error: StoreError | None) -> None:
        if self._sender.is_cut:
            return
        if error is not None:
            self._fail(error)
        elif not self._answer.done():
            self._answer.set_result(outcome)

    def _fail_perhaps(self, reason: str) -> None:
        """Say so at once, or leave the caller to its patience."""
        if self._bucket.chance.random() < 0.5:
            self._fail(StoreError(f"{self._what}: {reason}"))

    def _fail(self, error: StoreError) -> None:
        if not self._answer.done():  # the caller may have gone
            self._answer.set_exception(error)

    def _later(self, seconds: float, function: Callable[..., None], *args: object) -> None:
        self._loop.call_later(seconds, function, *args, context=NOBODY)
