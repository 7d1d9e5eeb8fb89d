"""What a service inside the server is given, and what it must answer.

A service (streaming, jetstream, system) is an in-process client: it subscribes, receives batches and
publishes. It owns no socket, thread or loop and imports no server code; `server` hosts it, tests do by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Delivery(NamedTuple):
    """One message that a subscription of the service received; `headers` is the block of the wire."""

    sid: int
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


class Timer(Protocol):
    def cancel(self) -> None: ...


class Host(Protocol):
    """What the server does for a service, all on one thread."""

    def subscribe(self, subject: bytes, queue: bytes = b"") -> int:
        """The subscription's sid. Raises: ValueError for a subject that is none."""

    def unsubscribe(self, sid: int) -> None: ...

    def publish(self, subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b"") -> None:
        """Queued; delivered with everything else of this tick."""

    def when_heard(self, function: Callable[[], object]) -> None:
        """Calls `function` once everything subscribed so far is in effect; perhaps at once."""

    def call_later(self, seconds: float, function: Callable[[], object]) -> Timer: ...

    def now_ns(self) -> int:
        """Wall clock, ns since 1970 UTC."""


class Service(Protocol):
    def start(self, host: Host) -> None:
        """Subscribes. Raises: StartError."""

    def deliver(self, batch: Sequence[Delivery]) -> None:
        """All messages of one tick for this service, in order. Must not raise for anything a peer sent."""

    def stop(self) -> None:
        """No more deliveries will come; state is written out."""
