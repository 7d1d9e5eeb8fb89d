"""A connection of nats-py's to any server of a cluster; it goes to another one when nothing is answered.

nats-py connects again by itself when its server is gone. What it cannot see is that its server is cut off
from the owner: then whoever waits in vain says so (`failed`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import nats
from nats.errors import Error as ClientError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nats.aio.client import Client

FAILURES: Final = (ClientError, TimeoutError, asyncio.TimeoutError, OSError)
"""What is raised when a server does not answer, or answers that it cannot do something."""
_CONNECT_S: Final = 3.0
_CLOSE_S: Final = 2.0
_STAYING_PING_S: Final = 60


async def _ignored(_error: Exception) -> None:
    """What servers did to a connection; whoever waits for an answer notices."""


class Connection:
    """A connection to one of the servers at these URLs. `first`: the number of the one to try first.

    `stays`: it stays there while nothing is answered, so that it hears what a server says that wakes up.
    """

    def __init__(self, urls: Sequence[str], first: int, *, stays: bool = False) -> None:
        self._stays: Final = stays
        self._urls: Final = list(urls)
        self._at = first
        self._client: Client | None = None
        self._failures = 0

    @property
    def server(self) -> int:
        """The number of the server that it is connected to; of the one that is tried first if it is not."""
        client = self._client
        if client is None or not client.is_connected or client.connected_url is None:
            return self._at
        return self._urls.index(f"nats://{client.connected_url.netloc}")

    async def client(self) -> Client:
        """Return the connection, made now if there is none. Raises: FAILURES."""
        if self._client is not None and self._client.is_closed:
            self._client = None
        if self._client is None:
            order = self._urls[self._at :] + self._urls[: self._at]
            connecting = nats.connect(
                order,
                error_cb=_ignored,
                dont_randomize=True,
                connect_timeout=1,
                reconnect_time_wait=0.1,
                max_reconnect_attempts=-1,
                ping_interval=_STAYING_PING_S if self._stays else 1,
                max_outstanding_pings=2,
            )
            self._client = await asyncio.wait_for(connecting, _CONNECT_S)
        return self._client

    async def failed(self, most: int) -> None:
        """Note that something was not answered; at the `most`th time in a row another server is tried."""
        self._failures += 1
        if self._failures >= most and not self._stays:
            self._failures = 0
            self._at = (self._at + 1) % len(self._urls)
            await self.close()

    def worked(self) -> None:
        """Note that something was answered."""
        self._failures = 0

    async def close(self) -> None:
        """Close the connection, if there is one."""
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            with suppress(*FAILURES):
                await asyncio.wait_for(client.close(), _CLOSE_S)
