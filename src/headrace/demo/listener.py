"""An independent client on the result subjects: nats-py in a thread, which keeps the last message of each.

It only listens. Core subjects keep nothing, so what is published while the server is away is not heard; each
micro-batch publishes the whole result again, and the last word of each subject is what counts.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

import nats

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from nats.aio.msg import Msg

READY_LIMIT: Final = 30.0
"""Seconds until the subscription must stand, and until the thread must be through."""

_RECONNECT_AFTER: Final = 0.05
_ATTEMPTS: Final = round(READY_LIMIT / _RECONNECT_AFTER)


class ListenerError(HeadraceError):
    """The results of the demonstration cannot be listened to; the text says why."""


class PayloadListener:
    """Subscribes to `subject` until `close`; `last` has the newest payload of each subject that matched.

    It survives outages of the server: nats-py connects and subscribes again.
    """

    def __init__(self, url: str, subject: str) -> None:
        self._url = url
        self._subject = subject
        self.last: dict[str, bytes] = {}
        self._ready: Future[None] = Future()
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="demo-listener", daemon=True)

    def start(self) -> None:
        """Wait until messages are heard. Raises: ListenerError."""
        self._thread.start()
        try:
            self._ready.result(READY_LIMIT)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise ListenerError(
                f"cannot listen to {self._subject}: {error or type(error).__name__}"
            ) from error

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(READY_LIMIT)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._listen())
        except (nats.errors.Error, OSError) as error:
            if self._ready.done():  # an outage too long: the results that are missing will show
                return
            self._ready.set_exception(error)
        finally:
            self._loop.close()

    async def _listen(self) -> None:
        async def heard(message: Msg) -> None:
            self.last[message.subject] = message.data

        async def failed(_error: Exception) -> None:
            """An outage, over which it connects again; `start` hears of a first connection that fails."""

        connection = await nats.connect(
            self._url, name="headrace-demo-listener", max_reconnect_attempts=_ATTEMPTS,
            reconnect_time_wait=_RECONNECT_AFTER, error_cb=failed,
        )  # fmt: skip
        try:
            await connection.subscribe(self._subject, cb=heard)
            await connection.flush()
            self._ready.set_result(None)
            await self._closing.wait()
        finally:
            await connection.close()
