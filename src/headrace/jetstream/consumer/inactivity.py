"""Removes consumers that nobody uses any more. Source: nats-server 2.15 (consumer.go: deleteNotActive).

A pull consumer is used when it is asked or acknowledged to, a push consumer while somebody listens.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from headrace.jetstream.alarm import Alarm
from headrace.jetstream.consumer.rules import DEFAULT_INACTIVE_THRESHOLD

if TYPE_CHECKING:
    from headrace.jetstream.consumer.port import ConsumerPort
    from headrace.protocol.jetstream.configs import ConsumerConfig

_LOOK_NS: Final = 1_000_000_000
"""Nanoseconds between checks whether somebody listens."""
_JITTER_MS: Final = 900


class Inactivity:
    def __init__(self, consumer: ConsumerPort) -> None:
        self._consumer = consumer
        self._alarm = Alarm(consumer.account.turns, self._look)
        self._threshold = 0
        self._is_used = False
        """True if somebody listened at the last check."""

    @staticmethod
    def is_watched(config: ConsumerConfig) -> bool:
        """True if a consumer with this configuration is removed when it is not used."""
        return not config.durable_name or config.inactive_threshold > 0

    def start(self) -> None:
        """With the threshold of the configuration; 0 is none."""
        config = self._consumer.config
        self._alarm.cancel()
        self._threshold = config.inactive_threshold
        is_usual = not config.durable_name and self._threshold <= 0
        if is_usual:
            self._threshold = DEFAULT_INACTIVE_THRESHOLD
        if self._threshold <= 0:
            return
        if is_usual or self._consumer.push is None:
            self._threshold += (100 + secrets.randbelow(_JITTER_MS)) * 1_000_000
        self._arm(self._consumer.now_ns() + self._threshold)

    def stop(self) -> None:
        self._alarm.cancel()

    def _arm(self, due: int) -> None:
        if self._consumer.push is not None:
            due = min(due, self._consumer.now_ns() + _LOOK_NS)
        self._alarm.at(due)

    def _look(self) -> None:
        consumer = self._consumer
        now = consumer.now_ns()
        if consumer.push is not None:
            listens = consumer.push.listens()
            if listens or self._is_used:  # the last one may have left just now
                consumer.tracker.active_ns = now
            self._is_used = listens
        due = consumer.tracker.active_ns + self._threshold
        if now >= due and consumer.pulls is not None:
            due = now + self._threshold if consumer.pulls.process(end=True) else self._last_ack_due()
        if now < due:
            self._arm(due)
        else:
            consumer.account.remove_consumer(consumer, "inactive")

    def _last_ack_due(self) -> int:
        """Until when a client may still be at work on what it was sent."""
        consumer = self._consumer
        tracker, redelivery = consumer.tracker, consumer.redelivery
        waits = (
            ns + redelivery.wait_for(sequence, tracker.redelivered.get(sequence, 0))
            for sequence, (_, ns) in tracker.pending.items()
        )
        return max(waits, default=0) + self._threshold
