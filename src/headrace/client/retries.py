"""Trying again while a server is away: how long to pause between attempts, and when to give up."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.errors import ClientError


class Backoff:
    """The pauses between attempts, in seconds: each twice the one before, from `first` to `longest`.

    `jitter`: the part of a pause that is drawn, so that clients which lost one server do not all come back at
    once.
    """

    def __init__(self, first: float = 0.05, longest: float = 1.0, *, jitter: float = 0.0) -> None:
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self.reset()

    def reset(self) -> None:
        """Begin with the first pause again: an attempt went well."""
        self._next = self._first

    def next(self) -> float:
        """Return the next pause."""
        pause = self._next
        self._next = min(pause * 2, self._longest)
        return pause * random.uniform(1 - self._jitter, 1)


class Patience:
    """An outage, from the first failure to the next success: how long it is, and whether to try once more."""

    def __init__(
        self,
        limit: float,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """Wait in pauses until a limit. `limit` is in seconds."""
        self.limit = limit
        self.clock = clock
        self._pause = pause
        self._backoff = Backoff()
        self._since: float | None = None

    @property
    def is_tried(self) -> bool:
        """True from the first failure to the next success."""
        return self._since is not None

    def over(self) -> None:
        """Note a success: the outage is over."""
        self._since = None
        self._backoff.reset()

    def wait(self, error: ClientError) -> None:
        """Pause before the next try. Raises: `error` once this has gone on for `limit`."""
        now = self.clock()
        if self._since is None:
            self._since = now
        left = self._since + self.limit - now
        if left <= 0:
            raise error
        self._pause(min(self._backoff.next(), left))
