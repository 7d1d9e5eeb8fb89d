"""Error responses to requests that an internal error has ended: STAN's own responses, with an error text.

Without a response the client would wait for its time-out and not know why. The error itself stands in the
log.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.internal_errors import INTERNAL_ERROR
from headrace.protocol.stan import CloseResponse, ConnectResponse, PingResponse, SubscriptionResponse
from headrace.streaming.naming import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery, Host

ErrorResponse = tuple[bytes, bytes]
"""The headers and the payload of an answer."""

_TEXT: Final = f"stan: {INTERNAL_ERROR}".encode()
_FAILED: Final = 500


def to_connect() -> ErrorResponse:
    return b"", ConnectResponse(error=_TEXT).encode()


def to_ping() -> ErrorResponse:
    return b"", PingResponse(_TEXT).encode()


def to_subscription() -> ErrorResponse:
    return b"", SubscriptionResponse(error=_TEXT).encode()


def to_close() -> ErrorResponse:
    return b"", CloseResponse(_TEXT).encode()


def to_replay() -> ErrorResponse:
    from headrace.protocol.replay import End

    return End(_FAILED, "Internal Server Error").block(), b""


def to_administration() -> ErrorResponse:
    from headrace.protocol.admin import error_document

    return b"", json.dumps(error_document(_FAILED, INTERNAL_ERROR)).encode()


def answered(
    host: Host, route: Callable[[Delivery], None], error_response: Callable[[], ErrorResponse]
) -> Callable[[Delivery], None]:
    """Wrap `route`: an exception is logged in one line and answered with `error_response`."""

    def receive(delivery: Delivery) -> None:
        try:
            route(delivery)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and who asked is told
            host.failed(error, shown(delivery.subject))
            if delivery.reply:
                headers, payload = error_response()
                host.publish(delivery.reply, payload, headers=headers)

    return receive
