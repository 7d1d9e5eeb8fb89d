"""Properties of MQTT 5: all of them come back as they were written, each only in its packets."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.mqtt.properties import (
    NO_PROPERTIES,
    PacketKind,
    Properties,
    property_bytes,
    read_properties,
    write_properties,
)
from headrace.protocol.mqtt.reasons import MqttError, Reason

_BYTES: Final = st.none() | st.binary(max_size=6)
_TEXT: Final = st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5).map(
    str.encode
)
_FLAG: Final = st.none() | st.integers(0, 1)
_TWO: Final = st.none() | st.integers(0, 65535)
_POSITIVE: Final = st.none() | st.integers(1, 65535)
_FOUR: Final = st.none() | st.integers(0, (1 << 32) - 1)
_USER: Final = st.lists(st.tuples(_TEXT, _TEXT).filter(lambda pair: None not in pair), max_size=3).map(tuple)


@given(
    st.builds(
        Properties,
        payload_format=_FLAG,
        message_expiry=_FOUR,
        content_type=_TEXT,
        response_topic=_TEXT,
        correlation_data=_BYTES,
        user=_USER,
        will_delay=_FOUR,
    )
)
def test_properties_of_a_will_are_read_as_they_were_written(properties: Properties) -> None:
    written = write_properties(properties)

    assert read_properties(PacketKind.WILL, b"xx" + written + b"yy", 2) == (properties, 2 + len(written))


@given(
    st.builds(
        Properties,
        session_expiry=_FOUR,
        assigned_client_id=_TEXT,
        server_keep_alive=_TWO,
        authentication_method=_TEXT,
        authentication_data=_BYTES,
        response_information=_TEXT,
        server_reference=_TEXT,
        reason_string=_TEXT,
        receive_maximum=_POSITIVE,
        topic_alias_maximum=_TWO,
        maximum_qos=_FLAG,
        retain_available=_FLAG,
        user=_USER,
        maximum_packet_size=_POSITIVE,
        wildcards_available=_FLAG,
        subscription_identifiers_available=_FLAG,
        shared_available=_FLAG,
    )
)
def test_properties_of_a_connack_are_read_as_they_were_written(properties: Properties) -> None:
    written = write_properties(properties)

    assert read_properties(PacketKind.CONNACK, written) == (properties, len(written))


def test_no_properties_are_one_byte() -> None:
    assert write_properties(None) == write_properties(NO_PROPERTIES) == b"\0"
    assert read_properties(PacketKind.PUBLISH, b"\0") == (NO_PROPERTIES, 1)
    assert property_bytes(None) == b""


@pytest.mark.parametrize(
    ("kind", "block", "reason"),
    [
        (PacketKind.PUBLISH, b"\1\2", Reason.PROTOCOL_ERROR),
        (PacketKind.PUBLISH, b"\x23\0\0", Reason.TOPIC_ALIAS_INVALID),
        (PacketKind.PUBLISH, b"\2\0\0\0\5\2\0\0\0\5", Reason.PROTOCOL_ERROR),
        (PacketKind.PUBLISH, b"\2\0\0\0", Reason.MALFORMED_PACKET),
        (PacketKind.PUBLISH, b"\3\0\1\xff", Reason.MALFORMED_PACKET),
        (PacketKind.PUBLISH, b"\x26\0\1a", Reason.MALFORMED_PACKET),
        (PacketKind.PUBLISH, b"\x0b\xff\xff\xff\xff", Reason.MALFORMED_PACKET),
        (PacketKind.PUBACK, b"\x11\0\0\0\1", Reason.MALFORMED_PACKET),
        (PacketKind.DISCONNECT, b"\x7f", Reason.MALFORMED_PACKET),
        (PacketKind.AUTH, b"\x16\0", Reason.MALFORMED_PACKET),
    ],
)
def test_bad_properties_are_refused(kind: PacketKind, block: bytes, reason: Reason) -> None:
    with pytest.raises(MqttError) as caught:
        read_properties(kind, bytes((len(block),)) + block)

    assert caught.value.reason is reason


def test_properties_end_where_their_length_says() -> None:
    block = bytes((4,)) + b"\3\0\3abc"

    with pytest.raises(MqttError, match="error reading content type: unexpected EOF"):
        read_properties(PacketKind.PUBLISH, block)


def test_user_properties_keep_their_order_and_duplicates() -> None:
    user = ((b"b", b"1"), (b"a", b"2"), (b"b", b"1"))

    read, _ = read_properties(PacketKind.CONNECT, write_properties(Properties(user=user)))

    assert read.user == user
