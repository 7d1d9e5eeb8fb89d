"""What a fuzz input of MQTT's rare packets means, and what must hold whatever it is.

The first byte says which packet and which version, the rest is its body. It is refused with a text and a
reason, or what was read is written and read again, goes into the trace, and has an answer. A CONNECT that is
cut off is refused.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.conf.mqtt_options import MqttOptions
from headrace.limits import MAX_MQTT_FILTERS, MAX_MQTT_USER_PROPERTIES
from headrace.protocol.mqtt import packets
from headrace.protocol.mqtt.fields import FieldReader
from headrace.protocol.mqtt.properties import PacketKind, Properties, read_properties, write_properties
from headrace.protocol.mqtt.reasons import MqttError, Reason, ReturnCode
from headrace.server.mqtt import traces
from headrace.server.mqtt.greeting import connack_of

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS: Final = (MqttOptions(), MqttOptions(max_keep_alive=60.0, max_session_expiry=100.0))


def body_of(packet: bytes) -> bytes:
    """Return what is behind the length of a whole packet."""
    reader = FieldReader(packet, 1)
    assert reader.variable("length") == reader.left
    return packet[reader.at :]


def _connect(body: bytes, *, max_version: int) -> None:
    connect = packets.read_connect(body, max_version=max_version, rejects_qos2=max_version == 4)
    assert connect.version <= max_version
    again = body_of(packets.write_connect(connect))
    assert packets.read_connect(again, max_version=max_version) == connect
    _is_refused(partial(packets.read_connect, max_version=max_version), body)
    _check_properties(PacketKind.CONNECT, connect.properties)
    assert traces.connect_text(connect, "name")
    for options in OPTIONS:
        body_of(connack_of(connect, options, client_id="name", is_present=False, max_payload=1 << 20))


def _is_refused(read: Callable[[bytes], object], body: bytes) -> None:
    """Check that a body that is cut off is."""
    cut = body[: zlib.crc32(body) % len(body)]
    try:
        read(cut)
    except MqttError:
        return
    raise AssertionError(f"{cut!r} was read")


def _check_properties(kind: PacketKind, properties: Properties) -> None:
    written = write_properties(properties)
    assert read_properties(kind, written) == (properties, len(written))
    assert len(properties.user) <= MAX_MQTT_USER_PROPERTIES


def _subscribe(body: bytes, *, version: int) -> None:
    packet = packets.read_subscribe(body, version)
    _check_request(PacketKind.SUBSCRIBE, packet)
    assert all(options & packets.QOS_MASK < 3 for _, options in packet.filters)
    assert traces.subscribe_text(packet)
    codes = [0] * len(packet.filters)
    assert body_of(packets.suback(version, packet.identifier, codes)).endswith(bytes(codes))


def _unsubscribe(body: bytes, *, version: int) -> None:
    packet = packets.read_unsubscribe(body, version)
    _check_request(PacketKind.UNSUBSCRIBE, packet)
    assert traces.unsubscribe_text(packet)
    body_of(packets.unsuback(version, packet.identifier, [0] * len(packet.filters)))


def _check_request(kind: PacketKind, packet: packets.Subscribe | packets.Unsubscribe) -> None:
    assert 1 <= packet.identifier <= 65535
    assert 1 <= len(packet.filters) <= MAX_MQTT_FILTERS
    _check_properties(kind, packet.properties)


def _acknowledgement(body: bytes, *, kind: PacketKind, version: int) -> None:
    found = packets.read_ack(kind, body, version)
    again = body_of(packets.ack(kind, version, found.identifier, found.reason, found.properties))
    assert packets.read_ack(kind, again, version) == found
    assert traces.acknowledgement_text(kind, found)


def _disconnect(body: bytes, *, version: int) -> None:
    found = packets.read_disconnect(body, version)
    if version == 5:
        again = body_of(packets.disconnect(found.reason, found.properties))
        assert packets.read_disconnect(again, version) == found


def _auth(body: bytes) -> None:
    _check_properties(PacketKind.AUTH, packets.read_auth(body).properties)


_ACKS: Final = (PacketKind.PUBACK, PacketKind.PUBREC, PacketKind.PUBREL, PacketKind.PUBCOMP)

READS: Final[tuple[Callable[[bytes], Any], ...]] = (
    partial(_connect, max_version=5),
    partial(_connect, max_version=4),
    *(
        partial(read, version=version)
        for read in (_subscribe, _unsubscribe, _disconnect)
        for version in (4, 5)
    ),
    _auth,
    *(partial(_acknowledgement, kind=kind, version=version) for kind in _ACKS for version in (4, 5)),
)
"""The kept corpus goes by their order."""


def _check_refusal(error: MqttError) -> None:
    assert error.text
    assert isinstance(error.reason, Reason)
    assert error.reason.is_failure
    assert error.return_code is None or isinstance(error.return_code, ReturnCode)
    answer = packets.refusing_connack(error)
    assert not answer or answer[0] == PacketKind.CONNACK << 4


def check(data: bytes) -> None:
    """Read one body; raise AssertionError, or whatever no reader may raise."""
    if not data:
        return
    try:
        READS[data[0] % len(READS)](data[1:])
    except MqttError as error:
        _check_refusal(error)
