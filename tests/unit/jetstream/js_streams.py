"""An account by hand: a host with a clock that is set, commits that wait when told to, streams over logs."""

from __future__ import annotations

import itertools
import json
import logging
from typing import TYPE_CHECKING, Any

from headrace.core.service import Delivery
from headrace.engine.batches import Gathered, Outgoing
from headrace.engine.lanes import HeldBytes
from headrace.jetstream.limits import BatchLimits, Inflight, ServerSettings
from headrace.jetstream.stream.stream import Stream, log_limits
from headrace.log.memory import MemoryLog
from headrace.protocol.jetstream.configs import StreamConfig
from headrace.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.engine.lanes import Lane
    from headrace.errors import StorageError
    from headrace.log.port import MessageLog

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
DEFAULTS: dict[str, Any] = {
    "max_msgs": -1,
    "max_bytes": -1,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
    "max_consumers": -1,
    "num_replicas": 1,
    "duplicate_window": 120 * SECOND,
}


class HandTimer:
    def __init__(self, due_ns: int, function: Callable[[], object]) -> None:
        self.due_ns = due_ns
        self.function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self.function = None


class HandHost:
    """Time passes with `pass_time`; what is published is in `sent` as (subject, headers, payload)."""

    def __init__(self) -> None:
        self.now = START
        self.outgoing = Outgoing()
        self.sent: list[tuple[bytes, bytes, bytes]] = []
        self.timers: list[HandTimer] = []
        self.max_payload = 1 << 20
        self.sees_receivers = True

    def subscribe(self, subject: bytes, queue: bytes = b"", *, gathered: bool = False) -> int:
        raise AssertionError("accounts subscribe")

    def unsubscribe(self, sid: int) -> None:
        raise AssertionError("accounts unsubscribe")

    def open_lane(self, sid: int, lane: Lane) -> None:
        """Open no lane: every message is delivered here."""

    def publish(self, subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b"") -> None:
        assert self.outgoing.add(subject, payload, reply=reply, headers=headers)
        self.announce()

    def announce(self) -> None:
        self.sent += [(subject, headers, payload) for subject, _, headers, payload in self.outgoing.take()]

    def backlog(self, subject: bytes) -> int | None:
        return 0

    def is_alone(self, subject: bytes) -> bool:
        return True

    def listens(self, subject: bytes, queue: bytes = b"") -> bool:
        return self.backlog(subject) is not None

    def when_heard(self, function: Callable[[], object]) -> None:
        function()

    def call_later(self, seconds: float, function: Callable[[], object]) -> HandTimer:
        timer = HandTimer(self.now + int(seconds * SECOND), function)
        self.timers.append(timer)
        return timer

    def now_ns(self) -> int:
        return self.now

    def pass_time(self, seconds: float) -> None:
        end = self.now + int(seconds * SECOND)
        while due := [t for t in self.timers if t.function and t.due_ns <= end]:
            timer = min(due, key=lambda t: t.due_ns)
            self.now = max(self.now, timer.due_ns)
            self.timers.remove(timer)
            assert timer.function is not None
            timer.function()
        self.now = end


