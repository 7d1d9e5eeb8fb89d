"""Publishing with acknowledgements: which messages are on their way, and what became of each.

The window of unacknowledged messages, their order and their one timer live here; subjects of other requests
never do. Source: NATS Streaming specification, sections 4 and 12.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.stan.errors import CLOSED, PUBLISH_TIMEOUT, StanClosedError, StanError, StanTimeoutError
from headrace.protocol.stan import PubMsg

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.errors import HeadraceError
    from headrace.protocol.stan import PubAck

    AckHandler = Callable[[str, HeadraceError | None], object]


_NOT_IN_SUBJECTS: Final = re.compile(r"[\s\0]")
"""Characters that would end a subject on the wire.

The server refuses every other error, with its own texts.
"""


class _OnItsWay(NamedTuple):
    future: asyncio.Future[str]
    deadline: float
    on_ack: AckHandler | None


class PublishWindow:
    """The publisher of one connection: `window` messages under way at most, each with `timeout` seconds to be
    acknowledged.
    """

    def __init__(
        self,
        send: Callable[[str, bytes], Awaitable[None]],
        client_id: bytes,
        conn_id: bytes,
        *,
        window: int,
        timeout: float,
    ) -> None:
        """Publish for one client.

        `send(channel, message)` hands a message to NATS; what it raises is the publisher's caller's.
        """
        self._send = send
        self._client_id = client_id
        self._conn_id = conn_id
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(window)
        self._on_their_way: OrderedDict[bytes, _OnItsWay] = OrderedDict()  # in order of their deadlines
        self._timer: asyncio.TimerHandle | None = None
        self._guid_start = secrets.token_hex(8)
        self._guids = 0
        self._ended = False

    @property
    def unacknowledged(self) -> int:
        """Messages on their way."""
        return len(self._on_their_way)

    async def publish(self, channel: str, data: bytes, on_ack: AckHandler | None) -> asyncio.Future[str]:
        """Send a message as soon as the window has room.

        Raises: what `send` does; StanClosedError; ValueError for a channel that cannot be part of a subject.
        """
        if not channel or _NOT_IN_SUBJECTS.search(channel):
            raise ValueError(f"{channel!r} cannot be a channel's name")
        await self._slots.acquire()
        if self._ended:
            self._slots.release()  # lets the next one that waits find out
            raise StanClosedError(CLOSED)
        self._guids += 1
        guid = f"{self._guid_start}{self._guids:x}"
        name = guid.encode()
        message = PubMsg(self._client_id, name, channel.encode(), data=data, conn_id=self._conn_id).encode()
        future = self._loop.create_future()
        self._on_their_way[name] = _OnItsWay(future, self._loop.time() + self._timeout, on_ack)
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout, self._expire)
        try:
            await self._send(channel, message)
        except BaseException:
            if self._on_their_way.pop(name, None) is not None:
                self._slots.release()
            future.cancel()
            raise
        return future

    def acknowledge(self, ack: PubAck) -> None:
        """Take the acknowledgement of one message; one that nobody waits for any more is ignored."""
        self._settle(ack.guid, StanError(ack.error.decode(errors="replace")) if ack.error else None)

    def end(self, reason: StanError) -> None:
        """Fail what is on its way with `reason`, and from now on everything else as closed."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for guid in list(self._on_their_way):
            self._settle(guid, type(reason)(*reason.args))  # one each: a raised exception has a traceback

    def _settle(self, guid: bytes, error: HeadraceError | None) -> None:
        entry = self._on_their_way.pop(guid, None)
        if entry is None:
            return
        self._slots.release()
        text = guid.decode()
        if entry.on_ack is not None:
            self._loop.call_soon(entry.on_ack, text, error)
        if entry.future.done():  # its caller gave up
            return
        if error is None:
            entry.future.set_result(text)
            return
        entry.future.set_exception(error)
        if entry.on_ack is not None:
            entry.future.exception()  # whoever has a handler need not look at the future as well

    def _expire(self) -> None:
        """Fail what is overdue and set the timer for the oldest that is not."""
        self._timer = None
        now = self._loop.time()
        while self._on_their_way:
            guid, entry = next(iter(self._on_their_way.items()))
            if entry.deadline > now:
                self._timer = self._loop.call_at(entry.deadline, self._expire)
                return
            self._settle(guid, StanTimeoutError(PUBLISH_TIMEOUT))
