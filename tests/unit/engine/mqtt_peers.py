"""MQTT clients without sockets, and a store that confirms and delivers as JetStream does."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from engine_peers import Broker, Session

from headrace.core.service import Delivery, Taking
from headrace.engine.mqtt import MqttLink
from headrace.engine.reasons import CloseReason
from headrace.engine.service import ServiceLink

CONNECT: Final = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a"
CONNECT_5: Final = b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01a"
STORE_REPLY: Final = b"$MQTT.JSA.12345678.MS.token."
DELIVER: Final = b"$MQTT.sub.one"
CONSUMER: Final = b"hash_one"
CONNECT_TYPE: Final = 1
DISCONNECT_TYPE: Final = 14
DISCONNECT: Final = b"\xe0\x00"
PING: Final = b"\xc0\x00"
PONG: Final = b"\xd0\x00"
LEVEL_AT: Final = 6
"""Where the body of a CONNECT has its protocol level."""


class Packet(NamedTuple):
    """A packet that a client was written."""

    kind: int
    flags: int
    body: bytes


def length(n: int) -> bytes:
    """The bytes of a variable byte integer."""
    digits = bytearray()
    while True:
        n, low = divmod(n, 128)
        digits.append(low | (0x80 if n else 0))
        if not n:
            return bytes(digits)


def packet(first: int, body: bytes) -> bytes:
    return bytes([first]) + length(len(body)) + body


def text(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def publish(
    topic: bytes,
    payload: bytes = b"x",
    *,
    qos: int = 0,
    identifier: int = 1,
    retain: bool = False,
    dup: bool = False,
    properties: bytes | None = None,
) -> bytes:
    """A PUBLISH; `properties`: of MQTT 5, without their length."""
    body = text(topic)
    if qos:
        body += identifier.to_bytes(2, "big")
    if properties is not None:
        body += length(len(properties)) + properties
    return packet(0x30 | dup << 3 | qos << 1 | retain, body + payload)


def puback(identifier: int) -> bytes:
    return b"\x40\x02" + identifier.to_bytes(2, "big")


def read_packets(data: bytes) -> list[Packet]:
    """What was written, packet by packet; a ValueError where that is cut off."""
    packets, at = [], 0
    while at < len(data):
        size = shift = 0
        i = at + 1
        while True:
            size |= (data[i] & 0x7F) << shift
            shift += 7
            i += 1
            if not data[i - 1] & 0x80:
                break
        if i + size > len(data):
            raise ValueError("a packet is cut off")
        packets.append(Packet(data[at] >> 4, data[at] & 15, data[i : i + size]))
        at = i + size
    return packets


class MqttSession(Session):
    """A session that accepts every CONNECT, with what is in `accepts`, and ends it where a rule is broken."""

    link: Any

    def __init__(self) -> None:
        super().__init__()
        self.accepts: dict[str, Any] = {}

    def _packet(self, kind: int, _flags: int, body: bytes) -> None:
        if kind == CONNECT_TYPE and body[LEVEL_AT : LEVEL_AT + 1] not in (b"\x04", b"\x05"):
            self.link.doom(CloseReason.PROTOCOL_VIOLATION)
        elif kind == CONNECT_TYPE:
            arguments = {"version": body[LEVEL_AT], "client_hash": b"ABCDEFGH", "store_reply": STORE_REPLY}
            self.link.accept_connect(**(arguments | self.accepts))
            self.link.send(b"\x20\x02\x00\x00")
        elif kind == DISCONNECT_TYPE:
            self.link.doom(CloseReason.CLIENT_CLOSED)

    def _violation(self, _text: str, _reason: int) -> None:
        self.link.doom(CloseReason.PROTOCOL_VIOLATION)

    def _caught_up(self) -> None:
        self.link.release()

    def _stamped(self, _topic: bytes, payload: bytes) -> bytes:
        return payload

    def _publish_refused(self, subject: bytes) -> bool:
        return False

    def _reply_refused(self, reply: bytes) -> None:
        pass


class Client:
    """One client of MQTT. `said`: what it was written since it was asked last."""

    def __init__(self, broker: MqttBroker, limits: dict[str, Any], accepts: dict[str, Any]) -> None:
        self._broker = broker
        self.session = MqttSession()
        self.session.accepts = accepts
        self.link = MqttLink(broker.router, self.session, **limits)
        self.session.link = self.link
        self.link.interest = broker.interest

    def send(self, data: bytes) -> Client:
        self._broker.feed(self.link, data)
        return self

    def said(self) -> bytes:
        return self.link.take()

    def packets(self) -> list[Packet]:
        return read_packets(self.said())

    def subscribe(self, subject: bytes, *, qos: int = 0, **more: Any) -> Client:
        self.link.subscribe(subject, subject, qos=qos, **more)
        return self

    def follow(
        self, *, qos: int = 1, deliver: bytes = DELIVER, name: bytes = CONSUMER, **more: Any
    ) -> Client:
        self.link.follow(deliver, name=name, qos=qos, **more)
        return self

    @property
    def violations(self) -> list[tuple[str, int]]:
        return [(text, reason) for text, reason in self.session.called("violation")]

    @property
    def reason(self) -> CloseReason:
        return CloseReason(self.link.reason)


class Store:
    """What is published to `$MQTT.msgs.` and acknowledged; what it says goes out with `broker.end_tick`."""

    def __init__(self, broker: MqttBroker) -> None:
        self.stored: list[Delivery] = []
        self.acks: list[tuple[bytes, bytes]] = []
        self.answer: bytes | None = b'{"stream":"$MQTT_msgs", "seq":1}'
        self.link = ServiceLink(broker.router, self, Delivery)
        self.link.interest = broker.interest
        self._messages = self.link.subscribe(b"$MQTT.msgs.>")
        self.link.subscribe(b"$JS.ACK.>")

    def deliver(self, batch: list[Delivery]) -> None:
        for delivery in batch:
            if delivery.sid == self._messages:
                self.stored.append(delivery)
                if self.answer is not None:
                    self.link.publish(delivery.reply, self.answer)
            else:
                self.acks.append((delivery.subject, delivery.payload))

    def failed(self, error: Exception) -> None:
        raise error

    def take_trace(self, *_arguments: object) -> Taking:
        return Taking.AS_A_CLIENT

    def wake(self) -> None:
        pass

    def send(
        self,
        topic: bytes,
        payload: bytes = b"x",
        *,
        sequence: int,
        quality: int = 1,
        deliveries: int = 1,
        lines: bytes = b"",
        deliver: bytes = DELIVER,
        name: bytes = CONSUMER,
    ) -> bytes:
        """Delivers a stored message as a consumer does; gives the subject that it is acknowledged to."""
        ack = b"$JS.ACK.$MQTT_msgs.%b.%d.%d.1.1700000000000000000.0" % (name, deliveries, sequence)
        headers = b"NATS/1.0\r\nNmqtt-Pub:%d\r\n%b\r\n" % (quality, lines)
        self.link.outgoing.pass_on(deliver, b"$MQTT.msgs." + topic, payload, reply=ack, headers=headers)
        self.link.announce()
        return ack


class MqttBroker(Broker):
    """A broker with clients of MQTT, and a store."""

    def __init__(self, way: str = "whole", **router_options: Any) -> None:
        super().__init__(way, **router_options)
        self.clients: list[Client] = []
        self.store = Store(self)

    def client(
        self, *, version: int = 4, connects: bool = True, accepts: dict[str, Any] | None = None, **limits: Any
    ) -> Client:
        """A client, whose CONNECT was accepted."""
        client = Client(self, {"max_payload": 1 << 20} | limits, accepts or {})
        self.clients.append(client)
        if connects:
            client.send(CONNECT if version == 4 else CONNECT_5)
            client.said()
        return client

    def stop(self) -> None:
        for client in self.clients:
            client.link.detach()
            vars(client.session).clear()
        self.store.link.detach()
        vars(self.store).clear()
        super().stop()
