"""The properties of packets of MQTT 5.0: one structure, its reader and its writer.

Here lives the table of all properties: their numbers, types, bounds and packets. Never lives here: what a
property means.
Source: OASIS MQTT 5.0, table 2-4 and 2.2.2.2.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.limits import MAX_MQTT_USER_PROPERTIES
from headrace.protocol.mqtt.fields import FieldReader, binary, variable
from headrace.protocol.mqtt.reasons import MqttError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable


class PacketKind(IntEnum):
    """The type of a control packet; WILL stands for the properties of a will inside CONNECT."""

    WILL = 0
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Properties(Struct, frozen=True, kw_only=True):
    """The properties of a packet; None where a packet does not say one.

    Times are in seconds. Texts are UTF-8. `user` has names and values in the order of the packet.
    """

    payload_format: int | None = None
    message_expiry: int | None = None
    content_type: bytes | None = None
    response_topic: bytes | None = None
    correlation_data: bytes | None = None
    subscription_identifier: int | None = None
    session_expiry: int | None = None
    assigned_client_id: bytes | None = None
    server_keep_alive: int | None = None
    authentication_method: bytes | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay: int | None = None
    request_response_information: int | None = None
    response_information: bytes | None = None
    server_reference: bytes | None = None
    reason_string: bytes | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user: tuple[tuple[bytes, bytes], ...] = ()
    maximum_packet_size: int | None = None
    wildcards_available: int | None = None
    subscription_identifiers_available: int | None = None
    shared_available: int | None = None


NO_PROPERTIES: Final = Properties()


class _Type(Struct, frozen=True):
    """The reader and the writer of one type of values."""

    read: Callable[[FieldReader, str], object]
    write: Callable[..., bytes]


_BYTE: Final = _Type(FieldReader.byte, lambda value: bytes((value,)))
_TWO: Final = _Type(FieldReader.two_bytes, lambda value: value.to_bytes(2, "big"))
_FOUR: Final = _Type(FieldReader.four_bytes, lambda value: value.to_bytes(4, "big"))
_VARIABLE: Final = _Type(FieldReader.variable, variable)
_BINARY: Final = _Type(FieldReader.binary, binary)
_TEXT: Final = _Type(FieldReader.text, binary)
_PAIR: Final = _Type(
    lambda reader, field: (reader.text(field), reader.text(field)),
    lambda pair: binary(pair[0]) + binary(pair[1]),
)


class _Row(Struct, frozen=True):
    """One property: its field, its type and the packets that may have it."""

    name: str
    type: _Type
    kinds: frozenset[PacketKind]
    highest: int | None = None
    is_zero_wrong: bool = False
    wrong: Reason = Reason.PROTOCOL_ERROR

    @property
    def text(self) -> str:
        """The property's name as error texts have it."""
        return self.name.replace("_", " ")

    def check(self, value: object) -> None:
        """Check the value's bounds. Raises: MqttError."""
        if isinstance(value, int) and (
            (self.highest is not None and value > self.highest) or (self.is_zero_wrong and value == 0)
        ):
            raise MqttError(f"invalid value {value} of the property {self.text}", self.wrong)


def _of(*kinds: PacketKind) -> frozenset[PacketKind]:
    return frozenset(kinds)


_K = PacketKind
_MESSAGE: Final = _of(_K.PUBLISH, _K.WILL)
_ANSWERS: Final = _of(
    _K.CONNACK, _K.PUBACK, _K.PUBREC, _K.PUBREL, _K.PUBCOMP, _K.SUBACK, _K.UNSUBACK, _K.DISCONNECT, _K.AUTH
)
_USER: Final = _ANSWERS | _MESSAGE | _of(_K.CONNECT, _K.SUBSCRIBE, _K.UNSUBSCRIBE)
_BOTH: Final = _of(_K.CONNECT, _K.CONNACK)
_METHOD: Final = _BOTH | _of(_K.AUTH)
_CONNACK: Final = _of(_K.CONNACK)

