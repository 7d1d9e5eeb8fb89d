"""NATS Streaming's messages: protobuf bodies of NATS messages, one structure each.

Shapes only; what a server answers is decided in `streaming`, what a client does in `client.stan`. Strings
are bytes as they came, names are those of the .proto files in snake_case, constructors take fields in the
order of their numbers. `encode` and `decode` stand for all of proto3's rules (`protobuf`).
Source: NATS Streaming specification, section 1, cross-checked by tests/conformance/streaming_bytes.json.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

from msgspec import Struct

from headrace.protocol.protobuf import (
    blob,
    boolean,
    int32,
    int64,
    layout,
    read,
    text,
    uint32,
    uint64,
    write,
)

REPLAY_PREFIX: Final = "_STAN.replay."
ADMINISTRATION_PREFIX: Final = "_STAN.admin."
"""The subjects under which plain NATS asks for stored channels, before the cluster ID."""

COMPATIBLE_VERSION: Final = "0.25.6"
"""The nats-streaming-server whose behaviour streaming has; our own version is in the server's lines."""


class StartPosition(IntEnum):
    """The start position of a new subscription. The wire's field is any int32; the server checks it."""

    NEW_ONLY = 0
    LAST_RECEIVED = 1
    TIME_DELTA_START = 2
    SEQUENCE_START = 3
    FIRST = 4


class CtrlType(IntEnum):
    """The kind of a `CtrlMsg`."""

    FT_HEARTBEAT = 3
    PARTITIONING = 4


class _Message(Struct, frozen=True):
    """The methods of every message."""

    def encode(self) -> bytes:
        """The message's bytes. Raises: ValueError for a number that its field's type cannot hold."""
        return write(self, layout(type(self)))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The message in `data`. Raises: ProtocolError when it is none."""
        return cls(*read(data, layout(cls)))


# -- publish, deliver, acknowledge ----------------------------------------------------------------


class PubMsg(_Message, frozen=True):
    """A message for a channel; `conn_id`, when there, decides who sent it."""

    client_id: bytes = text(1)
    guid: bytes = text(2)
    subject: bytes = text(3)
    reply: bytes = text(4)
    data: bytes = blob(5)
    conn_id: bytes = blob(6)
    sha256: bytes = blob(10)


class PubAck(_Message, frozen=True):
    """The message with this guid is stored, or `error` says why not."""

    guid: bytes = text(1)
    error: bytes = text(2)


class MsgProto(_Message, frozen=True):
    """A stored message on its way to a subscription; `timestamp` in ns since 1970 UTC."""

    sequence: int = uint64(1)
    subject: bytes = text(2)
    reply: bytes = text(3)
    data: bytes = blob(4)
    timestamp: int = int64(5)
    redelivered: bool = boolean(6)
    redelivery_count: int = uint32(7)
    crc32: int = uint32(10)


class Ack(_Message, frozen=True):
    """The acknowledgement of one message of a channel."""

    subject: bytes = text(1)
    sequence: int = uint64(2)


# -- connections ----------------------------------------------------------------------------------


class ConnectRequest(_Message, frozen=True):
    """A client announces itself; `ping_interval` in seconds, protocol 1 has `conn_id` and pings."""

    client_id: bytes = text(1)
    heartbeat_inbox: bytes = text(2)
    protocol: int = int32(3)
    conn_id: bytes = blob(4)
    ping_interval: int = int32(5)
    ping_max_out: int = int32(6)


class ConnectResponse(_Message, frozen=True):
    """The subjects of a server; those for pings only from protocol 1 on."""

    pub_prefix: bytes = text(1)
    sub_requests: bytes = text(2)
    unsub_requests: bytes = text(3)
    close_requests: bytes = text(4)
    error: bytes = text(5)
    sub_close_requests: bytes = text(6)
    ping_requests: bytes = text(7)
    ping_interval: int = int32(8)
    ping_max_out: int = int32(9)
    protocol: int = int32(10)
    public_key: bytes = text(100)


class Ping(_Message, frozen=True):
    """A question to the server: is this connection still the one that it knows?"""

    conn_id: bytes = blob(1)


class PingResponse(_Message, frozen=True):
    """Yes, unless there is an error."""

    error: bytes = text(1)


class CloseRequest(_Message, frozen=True):
    """A client leaves."""

    client_id: bytes = text(1)


class CloseResponse(_Message, frozen=True):
    """A client has left, unless there is an error."""

    error: bytes = text(1)


# -- subscriptions --------------------------------------------------------------------------------


class SubscriptionRequest(_Message, frozen=True):
    """A subscription to a channel; `start_time_delta` in ns before now."""

    client_id: bytes = text(1)
    subject: bytes = text(2)
    q_group: bytes = text(3)
    inbox: bytes = text(4)
    max_in_flight: int = int32(5)
    ack_wait_in_secs: int = int32(6)
    durable_name: bytes = text(7)
    start_position: int = int32(10)
    start_sequence: int = uint64(11)
    start_time_delta: int = int64(12)


class SubscriptionResponse(_Message, frozen=True):
    """The subject of a subscription's acknowledgements; also the answer to unsubscribing, without one."""

    ack_inbox: bytes = text(2)
    error: bytes = text(3)


class UnsubscribeRequest(_Message, frozen=True):
    """Ends or closes a subscription; `inbox` is the ack inbox of its response."""

    client_id: bytes = text(1)
    subject: bytes = text(2)
    inbox: bytes = text(3)
    durable_name: bytes = text(4)


# -- between servers, and in their stores ---------------------------------------------------------


class SubState(_Message, frozen=True):
    """A subscription as a store keeps it."""

    id: int = uint64(1)
    client_id: bytes = text(2)
    q_group: bytes = text(3)
    inbox: bytes = text(4)
    ack_inbox: bytes = text(5)
    max_in_flight: int = int32(6)
    ack_wait_in_secs: int = int32(7)
    durable_name: bytes = text(8)
    last_sent: int = uint64(9)
    is_durable: bool = boolean(10)
    is_closed: bool = boolean(11)


class SubStateDelete(_Message, frozen=True):
    """A subscription is gone."""

    id: int = uint64(1)


class SubStateUpdate(_Message, frozen=True):
    """A message was sent to a subscription, or acknowledged by it."""

    id: int = uint64(1)
    seqno: int = uint64(2)


class ServerInfo(_Message, frozen=True):
    """A server's cluster ID and subjects, kept from its first start on."""

    cluster_id: bytes = text(1)
    discovery: bytes = text(2)
    publish: bytes = text(3)
    subscribe: bytes = text(4)
    unsubscribe: bytes = text(5)
    close: bytes = text(6)
    sub_close: bytes = text(7)
    acks_subs: bytes = text(8)
    node_id: bytes = text(9)


class ClientInfo(_Message, frozen=True):
    """A registered client as a store keeps it; `ping_interval` in seconds.

    `owner`, which the reference has not: account and user that registered it, empty where there are no users.
    """

    id: bytes = text(1)
    hb_inbox: bytes = text(2)
    conn_id: bytes = blob(3)
    protocol: int = int32(4)
    ping_interval: int = int32(5)
    ping_max_out: int = int32(6)
    owner: bytes = blob(200)


class ClientDelete(_Message, frozen=True):
    """A client is gone."""

    id: bytes = text(1)


class CtrlMsg(_Message, frozen=True):
    """A message between servers; `msg_type` is a `CtrlType`, or unknown."""

    msg_type: int = int32(1)
    server_id: bytes = text(2)
    data: bytes = blob(3)
