"""A client of NATS Streaming for asyncio, over a connection of nats-py.

    async with await stan.connect("test-cluster", "me", servers="nats://127.0.0.1:4222") as client:
        await client.publish("orders", b"one")
        async for message in await client.subscribe("orders", start_at=stan.StartPosition.FIRST): ...

Reading order: `connection`, `publishing`, `subscription`, `replaying`, `liveness`, `errors`. nats-py is
imported by `connect`, not before. Nothing of a server lives here, nothing that blocks.
"""

from headrace.client.stan.connection import Client, connect
from headrace.client.stan.errors import (
    StanClosedError,
    StanConnectionLostError,
    StanError,
    StanTimeoutError,
)
from headrace.client.stan.replaying import Replay, StoredMessage
from headrace.client.stan.subscription import Message, Subscription
from headrace.protocol.stan import StartPosition

__all__ = [
    "Client",
    "Message",
    "Replay",
    "StanClosedError",
    "StanConnectionLostError",
    "StanError",
    "StanTimeoutError",
    "StartPosition",
    "StoredMessage",
    "Subscription",
    "connect",
]
