"""The port of a consumer for its parts: its stream, its other parts, and the questions it answers.

`Consumer` fulfils it as it is. What a stream sees of a consumer is `ports.ConsumerView`. Never here:
code that does anything.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from headrace.jetstream.ports import ConsumerView

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Host
    from headrace.engine.jetstream import Acks
    from headrace.jetstream.consumer.ack_state import ConsumerState
    from headrace.jetstream.consumer.advisories import ConsumerAdvisories
    from headrace.jetstream.consumer.pending_counter import PendingCounter
    from headrace.jetstream.consumer.priority_groups import PriorityGroups
    from headrace.jetstream.consumer.pulls import Pulls
    from headrace.jetstream.consumer.push import Pace, Push
    from headrace.jetstream.consumer.redelivery import Redelivery
    from headrace.jetstream.ports import ConsumerOwner


class Outcome(Enum):
    MORE = "there is more, and somebody to take it"
    END = "nothing more, or nobody who takes it"
    FULL = "as many as may be are unacknowledged"
    LATER = "it goes on when an alarm rings or the client answers"


class Order(Protocol):
    """The order of new messages that go out, where it is not simply that of the stream."""

    def send(self, now: int) -> Outcome:
        """Send the messages of a page that may go out. Raises: LogError."""


class Burial(Protocol):
    """The place of messages that a consumer gives up."""

    def bury(self, sequence: int, deliveries: int, reason: str, done: Callable[[], object]) -> None:
        """Publishes a copy of a message; `done` is called, once, when it is safe."""


class ConsumerPort(ConsumerView, Protocol):
    """One consumer."""

    @property
    def ack_prefix(self) -> bytes:
        """Beginning of the subjects of its acknowledgements."""

    @property
    def account(self) -> ConsumerOwner: ...
    @property
    def host(self) -> Host: ...
    @property
    def created_ns(self) -> int: ...
    @property
    def now_ns(self) -> Callable[[], int]: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def state(self) -> ConsumerState: ...
    @property
    def acks(self) -> Acks:
        """The list into which `sort_acks` puts acknowledgements for this consumer."""

    @property
    def advisories(self) -> ConsumerAdvisories: ...
    @property
    def pending_counter(self) -> PendingCounter: ...
    @property
    def groups(self) -> PriorityGroups: ...
    @property
    def pulls(self) -> Pulls | None: ...
    @property
    def push(self) -> Push | None: ...
    @property
    def pace(self) -> Pace: ...
    @property
    def redelivery(self) -> Redelivery: ...
    @property
    def order(self) -> Order | None: ...
    @property
    def dead_letters(self) -> Burial | None: ...
    @property
    def paused_until_ns(self) -> int: ...
    @property
    def is_full(self) -> bool:
        """True if the largest number of messages is unacknowledged."""

    @property
    def removes_acknowledged(self) -> bool:
        """True if the stream must know which messages were acknowledged."""

    @property
    def acknowledges_by_flow(self) -> bool: ...
    @property
    def push_subject(self) -> bytes: ...
    def room(self, most: int) -> int:
        """Return how many new messages may be sent, at most `most`."""

    def pin_header(self) -> bytes: ...
    def is_paused(self, now_ns: int) -> bool: ...
    def num_pending(self) -> int:
        """Messages that are still to be delivered for the first time. Raises: LogError."""

    def heard(self) -> None:
        """A client acknowledged something."""

    def wake(self) -> None: ...
    def pull(self, reply: bytes, body: bytes) -> None:
        """A client asks for messages."""

    def gone(self, sequence: int, deliveries: int) -> None:
        """A message that awaits its acknowledgement is not there any more."""
