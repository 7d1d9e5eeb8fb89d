"""Inputs that look like what a client of MQTT sends over WebSocket: packets in frames, cut anywhere."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from mqtt_peers import CONNECT, CONNECT_5, DISCONNECT, PING, puback, publish

from fuzz.mqtt_websocket_target import BROWSER, COMPRESSED
from fuzz.s2_mutator import s2_mutate

if TYPE_CHECKING:
    import random

CONT, TEXT, BINARY, CLOSE, PINGS, PONG = 0, 1, 2, 8, 9, 10
_RSV1: Final = 4
_SIZES: Final = (*(0, 1, 40, 64, 65, 124, 126, 300, 1500, 1900) * 6, 2100, 5000)
_TOPICS: Final = (*(b"a", b"a/b", b"$x") * 20, b"a+")
_OTHERS: Final = (*(PING, PING, puback(1)) * 10, DISCONNECT, CONNECT)


def frame(rng: random.Random, opcode: int, data: bytes, *, is_last: bool = True, reserved: int = 0) -> bytes:
    """Return one frame of a client, with a mask."""
    head = bytearray([is_last << 7 | reserved << 4 | opcode])
    if len(data) < 126:
        head.append(0x80 | len(data))
    elif len(data) < 65536:
        head += b"\xfe" + len(data).to_bytes(2, "big")
    else:
        head += b"\xff" + len(data).to_bytes(8, "big")
    mask = rng.randbytes(4)
    return bytes(head) + mask + bytes(byte ^ mask[n & 3] for n, byte in enumerate(data))


def message(rng: random.Random, data: bytes, *, may_deflate: bool) -> bytes:
    """Return one message in frames, with control frames between."""
    opcode, reserved = (BINARY if rng.random() < 0.95 else TEXT), 0
    if may_deflate and rng.random() < 0.5:
        packer = zlib.compressobj(wbits=-15)
        data = (packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
        reserved = _RSV1
    made = b""
    while True:
        size = len(data) if rng.random() < 0.6 else rng.randrange(len(data) + 1)
        part, data = data[:size], data[size:]
        made += frame(rng, opcode, part, is_last=not data, reserved=reserved)
        if not data:
            return made
        opcode, reserved = CONT, 0
        if rng.random() < 0.2:
            made += control(rng)


def control(rng: random.Random) -> bytes:
    """Return a ping or a pong, seldom a close."""
    if rng.random() < 0.03:
        return frame(rng, CLOSE, rng.choice((b"", b"\x03\xe8", b"\x03\xe8bye", b"\x01")))
    return frame(rng, rng.choice((PINGS, PONG)), rng.randbytes(rng.choice((0, 4, 125))))


def _packets(rng: random.Random, *, is_5: bool) -> bytes:
    made = b""
    for _ in range(rng.choice((1, 1, 2, 6))):
        form = rng.random()
        if form < 0.7:
            payload = bytes([rng.randrange(97, 100)]) * rng.choice(_SIZES)
            qos = rng.choice((0, 0, 1))
            made += publish(
                rng.choice(_TOPICS),
                payload,
                qos=qos,
                identifier=rng.randrange(1, 4),
                properties=b"" if is_5 else None,
            )
        else:
            made += rng.choice(_OTHERS)
    return made


def websocket_session(rng: random.Random, messages: int) -> bytes:
    """A fresh input of so many messages, whose packets need not end where they end."""
    flags = rng.choice((0, COMPRESSED, BROWSER, COMPRESSED | BROWSER))
    is_5 = rng.random() < 0.5
    stream = CONNECT_5 if is_5 else CONNECT
    made = bytes([flags])
    for _ in range(messages):
        stream += _packets(rng, is_5=is_5)
        size = len(stream) if rng.random() < 0.5 else rng.randrange(len(stream) + 1)
        part, stream = stream[:size], stream[size:]
        made += message(rng, part, may_deflate=bool(flags & COMPRESSED))
        if rng.random() < 0.1:
            made += control(rng)
    return made


def websocket_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """Change an input a little, put a message behind it, or make another one."""
    form = rng.random()
    if form < 0.5:
        return s2_mutate(data, rng, most)
    if form < 0.8:
        deflates = bool(data and data[0] & COMPRESSED)
        return (data + message(rng, _packets(rng, is_5=rng.random() < 0.5), may_deflate=deflates))[:most]
    return websocket_session(rng, rng.choice((1, 3, 9, 30)))[:most]
