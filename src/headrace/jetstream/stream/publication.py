"""One message on its way into a stream, what its headers ask for, and what its trace says of an error.

Never here: whether it may be stored (`checks`), or the append (`ingest`). Source: JetStream
specification, 3 and 8.
"""

from __future__ import annotations

from enum import Flag, auto
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.jetstream.schedule.schedules import purged_by
from headrace.protocol.jetstream import headers as hdr
from headrace.protocol.jetstream.numbers import UINT64_MAX, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery
    from headrace.core.tracing import StreamTrace
    from headrace.protocol.jetstream.errors import ApiError

TRACED_DUPLICATE: Final = "msgid is duplicate"
_TRACED_TOO_LARGE: Final = "maximum payload exceeded"


class PublicationKind(Flag):
    """The way by which a publication comes to be judged. Each row of the table (`checks`) concerns some."""

    SINGLE = auto()
    """A message of a client."""
    TRACED = auto()
    """One that is only traced, and not stored."""
    OF_ATOMIC = auto()
    """One of an atomic batch, as it arrives."""
    OF_FAST = auto()
    """One of fast ingest, as it arrives."""
    ATOMIC = auto()
    """One of an atomic batch that is committed."""
    FAST = auto()
    """One of fast ingest, in its turn."""
    SOURCED = auto()
    """A message from another stream, which has judged it, or from a schedule."""
    MARKER = auto()
    """The marker of a subject whose last message went, under the subject that this had."""
    MIRRORED = auto()
    """A message from the origin of a mirror."""
    RESTORED = auto()
    """A message from a backup."""


class SourcePage:
    """The messages of a source that are taken together: once one is refused, none behind it is stored."""

    def __init__(self) -> None:
        self.refused = 0
        """The sequence at the origin of the first message that was refused."""
        self.error: Exception | None = None
        """The reason; None: none was refused."""

    def refuse(self, sequence: int, error: Exception) -> None:
        if self.error is None or sequence < self.refused:
            self.refused, self.error = sequence, error


class Publication(Struct, eq=False):
    """A message on its way into a stream. `subject`: after the stream's transform, once it was judged.

    `done` is called in a turn when it is durable, or with why it is not stored; a publication with a `reply`
    is answered there besides.
    """

    subject: bytes
    payload: bytes = b""
    headers: bytes = b""
    reply: bytes = b""
    kind: PublicationKind = PublicationKind.SINGLE
    is_plain: bool = False
    """True if the publication asks for nothing but to be stored once."""
    time_ns: int = 0
    ttl_ns: int = 0
    msg_id: bytes = b""
    rollup: bytes = b""
    """`sub` or `all`; empty: it rolls up nothing."""
    ack_fields: bytes = b""
    """The fields of its PubAck after the sequence: `,"val":"5"`."""
    done: Callable[[Exception | None], object] | None = None
    sequence: int = 0
    """Its sequence, once it was appended."""
    trace: StreamTrace | None = None
    """Its trace, if it is traced."""
    page: SourcePage | None = None
    """The page that it came with from its source."""
    origin_sequence: int = 0
    """The sequence that it has there."""

    def end(self, error: ApiError | None) -> None:
        """Note the end of a publication: it is durable, or was refused with `error`."""
        if self.trace is not None:
            self.trace.done(traced_error(self, error) if error is not None else "")
        if self.done:
            self.done(error)

    @classmethod
    def of(cls, delivery: Delivery) -> Publication:
        return cls(delivery.subject, delivery.payload, hdr.without_status(delivery.headers), delivery.reply)

    @property
    def size(self) -> int:
        """Bytes, as limits of accounts and of batches count them."""
        return len(self.subject) + len(self.headers) + len(self.payload)

    @property
    def purged_subject(self) -> bytes:
        """The schedule that it ends; empty: none."""
        return purged_by(self.headers) if self.headers else b""


class Duplicate(Exception):
    """The message was stored before, as `sequence`: no error, but it is not stored again."""

    def __init__(self, sequence: int) -> None:
        super().__init__(sequence)
        self.sequence = sequence


# -- what a trace says of an error --------------------------------------------------------------------


def traced_error(p: Publication, error: ApiError) -> str:
    """The text that a trace has for an error. The Go server 2.15.1 has other words there than in a PubAck."""
    words = _WORDS.get(error.err_code)
    return words(p, error) if words is not None else f"{error.description} ({error.err_code})"


def _wrong_sequence(p: Publication, error: ApiError) -> str:
    actual = error.description.rpartition(" ")[2]
    of_subject = hdr.value(p.headers, hdr.EXPECTED_SUBJECT_SEQUENCE)
    of_stream = hdr.value(p.headers, hdr.EXPECTED_LAST_SEQUENCE)
    if of_subject and not (of_stream and _number(of_subject) == actual):
        return f"last sequence by subject mismatch: {_number(of_subject)} vs {actual}"
    return f"last sequence mismatch: {_number(of_stream)} vs {actual}"


def _number(text: bytes) -> str:
    """Parse a number; any other text is the largest one."""
    number = whole(text)
    return str(UINT64_MAX if number is None else number)


def _wrong_id(p: Publication, error: ApiError) -> str:
    wanted = hdr.value(p.headers, hdr.EXPECTED_LAST_ID).decode("utf-8", "replace")
    last = error.description.rpartition(": ")[2]
    return f'last msgid mismatch: "{wanted}" vs "{last}"'


_WORDS: Final[dict[int, Callable[[Publication, ApiError], str]]] = {
    10054: lambda _p, _error: _TRACED_TOO_LARGE,
    10060: lambda _p, _error: "expected stream does not match",
    10070: _wrong_id,
    10071: _wrong_sequence,
    10077: lambda _p, error: error.description,
    10097: lambda _p, _error: _TRACED_TOO_LARGE,
    10111: lambda _p, error: error.description,
    10166: lambda _p, _error: "message TTL disabled",
}
