"""CONNACK: what a client that is let in is told of the server, and what the server settles for it.

Source: OASIS MQTT 5.0, 3.2.2.3. A property that says what holds without it is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import limits
from headrace.protocol.mqtt.packets import VERSION_5, connack
from headrace.protocol.mqtt.properties import Properties
from headrace.protocol.mqtt.reasons import Reason
from headrace.protocol.nuid import new_nuid

if TYPE_CHECKING:
    from headrace.conf.mqtt_options import MqttOptions
    from headrace.protocol.mqtt.packets import Connect


def keep_alive_of(connect: Connect, options: MqttOptions) -> int:
    """The seconds after which a client says something, as the server settles them; 0: it need not.

    In 3.1.1 the client decides; `max_keep_alive` is for those that can be told.
    """
    if connect.version != VERSION_5 or options.max_keep_alive is None:
        return connect.keep_alive
    most = int(options.max_keep_alive)
    return min(connect.keep_alive or most, most)


def limited_expiry(seconds: int, options: MqttOptions) -> int:
    """The seconds that a session outlives its connection, of those that a client asks for."""
    return seconds if options.max_session_expiry is None else min(seconds, int(options.max_session_expiry))


def session_expiry_of(connect: Connect, options: MqttOptions) -> int | None:
    """The seconds that a session outlives its connection; None for 3.1.1, where clean or not decides."""
    if connect.version != VERSION_5:
        return None
    return limited_expiry(connect.properties.session_expiry or 0, options)


def _inbox() -> bytes:
    return f"_INBOX/{new_nuid()}".encode()


def connack_of(
    connect: Connect,
    options: MqttOptions,
    *,
    client_id: str,
    is_present: bool,
    max_payload: int,
) -> bytes:
    """Return the CONNACK for a client that is let in.

    One that asks for it is told of a topic for answers: an inbox, a reply subject for clients of NATS.
    """
    if connect.version != VERSION_5:
        return connack(connect.version, 0, is_present)
    asked = connect.properties
    keep_alive, expiry = keep_alive_of(connect, options), session_expiry_of(connect, options)
    properties = Properties(
        session_expiry=None if expiry == (asked.session_expiry or 0) else expiry,
        assigned_client_id=None if connect.client_id else client_id.encode(),
        server_keep_alive=None if keep_alive == connect.keep_alive else keep_alive,
        response_information=_inbox() if asked.request_response_information else None,
        receive_maximum=options.receive_maximum,
        topic_alias_maximum=options.topic_alias_maximum,
        maximum_qos=1 if options.reject_qos2_publish else None,
        maximum_packet_size=max_payload + limits.MQTT_PACKET_OVERHEAD,
    )
    return connack(VERSION_5, Reason.SUCCESS, is_present, properties)
