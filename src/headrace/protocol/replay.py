"""A replay of stored messages over plain NATS: the request, the messages, the end.

Shapes only; what is replayed and how fast is `streaming.replaying`. A request is JSON:

    {"channel": "orders.>", "start_sequence": 1 | "start_time": "2026-11-21T08:00:00Z" |
     "start_time_delta": "1h30m", "end_sequence": 9, "end_time": "...", "max_messages": 9, "max_bytes": 9,
     "order": "channel" | "time", "last_only": true, "format": "arrow", "after": "..."}

A message is a NATS message with the stored payload and this block (the names are those of JetStream's direct
get), then the stored headers if there are any:

    NATS/1.0
    Nats-Stream: orders.eu              the channel
    Nats-Subject: orders.eu
    Nats-Sequence: 7
    Nats-Time-Stamp: 2026-11-21T08:00:00.123456789Z
    Nats-Reply: inbox                   only if it was published with one

With format "arrow" a message holds many of them, as columns (`protocol.columns`), and this block:

    NATS/1.0
    Content-Type: application/vnd.apache.arrow.stream

The end is an empty message:

    NATS/1.0 204 EOB
    Nats-Num-Pending: 0                 more than 0: ask again, with "after"
    Nats-Last-Sequence: 9               of the last message sent, 0 if none was
    Nats-UpTo-Sequence: 9               of one channel: the newest that this replay is about
    Nats-Replay-After: 17...            for "after", as it is; not there if nothing was sent
    Nats-Damaged: orders.eu 3,7-9       channels, each with messages that could not be read

or an error: `NATS/1.0 400 text`. Source of the names: NATS ADR-31.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from msgspec import Struct

from headrace.errors import ProtocolError
from headrace.protocol import documents
from headrace.protocol.rfc3339 import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

EOB: Final = 204
ARROW: Final = "arrow"

_MOST_RANGES: Final = 1000
"""Ranges of damaged sequences that one end can list; a list that is cut ends with `...`."""
_STARTS: Final = ("start_sequence", "start_time", "start_time_delta")
_VERSION: Final = b"NATS/1.0"


class Cursor(NamedTuple):
    """The position of a replay that is requested in parts: behind this message."""

    bound_ns: int
    """The time of the newest message when the replay began; later ones are not part of it."""
    time_ns: int
    sequence: int
    channel: bytes

    def text(self) -> str:
        channel = self.channel.decode("utf-8", "surrogateescape")
        return f"{self.bound_ns}.{self.time_ns}.{self.sequence}.{channel}"

    @classmethod
    def read(cls, value: object) -> Self:
        """Read a cursor. Raises: ValueError for a text that no end of a replay has."""
        match = re.fullmatch(
            r"([0-9]{1,19})\.([0-9]{1,19})\.([0-9]{1,19})\.(.+)", documents.a_text(value), re.DOTALL
        )
        if match is None:
            raise ValueError("not what an answer said")
        bound, time_ns, sequence = (documents.a_number(int(number)) for number in match.groups()[:3])
        return cls(bound, time_ns, sequence, documents.raw_name(match[4]))


class ReplayRequest(Struct, frozen=True):
    """The request of a replay. None and 0 are: not asked for. Both ends of a span belong to it."""

    channel: bytes
    start_sequence: int = 0
    start_time_ns: int | None = None
    start_delta_ns: int | None = None
    end_sequence: int = 0
    end_time_ns: int | None = None
    max_messages: int = 0
    max_bytes: int = 0
    order: str = ""
    last_only: bool = False
    format: str = ""
    """`arrow`: columns; else one NATS message for each."""
    after: Cursor | None = None

    @classmethod
    def decode(cls, payload: bytes, read_duration: Callable[[str], float]) -> Self:
        """Read the request of a replay.

        `read_duration`: seconds of a text such as `1h30m`, or a ValueError. Raises: ProtocolError.
        """

        def delta(value: object) -> int:
            seconds = read_duration(documents.a_text(value))
            if seconds < 0:
                raise ValueError("it is negative")
            return round(seconds * 1e9)

        fields: Mapping[str, Callable[[object], Any]] = {
            "channel": documents.a_name,
            "start_sequence": documents.a_number,
            "start_time": documents.a_time,
            "start_time_delta": delta,
            "end_sequence": documents.a_positive_number,
            "end_time": documents.a_time,
            "max_messages": documents.a_positive_number,
            "max_bytes": documents.a_positive_number,
            "order": documents.one_of("channel", "time"),
            "last_only": documents.a_switch,
            "format": documents.one_of(ARROW),
            "after": Cursor.read,
        }
        values = documents.read_document(payload, fields)
        if "channel" not in values:
            raise ProtocolError("channel is missing")
        given = [name for name in _STARTS if name in values]
        if len(given) > 1:
            raise ProtocolError(f"{' and '.join(given)}: one start is allowed")
        for name, attribute in _RENAMED.items():
            if name in values:
                values[attribute] = values.pop(name)
        return cls(**values)

    def encode(self) -> bytes:
        def time(ns: int | None) -> str | None:
            return None if ns is None else format_time(ns)

        delta = self.start_delta_ns
        return documents.write_document(
            {
                "channel": documents.name_of(self.channel),
                "start_sequence": self.start_sequence or None,
                "start_time": time(self.start_time_ns),
                "start_time_delta": None if delta is None else f"{delta}ns",
                "end_sequence": self.end_sequence or None,
                "end_time": time(self.end_time_ns),
                "max_messages": self.max_messages or None,
                "max_bytes": self.max_bytes or None,
                "order": self.order or None,
                "last_only": self.last_only or None,
                "format": self.format or None,
                "after": None if self.after is None else self.after.text(),
            }
        )


_RENAMED: Final = {
    "start_time": "start_time_ns",
    "start_time_delta": "start_delta_ns",
    "end_time": "end_time_ns",
}


# ---- messages -----------------------------------------------------------------------------------


def message_start(channel: bytes) -> bytes:
    """The part of a message's block that all messages of a channel share."""
    return b"NATS/1.0\r\nNats-Stream: %b\r\nNats-Subject: " % channel


