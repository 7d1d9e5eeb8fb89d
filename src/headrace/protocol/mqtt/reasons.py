"""The codes with which MQTT answers: return codes of 3.1.1, reasons of 5.0, and the error that carries both.

Source: OASIS MQTT 3.1.1, table 3.1; MQTT 5.0, table 2-6; 0x10 is nats-server's.
"""

from __future__ import annotations

from enum import IntEnum

from headrace.errors import ProtocolError


class ReturnCode(IntEnum):
    """The code of a CONNACK of 3.1.1."""

    ACCEPTED = 0
    UNACCEPTABLE_VERSION = 1
    IDENTIFIER_REJECTED = 2
    SERVER_UNAVAILABLE = 3
    BAD_USER_OR_PASSWORD = 4
    NOT_AUTHORIZED = 5
    QOS2_WILL_REJECTED = 0x10


SUBACK_FAILURE = 0x80
"""The code in a SUBACK of 3.1.1 for a filter that is refused, whatever the reason."""


class Reason(IntEnum):
    """The reason code of a packet of 5.0; from 0x80 on it is a failure."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def is_failure(self) -> bool:
        """True if the reason says that something was refused or went wrong."""
        return self >= Reason.UNSPECIFIED_ERROR


class MqttError(ProtocolError):
    """A packet that ends its connection.

    `text` is what nats-server logs. `reason`: the code for a client of 5.0. `return_code`: what CONNACK
    says to one of 3.1.1; None closes without a byte. `version` is that of the CONNECT that is wrong, 0 where
    it was not accepted; `client_id` is what was read of it.
    """

    def __init__(
        self,
        text: str,
        reason: Reason = Reason.MALFORMED_PACKET,
        return_code: ReturnCode | None = None,
        *,
        version: int = 0,
        client_id: bytes = b"",
    ) -> None:
        super().__init__(text)
        self.text = text
        self.reason = reason
        self.return_code = return_code
        self.version = version
        self.client_id = client_id
