"""The contents of a foreign store, free of its format: messages, subscriptions with pending sequences.

Server information and clients are the structures of `protocol.stan`: the store keeps exactly those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from headrace.protocol.stan import SubState


class SourceChannelMessage(NamedTuple):
    """A message as the store has it; `time_ns` since 1970 UTC."""

    sequence: int
    time_ns: int
    reply: bytes
    payload: bytes


class SourceSubscription(Struct, frozen=True):
    """A subscription and what it was sent and has not acknowledged, ascending.

    `state.last_sent` is the highest sequence it was ever sent, whichever record said so.
    """

    state: SubState
    pending: tuple[int, ...]