def message_rest(stored_headers: bytes, reply: bytes) -> bytes:
    """Compose the block behind the time: reply subject, stored headers, end.

    A reply that would break the block (white space, control characters) is left out: nobody can answer it.
    """
    lines = b""
    if reply and not re.search(_BREAKS, reply):
        lines = b"Nats-Reply: %b\r\n" % reply
    if stored_headers.startswith(b"NATS/1.0\r\n"):
        return lines + stored_headers[len(b"NATS/1.0\r\n") :]
    return lines + b"\r\n"


_BREAKS: Final = rb"[\x00-\x20\x7f]"


class ReplayedMessage(NamedTuple):
    """The block of one replayed message; `headers` are the stored ones, a block of the wire, or None."""

    channel: bytes
    subject: bytes
    sequence: int
    time_ns: int
    reply: bytes | None
    headers: bytes | None


_MESSAGE: Final = re.compile(
    rb"NATS/1\.0\r\nNats-Stream: ([^\r]+)\r\nNats-Subject: ([^\r]*)\r\nNats-Sequence: ([0-9]{1,19})\r\n"
    rb"Nats-Time-Stamp: (.{19})\.([0-9]{9})Z\r\n(?:Nats-Reply: ([^\r]*)\r\n)?(.*)\r\n",
    re.DOTALL,
)


class BlockReader:
    """Reads blocks of messages; remembers the last second, since messages come in the order of time."""

    def __init__(self) -> None:
        self._date = b""
        self._second_ns = 0

    def read(self, block: bytes) -> ReplayedMessage:
        """Read one block of a replay. Raises: ProtocolError for a block that no replay makes."""
        match = _MESSAGE.fullmatch(block)
        if match is None:
            raise ProtocolError(f"not the headers of a replayed message: {block[:80]!r}")
        channel, subject, sequence, date, fraction, reply, more = match.groups()
        if date != self._date:
            try:
                self._second_ns = parse_time(date.decode("ascii", "replace") + "Z")
            except ValueError as error:
                raise ProtocolError(f"a replayed message's time: {error}") from None
            self._date = date
        headers = b"NATS/1.0\r\n" + more + b"\r\n" if more else None
        time_ns = self._second_ns + int(fraction)
        return ReplayedMessage(channel, subject, int(sequence), time_ns, reply, headers)


