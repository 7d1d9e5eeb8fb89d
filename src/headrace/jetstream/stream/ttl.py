"""`Nats-TTL` and `Nats-Schedule-TTL`: how long a message lives, as text.

Nothing expires here. Source: JetStream specification, 8; texts compared with the Go server 2.15.1.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.log.port import FOREVER
from headrace.protocol.durations import SECOND, parse_ns
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.errors import ApiError

NEVER: Final = -1
_SECONDS: Final = re.compile(rb"[0-9]{1,18}")


def parse_ttl(text: bytes) -> int:
    """Seconds; 0: lives as long as the stream lets it; `NEVER`: longer than that. Raises: ApiError 10165.

    A duration is cut to whole seconds and has at least one.
    """
    if not text:
        return 0
    if text.lower() == b"never":
        return NEVER
    if _SECONDS.fullmatch(text) and text != b"0":  # which is a duration, and too short
        return int(text)
    try:
        seconds = parse_ns(text.decode("ascii")) // SECOND
    except ValueError:  # a UnicodeDecodeError is one too
        raise ApiError(10165) from None
    if seconds < 1:
        raise ApiError(10165)
    return seconds


def message_ttl(headers: bytes) -> int:
    """The TTL of a message that is stored already, in ns, as a log takes it. Raises: ApiError 10165."""
    seconds = parse_ttl(block.value(headers, block.TTL))
    return FOREVER if seconds == NEVER else min(seconds * SECOND, FOREVER)
