"""The packets of MQTT that are rare, as structures, both ways, for 3.1.1 (version 4) and 5.0 (version 5).

Here live readers, each of the body of one kind of packet, and writers of whole packets. Never lives here:
PUBLISH, PINGREQ and framing (`engine/mqtt`), and whether a client may do what it asks for.
Source: OASIS MQTT 3.1.1 and 5.0, chapter 3; order of checks and texts of 3.1.1 as nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.limits import MAX_MQTT_FILTERS
from headrace.protocol.go_json import quoted_bytes
from headrace.protocol.mqtt.fields import FieldReader, binary, check_text, packet
from headrace.protocol.mqtt.properties import (
    NO_PROPERTIES,
    PacketKind,
    Properties,
    properties_of,
    write_properties,
)
from headrace.protocol.mqtt.reasons import MqttError, Reason, ReturnCode
from headrace.protocol.mqtt.topics import check_client_id, check_topic, is_shared
from headrace.structures import Discreet

if TYPE_CHECKING:
    from collections.abc import Sized

VERSION_3: Final = 4
"""The protocol level of 3.1.1."""

VERSION_5: Final = 5

QOS_MASK: Final = 0x03
NO_LOCAL: Final = 0x04
RETAIN_AS_PUBLISHED: Final = 0x08
RETAIN_HANDLING_SHIFT: Final = 4
"""The bits of the options of a filter: two of QoS, no local, retain as published, two of retain handling."""

_RETAIN_HANDLING_MASK: Final = 0x30
_RESERVED_OPTIONS: Final = 0xC0
_CLEAN: Final = 0x02
_WILL: Final = 0x04
_WILL_QOS_SHIFT: Final = 3
_WILL_RETAIN: Final = 0x20
_PASSWORD: Final = 0x40
_USER: Final = 0x80


class Will(Struct, frozen=True):
    """The message that a server publishes when the connection is lost."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    properties: Properties = NO_PROPERTIES


class Connect(Discreet, Struct, frozen=True):
    """A CONNECT. `client_id` is empty where the server has to choose one; `keep_alive` is in seconds."""

    HIDDEN = frozenset({"password"})

    version: int
    clean: bool
    keep_alive: int
    client_id: bytes
    will: Will | None = None
    user: bytes | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class Subscribe(Struct, frozen=True):
    """A SUBSCRIBE: filters as they came, each with its byte of options."""

    identifier: int
    filters: list[tuple[bytes, int]]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(Struct, frozen=True):
    """An UNSUBSCRIBE: filters as they came."""

    identifier: int
    filters: list[bytes]
    properties: Properties = NO_PROPERTIES


class Acknowledgement(Struct, frozen=True):
    """A PUBACK, PUBREC, PUBREL or PUBCOMP."""

    identifier: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class Disconnect(Struct, frozen=True):
    """A DISCONNECT."""

    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class Auth(Struct, frozen=True):
    """An AUTH."""

    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


# -- CONNECT --------------------------------------------------------------------------------------


def read_connect(body: bytes, *, max_version: int = VERSION_5, rejects_qos2: bool = False) -> Connect:
    """Read a CONNECT.

    `max_version`: the highest protocol level that is spoken. `rejects_qos2`: a will of QoS 2 is refused.

    Raises: MqttError, with the version and the client identifier as far as they were read.
    """
    reader = FieldReader(body)
    _check_protocol_name(reader.binary("protocol name"))
    version = reader.byte("protocol level")
    if version not in (VERSION_3, VERSION_5) or version > max_version:
        raise MqttError(
            f"unacceptable protocol version of {version}",
            Reason.UNSUPPORTED_PROTOCOL_VERSION,
            ReturnCode.UNACCEPTABLE_VERSION,
        )
    connect = _ConnectReader(reader, version)
    try:
        return connect.read(rejects_qos2)
    except MqttError as error:
        error.version = version
        error.client_id = connect.client_id
        raise


def _check_protocol_name(name: bytes) -> None:
    if name == b"MQIsdp":
        raise MqttError('older protocol "MQIsdp" not supported', Reason.UNSUPPORTED_PROTOCOL_VERSION)
    if name != b"MQTT":
        raise MqttError(
            f'expected connect packet with protocol name "MQTT", got {quoted_bytes(name)}',
            Reason.UNSUPPORTED_PROTOCOL_VERSION,
        )