# ---- the end ------------------------------------------------------------------------------------

Ranges = list[tuple[int, int]]
Damage = tuple[tuple[bytes, tuple[tuple[int, int], ...]], ...]
"""Ranges of sequences by channel, both ends included."""


class End(Struct, frozen=True):
    """The last message of a replay."""

    code: int
    text: str
    pending: int = 0
    last_sequence: int = 0
    up_to_sequence: int | None = None
    after: str | None = None
    damaged: Damage = ()

    def block(self) -> bytes:
        """Its headers. What cannot stand in a header line is replaced."""
        text = self.text.encode("ascii", "backslashreplace")
        lines = [b"%b %d %b" % (_VERSION, self.code, re.sub(rb"[\x00-\x1f\x7f]", b"?", text))]
        if self.code == EOB:
            lines.append(b"Nats-Num-Pending: %d" % self.pending)
            lines.append(b"Nats-Last-Sequence: %d" % self.last_sequence)
            if self.up_to_sequence is not None:
                lines.append(b"Nats-UpTo-Sequence: %d" % self.up_to_sequence)
            if self.after is not None:
                lines.append(b"Nats-Replay-After: " + self.after.encode("utf-8", "surrogateescape"))
        if self.damaged:
            lines.append(b"Nats-Damaged: " + _listed(self.damaged))
        return b"\r\n".join(lines) + b"\r\n\r\n"

    @classmethod
    def read(cls, block: bytes) -> Self:
        """Read the end of a replay. Raises: ProtocolError."""
        first, *lines = block.split(b"\r\n")
        match = re.fullmatch(_STATUS, first)
        if match is None:
            raise ProtocolError(f"not the end of a replay: {block[:80]!r}")
        fields: dict[bytes, list[bytes]] = {}
        for line in filter(None, lines):
            name, _, value = line.partition(b":")
            fields.setdefault(name.lower(), []).append(value.strip())

        def number(name: bytes) -> int | None:
            values = fields.get(name)
            return int(values[0]) if values and values[0].isdigit() else None

        after = fields.get(b"nats-replay-after")
        return cls(
            int(match[1]),
            (match[2] or b"").decode("utf-8", "backslashreplace"),
            number(b"nats-num-pending") or 0,
            number(b"nats-last-sequence") or 0,
            number(b"nats-upto-sequence"),
            after[0].decode("utf-8", "surrogateescape") if after else None,
            read_damage(b" ".join(fields.get(b"nats-damaged", ()))),
        )


_STATUS: Final = rb"NATS/1\.0 ([0-9]{3})(?: (.*))?"


def is_end(block: bytes) -> bool:
    """True if a block is that of a replay's end; those of messages have no status."""
    return not block.startswith(b"NATS/1.0\r\n")


def _listed(damaged: Damage) -> bytes:
    """Return the damaged ranges as text.

    `orders.eu 3,7-9 orders.us 5`: no channel has a blank in its name.
    """
    room = _MOST_RANGES
    words: list[bytes] = []
    for channel, ranges in damaged:
        shown = [f"{a}-{b}" if b > a else str(a) for a, b in ranges[:room]]
        shown += ["..."] if len(ranges) > room else []
        room -= min(len(ranges), room)
        words += [channel, ",".join(shown).encode()]
    return b" ".join(words)


def read_damage(listed: bytes) -> Damage:
    words = listed.split(b" ")
    return tuple(
        (channel, tuple((int(a), int(b or a)) for a, b in re.findall(_RANGE, ranges)))
        for channel, ranges in zip(words[::2], words[1::2], strict=False)
    )


_RANGE: Final = rb"([0-9]{1,19})(?:-([0-9]{1,19}))?"


def add_damage(ranges: Ranges, sequences: Iterable[int]) -> None:
    """Add sequences, ascending and above those before, as ranges; what is there already stays as it is."""
    for sequence in sequences:
        if ranges and sequence <= ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], sequence)
        else:
            ranges.append((sequence, sequence))


def merge_damage(parts: Damage, into: dict[bytes, Ranges]) -> None:
    """Add what one end reported; a part that was read twice is there once."""
    for channel, ranges in parts:
        merged: Ranges = []
        for first, last in sorted([*into.get(channel, ()), *ranges]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        into[channel] = merged
