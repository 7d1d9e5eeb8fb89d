"""Headers of messages as JetStream reads and writes them: one by its name, in the block as it stands.

Names are compared byte for byte, and the first line of a name counts, as in the Go server. A block that is no
block has no headers. Source: JetStream specification, 3.
"""

from __future__ import annotations

from typing import Final

EXPECTED: Final = b"Nats-Expected-"
"""The beginning of the names of all conditions."""
EXPECTED_STREAM: Final = EXPECTED + b"Stream"
EXPECTED_LAST_ID: Final = EXPECTED + b"Last-Msg-Id"
EXPECTED_LAST_SEQUENCE: Final = EXPECTED + b"Last-Sequence"
EXPECTED_SUBJECT_SEQUENCE: Final = EXPECTED + b"Last-Subject-Sequence"
SUBJECT_OF_SEQUENCE: Final = EXPECTED_SUBJECT_SEQUENCE + b"-Subject"
INCREMENT: Final = b"Nats-Incr"
ROLLUP: Final = b"Nats-Rollup"
STREAM_SOURCE: Final = b"Nats-Stream-Source"
TTL: Final = b"Nats-TTL"

FIRST_LINE: Final = b"NATS/1.0\r\n"
_EMPTY: Final = b"NATS/1.0\r\n\r\n"
_END: Final = b"\r\n"


def value(headers: bytes, name: bytes) -> bytes:
    """Return the value of a header without leading blanks; empty if there is no such header."""
    start = _find(headers, name)
    if start < 0:
        return b""
    start += len(name) + 1
    end = headers.find(_END, start)
    return headers[start : end if end >= 0 else len(headers)].lstrip(b" ")


def has(headers: bytes, name: bytes) -> bool:
    """True if there is such a header, even an empty one."""
    return _find(headers, name) >= 0


def added(headers: bytes, *lines: tuple[bytes, bytes]) -> bytes:
    """The block with more headers at its end; a new block when there was none."""
    head = headers[:-2] if len(headers) > len(_END) else FIRST_LINE
    return head + b"".join(b"%b: %b\r\n" % line for line in lines) + _END


def without(headers: bytes, name: bytes) -> bytes:
    """The block without a header, however often it is there; empty when no header is left."""
    start = _find(headers, name)
    while start >= 0:
        end = headers.find(_END, start)
        if end < 0:
            return headers
        headers = headers[:start] + headers[end + len(_END) :]
        if len(headers) <= len(_EMPTY):
            return b""
        start = _find(headers, name)
    return headers


def without_prefix(headers: bytes, prefix: bytes) -> bytes:
    """The block without headers whose names begin so; empty when no header is left."""
    first, *lines = headers.split(_END)
    kept = [line for line in lines if not line.startswith(prefix)]
    if len(kept) == len(lines):
        return headers
    left = _END.join([first, *kept])
    return left if len(left) > len(_EMPTY) else b""


def replaced(headers: bytes, name: bytes, text: bytes) -> bytes:
    """The block with another value for a header, in its place; added when it was not there."""
    start = _find(headers, name)
    if start < 0:
        return added(headers, (name, text))
    start += len(name) + 1
    start += headers[start : start + 1] == b" "
    end = headers.find(b"\r", start)
    return headers if end < 0 else headers[:start] + text + headers[end:]


def without_status(headers: bytes) -> bytes:
    """The block without the status of its first line; empty when that was all."""
    end = headers.find(b"\r")
    if not headers.startswith(b"NATS/1.0") or end <= len(b"NATS/1.0"):
        return headers
    headers = headers[: len(b"NATS/1.0")] + headers[end:]
    return b"" if len(headers) == len(_EMPTY) else headers


def _find(headers: bytes, name: bytes) -> int:
    """Find the offset of the first line with a name; -1 if there is none."""
    at = headers.find(b"\r\n%b:" % name)
    return at + len(_END) if at >= 0 else -1


def no_responders(subject: bytes = b"") -> bytes:
    """Return the headers of an answer without responders; `subject`: what was asked, where the engine would
    name it.
    """
    named = b"Nats-Subject: %b\r\n" % subject if subject else b""
    return b"NATS/1.0 503\r\n%b\r\n" % named


def idle_heartbeat(last_consumer: int, last_stream: int, more: bytes = b"") -> bytes:
    """Headers of an idle heartbeat: the sequences of the last delivery; `more`: further lines."""
    return b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n%b\r\n" % (
        last_consumer,
        last_stream,
        more,
    )
