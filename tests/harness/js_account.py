"""JetStream of one account on a host by hand: requests go in, answers come out, time passes when told to."""

from __future__ import annotations

import heapq
import itertools
import json
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.core.service import Delivery, gather
from headrace.engine.batches import Outgoing
from headrace.jetstream.limits import UNTIERED, AccountLimits, ServerSettings
from headrace.jetstream.system import JetStreamSystem
from headrace.log.committer import InlineCommitter
from headrace.log.port import SyncPolicy
from headrace.log.store import FileStore, MemoryStore
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headrace.core.service import Service
    from headrace.engine.lanes import Lane
    from headrace.errors import StorageError
    from headrace.log.committer import Committer
    from headrace.log.port import MessageLog
    from headrace.log.store import LogStore

START = 1_800_000_000_000_000_000
SECOND = 1_000_000_000
API = "$JS.API."


class Sent(NamedTuple):
    """What reached an inbox; `subject` is what the receiver sees."""

    to: bytes
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes

    def json(self) -> Any:
        return json.loads(self.payload)


class _Timer:
    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self.function = None


class TableHost:
    """A server with one service on it and a client beside it that takes everything but what nobody wants.

    `deaf`: subjects to which nobody listens; everything else has a listener, but for advisories and metrics,
    which are listened to by those in `heard`.
    """

    sees_receivers = True
    max_payload = 1 << 20

    def __init__(self) -> None:
        self.now = START
        self.service: Service | None = None
        self.outgoing = Outgoing()
        self.mistakes: list[tuple[str, Exception]] | None = None
        self.sent: list[Sent] = []
        self.deaf: set[bytes] = set()
        self.heard: set[bytes] = set()
        self.elsewhere: set[bytes] = set()
        self._subscriptions: dict[int, bytes] = {}
        self._gathered: set[int] = set()
        self._incoming: list[Delivery] = []
        self._numbers = itertools.count(1)
        self._timers: list[tuple[int, int, _Timer]] = []

    # -- what a service has ------------------------------------------------------------------------------

    def subscribe(self, subject: bytes, queue: bytes = b"", *, gathered: bool = False) -> int:
        sid = next(self._numbers)
        self._subscriptions[sid] = subject
        if gathered:
            self._gathered.add(sid)
        return sid

    def unsubscribe(self, sid: int) -> None:
        del self._subscriptions[sid]

    def open_lane(self, sid: int, lane: Lane) -> None:
        """Open no lane: every message is delivered here."""

    def publish(self, subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b"") -> None:
        self.outgoing.add(subject, payload, reply=reply, headers=headers)
        self.announce()

    def announce(self) -> None:
        for to, subject, reply, headers, payload in self.outgoing.take_shown():
            self.sent.append(Sent(to, subject or to, reply, headers, payload))
            self._arrive(to, payload, reply, headers, subject or to)

    def backlog(self, subject: bytes) -> int | None:
        if not subject or min(subject) <= ord(" "):  # nothing can be published there
            return None
        if subject.startswith(b"$JS.EVENT."):
            return 0 if any(matches(wanted, subject) for wanted in self.heard) else None
        return None if subject in self.deaf else 0

    def is_alone(self, subject: bytes) -> bool:
        return not any(matches(wanted, subject) for wanted in self.elsewhere)

    def listens(self, subject: bytes, queue: bytes = b"") -> bool:
        return self.backlog(subject) is not None

    def when_heard(self, function: Callable[[], object]) -> None:
        function()

    def call_later(self, seconds: float, function: Callable[[], object]) -> _Timer:
        timer = _Timer(function)
        due = self.now + round(max(seconds, 0) * SECOND)
        heapq.heappush(self._timers, (due, next(self._numbers), timer))
        return timer

    def now_ns(self) -> int:
        return self.now

    def failed(self, error: Exception, at: str = "") -> None:
        """A mistake is a test's to see, but for one that makes mistakes."""
        if self.mistakes is None:
            raise error
        self.mistakes.append((at, error))

    # -- what a test does --------------------------------------------------------------------------------

    def put(self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b"") -> None:
        """A client's message, for the next tick."""
        self._arrive(subject, payload, reply, headers)

    def _arrive(self, to: bytes, payload: bytes, reply: bytes, headers: bytes, shown: bytes = b"") -> None:
        for sid, pattern in self._subscriptions.items():
            if matches(pattern, to):
                self._incoming.append(Delivery(sid, shown or to, reply, headers, payload))

    def tick(self) -> None:
        """Deliver every message under way, and those that come of it."""
        while self._incoming:
            incoming, self._incoming = self._incoming, []
            assert self.service is not None
            self.service.deliver(gather(incoming, self._gathered))

    def pass_time(self, seconds: float) -> None:
        until = self.now + round(seconds * SECOND)
        self.tick()
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            if timer.function is not None:
                self.now = max(self.now, due)
                timer.function()
                self.tick()
        self.now = until


