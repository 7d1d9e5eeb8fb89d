"""The fields that packets of MQTT are made of: numbers, strings, variable lengths.

Here live a reader over one packet, which never reads past its end, and the writers. Never lives here: which
fields a packet has.
Source: OASIS MQTT 5.0, 1.5; the texts of a packet that is cut off are nats-server's.
"""

from __future__ import annotations

from typing import Final

from headrace.protocol.go_json import quoted_bytes
from headrace.protocol.mqtt.reasons import MqttError, Reason

MAX_VARIABLE: Final = (1 << 28) - 1
_MAX_TWO_BYTES: Final = (1 << 16) - 1


class FieldReader:
    """A packet's body with the place where the next field begins. All methods raise MqttError."""

    __slots__ = ("_data", "at", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self._data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """The number of bytes behind the last field that was read."""
        return self.end - self.at

    def byte(self, field: str) -> int:
        """Read one byte."""
        if self.at >= self.end:
            raise MqttError(f"error reading {field}: EOF")
        self.at += 1
        return self._data[self.at - 1]

    def two_bytes(self, field: str) -> int:
        """Read a number of two bytes."""
        return int.from_bytes(self._take(2, field), "big")

    def four_bytes(self, field: str) -> int:
        """Read a number of four bytes."""
        return int.from_bytes(self._take(4, field), "big")

    def binary(self, field: str) -> bytes:
        """Read bytes behind their length of two bytes."""
        return self._take(self.two_bytes(field), field)

    def text(self, field: str) -> bytes:
        """Read a string: UTF-8 without NUL."""
        value = self.binary(field)
        check_text(value, field)
        return value

    def variable(self, field: str) -> int:
        """Read a number of one to four bytes, seven bits in each."""
        value = 0
        for shift in range(0, 28, 7):
            byte = self.byte(field)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise MqttError("malformed variable int")

    def part(self, length: int, field: str) -> FieldReader:
        """A reader of the next `length` bytes; this one goes on behind them."""
        start = self.at
        self._skip(length, field)
        return FieldReader(self._data, start, self.at)

    def _take(self, length: int, field: str) -> bytes:
        start = self.at
        self._skip(length, field)
        return self._data[start : self.at]

    def _skip(self, length: int, field: str) -> None:
        if length > self.left:
            raise MqttError(f"error reading {field}: unexpected EOF")
        self.at += length


def check_text(value: bytes, field: str, reason: Reason = Reason.MALFORMED_PACKET) -> None:
    """Check that a string is UTF-8 without NUL. Raises: MqttError."""
    if not value.isascii():
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            raise MqttError(f"invalid utf8 for {field} {quoted_bytes(value)}", reason) from None
    if 0 in value:
        raise MqttError(f"invalid null character in {field} {quoted_bytes(value)}", reason)


def variable(value: int) -> bytes:
    """Return a number as one to four bytes, seven bits in each. Raises: ValueError."""
    if not 0 <= value <= MAX_VARIABLE:
        raise ValueError(f"{value} does not fit into 28 bits")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def binary(value: bytes) -> bytes:
    """Return bytes behind their length of two bytes. Raises: ValueError."""
    if len(value) > _MAX_TWO_BYTES:
        raise ValueError(f"{len(value)} bytes do not fit into a string of MQTT")
    return len(value).to_bytes(2, "big") + value


def packet(kind: int, flags: int, body: bytes) -> bytes:
    """Return a control packet: its fixed header and its body. Raises: ValueError."""
    return bytes((kind << 4 | flags,)) + variable(len(body)) + body
