"""The PROXY protocol, versions 1 and 2: who is behind the proxy that connected.

Here lives reading of the header, from pieces of any size. Never lives here: sockets, who is believed
(whoever can reach a port with `proxy_protocol` is).
Source: "The PROXY protocol, versions 1 & 2" (HAProxy); what is taken, and the errors, as Go's server 2.15.1.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

_V1: Final = b"PROXY "
_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_TELLING: Final = len(_V1)  # bytes that tell the versions, and no header, apart
MAX_V1_LINE: Final = 107  # with CR LF
_V2_FIXED: Final = 16
_LOCAL, _PROXY = 0, 1
_UNSPECIFIED, _INET, _INET6 = 0x00, 0x10, 0x20
_STREAM: Final = 1
_ADDRESS_BYTES: Final = {_INET: 12, _INET6: 36}
_MAX_PORT: Final = 0xFFFF


class ProxyHeaderError(ValueError):
    """A header that begins as one and is none; the text is for the log."""


class ProxiedAddress(NamedTuple):
    """The address of a client, as the proxy says it."""

    address: str
    port: int


class ProxyHeader:
    """Reads one header.

    `is_complete`: nothing more is read. Then `source` is where the client is (None: the connection speaks for
    itself, as for health checks), or `is_absent` says that there was no header, and `seen` has the bytes that
    were taken and belong to the client.
    """

    __slots__ = ("_body_left", "_head", "is_absent", "is_complete", "source")

    def __init__(self) -> None:
        self._head = bytearray()
        self._body_left: int | None = None  # of the address block of version 2, once its size is known
        self.source: ProxiedAddress | None = None
        self.is_absent = False
        self.is_complete = False

    @property
    def seen(self) -> bytes:
        return bytes(self._head) if self.is_absent else b""

    def feed(self, data: bytes) -> int:
        """Take bytes of the header; returns how many are part of it, all of them until it is complete.

        Raises: ProxyHeaderError.
        """
        taken = 0
        while taken < len(data) and not self.is_complete:
            taken += self._feed(data[taken:])
        return taken

    def _feed(self, data: bytes) -> int:
        have = len(self._head)
        if have < _TELLING:
            piece = data[: _TELLING - have]
            if not (_V1.startswith(self._head + piece) or _V2.startswith(self._head + piece)):
                self.is_absent = self.is_complete = True
                return 0
            self._head += piece
            return len(piece)
        return self._feed_line(data) if self._head.startswith(_V1) else self._feed_binary(data)

    # -- version 1

    def _feed_line(self, data: bytes) -> int:
        have = len(self._head)
        line = self._head + data[: MAX_V1_LINE - have]
        end = line.find(b"\r\n")
        if end < 0:
            if len(line) == MAX_V1_LINE:
                raise ProxyHeaderError("invalid PROXY protocol header: v1 line too long")
            self._head = line
            return len(line) - have
        self.source = _source_of_line(bytes(line[_TELLING:end]))
        self.is_complete = True
        return end + 2 - have

    # -- version 2

    def _feed_binary(self, data: bytes) -> int:
        have = len(self._head)
        if have < _V2_FIXED:
            piece = data[: _V2_FIXED - have]
            self._head += piece
            if self._head[: len(_V2)] != _V2[: len(self._head)]:
                raise ProxyHeaderError("invalid PROXY protocol header: invalid signature")
            if len(self._head) == _V2_FIXED:
                self._begin_body()
            return len(piece)
        assert self._body_left is not None
        piece = data[: self._body_left]
        self._body_left -= len(piece)
        # What comes after the addresses (more about the connection) is not kept: it may be 64 KB.
        room = _V2_FIXED + _ADDRESS_BYTES[_INET6] - have
        self._head += piece[: max(room, 0)]
        if self._body_left == 0:
            self._end_body()
        return len(piece)

    def _begin_body(self) -> None:
        command, family = self._head[12], self._head[13] & 0xF0
        size = int.from_bytes(self._head[14:16], "big")
        if command & 0xF0 != 0x20:
            raise ProxyHeaderError(f"invalid PROXY protocol header: invalid version 0x{command & 0xF0:02x}")
        if command & 0x0F not in (_LOCAL, _PROXY):
            raise ProxyHeaderError(f"unknown PROXY protocol command: 0x{command & 0x0F:02x}")
        if command & 0x0F == _PROXY:
            if self._head[13] & 0x0F != _STREAM:
                raise ProxyHeaderError("unsupported PROXY protocol feature: only STREAM protocol supported")
            if family not in (_UNSPECIFIED, _INET, _INET6):
                reason = f"unsupported address family 0x{family:02x}"
                raise ProxyHeaderError(f"unsupported PROXY protocol feature: {reason}")
            if size < _ADDRESS_BYTES.get(family, 0):
                version = 4 if family == _INET else 6
                raise ProxyHeaderError(f"IPv{version} address data too short: {size} bytes")
        self._body_left = size
        if size == 0:
            self._end_body()

    def _end_body(self) -> None:
        self.is_complete = True
        family = self._head[13] & 0xF0
        if self._head[12] & 0x0F == _LOCAL or family == _UNSPECIFIED:
            return
        body, length = self._head[_V2_FIXED:], 4 if family == _INET else 16
        port = int.from_bytes(body[2 * length : 2 * length + 2], "big")
        self.source = ProxiedAddress(_text(bytes(body[:length])), port)


def _source_of_line(line: bytes) -> ProxiedAddress | None:
    words = line.decode("latin-1").split()
    if not words:
        raise ProxyHeaderError("invalid PROXY protocol header: invalid v1 format")
    if words[0] == "UNKNOWN":
        return None
    if len(words) != 5:
        raise ProxyHeaderError("invalid PROXY protocol header: invalid v1 format")
    protocol, source, destination, *ports = words
    addresses = [_address(word) for word in (source, destination)]
    for kind, port in zip(("source", "dest"), ports, strict=True):
        if not (port.isascii() and port.isdecimal() and len(port) <= 16 and int(port) <= _MAX_PORT):
            raise ProxyHeaderError(f"invalid {kind} port: {port!a}")
    if protocol not in ("TCP4", "TCP6"):
        raise ProxyHeaderError(f"invalid PROXY protocol header: invalid protocol {protocol!a}")
    are_v6 = [":" in word for word in (source, destination)]
    if protocol == "TCP4" and any(are_v6):
        raise ProxyHeaderError("invalid PROXY protocol header: TCP4 with IPv6 address")
    if protocol == "TCP6" and not all(are_v6):
        raise ProxyHeaderError("invalid PROXY protocol header: TCP6 with IPv4 address")
    return ProxiedAddress(_text(addresses[0]), int(ports[0]))


def _address(word: str) -> bytes:
    try:
        if "%" in word:  # a zone says nothing outside the proxy's machine
            raise ValueError
        return ip_address(word).packed
    except ValueError:
        raise ProxyHeaderError("invalid PROXY protocol header: invalid address") from None


def _text(packed: bytes) -> str:
    """An address as it stands everywhere else: one that is IPv4 within IPv6 as IPv4."""
    address = ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
