"""The rule for a lost connection: pings without an answer, or an answer that this client was replaced.

Only that rule and its timer live here; what losing means is the client's.
Source: NATS Streaming specification, sections 3 and 12.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.client.stan.errors import PINGS_UNANSWERED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Pings:
    """A ping every `interval` seconds, as long as no more than `max_out` in a row are unanswered."""

    def __init__(
        self,
        send: Callable[[], Awaitable[None]],
        lost: Callable[[str], None],
        interval: float,
        max_out: int,
    ) -> None:
        """Send pings by `send`, and take the answers.

        `lost` is called with the reason, once at most. `send` must not raise.
        """
        self._send = send
        self._lost = lost
        self._interval = interval
        self._max_out = max_out
        self._unanswered = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="stan-pings")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def answered(self, error: str) -> None:
        """An answer came; with an error in it, the connection is lost."""
        self._unanswered = 0
        if error:
            self._end(error)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            self._unanswered += 1
            if self._unanswered > self._max_out:
                return self._end(PINGS_UNANSWERED)
            await self._send()

    def _end(self, reason: str) -> None:
        if self._task is not None:
            self.stop()
            self._lost(reason)