_ROWS: Final = {
    0x01: _Row("payload_format", _BYTE, _MESSAGE, highest=1),
    0x02: _Row("message_expiry", _FOUR, _MESSAGE),
    0x03: _Row("content_type", _TEXT, _MESSAGE),
    0x08: _Row("response_topic", _TEXT, _MESSAGE),
    0x09: _Row("correlation_data", _BINARY, _MESSAGE),
    0x0B: _Row("subscription_identifier", _VARIABLE, _of(_K.PUBLISH, _K.SUBSCRIBE), is_zero_wrong=True),
    0x11: _Row("session_expiry", _FOUR, _BOTH | _of(_K.DISCONNECT)),
    0x12: _Row("assigned_client_id", _TEXT, _CONNACK),
    0x13: _Row("server_keep_alive", _TWO, _CONNACK),
    0x15: _Row("authentication_method", _TEXT, _METHOD),
    0x16: _Row("authentication_data", _BINARY, _METHOD),
    0x17: _Row("request_problem_information", _BYTE, _of(_K.CONNECT), highest=1),
    0x18: _Row("will_delay", _FOUR, _of(_K.WILL)),
    0x19: _Row("request_response_information", _BYTE, _of(_K.CONNECT), highest=1),
    0x1A: _Row("response_information", _TEXT, _CONNACK),
    0x1C: _Row("server_reference", _TEXT, _of(_K.CONNACK, _K.DISCONNECT)),
    0x1F: _Row("reason_string", _TEXT, _ANSWERS),
    0x21: _Row("receive_maximum", _TWO, _BOTH, is_zero_wrong=True),
    0x22: _Row("topic_alias_maximum", _TWO, _BOTH),
    0x23: _Row("topic_alias", _TWO, _of(_K.PUBLISH), is_zero_wrong=True, wrong=Reason.TOPIC_ALIAS_INVALID),
    0x24: _Row("maximum_qos", _BYTE, _CONNACK, highest=1),
    0x25: _Row("retain_available", _BYTE, _CONNACK, highest=1),
    0x26: _Row("user", _PAIR, _USER),
    0x27: _Row("maximum_packet_size", _FOUR, _BOTH, is_zero_wrong=True),
    0x28: _Row("wildcards_available", _BYTE, _CONNACK, highest=1),
    0x29: _Row("subscription_identifiers_available", _BYTE, _CONNACK, highest=1),
    0x2A: _Row("shared_available", _BYTE, _CONNACK, highest=1),
}
_USER_PROPERTY: Final = 0x26


def read_properties(kind: PacketKind, data: bytes, at: int = 0) -> tuple[Properties, int]:
    """The properties whose length stands at `at`, and where they end.

    Raises: MqttError for one that is unknown, not of this packet, there twice, out of its bounds or cut off.
    """
    reader = FieldReader(data, at)
    return properties_of(kind, reader), reader.at


def properties_of(kind: PacketKind, packet: FieldReader) -> Properties:
    """The properties that are next in a packet. Raises: MqttError, as `read_properties`."""
    reader = packet.part(packet.variable("properties"), "properties")
    if not reader.left:
        return NO_PROPERTIES
    found: dict[str, object] = {}
    user: list[tuple[bytes, bytes]] = []
    while reader.left:
        identifier = reader.variable("property identifier")
        row = _ROWS.get(identifier)
        if row is None:
            raise MqttError(f"unknown property {identifier:#04x}")
        if kind not in row.kinds:
            raise MqttError(f"property {row.text} is not allowed in {kind.name}")
        value = row.type.read(reader, row.text)
        if identifier == _USER_PROPERTY:
            if len(user) == MAX_MQTT_USER_PROPERTIES:
                raise MqttError(
                    f"more than {MAX_MQTT_USER_PROPERTIES} user properties", Reason.QUOTA_EXCEEDED
                )
            user.append(value)  # type: ignore[arg-type]  # a pair, by its row
            continue
        if row.name in found:
            raise MqttError(f"property {row.text} is there twice", Reason.PROTOCOL_ERROR)
        row.check(value)
        found[row.name] = value
    return Properties(user=tuple(user), **found)  # type: ignore[arg-type]  # by the rows


def property_bytes(properties: Properties | None) -> bytes:
    """Return properties without their length, in the order of their numbers. Raises: ValueError."""
    if properties is None or properties is NO_PROPERTIES:
        return b""
    out = []
    for identifier, row in _ROWS.items():
        value = getattr(properties, row.name)
        if identifier == _USER_PROPERTY:
            out += [bytes((identifier,)) + row.type.write(pair) for pair in value]
        elif value is not None:
            out.append(bytes((identifier,)) + row.type.write(value))
    return b"".join(out)


def write_properties(properties: Properties | None) -> bytes:
    """Return properties behind their length. Raises: ValueError."""
    written = property_bytes(properties)
    return variable(len(written)) + written
