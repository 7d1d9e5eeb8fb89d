"""The first and the last packet of a connection over MQTT: which, with which code, and when there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.conf.mqtt_options import MqttOptions
from headrace.engine.reasons import CloseReason
from headrace.protocol.mqtt.packets import Connect
from headrace.protocol.mqtt.properties import PacketKind, Properties, read_properties
from headrace.server.mqtt.greeting import connack_of, keep_alive_of, session_expiry_of
from headrace.server.mqtt.words import MqttWords

WORDS = MqttWords()


def client(version: int = 5, *, accepted: bool = True, left: bool = False, reasons: bool = False) -> Any:
    return SimpleNamespace(version=version, is_accepted=accepted, has_left=left, wants_reasons=reasons)


def test_nothing_is_said_before_the_client_speaks_and_nothing_of_what_it_survives() -> None:
    assert WORDS.greeting(client()) == b""
    assert WORDS.complaint("Permissions Violation") == b""


@pytest.mark.parametrize(
    ("reason", "packet"),
    [
        (CloseReason.SERVER_SHUTDOWN, "e0018b"),
        (CloseReason.KICKED, "e00198"),
        (CloseReason.DUPLICATE_CLIENT_ID, "e0018e"),
        (CloseReason.MAX_PAYLOAD_EXCEEDED, "e00195"),
        (CloseReason.AUTHENTICATION_EXPIRED, "e00187"),
        (CloseReason.MAX_CONNECTIONS_EXCEEDED, "e00197"),
        (CloseReason.TLS_HANDSHAKE_ERROR, "e00180"),  # no word for it
    ],
)
def test_a_client_of_5_is_told_why_it_is_disconnected(reason: CloseReason, packet: str) -> None:
    assert WORDS.farewell(client(), "", reason).hex() == packet


def test_a_client_of_5_gets_a_reason_string_if_it_takes_one() -> None:
    said = WORDS.farewell(client(reasons=True), "too slow", CloseReason.KICKED)

    assert said == b"\xe0\x0d\x98\x0b\x1f\x00\x08too slow"
    assert WORDS.farewell(client(), "too slow", CloseReason.KICKED) == b"\xe0\x01\x98"


def test_a_client_of_5_that_is_not_let_in_gets_its_answer_to_connect() -> None:
    refused = WORDS.farewell(client(accepted=False), "", CloseReason.AUTHENTICATION_VIOLATION)

    assert refused.hex() == "20030" + "08700"


@pytest.mark.parametrize("reason", [CloseReason.SERVER_SHUTDOWN, CloseReason.AUTHENTICATION_EXPIRED])
def test_a_client_of_3_1_1_that_was_let_in_is_closed_without_a_byte(reason: CloseReason) -> None:
    assert WORDS.farewell(client(4), "", reason) == b""


def test_a_client_of_3_1_1_hears_that_it_is_not_authorized_and_of_no_other_refusal() -> None:
    stranger = client(4, accepted=False)

    assert WORDS.farewell(stranger, "", CloseReason.AUTHENTICATION_VIOLATION).hex() == "20020005"
    assert WORDS.farewell(stranger, "", CloseReason.MAX_CONNECTIONS_EXCEEDED) == b""
    assert WORDS.farewell(stranger, "", CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED) == b""


def test_nothing_is_said_before_a_connect_and_after_a_disconnect() -> None:
    assert WORDS.farewell(client(0, accepted=False), "", CloseReason.AUTHENTICATION_TIMEOUT) == b""
    assert WORDS.farewell(client(left=True), "", CloseReason.CLIENT_CLOSED) == b""


# -- CONNACK --------------------------------------------------------------------------------------


def connect(version: int = 5, client_id: bytes = b"c", keep_alive: int = 60, **properties: Any) -> Connect:
    return Connect(version, True, keep_alive, client_id, properties=Properties(**properties))


def told(connected: Connect, **options: Any) -> Properties:
    """The properties of the CONNACK."""
    packet = connack_of(
        connected, MqttOptions(**options), client_id="made", is_present=False, max_payload=1000
    )
    return read_properties(PacketKind.CONNACK, packet, 4)[0]


def test_connack_of_3_1_1_has_no_properties() -> None:
    packet = connack_of(connect(4), MqttOptions(), client_id="c", is_present=True, max_payload=1000)

    assert packet.hex() == "20020100"


def test_connack_of_5_says_what_the_server_takes() -> None:
    assert told(connect(), receive_maximum=7, topic_alias_maximum=3) == Properties(
        receive_maximum=7, topic_alias_maximum=3, maximum_packet_size=1000 + 65536
    )


def test_connack_of_5_says_what_the_server_has_decided_for_the_client() -> None:
    asked = connect(client_id=b"", keep_alive=0, session_expiry=100)
    said = told(asked, max_keep_alive=30.0, max_session_expiry=50.0, reject_qos2_publish=True)

    assert (said.assigned_client_id, said.server_keep_alive, said.session_expiry, said.maximum_qos) == (
        b"made",
        30,
        50,
        1,
    )


def test_a_client_that_asks_for_it_is_told_of_a_topic_for_answers() -> None:
    first, second = (told(connect(request_response_information=1)).response_information for _ in range(2))

    assert first is not None
    assert first.startswith(b"_INBOX/")
    assert len(first) == len(b"_INBOX/") + 22
    assert first != second
    assert told(connect(request_response_information=0)).response_information is None


@pytest.mark.parametrize(("asked", "settled"), [(0, 30), (10, 10), (30, 30), (31, 30)])
def test_keep_alive_is_bounded_for_clients_of_5_alone(asked: int, settled: int) -> None:
    options = MqttOptions(max_keep_alive=30.0)

    assert keep_alive_of(connect(5, keep_alive=asked), options) == settled
    assert keep_alive_of(connect(4, keep_alive=asked), options) == asked


def test_session_expiry_is_bounded_and_there_is_none_in_3_1_1() -> None:
    options = MqttOptions(max_session_expiry=50.0)

    assert session_expiry_of(connect(session_expiry=0xFFFFFFFF), options) == 50
    assert session_expiry_of(connect(session_expiry=0xFFFFFFFF), MqttOptions()) == 0xFFFFFFFF
    assert session_expiry_of(connect(), options) == 0
    assert session_expiry_of(connect(4), options) is None
