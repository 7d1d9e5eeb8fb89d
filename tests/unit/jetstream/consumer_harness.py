"""A stream and an account around one consumer, with a clock that a test moves and clients that it plays.

`Desk` is everything: the wire on which deliveries are seen, the journal, the stream over a log in memory.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import re
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.core.service import Delivery
from headrace.engine.batches import Gathered, Outgoing
from headrace.engine.consumer import ConsumerDeltas
from headrace.engine.jetstream import Publications, sort_acks
from headrace.jetstream.consumer.ack_state import ConsumerState
from headrace.jetstream.consumer.consumer import Consumer
from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage
from headrace.protocol.jetstream.configs import AckPolicy, ConsumerConfig, RetentionPolicy, StreamConfig
from headrace.subjects.grammar import matches
from headrace.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

START_NS = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
MS = 1_000_000


class Frame(NamedTuple):
    """What a client got: shown subject, reply, headers, payload."""

    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes

    @property
    def status(self) -> str:
        """`404 No Messages` of a status, empty for a message."""
        match = re.match(rb"NATS/1\.0 (\d{3}[^\r]*)\r\n", self.headers)
        return match[1].decode() if match and not self.reply.startswith(b"$JS.ACK") else ""

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of an acknowledgement subject: deliveries, stream and consumer sequence, time,
        pending.
        """
        return [int(token) for token in self.reply.split(b".")[4:]]

    @property
    def sequence(self) -> int:
        return self.numbers[1]

    def header(self, name: str) -> str:
        match = re.search(rf"\r\n{name}: ([^\r]*)\r\n".encode(), self.headers)
        return match[1].decode() if match else ""


class ManualTimer:
    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self.function = None