class _ConnectReader:
    """The fields of one CONNECT behind its version."""

    def __init__(self, reader: FieldReader, version: int) -> None:
        self._reader = reader
        self._version = version
        self._flags = 0
        self.client_id = b""

    def read(self, rejects_qos2: bool) -> Connect:
        reader = self._reader
        self._flags = reader.byte("flags")
        self._check_flags(rejects_qos2)
        keep_alive = reader.two_bytes("keep alive")
        properties = self._properties()
        self._read_client_id()
        will = self._will() if self._flags & _WILL else None
        user = self._user() if self._flags & _USER else None
        password = reader.binary("password") if self._flags & _PASSWORD else None
        if reader.left:
            raise MqttError(f"{reader.left} bytes behind the last field of CONNECT")
        return Connect(
            self._version,
            bool(self._flags & _CLEAN),
            keep_alive,
            self.client_id,
            will,
            user,
            password,
            properties,
        )

    def _check_flags(self, rejects_qos2: bool) -> None:
        flags = self._flags
        if flags & 1:
            raise MqttError("connect flags reserved bit not set to 0")
        qos = flags >> _WILL_QOS_SHIFT & QOS_MASK
        if not flags & _WILL:
            if qos:
                raise MqttError(f"if Will flag is set to 0, Will QoS must be 0 too, got {qos}")
            if flags & _WILL_RETAIN:
                raise MqttError("if Will flag is set to 0, Will Retain flag must be 0 too")
        elif qos == 3:
            raise MqttError("if Will flag is set to 1, Will QoS can be 0, 1 or 2, got 3")
        if rejects_qos2 and qos == 2:
            raise MqttError(
                "server does not accept QoS2 for Will messages",
                Reason.QOS_NOT_SUPPORTED,
                ReturnCode.QOS2_WILL_REJECTED,
            )
        if flags & _PASSWORD and not flags & _USER and self._version < VERSION_5:
            raise MqttError("password flag set but username flag is not")

    def _properties(self) -> Properties:
        if self._version < VERSION_5:
            return NO_PROPERTIES
        properties = properties_of(PacketKind.CONNECT, self._reader)
        if properties.authentication_method is not None:
            raise MqttError(
                f"authentication method {quoted_bytes(properties.authentication_method)} is not supported",
                Reason.BAD_AUTHENTICATION_METHOD,
            )
        if properties.authentication_data is not None:
            raise MqttError("authentication data without a method", Reason.PROTOCOL_ERROR)
        return properties

    def _read_client_id(self) -> None:
        self.client_id = self._reader.binary("client ID")
        if self.client_id:
            check_client_id(self.client_id)
        elif self._version < VERSION_5 and not self._flags & _CLEAN:
            raise MqttError(
                "when client ID is empty, clean session flag must be set to 1",
                Reason.CLIENT_IDENTIFIER_NOT_VALID,
                ReturnCode.IDENTIFIER_REJECTED,
            )

    def _will(self) -> Will:
        properties = NO_PROPERTIES
        if self._version == VERSION_5:
            properties = properties_of(PacketKind.WILL, self._reader)
            if properties.response_topic is not None:
                check_response_topic(properties.response_topic)
        topic = self._reader.binary("Will topic")
        if not topic:
            raise MqttError("empty Will topic not allowed", Reason.TOPIC_NAME_INVALID)
        check_topic(topic, "Will topic")
        payload = self._reader.binary("Will message")
        qos = self._flags >> _WILL_QOS_SHIFT & QOS_MASK
        return Will(topic, payload, qos, bool(self._flags & _WILL_RETAIN), properties)

    def _user(self) -> bytes:
        user = self._reader.binary("user name")
        refused = (Reason.BAD_USER_NAME_OR_PASSWORD, ReturnCode.BAD_USER_OR_PASSWORD)
        if not user:
            raise MqttError("empty user name not allowed", *refused)
        try:
            check_text(user, "user name")
        except MqttError as error:
            raise MqttError(error.text, *refused) from None
        return user


def check_response_topic(topic: bytes) -> None:
    """Check the topic for responses of a message. Raises: MqttError."""
    if not topic:
        raise MqttError("response topic cannot be empty", Reason.PROTOCOL_ERROR)
    check_topic(topic, "response topic", Reason.PROTOCOL_ERROR)


def write_connect(connect: Connect) -> bytes:
    """Return a whole CONNECT. Raises: ValueError."""
    is_5 = connect.version == VERSION_5
    flags = _CLEAN if connect.clean else 0
    fields = [binary(connect.client_id)]
    will = connect.will
    if will is not None:
        flags |= _WILL | will.qos << _WILL_QOS_SHIFT | (_WILL_RETAIN if will.retain else 0)
        fields += [
            write_properties(will.properties) if is_5 else b"",
            binary(will.topic),
            binary(will.payload),
        ]
    if connect.user is not None:
        flags |= _USER
        fields.append(binary(connect.user))
    if connect.password is not None:
        flags |= _PASSWORD
        fields.append(binary(connect.password))
    head = binary(b"MQTT") + bytes((connect.version, flags)) + connect.keep_alive.to_bytes(2, "big")
    properties = write_properties(connect.properties) if is_5 else b""
    return packet(PacketKind.CONNECT, 0, head + properties + b"".join(fields))


