"""MQTT 3.1.1 over a raw connection: packets as they are, with a deadline on everything.

Written for tests alone, so that nothing of the server's own code reads what the server writes.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from types import TracebackType

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = 8, 9, 10, 11, 12, 13, 14
_FLAGS: Final = {PUBREL: 2, SUBSCRIBE: 2, UNSUBSCRIBE: 2}


class Packet(NamedTuple):
    """A control packet: its type, the flags beside it, and what follows the remaining length."""

    kind: int
    flags: int
    body: bytes

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def identifier(self) -> int:
        """The packet identifier of a PUBLISH with QoS 1 or 2, or of any other packet that has one."""
        at = 2 + int.from_bytes(self.body[:2], "big") if self.kind == PUBLISH else 0
        return int.from_bytes(self.body[at : at + 2], "big")

    @property
    def topic(self) -> str:
        return self.body[2 : 2 + int.from_bytes(self.body[:2], "big")].decode()

    @property
    def payload(self) -> bytes:
        return self.body[2 + int.from_bytes(self.body[:2], "big") + (2 if self.qos else 0) :]


def text(value: str | bytes) -> bytes:
    """A string as packets have it: two bytes of length before it."""
    data = value.encode() if isinstance(value, str) else value
    return len(data).to_bytes(2, "big") + data


def encoded(kind: int, body: bytes, flags: int | None = None) -> bytes:
    """A whole packet; without flags those that its type must have."""
    head = bytearray([kind << 4 | (_FLAGS.get(kind, 0) if flags is None else flags)])
    rest = len(body)
    while rest > 127:
        head.append(rest & 127 | 128)
        rest >>= 7
    head.append(rest)
    return bytes(head) + body


class Gone(Exception):
    """The server has closed the connection, or is not there."""


class MqttWire:
    """One connection, past its CONNACK; `is_resumed`: the server had a session for it.

    Raises: Gone in any call when the server has closed it; AssertionError when nothing comes in time.
    """

    def __init__(
        self, port: int, client_id: str, *, clean: bool = True, user: str = "", password: str = ""
    ) -> None:
        self._received = bytearray()
        self._identifier = 0
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        except OSError as error:
            raise Gone(str(error)) from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        flags = (2 if clean else 0) | (0x80 if user else 0) | (0x40 if password else 0)
        names = b"".join(text(each) for each in (user, password) if each)
        try:
            self.send(CONNECT, text("MQTT") + bytes([4, flags, 0, 0]) + text(client_id) + names)
            accepted = self.take()
        except BaseException:
            self.socket.close()
            raise
        assert (accepted.kind, accepted.body[1]) == (CONNACK, 0), accepted
        self.is_resumed = bool(accepted.body[0])

    def send(self, kind: int, body: bytes = b"", flags: int | None = None) -> None:
        try:
            self.socket.settimeout(PATIENCE)
            self.socket.sendall(encoded(kind, body, flags))
        except TimeoutError:
            raise AssertionError("the server reads nothing") from None
        except OSError as error:
            raise Gone(str(error)) from error

    def take(self, seconds: float = PATIENCE) -> Packet:
        """The next packet."""
        deadline = time.monotonic() + seconds
        while (found := self._whole()) is None:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                raise AssertionError(f"no packet: {bytes(self._received[:100])!r}") from None
            except OSError as error:
                raise Gone(str(error)) from error
            if not data:
                raise Gone("end of stream")
            self._received += data
        return found

    def _whole(self) -> Packet | None:
        data, rest, at = self._received, 0, 1
        while at < len(data):
            rest |= (data[at] & 127) << 7 * (at - 1)
            at += 1
            if data[at - 1] < 128:
                break
        else:
            return None
        if len(data) < at + rest:
            return None
        found = Packet(data[0] >> 4, data[0] & 15, bytes(data[at : at + rest]))
        del data[: at + rest]
        return found

    def subscribe(self, filter_: str, qos: int) -> int:
        """The QoS that was granted. Nothing else may be on its way."""
        self._identifier += 1
        identifier = self._identifier.to_bytes(2, "big")
        self.send(SUBSCRIBE, identifier + text(filter_) + bytes([qos]))
        granted = self.take()
        assert (granted.kind, granted.body[:2]) == (SUBACK, identifier), granted
        return granted.body[2]

    def publish(
        self, topic: str, payload: bytes, qos: int = 0, identifier: int = 0, *, again: bool = False
    ) -> None:
        """Send a PUBLISH; what answers it is the caller's. `again`: with DUP."""
        number = identifier.to_bytes(2, "big") if qos else b""
        self.send(PUBLISH, text(topic) + number + payload, (8 if again else 0) | qos << 1)

    def acknowledge(self, kind: int, identifier: int) -> None:
        """Send a PUBACK, PUBREC, PUBREL or PUBCOMP."""
        self.send(kind, identifier.to_bytes(2, "big"))

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