class HandCommitter:
    """Tells at once, or with `release` what was requested while it was `held`."""

    syncs = True
    marks = None

    def __init__(self) -> None:
        self.held = False
        self.waiting: list[Callable[[StorageError | None], None]] = []

    def begin_turn(self) -> None: ...

    def end_turn(self, *, is_last: bool) -> None: ...

    def request(self, log: MessageLog, done: Callable[[StorageError | None], None]) -> None:
        if self.held:
            self.waiting.append(done)
        else:
            done(None)

    def release(self, error: StorageError | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(error)

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""


class HandQuota:
    """`room`: bytes that one message may have, which is all that is judged here."""

    def __init__(self) -> None:
        self.room = 1 << 60
        self.held = HeldBytes(), HeldBytes()

    def refusal(self, config: StreamConfig, size: int) -> int:
        return 10002 if size > self.room else 0

    def bounds(self, config: StreamConfig) -> tuple[int, int]:
        return self.room, 0


class HandAccount:
    """The parts of an account that a stream asks for."""

    def __init__(self, settings: ServerSettings) -> None:
        self.name = "A"
        self.domain = settings.domain
        self.settings = settings
        self.host = HandHost()
        self.committer = HandCommitter()
        self.turns = turns = Turns(self.host, self.committer)
        self.now_ns, self.later = turns.now_ns, turns.later
        self.commit, self.finish_commits = turns.commit, turns.finish_commits
        self.note = logging.getLogger("headrace.test")
        self.publish = self.host.publish
        self.routes: dict[int, tuple[bytes, Callable[[Any], object]]] = {}
        self.touched: dict[Stream, None] = {}
        self.streams: dict[str, Stream] = {}
        self.advisories: list[tuple[str, str, dict[str, object]]] = []
        self.quota = HandQuota()
        self.batches = Inflight(BatchLimits())
        self.has_due = False
        self._numbers = itertools.count(1)
        self.turns.on_settle(self._round)

    def subscribe(
        self, subject: bytes, route: Callable[[Any], object], *, gathered: bool = False, queue: bytes = b""
    ) -> int:
        sid = next(self._numbers)
        self.routes[sid] = subject, route
        return sid

    def unsubscribe(self, sid: int) -> None:
        del self.routes[sid]

    def touch(self, stream: Stream) -> None:
        self.touched[stream] = None

    def wake(self, consumer: object) -> None:
        """Do nothing: no consumer is served here."""

    def _round(self) -> bool:
        touched = list(self.touched)
        self.touched.clear()
        flushed = [stream.flush() for stream in touched]
        return any(flushed)

    def advise(self, suffix: str, kind: str, **fields: object) -> None:
        self.advisories.append((suffix, kind, fields))

    def has_interest(self, subject: bytes) -> bool:
        return True


class World:
    """One stream and who publishes to it."""

    def __init__(
        self,
        log: MessageLog | None = None,
        *,
        settings: ServerSettings | None = None,
        at_ns: int = START,
        **fields: Any,
    ) -> None:
        self.account = HandAccount(settings or ServerSettings())
        self.host = self.account.host
        self.host.now = at_ns
        fields = {"name": "S", "subjects": ["s.>"], **DEFAULTS, **fields}
        self.config = StreamConfig(**fields)
        if log is None:
            log = MemoryLog(log_limits(self.config), self.host.now_ns)
        log.limits = log_limits(self.config)
        self.log = log
        self.stream = Stream(self.account, self.config, log, START)  # type: ignore[arg-type]
        self.account.streams["S"] = self.stream
        self.stream.start()

    def receive(self, *messages: tuple[bytes, bytes, bytes] | bytes, settle: bool = True) -> None:
        """Messages (subject, headers, payload), or only a subject, in one run; replies are `r.1`, `r.2`..."""
        whole = [(m, b"", b"") if isinstance(m, bytes) else m for m in messages]
        run = [
            Delivery(1, subject, b"r.%d" % place, headers, payload)
            for place, (subject, headers, payload) in enumerate(whole, 1)
        ]
        self.stream.ingest.receive(Gathered(Delivery, 1, run))
        if settle:
            self.account.turns.settle()

    def take(self) -> list[tuple[bytes, bytes, bytes]]:
        sent, self.host.sent = self.host.sent, []
        return sent

    def acks(self) -> list[Any]:
        """What was answered since, as JSON, in the order of the messages."""
        sent = [s for s in self.take() if s[0].startswith(b"r.")]
        return [json.loads(payload) for _, _, payload in sorted(sent, key=lambda s: int(s[0][2:]))]

    def put(self, subject: bytes = b"s.a", payload: bytes = b"", **headers: Any) -> Any:
        """One message with headers `Nats_Msg_Id="x"`; gives its answer as JSON."""
        self.take()
        self.receive((subject, block(**headers), payload))
        (answer,) = self.acks()
        return answer

    def put_error(self, subject: bytes = b"s.a", payload: bytes = b"", **headers: Any) -> tuple[int, str]:
        error = self.put(subject, payload, **headers)["error"]
        return error["err_code"], error["description"]

    def held(self) -> list[tuple[int, bytes]]:
        page = self.log.read_from(0, max_messages=10_000)
        return [(message.sequence, message.subject) for message in page.messages]


def block(**headers: Any) -> bytes:
    if not headers:
        return b""
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    return ("NATS/1.0\r\n" + "".join(lines) + "\r\n").encode()