def connack(
    version: int, code: int, session_present: bool = False, properties: Properties | None = None
) -> bytes:
    """Return a CONNACK. `code`: a ReturnCode for version 4, a Reason for version 5."""
    body = bytes((int(session_present), code))
    if version == VERSION_5:
        body += write_properties(properties)
    return packet(PacketKind.CONNACK, 0, body)


def refusing_connack(error: MqttError) -> bytes:
    """Return the CONNACK that refuses a CONNECT; nothing where the connection is closed without a byte."""
    if error.version == VERSION_5:
        return connack(VERSION_5, error.reason)
    return b"" if error.return_code is None else connack(VERSION_3, error.return_code)


# -- SUBSCRIBE, UNSUBSCRIBE -----------------------------------------------------------------------


def read_subscribe(body: bytes, version: int) -> Subscribe:
    """Read a SUBSCRIBE. Raises: MqttError."""
    reader = FieldReader(body)
    identifier = _identifier(reader)
    properties = properties_of(PacketKind.SUBSCRIBE, reader) if version == VERSION_5 else NO_PROPERTIES
    filters: list[tuple[bytes, int]] = []
    while reader.left:
        _check_count(filters)
        topic_filter = _filter(reader)
        options = reader.byte("QoS")
        if version == VERSION_5:
            _check_options(topic_filter, options)
        elif options > 2:
            raise MqttError(f"subscribe QoS value must be 0, 1 or 2, got {options}")
        filters.append((topic_filter, options))
    if not filters:
        raise MqttError("subscribe protocol must contain at least 1 topic filter", Reason.PROTOCOL_ERROR)
    return Subscribe(identifier, filters, properties)


def read_unsubscribe(body: bytes, version: int) -> Unsubscribe:
    """Read an UNSUBSCRIBE. Raises: MqttError."""
    reader = FieldReader(body)
    identifier = _identifier(reader)
    properties = properties_of(PacketKind.UNSUBSCRIBE, reader) if version == VERSION_5 else NO_PROPERTIES
    filters: list[bytes] = []
    while reader.left:
        _check_count(filters)
        filters.append(_filter(reader))
    if not filters:
        raise MqttError("unsubscribe protocol must contain at least 1 topic filter", Reason.PROTOCOL_ERROR)
    return Unsubscribe(identifier, filters, properties)


def suback(version: int, identifier: int, codes: list[int], properties: Properties | None = None) -> bytes:
    """Return a SUBACK with one code for each filter."""
    head = identifier.to_bytes(2, "big") + (write_properties(properties) if version == VERSION_5 else b"")
    return packet(PacketKind.SUBACK, 0, head + bytes(codes))


def unsuback(version: int, identifier: int, codes: list[int], properties: Properties | None = None) -> bytes:
    """Return an UNSUBACK; that of version 4 has no codes."""
    body = identifier.to_bytes(2, "big")
    if version == VERSION_5:
        body += write_properties(properties) + bytes(codes)
    return packet(PacketKind.UNSUBACK, 0, body)


def _check_count(filters: Sized) -> None:
    if len(filters) >= MAX_MQTT_FILTERS:
        raise MqttError(f"more than {MAX_MQTT_FILTERS} topic filters in a packet", Reason.QUOTA_EXCEEDED)


def _filter(reader: FieldReader) -> bytes:
    topic_filter = reader.binary("topic filter")
    if not topic_filter:
        raise MqttError("topic filter cannot be empty", Reason.PROTOCOL_ERROR)
    check_text(topic_filter, "topic filter")
    return topic_filter


def _check_options(topic_filter: bytes, options: int) -> None:
    if options & QOS_MASK == 3:
        raise MqttError("subscribe QoS value must be 0, 1 or 2, got 3", Reason.PROTOCOL_ERROR)
    if options & _RESERVED_OPTIONS:
        raise MqttError(f"subscribe options reserved bits not set to 0: {options:#04x}")
    if options & _RETAIN_HANDLING_MASK == _RETAIN_HANDLING_MASK:
        raise MqttError("subscribe retain handling must be 0, 1 or 2, got 3", Reason.PROTOCOL_ERROR)
    if options & NO_LOCAL and is_shared(topic_filter):
        raise MqttError("no local is not allowed on a shared subscription", Reason.PROTOCOL_ERROR)


# -- acknowledgements, DISCONNECT, AUTH -----------------------------------------------------------

