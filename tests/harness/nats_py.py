"""What tests must know of nats-py to be right with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nats.aio.client import Client


async def settle(client: Client) -> None:
    """Returns when the server has read everything the client was told to send.

    One `flush()` does not say so: nats-py writes its PING at once but leaves commands to its flusher task, so
    that a PING can overtake the SUB before it. Its PONG arrives after that task has run, and a second PING
    is behind all of it.
    """
    await client.flush()
    await client.flush()
