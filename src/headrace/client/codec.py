"""The client side of the NATS protocol without a socket: server bytes in, columns of messages out.

Here live the parser of what a server sends and the encoders of what a client sends. No socket, no
clock, no retry. Messages come out as columns, because Spark and Arrow want columns; the loop over them is
compiled (`headrace.engine.frames`). Source: client protocol specification, section 1.

Shapes, server to client: `MSG subject sid [reply] size`, `HMSG subject sid [reply] header-size
total-size`, each followed by that many bytes and CR LF; `INFO json`, `PING`, `PONG`, `+OK`, `-ERR 'text'`.
"""

from __future__ import annotations

import enum
import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.engine.frames import Payload, cut_messages
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"

MAX_LINE: Final = 1 << 20
"""Bytes of one line from the server (INFO with many URLs is the longest); more is a protocol error."""

MAX_MESSAGE: Final = 128 << 20
"""Header plus payload bytes of one message accepted from a server; more is a protocol error."""

RECEIVE_SIZE: Final = 1 << 18
"""Bytes asked for in one read; what makes a batch of about 1,500 small messages."""

HEAD_SIZE: Final = 4 << 10

LARGE: Final = 64 << 10
"""A payload of so many bytes is received where it stays, if the reader of the socket asks for that."""

_SEPARATORS: Final = re.compile(rb"[ \t]+")
_SIZE: Final = re.compile(rb"[0-9]{1,9}")

Head = tuple[bytes, bytes, bytes | None, int, int]
"""subject, sid, reply or None, header bytes, header plus payload bytes."""


class Op(enum.Enum):
    """The server operations that carry no message."""

    INFO = b"INFO"
    PING = b"PING"
    PONG = b"PONG"
    OK = b"+OK"
    ERR = b"-ERR"


_OPS: Final = {op.value: op for op in Op}