class HeldCommitter:
    """Commits when a test says so."""

    syncs = True
    marks = None

    def __init__(self) -> None:
        self.waiting: list[Callable[[StorageError | None], None]] = []

    def begin_turn(self) -> None: ...

    def end_turn(self, *, is_last: bool) -> None: ...

    def request(self, log: MessageLog, done: Callable[[StorageError | None], None]) -> None:
        self.waiting.append(done)

    def commit(self, error: StorageError | None = None) -> None:
        """Do all commits that wait, and those that are asked for meanwhile."""
        while self.waiting:
            self.waiting.pop(0)(error)


class Place:
    """A server with one account `A`."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        limits: AccountLimits | None = None,
        tiers: Mapping[str, AccountLimits] | None = None,
        settings: ServerSettings | None = None,
        committer: Committer | None = None,
        file: LogStore | None = None,
        start: bool = True,
    ) -> None:
        self.directory = directory
        self.host = TableHost()
        self.log = logging.getLogger("headrace.test.jetstream")
        self.file: LogStore = file or (MemoryStore(self.host.now_ns) if directory is None else self._open())
        self.system = JetStreamSystem(
            settings or ServerSettings(server_name="S1", server_id="ID1", strict=True),
            self.file,
            MemoryStore(self.host.now_ns),
            committer or InlineCommitter(),
            sync=SyncPolicy.GROUP,
            log=self.log,
        )
        self.account = self.system.add_account("A", tiers or {UNTIERED: limits or AccountLimits()})
        self.host.service = self.account
        if start:
            self.account.start(self.host)
            self.host.tick()

    def _open(self) -> FileStore:
        assert self.directory is not None
        return FileStore(self.directory, clock=self.host.now_ns)

    def restart(self) -> Place:
        """The same files on another server, after a stop that lost nothing."""
        self.account.stop()
        self.file.close()
        return Place(self.directory)

    # -- talk --------------------------------------------------------------------------------------------

    def ask(self, name: str, body: Any = None, *, headers: bytes = b"") -> Any:
        """A request to the API and its answer, None when there is none (yet)."""
        answer = self.raw(API + name, body, headers=headers)
        return None if answer is None else json.loads(answer.payload)

    def raw(self, subject: str, body: Any = None, *, headers: bytes = b"") -> Sent | None:
        self.host.sent.clear()
        reply = b"_INBOX.ask"
        self.host.put(subject.encode(), encoded(body), reply, headers)
        self.host.tick()
        return next((one for one in self.host.sent if one.to == reply), None)

    def error(self, name: str, body: Any = None, *, headers: bytes = b"") -> int:
        """The `err_code` of a refusal, 0 for none."""
        answer = self.ask(name, body, headers=headers)
        assert answer is not None
        return int(answer.get("error", {}).get("err_code", 0))

    def stream(self, name: str, /, **config: Any) -> Any:
        answer = self.ask(f"STREAM.CREATE.{name}", {"name": name, **config})
        assert answer is None or "error" not in answer, answer
        return answer

    def consumer(self, stream: str, name: str, /, **config: Any) -> Any:
        body = {"stream_name": stream, "config": {"durable_name": name, "ack_policy": "explicit", **config}}
        answer = self.ask(f"CONSUMER.CREATE.{stream}.{name}", body)
        assert answer is None or "error" not in answer, answer
        return answer

    def publish(self, subject: str, payload: bytes = b"", *, headers: bytes = b"") -> Any:
        answer = self.raw(subject, payload, headers=headers)
        return None if answer is None else json.loads(answer.payload)

    def fetch(self, stream: str, consumer: str, batch: int = 1) -> list[Sent]:
        self.host.sent.clear()
        self.host.put(
            f"{API}CONSUMER.MSG.NEXT.{stream}.{consumer}".encode(),
            encoded({"batch": batch, "no_wait": True}),
            b"_INBOX.pull",
        )
        self.host.tick()
        return [one for one in self.host.sent if one.to == b"_INBOX.pull" and one.reply]

    def acknowledge(self, message: Sent, *, waits: bool = False) -> bool:
        """Whether it was answered, if the client `waits` for that."""
        self.host.sent.clear()
        self.host.put(message.reply, b"+ACK", b"_INBOX.ack" if waits else b"")
        self.host.tick()
        return any(one.to == b"_INBOX.ack" for one in self.host.sent)

    def advisories(self) -> list[Any]:
        return [one.json() for one in self.host.sent if one.to.startswith(b"$JS.EVENT.")]


def encoded(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def tiers(**limits: int) -> dict[str, AccountLimits]:
    return {UNTIERED: AccountLimits(**limits)}
