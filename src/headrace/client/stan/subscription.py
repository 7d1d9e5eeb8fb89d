"""Subscriptions and their messages, from arrival to acknowledgement.

Here live the bounded queue between NATS and the consumer, automatic acknowledgement, and what a start
position is on the wire; requests to the server are the client's. Source: NATS Streaming specification,
sections 5, 6 and 12.
"""

from __future__ import annotations

import asyncio
import inspect
import time as clock
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from headrace.client.errors import ClientError
from headrace.client.stan.errors import BAD_SUBSCRIPTION, StanError
from headrace.errors import ProtocolError
from headrace.protocol.stan import Ack, MsgProto, StartPosition

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


SPARE_PLACES: Final = 64
"""Places in a subscription's queue beyond twice its max_in_flight. What finds none is not acknowledged, so
that the server sends it again after the subscription's ack wait; `Subscription.refused` counts these."""


class SubscribingClient(Protocol):
    """The methods of the client that a subscription uses."""

    async def send_ack(self, ack_inbox: str, ack: bytes) -> None:
        """Send an acknowledgement. Raises: ClientError."""

    async def leave(self, subscription: Subscription, *, for_good: bool) -> None:
        """Tell the server. Raises: ClientError."""

    def failed(self, subscription: Subscription, what: str, error: Exception) -> None:
        """Report a failure that has no caller."""


class Start(Struct, frozen=True):
    """The start position of a subscription, as in its request."""

    position: StartPosition = StartPosition.NEW_ONLY
    sequence: int = 0
    delta_ns: int = 0


def start_of(
    start_at: StartPosition | None,
    sequence: int | None,
    time: datetime | None,
    time_delta: timedelta | None,
) -> Start:
    """The one start that was asked for; none is the next new message.

    Raises: ValueError for more than one, for a position without what it needs, and for a time without zone.
    """
    implied = [
        (StartPosition.SEQUENCE_START, sequence is not None),
        (StartPosition.TIME_DELTA_START, time is not None),
        (StartPosition.TIME_DELTA_START, time_delta is not None),
    ]
    given = [position for position, there in implied if there]
    if len(given) > 1:
        raise ValueError("give one of sequence, time and time_delta")
    needs_more = start_at in (StartPosition.SEQUENCE_START, StartPosition.TIME_DELTA_START)
    if start_at is not None and (given or needs_more) and given != [start_at]:
        raise ValueError(f"start_at={start_at.name} does not fit what else is said of the start")
    if sequence is not None:
        return Start(StartPosition.SEQUENCE_START, sequence)
    if time is not None:
        if time.tzinfo is None:
            raise ValueError("a time to start at needs a time zone")
        return Start(StartPosition.TIME_DELTA_START, delta_ns=max(0, clock.time_ns() - time_ns(time)))
    if time_delta is not None:
        return Start(StartPosition.TIME_DELTA_START, delta_ns=max(0, delta_ns(time_delta)))
    return Start(StartPosition.NEW_ONLY if start_at is None else start_at)


def time_ns(time: datetime) -> int:
    return delta_ns(time - datetime(1970, 1, 1, tzinfo=UTC))


