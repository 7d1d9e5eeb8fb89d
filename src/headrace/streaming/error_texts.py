"""Every error text that a streaming client may read, exactly as nats-streaming-server spells it.

Clients compare these strings. Nothing else lives here. Source: streaming specification, 3 to 8.
"""

from __future__ import annotations

from typing import Final

INVALID_CONNECT: Final = b"stan: invalid connection request"
INVALID_CLIENT_ID: Final = b"stan: invalid clientID: only alphanumeric and `-` or `_` characters allowed"
CLIENT_REGISTERED: Final = b"stan: clientID already registered"
CLIENT_REPLACED: Final = b"client has been replaced or is no longer registered"
UNKNOWN_CLIENT: Final = b"stan: unknown clientID"
CLIENT_OF_ANOTHER: Final = b"stan: clientID belongs to another user"
"""The text for a client ID of another user. It is ours: in the reference every user may use every ID."""
INVALID_CLOSE: Final = b"stan: invalid close request"

INVALID_PUBLISH: Final = b"stan: invalid publish request"
CHANNEL_DELETED: Final = b"stan: channel is being deleted"
TOO_MANY_CHANNELS: Final = b"too many channels"

INVALID_SUBSCRIPTION_REQUEST: Final = b"stan: invalid subscription request"
CLIENT_ID_MISSING: Final = b"stan: clientID missing"
INVALID_ACK_WAIT: Final = b"stan: invalid ack wait time, should be >= 1s"
INVALID_MAX_IN_FLIGHT: Final = b"stan: invalid MaxInflight, should be >= 1"
INVALID_START: Final = b"stan: invalid start position"
INVALID_SUBJECT: Final = b"stan: invalid subject"
TOO_MANY_SUBSCRIPTIONS: Final = b"too many subscriptions per channel"
INVALID_DURABLE_NAME: Final = (
    b"stan: durable name of a durable queue subscriber can't contain the character ':'"
)
DUPLICATE_DURABLE: Final = b"stan: duplicate durable registration"

INVALID_UNSUBSCRIBE: Final = b"stan: invalid unsubscribe request"
NO_CHANNELS: Final = "stan: no configured channel"
UNKNOWN_CHANNEL: Final = b"stan: unknown channel"
INVALID_SUBSCRIPTION: Final = b"stan: invalid subscription"


def different_case(name: bytes, existing: bytes) -> bytes:
    """The refusal of a channel whose name differs from another only by case (the reference's spelling)."""
    return (
        b'rejecting channel "'
        + name
        + b'" because channel "'
        + existing
        + b'" alreay exists (different cases not allowed)'
    )


def failed_to_start(reason: str) -> str:
    """The line that a start ends with; tools look for its beginning."""
    return f"STREAM: Failed to start: {reason}"


def other_server(cluster_id: str) -> str:
    return f'discovered another streaming server with cluster ID "{cluster_id}"'


def channel_conflict(channel: str, server_id: str) -> str:
    return f'channel "{channel}" causes conflict with channels on server "{server_id}"'


def other_cluster(cluster_id: str, recovered: str) -> str:
    return f'cluster ID "{cluster_id}" does not match recovered value of "{recovered}"'