class DeskHost:
    """`deaf`: subjects that nobody listens to; to the others somebody does, with `waits` bytes unread."""

    def __init__(self) -> None:
        self.now = START_NS
        self.outgoing = Outgoing()
        self.max_payload = 1 << 20
        self.sees_receivers = True
        self.deaf: set[bytes] = set()
        self.waits: dict[bytes, int] = {}
        self.timers: list[tuple[int, int, ManualTimer]] = []
        self.sent: dict[bytes, list[Frame]] = {}
        self._numbers = itertools.count()

    def publish(self, subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b"") -> None:
        assert self.outgoing.add(subject, payload, reply=reply, headers=headers)
        self.announce()

    def announce(self) -> None:
        for subject, shown, reply, headers, payload in self.outgoing.take_shown():
            if subject not in self.deaf:
                self.sent.setdefault(subject, []).append(Frame(shown, reply, headers, payload))

    def backlog(self, subject: bytes) -> int | None:
        return None if subject in self.deaf else self.waits.get(subject, 0)

    def is_alone(self, subject: bytes) -> bool:
        return True

    def listens(self, subject: bytes, queue: bytes = b"") -> bool:
        return self.backlog(subject) is not None

    def call_later(self, seconds: float, function: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(function)
        heapq.heappush(self.timers, (self.now + round(max(seconds, 0) * SECOND), next(self._numbers), timer))
        return timer

    def now_ns(self) -> int:
        return self.now


def entries(changes: bytes) -> Iterator[tuple[int, bytes]]:
    """The identity and the delta of each entry of a journal that is a consumer's."""
    at = 0
    while at < len(changes):
        kind, size, identity = struct.unpack_from("<cIQ", changes, at)
        assert kind == b"D"
        yield identity, changes[at + 13 : at + 5 + size]
        at += 5 + size


class DeskCommitter:
    def request(self, log: object, done: Callable[[None], None]) -> None:
        done(None)


class DeskJournal:
    """Keeps the state that a restart would find."""

    def __init__(self, host: DeskHost) -> None:
        self._host = host
        self.deltas = ConsumerDeltas()
        self.waiters: list[Callable[[None], object]] = []
        self.kept: dict[int, bytes] = {}
        self.holds = False
        """Whether nothing becomes durable."""

    def after_commit(self, waiter: Callable[[None], object]) -> None:
        self.waiters.append(waiter)

    def confirm(self, replies: list[bytes]) -> None:
        self.waiters.append(lambda _: [self._host.publish(reply, b"") for reply in replies])

    def flush(self) -> bool:
        if not self.deltas and not self.waiters:
            return False
        for identity, delta in entries(self.deltas.take()):
            state = ConsumerState.decode(self.kept.get(identity) or ConsumerState().encode())
            state.apply(delta)
            self.kept[identity] = state.encode()
        if self.holds:
            return False
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter(None)
        return True


class DeskStream:
    def __init__(self, account: Desk, config: StreamConfig) -> None:
        self.account = account
        self.name = config.name
        self.config = config
        self.log = MemoryLog(clock=account.host.now_ns)
        self.epoch = 0
        self.removed: list[int] = []
        self.counted = 0

    @property
    def visible(self) -> int:
        return self.log.state().last_sequence

    last_sequence = visible

    def pending_count(self, sequence: int, filters: Sequence[bytes] = ()) -> int:
        self.counted += 1
        page = self.log.read_from(sequence, filters=filters, max_messages=1 << 30, max_bytes=1 << 40)
        return len(page.messages)

    def acked(self, consumer: Consumer, sequences: Sequence[int]) -> None:
        for sequence in sequences:
            if self.log.delete(sequence):
                self.removed.append(sequence)
                self.epoch += 1


class Desk:
    """`name`: the account; all times in seconds."""

    name = "ACC"
    domain = ""

    def __init__(self, *, retention: RetentionPolicy = RetentionPolicy.LIMITS, **stream: Any) -> None:
        self.host = DeskHost()
        self.turns = Turns(self.host, DeskCommitter())  # type: ignore[arg-type]
        self.turns.on_settle(self._round)
        self.journal = DeskJournal(self.host)
        self.note = logging.getLogger("headrace.test.jetstream")
        self.events: list[tuple[str, str, dict[str, object]]] = []
        self.gone: list[tuple[Consumer, str]] = []
        self.stream = DeskStream(
            self, StreamConfig(name="S", subjects=["s.>"], retention=retention, **stream)
        )
        self.routes: dict[bytes, Callable[[Delivery], object]] = {}
        self._woken: dict[Consumer, None] = {}
        self.consumer: Consumer

    # -- what a consumer asks of its account ---------------------------------------------------------

    def wake(self, consumer: Consumer) -> None:
        self._woken[consumer] = None

    def advise(self, suffix: str, kind: str, **fields: object) -> None:
        self.events.append((suffix, kind, fields))

    metric = advise

    def subscribe(self, subject: bytes, route: Callable[[Delivery], object]) -> bytes:
        self.routes[subject] = route
        return subject

    def unsubscribe(self, sid: bytes) -> None:
        self.routes.pop(sid, None)

    def remove_consumer(self, consumer: Consumer, reason: str) -> None:
        consumer.stop(reason)
        self.gone.append((consumer, reason))

    def _round(self) -> bool:
        woken = bool(self._woken)
        while self._woken:
            consumer, _ = self._woken.popitem()
            if consumer.serve():
                self.turns.later(0, partial(self.wake, consumer))
        return self.journal.flush() or woken

    # -- what a test does ----------------------------------------------------------------------------

    def open(self, state: ConsumerState | None = None, **config: Any) -> Consumer:
        """The consumer C; pull and explicit acknowledgement unless told otherwise."""
        policy = config.setdefault("ack_policy", AckPolicy.EXPLICIT)
        if policy is not AckPolicy.NONE:
            config.setdefault("ack_wait", 30 * SECOND)
            config.setdefault("max_ack_pending", 1000)
        config.setdefault("max_deliver", -1)
        config.setdefault("durable_name", "C")
        if "deliver_subject" not in config:
            config.setdefault("max_waiting", 512)
        self.consumer = Consumer(self.stream, ConsumerConfig(name="C", **config), "C", self.host.now, state)  # type: ignore[arg-type]
        self.consumer.start()
        self.turns.settle()
        return self.consumer

    def reopen(self, *, lost: float = 0.0) -> Consumer:
        """A new process `lost` seconds later, with what the journal had."""
        config, kept = self.consumer.config, self.journal.kept.get(self.consumer.tracker.identity)
        self.consumer.stop("shutdown")
        self.host.timers.clear()
        self.host.sent.clear()
        self._woken.clear()
        self.host.now += round(lost * SECOND)
        self.consumer = Consumer(
            self.stream,
            config,
            "C",
            self.host.now,
            ConsumerState.decode(kept) if kept else None,  # type: ignore[arg-type]
        )
        self.consumer.start()
        self.turns.settle()
        return self.consumer

    def publish(self, *subjects: str, payload: bytes = b"x", headers: bytes = b"", fresh: bool = True) -> int:
        """Messages to these subjects, in one batch; gives the first sequence."""
        batch = Publications(NewMessage)
        for subject in subjects:
            batch.add(subject.encode(), payload, headers=headers)
        batch.at(self.host.now)
        first = self.stream.log.append(batch)
        batch.stored(first)
        if fresh:
            self.consumer.fresh(first, batch)
            self.turns.settle()
        return first

    def fill(self, count: int, subject: str = "s.a", **how: Any) -> None:
        self.publish(*[subject] * count, **how)

    def pull(self, inbox: str = "i", body: bytes | str = b"") -> list[Frame]:
        """Asks, and gives what came to the inbox at once."""
        self.consumer.request(
            Delivery(
                1,
                b"$JS.API.CONSUMER.MSG.NEXT.S.C",
                inbox.encode(),
                b"",
                body if isinstance(body, bytes) else body.encode(),
            )
        )
        self.turns.settle()
        return self.take(inbox)

    def take(self, inbox: str = "i") -> list[Frame]:
        return self.host.sent.pop(inbox.encode(), [])

    def ack(self, *frames: Frame, body: bytes = b"", reply: bytes = b"") -> None:
        """Answers deliveries as a client does."""
        run = Gathered(Delivery, 1, [Delivery(1, frame.reply, reply, b"", body) for frame in frames])
        for acks in sort_acks(
            run, lambda _stream, _consumer: self.consumer.acks, self.consumer.acknowledger.special
        ):
            acks.owner.acknowledger.acknowledged(acks)
        self.turns.settle()

    def advance(self, seconds: float) -> None:
        until = self.host.now + round(seconds * SECOND)
        timers = self.host.timers
        while timers and timers[0][0] <= until:
            due, _, timer = heapq.heappop(timers)
            if timer.function is not None:
                self.host.now = max(self.host.now, due)
                timer.function()
        self.host.now = until

    def delete(self, sequence: int) -> None:
        assert self.stream.log.delete(sequence)
        self.stream.epoch += 1
        self.consumer.removed(sequence)
        self.turns.settle()

    @property
    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in self.events]


def sequences(frames: Sequence[Frame]) -> list[int]:
    return [frame.sequence for frame in frames if not frame.status]


def statuses(frames: Sequence[Frame]) -> list[str]:
    return [frame.status for frame in frames if frame.status]


def matching(pattern: str, subject: str) -> bool:
    return matches(pattern.encode(), subject.encode())
