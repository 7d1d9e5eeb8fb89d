"""Answers in the encoding that a request asks for (`Accept-Encoding`).

gzip is done; who asks only for what is not done here, such as snappy, gets the answer as it is and is told
so.
"""

from __future__ import annotations

from typing import Final

_ACCEPT: Final = b"accept-encoding:"
_CONTENT: Final = b"NATS/1.0\r\nContent-Encoding: %b\r\n\r\n"


def encoded(message: bytes, request_headers: bytes) -> tuple[bytes, bytes]:
    """The message and the header block that goes with it, b"" where none is needed."""
    accepted = _accepted(request_headers)
    if not accepted:
        return message, b""
    if b"gzip" not in accepted:
        return message, _CONTENT % b"identity"
    import gzip  # few ask for it

    return gzip.compress(message, mtime=0), _CONTENT % b"gzip"


def _accepted(headers: bytes) -> bytes:
    for line in headers.split(b"\r\n")[1:]:
        if line[: len(_ACCEPT)].lower() == _ACCEPT:
            return line[len(_ACCEPT) :].strip().lower()
    return b""
