"""What a fuzz input of a load means, and what must hold whatever it is.

The input is a byte that says how many answers are awaited and given up, and what a server sends. Three
readers take it: one that counts, one that answers, one that matches answers. Each comes to what a plain
reading of the same bytes comes to, whole and cut anywhere; what it refuses is a ProtocolError, and nothing
else is raised.
"""

from __future__ import annotations

import random
import re
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.errors import ProtocolError
from headrace.load.loops import AnswerWindow, FrameReader, FrameWriter, SendBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

SID: Final = b"1"
PREFIX: Final = b"P."
MOST: Final = 70_000
PLACES: Final = 8
TAIL: Final = b"3\r\nyes\r\n"
_LINE: Final = 4096
_NOW: Final = 1_000_000
_ROOM: Final = 64
_WORD: Final = rb"([^ \t\r\n]+)"
_MESSAGE: Final = re.compile(rb"MSG " + _WORD + b" " + _WORD + b"(?: " + _WORD + rb")? ([0-9]{1,9})")
_WITH_HEADER: Final = re.compile(
    rb"HMSG " + _WORD + b" " + _WORD + b"(?: " + _WORD + rb")? ([0-9]{1,9}) ([0-9]{1,9})"
)
_PLACE: Final = re.compile(rb"P\.([0-9]{1,18})")

Odd = bytes | tuple[bytes, bytes, bytes | None, bytes, bytes]
"""A control line, or a message: its sid, subject, reply, header block and payload."""


class Outcome(NamedTuple):
    """What became of an input: what Python has to see, counts, what was written, what was refused."""

    others: list[Odd]
    messages: int
    size: int
    failed: int
    latencies: int
    awaited: tuple[int, int]
    written: bytes
    is_refused: bool


def check(data: bytes) -> None:
    asked, stream = data[0] if data else 0, data[1:]
    taken, given_up = asked % (PLACES + 1), asked // 16 % (PLACES + 1)
    for kind in ("count", "answer", "match"):
        expected = _plainly(stream, kind, taken, given_up)
        for pieces in ([stream], list(_cut(stream))):
            found = _read(pieces, kind, taken, given_up)
            assert found == expected, (kind, found, expected)


# -- the compiled readers


def _read(pieces: list[bytes], kind: str, taken: int, given_up: int) -> Outcome:
    out, window = SendBuffer(), AnswerWindow(PLACES)
    _await(window, taken, given_up)
    match kind:
        case "count":
            reader = FrameReader(SID, MOST)
        case "answer":
            reader = FrameReader(SID, MOST, out=out, answer=TAIL)
        case _:
            reader = FrameReader(SID, MOST, window=window, prefix=PREFIX)
    others: list[Odd] = []
    written = bytearray()
    is_refused = False
    try:
        for number, piece in enumerate(pieces):
            _give(reader, piece, by_buffer=bool(number & 1))
            while not reader.read(_NOW, others, _ROOM):
                assert len(out) >= _ROOM
                written += _taken(out)
    except ProtocolError:
        is_refused = True
    written += _taken(out)
    latencies = reader.latencies
    assert latencies.count == sum(latencies.filled().values())
    return Outcome(
        others, reader.messages, reader.size, reader.failed, latencies.count,
        (window.waiting, window.given_up), bytes(written), is_refused,
    )  # fmt: skip


def _await(window: AnswerWindow, taken: int, given_up: int) -> None:
    """Take places, and give up the first of them."""
    writer = FrameWriter(SendBuffer(), [b"s"], [(b"", b"")], window=window, reply=b"r.")
    for number in range(taken):
        assert writer.fill(1, number, 1 << 20) == 1
    window.give_up(min(taken, given_up))


def _give(reader: FrameReader, piece: bytes, *, by_buffer: bool) -> None:
    if not by_buffer:
        reader.add(piece)
        return
    with memoryview(reader) as room:
        room[: len(piece)] = piece
    reader.received(len(piece))


def _taken(out: SendBuffer) -> bytes:
    with memoryview(out) as view:
        data = bytes(view)
    out.sent(len(data))
    return data


def _cut(data: bytes) -> Iterator[bytes]:
    numbers = random.Random(zlib.crc32(data))
    at = 0
    while at < len(data):
        size = numbers.choice((1, 2, 3, 7, 50, 5000))
        yield data[at : at + size]
        at += size


# -- a plain reading


class _Frame(NamedTuple):
    sid: bytes
    subject: bytes
    reply: bytes | None
    block: bytes
    payload: bytes

    @property
    def has_status(self) -> bool:
        return len(self.block) > 8 and self.block[8:9] == b" "

    @property
    def says_error(self) -> bool:
        is_service = b"\r\nNats-Service-Error-Code:" in self.block
        return is_service or (len(self.payload) > 9 and self.payload.startswith(b'{"error":'))


def _plainly(stream: bytes, kind: str, taken: int, given_up: int) -> Outcome:
    awaited, gone = set(range(taken)), set(range(min(taken, given_up)))
    others: list[Odd] = []
    written = bytearray()
    messages = size = failed = latencies = 0
    is_refused = False
    try:
        for found in _frames(stream):
            if isinstance(found, bytes) or found.sid != SID:
                others.append(found if isinstance(found, bytes) else tuple(found))
                continue
            if kind == "match":
                place = _PLACE.fullmatch(found.subject)
                number = int(place[1]) if place else -1
                if number not in awaited:
                    others.append(tuple(found))
                    continue
                awaited.remove(number)
                if found.has_status or found.says_error:
                    failed += 1
                    others.append(tuple(found))
                    gone.discard(number)
                    continue
                latencies += number not in gone
                gone.discard(number)
            elif found.has_status or (kind == "answer" and found.reply is None):
                others.append(tuple(found))
                continue
            elif kind == "answer" and found.reply is not None:
                written += b"PUB " + found.reply + b" " + TAIL
            messages += 1
            size += len(found.block) + len(found.payload)
    except ProtocolError:
        is_refused = True
    return Outcome(
        others, messages, size, failed, latencies, (len(awaited) - len(gone), len(gone)), bytes(written),
        is_refused,
    )  # fmt: skip


def _frames(stream: bytes) -> Iterator[bytes | _Frame]:
    """Yield control lines and messages. Raises: ProtocolError at what is no message."""
    at = 0
    while at < len(stream):
        name = next((name for name in (b"MSG ", b"HMSG ") if stream.startswith(name, at)), None)
        if name is None or len(stream) - at < 5:
            end = stream.find(b"\n", at) + 1
            if not end:
                return
            yield stream[at:end]
            at = end
            continue
        begin = at + len(name)
        end = stream.find(b"\n", begin, begin + _LINE)
        if end < 0 and len(stream) - begin < _LINE:
            return
        line = stream[at:end] if end >= 0 else b""
        found = (_WITH_HEADER if name == b"HMSG " else _MESSAGE).fullmatch(line.removesuffix(b"\r"))
        if not line.endswith(b"\r") or found is None:
            raise ProtocolError("no message")
        header, total = (int(found[4]), int(found[5])) if name == b"HMSG " else (0, int(found[4]))
        if header > total or total > MOST:
            raise ProtocolError("no size")
        body = stream[end + 1 : end + 1 + total + 2]
        if len(body) < total + 2:
            return
        if not body.endswith(b"\r\n"):
            raise ProtocolError("no end")
        yield _Frame(found[2], found[1], found[3], body[:header], body[header:total])
        at = end + 1 + total + 2
