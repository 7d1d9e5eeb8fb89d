"""A channel that is a JetStream stream too: what each of the two is told of the other.

One log has the messages of both. Here live the port to the stream, and what of a durable subscription goes
over to a consumer. Never lives here: JetStream (`headrace.adopting` ties both together).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.engine.stan import Publications


class Position(Struct, frozen=True):
    """How far a durable subscription is. `pending`: sequences sent and not acknowledged, ascending."""

    last_sent: int
    pending: Sequence[int]
    max_in_flight: int
    ack_wait_ns: int


class Refused(Exception):
    """The stream cannot do that; the text says why."""


class Twin(Protocol):
    """The stream over a channel's log. Called in the service's turns."""

    @property
    def name(self) -> str: ...

    def appended(self, first: int, count: int) -> None:
        """Messages were appended to the log through the channel; not durable yet."""

    def committed(self, first: int, batch: Publications) -> None:
        """They are now."""

    def removed(self) -> None:
        """Messages were removed through the channel."""

    def carry(self, consumer: str, position: Position, done: Callable[[Exception | None], None]) -> None:
        """Makes a durable consumer that goes on from there; `done` is called when it is durable.

        Raises: Refused.
        """
