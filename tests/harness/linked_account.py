"""JetStream of one account on a service link, as in a server, with a clock and timers by hand.

Lanes (`headrace.engine.lanes`) are asked here, which they are not on `TableHost`: messages come
from a client's link through a router's interest, and answers go back that way. Everything is the same in
every run, so what one way of doing things led to (answers, files) can be compared with what another led to.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.js_account import API, SECOND, START, encoded
from headrace.core.service import Delivery
from headrace.engine.interest import Interest
from headrace.engine.link import Router
from headrace.engine.service import ServiceLink
from headrace.jetstream.limits import UNTIERED, AccountLimits, ServerSettings
from headrace.jetstream.system import JetStreamSystem
from headrace.log import segments
from headrace.log.committer import InlineCommitter, ThreadCommitter
from headrace.log.port import SyncPolicy
from headrace.log.store import FileStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from headrace.core.service import Service
    from headrace.engine.batches import Gathered
    from headrace.errors import StorageError
    from headrace.log.filesystem import FileSystem

HOUR_S = 3600.0


class Answer(NamedTuple):
    """What reached the client."""

    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


class _Timer:
    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self.function = None


class LinkedHost:
    """A `core.service.Host`, and the session of its link."""

    sees_receivers = True
    max_payload = 1 << 20

    def __init__(self, router: Router, interest: Interest) -> None:
        self.now = START
        self.service: Service | None = None
        self.mistakes: list[Exception] = []
        self.turns = 0
        self.link = link = ServiceLink(router, self, Delivery)
        link.interest = interest
        self.outgoing = link.outgoing
        self.subscribe, self.unsubscribe, self.open_lane = link.subscribe, link.unsubscribe, link.open_lane
        self.publish, self.announce = link.publish, link.announce
        self.backlog, self.is_alone, self.listens = link.backlog, link.is_alone, link.listens
        self._numbers = itertools.count()
        self._timers: list[tuple[int, int, _Timer]] = []

    def when_heard(self, function: Callable[[], object]) -> None:
        function()

    def call_later(self, seconds: float, function: Callable[[], object]) -> _Timer:
        timer = _Timer(function)
        due = self.now + round(max(seconds, 0) * SECOND)
        heapq.heappush(self._timers, (due, next(self._numbers), timer))
        return timer

    def call_soon(self, function: Callable[[], object]) -> None:
        self.call_later(0, function)

    def now_ns(self) -> int:
        return self.now

    # -- called by the link ------------------------------------------------------------------------------

    def deliver(self, batch: list[Delivery | Gathered[Delivery]]) -> None:
        self.turns += 1
        service: Any = self.service
        service.begin_turn()
        service.deliver(batch)
        service.end_turn(is_last=True)

    def failed(self, error: Exception, at: str = "") -> None:
        self.mistakes.append(error)

    def wake(self) -> None:
        """Ticks come by hand."""

    def unpublishable(self, subject: bytes) -> None:
        raise AssertionError(subject)

    # -- time --------------------------------------------------------------------------------------------

    def due_by(self, until: int) -> Iterator[Callable[[], object]]:
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            if timer.function is not None:
                yield timer.function


class _Client:
    """The session of the client's link: it keeps what comes."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def deliver(self, batch: list[Delivery]) -> None:
        self.answers += [Answer(m.subject, m.reply, m.headers, m.payload) for m in batch]

    def failed(self, error: Exception) -> None:
        raise error

    def wake(self) -> None:
        """Ticks come by hand."""


class LinkedAccount:
    """A server with one account `A` and a client that hears `_INBOX.>` and `push.>`.

    `policy`: with INTERVAL no sync falls due while a test runs.
    """

    def __init__(
        self,
        directory: Path,
        policy: SyncPolicy,
        *,
        limits: AccountLimits | None = None,
        settings: ServerSettings | None = None,
        filesystem: FileSystem | None = None,
    ) -> None:
        self.router = Router()
        self.interest = Interest()
        self.host = LinkedHost(self.router, self.interest)
        self.client = _Client()
        self._link = ServiceLink(self.router, self.client, Delivery)
        self._link.interest = self.interest
        self._link.subscribe(b"_INBOX.>")
        self._link.subscribe(b"push.>")
        self.reports: list[StorageError] = []
        self.committer = (
            InlineCommitter()
            if policy is SyncPolicy.GROUP
            else ThreadCommitter(
                self.host.call_soon, policy, HOUR_S, call_soon=self.host.call_soon, report=self.reports.append
            )
        )
        self.file = FileStore(directory, clock=self.host.now_ns, sync=policy, filesystem=filesystem)
        self.system = JetStreamSystem(
            settings or ServerSettings(server_name="S1", server_id="ID1", strict=True),
            self.file,
            MemoryStore(self.host.now_ns),
            self.committer,
            sync=policy,
            log=logging.getLogger("headrace.test.jetstream"),
        )
        self.account = self.system.add_account("A", {UNTIERED: limits or AccountLimits()})
        self.host.service = self.account
        self.account.start(self.host)
        self.tick()

    # -- what a test does --------------------------------------------------------------------------------

    def put(self, subject: str, payload: bytes = b"", *, reply: str = "", headers: bytes = b"") -> None:
        """A client's message, for the next tick."""
        self._link.publish(subject.encode(), payload, reply=reply.encode(), headers=headers)

    def tick(self) -> None:
        """Deliver every message under way, and those that come of it."""
        while True:
            self.router.end_tick()
            if not self.router.has_due:
                return

    def pass_time(self, seconds: float) -> None:
        until = self.host.now + round(seconds * SECOND)
        self.tick()
        for function in self.host.due_by(until):
            function()
            self.tick()
        self.host.now = until

    def take(self) -> list[Answer]:
        answers, self.client.answers = self.client.answers, []
        return answers

    def ask(self, name: str, body: Any = None) -> bytes:
        """A request to the API and its answer."""
        self.put(API + name, encoded(body), reply="_INBOX.ask")
        self.pass_time(0)
        (found,) = [one.payload for one in self.take() if one.subject == b"_INBOX.ask"]
        return found

    def stream(self, name: str, **config: Any) -> None:
        answer = self.ask(f"STREAM.CREATE.{name}", {"name": name, **config})
        assert b'"error"' not in answer, answer

    def consumer(self, stream: str, name: str, **config: Any) -> None:
        body = {"stream_name": stream, "config": {"durable_name": name, "ack_policy": "explicit", **config}}
        answer = self.ask(f"CONSUMER.CREATE.{stream}.{name}", body)
        assert b'"error"' not in answer, answer

    def stop(self) -> None:
        self.account.stop()
        self.tick()
        self.committer.stop()
        self.file.close()
        self.host.link.detach()
        self._link.detach()
        self.router.end_tick()


def files(directory: Path) -> dict[str, bytes]:
    """Every file of a store's logs, by its path."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted((directory / "logs").rglob("*"))
        if path.is_file()
    }


def same_salts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that are begun from now on have salts that do not depend on chance."""
    monkeypatch.setattr(segments, "new_salt", itertools.count(1).__next__)
