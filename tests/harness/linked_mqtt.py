"""MQTT of one account beside its JetStream, on links of one router, with a clock by hand: no server.

`LinkedMqtt` is an account with a hub, `Device` a client of it: its link is the compiled one, its packets are
bytes. A hub can die, with all connections, and another one begin over the same streams.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.linked_account import LinkedAccount, LinkedHost
from headrace.engine.mqtt import MqttLink
from headrace.engine.permission_cache import PermissionCache
from headrace.engine.service import ServiceLink
from headrace.log.port import SyncPolicy
from headrace.mqtt.hub import Accepted, MqttHub
from headrace.mqtt.settings import HubSettings
from headrace.protocol.mqtt.packets import (
    Connect,
    Will,
    ack,
    read_ack,
    read_subscribe,
    read_unsubscribe,
)
from headrace.protocol.mqtt.properties import NO_PROPERTIES, PacketKind, Properties
from headrace.protocol.mqtt.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.core.service import Delivery
    from headrace.engine.batches import Gathered
    from headrace.protocol.mqtt.reasons import MqttError


class Seen(NamedTuple):
    """A packet that a device got: its type, the flags beside it, and what follows the remaining length."""

    kind: int
    flags: int
    body: bytes

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def is_again(self) -> bool:
        return bool(self.flags & 8)

    @property
    def is_retained(self) -> bool:
        return bool(self.flags & 1)

    @property
    def topic(self) -> str:
        return self.body[2 : 2 + int.from_bytes(self.body[:2], "big")].decode()

    @property
    def identifier(self) -> int:
        at = 2 + int.from_bytes(self.body[:2], "big") if self.kind == PacketKind.PUBLISH else 0
        return int.from_bytes(self.body[at : at + 2], "big")

    @property
    def payload(self) -> bytes:
        """Of a PUBLISH to a client of 3.1.1."""
        return self.body[2 + int.from_bytes(self.body[:2], "big") + (2 if self.qos else 0) :]


def packets_of(data: bytes) -> list[Seen]:
    found = []
    while data:
        size = shift = 0
        at = 1
        while True:
            size |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if not data[at - 1] & 128:
                break
        found.append(Seen(data[0] >> 4, data[0] & 15, data[at : at + size]))
        data = data[at + size :]
    return found


def packet(first: int, body: bytes) -> bytes:
    size, length = len(body), bytearray()
    while True:
        size, low = divmod(size, 128)
        length.append(low | (128 if size else 0))
        if not size:
            return bytes([first]) + bytes(length) + body


class HubHost(LinkedHost):
    """The host of a hub; time is that of the account's JetStream."""

    def __init__(self, account: LinkedMqtt) -> None:
        super().__init__(account.router, account.interest)
        self.account = account

    def now_ns(self) -> int:
        return self.account.host.now

    def call_later(self, seconds: float, function: Callable[[], object]) -> Any:
        return self.account.host.call_later(seconds, self._run(function))

    def _run(self, function: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            if self.service is not None:
                function()

        return run

    def deliver(self, batch: list[Delivery | Gathered[Delivery]]) -> None:
        if self.service is not None:
            self.service.deliver(batch)

    def unpublishable(self, subject: bytes) -> None:
        """A subject that no server takes."""


class LinkedMqtt(LinkedAccount):
    """One account with JetStream and a hub, the server `S1`."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        super().__init__(directory, SyncPolicy.INTERVAL)
        self.settings = HubSettings(server_name="S1", **settings)
        self.devices: list[Device] = []
        self.others: list[object] = []
        """Links that nobody else holds."""
        self.begin()

    def begin(self) -> None:
        """A hub, as in a server that starts."""
        self.hub_host = HubHost(self)
        self.hub = MqttHub(self.settings, "A", logging.getLogger("headrace.test.mqtt"))
        self.hub_host.service = self.hub
        self.hub.start(self.hub_host)
        self.tick()

    def die(self) -> None:
        """The hub and its connections are gone at once: nothing is written, nobody hears."""
        self.hub_host.service = None
        self.hub_host.link.detach()
        for device in self.devices:
            device.cut()
        self.devices.clear()
        self.router.end_tick()

    def one_tick(self) -> bool:
        """One tick; False if there is nothing left to do."""
        self.router.end_tick()
        return self.router.has_due

    @property
    def mistakes(self) -> list[Exception]:
        return [*self.hub_host.mistakes, *self.host.mistakes]

    def another(self, name: str) -> LinkedMqtt:
        """A second server with the same JetStream."""
        other = object.__new__(LinkedMqtt)
        other.__dict__.update(self.__dict__)
        other.settings = HubSettings(server_name=name)
        other.devices = []
        other.begin()
        return other

    def stop(self) -> None:
        self.die()
        super().stop()


class _Ops:
    """The session of a device's link: what `server/mqtt` does, without permissions."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def __getattr__(self, name: str) -> Any:
        session = self.device.session
        return getattr(session if hasattr(session, name) else session.incoming, name)

    def packet(self, kind: int, flags: int, body: bytes) -> None:
        device = self.device
        session, version = device.session, device.version
        assert session is not None
        match kind:
            case PacketKind.SUBSCRIBE:
                session.subscribe(read_subscribe(body, version), device.subscribed)
            case PacketKind.UNSUBSCRIBE:
                session.unsubscribe(read_unsubscribe(body, version), device.codes.append)
            case PacketKind.PUBREC:
                session.pubrec(read_ack(PacketKind(kind), body, version))
            case PacketKind.PUBREL:
                session.pubrel(read_ack(PacketKind(kind), body, version))
            case PacketKind.PUBCOMP:
                session.pubcomp(read_ack(PacketKind(kind), body, version))

    def violation(self, text: str, reason: int) -> None:
        raise AssertionError(text)

    def stores(self) -> None:
        """JetStream answers here, or the test asks."""

    def store_failed(self, identifier: int, payload: bytes) -> None:
        self.device.not_stored.append(identifier)

    def caught_up(self) -> None:
        """The link was held for publications before, which are stored."""
        ServiceLink.release(self.device.link)  # type: ignore[arg-type]

    def subscribe_permission(self, subject: bytes, queue: bytes | None) -> int:
        return 1

    def publish_refused(self, subject: bytes) -> bool:
        assert subject in self.device.forbidden, subject
        return False

    def refused(self, identifier: int, qos: int) -> None:
        kind = PacketKind.PUBREC if qos == 2 else PacketKind.PUBACK
        self.device.send(ack(kind, self.device.version, identifier, Reason.NOT_AUTHORIZED))

    def wake(self) -> None:
        """Ticks come by hand."""


class Device:
    """A client of MQTT: what it is told of CONNECT, its codes, and the packets that it gets."""

    def __init__(
        self,
        account: LinkedMqtt,
        client_id: str,
        *,
        clean: bool = False,
        version: int = 4,
        will: Will | None = None,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        self.account = account
        self.client_id = client_id
        self.version = version
        self.user = None
        self.will = will
        self.session: Any = None
        self.result: Accepted | MqttError | None = None
        self.codes: list[list[int]] = []
        self.closed: list[tuple[Reason, str]] = []
        self.not_stored: list[int] = []
        self.not_retained: list[tuple[bytes, str]] = []
        self.forbidden: set[bytes] = set()
        self._data = b""
        self.link = MqttLink(account.router, _Ops(self), max_payload=1 << 20)
        self.link.interest = account.interest
        allowed = PermissionCache(lambda subject: subject not in self.forbidden)
        self.link.restrict(allowed, None, False, False)
        account.devices.append(self)
        connect = Connect(version, clean, 0, client_id.encode(), will, properties=properties)
        account.hub.connect(self, connect, self._connected)

    # -- for the hub -------------------------------------------------------------------------------------

    def mapped(self, subject: bytes) -> bytes | None:
        return None if subject in self.forbidden else subject

    def may_subscribe(self, subject: bytes, queue: bytes) -> bool:
        return subject not in self.forbidden

    def may_receive(self, subject: bytes) -> bool:
        return subject not in self.forbidden

    def send(self, data: bytes) -> None:
        self.link.send(data)

    def closed_by(self, reason: Reason, why: str, by: object = None) -> None:
        self.closed.append((reason, why))
        self.cut()

    def not_kept(self, subject: bytes, why: str) -> None:
        self.not_retained.append((subject, why))

    def _connected(self, result: Accepted | MqttError) -> None:
        self.result = result
        if isinstance(result, Accepted):
            self.session = result.session
            self.link.accept_connect(
                version=self.version,
                client_hash=result.client_hash,
                store_reply=result.store_reply,
                stages_qos2=result.stages_qos2,
                staging_subject=result.staging_subject,
                removal_subject=result.removal_subject,
                release_subject=result.release_subject,
            )
            result.session.resume()

    def subscribed(self, codes: list[int]) -> None:
        self.codes.append(codes)
        self.session.send_retained()

    # -- for tests ---------------------------------------------------------------------------------------

    @property
    def is_present(self) -> bool:
        assert isinstance(self.result, Accepted), self.result
        return self.result.session_present

    def feed(self, first: int, body: bytes) -> None:
        self.link.feed(packet(first, body))

    def subscribe(self, topic_filter: str, qos: int = 0, *, options: int = 0, extra: bytes = b"") -> int:
        """A SUBSCRIBE of one filter, until its code is there."""
        properties = bytes([len(extra)]) + extra if self.version == 5 else b""
        name = topic_filter.encode()
        self.feed(
            0x82, b"\x00\x01" + properties + len(name).to_bytes(2, "big") + name + bytes([qos | options])
        )
        self.account.tick()
        assert self.codes, [waiting.what for waiting in self.account.hub.requests._waiting.values()]
        return self.codes.pop(0)[0]

    def unsubscribe(self, topic_filter: str) -> int:
        properties = b"\x00" if self.version == 5 else b""
        name = topic_filter.encode()
        self.feed(0xA2, b"\x00\x02" + properties + len(name).to_bytes(2, "big") + name)
        self.account.tick()
        assert self.codes, [waiting.what for waiting in self.account.hub.requests._waiting.values()]
        return self.codes.pop(0)[0]

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        identifier: int = 0,
        *,
        retain: bool = False,
        again: bool = False,
        properties: bytes = b"",
    ) -> None:
        name = topic.encode()
        self.feed(
            0x30 | again << 3 | qos << 1 | retain,
            len(name).to_bytes(2, "big")
            + name
            + (identifier.to_bytes(2, "big") if qos else b"")
            + (bytes([len(properties)]) + properties if self.version == 5 else b"")
            + payload,
        )

    def acknowledge(self, kind: int, identifier: int) -> None:
        self.feed(kind << 4 | (2 if kind == PacketKind.PUBREL else 0), identifier.to_bytes(2, "big"))

    def take(self) -> list[Seen]:
        """The packets that have come since the last call; the account's work is done before."""
        self.account.tick()
        return self.seen()

    def seen(self) -> list[Seen]:
        """The packets that have come, without a tick."""
        return packets_of(self.link.take())

    def messages(self) -> list[tuple[str, bytes, int]]:
        """Topic, payload and QoS of the messages that have come."""
        return [(one.topic, one.payload, one.qos) for one in self.take() if one.kind == PacketKind.PUBLISH]

    def leave(self, *, sends_will: bool = False, expiry: int | None = None) -> None:
        """The connection ends."""
        if self.session is not None and not self.link.is_detached:
            self.session.ended(will=self.will if sends_will else None, expiry=expiry)
        self.cut()
        self.account.tick()

    def cut(self) -> None:
        """The link is gone, and nobody is told."""
        if not self.link.is_detached:
            self.link.detach()


__all__ = ["Device", "LinkedMqtt", "Seen", "packet", "packets_of"]
