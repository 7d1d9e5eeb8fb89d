"""Answers and events in the encoding that a message asks for (`Accept-Encoding`).

Snappy (also asked for as S2) and gzip; who asks for none of them gets the answer as it is and is told so.
"""

from __future__ import annotations

from typing import Final

_ACCEPT: Final = b"accept-encoding:"
_CONTENT: Final = b"NATS/1.0\r\nContent-Encoding: %b\r\n\r\n"


def encoded(message: bytes, request_headers: bytes) -> tuple[bytes, bytes]:
    """The message and the header block that goes with it, b"" where none is needed."""
    return content_encoded(message, _accepted(request_headers))


def content_encoded(message: bytes, accepted: str) -> tuple[bytes, bytes]:
    """The same for the value of `Accept-Encoding`, empty when there is none."""
    accepted = accepted.lower()
    if not accepted:
        return message, b""
    if "snappy" in accepted or "s2" in accepted:
        from headrace.protocol.s2 import snappy_stream

        return snappy_stream(message), _CONTENT % b"snappy"
    if "gzip" not in accepted:
        return message, _CONTENT % b"identity"
    import gzip  # few ask for it

    return gzip.compress(message, mtime=0), _CONTENT % b"gzip"


def _accepted(headers: bytes) -> str:
    for line in headers.split(b"\r\n")[1:]:
        if line[: len(_ACCEPT)].lower() == _ACCEPT:
            return line[len(_ACCEPT) :].strip().decode("utf-8", "replace")
    return ""
