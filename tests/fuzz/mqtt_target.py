"""What a fuzz input of MQTT means, and what must hold whatever it is.

An input is what three clients of MQTT, one that has not said CONNECT, and a client of NATS send, with
commands between (`playing`). A store confirms what is published with QoS 1, and delivers it to who follows
it. Every outbox of a client of MQTT must read as packets.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from engine_peers import QUIET_WITH_HEADERS
from mqtt_peers import CONSUMER, DELIVER, STORE_REPLY, MqttBroker, Packet, read_packets

from fuzz.frames import read_frames
from fuzz.playing import EVERYTHING, Playing, any_line, mapped, play_twice
from headrace.engine.permission_cache import PermissionCache

if TYPE_CHECKING:
    import random

    from headrace.core.service import Delivery
    from headrace.engine.interest import Interest
    from headrace.engine.link import Link, Router

ACCEPTS: Final[tuple[dict[str, Any], ...]] = (
    {
        "version": 4,
        "staging_subject": b"$MQTT.msgs.staged.0.",
        "removal_subject": b"$MQTT.msgs.removal",
        "release_subject": b"$MQTT.msgs.release",
    },
    {
        "version": 5,
        "topic_alias_maximum": 3,
        "receive_maximum_in": 4,
        "staging_subject": b"$MQTT.msgs.staged.1.",
        "removal_subject": b"$MQTT.msgs.removal",
    },
    {"version": 5, "receive_maximum": 2, "maximum_packet": 60, "stages_qos2": True},
)
"""What each client that has said CONNECT was accepted with."""

ANSWERS: Final = (
    *(b'{"stream":"$MQTT_msgs","seq":1,"success":true}',) * 12,
    b'{"error":{"err_code":10077}}', b'{"error":{"err_code":10043}}', b"", b"{", b'{"seq":',
)  # fmt: skip
"""Of the store, by the length of a payload."""
RELEASED: Final = b"b.released"
"""Where the store delivers PUBRELs."""

STRANGER: Final = 3
"""The link that nothing was accepted of."""
NATS: Final = 4

SUBJECTS: Final = (b"a", b"a.*", b"b.>", b">", b"$x.y", b"a./.b", b"*.c")
_QUEUE: Final = any_line((b"SUB", 3))
_MOMENT: Final = re.compile(rb"Nmqtt-Expires-At: \d+")
_FIRST_TICK: Final = 1_000_000_000


@dataclass(slots=True)
class Side:
    """One link and everything that was written to it."""

    end: Any
    written: bytearray = field(default_factory=bytearray)

    def take(self, limit: int = EVERYTHING) -> None:
        self.written += self.end.link.take(limit)


class MqttPlay(Playing):
    """One playing of an input."""

    def __init__(self, cut: random.Random | None) -> None:
        super().__init__(cut)
        with contextlib.redirect_stdout(io.StringIO()):
            self.broker = MqttBroker(max_pending=400_000, congestion_mark=3_000, seed=7)
        self.router.now = _FIRST_TICK
        self._sequence = 0
        self._last: tuple[Delivery, int] | None = None
        self.broker.store.link.session.deliver = self._stored
        self.sides = [self._side(number) for number in range(self.LINKS)]

    def _side(self, number: int) -> Side:
        if number == NATS:
            return Side(self.broker.peer(QUIET_WITH_HEADERS))
        small = (
            {"max_payload": 80, "max_subscriptions": 3, "max_subscription_tokens": 3} if number == 2 else {}
        )
        client = self.broker.client(
            connects=False, accepts=ACCEPTS[number] if number != STRANGER else {}, **small
        )
        client.session.hooks["publish_refused"] = lambda subject: subject.startswith(b"r")
        if number != STRANGER:
            arguments: dict[str, Any] = {
                "client_hash": b"ABCDEF%02d" % number,
                "store_reply": STORE_REPLY + b"%d." % number,
            }
            client.link.accept_connect(**(arguments | ACCEPTS[number]))
        return Side(client)

    def _stored(self, batch: list[Delivery]) -> None:
        store = self.broker.store
        for delivery in batch:
            if delivery.subject.startswith(b"$JS"):
                continue
            answer = ANSWERS[len(delivery.payload) % len(ANSWERS)]
            store.link.publish(delivery.reply, answer)
            self._sequence += 1
            self._last = delivery, self._sequence
            self._pass_on(1)

    def _pass_on(self, deliveries: int) -> None:
        if self._last is None:
            return
        (_, subject, _, headers, payload), sequence = self._last
        ack = b"$JS.ACK.$MQTT_msgs.%b.%d.%d.1.17.0" % (CONSUMER, deliveries, sequence)
        outgoing = self.broker.store.link.outgoing
        outgoing.pass_on(DELIVER, subject, payload, reply=ack, headers=headers)
        self.broker.store.link.announce()

    @property
    def router(self) -> Router:
        return self.broker.router

    @property
    def interests(self) -> list[Interest]:
        return [self.broker.interest]

    def link(self, number: int) -> Link:
        found: Link = self.sides[number].end.link
        return found

    def open(self, number: int) -> None:
        self.sides[number] = self._side(number)

    def take_from(self, number: int, limit: int = EVERYTHING) -> None:
        self.sides[number].take(limit)

    def written(self, number: int) -> bytes:
        return bytes(self.sides[number].written)

    def _subscriptions(self) -> int:
        return super()._subscriptions() - self.broker.store.link.subscriptions_count

    def stop(self) -> None:
        self.broker.stop()
        self.sides.clear()

    # -- commands: of the chosen link, when it is one of a client that was let in

    @property
    def _own(self) -> Any:
        link = self.link(self.chosen)
        return link if self.chosen < STRANGER and not link.is_detached else None

    def send_255(self, argument: int) -> None:
        self._feed(b"\xff" * (argument + 1))

    def subscribe(self, argument: int) -> None:
        if self._own is not None:
            subject = SUBJECTS[argument % len(SUBJECTS)]
            queue = b"g" if argument >= 2 * len(SUBJECTS) else b""
            with contextlib.suppress(ValueError):  # more than it may have
                self._own.subscribe(
                    subject,
                    subject,
                    queue,
                    qos=argument % 3,
                    options=(argument & 3) << 2,
                    hides_dollar=argument == 3,
                )

    def unsubscribe(self, argument: int) -> None:
        if self._own is not None:
            self._own.unsubscribe(SUBJECTS[argument % len(SUBJECTS)])

    def follow(self, argument: int) -> None:
        if self._own is not None:
            self._own.follow(
                DELIVER, name=CONSUMER, qos=argument % 3, options=argument & 12, identifier=argument
            )

    def hear(self, argument: int) -> None:
        if self._own is not None and argument & 1:
            self._own.hear(RELEASED, releases=True)
        elif self._own is not None:
            self._own.hear(b"b.heard")

    def redeliver(self, argument: int) -> None:
        if argument < 10:
            self._pass_on(1 + argument % 3)
            return
        headers = b"NATS/1.0\r\nNmqtt-PubRel: %d\r\n\r\n" % (argument - 10)
        reply = b"$JS.ACK.$MQTT_out.x.1.%d.1.1.0" % argument
        self.broker.store.link.publish(RELEASED, b"", reply=reply, headers=headers)

    def settle(self, argument: int) -> None:
        if self._own is None:
            return
        if argument & 4:
            self._own.releases.receive(argument & 3)
        elif argument & 8:
            self._own.releases.finish(argument & 3)
        self._own.settle(argument)

    def occupy(self, argument: int) -> None:
        if self._own is None:
            return
        if argument & 4 and not self._own.publications.release(argument & 3):
            self._own.publications.released()
        elif argument & 8:
            self._own.publications.overdue(argument & 3)
        self._own.occupy(argument)

    def give_back(self, argument: int) -> None:
        if self._own is not None:
            self._own.expect(self._own.give_back(), argument)

    def deliver(self, argument: int) -> None:
        if self._own is not None:
            self._own.deliver(b"a", b"kept", qos=argument % 3, retain=True, subscription=argument)

    def forward(self, argument: int) -> None:
        if self._own is not None:
            self._own.forward(DELIVER, argument, b"a", b"NATS/1.0\r\nNmqtt-Pub:2\r\n\r\n", b"x")

    def restrict(self, argument: int) -> None:
        if self._own is not None:
            publish = PermissionCache(lambda key: b"n" not in key) if argument & 1 else None
            deliver = PermissionCache(lambda key: b"n" not in key) if argument & 2 else None
            self._own.restrict(publish, deliver, bool(argument & 4), False)

    def map_subjects(self, argument: int) -> None:
        self.broker.interest.mapper = mapped if argument & 1 else None

    def hold(self, argument: int) -> None:
        link = self.link(self.chosen)
        if argument & 1:
            link.hold()
        else:
            link.release()

    COMMANDS = (
        Playing.choose,
        Playing.end_tick,
        Playing.take,
        Playing.close,
        Playing.trace,
        send_255,
        subscribe,
        unsubscribe,
        follow,
        hear,
        redeliver,
        settle,
        occupy,
        give_back,
        deliver,
        forward,
        restrict,
        map_subjects,
        hold,
    )


def _seen(packet: Packet, version: int) -> Any:
    """What is the same whenever it is played: a PUBLISH has no properties, for one of them tells the time."""
    if packet.kind != 3:
        return packet
    at = 2 + int.from_bytes(packet.body[:2], "big") + (2 if packet.flags & 6 else 0)
    assert at <= len(packet.body)
    if version == 4:
        return packet
    size = shift = 0
    end = at
    while True:
        size |= (packet.body[end] & 0x7F) << shift
        shift += 7
        end += 1
        if not packet.body[end - 1] & 0x80:
            break
    assert end + size <= len(packet.body)
    return packet.flags, packet.body[:at], packet.body[end + size :]


def _read(number: int, written: bytes) -> list[Any]:
    if number == NATS:
        return read_frames(_MOMENT.sub(lambda found: b"x" * len(found[0]), written))
    version = ACCEPTS[number]["version"] if number != STRANGER else 4
    return [_seen(packet, version) for packet in read_packets(written)]


def check(data: bytes) -> None:
    """Plays one input both ways; raises as `play_twice`."""
    play_twice(data, MqttPlay, _read, _QUEUE)
