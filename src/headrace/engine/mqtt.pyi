from typing import Any, NamedTuple

from headrace.engine.client import ClientLink
from headrace.engine.link import Router

class MqttPublication(NamedTuple):
    flags: int
    identifier: int
    topic: bytes
    subject: bytes
    headers: bytes
    reply: bytes
    payload: bytes

class ClientPublications:
    def __init__(self, link: MqttLink) -> None: ...
    def release(self, identifier: int) -> bool: ...
    def released(self) -> None: ...
    def remove(self, identifier: int) -> None: ...
    def complete(self, identifier: int) -> None: ...
    def watch_unconfirmed(self) -> tuple[int, int] | None: ...
    def overdue(self, number: int) -> tuple[list[int], int]: ...

class ReleasedDeliveries:
    def __init__(self, link: MqttLink) -> None: ...
    def receive(self, identifier: int) -> bool: ...
    def finish(self, identifier: int) -> bool: ...

class MqttLink(ClientLink):
    def __init__(
        self,
        router: Router,
        session: Any,
        *,
        max_payload: int = ...,
        max_subscriptions: int = ...,
        max_subscription_tokens: int = ...,
    ) -> None: ...
    @property
    def version(self) -> int: ...
    @property
    def next_identifier(self) -> int: ...
    @property
    def publications(self) -> ClientPublications: ...
    @property
    def releases(self) -> ReleasedDeliveries: ...
    def accept_connect(
        self,
        *,
        version: int,
        client_hash: bytes,
        store_reply: bytes,
        receive_maximum: int = ...,
        maximum_packet: int = ...,
        topic_alias_maximum: int = ...,
        topic_alias_maximum_out: int = ...,
        rejects_qos2: bool = ...,
        stages_qos2: bool = ...,
        receive_maximum_in: int = ...,
        staging_subject: bytes | None = ...,
        removal_subject: bytes | None = ...,
        release_subject: bytes | None = ...,
    ) -> None: ...
    def subscribe(
        self,
        sid: bytes,
        subject: bytes,
        queue: bytes = ...,
        *,
        qos: int,
        options: int = ...,
        identifier: int = ...,
        hides_dollar: bool = ...,
    ) -> None: ...
    def follow(
        self,
        deliver: bytes,
        queue: bytes = ...,
        *,
        name: bytes,
        qos: int,
        options: int = ...,
        identifier: int = ...,
        hides_dollar: bool = ...,
        sid: bytes = ...,
    ) -> bytes: ...
    def hear(self, subject: bytes, *, releases: bool = ...) -> bytes: ...
    def unsubscribe(self, sid: bytes) -> None: ...
    def route(
        self, subject: bytes, headers: bytes, payload: bytes, *, reply: bytes = ...
    ) -> bytes | None: ...
    def publish_internal(
        self, subject: bytes, headers: bytes, payload: bytes, *, reply: bytes = ...
    ) -> None: ...
    def deliver(
        self,
        topic: bytes,
        payload: bytes,
        *,
        qos: int,
        retain: bool,
        headers: bytes = ...,
        subscription: int = ...,
    ) -> int: ...
    def forward(
        self, sid: bytes, identifier: int, subject: bytes, headers: bytes, payload: bytes
    ) -> None: ...
    def in_flight(self) -> list[tuple[int, int, bytes, int]]: ...
    def give_back(self) -> list[tuple[int, int, bytes, int]]: ...
    def expect(self, entries: list[tuple[int, int, bytes, int]], next_identifier: int) -> None: ...
    def settle(self, identifier: int) -> bytes: ...
    def drop(self, identifier: int) -> bytes: ...
    def end_publication(self, identifier: int) -> None: ...
    def occupy(self, identifier: int) -> None: ...
