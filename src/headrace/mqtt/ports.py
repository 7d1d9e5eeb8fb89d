"""Connections as this room sees them, and the hub as its parts see it: no part knows its whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

    from headrace.core.service import Host
    from headrace.mqtt.requests import JetStreamRequests
    from headrace.mqtt.settings import HubSettings
    from headrace.protocol.mqtt.reasons import Reason


class Publications(Protocol):
    """The publications of QoS 2 that a client has begun (`engine.mqtt_incoming.ClientPublications`)."""

    def release(self, identifier: int) -> bool: ...

    def released(self) -> None: ...

    def remove(self, identifier: int) -> None: ...

    def complete(self, identifier: int) -> None: ...

    def overdue(self, number: int) -> tuple[list[int], int]: ...


class Releases(Protocol):
    """Messages of QoS 2 that a client has received (`engine.mqtt_releases.ReleasedDeliveries`)."""

    def receive(self, identifier: int) -> bool: ...

    def finish(self, identifier: int) -> bool: ...


class SessionLink(Protocol):
    """The compiled link of a connection, as a session uses it (`engine.mqtt.MqttLink`)."""

    @property
    def publications(self) -> Publications: ...

    @property
    def releases(self) -> Releases: ...

    @property
    def next_identifier(self) -> int: ...

    def subscribe(
        self,
        sid: bytes,
        subject: bytes,
        queue: bytes = b"",
        *,
        qos: int,
        options: int = 0,
        identifier: int = 0,
        hides_dollar: bool = False,
    ) -> None: ...

    def follow(
        self,
        deliver: bytes,
        queue: bytes = b"",
        *,
        name: bytes,
        qos: int,
        options: int = 0,
        identifier: int = 0,
        hides_dollar: bool = False,
        sid: bytes = b"",
    ) -> bytes: ...

    def hear(self, subject: bytes, *, releases: bool = False) -> bytes: ...

    def unsubscribe(self, sid: bytes) -> None: ...

    def route(
        self, subject: bytes, headers: bytes, payload: bytes, *, reply: bytes = b""
    ) -> bytes | None: ...

    def publish_internal(
        self, subject: bytes, headers: bytes, payload: bytes, *, reply: bytes = b""
    ) -> None: ...

    def deliver(
        self,
        topic: bytes,
        payload: bytes,
        *,
        qos: int,
        retain: bool,
        headers: bytes = b"",
        subscription: int = 0,
    ) -> int: ...

    def forward(
        self, sid: bytes, identifier: int, subject: bytes, headers: bytes, payload: bytes
    ) -> None: ...

    def give_back(self) -> list[tuple[int, int, bytes, int]]: ...

    def expect(self, entries: list[tuple[int, int, bytes, int]], next_identifier: int) -> None: ...

    def settle(self, identifier: int) -> bytes: ...

    def drop(self, identifier: int) -> bytes: ...

    def occupy(self, identifier: int) -> None: ...

    def end_publication(self, identifier: int) -> None: ...


class SessionClient(Protocol):
    """A connection that has sent CONNECT and may act in the account."""

    @property
    def link(self) -> SessionLink: ...

    @property
    def version(self) -> int: ...

    @property
    def client_id(self) -> str:
        """The client identifier; one that the server has made where CONNECT has none."""

    @property
    def user(self) -> str | None: ...

    def closed_by(self, reason: Reason, why: str, by: SessionClient | None = None) -> None:
        """End the connection. `why`: a line of the log, empty for none. `by`: who has its session now."""

    def not_kept(self, subject: bytes, why: str) -> None:
        """Log that a retained message of the client is not stored."""

    def send(self, data: bytes) -> None: ...

    def mapped(self, subject: bytes) -> bytes | None:
        """Return the subject that a publication goes to; None, said in the log, where it is not allowed."""

    def may_subscribe(self, subject: bytes, queue: bytes) -> bool:
        """True if the subscription is allowed; else it is said in the log."""

    def may_receive(self, subject: bytes) -> bool:
        """True if no permission keeps messages on this subject from the client."""


class HubPort(Protocol):
    """The hub of an account, as its parts see it."""

    @property
    def settings(self) -> HubSettings: ...

    @property
    def domain(self) -> str:
        """The JetStream domain that the streams are in; empty for none."""

    @property
    def log(self) -> Logger: ...

    @property
    def host(self) -> Host: ...

    @property
    def requests(self) -> JetStreamRequests: ...

    @property
    def server_hash(self) -> str: ...

    def failed(self, error: Exception) -> None:
        """Say that steps which nobody awaits have failed."""

    def after(self, seconds: float, function: Callable[[], object]) -> object: ...
