"""A `core.service.Host` over a connection to a NATS server elsewhere, which is kept up for ever.

What arrives in one read is one batch for the service; what the service publishes in a turn of the loop leaves
in one write. While there is no connection, subscriptions are remembered and made again, and publications are
dropped: whoever waits for one asks again, as with every lost message of NATS. What a service does is its own.
"""

from __future__ import annotations

import asyncio
import random
from time import time_ns
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.attached.connection import AttachedConnection
from headrace.client.address import parse_addresses
from headrace.client.errors import AddressError, ClientError, ConnectError, ConnectionLostError, ServerError
from headrace.client.retries import Backoff
from headrace.client.subscriptions import SubscriptionTable
from headrace.core.service import REQUEST_INFO, Delivery, gather
from headrace.engine.batches import Outgoing
from headrace.errors import StartError
from headrace.protocol.jetstream.headers import without_prefix
from headrace.server.services import NO_RESPONDERS, ProofWatch, Timers, log_mistake
from headrace.subjects.grammar import is_valid_subject

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Coroutine, Sequence

    from headrace.attached.connection import Login
    from headrace.client.address import ServerAddress
    from headrace.client.codec import Head, MessageBatch
    from headrace.core.service import Service, Timer
    from headrace.engine.lanes import Lane

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
"""Seconds between two rounds of attempts to connect again: doubled each time."""

FLUSH_LIMIT: Final = 1.0
"""Seconds that the first and the last words of a service may take to arrive."""

_NOBODY: Final = b"NATS/1.0 503"


