"""The contents of a store of nats-server, free of its format."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from headrace.jetstream.consumer.ack_state import ConsumerState
    from headrace.protocol.jetstream.configs import ConsumerConfig


class SourceStreamMessage(NamedTuple):
    """A message as the store has it; `time_ns` since 1970 UTC, `headers` the block of the wire."""

    sequence: int
    time_ns: int
    subject: bytes
    headers: bytes
    payload: bytes


class SourceConsumer(Struct, frozen=True):
    """A consumer of a foreign store. `state` is None when nothing was ever stored of it."""

    name: str
    config: ConsumerConfig
    created_ns: int
    state: ConsumerState | None


class Extent(Struct, frozen=True):
    """The extent of a stream. The message of its last sequence may be gone; time 0: unknown."""

    first_sequence: int
    last_sequence: int
    last_time_ns: int
