"""The stream of a shared channel, as the streaming service sees it (`streaming { adopt }`).

A channel and its JetStream stream have one log. Here live the port to the stream, and the position that a
durable subscription hands to a consumer. Never lives here: JetStream (`headrace.shared_channels` connects the
services).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.engine.stan import Publications


class DurablePosition(Struct, frozen=True):
    """The position of a durable subscription. `pending`: sequences sent and not acknowledged, ascending."""

    last_sent: int
    pending: Sequence[int]
    max_in_flight: int
    ack_wait_ns: int


class ConversionRefused(Exception):
    """The durable subscription cannot become a consumer of the stream; the text says why."""


class SharedStream(Protocol):
    """The stream over a channel's log. The streaming service calls it in its turns."""

    @property
    def name(self) -> str: ...

    def appended(self, first: int, count: int) -> None:
        """Note an append through the channel.

        `count` messages were appended to the log through the channel; they are not durable yet.
        """

    def committed(self, first: int, batch: Publications) -> None:
        """The batch that begins at sequence `first` is durable now."""

    def passed(self, sequence: int) -> None:
        """Note that sequences up to this one are durable, although their commit had failed."""

    def removed(self) -> None:
        """Messages were removed through the channel."""

    def carry(
        self, consumer: str, position: DurablePosition, done: Callable[[Exception | None], None]
    ) -> None:
        """Make a durable consumer that goes on from `position`; `done` is called when the consumer is
        durable.

        Raises: ConversionRefused.
        """
