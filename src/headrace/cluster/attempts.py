"""Attempts to reach a server again and again until it is there: what is the same for servers of all kinds.

Never lives here: whom to reach, and when that is given up (`soliciting`, `gateways`, `leafs`).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from headrace import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cluster.port import ClusterHost
    from headrace.conf.peer_options import PeerURL
    from headrace.core.service import Timer


class Attempts(ABC):
    """Attempts to reach one server.

    `attempts`: how many there were. `is_first`: the server was not reached before, so that less is logged.
    """

    def __init__(self, host: ClusterHost, *, is_first: bool) -> None:
        self.attempts = 0
        self._host: Final = host
        self._is_first = is_first
        self._is_done = False
        self._is_renewed = False
        self._retry_delay = limits.ROUTE_RETRY
        self._timer: Timer | None = None

    def start(self, delay: float = 0.0) -> None:
        """Begin after that many seconds."""
        if delay:
            self._later(delay)
        else:
            self._due()

    def stop(self) -> None:
        """Make no more attempts; one that is under way comes to nothing."""
        self._is_done = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def renew(self) -> None:
        """Make one more attempt when the one that is under way fails, since the server was heard of again.

        It may have begun too early: before the server was there, or while the network between was cut.
        """
        self._is_renewed = True

    @abstractmethod
    def _try(self) -> None:
        """Make the next attempt."""

    def _later(self, seconds: float) -> None:
        self._timer = self._host.call_later(seconds, self._due)

    def _due(self) -> None:
        self._timer = None
        self._is_renewed = False
        self._try()

    def _again(self, *, backs_off: bool) -> None:
        """Try again after the usual delay, which then is longer the next time if it `backs_off`."""
        self._later(self._retry_delay)
        if backs_off:
            self._retry_delay = min(2 * self._retry_delay, limits.ROUTE_RETRY_MOST)

    def _tell(self, level: int, text: str) -> None:
        """Log a line about this attempt, at that level of `logging` if it is one to report, else at debug."""
        is_told = self._host.reports(self.attempts, is_first=self._is_first)
        self._host.log(level if is_told else logging.DEBUG, text)


def shuffle(urls: list[PeerURL], random: Callable[[], float]) -> None:
    """Shuffle a list in place, so that the same random numbers give the same order."""
    for last in range(len(urls) - 1, 0, -1):
        other = int(random() * (last + 1))
        urls[last], urls[other] = urls[other], urls[last]
