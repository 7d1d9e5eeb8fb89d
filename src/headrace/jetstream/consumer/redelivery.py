"""Redelivery of a consumer's messages: which are sent again and when, by waits, delays and a limit.

Here live the queue of what goes out before anything new and the alarm that fills it. Never here: sending,
reading the stream, or what an acknowledgement means. Source: nats-server 2.15 (consumer.go: checkPending,
getNextMsg).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jetstream.consumer.ack_state import AckState
    from headrace.protocol.jetstream.configs import ConsumerConfig
    from headrace.turns import Turns

SLACK_NS: Final = 1_000_000
"""Added to every wait, so that what expires together is looked at together."""
_SOON_NS: Final = 10_000_000
"""A delayed message is looked at no earlier, however short the delay."""
_CHANGED_NS: Final = 100_000_000
"""The time from a change of the waits to the next look."""
_NS_EACH: Final = 2_000
"""The least time to the next look for each pending message, while all of them must be looked at."""


class Redelivery:
    """The redeliveries of one consumer.

    `exhausted(sequence, deliveries, done)` is told of a message that was delivered as often as it may be.

    It calls `done` when the message may be forgotten; deliveries 0: it was told already.
    """

    def __init__(
        self,
        turns: Turns,
        state: AckState,
        config: ConsumerConfig,
        wake: Callable[[], object],
        exhausted: Callable[[int, int, Callable[[], object]], object],
    ) -> None:
        self._turns = turns
        self._state = state
        self._wake = wake
        self._exhausted = exhausted
        self.alarm = Alarm(turns, self._check)
        self._odd: set[int] = set()
        """Pending messages whose time is not that of their last delivery: they stand anywhere."""
        self.queue: dict[int, None] = {}
        self.leaving: set[int] = set()
        """Pending messages that are given up, and not to be sent again, while their copy is made safe."""
        state.waits_again = (self.queue, self._odd, self.leaving)
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        self._ack_wait = config.ack_wait
        self._backoff = config.backoff
        self._most = max(config.max_deliver, 0)

    def stop(self) -> None:
        self.alarm.cancel()

    def clear(self) -> None:
        """Forget all redeliveries: no message is pending any more."""
        self.alarm.cancel()
        self.queue.clear()
        self.leaving.clear()
        self._odd.clear()

    # -- waiting for acknowledgements ------------------------------------------------------------------

    def wait_for(self, sequence: int, redeliveries: int) -> int:
        """ns until an unacknowledged message is sent again."""
        if self._backoff:
            return self._backoff[min(redeliveries, len(self._backoff) - 1)]
        return self._ack_wait

    def sent(self, sequence: int, now_ns: int) -> None:
        """Note that a message was sent, the last of what went out: it may have to go out again."""
        self._odd.discard(sequence)
        wait = self.wait_for(sequence, self._state.redelivered.get(sequence, 0))
        if wait:
            self.alarm.by(now_ns + wait + SLACK_NS)

    def delay(self, sequence: int, delay_ns: int, now_ns: int) -> None:
        """A pending message is to be sent again in `delay_ns`, which may be long after its time."""
        self.queue.pop(sequence, None)
        self._state.renew(sequence, now_ns - self._ack_wait + delay_ns, last=False)
        self._odd.add(sequence)
        self.alarm.by(now_ns + max(delay_ns, _SOON_NS))

    def progress(self, sequence: int, now_ns: int) -> None:
        self._state.renew(sequence, now_ns)
        self._odd.discard(sequence)

    def again(self, sequence: int) -> None:
        """Send a message again at once."""
        if sequence not in self.leaving:
            self.queue.setdefault(sequence)
            self._wake()

    def forget(self, sequence: int) -> None:
        self.queue.pop(sequence, None)
        self.leaving.discard(sequence)
        self._odd.discard(sequence)

    def leave(self, sequence: int) -> None:
        """A pending message is given up, but must not be forgotten yet."""
        self.queue.pop(sequence, None)
        self.leaving.add(sequence)

    def forget_all(self, sequences: list[int]) -> None:
        if self.queue or self._odd or self.leaving:
            for sequence in sequences:
                self.forget(sequence)

    def expire_all(self) -> None:
        """Send every pending message again at once, in the order of the stream."""
        now = self._turns.now_ns()
        for sequence in sorted(self._state.pending):
            if sequence not in self.queue and not self._is_exhausted(sequence):
                self.queue[sequence] = None
                self._state.renew(sequence, now)
        self._odd.clear()
        if self._ack_wait:
            self.alarm.by(now + self._ack_wait + SLACK_NS)
        self._wake()

    def rearm(self) -> None:
        """Look soon, since the waits have changed."""
        if self._state.pending:
            self.alarm.at(self._turns.now_ns() + _CHANGED_NS)

    def restored(self) -> None:
        """The pending messages were read back: they stand in no order that could be relied on."""
        self._odd.update(self._state.pending)
        if self._odd:
            self.alarm.at(self._turns.now_ns() + SLACK_NS)

    # -- the alarm -------------------------------------------------------------------------------------

    def _check(self) -> None:
        state, now = self._state, self._turns.now_ns()
        if not state.pending:
            self.clear()
            return
        if not self._ack_wait:
            return
        if self._odd or self._backoff:
            expired, due = self._look_at_all(now)
            due = max(due, now + _NS_EACH * len(state.pending))
        else:
            expired, due = self._look_in_order(now)
        for sequence in sorted(expired):
            if sequence in self.queue or self._is_exhausted(sequence):
                continue
            self.queue[sequence] = None
            state.renew(sequence, now, noted=False)
            self._odd.discard(sequence)
        if state.pending:
            self.alarm.by(due + SLACK_NS)
        else:
            self.clear()
        if expired:
            self._wake()

    def _look_in_order(self, now: int) -> tuple[list[int], int]:
        """Return the expired messages and the time of the next expiry; messages expire in order."""
        expired: list[int] = []
        for sequence, (_, ns) in self._state.pending.items():
            if now - ns < self._ack_wait:
                return expired, ns + self._ack_wait
            expired.append(sequence)
        return expired, now + self._ack_wait

    def _look_at_all(self, now: int) -> tuple[list[int], int]:
        expired = []
        due = now + max((*self._backoff, self._ack_wait))
        counts = self._state.redelivered
        for sequence, (_, ns) in self._state.pending.items():
            wait = self.wait_for(sequence, counts.get(sequence, 0))
            if now - ns >= wait:
                expired.append(sequence)
            elif ns + wait < due:
                due = ns + wait
        if self._backoff:  # what goes out again may have to wait less than anything that is pending now
            due = min(due, now + min(self._backoff[1:], default=due))
        return expired, due

    def _is_exhausted(self, sequence: int) -> bool:
        """True if an unacknowledged message was sent as often as allowed; then it is given up."""
        if sequence in self.leaving:
            return True
        deliveries = max(self._state.redelivered.get(sequence, 0), 1)
        if not self._most or deliveries < self._most:
            return False
        self._give_up(sequence, deliveries, told=deliveries == self._most)
        return True

    def _give_up(self, sequence: int, deliveries: int, *, told: bool) -> None:
        self.forget(sequence)
        self._state.count(sequence, deliveries)
        if sequence in self._state.pending:
            self._state.delivered_ns = self._turns.now_ns()
            self._exhausted(sequence, deliveries if told else 0, lambda: self._given_up(sequence))
        self._wake()

    def _given_up(self, sequence: int) -> None:
        self.leaving.discard(sequence)
        self._state.forget(sequence, shown=False)
        self._wake()

    # -- the queue -------------------------------------------------------------------------------------

    def take(self) -> tuple[int, int] | None:
        """The next message to be sent again and its deliveries with this one; None: there is none."""
        while self.queue:
            sequence = next(iter(self.queue))
            del self.queue[sequence]
            deliveries = self._state.redelivered.get(sequence, 0) + 2
            if self._most and deliveries > self._most:
                self._give_up(sequence, deliveries - 1, told=deliveries == self._most + 1)
                continue
            return sequence, deliveries
        return None

    def put_back(self, sequence: int) -> None:
        """Put a message back whose redelivery could not be sent."""
        self.queue[sequence] = None
