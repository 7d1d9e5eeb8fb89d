"""Removes consumers that nobody uses any more. Source: nats-server 2.15 (consumer.go: deleteNotActive).

A pull consumer is used when it is asked or acknowledged to, a push consumer while somebody listens.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from headrace.jetstream.alarm import Alarm
from headrace.jetstream.consumer.rules import DEFAULT_INACTIVE_THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jetstream.consumer.port import ConsumerPort
    from headrace.jetstream.consumer.pulls import Pulls
    from headrace.protocol.jetstream.configs import ConsumerConfig

_LOOK_NS: Final = 1_000_000_000
"""Nanoseconds between checks whether somebody listens."""
_JITTER_MS: Final = 900


class Inactivity(ABC):
    """The end of a consumer that is not used for as long as its threshold says."""

    _always_jitters: bool
    """True if also a threshold that was configured is made longer at random, so that not all end at once."""

    def __init__(self, consumer: ConsumerPort) -> None:
        self._consumer = consumer
        self._alarm = Alarm(consumer.account.turns, self._look)
        self._threshold = 0

    @staticmethod
    def is_watched(config: ConsumerConfig) -> bool:
        """True if a consumer with this configuration is removed when it is not used."""
        return not config.durable_name or config.inactive_threshold > 0

    def start(self) -> None:
        """Begin to watch the consumer, with the threshold of its configuration; 0: there is none."""
        config = self._consumer.config
        self._alarm.cancel()
        self._threshold = config.inactive_threshold
        is_usual = not config.durable_name and self._threshold <= 0
        if is_usual:
            self._threshold = DEFAULT_INACTIVE_THRESHOLD
        if self._threshold <= 0:
            return
        if is_usual or self._always_jitters:
            self._threshold += (100 + secrets.randbelow(_JITTER_MS)) * 1_000_000
        now = self._consumer.now_ns()
        self._alarm.at(self._next_look(now, now + self._threshold))

    def stop(self) -> None:
        self._alarm.cancel()

    def _look(self) -> None:
        consumer = self._consumer
        now = consumer.now_ns()
        due = self._unused_from(now)
        if now < due:
            self._alarm.at(self._next_look(now, due))
        else:
            consumer.account.remove_consumer(consumer, "inactive")

    @abstractmethod
    def _unused_from(self, now: int) -> int:
        """The time from which on the consumer counts as not used, unless something happens before."""

    def _next_look(self, _now: int, due: int) -> int:
        return due


class PullInactivity(Inactivity):
    """The watch over a pull consumer without requests."""

    _always_jitters = True

    def __init__(self, consumer: ConsumerPort, pulls: Pulls) -> None:
        super().__init__(consumer)
        self._pulls = pulls

    def _unused_from(self, now: int) -> int:
        due = self._consumer.tracker.active_ns + self._threshold
        if now < due:
            return due
        return now + self._threshold if self._pulls.process(end=True) else self._last_ack_due()

    def _last_ack_due(self) -> int:
        """Return the time until which a client may still be at work on what it was sent."""
        tracker, redelivery = self._consumer.tracker, self._consumer.redelivery
        waits = (
            ns + redelivery.wait_for(sequence, tracker.redelivered.get(sequence, 0))
            for sequence, (_, ns) in tracker.pending.items()
        )
        return max(waits, default=0) + self._threshold


class PushInactivity(Inactivity):
    """The watch over a push consumer that nobody listens to.

    `listens` says whether a client has subscribed.
    """

    _always_jitters = False

    def __init__(self, consumer: ConsumerPort, listens: Callable[[], bool]) -> None:
        super().__init__(consumer)
        self._listens = listens
        self._is_used = False
        """True if somebody listened at the last check."""

    def _unused_from(self, now: int) -> int:
        tracker = self._consumer.tracker
        listens = self._listens()
        if listens or self._is_used:  # the last one may have left just now
            tracker.active_ns = now
        self._is_used = listens
        return tracker.active_ns + self._threshold

    def _next_look(self, now: int, due: int) -> int:
        return min(due, now + _LOOK_NS)
