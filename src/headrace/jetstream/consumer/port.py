"""The ports of a consumer for its parts: its stream, its other parts, and the strategy of its delivery.

`Consumer` fulfils `ConsumerPort` as it is. What a stream sees of a consumer is `ports.ConsumerView`. Never
here: code that does anything.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from headrace.jetstream.ports import ConsumerView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.core.service import Host
    from headrace.engine.jetstream import Acks
    from headrace.engine.messages import Messages
    from headrace.engine.pulls import SinglePulls
    from headrace.jetstream.consumer.advisories import ConsumerAdvisories
    from headrace.jetstream.consumer.pace import Pace
    from headrace.jetstream.consumer.pending_counter import PendingCounter
    from headrace.jetstream.consumer.redelivery import Redelivery
    from headrace.jetstream.ports import AccountPort
    from headrace.log.port import StoredMessage
    from headrace.protocol.jetstream.configs import ConsumerConfig

ANY_NUMBER: Final = 1 << 31
"""`Receiver.missing` of one that takes any number of messages."""


class Outcome(Enum):
    """The reason for which sending ended for now."""

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
        """Publish a copy of a message; `done` is called, once, when it is safe."""


class Receiver(Protocol):
    """A receiver of messages: a request that waits, or the deliver subject."""

    @property
    def inbox(self) -> bytes:
        """The subject that they are sent to."""

    @property
    def missing(self) -> int:
        """Messages that it still takes."""

    @property
    def no_wait(self) -> bool:
        """True if it is told when there is nothing more."""

    @property
    def headers(self) -> bytes:
        """Header lines that each of its messages gets besides its own."""


class DeliveryInfo(NamedTuple):
    """The part of the ConsumerInfo that is about the delivery."""

    waiting: int = 0
    """Requests that wait."""
    is_bound: bool = False
    """True if somebody has subscribed to the deliver subject."""
    groups: Sequence[dict[str, object]] = ()
    """The priority group, if there is one."""


class Watch(Protocol):
    """A part that removes a consumer without clients."""

    def start(self) -> None:
        """Begin to watch the consumer, with the threshold of its configuration."""

    def stop(self) -> None: ...


R = TypeVar("R", bound=Receiver)


class DeliveryStrategy(Protocol[R]):
    """The way of a consumer's messages to its clients: to requests that wait (pull), or to a subject (push).

    A consumer has one of both for all its life, and asks nowhere which one it is.
    """

    @property
    def is_asked(self) -> bool:
        """True if messages are asked for; if not, there is no use in reading them."""

    @property
    def single_pulls(self) -> SinglePulls:
        """The part that answers requests of one message in compiled code."""

    def start(self) -> None:
        """Begin the delivery: the consumer has its place in the stream."""

    def configure(self, config: ConsumerConfig) -> None: ...
    def stop(self, reason: str) -> None:
        """Stop the delivery.

        Clients that wait are told that the server ends ("shutdown"), that another one goes on ("leadership"),
        or else that the consumer is deleted.
        """

    def inactivity(self) -> Watch: ...
    def info(self) -> DeliveryInfo: ...
    def pull(self, reply: bytes, body: bytes) -> None:
        """A client asks for messages."""

    def unpin(self) -> None:
        """The pinned client is one no more."""

    def answered(self, subject: bytes) -> bool:
        """A client answers flow control at a subject; False when that is not what was asked last."""

    def room(self) -> int:
        """Bytes that may be sent now; 0: the strategy wakes the consumer when there is room again."""

    def only(self) -> R | None:
        """The receiver that everything goes to for now; None: each message must find its own by `next`."""

    def next(
        self, messages: Messages[StoredMessage], place: int, deliveries: int, outstanding: int
    ) -> R | None:
        """Return the receiver of one message; None: there is none.

        `outstanding`: messages to come after it.
        """

    def sent(self, receiver: R, count: int, size: int, now_ns: int) -> None:
        """Note that a receiver got so many messages of `size` bytes together."""

    def rest(self, *, end: bool) -> None:
        """Note that no message goes out for now; `end`: the stream has no more."""

    def full(self) -> None:
        """Note that no new message goes out: as many as may be are unacknowledged."""


class ConsumerPort(ConsumerView, Protocol):
    """One consumer."""

    @property
    def ack_prefix(self) -> bytes:
        """Beginning of the subjects of its acknowledgements."""

    @property
    def account(self) -> AccountPort: ...
    @property
    def host(self) -> Host: ...
    @property
    def created_ns(self) -> int: ...
    @property
    def now_ns(self) -> Callable[[], int]: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def acks(self) -> Acks:
        """The list into which `sort_acks` puts acknowledgements for this consumer."""

    @property
    def advisories(self) -> ConsumerAdvisories: ...
    @property
    def pending_counter(self) -> PendingCounter: ...
    @property
    def delivery(self) -> DeliveryStrategy[Any]: ...
    @property
    def pace(self) -> Pace: ...
    @property
    def redelivery(self) -> Redelivery: ...
    @property
    def order(self) -> Order | None: ...
    @property
    def dead_letters(self) -> Burial: ...
    @property
    def paused_until_ns(self) -> int: ...
    @property
    def removes_acknowledged(self) -> bool:
        """True if the stream must know which messages were acknowledged."""

    def is_paused(self, now_ns: int) -> bool: ...
    def num_pending(self) -> int:
        """Messages that are still to be delivered for the first time. Raises: LogError."""

    def wake(self) -> None: ...
    def gone(self, sequence: int, deliveries: int) -> None:
        """A message that awaits its acknowledgement is not there any more."""
