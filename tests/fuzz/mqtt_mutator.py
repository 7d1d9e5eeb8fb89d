"""Inputs that look like what clients of MQTT send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mqtt_peers import CONNECT, CONNECT_5, DISCONNECT, PING, packet, publish, text

from fuzz.client_mutator import MAKERS, any_command, mutated
from fuzz.mqtt_target import NATS, STRANGER, SUBJECTS, MqttPlay
from fuzz.playing import command
from fuzz.route_mutator import Maker, commands, interleaved

if TYPE_CHECKING:
    import random

_TOPICS: Final = (
    b"a",
    b"a/b",
    b"b/heard",
    b"b/n",
    b"/",
    b"a//b",
    b"$x/y",
    b"x/c",
    b"",
    b"a+",
    b"r.n",
    b"a b",
    b"a" * 70,
)
_PROPERTIES: Final = (
    b"",
    b"\x01\x01",
    b"\x03" + text(b"t"),
    b"\x08" + text(b"re/x"),
    b"\x09" + text(b"\x00\x01"),
    b"\x23\x00\x01",
    b"\x23\x00\x02",
    b"&" + text(b"k") + text(b"v"),
    b"&" + text(b"traceparent") + text(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    b"\x02\x00\x00\x00\x00",
    b"\x0b\x01",
)


def _publish(rng: random.Random, *, is_5: bool) -> bytes:
    properties = b"".join(rng.sample(_PROPERTIES, rng.randrange(4)))
    return publish(
        rng.choice(_TOPICS[:8] * 3 + _TOPICS),
        b"p" * rng.choice((0, 1, 3, 40, 300)),
        qos=rng.choice((0, 0, 0, 1, 1, 1, 2, 3)) if rng.random() < 0.3 else rng.randrange(2),
        identifier=rng.choice((1, 2, 3, 300)),
        retain=rng.random() < 0.2,
        dup=rng.random() < 0.05,
        properties=properties if is_5 else None,
    )


def _acknowledge(rng: random.Random) -> bytes:
    kind = rng.choice((0x40, 0x40, 0x40, 0x50, 0x62, 0x70))
    return bytes([kind, 2, 0, rng.randrange(1, 5)])


def _exactly_once(rng: random.Random, *, is_5: bool) -> bytes:
    """The packets of messages of QoS 2, both ways, with the ticks between that answers take."""
    tick = command(MqttPlay.COMMANDS, MqttPlay.end_tick, 0)
    identifier = rng.choice((1, 2, 3, 300))
    message = publish(
        rng.choice(_TOPICS[:8]),
        b"p" * rng.choice((0, 1, 3, 40, 300, rng.randrange(20))),
        qos=2,
        identifier=identifier,
        retain=rng.random() < 0.2,
        properties=rng.choice(_PROPERTIES) if is_5 else None,
    )
    parts = [message, tick * 2, b"\x62\x02" + identifier.to_bytes(2, "big"), tick * rng.randrange(5)]
    for kind in (0x50, 0x70):
        parts += [bytes([kind, 2, 0, number]) for number in rng.sample((1, 2, 3, 4), rng.randrange(1, 4))]
        parts.append(tick * 2)
        parts.append(command(MqttPlay.COMMANDS, MqttPlay.redeliver, rng.randrange(10, 13)))
    return b"".join(part for part in parts if rng.random() < 0.95)


def _rare(rng: random.Random) -> bytes:
    return rng.choice(
        (
            PING,
            PING,
            packet(0x82, b"\0\1" + text(b"a") + b"\0"),
            packet(0xA2, b"\0\1"),
            DISCONNECT,
            b"\xf0\x00",
            CONNECT,
        )
    )


def _makers(number: int) -> list[Maker]:
    if number == NATS:
        return MAKERS
    if number == STRANGER:
        return [lambda rng: rng.choice((CONNECT, CONNECT_5)), _rare]
    is_5 = number > 0
    publications: list[Maker] = [lambda rng: _publish(rng, is_5=is_5)] * 6
    subscribing: list[Maker] = [
        lambda rng: command(MqttPlay.COMMANDS, MqttPlay.subscribe, rng.randrange(min(13, len(SUBJECTS)))),
        lambda rng: command(MqttPlay.COMMANDS, MqttPlay.follow, rng.randrange(13)),
    ]
    whole: list[Maker] = [lambda rng: _exactly_once(rng, is_5=is_5)] * 2
    return publications + subscribing + whole + [_acknowledge] * 3 + [_rare, any_command]


_ALL: Final[list[Maker]] = [
    maker for number in range(MqttPlay.LINKS) for maker in _makers(number)
] + commands(MqttPlay) * 6


def mqtt_session(rng: random.Random, ops: int) -> bytes:
    """A fresh input of so many ops. What would end a connection at once is mostly left out."""
    return interleaved(rng, MqttPlay, ops, _makers)


def mqtt_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """`data` with an op or two put in, taken out, doubled or damaged; at most `most` bytes."""
    return mutated(data, rng, most, _ALL)
