"""Bodies of MQTT's rare packets, whole and spoilt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fuzz.mqtt_packets_target import READS, body_of
from fuzz.s2_mutator import s2_mutate
from headrace.protocol.mqtt.fields import binary
from headrace.protocol.mqtt.packets import Connect, Will, ack, disconnect, write_connect
from headrace.protocol.mqtt.properties import NO_PROPERTIES, PacketKind, Properties, write_properties
from headrace.protocol.mqtt.reasons import Reason

if TYPE_CHECKING:
    import random

_TEXTS: Final = (
    b"",
    b"a",
    b"a/b",
    b"a/#",
    b"+/x",
    b"#",
    b"$share/g/a",
    b"$share//a",
    b"$SYS/x",
    b"\xc3\xa4",
    b"\xff",
    b"\0",
    b"a b",
    b"a.b",
    b"a\n",
    b"x" * 300,
)
_SECONDS: Final = (0, 1, 59, 101, (1 << 32) - 1)


def _text(rng: random.Random) -> bytes:
    return rng.choice(_TEXTS[1:5] * 3 + _TEXTS)


def _pairs(rng: random.Random) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((_text(rng), _text(rng)) for _ in range(rng.choice((0, 0, 1, 3))))


def _of_connect(rng: random.Random) -> Properties:
    return Properties(
        session_expiry=rng.choice((None, *_SECONDS)),
        receive_maximum=rng.choice((None, None, 0, 1, 65535)),
        maximum_packet_size=rng.choice((None, None, 0, 1, 1 << 20)),
        topic_alias_maximum=rng.choice((None, 0, 9)),
        request_response_information=rng.choice((None, 0, 1, 2)),
        request_problem_information=rng.choice((None, 0, 1)),
        authentication_method=rng.choice((None,) * 9 + (b"SCRAM",)),
        user=_pairs(rng),
    )


def _of_will(rng: random.Random) -> Properties:
    return Properties(
        will_delay=rng.choice((None, *_SECONDS)),
        payload_format=rng.choice((None, 0, 1, 2)),
        message_expiry=rng.choice((None, *_SECONDS)),
        content_type=rng.choice((None, _text(rng))),
        response_topic=rng.choice((None, None, _text(rng))),
        correlation_data=rng.choice((None, b"\0\xff")),
        user=_pairs(rng),
    )


def _connect(rng: random.Random) -> bytes:
    version = rng.choice((4, 5, 5))
    properties = _of_connect(rng) if version == 5 and rng.random() < 0.7 else NO_PROPERTIES
    will = None
    if rng.random() < 0.5:
        of_will = _of_will(rng) if version == 5 and rng.random() < 0.7 else NO_PROPERTIES
        will = Will(_text(rng), rng.choice((b"", b"gone")), rng.randrange(3), rng.random() < 0.3, of_will)
    user = rng.choice((None, None, _text(rng)))
    password = None if user is None else rng.choice((None, b"secret", b"\xff"))
    clean, keep_alive = rng.random() < 0.7, rng.choice((0, 30, 65535))
    return body_of(
        write_connect(Connect(version, clean, keep_alive, _text(rng), will, user, password, properties))
    )


def _properties(rng: random.Random, *, identifier: bool = False) -> bytes:
    numbered = rng.choice((None, 1, 128, (1 << 28) - 1)) if identifier else None
    return write_properties(Properties(subscription_identifier=numbered, user=_pairs(rng)))


def _request(rng: random.Random, *, version: int, has_options: bool) -> bytes:
    made = rng.choice((0, 1, 2, 65535)).to_bytes(2, "big")
    if version == 5:
        made += _properties(rng, identifier=has_options)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        made += binary(_text(rng))
        if has_options:
            made += bytes([rng.choice((0, 1, 2, 1, 2, 3, 4, 8, 0x10, 0x2E, 0x30, 0x40))])
    return made


def _acknowledgement(rng: random.Random, kind: PacketKind, version: int) -> bytes:
    reason = rng.choice((Reason.SUCCESS, Reason.PACKET_IDENTIFIER_NOT_FOUND, Reason.QUOTA_EXCEEDED))
    properties = rng.choice((NO_PROPERTIES, Properties(reason_string=_text(rng), user=_pairs(rng))))
    return body_of(ack(kind, version, rng.choice((0, 1, 300)), reason, properties))


def _farewell(rng: random.Random) -> bytes:
    reason = rng.choice((Reason.SUCCESS, Reason.DISCONNECT_WITH_WILL, Reason.MALFORMED_PACKET))
    properties = Properties(session_expiry=rng.choice((None, *_SECONDS)), user=_pairs(rng))
    return body_of(disconnect(reason, properties)) if rng.random() < 0.8 else b""


def _whole(rng: random.Random, number: int) -> bytes:
    """Return a body for one of `READS`."""
    if number < 2:
        return _connect(rng)
    version = 4 + number % 2
    if number < 6:
        return _request(rng, version=version, has_options=number < 4)
    if number < 9:
        return _farewell(rng)
    kind = PacketKind(PacketKind.PUBACK + (number - 9) // 2)
    return _acknowledgement(rng, kind, 4 if number % 2 else 5)


def mqtt_packet_input(rng: random.Random) -> bytes:
    """A fresh input: mostly a body as it should be, sometimes changed."""
    number = rng.choice((0, 0, 0, 1, *range(len(READS))))
    made = bytes([number]) + _whole(rng, number)
    return s2_mutate(made, rng, 100_000) if rng.random() < 0.4 else made


def mqtt_packets_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """Change an input a little, or make another one."""
    return s2_mutate(data, rng, most) if rng.random() < 0.7 else mqtt_packet_input(rng)[:most]
