"""Requests for messages: the bodies of CONSUMER.MSG.NEXT and of `+NXT`.

What a consumer makes of one is its own. Source: JetStream specification, 5; nats-server 2.15.1.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

import msgspec

from headrace.protocol.jetstream.go_decode import decode_leniently
from headrace.protocol.jetstream.numbers import INT64_MAX, Duration, Int, Int64, has_long_number

_SPACE: Final = b" \t\n\v\f\r"
_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,19}")


class PullRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request. Durations are ns. `batch` may be 0 or less: then it is as if it were 1."""

    go_name: ClassVar[str] = ""

    expires: Duration = 0
    batch: Int = 0
    max_bytes: Int = 0
    no_wait: bool = False
    idle_heartbeat: Duration = 0
    group: str = ""
    min_pending: Int64 = 0
    min_ack_pending: Int64 = 0
    id: str = ""
    priority: Int = 0
    is_object: bool = msgspec.field(default=False, name="-")
    """True if the body was an object. An empty body or a number says nothing about a priority group."""


_DECODER: Final = msgspec.json.Decoder(PullRequest)
_ONE: Final = PullRequest(batch=1)


def decode_pull(payload: bytes) -> PullRequest:
    """One message for an empty body, so many for a number, else what the object says.

    What is neither asks for one message, as on the Go server. Raises: ValueError with what stands after
    `Bad Request - ` in the status.
    """
    body = payload.strip(_SPACE)
    if body.startswith(b"{"):
        return _decode_object(body)
    if _NUMBER.fullmatch(body) and abs(int(body)) <= INT64_MAX:
        return PullRequest(batch=int(body))
    return _ONE


def _decode_object(body: bytes) -> PullRequest:
    request = _decode_fast(body)
    if request is None:
        request = decode_leniently(PullRequest, body)
    if request.idle_heartbeat > 0 and 2 * request.idle_heartbeat > request.expires:
        raise ValueError("heartbeat value too large")
    return msgspec.structs.replace(request, is_object=True)


def _decode_fast(body: bytes) -> PullRequest | None:
    """Read a pull request; None for a wrong one, or unknown fields, which Go knows in another case or passes
    over.
    """
    if has_long_number(body):
        return None
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
