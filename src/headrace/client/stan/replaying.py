"""Stored messages as an asynchronous iteration, asked for in parts of bounded size.

While the consumer works on one part the next one is under way, no more: nats-py's queue stays small, whatever
the server has. Registration is not needed, and nothing is acknowledged. Source: `headrace.protocol.replay`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.client.errors import NoRespondersError, StreamingRefusedError
from headrace.client.stan.errors import CLOSED, StanClosedError, StanTimeoutError, translated
from headrace.client.stan.subscription import delta_ns, time_ns
from headrace.errors import ProtocolError
from headrace.protocol.replay import (
    EOB,
    Cursor,
    Ranges,
    ReplayRequest,
    merge_damage,
    read_damage,
)
from headrace.protocol.rfc3339 import parse_time
from headrace.protocol.stan import REPLAY_PREFIX

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from datetime import datetime, timedelta

    from nats.aio.client import Client as NatsClient
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription as NatsSubscription

REPLAY_TIMEOUT: Final = 30.0
PART_BYTES: Final = 1 << 20
"""About as many bytes of messages are asked for at once; two such parts are held at most."""
_LOOK_EVERY: Final = 0.5
"""Seconds between two looks at the connection while nothing comes."""
_NO_RESPONDERS: Final = 503
_TIMEOUT_TEXT: Final = "stan: replay request timeout"
_STATUS: Final = "Status"


class StoredMessage(Struct, frozen=True):
    """A message as it is stored; `timestamp` in ns since 1970 UTC. `headers`: all that came with it."""

    channel: str
    sequence: int
    timestamp: int
    data: bytes
    reply: str
    headers: Mapping[str, str]


def replay_request(
    channel: str,
    *,
    start_sequence: int | None,
    start_time: datetime | None,
    time_delta: timedelta | None,
    end_sequence: int | None,
    end_time: datetime | None,
    max_messages: int | None,
    order: str,
) -> ReplayRequest:
    """Make the request of a replay. Raises: ValueError for a request that contradicts itself."""
    if sum(start is not None for start in (start_sequence, start_time, time_delta)) > 1:
        raise ValueError("give one of start_sequence, start_time and time_delta")
    if order not in ("", "time", "channel"):
        raise ValueError(f"order {order!r} is not time or channel")
    for moment in (start_time, end_time):
        if moment is not None and moment.tzinfo is None:
            raise ValueError("a time needs a time zone")
    for number in (end_sequence, max_messages):
        if number is not None and number < 1:
            raise ValueError("end_sequence and max_messages begin with 1")
    return ReplayRequest(
        channel.encode(errors="surrogateescape"),
        start_sequence or 0,
        None if start_time is None else time_ns(start_time),
        None if time_delta is None else max(delta_ns(time_delta), 0),
        end_sequence or 0,
        None if end_time is None else time_ns(end_time),
        max_messages or 0,
        PART_BYTES,
        order,
    )


class Replay:
    """One replay, made by `Client.replay`; iterate over it with `async for`, as often as wanted."""

    def __init__(self, nats: NatsClient, cluster_id: str, request: ReplayRequest, patience: float) -> None:
        self.damaged: dict[bytes, Ranges] = {}
        """Messages the server could not read: ranges of sequences by channel. Complete when all came."""
        self._nats = nats
        self._subject = f"{REPLAY_PREFIX}{cluster_id}"
        self._request = request
        self._patience = patience

    async def __aiter__(self) -> AsyncGenerator[StoredMessage, None]:
        """The messages. Raises: StreamingRefusedError with the server's text, such as 404 for no channel;
        NoRespondersError; StanTimeoutError; StanClosedError; ClientError for what NATS refuses.
        """
        self.damaged.clear()
        run = _Run(self._nats, self._subject, self._request, self._patience)
        try:
            await run.begin()
            while True:
                part = await run.part(self.damaged)
                while part:
                    yield part.popleft()
                if run.is_over:
                    return
        finally:
            await run.end()


class _Run:
    """One iteration: its inbox, what has been asked for, what has arrived.

    A part that NATS reconnected in the middle of may have a hole: it is thrown away and asked for again, over
    an inbox that nothing is under way to.
    """

    def __init__(self, nats: NatsClient, subject: str, request: ReplayRequest, patience: float) -> None:
        self._nats = nats
        self._subject = subject
        self._request = request
        self._patience = patience
        self._subscription: NatsSubscription | None = None
        self._arrived: deque[Msg] = deque()
        self._news = asyncio.Event()
        self._reconnects = 0
        self.is_over = False

    async def begin(self) -> None:
        from nats import errors

        arrived = self._arrived = deque()

        async def arrive(message: Msg) -> None:
            arrived.append(message)
            self._news.set()

        self._reconnects = self._nats.stats["reconnects"]
        try:
            self._subscription = await self._nats.subscribe(self._nats.new_inbox(), cb=arrive)
        except errors.Error as error:
            raise translated(error) from error
        await self._ask()

    async def end(self) -> None:
        from nats import errors

        subscription, self._subscription = self._subscription, None
        # A connection that is closed or draining has no subscriptions left to end.
        with contextlib.suppress(errors.Error):
            if subscription is not None:
                await subscription.unsubscribe()

    async def _ask(self) -> None:
        from nats import errors

        if self._subscription is None:
            raise StanClosedError(CLOSED)
        try:
            await self._nats.publish(self._subject, self._request.encode(), reply=self._subscription.subject)
        except errors.Error as error:
            raise translated(error) from error

    async def part(self, damaged: dict[bytes, Ranges]) -> deque[StoredMessage]:
        """Return the messages of one part of the replay; the request for the next part is sent already."""
        messages: deque[StoredMessage] = deque()
        while True:
            message = await self._next()
            if message is None:
                messages.clear()
                await self.end()
                await self.begin()
                continue
            headers = message.headers or {}
            if _STATUS not in headers:
                messages.append(_stored(message.data, headers))
                continue
            code = int(headers[_STATUS]) if headers[_STATUS].isdigit() else 0
            if code == _NO_RESPONDERS:
                raise NoRespondersError("no streaming server of this cluster ID answers")
            if code != EOB:
                raise StreamingRefusedError(code, headers.get("Description", ""))
            listed = headers.get("Nats-Damaged", "").encode(errors="surrogateescape")
            merge_damage(read_damage(listed), damaged)
            await self._go_on(headers, len(messages))
            return messages

    async def _go_on(self, headers: Mapping[str, str], count: int) -> None:
        request, after = self._request, headers.get("Nats-Replay-After")
        left = request.max_messages - count if request.max_messages else 0
        if (
            headers.get("Nats-Num-Pending", "0") == "0"
            or after is None
            or (request.max_messages and left <= 0)
        ):
            self.is_over = True
            return
        try:
            self._request = replace(request, after=Cursor.read(after), max_messages=left)
        except ValueError as error:
            raise ProtocolError(f"Nats-Replay-After: {error}") from error
        await self._ask()

    async def _next(self) -> Msg | None:
        """The next message; None when the part must be asked for again. Raises: StanTimeoutError."""
        deadline = asyncio.get_running_loop().time() + self._patience
        while self._nats.stats["reconnects"] == self._reconnects:
            if self._arrived:
                return self._arrived.popleft()
            remaining = deadline - asyncio.get_running_loop().time()
            if self._nats.is_closed:
                raise StanClosedError(CLOSED)
            if remaining <= 0:
                raise StanTimeoutError(_TIMEOUT_TEXT)
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(remaining, _LOOK_EVERY)):
                    await self._news.wait()
        return None


def _stored(data: bytes, headers: Mapping[str, str]) -> StoredMessage:
    """Return the stored message that one message of a replay carries. Raises: ProtocolError."""
    try:
        return StoredMessage(
            headers["Nats-Stream"],
            int(headers["Nats-Sequence"]),
            parse_time(headers["Nats-Time-Stamp"]),
            data,
            headers.get("Nats-Reply", ""),
            headers,
        )
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"not a replayed message: {error!r}") from error
