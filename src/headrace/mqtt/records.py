"""A stored session as JSON: nats-server's members, and more for MQTT 5.0.

Source: nats-server 2.15.1 (`origin`, `id`, `clean`, `subs`, `cons`, `pubrel`), which ignores the others.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from headrace.mqtt.requests import RequestFailed


class WillRecord(Struct, omit_defaults=True):
    """A will that waits for its time. `at`: Unix time in ms; headers are the block of the message.

    `subject` is mapped; "" is not: it may not be published.
    """

    topic: str
    subject: str
    headers: str = ""
    payload: bytes = b""
    reply: str = ""
    qos: int = 0
    retain: bool = False
    at: int = 0


class SessionRecord(Struct, omit_defaults=True):
    """A session.

    `subs`: QoS by subject of a filter. `cons`: configurations of consumers by sid. `ids`, `opts`:
    subscription identifiers and options by subject. `expiry`: seconds that the session outlives its
    connection; None for a client of 3.1.1. `left`: Unix time in ms at which the connection ended, 0 while
    there is one.
    """

    origin: str = ""
    id: str = ""
    clean: bool = False
    subs: dict[str, int] = field(default_factory=dict)
    cons: dict[str, dict[str, Any]] = field(default_factory=dict)
    pubrel: dict[str, Any] | None = None
    ids: dict[str, int] = field(default_factory=dict)
    opts: dict[str, int] = field(default_factory=dict)
    expiry: int | None = None
    left: int = 0
    will: WillRecord | None = None


class WindowRecord(Struct, array_like=True):
    """Deliveries of QoS 2, whose identifiers outlive the server: identifier, consumer, stream sequence."""

    next_identifier: int
    entries: list[tuple[int, str, int]]


def write_record(record: SessionRecord) -> bytes:
    """Return the JSON of a session, with members in nats-server's order."""
    ordered = msgspec.structs.replace(
        record,
        subs=dict(sorted(record.subs.items())),
        cons=dict(sorted(record.cons.items())),
        ids=dict(sorted(record.ids.items())),
        opts=dict(sorted(record.opts.items())),
    )
    text = msgspec.json.encode(ordered)
    return text.replace(b"&", b"\\u0026").replace(b"<", b"\\u003c").replace(b">", b"\\u003e")


def read_record(data: bytes) -> SessionRecord:
    """Read the JSON of a session. Raises: RequestFailed for what is none."""
    try:
        return msgspec.json.decode(data, type=SessionRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestFailed(f"a stored session cannot be read: {error}") from None


def read_window(data: bytes) -> WindowRecord:
    """Read a stored window. Raises: RequestFailed for what is none."""
    try:
        return msgspec.json.decode(data, type=WindowRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestFailed(f"a stored window cannot be read: {error}") from None
