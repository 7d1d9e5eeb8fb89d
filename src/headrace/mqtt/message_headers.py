"""Header blocks of messages that are stored for MQTT: made, read, and changed into others.

Names stand before a colon without a blank, as nats-server writes them; a blank is read all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.mqtt.names import (
    CLIENT,
    EXPIRES_AT,
    MAPPED,
    MESSAGE_ID,
    QOS,
    RELEASE,
    REPLY,
    RETAINED_FLAGS,
    RETAINED_ORIGIN,
    RETAINED_SOURCE,
    RETAINED_TOPIC,
    SUBJECT,
)
from headrace.protocol.jetstream.headers import FIRST_LINE, value

if TYPE_CHECKING:
    from collections.abc import Container

_END: Final = b"\r\n"
_OURS: Final = frozenset(
    {
        QOS,
        SUBJECT,
        MAPPED,
        REPLY,
        RELEASE,
        RETAINED_TOPIC,
        RETAINED_FLAGS,
        RETAINED_ORIGIN,
        RETAINED_SOURCE,
        MESSAGE_ID,
    }
)
"""Headers that say how a message is kept; all others belong to the message."""

RETAIN_LINE: Final = b"Nmqtt-Retain: 1\r\n"
"""The line of a message that a client of 5.0 has published with RETAIN: for who asks for it as published."""

DUP: Final = 8
RETAIN: Final = 1
_QOS_SHIFT: Final = 1
_QOS_MASK: Final = 3


def block(*lines: tuple[bytes, bytes], more: bytes = b"") -> bytes:
    """Return a header block. `more`: whole lines behind the others."""
    return FIRST_LINE + b"".join(b"%b:%b\r\n" % line for line in lines) + more + _END


def published(qos: int, more: bytes = b"") -> bytes:
    """Return the header block of a message that a client published. `more`: whole lines of its properties."""
    return block((QOS, b"%d" % qos), more=more)


def lines_of(headers: bytes, without: Container[bytes] = _OURS) -> bytes:
    """Return whole lines of a block: those that belong to the message itself."""
    found = headers.split(_END)[1:]
    return b"".join(line + _END for line in found if line and line.partition(b":")[0] not in without)


def qos_of(flags: int) -> int:
    """Return the QoS of the flags of a PUBLISH."""
    return flags >> _QOS_SHIFT & _QOS_MASK


def hex_digit(text: bytes) -> int:
    """Return a number written as one hexadecimal digit; 0 for what is none."""
    try:
        return int(text, 16) & 0xF
    except ValueError:
        return 0


def expires_at(headers: bytes) -> int:
    """Return the time at which a message expires, Unix time in ms; 0: it does not."""
    text = value(headers, EXPIRES_AT)
    return int(text) if text.isdigit() and len(text) < 20 else 0


def client_line(client_hash: str) -> bytes:
    """Return the line that says which session has published a message."""
    return b"%b:%b\r\n" % (CLIENT, client_hash.encode())