def delta_ns(delta: timedelta) -> int:
    """Exact, where `total_seconds()` loses microseconds."""
    return ((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds) * 1_000


class Message(Struct, eq=False):
    """A delivered message. `timestamp` is when the server stored it, in ns since 1970 UTC."""

    subscription: Subscription
    sequence: int
    channel: str
    reply: str
    data: bytes
    timestamp: int
    redelivered: bool
    redelivery_count: int
    acknowledged: bool = False

    async def ack(self) -> None:
        """Acknowledge the message, at once; needed with `manual_acks`, allowed without.

        The server does not answer. Raises: StanError when the subscription has ended.
        """
        await self.subscription._acknowledge(self)


class Subscription:
    """A subscription to a channel: with a callback, or to be iterated over. Made by `Client.subscribe`.

    Without `manual_acks` a message is acknowledged when the callback has returned, or when the loop over the
    subscription asks for the next one. A callback that raised, a loop that was left: the message is not
    acknowledged and will come again.
    """

    def __init__(
        self,
        owner: SubscribingClient,
        channel: str,
        inbox: str,
        *,
        queue: str = "",
        durable_name: str = "",
        max_in_flight: int,
        manual_acks: bool,
        callback: Callable[[Message], object] | None,
    ) -> None:
        self.channel = channel
        self.inbox = inbox
        self.queue = queue
        self.durable_name = durable_name
        self.manual_acks = manual_acks
        self.ack_inbox = ""
        """The subject of acknowledgements; empty until the server has answered."""
        self.refused = 0
        """Messages that were not taken, because the consumer is too far behind or they are malformed."""
        self._owner = owner
        self._callback = callback
        self._places = 2 * max_in_flight + SPARE_PLACES
        self._waiting: OrderedDict[int, Message] = OrderedDict()
        self._news = asyncio.Event()
        self._ended = False
        self._end_error: ClientError | None = None
        self._task: asyncio.Task[None] | None = None

    # -- for the application ----------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Messages that arrived and wait for the consumer."""
        return len(self._waiting)

    @property
    def closed(self) -> bool:
        return self._ended

    async def unsubscribe(self) -> None:
        """End the subscription for good: of a durable one the server forgets where it was.

        Raises: StanTimeoutError; StanError with the server's text, or when it ended before.
        """
        await self._owner.leave(self, for_good=True)

    async def close(self) -> None:
        """End the subscription here; a durable one can be opened again and go on where it was.

        Raises: as `unsubscribe`, and StanError when the server knows no such request.
        """
        await self._owner.leave(self, for_good=False)

    async def __aiter__(self) -> AsyncGenerator[Message, None]:
        """The messages, until the subscription or the client is closed.

        Raises: RuntimeError when there is a callback; StanConnectionLostError when the connection is lost.
        """
        if self._callback is not None:
            raise RuntimeError("this subscription's messages go to its callback")
        while (message := await self._take()) is not None:
            yield message
            await self._acknowledge_automatically(message)

    # -- for the client ---------------------------------------------------------------------------

    def begin(self, ack_inbox: str) -> None:
        """The server has accepted the subscription."""
        self.ack_inbox = ack_inbox
        if self._callback is not None:
            self._task = asyncio.get_running_loop().create_task(
                self._consume(self._callback), name=f"stan-{self.channel}"
            )

    def arrive(self, data: bytes) -> None:
        """A message from NATS. One that still waits here is not queued again when it is redelivered."""
        try:
            arrived = MsgProto.decode(data)
        except ProtocolError as error:
            self.refused += 1
            self._owner.failed(self, "a malformed message was ignored", error)
            return
        if self._ended or arrived.sequence in self._waiting:
            return
        if len(self._waiting) >= self._places:
            self.refused += 1
            return
        self._waiting[arrived.sequence] = Message(
            self,
            arrived.sequence,
            arrived.subject.decode(errors="surrogateescape"),
            arrived.reply.decode(errors="surrogateescape"),
            arrived.data,
            arrived.timestamp,
            arrived.redelivered,
            arrived.redelivery_count,
        )
        self._news.set()

    def end(self, error: ClientError | None = None) -> None:
        """Deliver no more messages: iterations get `error`, or end. A callback that runs may finish."""
        if self._ended:
            return
        self._ended = True
        self._end_error = error
        self._waiting.clear()
        self._news.set()

    # -- the consumer -----------------------------------------------------------------------------

    async def _take(self) -> Message | None:
        """The next message; None when the subscription was closed. Raises: the error it ended with."""
        while not self._waiting:
            if self._ended:
                if self._end_error is not None:
                    raise self._end_error
                return None
            self._news.clear()
            await self._news.wait()
        return self._waiting.popitem(last=False)[1]

    async def _consume(self, callback: Callable[[Message], object]) -> None:
        while True:
            try:
                message = await self._take()
            except ClientError:
                return  # the client has told the application that the connection is lost
            if message is None:
                return
            try:
                result = callback(message)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:  # noqa: BLE001 - the application's; the next message is none of its fault
                self._owner.failed(self, "a callback raised; its message is not acknowledged", error)
                continue
            await self._acknowledge_automatically(message)

    async def _acknowledge_automatically(self, message: Message) -> None:
        if self.manual_acks or message.acknowledged or self._ended:
            return
        try:
            await self._acknowledge(message)
        except ClientError as error:
            self._owner.failed(self, "a message could not be acknowledged", error)

    async def _acknowledge(self, message: Message) -> None:
        if self._ended:
            raise StanError(BAD_SUBSCRIPTION)
        ack = Ack(message.channel.encode(errors="surrogateescape"), message.sequence)
        await self._owner.send_ack(self.ack_inbox, ack.encode())
        message.acknowledged = True
