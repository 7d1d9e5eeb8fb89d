"""NATS message headers: the block on the wire and the mapping people use.

Shape: `NATS/1.0[ status[ description]] CR LF`, then `Name: value CR LF` lines, then CR LF. Servers
pass the block on unread, so a publisher may send anything: reading never fails and never drops bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERSION: Final = b"NATS/1.0"
STATUS: Final = "Status"
DESCRIPTION: Final = "Description"

MALFORMED: Final = ""
"""The name under which text is kept that is not of the form above."""

Headers = dict[str, list[str]]


def parse_headers(block: bytes) -> Headers:
    """Names to their values in order. An inline status appears as `Status` and `Description`."""
    first, *lines = block.split(b"\r\n")
    headers: Headers = {}
    if first[: len(VERSION)] != VERSION:
        return {MALFORMED: [_text(block)]}
    status, _, description = first[len(VERSION) :].strip().partition(b" ")
    if status:
        headers[STATUS] = [_text(status)]
        if description:
            headers[DESCRIPTION] = [_text(description.strip())]
    for line in lines:
        if not line:
            continue
        name, colon, value = line.partition(b":")
        key = _text(name) if colon else MALFORMED
        headers.setdefault(key, []).append(_text(value.strip(b" \t") if colon else line))
    return headers


def parse_status(block: bytes) -> tuple[bytes, bytes] | None:
    """Code and description of an inline status; None for a block that has none."""
    line = block.partition(b"\r\n")[0]
    if not line.startswith(VERSION):
        return None
    code, _, text = line[len(VERSION) :].strip().partition(b" ")
    return (code, text.strip()) if code else None


def encode_headers(headers: Mapping[str, str | Iterable[str]]) -> bytes:
    """The block, or nothing if there are no headers.

    Raises: ValueError on a name that is empty or holds a colon, and on a line end anywhere.
    """
    if not headers:
        return b""
    lines = [VERSION]
    for name, values in headers.items():
        for value in [values] if isinstance(values, str) else values:
            line = f"{name}: {value}"
            if not name or ":" in name or "\r" in line or "\n" in line:
                raise ValueError(f"header {name!r} is empty or holds a colon, or it or its value a line end")
            lines.append(line.encode())
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
