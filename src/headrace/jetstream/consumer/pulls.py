"""Requests that wait for messages of a pull consumer: their order, and what ends them.

Here live the queue and every status that a request can end with. Never here: reading the stream, or the rules
of priority groups (`priority_groups`). Source: JetStream specification, 5; nats-server 2.15 (consumer.go:
waitQueue, processNextMsgRequest, processWaiting, nextWaiting).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from headrace.jetstream.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.core.service import Host
    from headrace.jetstream.consumer.priority_groups import PriorityGroups
    from headrace.protocol.jetstream.configs import ConsumerConfig
    from headrace.protocol.jetstream.pulls import PullRequest
    from headrace.turns import Turns

_LAST: Final = (1 << 31) - 1
"""The priority of a request that says nothing about groups."""
_FULL_CHECK_NS: Final = 1_000_000_000
"""Nanoseconds between searches of a full queue for requests whose client has gone."""


class Waiting:
    """A request that waits: a `Receiver`. `room`: bytes that it still takes, 0: any."""

    __slots__ = (
        "delivered", "expires_ns", "group", "headers", "heartbeat_ns", "id", "inbox", "min_ack_pending",
        "min_pending", "missing", "next_heartbeat_ns", "no_wait", "priority", "received_ns", "room",
    )  # fmt: skip

    def __init__(self, inbox: bytes, request: PullRequest, now_ns: int) -> None:
        self.inbox = inbox
        self.headers = b""
        self.missing = request.batch
        self.delivered = 0
        self.room = request.max_bytes
        self.no_wait = request.no_wait
        self.expires_ns = now_ns + request.expires if request.expires else 0
        self.heartbeat_ns = max(request.idle_heartbeat, 0)
        self.next_heartbeat_ns = now_ns + self.heartbeat_ns if self.heartbeat_ns else 0
        self.received_ns = now_ns
        self.group = request.group
        self.min_pending = request.min_pending
        self.min_ack_pending = request.min_ack_pending
        self.id = request.id
        self.priority = request.priority if request.is_object else _LAST

    def left(self) -> bytes:
        """The headers that say what a request that ended did not get."""
        return b"Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n" % (self.missing, self.room)


class Pulls:
    """The requests of one consumer. `heartbeat(inbox)` sends an idle heartbeat; `due` looks at them again."""

    __slots__ = (
        "_alarm", "_checked_ns", "_groups", "_heartbeat", "_host", "_maximum", "_turns", "plain", "queue",
    )  # fmt: skip

    def __init__(
        self,
        turns: Turns,
        host: Host,
        config: ConsumerConfig,
        groups: PriorityGroups,
        *,
        heartbeat: Callable[[bytes], object],
        due: Callable[[], object],
    ) -> None:
        self._turns = turns
        self._host = host
        self._maximum = config.max_waiting
        self._groups = groups
        self._heartbeat = heartbeat
        self._alarm = Alarm(turns, due)
        self.queue: Final[deque[Waiting]] = deque()
        """The requests that wait, in the order in which they are served."""
        self._checked_ns = 0
        self.plain = True
        """True if every waiting request takes any message: none has a limit of bytes."""

    def __len__(self) -> int:
        return len(self.queue)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self.queue)

    def status(self, inbox: bytes, line: str, headers: bytes = b"") -> None:
        block = b"NATS/1.0 %s\r\n%s\r\n" % (line.encode(), headers)
        self._host.publish(inbox, b"", headers=block)

    def configure(self, config: ConsumerConfig) -> None:
        self._maximum = config.max_waiting

    # -- coming and going ------------------------------------------------------------------------------

    def add(self, waiting: Waiting) -> None:
        """Take its place in the queue; refused when that is full, silently if it expects heartbeats."""
        now = self._turns.now_ns()
        if len(self.queue) >= self._maximum and now - self._checked_ns > _FULL_CHECK_NS:
            self.process(end=False)
        if len(self.queue) >= self._maximum:
            if not waiting.heartbeat_ns:
                self.status(waiting.inbox, "409 Exceeded MaxWaiting")
            return
        if self._groups.is_prioritized:
            self._insert(waiting)
        else:
            self.queue.append(waiting)
        if waiting.room > 0:
            self.plain = False
        self._arm(waiting)

    def _insert(self, waiting: Waiting) -> None:
        """Insert a request behind all of the same or a lower number: the lowest number is served first."""
        place = len(self.queue)
        while place and self.queue[place - 1].priority > waiting.priority:
            place -= 1
        self.queue.insert(place, waiting)

    def _arm(self, waiting: Waiting) -> None:
        for due in (waiting.expires_ns, waiting.next_heartbeat_ns):
            if due:
                self._alarm.by(due)

    def release(self, line: str, *, told: bool = False) -> None:
        """Tell every waiting client, by a status line, why no message comes any more; with `told`, also how
        many are missing.
        """
        for waiting in self.queue:
            self.status(waiting.inbox, line, waiting.left() if told else b"")
        self.stop()

    def stop(self) -> None:
        self.queue.clear()
        self._alarm.cancel()
        self.plain = True

    def _remove_first(self) -> None:
        self.queue.popleft()
        if not self.queue:
            self.plain = True
            self._alarm.rest()

    # -- who is served ---------------------------------------------------------------------------------

    def only(self) -> Waiting | None:
        """The request that everything goes to for now; None when each message must find its own."""
        if not self.plain or self._groups.chooses or len(self.queue) != 1:
            return None
        first = self.queue[0]
        now = self._turns.now_ns()
        if (first.expires_ns and now > first.expires_ns) or self._host.backlog(first.inbox) is None:
            return None
        return first

    def took(self, first: Waiting, count: int, now_ns: int) -> None:
        """The first request got `count` messages; those that wait with it are served before it gets more."""
        first.delivered += count
        first.missing -= count
        if first.missing <= 0:
            self._remove_first()
            return
        if first.heartbeat_ns:
            first.next_heartbeat_ns = now_ns + first.heartbeat_ns
        if len(self.queue) > 1:
            self.queue.popleft()
            if self._groups.is_prioritized:
                self._insert(first)
            else:
                self.queue.append(first)

    def next(self, size: int, pending: int, ack_pending: int) -> Waiting | None:
        """The request that a message of `size` bytes goes to: the first, which is told of it by `took`.

        `pending`, `ack_pending`: messages to come with this one, and unacknowledged ones: what priority
        groups ask for. Requests that cannot be served any more are ended on the way.
        """
        now = self._turns.now_ns()
        cycled = 0
        while self.queue:
            first = self.queue[0]
            if first.expires_ns and now >= first.expires_ns:
                self.status(first.inbox, "408 Request Timeout", first.left())
                self._remove_first()
                continue
            verdict = self._groups.judge(first, pending, ack_pending)
            if verdict == self._groups.LATER:
                self.queue.rotate(-1)
                cycled += 1
                if cycled >= len(self.queue):
                    return None
                continue
            if verdict == self._groups.WRONG:
                self.status(first.inbox, "423 Nats-Wrong-Pin-Id", first.left())
                self._remove_first()
                continue
            if not self._takes(first, size):
                self.status(first.inbox, "409 Message Size Exceeds MaxBytes", first.left())
                if verdict == self._groups.PINNED:
                    self._groups.unpin()
                self._remove_first()
                continue
            if self._host.backlog(first.inbox) is not None:
                first.headers = self._groups.pin_header()
                return first
            self._remove_first()
        return None

    def _takes(self, waiting: Waiting, size: int) -> bool:
        if waiting.room <= 0:
            return True
        if size > waiting.room:
            return False
        waiting.room -= size
        if waiting.room == 0:
            waiting.missing = 1  # this one, and no more
        return True

    # -- time ------------------------------------------------------------------------------------------

    def process(self, *, end: bool) -> int:
        """End the requests that waited long enough or whose client is gone, send heartbeats; return the
        messages wanted.

        `end`: the stream has nothing more, so that who does not wait for more is told so.
        """
        self._checked_ns = now = self._turns.now_ns()
        wanted = due = 0
        kept: deque[Waiting] = deque()
        for waiting in self.queue:
            if waiting.expires_ns and now >= waiting.expires_ns:
                self.status(waiting.inbox, "408 Request Timeout", waiting.left())
                continue
            is_over = end or 0 < waiting.next_heartbeat_ns <= now  # then also where acknowledgements lack
            if is_over and waiting.no_wait and (not waiting.expires_ns or waiting.delivered):
                self.status(waiting.inbox, "404 No Messages")
                continue
            if self._host.backlog(waiting.inbox) is None:
                continue
            wanted += waiting.missing
            if waiting.next_heartbeat_ns:
                if now >= waiting.next_heartbeat_ns:
                    self._heartbeat(waiting.inbox)
                    waiting.next_heartbeat_ns = now + waiting.heartbeat_ns
                due = min(due or waiting.next_heartbeat_ns, waiting.next_heartbeat_ns)
            if waiting.expires_ns:
                due = min(due or waiting.expires_ns, waiting.expires_ns)
            kept.append(waiting)
        self.queue.clear()
        self.queue.extend(kept)
        if not kept:
            self.plain = True
            self._alarm.rest()
        elif due:
            self._alarm.by(due)
        return wanted
