"""Sparkplug B: certificates of births, which are kept for those who come later, and the time of deaths.

Source: Sparkplug 3.0, chapter 10 (what a server does that knows Sparkplug); nats-server 2.15.1: a birth that
is published with RETAIN is no certificate, and is not kept; what is no protobuf gets its time behind it.
"""

from __future__ import annotations

from typing import Final

CERTIFICATES: Final = b"$sparkplug/certificates/"
CERTIFICATES_SUBJECT: Final = b"$sparkplug.certificates."
_NAMESPACE: Final = b"spBv1.0"
_BIRTHS: Final = {b"NBIRTH": 4, b"DBIRTH": 5}
_DEATHS: Final = {b"NDEATH": 4, b"DDEATH": 5}
"""The levels that a topic with the name of a message in its third place has."""
_MESSAGE_LEVEL: Final = 2

_TIMESTAMP_KEY: Final = b"\x08"
_LONGEST_VARIABLE: Final = 10


def certificate_of(topic: bytes) -> bytes | None:
    """Return the topic of the certificate of a birth; None for a topic that is none of a birth."""
    return CERTIFICATES + topic if _is_one_of(topic, _BIRTHS) else None


def kept_topic(topic: bytes, *, is_retained: bool) -> bytes | None:
    """Return the topic under which a published message is kept; None: it is not kept.

    One with RETAIN is kept under its own, but for a birth; a birth without it is kept as its certificate.
    """
    certificate = certificate_of(topic)
    if certificate is None:
        return topic if is_retained else None
    return None if is_retained else certificate


def is_death(topic: bytes) -> bool:
    """True if the topic is one of a death of a node or a device."""
    return _is_one_of(topic, _DEATHS)


def _is_one_of(topic: bytes, names: dict[bytes, int]) -> bool:
    levels = topic.split(b"/", max(names.values()))
    return (
        levels[0] == _NAMESPACE
        and len(levels) > _MESSAGE_LEVEL
        and names.get(levels[_MESSAGE_LEVEL]) == len(levels)
        and all(levels)
    )


def stamped(payload: bytes, now_ms: int) -> bytes:
    """Return the payload of a death with the time of now in its field 1, added where there is none."""
    stamp = _TIMESTAMP_KEY + _variable(now_ms)
    at = 0
    while at < len(payload):
        end = _field_end(payload, at)
        if end is None:
            break
        if payload[at : at + 1] == _TIMESTAMP_KEY:
            return payload[:at] + stamp + payload[end:]
        at = end
    return payload + stamp


def _field_end(payload: bytes, at: int) -> int | None:
    """Return where the field at `at` ends; None for what is no field, or is cut off."""
    key = _read_variable(payload, at)
    if key is None:
        return None
    at = key[1]
    match key[0] & 7:
        case 0:
            value = _read_variable(payload, at)
            end = None if value is None else value[1]
        case 1:
            end = at + 8
        case 2:
            size = _read_variable(payload, at)
            end = None if size is None else size[1] + size[0]
        case 5:
            end = at + 4
        case _:
            end = None
    return end if end is not None and end <= len(payload) else None


def _read_variable(payload: bytes, at: int) -> tuple[int, int] | None:
    number = 0
    for place in range(min(_LONGEST_VARIABLE, len(payload) - at)):
        byte = payload[at + place]
        number |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return number, at + place + 1
    return None


def _variable(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
