"""The pace of a push consumer: interest in its subject, the window of flow control, rate, heartbeats.

Here lives what a deliver subject may be given now. Never here: which messages, or their acknowledgement.
Source: JetStream specification, 4; nats-server 2.15 (consumer.go: needFlowControl, processFlowControl).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.alarm import Alarm
from headrace.protocol.nuid import random_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Host
    from headrace.protocol.jetstream.configs import ConsumerConfig
    from headrace.turns import Turns

LARGEST_WINDOW: Final = 32 << 20
"""Bytes that may be under way to a client that confirms them; the window begins at a sixteenth of it."""
BACKLOG_MARK: Final = 4 << 20
"""Bytes waiting for a receiver past which nothing is added; it goes on when they were taken."""
_NS: Final = 1_000_000_000
_LOOK_NS: Final = 250_000_000
"""Nanoseconds between checks whether somebody listens (again) or has caught up, after a while."""
_FIRST_LOOK_NS: Final = 1_000_000
"""Of a consumer that is new or was just left: clients subscribe after they have made it."""
_BACKLOG_NS: Final = 5_000_000
_TOKEN_LENGTH: Final = 4  # of what a flow control reply ends with


class Push:
    """`heartbeat(subject, extra headers)` sends an idle heartbeat; `wake` has the consumer served."""

    def __init__(
        self,
        turns: Turns,
        host: Host,
        config: ConsumerConfig,
        name: str,
        *,
        heartbeat: Callable[[bytes, bytes], object],
        wake: Callable[[], object],
    ) -> None:
        self._turns = turns
        self._host = host
        self._heartbeat = heartbeat
        self._wake = wake
        self._flow_prefix = f"$JS.FC.{name}."
        self._look = Alarm(turns, wake)
        self._patience_ns = _FIRST_LOOK_NS
        self._idle = Alarm(turns, self._idled)
        self._last_ns = turns.now_ns()
        """The time at which something was last sent, for heartbeats."""
        self._window = LARGEST_WINDOW // 16 if config.flow_control else 0
        self._under_way = 0
        self._asked = 0
        """Bytes under way that the client confirms with its answer."""
        self.flow_reply = b""
        """The subject at which the answer to flow control is awaited; empty: none is."""
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        self.subject = config.deliver_subject.encode()
        self._group = config.deliver_group.encode()
        self._interval = config.idle_heartbeat
        if self._interval > 0:
            self._idle.by(self._turns.now_ns() + self._interval)

    def stop(self) -> None:
        self._look.cancel()
        self._idle.cancel()

    # -- who listens -----------------------------------------------------------------------------------

    def listens(self) -> bool:
        """True if anybody has subscribed to the deliver subject itself, in the deliver group if there is one.

        Who watches a wider subject gets what is sent, but is not who the consumer is for.
        """
        return self._host.listens(self.subject, self._group)

    def look_again(self) -> None:
        """There is something to send that cannot be sent now."""
        self._look.by(self._turns.now_ns() + self._patience_ns)
        self._patience_ns = min(2 * self._patience_ns, _LOOK_NS)

    def room(self) -> int:
        """Bytes that may be sent now; 0: it has been seen to that it goes on when there is room again."""
        backlog = self._host.backlog(self.subject)
        if backlog is None or not self.listens():
            self.look_again()
            return 0
        self._patience_ns = _FIRST_LOOK_NS
        if self._window:
            if self._under_way > self._window:
                return 0  # the answer to what was asked opens it
            mark = self._window // 2 if not self.flow_reply else self._window
            return max(mark - self._under_way, 0) + 1
        if backlog > BACKLOG_MARK:
            self._look.by(self._turns.now_ns() + _BACKLOG_NS)
            return 0
        return BACKLOG_MARK

    # -- flow control ----------------------------------------------------------------------------------

    def sent(self, size: int) -> None:
        """So many bytes went out."""
        self._last_ns = self._turns.now_ns()
        if not self._window:
            return
        self._under_way += size
        if self.flow_reply:
            if self._under_way - self._asked >= self._window:
                self._asked += size
        elif self._under_way > self._window // 2:
            self.ask()

    def ask(self) -> None:
        """Asks the client to confirm what it has been sent."""
        reply = self._flow_prefix + random_name(_TOKEN_LENGTH)
        self.flow_reply = reply.encode()
        self._asked = self._under_way
        self._host.publish(
            self.subject, b"", reply=self.flow_reply, headers=b"NATS/1.0 100 FlowControl Request\r\n\r\n"
        )

    def settle(self, *, pending: int) -> None:
        """With acknowledgements by flow control: ask for the missing ones when nothing more is sent."""
        if pending and not self.flow_reply:
            self.ask()

    def answered(self, subject: bytes) -> bool:
        """The client has confirmed; False when that is not what was asked last."""
        if not self.flow_reply or subject != self.flow_reply:
            return False
        self._window = min(2 * self._window, LARGEST_WINDOW)
        self._under_way = max(self._under_way - self._asked, 0)
        self._asked = 0
        self.flow_reply = b""
        self._wake()
        return True

    # -- heartbeats ------------------------------------------------------------------------------------

    def _idled(self) -> None:
        now = self._turns.now_ns()
        due = self._last_ns + self._interval
        if now < due:
            self._idle.by(due)
            return
        if self.listens():
            stalled = b"Nats-Consumer-Stalled: %s\r\n" % self.flow_reply if self.flow_reply else b""
            self._heartbeat(self.subject, stalled)
        self._last_ns = now
        self._idle.by(now + self._interval)


class Pace:
    """Between one message and the next: the rate limit, and the pauses of the original publication.

    `burst`: bytes that may go at once under the rate limit, the largest message.
    """

    def __init__(self, bits_per_second: int, burst: int, replay_up_to: int) -> None:
        self._rate = bits_per_second // 8
        self._burst = burst
        self._tokens = float(burst)
        self._filled_ns = 0
        self._replay_up_to = replay_up_to
        """The last sequence that is replayed with its pauses; 0: none is."""
        self._last_time_ns = 0
        self._sent_ns = 0

    @property
    def is_free(self) -> bool:
        """True if messages may be sent as they come."""
        return not self._rate and not self._replay_up_to

    def limit(self, bits_per_second: int) -> None:
        self._rate = bits_per_second // 8

    def wait_ns(self, sequence: int, time_ns: int, size: int, now_ns: int) -> int:
        """Return how many ns this message must still wait; 0: it may be sent now."""
        wait = 0
        if self._replay_up_to:
            if sequence > self._replay_up_to:
                self._replay_up_to = 0
            elif self._last_time_ns and time_ns - self._last_time_ns > 1_000_000:
                wait = self._sent_ns + time_ns - self._last_time_ns - now_ns
        if self._rate:
            self._fill(now_ns)
            lacking = min(size, self._burst) - self._tokens
            wait = max(wait, int(lacking * _NS / self._rate))
        return max(wait, 0)

    def sent(self, time_ns: int, size: int, now_ns: int) -> None:
        self._last_time_ns, self._sent_ns = time_ns, now_ns
        if self._rate:
            self._tokens -= size

    def _fill(self, now_ns: int) -> None:
        if self._filled_ns:
            self._tokens = min(self._tokens + (now_ns - self._filled_ns) * self._rate / _NS, self._burst)
        self._filled_ns = now_ns
