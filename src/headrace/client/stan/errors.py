"""The exceptions of the STAN client. A text of the server is the exception's text, word for word.

Only exception classes and the ecosystem's fixed texts live here, and how an error of nats-py becomes ours.
Source of the texts: NATS Streaming specification, section 12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientError, ClientTimeoutError, ConnectionLostError, MaxPayloadError

if TYPE_CHECKING:
    import nats.errors

CONNECT_TIMEOUT: Final = "stan: connect request timeout (possibly wrong cluster ID?)"
SUBSCRIBE_TIMEOUT: Final = "stan: subscribe request timeout"
UNSUBSCRIBE_TIMEOUT: Final = "stan: unsubscribe request timeout"
CLOSE_TIMEOUT: Final = "stan: close request timeout"
PUBLISH_TIMEOUT: Final = "stan: publish ack timeout"
PINGS_UNANSWERED: Final = "stan: connection lost due to PING failure"
CLOSED: Final = "stan: connection closed"
BAD_SUBSCRIPTION: Final = "stan: invalid subscription"
NOT_SUPPORTED: Final = "stan: not supported by server"


class StanError(ClientError):
    """The streaming server refused, or the call makes no sense now; the text says which."""


class StanTimeoutError(StanError, ClientTimeoutError):
    """The server sent no answer in time. What was asked for may have happened nevertheless."""


class StanClosedError(StanError):
    """The client, or the NATS connection under it, is closed."""


class StanConnectionLostError(StanError, ConnectionLostError):
    """The server no longer knows this connection, or has not answered its pings for too long."""


def translated(error: nats.errors.Error) -> ClientError:
    """Our error for one that nats-py raised while sending."""
    from nats import errors

    if isinstance(error, errors.ConnectionClosedError | errors.ConnectionDrainingError):
        return StanClosedError(CLOSED)
    if isinstance(error, errors.MaxPayloadError):
        return MaxPayloadError("the message is over the NATS server's max_payload; it was not sent")
    return StanError(str(error))
