"""The words of the server to a client over MQTT: none at the beginning, one packet at most at the end.

A refused CONNECT is answered by CONNACK; DISCONNECT, which a server says in 5.0 only, comes before every
close of a connection that was accepted. Never lives here: why a connection ends.
Source: OASIS MQTT 5.0, 3.1.4 and 3.14; of 3.1.1 what nats-server 2.15.1 says, which mostly is nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.engine.reasons import CloseReason
from headrace.protocol.mqtt.packets import VERSION_3, VERSION_5, connack, disconnect
from headrace.protocol.mqtt.properties import NO_PROPERTIES, Properties
from headrace.protocol.mqtt.reasons import Reason, ReturnCode
from headrace.server.client_words import ClientWords

if TYPE_CHECKING:
    from typing import Protocol

    from headrace.server.client_words import Addressee

    class Ending(Protocol):
        """A client, as its last packet depends on it."""

        @property
        def version(self) -> int:
            """The protocol level of its CONNECT; 0: none was read."""

        @property
        def is_accepted(self) -> bool:
            """True if CONNACK has let it in."""

        @property
        def has_left(self) -> bool:
            """True if it has said DISCONNECT itself: nothing follows that."""

        @property
        def wants_reasons(self) -> bool:
            """True if it takes reason strings."""


_REFUSED: Final = frozenset(
    (
        CloseReason.AUTHENTICATION_VIOLATION,
        CloseReason.CREDENTIALS_REVOKED,
        CloseReason.AUTHENTICATION_EXPIRED,
        CloseReason.PROXY_NOT_TRUSTED,
        CloseReason.PROXY_REQUIRED,
    )
)
"""Reasons for which a CONNECT of 3.1.1 is answered: that the client is not authorized."""

_REASONS: Final = {
    CloseReason.AUTHENTICATION_TIMEOUT: Reason.NOT_AUTHORIZED,
    CloseReason.AUTHENTICATION_VIOLATION: Reason.NOT_AUTHORIZED,
    CloseReason.CREDENTIALS_REVOKED: Reason.NOT_AUTHORIZED,
    CloseReason.AUTHENTICATION_EXPIRED: Reason.NOT_AUTHORIZED,
    CloseReason.PROXY_NOT_TRUSTED: Reason.NOT_AUTHORIZED,
    CloseReason.PROXY_REQUIRED: Reason.NOT_AUTHORIZED,
    CloseReason.MAX_CONNECTIONS_EXCEEDED: Reason.QUOTA_EXCEEDED,
    CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED: Reason.QUOTA_EXCEEDED,
    CloseReason.MAX_SUBSCRIPTIONS_EXCEEDED: Reason.QUOTA_EXCEEDED,
    CloseReason.MAX_PAYLOAD_EXCEEDED: Reason.PACKET_TOO_LARGE,
    CloseReason.PROTOCOL_VIOLATION: Reason.PROTOCOL_ERROR,
    CloseReason.PARSE_ERROR: Reason.MALFORMED_PACKET,
    CloseReason.SLOW_CONSUMER_PENDING_BYTES: Reason.QUOTA_EXCEEDED,
    CloseReason.SLOW_CONSUMER_WRITE_DEADLINE: Reason.QUOTA_EXCEEDED,
    CloseReason.SERVER_SHUTDOWN: Reason.SERVER_SHUTTING_DOWN,
    CloseReason.KICKED: Reason.ADMINISTRATIVE_ACTION,
    CloseReason.CLIENT_CLOSED: Reason.ADMINISTRATIVE_ACTION,  # said by the server: the user is another now
    CloseReason.DUPLICATE_CLIENT_ID: Reason.SESSION_TAKEN_OVER,
    CloseReason.INTERNAL_ERROR: Reason.UNSPECIFIED_ERROR,
}


class MqttWords(ClientWords):
    """The words to clients over MQTT."""

    __slots__ = ()

    def greeting(self, client: Addressee, **changes: Any) -> bytes:
        """Return nothing: the client speaks first."""
        return b""

    def complaint(self, _text: str) -> bytes:
        """Return nothing: an error that the connection survives is in the answer to a packet, if anywhere."""
        return b""

    def farewell(self, client: Any, text: str, reason: CloseReason) -> bytes:
        """Return the packet before the close, by the reason that monitoring shows."""
        return self.last_packet(client, _REASONS.get(reason, Reason.UNSPECIFIED_ERROR), text, reason)

    def last_packet(
        self, client: Ending, code: Reason, text: str, reason: CloseReason = CloseReason.NONE
    ) -> bytes:
        """Return the packet before the close: CONNACK, DISCONNECT, or none."""
        if client.has_left or not client.version:
            return b""
        if client.version == VERSION_5:
            said = Properties(reason_string=text.encode()) if text and client.wants_reasons else NO_PROPERTIES
            if client.is_accepted:
                return disconnect(code, said)
            return connack(VERSION_5, code, False, said)
        if client.is_accepted or reason not in _REFUSED:
            return b""
        return connack(VERSION_3, ReturnCode.NOT_AUTHORIZED)
