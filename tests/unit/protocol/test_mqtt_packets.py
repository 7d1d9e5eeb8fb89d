"""Packets of MQTT: what is read is what was written; what is malformed has the text and code of its rule."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.mqtt.fields import FieldReader, binary, packet, variable
from headrace.protocol.mqtt.packets import (
    Acknowledgement,
    Auth,
    Connect,
    Disconnect,
    Subscribe,
    Unsubscribe,
    Will,
    ack,
    connack,
    disconnect,
    read_ack,
    read_auth,
    read_connect,
    read_disconnect,
    read_subscribe,
    read_unsubscribe,
    refusing_connack,
    suback,
    unsuback,
    write_connect,
)
from headrace.protocol.mqtt.properties import PacketKind, Properties
from headrace.protocol.mqtt.reasons import MqttError, Reason, ReturnCode
from headrace.protocol.mqtt.topics import check_topic, shared_parts

_TEXTS: Final = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
_NAMES: Final = st.text("abcXYZ019/äß", min_size=1, max_size=8)


def _body(whole: bytes) -> bytes:
    """The body of a whole packet."""
    reader = FieldReader(whole, 1)
    length = reader.variable("length")
    assert length == reader.left
    return whole[reader.at :]


def _connect(
    flags: int = 2,
    *fields: bytes,
    level: int = 4,
    name: bytes = b"MQTT",
    client_id: bytes = b"me",
    properties: bytes = b"\0",
) -> bytes:
    """The body of a CONNECT with these flags and with these fields behind the client identifier."""
    head = binary(name) + bytes((level, flags)) + b"\0\0" + (properties if level == 5 else b"")
    return head + binary(client_id) + b"".join(fields)


def _error(body: bytes, **options: Any) -> MqttError:
    with pytest.raises(MqttError) as caught:
        read_connect(body, **options)
    return caught.value


# -- CONNECT --------------------------------------------------------------------------------------


def test_a_connect_of_a_vector_is_read() -> None:
    body = bytes.fromhex("00044d515454040200000007616162636465 66".replace(" ", ""))

    assert read_connect(body) == Connect(4, True, 0, b"aabcdef")


_WILLS: Final = st.builds(
    Will, _NAMES.map(str.encode), st.binary(max_size=8), st.integers(0, 2), st.booleans()
)
_CONNECTS: Final = st.builds(
    Connect,
    st.sampled_from([4, 5]),
    st.just(True),
    st.integers(0, 65535),
    _NAMES.map(str.encode),
    st.none() | _WILLS,
    st.just(b"user"),
    st.none() | st.binary(max_size=8),
)


@given(_CONNECTS)
def test_a_connect_is_read_as_it_was_written(connect: Connect) -> None:
    assert read_connect(_body(write_connect(connect))) == connect


def test_a_connect_of_version_5_has_its_properties_and_those_of_its_will() -> None:
    connect = Connect(
        5,
        False,
        7,
        b"",
        Will(b"a/b", b"x", 1, True, Properties(will_delay=3, content_type=b"text/plain")),
        None,
        b"secret",
        Properties(session_expiry=60, receive_maximum=5, user=((b"a", b"1"), (b"a", b"2"))),
    )

    assert read_connect(_body(write_connect(connect))) == connect
    assert "secret" not in repr(connect)


@pytest.mark.parametrize(
    ("body", "text", "return_code"),
    [
        (_connect(name=b"MQIsdp", level=3), 'older protocol "MQIsdp" not supported', None),
        (_connect(name=b"MQTX"), 'expected connect packet with protocol name "MQTT", got "MQTX"', None),
        (_connect(level=6), "unacceptable protocol version of 6", 1),
        (_connect(level=0x84), "unacceptable protocol version of 132", 1),
        (_connect(3), "connect flags reserved bit not set to 0", None),
        (_connect(0x1E), "if Will flag is set to 1, Will QoS can be 0, 1 or 2, got 3", None),
        (_connect(0x0A), "if Will flag is set to 0, Will QoS must be 0 too, got 1", None),
        (_connect(0x22), "if Will flag is set to 0, Will Retain flag must be 0 too", None),
        (_connect(0x42, binary(b"p")), "password flag set but username flag is not", None),
        (_connect(0, client_id=b""), "when client ID is empty, clean session flag must be set to 1", 2),
        (_connect(client_id=b"a b"), 'invalid character in client ID "a b"', 2),
        (_connect(client_id=b"a.b"), 'invalid character in client ID "a.b"', 2),
        (_connect(client_id=b"a*"), 'invalid character in client ID "a*"', 2),
        (_connect(client_id=b">"), 'invalid character in client ID ">"', 2),
        (_connect(client_id=b"\xff"), 'invalid utf8 for client ID "\\xff"', 2),
        (_connect(client_id=b"\0"), 'invalid null character in client ID "\\x00"', 2),
        (_connect(6, binary(b""), binary(b"")), "empty Will topic not allowed", None),
        (_connect(6, binary(b"a/#"), binary(b"")), 'wildcards not allowed in publish\'s topic: "a/#"', None),
        (_connect(6, binary(b"a b"), binary(b"")), "character not supported for MQTT topics", None),
        (_connect(6, binary(b"a\0"), binary(b"")), 'invalid null character in Will topic "a\\x00"', None),
        (_connect(6, binary(b"\xc3"), binary(b"")), 'invalid utf8 for Will topic "\\xc3"', None),
        (_connect(6, binary(b"a")), "error reading Will message: unexpected EOF", None),
        (_connect(0x82, binary(b"")), "empty user name not allowed", 4),
        (_connect(0x82, binary(b"a\0")), 'invalid null character in user name "a\\x00"', 4),
        (_connect(0x82, binary(b"\xff")), 'invalid utf8 for user name "\\xff"', 4),
        (_connect(0xC2, binary(b"u"), b"\0\2p"), "error reading password: unexpected EOF", None),
        (_connect(2, b"\xc0\0"), "2 bytes behind the last field of CONNECT", None),
        (b"\0", "error reading protocol name: unexpected EOF", None),
        (b"\0\4MQTT", "error reading protocol level: EOF", None),
        (b"\0\4MQTT\4", "error reading flags: EOF", None),
        (b"\0\4MQTT\4\2\0", "error reading keep alive: unexpected EOF", None),
        (b"\0\4MQTT\4\2\0\0", "error reading client ID: unexpected EOF", None),
    ],
)
def test_a_malformed_connect_of_3_1_1_has_its_text_and_return_code(
    body: bytes, text: str, return_code: int | None
) -> None:
    error = _error(body)

    assert (error.text, error.return_code) == (text, return_code)
    assert refusing_connack(error) == (b"" if return_code is None else bytes((0x20, 2, 0, return_code)))


def test_passwords_and_will_messages_are_any_bytes() -> None:
    connect = read_connect(_connect(0xC6, binary(b"t"), binary(b"\0\xff"), binary(b"u"), binary(b"\0\xfe")))

    assert connect.will is not None
    assert (connect.will.payload, connect.password) == (b"\0\xff", b"\0\xfe")


def test_a_will_of_qos_2_is_refused_where_it_is_not_wanted() -> None:
    body = _connect(0x16, binary(b"t"), binary(b""))

    assert read_connect(body).will is not None
    error = _error(body, rejects_qos2=True)
    assert error.return_code is ReturnCode.QOS2_WILL_REJECTED
    error = _error(_connect(0x16, level=5), rejects_qos2=True)
    assert refusing_connack(error) == b"\x20\3\0\x9b\0"


def test_level_5_is_refused_as_nats_server_does_where_it_is_off() -> None:
    error = _error(_connect(level=5), max_version=4)

    assert (error.text, refusing_connack(error)) == (
        "unacceptable protocol version of 5",
        bytes.fromhex("20020001"),
    )


def test_an_error_knows_the_client_identifier_that_was_read_before_it() -> None:
    assert _error(_connect(0x82, binary(b""))).client_id == b"me"


_METHOD: Final = b"\x15" + binary(b"SCRAM")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (_connect(3, level=5), Reason.MALFORMED_PACKET),
        (_connect(level=5, properties=b"\2\x7f\0"), Reason.MALFORMED_PACKET),
        (_connect(level=5, properties=b"\3\x23\0\1"), Reason.MALFORMED_PACKET),
        (_connect(level=5, properties=b"\3\x21\0\0"), Reason.PROTOCOL_ERROR),
        (_connect(level=5, properties=b"\5\x27\0\0\0\0"), Reason.PROTOCOL_ERROR),
        (_connect(level=5, properties=b"\2\x17\2"), Reason.PROTOCOL_ERROR),
        (_connect(level=5, properties=b"\2\x19\2"), Reason.PROTOCOL_ERROR),
        (_connect(level=5, properties=b"\6\x21\0\1\x21\0\1"), Reason.PROTOCOL_ERROR),
        (_connect(level=5, properties=b"\x7f\x21\0\1"), Reason.MALFORMED_PACKET),
        (_connect(level=5, properties=b"\2\x21\0\1"), Reason.MALFORMED_PACKET),
        (_connect(level=5, properties=b"\xff\xff\xff\xff\1"), Reason.MALFORMED_PACKET),
        (
            _connect(level=5, properties=variable(len(_METHOD)) + _METHOD),
            Reason.BAD_AUTHENTICATION_METHOD,
        ),
        (_connect(level=5, properties=b"\4\x16\0\1x"), Reason.PROTOCOL_ERROR),
        (_connect(level=5, client_id=b"a b"), Reason.CLIENT_IDENTIFIER_NOT_VALID),
        (_connect(0x82, binary(b""), level=5), Reason.BAD_USER_NAME_OR_PASSWORD),
        (_connect(6, b"\0", binary(b"a/+"), binary(b""), level=5), Reason.TOPIC_NAME_INVALID),
        (_connect(6, b"\3\x21\0\1", binary(b"a"), binary(b""), level=5), Reason.MALFORMED_PACKET),
        (_connect(6, b"\4\x08\0\1#", binary(b"a"), binary(b""), level=5), Reason.PROTOCOL_ERROR),
        (_connect(6, b"\3\x08\0\0", binary(b"a"), binary(b""), level=5), Reason.PROTOCOL_ERROR),
    ],
)
def test_a_malformed_connect_of_5_is_answered_with_its_reason(body: bytes, reason: Reason) -> None:
    error = _error(body)

    assert error.reason is reason
    assert refusing_connack(error) == bytes((0x20, 3, 0, reason, 0))


def test_version_5_needs_no_user_name_for_a_password_and_no_identifier() -> None:
    connect = read_connect(_connect(0x40, binary(b"p"), level=5, client_id=b""))

    assert (connect.user, connect.password, connect.client_id) == (None, b"p", b"")


def test_user_properties_are_bounded() -> None:
    block = b"\x26\0\1a\0\1b" * 1025

    assert _error(_connect(level=5, properties=variable(len(block)) + block)).reason is Reason.QUOTA_EXCEEDED


def test_connacks() -> None:
    assert connack(4, 0, session_present=True).hex() == "20020100"
    assert connack(5, 0).hex() == "2003000000"
    properties = Properties(receive_maximum=10, topic_alias_maximum=20)
    assert connack(5, 0, properties=properties).hex() == "2009000006" + "21000a" + "220014"


@given(st.binary(max_size=60), st.sampled_from([b"", b"\0\4MQTT\4", b"\0\4MQTT\5"]))
def test_any_bytes_are_read_or_refused(data: bytes, head: bytes) -> None:
    for read in (
        read_connect,
        read_auth,
        lambda body: read_subscribe(body, 5),
        lambda body: read_unsubscribe(body, 4),
        lambda body: read_disconnect(body, 5),
        lambda body: read_ack(PacketKind.PUBREC, body, 5),
    ):
        try:
            read(head + data)
        except MqttError:
            continue


# -- SUBSCRIBE, UNSUBSCRIBE -----------------------------------------------------------------------


def test_a_subscribe_has_filters_and_options() -> None:
    assert read_subscribe(bytes.fromhex("0009 0001 61 01 0003 612f23 02"), 4) == Subscribe(
        9, [(b"a", 1), (b"a/#", 2)]
    )
    assert read_subscribe(bytes.fromhex("0009 02 0b05 0001 61 2d"), 5) == Subscribe(
        9, [(b"a", 0x2D)], Properties(subscription_identifier=5)
    )


@pytest.mark.parametrize(
    ("hexadecimal", "version", "text", "reason"),
    [
        ("0000 0001 61 00", 4, "packet identifier cannot be 0", 0x81),
        ("00", 4, "error reading packet identifier: unexpected EOF", 0x81),
        ("0001", 4, "subscribe protocol must contain at least 1 topic filter", 0x82),
        ("0001 00", 5, "subscribe protocol must contain at least 1 topic filter", 0x82),
        ("0001 0000 00", 4, "topic filter cannot be empty", 0x82),
        ("0001 0001 00 00", 4, 'invalid null character in topic filter "\\x00"', 0x81),
        ("0001 0001 ff 00", 4, 'invalid utf8 for topic filter "\\xff"', 0x81),
        ("0001 0001 61", 4, "error reading QoS: EOF", 0x81),
        ("0001 0002 61", 4, "error reading topic filter: unexpected EOF", 0x81),
        ("0001 0001 61 03", 4, "subscribe QoS value must be 0, 1 or 2, got 3", 0x81),
        ("0001 0001 61 04", 4, "subscribe QoS value must be 0, 1 or 2, got 4", 0x81),
        ("0001 00 0001 61 03", 5, "subscribe QoS value must be 0, 1 or 2, got 3", 0x82),
        ("0001 00 0001 61 40", 5, "subscribe options reserved bits not set to 0: 0x40", 0x81),
        ("0001 00 0001 61 30", 5, "subscribe retain handling must be 0, 1 or 2, got 3", 0x82),
        ("0001 02 0b00 0001 61 00", 5, "invalid value 0 of the property subscription identifier", 0x82),
        ("0001 03 210001 0001 61 00", 5, "property receive maximum is not allowed in SUBSCRIBE", 0x81),
    ],
)
def test_a_malformed_subscribe(hexadecimal: str, version: int, text: str, reason: int) -> None:
    with pytest.raises(MqttError) as caught:
        read_subscribe(bytes.fromhex(hexadecimal), version)

    assert (caught.value.text, caught.value.reason) == (text, reason)


def test_filters_of_a_packet_are_bounded() -> None:
    filters = [binary(b"%d" % number) for number in range(10_001)]

    assert len(read_subscribe(b"\0\1" + b"\0".join(filters[:-1]) + b"\0", 4).filters) == 10_000
    assert len(read_unsubscribe(b"\0\1" + b"".join(filters[:-1]), 4).filters) == 10_000
    for read, body in (
        (read_subscribe, b"\0".join(filters) + b"\0"),
        (read_unsubscribe, b"".join(filters)),
    ):
        with pytest.raises(MqttError, match="more than 10000 topic filters in a packet") as caught:
            read(b"\0\1" + body, 4)
        assert caught.value.reason is Reason.QUOTA_EXCEEDED


def test_no_local_is_refused_on_a_shared_subscription() -> None:
    body = b"\0\1\0" + binary(b"$share/g/t") + b"\4"

    with pytest.raises(MqttError, match="no local is not allowed on a shared subscription") as caught:
        read_subscribe(body, 5)
    assert caught.value.reason is Reason.PROTOCOL_ERROR


def test_an_unsubscribe_has_filters() -> None:
    assert read_unsubscribe(bytes.fromhex("0009 0001 61 0001 62"), 4) == Unsubscribe(9, [b"a", b"b"])
    with pytest.raises(MqttError, match="unsubscribe protocol must contain at least 1 topic filter"):
        read_unsubscribe(b"\0\1\0", 5)
    with pytest.raises(MqttError, match="topic filter cannot be empty"):
        read_unsubscribe(b"\0\1\0\0", 4)


def test_answers_to_filters() -> None:
    assert suback(4, 9, [0, 1, 0x80]).hex() == "90050009" + "000180"
    assert suback(5, 9, [2]).hex() == "90040009" + "00" + "02"
    assert unsuback(4, 9, [0, 0]).hex() == "b0020009"
    assert unsuback(5, 9, [0, 0x11]).hex() == "b0050009" + "00" + "0011"


# -- acknowledgements, DISCONNECT, AUTH -----------------------------------------------------------


@pytest.mark.parametrize(
    ("hexadecimal", "wanted"),
    [
        ("0007", Acknowledgement(7)),
        ("000700", Acknowledgement(7)),
        ("000780", Acknowledgement(7, Reason.UNSPECIFIED_ERROR)),
        ("00078000", Acknowledgement(7, Reason.UNSPECIFIED_ERROR)),
        (
            "000797 04 1f000178".replace(" ", ""),
            Acknowledgement(7, Reason.QUOTA_EXCEEDED, Properties(reason_string=b"x")),
        ),
    ],
)
def test_acknowledgements_of_every_length_are_read(hexadecimal: str, wanted: Acknowledgement) -> None:
    assert read_ack(PacketKind.PUBREC, bytes.fromhex(hexadecimal), 5) == wanted


@pytest.mark.parametrize(
    ("hexadecimal", "version", "text"),
    [
        ("0000", 4, "packet identifier cannot be 0"),
        ("000700", 4, "invalid remaining length 3 for packet type 50"),
        ("00", 5, "error reading packet identifier: unexpected EOF"),
        ("000701", 5, "invalid reason code 0x01 in PUBREC"),
        ("00070001", 5, "error reading properties: unexpected EOF"),
        ("0007000000", 5, "1 bytes behind the properties of PUBREC"),
    ],
)
def test_a_malformed_acknowledgement(hexadecimal: str, version: int, text: str) -> None:
    with pytest.raises(MqttError) as caught:
        read_ack(PacketKind.PUBREC, bytes.fromhex(hexadecimal), version)

    assert caught.value.text == text


def test_acknowledgements_are_written_in_their_shortest_form() -> None:
    assert ack(PacketKind.PUBREC, 4, 7, Reason.NOT_AUTHORIZED).hex() == "50020007"
    assert ack(PacketKind.PUBREL, 5, 7).hex() == "62020007"
    assert ack(PacketKind.PUBCOMP, 5, 7, Reason.PACKET_IDENTIFIER_NOT_FOUND).hex() == "7003000792"
    with_text = ack(PacketKind.PUBREC, 5, 7, Reason.QUOTA_EXCEEDED, Properties(reason_string=b"x"))
    assert with_text.hex() == "50080007" + "97" + "041f000178"


def test_disconnects() -> None:
    assert read_disconnect(b"", 4) == Disconnect()
    assert read_disconnect(b"\4", 5) == Disconnect(Reason.DISCONNECT_WITH_WILL)
    assert read_disconnect(bytes.fromhex("0005110000003c"), 5).properties.session_expiry == 60
    assert disconnect(Reason.SUCCESS).hex() == "e000"
    assert disconnect(Reason.SESSION_TAKEN_OVER).hex() == "e0018e"
    with pytest.raises(MqttError, match="invalid remaining length 1 for packet type e0"):
        read_disconnect(b"\0", 4)
    with pytest.raises(MqttError, match="invalid reason code 0x8e in DISCONNECT"):
        read_disconnect(b"\x8e", 5)


def test_auth_is_read() -> None:
    assert read_auth(b"") == Auth()
    assert read_auth(b"\x18\0") == Auth(Reason.CONTINUE_AUTHENTICATION)


# -- fields, topics -------------------------------------------------------------------------------


@given(st.integers(0, (1 << 28) - 1))
def test_a_variable_length_is_read_as_it_was_written(value: int) -> None:
    assert FieldReader(variable(value)).variable("x") == value


def test_numbers_and_strings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit into 28 bits"):
        variable(1 << 28)
    with pytest.raises(ValueError, match="do not fit into a string"):
        binary(bytes(65536))
    with pytest.raises(MqttError, match="malformed variable int"):
        FieldReader(b"\xff\xff\xff\xff\1").variable("x")


def test_a_packet_has_its_length() -> None:
    assert packet(8, 2, bytes(200))[:3] == b"\x82\xc8\x01"


@given(_TEXTS)
def test_topics_without_spaces_and_wildcards_are_accepted(text: str) -> None:
    topic = text.encode()
    if not any(bad in text for bad in " \t\r\n\f\x7f+#"):
        check_topic(topic, "topic")
        return
    with pytest.raises(MqttError):
        check_topic(topic, "topic")


@pytest.mark.parametrize(
    ("topic_filter", "wanted"),
    [
        (b"$share/g/a/+", (b"g", b"a/+")),
        (b"$share/g//", (b"g", b"/")),
        (b"$share/g/", None),
        (b"$share/g", None),
        (b"$share//a", None),
        (b"$share", None),
        (b"$share/g+/a", None),
        (b"$share/a b/a", None),
    ],
)
def test_shared_subscriptions_have_a_group_and_a_filter(
    topic_filter: bytes, wanted: tuple[bytes, bytes] | None
) -> None:
    assert shared_parts(topic_filter) == wanted
