"""The contract of a service inside the server: what it is given (`Host`), and the methods it has (`Service`).

A service (streaming, jetstream, system) is an in-process client: it subscribes, receives batches and
publishes. It owns no socket, thread or loop and imports no server code; `server` hosts it, tests do by hand.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from headrace.engine.batches import Gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence
    from contextvars import Context

    from headrace.conf.options import Options
    from headrace.core.tracing import MessageTrace
    from headrace.engine.batches import Outgoing
    from headrace.engine.lanes import Lane


class Delivery(NamedTuple):
    """One message that a subscription of the service received; `headers` is the block of the wire."""

    sid: int
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


def gather(deliveries: Iterable[Delivery], gathered: Container[int]) -> list[Delivery | Gathered[Delivery]]:
    """Gather single messages for a service: runs of messages for these sids, all others as they are."""
    batch: list[Delivery | Gathered[Delivery]] = []
    for sid, group in groupby(deliveries, key=attrgetter("sid")):
        run = list(group)
        batch += [Gathered(Delivery, sid, run)] if sid in gathered else run
    return batch


REQUEST_INFO: Final = b"Nats-Request-Info"
"""The header that says who published, for services that ask for it (`Host.subscribe`)."""


class Taking(IntEnum):
    """The outcome of a traced message that has come to a subscription of a service."""

    AS_A_CLIENT = 0
    """The message is delivered as to a client: not at all when it is only traced."""
    SILENT = 1
    """The service does what it is asked for, and nothing is told of it."""
    TRACED = 2
    """The message comes as a run of its own, with its trace."""
    REFUSED = 3
    """The service does not get it, which its trace tells."""


@runtime_checkable
class Tracing(Protocol):
    """A service that says what messages that are traced come to; others are as clients."""

    def take_trace(self, trace: MessageTrace, sid: int, subject: bytes) -> Taking: ...


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> object:
        """Cancel the call; nothing happens when the timer has called already."""


class Clock(Protocol):
    """The time that services go by: a wall clock, and calls that are due later."""

    def now_ns(self) -> int:
        """Wall clock, ns since 1970 UTC."""

    def call_later(
        self, seconds: float, function: Callable[[], object], /, *, context: Context | None = None
    ) -> Timer:
        """Call `function` once, in `context`, when so much time is over."""


class Host(Protocol):
    """The server as a service sees it; all calls are on one thread."""

    @property
    def outgoing(self) -> Outgoing:
        """The buffer of publications, which compiled code writes; it then calls `announce`."""

    def subscribe(
        self, subject: bytes, queue: bytes = b"", *, gathered: bool = False, named: bool = False
    ) -> int:
        """The subscription's sid. Raises: ValueError for a subject that is none.

        `gathered`: messages that follow one another are delivered as one `Gathered`, also when it is one.
        `named`: they have a header `REQUEST_INFO` that says which user published them, where the host knows
        that (a client of this server that has proved to be a user). No publisher can write it himself.
        """

    def unsubscribe(self, sid: int) -> None: ...

    def open_lane(self, sid: int, lane: Lane) -> None:
        """Offer a subscription's messages to compiled code first; a host without a link delivers all."""

    def publish(self, subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b"") -> None:
        """Queued in `outgoing`; delivered with everything else of this tick."""

    def announce(self) -> None:
        """Announce that publications were added to `outgoing`."""

    @property
    def max_payload(self) -> int:
        """Bytes of headers and payload that the server takes in one message."""

    @property
    def sees_receivers(self) -> bool:
        """True if `backlog` knows the receivers themselves, and not only the connection to their server."""

    def backlog(self, subject: bytes) -> int | None:
        """Bytes that wait for the slowest receiver of a subject; None when there is no receiver (any more).

        A host that does not see receivers says how much waits for the server that does, and never None.
        """

    def is_alone(self, subject: bytes) -> bool:
        """True if only this service receives a subject. A host that sees no receivers returns True."""

    def listens(self, subject: bytes, queue: bytes = b"") -> bool:
        """True if somebody has subscribed to exactly this subject, in this queue group (b"": in none).

        That counts as interest in a deliver subject of JetStream. A host that sees no receivers returns True.
        """

    def when_heard(self, function: Callable[[], object]) -> None:
        """Call `function` once everything subscribed so far is in effect; perhaps at once."""

    def call_later(self, seconds: float, function: Callable[[], object]) -> Timer: ...

    def now_ns(self) -> int:
        """Wall clock, ns since 1970 UTC."""

    def failed(self, error: Exception, at: str = "") -> None:
        """Say that there was a mistake of the service, which goes on; `at`: with which message."""


@runtime_checkable
class Turning(Protocol):
    """A service that has something to do at the end of its turn: when `deliver` has returned."""

    def begin_turn(self) -> None:
        """Begin a turn. `deliver` is called next."""

    def end_turn(self, *, is_last: bool) -> None:
        """End a turn.

        `is_last`: no other service is to be served in this tick. What is published goes out with it.
        """


@runtime_checkable
class Departing(Protocol):
    """A service whose work another server can go on with, while this server goes on without it.

    After either call `stop` may follow, which then has nothing to do.
    """

    def retire(self, done: Callable[[], object]) -> None:
        """Take nothing more; call `done` when all that was taken is durable, and answered."""

    def abandon(self) -> None:
        """End at once: write nothing, answer nobody. Clients that wait may be told that they wait in vain."""


class Membership(Protocol):
    """The part of a service that decides with other servers which of them serves: they have one store."""

    async def join(self, server: str, cluster: str, *, is_alone: bool) -> None:
        """Take part, now that others can be heard; return when it is known which server serves, or soon.

        `server`, `cluster`: the names of this server and its cluster ("": it has none). `is_alone`: there are
        no others that this server could hear. Raises: StartError.
        """

    def proven_until(self) -> int:
        """Return the time until which what the service knows is known to be so: monotonic ns."""

    def reload(self, new: Options) -> None:
        """Take over what a running server takes over of changed options."""

    async def leave(self) -> None:
        """Have another server serve from now on, if there is one: this one is about to end."""

    async def part(self) -> None:
        """Take part no more; what this server serves is given up in order. Safe to call twice."""


@runtime_checkable
class SharingService(Protocol):
    """A service that several servers may have with the same store."""

    @property
    def membership(self) -> Membership | None:
        """The part that decides which server serves; None where the store is this server's alone."""


def memberships(services: Iterable[Service]) -> list[Membership]:
    """Return the memberships of services that share their stores with other servers."""
    found = (service.membership for service in services if isinstance(service, SharingService))
    return [membership for membership in found if membership is not None]


class Service(Protocol):
    """A part of the process that subscribes and publishes like a client."""

    def start(self, host: Host) -> None:
        """Subscribe. Raises: StartError."""

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        """Take all messages of one tick for this service, in order.

        Must not raise for anything a peer sent.
        """

    def stop(self) -> None:
        """Write state out: no more deliveries will come."""
