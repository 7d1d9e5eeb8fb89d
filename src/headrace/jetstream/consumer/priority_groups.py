"""Priority groups: which of the requests that wait may have the next message.

Here live the three policies and the client that is pinned. Never here: the queue (`pulls`) or a message.
Source: nats-server 2.15 (consumer.go: nextWaiting, setPinnedTimer); ADR-42 of NATS.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.jetstream.alarm import Alarm
from headrace.protocol.jetstream.configs import PriorityPolicy
from headrace.protocol.jetstream.times import ZERO
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jetstream.consumer.pulls import Waiting
    from headrace.protocol.jetstream.configs import ConsumerConfig
    from headrace.protocol.jetstream.pulls import PullRequest
    from headrace.turns import Turns

_LOWEST_PRIORITY: Final = 9


class Verdict(Enum):
    """The judgement about a request that waits, by its priority group."""

    SERVE = 0
    PINNED = 1
    """Served, and pinned with this."""
    LATER = 2
    WRONG = 3
    """The client believes to be pinned and is not."""


class PriorityGroups:
    """The priority groups of a pull consumer: which of the requests that wait is served.

    `new_id` makes ids of pinned clients; `pinned(group, id)`, `unpinned(group, reason)` hear of them.
    """

    __slots__ = (
        "_alarm", "_groups", "_last_ns", "_new_id", "_pinned", "_policy", "_timeout", "_turns", "_unpinned",
        "chooses", "is_pinned", "is_prioritized", "pin", "pinned_ns",
    )  # fmt: skip
    SERVE, PINNED, LATER, WRONG = Verdict.SERVE, Verdict.PINNED, Verdict.LATER, Verdict.WRONG

    def __init__(
        self,
        turns: Turns,
        config: ConsumerConfig,
        new_id: Callable[[], str],
        pinned: Callable[[str, str], object],
        unpinned: Callable[[str, str], object],
    ) -> None:
        self._turns = turns
        self._new_id = new_id
        self._pinned = pinned
        self._unpinned = unpinned
        self._alarm = Alarm(turns, self._timed_out)
        self._last_ns = 0
        """The time at which the pinned client was last heard."""
        self.pin = ""
        self.pinned_ns = 0
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        self._policy = config.priority_policy
        self._groups = config.priority_groups
        self._timeout = config.priority_timeout
        self.chooses = self._policy in (PriorityPolicy.OVERFLOW, PriorityPolicy.PINNED_CLIENT)
        """True if a request may have to wait although it is the first."""
        self.is_prioritized = self._policy is PriorityPolicy.PRIORITIZED
        self.is_pinned = self._policy is PriorityPolicy.PINNED_CLIENT

    def stop(self) -> None:
        self._alarm.cancel()

    def refusal(self, request: PullRequest) -> str:
        """The status that a request is refused with at once; empty: it may wait."""
        policy = self._policy
        if (request.min_pending or request.min_ack_pending) and policy is not PriorityPolicy.OVERFLOW:
            return "400 Bad Request - Not a Overflow Priority consumer"
        if request.id and not self.is_pinned:
            return "400 Bad Request - Not a Pinned Client Priority consumer"
        if not 0 <= request.priority <= _LOWEST_PRIORITY:
            return "400 Bad Request - Priority must be between 0 and 9"
        if policy is PriorityPolicy.NONE or not request.is_object:
            return ""
        return self._group_refusal(request)

    def _group_refusal(self, request: PullRequest) -> str:
        if not request.group:
            return "400 Bad Request - Priority Group missing"
        if request.group not in self._groups:
            return "400 Bad Request - Invalid Priority Group"
        if self.pin and request.id == self.pin:
            self._heard()
        elif self.pin and request.id:
            return "423 Nats-Pin-Id mismatch"
        return ""

    def judge(self, waiting: Waiting, pending: int, ack_pending: int) -> Verdict:
        if self.is_pinned:
            return self._judge_pin(waiting)
        if self._policy is PriorityPolicy.OVERFLOW and (
            waiting.min_pending > 0 or waiting.min_ack_pending > 0
        ):
            enough = 0 < waiting.min_pending <= pending or 0 < waiting.min_ack_pending <= ack_pending
            return Verdict.SERVE if enough else Verdict.LATER
        return Verdict.SERVE

    def _judge_pin(self, waiting: Waiting) -> Verdict:
        if not self.pin:
            if waiting.id:
                return Verdict.WRONG
            if waiting.group:
                self._assign(waiting)
            return Verdict.PINNED
        if waiting.id == self.pin:
            return Verdict.SERVE
        return Verdict.WRONG if waiting.id else Verdict.LATER

    def _assign(self, waiting: Waiting) -> None:
        self.pin = waiting.id = self._new_id()
        self.pinned_ns = self._turns.now_ns()
        self._heard()
        self._pinned(waiting.group, self.pin)

    def _heard(self) -> None:
        self._last_ns = self._turns.now_ns()
        self._alarm.by(self._last_ns + self._timeout)

    def _timed_out(self) -> None:
        if not self.pin:
            return
        due = self._last_ns + self._timeout
        if self._turns.now_ns() < due:
            self._alarm.by(due)
            return
        self.unpin()
        self._unpinned(self._groups[0] if self._groups else "", "timeout")

    def unpin(self) -> None:
        self.pin = ""
        self.pinned_ns = 0
        self._alarm.cancel()

    # -- what clients see ------------------------------------------------------------------------------

    def pin_header(self) -> bytes:
        """The header of a message that tells a client that it is the pinned one; empty where none is."""
        return f"Nats-Pin-Id: {self.pin}\r\n".encode() if self.is_pinned else b""

    def info(self) -> list[dict[str, object]]:
        """Return the field `priority_groups` of ConsumerInfo.

        `priority_groups` of the ConsumerInfo; empty when the consumer has none.
        """
        if not self._groups:
            return []
        group: dict[str, object] = {"group": self._groups[0]}
        if self.pin:
            group["pinned_client_id"] = self.pin
        group["pinned_ts"] = short_time(self.pinned_ns) if self.pinned_ns else ZERO
        return [group]