_PUBLISH_REASONS: Final = frozenset(
    {
        Reason.SUCCESS,
        Reason.NO_MATCHING_SUBSCRIBERS,
        Reason.UNSPECIFIED_ERROR,
        Reason.IMPLEMENTATION_SPECIFIC_ERROR,
        Reason.NOT_AUTHORIZED,
        Reason.TOPIC_NAME_INVALID,
        Reason.PACKET_IDENTIFIER_IN_USE,
        Reason.QUOTA_EXCEEDED,
        Reason.PAYLOAD_FORMAT_INVALID,
    }
)
_RELEASE_REASONS: Final = frozenset({Reason.SUCCESS, Reason.PACKET_IDENTIFIER_NOT_FOUND})
_DISCONNECT_REASONS: Final = frozenset(
    {
        Reason.SUCCESS,
        Reason.DISCONNECT_WITH_WILL,
        Reason.UNSPECIFIED_ERROR,
        Reason.MALFORMED_PACKET,
        Reason.PROTOCOL_ERROR,
        Reason.IMPLEMENTATION_SPECIFIC_ERROR,
        Reason.TOPIC_NAME_INVALID,
        Reason.RECEIVE_MAXIMUM_EXCEEDED,
        Reason.TOPIC_ALIAS_INVALID,
        Reason.PACKET_TOO_LARGE,
        Reason.MESSAGE_RATE_TOO_HIGH,
        Reason.QUOTA_EXCEEDED,
        Reason.ADMINISTRATIVE_ACTION,
        Reason.PAYLOAD_FORMAT_INVALID,
    }
)
_REASONS: Final = {
    PacketKind.PUBACK: _PUBLISH_REASONS,
    PacketKind.PUBREC: _PUBLISH_REASONS,
    PacketKind.PUBREL: _RELEASE_REASONS,
    PacketKind.PUBCOMP: _RELEASE_REASONS,
    PacketKind.DISCONNECT: _DISCONNECT_REASONS,
    PacketKind.AUTH: frozenset({Reason.SUCCESS, Reason.CONTINUE_AUTHENTICATION, Reason.RE_AUTHENTICATE}),
}
"""The reasons that a client may say, by the kind of its packet."""

_RESERVED_FLAGS: Final = 2
"""The flags of PUBREL, SUBSCRIBE and UNSUBSCRIBE."""


def read_ack(kind: PacketKind, body: bytes, version: int) -> Acknowledgement:
    """Read a PUBACK, PUBREC, PUBREL or PUBCOMP. Raises: MqttError."""
    if version < VERSION_5 and len(body) != 2:
        raise MqttError(f"invalid remaining length {len(body)} for packet type {kind << 4:x}")
    reader = FieldReader(body)
    return Acknowledgement(_identifier(reader), *_reason_and_properties(kind, reader))


def read_disconnect(body: bytes, version: int) -> Disconnect:
    """Read a DISCONNECT. Raises: MqttError."""
    if version < VERSION_5 and body:
        raise MqttError(
            f"invalid remaining length {len(body)} for packet type {PacketKind.DISCONNECT << 4:x}"
        )
    return Disconnect(*_reason_and_properties(PacketKind.DISCONNECT, FieldReader(body)))


def read_auth(body: bytes) -> Auth:
    """Read an AUTH. Raises: MqttError."""
    return Auth(*_reason_and_properties(PacketKind.AUTH, FieldReader(body)))


def ack(
    kind: PacketKind,
    version: int,
    identifier: int,
    reason: Reason = Reason.SUCCESS,
    properties: Properties | None = None,
) -> bytes:
    """Return a PUBACK, PUBREC, PUBREL or PUBCOMP in its shortest form; version 4 says no reason."""
    tail = _tail(reason, properties) if version == VERSION_5 else b""
    flags = _RESERVED_FLAGS if kind == PacketKind.PUBREL else 0
    return packet(kind, flags, identifier.to_bytes(2, "big") + tail)


def disconnect(reason: Reason, properties: Properties | None = None) -> bytes:
    """Return a DISCONNECT of version 5 in its shortest form."""
    return packet(PacketKind.DISCONNECT, 0, _tail(reason, properties))


def _tail(reason: Reason, properties: Properties | None) -> bytes:
    if properties is not None and properties != NO_PROPERTIES:
        return bytes((reason,)) + write_properties(properties)
    return bytes((reason,)) if reason else b""


def _reason_and_properties(kind: PacketKind, reader: FieldReader) -> tuple[Reason, Properties]:
    if not reader.left:
        return Reason.SUCCESS, NO_PROPERTIES
    code = reader.byte("reason code")
    if code not in _REASONS[kind]:
        raise MqttError(f"invalid reason code {code:#04x} in {kind.name}", Reason.PROTOCOL_ERROR)
    properties = properties_of(kind, reader) if reader.left else NO_PROPERTIES
    if reader.left:
        raise MqttError(f"{reader.left} bytes behind the properties of {kind.name}")
    return Reason(code), properties


def _identifier(reader: FieldReader) -> int:
    identifier = reader.two_bytes("packet identifier")
    if not identifier:
        raise MqttError("packet identifier cannot be 0")
    return identifier