class Control(NamedTuple):
    """One operation without a message; `argument` is the JSON of INFO or the unquoted text of -ERR."""

    op: Op
    argument: bytes = b""

    @property
    def text(self) -> str:
        return self.argument.decode("utf-8", "backslashreplace")

    def info(self) -> dict[str, object]:
        """The fields of an INFO. Raises: ProtocolError if it is no JSON object."""
        try:
            fields = json.loads(self.argument)
        except ValueError as error:
            raise ProtocolError(f"INFO is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise ProtocolError("INFO is not a JSON object")
        return fields


class MessageBatch:
    """Messages in order of arrival, as columns of equal length.

    `heads`, `payloads` and, by row, `blocks` are the storage; the methods cut single columns out of it. The
    header block of a message is the raw bytes from `NATS/1.0` to the empty line.
    """

    __slots__ = ("blocks", "heads", "payloads")

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.payloads: list[bytes] = []
        self.blocks: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def has_headers(self) -> bool:
        return bool(self.blocks)

    def subjects(self) -> list[bytes]:
        return [head[0] for head in self.heads]

    def sids(self) -> list[bytes]:
        return [head[1] for head in self.heads]

    def replies(self) -> list[bytes | None]:
        return [head[2] for head in self.heads]

    def header_blocks(self) -> list[bytes | None]:
        if not self.blocks:
            return [None] * len(self.payloads)
        return [self.blocks.get(row) for row in range(len(self.payloads))]

    def byte_count(self) -> int:
        """Subject, reply, header and payload bytes; a measure of what the batch holds."""
        return sum(len(head[0]) + len(head[2] or b"") + head[4] for head in self.heads)

    def append(self, head: Head, block: bytes | None, payload: bytes) -> None:
        if block is not None:
            self.blocks[len(self.payloads)] = block
        self.heads.append(head)
        self.payloads.append(payload)

    def extend(self, other: MessageBatch) -> None:
        """Add the messages of `other` behind these."""
        offset = len(self.payloads)
        for row, block in other.blocks.items():
            self.blocks[offset + row] = block
        self.heads += other.heads
        self.payloads += other.payloads


class FrameParser:
    """Cuts a server's byte stream into messages and controls, whatever the pieces it comes in.

    Raises (from `feed`): ProtocolError on anything that is not the protocol; the messages before
    the bad bytes can still be taken, and every later `feed` raises again.
    """

    def __init__(self, *, max_message: int = MAX_MESSAGE) -> None:
        self._max_message = max_message
        self._batch = MessageBatch()
        self._controls: list[Control] = []
        self._pieces: list[bytes] = []  # an incomplete frame; joined once it can be complete
        self._held = 0
        self._needed = 0
        self._failure: str | None = None
        self._large: tuple[bytes, Head, bytes | None, Payload] | None = None

    def take_messages(self) -> MessageBatch:
        """The messages since the last call."""
        batch, self._batch = self._batch, MessageBatch()
        return batch

    def take_controls(self) -> list[Control]:
        """The controls since the last call; their order among the messages is not kept."""
        controls, self._controls = self._controls, []
        return controls

    @property
    def has_messages(self) -> bool:
        return bool(self._batch.payloads)

    @property
    def is_empty(self) -> bool:
        """True if no message waits to be taken and no frame is incomplete."""
        return not (self._batch.payloads or self._pieces or self._large)

    @property
    def expected(self) -> int:
        """Bytes to ask for where `room` is None: few behind a large message, the next may be one, too."""
        return RECEIVE_SIZE if self._large is None else HEAD_SIZE

    def room(self) -> Payload | None:
        """Return the buffer for the next bytes while a large payload is being received, else None.

        A caller that has received into it calls `Payload.advance`, and feeds the rest of the message; without
        a buffer it feeds all bytes.
        """
        large = self._large
        if large is not None:
            return large[3] if large[3].missing else None
        if self._needed - self._held >= LARGE and self._pieces and self._failure is None:
            return self._begin_large()
        return None

    def _begin_large(self) -> Payload | None:
        line, _, _ = self._pieces[0].partition(b"\n")  # complete, else it were not known how much is missing
        name, text = _words(line)
        head = self._read_head(name, text)
        body = len(line) + 1 + head[3]
        if body > self._held:
            return None
        data = b"".join(self._pieces)
        payload = Payload(head[4] - head[3])
        payload.add(data, body)
        self._large = line, head, data[len(line) + 1 : body] if head[3] else None, payload
        self._pieces.clear()
        self._held = self._needed = 0
        return payload

    def _end_large(self, data: bytes) -> bytes:
        """Return the bytes behind a large message once its end is known, else nothing."""
        assert self._large is not None
        line, head, block, payload = self._large
        missing = payload.missing
        if missing:
            payload.add(data[:missing], 0)
            data = data[missing:]
        data = b"".join([*self._pieces, data])
        self._pieces.clear()
        if payload.missing or len(data) < 2:
            if data:
                self._pieces.append(data)
            return b""
        self._large = None
        if not data.startswith(b"\r\n"):
            self._failure = _unfinished(line, head)
            raise ProtocolError(self._failure)
        self._batch.append(head, block, payload.take())
        return data[2:]

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        if self._failure is not None:
            raise ProtocolError(self._failure)
        if self._large is not None:
            data = self._end_large(data)
            if not data:
                return
        if self._pieces:
            self._pieces.append(data)
            self._held += len(data)
            if self._held < self._needed:
                return
            data = b"".join(self._pieces)
            self._pieces.clear()
        try:
            rest = self._cut(data)
        except ProtocolError as error:
            self._failure = str(error)
            raise
        if rest < len(data):
            self._pieces.append(data[rest:])
            self._held = len(data) - rest

    def _cut(self, data: bytes) -> int:
        """Cut all complete frames; the position of the first incomplete one. Sets `_needed` for it."""
        batch, most = self._batch, self._max_message
        size, pos = len(data), 0
        while True:
            # What is complete and spelled as usual is cut by compiled code; any other frame is judged here.
            pos = cut_messages(data, pos, most, batch.heads, batch.payloads, batch.blocks)
            if pos >= size:
                return pos
            eol = data.find(b"\n", pos)
            if eol < 0:
                if size - pos > MAX_LINE:
                    raise ProtocolError(f"a line longer than {MAX_LINE} bytes")
                self._needed = size - pos + 1
                return pos
            line = data[pos:eol]
            head = self._read_line(line)
            start = eol + 1
            if head is None:
                pos = start
                continue
            end = start + head[4]
            if not data.startswith(b"\r\n", end):
                if end + 2 > size:
                    self._needed = end + 2 - pos
                    return pos
                raise ProtocolError(_unfinished(line, head))
            if head[3]:
                body = start + head[3]
                batch.append(head, data[start:body], data[body:end])
            else:
                batch.append(head, None, data[start:end])
            pos = end + 2

    def _read_line(self, line: bytes) -> Head | None:
        """The head of a message, or None after keeping a control."""
        if len(line) > MAX_LINE:
            raise ProtocolError(f"a line longer than {MAX_LINE} bytes")
        name, text = _words(line)
        if name in (b"MSG", b"HMSG"):
            return self._read_head(name, text)
        op = _OPS.get(name)
        if op is None:
            raise ProtocolError(f"unknown operation {_show(line)}")
        _, *rest = _SEPARATORS.split(text, maxsplit=1)
        argument = rest[0] if rest else b""
        if op is Op.ERR:
            argument = argument.strip(b"'")
        self._controls.append(Control(op, argument))
        return None

    def _read_head(self, name: bytes, text: bytes) -> Head:
        words = _SEPARATORS.split(text)[1:]
        sizes = 1 if name == b"MSG" else 2
        if len(words) - sizes not in (2, 3):
            raise ProtocolError(f"wrong number of arguments: {_show(text)}")
        if not all(_SIZE.fullmatch(word) for word in words[-sizes:]):
            raise ProtocolError(f"bad size: {_show(text)}")
        total = int(words[-1])
        header = int(words[-2]) if sizes == 2 else 0
        if header > total:
            raise ProtocolError(f"more header than message: {_show(text)}")
        if total > self._max_message:
            raise ProtocolError(f"a message of {total} bytes, more than {self._max_message}: {_show(text)}")
        reply = words[2] if len(words) - sizes == 3 else None
        return words[0], words[1], reply, header, total


def _words(line: bytes) -> tuple[bytes, bytes]:
    """Name of the operation of a line, and the line without what surrounds it."""
    text = line.removesuffix(b"\r").strip(b" \t")
    return _SEPARATORS.split(text, maxsplit=1)[0].upper(), text


def _unfinished(line: bytes, head: Head) -> str:
    return f"{_show(line)} is not followed by {head[4]} bytes and CR LF"


def _show(line: bytes) -> str:
    return repr(line[:80])[1:]


def check_word(what: str, word: bytes) -> bytes:
    """The word itself. Raises: ValueError if it is empty or would break out of a protocol line."""
    if not word or any(separator in word for separator in (b" ", b"\t", b"\r", b"\n")):
        raise ValueError(f"{what} {word!r} is empty or holds a space, tab or line end")
    return word


def encode_connect(fields: Mapping[str, object]) -> bytes:
    return b"CONNECT " + json.dumps(fields, separators=(",", ":")).encode() + b"\r\n"


def encode_sub(subject: bytes, sid: bytes, queue: bytes | None = None) -> bytes:
    group = b"" if queue is None else check_word("queue group", queue) + b" "
    return b"SUB %b %b%b\r\n" % (check_word("subject", subject), group, sid)


def encode_unsub(sid: bytes, max_messages: int | None = None) -> bytes:
    return b"UNSUB %b\r\n" % sid if max_messages is None else b"UNSUB %b %d\r\n" % (sid, max_messages)


def encode_pub(subject: bytes, payload: bytes, reply: bytes | None = None, block: bytes = b"") -> bytes:
    """PUB, or HPUB if there is a header block. Raises: ValueError if a subject holds a separator."""
    target = check_word("subject", subject)
    if reply is not None:
        target = b"%b %b" % (target, check_word("reply", reply))
    if block:
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (target, len(block), len(block) + len(payload), block, payload)
    return b"PUB %b %d\r\n%b\r\n" % (target, len(payload), payload)
