"""A strict reader of what a server writes to a client; an outbox that it cannot read is a bug.

Written from the protocol's text alone and sharing no code with the engine or with `headrace.client`.
"""

from __future__ import annotations

from typing import NamedTuple

CRLF = b"\r\n"


class Frame(NamedTuple):
    """`op` is MSG, HMSG, PING, PONG, +OK, -ERR or INFO; for the last two `payload` is the text."""

    op: str
    subject: bytes = b""
    sid: bytes = b""
    reply: bytes = b""
    header: bytes = b""
    payload: bytes = b""


def read_frames(data: bytes) -> list[Frame]:
    """Every frame in `data`.

    Raises: ValueError when there is anything but complete frames.
    """
    frames: list[Frame] = []
    at = 0
    while at < len(data):
        end = data.find(CRLF, at)
        if end < 0:
            raise ValueError(f"a line without an end: {data[at : at + 80]!r}")
        frame, at = _read_frame(data[at:end], data, end + 2)
        frames.append(frame)
    return frames


def _read_frame(line: bytes, data: bytes, at: int) -> tuple[Frame, int]:
    if line in (b"PING", b"PONG", b"+OK"):
        return Frame(line.decode()), at
    op, _, rest = line.partition(b" ")
    if op == b"-ERR":
        if not (len(rest) >= 2 and rest.startswith(b"'") and rest.endswith(b"'")):
            raise ValueError(f"an error that is not quoted: {line!r}")
        return Frame("-ERR", payload=rest[1:-1]), at
    if op == b"INFO":
        return Frame("INFO", payload=rest), at
    if op not in (b"MSG", b"HMSG"):
        raise ValueError(f"not an op of a server: {line[:80]!r}")
    return _read_message(op.decode(), rest.split(b" "), data, at)


def _read_message(op: str, words: list[bytes], data: bytes, at: int) -> tuple[Frame, int]:
    sizes = 2 if op == "HMSG" else 1
    if len(words) not in (2 + sizes, 3 + sizes) or b"" in words:
        raise ValueError(f"{op} with {words!r}")
    header_size = _size(words[-2]) if op == "HMSG" else 0
    size = _size(words[-1])
    if header_size > size:
        raise ValueError(f"headers longer than the whole: {words!r}")
    body = data[at : at + size]
    if data[at + size : at + size + 2] != CRLF:
        raise ValueError(f"{op} {words!r}: no CRLF after {size} bytes of payload")
    reply = words[2] if len(words) == 3 + sizes else b""
    return Frame(op, words[0], words[1], reply, body[:header_size], body[header_size:]), at + size + 2


def _size(text: bytes) -> int:
    if not 1 <= len(text) <= 9 or not text.isdigit():
        raise ValueError(f"not a size: {text!r}")
    return int(text)
