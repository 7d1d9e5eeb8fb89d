"""A host with a manual clock, and a small STAN client that speaks to the service through it.

`World` is server and wire in one: what the service publishes to its own subscriptions comes back to it, what
it publishes to an inbox is kept to be looked at, heartbeats are answered for clients that are alive.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from headrace.conf.streaming_options import StreamingOptions
from headrace.core.service import Delivery, gather
from headrace.engine.batches import Outgoing
from headrace.log.committer import InlineCommitter
from headrace.log.store import MemoryStore
from headrace.protocol.stan import (
    Ack,
    CloseRequest,
    CloseResponse,
    ConnectRequest,
    ConnectResponse,
    MsgProto,
    Ping,
    PingResponse,
    PubAck,
    PubMsg,
    StartPosition,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)
from headrace.streaming.service import OpenStore, StreamingService
from headrace.subjects.grammar import is_valid_subject, matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Host
    from headrace.engine.batches import Gathered
    from headrace.engine.lanes import Lane
    from headrace.errors import StorageError
    from headrace.log.committer import Committer
    from headrace.log.port import MessageLog
    from headrace.log.store import LogStore
    from headrace.streaming.tenure import Tenure

    Answer = TypeVar("Answer", ConnectResponse, PubAck, SubscriptionResponse, CloseResponse, PingResponse)

START_NS = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
DISCOVER = b"_STAN.discover.test-cluster"
PINGS = DISCOVER + b".pings"


class ManualTimer:
    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self.function = None


class ManualHost:
    """Time passes when a test says so."""

    def __init__(self, now_ns: int = START_NS) -> None:
        self.mistakes: list[tuple[str, Exception]] | None = None
        self.now = now_ns
        self.subscriptions: dict[int, bytes] = {}
        self.gathered: set[int] = set()
        self.named: set[int] = set()
        self.user = b""
        """The header block with who publishes, where there are users."""
        self.outgoing = Outgoing()
        self.published: list[tuple[bytes, bytes, bytes]] = []
        self.incoming: list[Delivery] = []
        self.headed: list[tuple[bytes, bytes, bytes]] = []
        """What was published with headers: subject, block, payload."""
        self.sees_receivers = True
        self.max_payload = 1 << 20
        self.unread: dict[bytes, int | None] = {}
        """What waits for a reader that is slow; None: it is gone."""
        self._timers: list[tuple[int, int, ManualTimer]] = []
        self._numbers = itertools.count(1)

    def subscribe(
        self, subject: bytes, queue: bytes = b"", *, gathered: bool = False, named: bool = False
    ) -> int:
        if not is_valid_subject(subject) or queue:
            raise ValueError(subject)
        sid = next(self._numbers)
        self.subscriptions[sid] = subject
        if gathered:
            self.gathered.add(sid)
        if named:
            self.named.add(sid)
        return sid

    def failed(self, error: Exception, at: str = "") -> None:
        """A mistake is a test's to see, but for one that makes mistakes."""
        if self.mistakes is None:
            raise error
        self.mistakes.append((at, error))

    def unsubscribe(self, sid: int) -> None:
        del self.subscriptions[sid]

    def open_lane(self, sid: int, lane: Lane) -> None:
        """Open no lane: every message is delivered here."""

    def publish(self, subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b"") -> None:
        assert self.outgoing.add(subject, payload, reply=reply, headers=headers)
        self.announce()

    def announce(self) -> None:
        for subject, reply, headers, payload in self.outgoing.take():
            assert is_valid_subject(subject)
            if headers:
                self.headed.append((subject, headers, payload))
                continue
            self.published.append((subject, reply, payload))
            self.spread(subject, payload, reply)

    def spread(self, subject: bytes, payload: bytes, reply: bytes) -> None:
        """What was published reaches whoever is on this wire."""
        self.receive(subject, payload, reply)

    def backlog(self, subject: bytes) -> int | None:
        return self.unread.get(subject, 0)

    def receive(self, subject: bytes, payload: bytes, reply: bytes = b"") -> bool:
        """A message on the wire, for the service's next tick if it wants it."""
        wanted = [sid for sid, pattern in self.subscriptions.items() if matches(pattern, subject)]
        self.incoming += [
            Delivery(sid, subject, reply, self.user if sid in self.named else b"", payload) for sid in wanted
        ]
        return bool(wanted)

    def take_incoming(self) -> list[Delivery | Gathered[Delivery]]:
        """The next tick's batch."""
        incoming, self.incoming = self.incoming, []
        return gather(incoming, self.gathered)

    def when_heard(self, function: Callable[[], object]) -> None:
        function()

    def call_later(self, seconds: float, function: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(function)
        due = self.now + round(max(seconds, 0) * SECOND)
        heapq.heappush(self._timers, (due, next(self._numbers), timer))
        return timer

    def now_ns(self) -> int:
        return self.now

    def next_timer(self, until: int) -> Callable[[], object] | None:
        """The next timer due by `until`, with the clock put to its time."""
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            if timer.function is not None:
                self.now = max(self.now, due)
                return timer.function
        return None


class HeldCommitter:
    """Commits when a test says so; what was asked for later is not committed with it."""

    syncs = True
    marks = None

    def __init__(self) -> None:
        self.waiting: list[tuple[MessageLog, Callable[[StorageError | None], None]]] = []

    def begin_turn(self) -> None: ...

    def end_turn(self, *, is_last: bool) -> None: ...

    def request(self, log: MessageLog, done: Callable[[StorageError | None], None]) -> None:
        self.waiting.append((log, done))

    def commit(self, error: StorageError | None = None, *, only: MessageLog | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for log, done in waiting:
            if only is None or log is only:
                done(error)
            else:
                self.waiting.append((log, done))


@dataclass
class Sub:
    """What a client knows of its subscription."""

    channel: bytes
    inbox: bytes
    ack_inbox: bytes
    client_id: bytes
    taken: list[MsgProto] = field(default_factory=list)


class World:
    def __init__(
        self,
        options: StreamingOptions | None = None,
        *,
        store: LogStore | None = None,
        committer: Committer | None = None,
        host: ManualHost | None = None,
        acquire: Callable[[], bool] = lambda: True,
        start: bool = True,
    ) -> None:
        self.host = host or ManualHost()
        self.options = options or StreamingOptions()
        self.store: LogStore = store or MemoryStore(lambda: self.host.now)
        self.committer: Committer = committer or InlineCommitter()
        self.acquire = acquire
        self.conflicts: list[str] = []
        self.alive: set[bytes] = set()
        """Heartbeat inboxes that are answered."""
        self._names = itertools.count(1)
        self._seen = 0
        self.kept: dict[bytes, list[bytes]] = {}
        self.service = self._new_service()
        if start:
            self.start()

    def _new_service(self) -> StreamingService:
        return StreamingService(
            self.options,
            self._take,
            logging.getLogger("headrace.test.streaming"),
            on_conflict=self.conflicts.append,
        )

    def _take(self) -> OpenStore | None:
        return OpenStore(self.store, self.committer) if self.acquire() else None

    @property
    def tenure(self) -> Tenure:
        """The service's, which has one."""
        tenure = self.service._tenure
        assert tenure is not None
        return tenure

    def start(self) -> None:
        host: Host = self.host
        self.service.start(host)
        self.settle()

    def restart(
        self, options: StreamingOptions | None = None, *, store: LogStore | None = None, clean: bool = False
    ) -> None:
        """A new process on what the old one stored; without `clean` the old one was killed."""
        if clean:
            self.service.stop()
        self.host = ManualHost(self.host.now)
        self._seen = 0
        self.kept.clear()
        self.options = options or self.options
        self.store = store or self.store
        self.service = self._new_service()
        self.start()

    # -- time and wire ------------------------------------------------------------------------------

    def settle(self) -> None:
        """Ticks until nothing is under way."""
        while True:
            self._carry()
            batch = self.host.take_incoming()
            if not batch:
                return
            self.service.deliver(batch)

    def _carry(self) -> None:
        """Keeps what was published, and answers heartbeats."""
        fresh = self.host.published[self._seen :]
        self._seen = len(self.host.published)
        for subject, reply, payload in fresh:
            self.kept.setdefault(subject, []).append(payload)
            if subject in self.alive and reply:
                self.host.receive(reply, b"")

    def advance(self, seconds: float) -> None:
        until = self.host.now + round(seconds * SECOND)
        while (function := self.host.next_timer(until)) is not None:
            function()
            self.settle()
        self.host.now = until

    def send(self, subject: bytes, payload: bytes, reply: bytes = b"") -> None:
        """Send a message in the next tick, with whatever else is sent before it."""
        assert self.host.receive(subject, payload, reply), f"nobody listens on {subject!r}"

    def take(self, subject: bytes) -> list[bytes]:
        """What was published to a subject since the last look."""
        self._carry()
        return self.kept.pop(subject, [])

    def name(self, what: str = "inbox") -> bytes:
        return f"_TEST.{what}.{next(self._names)}".encode()

    def request(self, subject: bytes, payload: bytes, kind: type[Answer]) -> Answer:
        reply = self.name("reply")
        self.send(subject, payload, reply)
        self.settle()
        (answer,) = self.take(reply)
        return kind.decode(answer)

    # -- a client's requests ------------------------------------------------------------------------

    def connect(
        self, client_id: bytes = b"me", *, conn_id: bytes | None = None, alive: bool = True, protocol: int = 1
    ) -> ConnectResponse:
        request = ConnectRequest(
            client_id, b"_HB." + client_id, protocol, client_id if conn_id is None else conn_id, 5, 3
        )
        if alive:
            self.alive.add(request.heartbeat_inbox)
        else:
            self.alive.discard(request.heartbeat_inbox)
        return self.request(DISCOVER, request.encode(), ConnectResponse)

    def disconnect(self, client_id: bytes = b"me") -> CloseResponse:
        return self.request(b"_STAN.close.test-cluster", CloseRequest(client_id).encode(), CloseResponse)

    def ping(self, conn_id: bytes) -> PingResponse:
        return self.request(PINGS, Ping(conn_id).encode(), PingResponse)

    def publish(
        self, channel: bytes, *bodies: bytes, client_id: bytes = b"me", conn_id: bytes = b""
    ) -> list[bytes]:
        """Publishes all in one tick; returns the acknowledgements' errors."""
        reply = self.name("ack")
        guids = self.publish_to(channel, reply, *bodies, client_id=client_id, conn_id=conn_id)
        self.settle()
        acks = [PubAck.decode(payload) for payload in self.take(reply)]
        assert sorted(ack.guid for ack in acks) == sorted(guids)
        return [ack.error for ack in acks]

    def publish_to(
        self, channel: bytes, reply: bytes, *bodies: bytes, client_id: bytes = b"me", conn_id: bytes = b""
    ) -> list[bytes]:
        """Publishes in the next tick; returns the guids."""
        guids = [b"g%d" % number for number in range(len(bodies))]
        for guid, body in zip(guids, bodies, strict=True):
            message = PubMsg(client_id, guid, channel, data=body, conn_id=conn_id)
            self.send(b"_STAN.pub.test-cluster." + channel, message.encode(), reply)
        return guids

    def try_subscribe(
        self,
        channel: bytes,
        *,
        client_id: bytes = b"me",
        queue: bytes = b"",
        durable: bytes = b"",
        start: int = StartPosition.NEW_ONLY,
        sequence: int = 0,
        delta_ns: int = 0,
        max_in_flight: int = 10,
        ack_wait: int = 30,
        inbox: bytes | None = None,
    ) -> tuple[SubscriptionResponse, Sub]:
        inbox = self.name() if inbox is None else inbox
        request = SubscriptionRequest(
            client_id, channel, queue, inbox, max_in_flight, ack_wait, durable, start, sequence, delta_ns
        )
        answer = self.request(b"_STAN.sub.test-cluster", request.encode(), SubscriptionResponse)
        return answer, Sub(channel, inbox, answer.ack_inbox, client_id)

    def subscribe(self, channel: bytes, **wishes: object) -> Sub:
        answer, sub = self.try_subscribe(channel, **wishes)  # type: ignore[arg-type]
        assert answer.error == b""
        assert answer.ack_inbox
        return sub

    def refused(self, channel: bytes, **wishes: object) -> bytes:
        """The error of a subscription that must be refused."""
        answer, _ = self.try_subscribe(channel, **wishes)  # type: ignore[arg-type]
        assert answer.ack_inbox == b""
        return answer.error

    def unsubscribe(self, sub: Sub, *, client_id: bytes | None = None, inbox: bytes | None = None) -> bytes:
        return self._end(b"_STAN.unsub.test-cluster", sub, client_id, inbox)

    def close_sub(self, sub: Sub, *, client_id: bytes | None = None, inbox: bytes | None = None) -> bytes:
        return self._end(b"_STAN.subclose.test-cluster", sub, client_id, inbox)

    def _end(self, subject: bytes, sub: Sub, client_id: bytes | None, inbox: bytes | None) -> bytes:
        request = UnsubscribeRequest(client_id or sub.client_id, sub.channel, inbox or sub.ack_inbox)
        return self.request(subject, request.encode(), SubscriptionResponse).error

    def received(self, sub: Sub) -> list[MsgProto]:
        """What came on the subscription's inbox since the last look."""
        return [MsgProto.decode(payload) for payload in self.take(sub.inbox)]

    def sequences(self, sub: Sub) -> list[int]:
        return [message.sequence for message in self.received(sub)]

    def ack(self, sub: Sub, *sequences: int) -> None:
        for sequence in sequences:
            self.host.receive(sub.ack_inbox, Ack(sub.channel, sequence).encode())
        self.settle()

    def pending(self, sub: Sub) -> int:
        """What monitoring says is pending in it, online or not."""
        snapshot = self.service.snapshot_channel(sub.channel.decode(), subscriptions=True)
        assert snapshot is not None
        (count,) = [one.pending_count for one in snapshot.subscriptions if one.inbox == sub.inbox.decode()]
        return count
