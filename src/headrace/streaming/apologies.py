"""What a client is answered when a mistake of ours ends its request: STAN's own responses, with an error in.

Without them it would wait for its time-out and not know why. What went wrong stands in the log.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.mistakes import INTERNAL_ERROR
from headrace.protocol.admin import error_document
from headrace.protocol.replay import End
from headrace.protocol.stan import CloseResponse, ConnectResponse, PingResponse, SubscriptionResponse
from headrace.streaming.naming import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery, Host

Apology = tuple[bytes, bytes]
"""The headers and the payload of an answer."""

_TEXT: Final = f"stan: {INTERNAL_ERROR}".encode()
_FAILED: Final = 500

TO_CONNECT: Final[Apology] = b"", ConnectResponse(error=_TEXT).encode()
TO_PING: Final[Apology] = b"", PingResponse(_TEXT).encode()
TO_SUBSCRIPTION: Final[Apology] = b"", SubscriptionResponse(error=_TEXT).encode()
TO_CLOSE: Final[Apology] = b"", CloseResponse(_TEXT).encode()
TO_REPLAY: Final[Apology] = End(_FAILED, "Internal Server Error").block(), b""
TO_ADMINISTRATION: Final[Apology] = b"", json.dumps(error_document(_FAILED, INTERNAL_ERROR)).encode()


def answered(host: Host, route: Callable[[Delivery], None], apology: Apology) -> Callable[[Delivery], None]:
    """`route`, but that what it raises is logged in one line and answered with `apology`."""

    def receive(delivery: Delivery) -> None:
        try:
            route(delivery)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and who asked is told
            host.failed(error, shown(delivery.subject))
            if delivery.reply:
                headers, payload = apology
                host.publish(delivery.reply, payload, headers=headers)

    return receive