class RemoteHost:
    """One service's host. `addresses` are tried in order, then those that the server names.

    `proof`: as of `server.services.ServiceHost`.
    """

    def __init__(
        self,
        service: Service,
        addresses: Sequence[ServerAddress],
        login: Login,
        log: logging.Logger,
        *,
        proof: Callable[[], int] | None = None,
    ) -> None:
        self.service = service
        self.name = login.options.name
        self._known = list(addresses)
        self._login = login
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._proof = ProofWatch(self._loop, proof, self._resume)
        self._timers = Timers(self._loop, self.failed, self._proof.holds)
        self._connection: AttachedConnection | None = None
        self._subscriptions = SubscriptionTable()
        self._gathered: set[int] = set()
        self._named: set[int] = set()
        self.outgoing = Outgoing()
        self._frames: list[bytes] = []
        self._write_is_due = False
        self._questions: dict[int, asyncio.Future[bool]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_started = False
        self._unheard: list[Callable[[], object]] = []
        self._is_stopped = False

    # -- core.service.Host --------------------------------------------------------------------------

    sees_receivers: Final = False

    @property
    def max_payload(self) -> int:
        return limits.MAX_PAYLOAD if self._connection is None else self._connection.max_payload

    def subscribe(
        self, subject: bytes, queue: bytes = b"", *, gathered: bool = False, named: bool = False
    ) -> int:
        """Subscribe.

        The publisher of a message is not known here, `named` or not, since only the server knows it.

        A header in which a publisher, or a server for an import, names the publisher is removed.
        """
        if not is_valid_subject(subject):
            raise ValueError(f"not a subject: {subject!r}")
        sid, frame = self._subscriptions.add(subject, queue or None)
        if gathered:
            self._gathered.add(sid)
        if named:
            self._named.add(sid)
        self._queue(frame)
        return sid

    def unsubscribe(self, sid: int) -> None:
        frame = self._subscriptions.remove(sid)
        if frame:
            self._gathered.discard(sid)
            self._named.discard(sid)
            self._queue(frame)

    def open_lane(self, sid: int, lane: Lane) -> None:
        """Ignore the lane: messages of a connection are always delivered."""

    def publish(self, subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b"") -> None:
        if self.outgoing.add(subject, payload, reply=reply, headers=headers):
            self.announce()
        else:  # peers name subjects; one with white space in it reaches nobody
            self._log.debug("STREAM: nothing can be published to %r", subject)

    def announce(self) -> None:
        if self._connection is None:
            self.outgoing.clear()
        else:
            self._write_soon()

    def backlog(self, subject: bytes) -> int | None:
        """Return the bytes that wait for the server; 0 while there is none, since publications are dropped
        then.
        """
        return self.outgoing.size + (self._connection.unsent if self._connection is not None else 0)

    def is_alone(self, subject: bytes) -> bool:
        return True

    def listens(self, subject: bytes, queue: bytes = b"") -> bool:
        return True

    def when_heard(self, function: Callable[[], object]) -> None:
        self._unheard.append(function)
        if self._has_started:
            self._work(self._hear())

    async def _hear(self) -> None:
        """Wait until the server has heard of the subscriptions so far."""
        self._write()
        if self._connection is not None:
            await self._connection.flush(FLUSH_LIMIT)
        unheard, self._unheard = self._unheard, []
        for function in unheard:
            if not self._is_stopped:
                function()

    def call_later(self, seconds: float, function: Callable[[], object]) -> Timer:
        return self._timers.call_later(seconds, function)

    def now_ns(self) -> int:
        return time_ns()

    # -- life ---------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """The first connection; later ones come by themselves. Raises: StartError."""
        try:
            self._connection = await self._open()
        except ServerError as error:
            raise StartError(f"nats: {error.text}") from error
        except ClientError as error:
            raise StartError(f"nats: no servers available for connection: {error}") from error

    async def ask(self, subject: bytes, payload: bytes, within: float) -> bool:
        """Send a request; True if anybody answers it `within` so many seconds.

        False at once if nobody listens.
        """
        inbox = b"_INBOX.%d" % random.getrandbits(64)
        sid = self.subscribe(inbox)
        answer = self._questions[sid] = self._loop.create_future()
        self.publish(subject, payload, reply=inbox)
        await asyncio.wait([answer], timeout=within)
        del self._questions[sid]
        self.unsubscribe(sid)
        return answer.done() and answer.result()

    async def start(self) -> None:
        """Start the service, and wait until the server has heard of all subscriptions.

        Raises: StartError, as the service does; ConnectionLostError when the connection ends meanwhile.
        """
        self.service.start(self)
        await self._hear()
        if self._connection is None:
            raise ConnectionLostError("the connection was lost")
        self._has_started = True

    def stop(self) -> None:
        """Stop the service: no delivery and no timer from here on.

        What the service publishes while it stops is still sent.
        """
        self._is_stopped = True
        self._timers.end()
        self._proof.end()
        self._end_tasks()
        try:
            self.service.stop()
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and the process ends all the same
            self.failed(error)

    async def close(self) -> None:
        """Send what is left and close the connection."""
        self._is_stopped = True
        self._end_tasks()
        self._write()
        connection = self._connection
        if connection is not None:
            await connection.flush(FLUSH_LIMIT)
            self._connection = None
            connection.close()

    def failed(self, error: Exception, at: str = "") -> None:
        """A mistake of the service: it is served on."""
        log_mistake(self._log, type(self.service).__name__, error, at)

    def _work(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.failed(error)

    def _end_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    # -- connecting ---------------------------------------------------------------------------------

    async def _open(self) -> AttachedConnection:
        """The first server that takes us. Raises: ClientError, of the last one; StartError."""
        failure: ClientError = ConnectError("no server is known")
        for address in list(self._known):
            connection = AttachedConnection(
                address, self._login, receive=self._receive, lost=self._lost, said=self._said
            )
            try:
                await connection.open()
            except ClientError as error:
                failure = error
                continue
            self._learn(connection)
            return connection
        raise failure

    def _learn(self, connection: AttachedConnection) -> None:
        """Servers of its cluster, for when this one is gone."""
        for url in connection.info.connect_urls:
            try:
                (address,) = parse_addresses(url)
            except (AddressError, ValueError) as error:
                self._log.debug("STREAM: server address not understood: %s", error)
                continue
            if (address.host, address.port) not in {(one.host, one.port) for one in self._known}:
                self._known.append(address)

    def _lost(self, connection: AttachedConnection, reason: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._frames.clear()
        self.outgoing.clear()
        if self._is_stopped:
            return
        self._log.error('STREAM: connection "%s" has been disconnected: %s', self.name, reason)
        self._work(self._reconnect())

    async def _reconnect(self) -> None:
        backoff, last = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5), ""
        while not self._is_stopped:
            await asyncio.sleep(backoff.next())
            try:
                connection = await self._open()
            except (ClientError, StartError) as error:
                if str(error) != last:
                    last = str(error)
                    self._log.info('STREAM: connection "%s" not back yet: %s', self.name, last)
                continue
            self._connection = connection
            self._queue(self._subscriptions.frames())
            await self._hear()
            if self._connection is connection:  # else it was lost already, and that has been said
                text = 'STREAM: connection "%s" reconnected to NATS Server at "%s"'
                self._log.info(text, self.name, connection.address)
            return

    # -- messages -----------------------------------------------------------------------------------

    def _receive(self, batch: MessageBatch) -> None:
        if batch.has_headers:
            deliveries = [
                self._delivery(head, block or b"", payload)
                for head, block, payload in zip(
                    batch.heads, batch.header_blocks(), batch.payloads, strict=True
                )
                if block is None or not self._is_nobody(head[1], block)
            ]
        else:
            deliveries = [
                Delivery(int(head[1]), head[0], head[2] or b"", b"", payload)
                for head, payload in zip(batch.heads, batch.payloads, strict=True)
            ]
        if self._questions:
            deliveries = [delivery for delivery in deliveries if not self._answers(delivery.sid, said=True)]
        if not deliveries or self._is_stopped:
            return
        if not self._proof.holds():
            self._answer_nobody(deliveries)
            return
        try:
            self.service.deliver(gather(deliveries, self._gathered))
        except Exception as error:  # noqa: BLE001 - a mistake of the service must not end the connection
            self.failed(error)

    def _answer_nobody(self, deliveries: Sequence[Delivery]) -> None:
        """Answer at once as if there were no service: what this one knows may be of the past."""
        answers = Outgoing()
        for delivery in deliveries:
            if delivery.reply:
                answers.add(delivery.reply, b"", headers=NO_RESPONDERS)
        if self._connection is not None and answers.size:
            frames, _ = answers.frames(self._connection.max_payload)
            self._frames.append(frames)
            self._write_soon()

    def _resume(self) -> None:
        """Say what waited for the proof."""
        self._timers.resume()
        self.announce()

    def _delivery(self, head: Head, block: bytes, payload: bytes) -> Delivery:
        subject, sid, reply = head[0], int(head[1]), head[2] or b""
        headers = without_prefix(block, REQUEST_INFO + b":") if sid in self._named else block
        return Delivery(sid, subject, reply, headers, payload)

    def _is_nobody(self, sid: bytes, block: bytes) -> bool:
        """True if a message says that no client listens to a request; that ends the question."""
        if not block.startswith(_NOBODY):
            return False
        self._answers(int(sid), said=False)
        return True

    def _answers(self, sid: int, *, said: bool) -> bool:
        question = self._questions.get(sid)
        if question is not None and not question.done():
            question.set_result(said)
        return question is not None

    def _queue(self, frame: bytes) -> None:
        if self._connection is None:
            return
        self._take_outgoing(self._connection)  # in the order in which it was said
        self._frames.append(frame)
        self._write_soon()

    def _write_soon(self) -> None:
        if not self._write_is_due:
            self._write_is_due = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._write_is_due = False
        connection = self._connection
        if connection is not None:
            self._take_outgoing(connection)
            frames, self._frames = self._frames, []
            if frames:
                connection.write(b"".join(frames))

    def _take_outgoing(self, connection: AttachedConnection) -> None:
        if not self.outgoing.size or not self._proof.holds():
            return
        frames, refused = self.outgoing.frames(connection.max_payload)
        self._frames.append(frames)
        for subject, size in refused:
            self._log.error(
                "STREAM: message of %d bytes for %r not sent: the NATS server takes %d",
                size, subject, connection.max_payload,
            )  # fmt: skip

    def _said(self, text: str) -> None:
        self._log.error('STREAM: asynchronous error on connection "%s": %s', self.name, text)
