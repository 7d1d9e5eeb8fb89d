"""The origin of a mirror or a source, from its configuration: names, filters, transforms, header.

Pure. Each message that was sourced says in `Nats-Stream-Source` where it comes from, as the Go server 2.15.1
writes it: `<index name's stream> <sequence> <filters> <destinations> <subject there> <identity of the
stream>`. Source: JetStream specification, 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.numbers import whole
from headrace.protocol.nuid import short_hash
from headrace.protocol.rfc3339 import short_time
from headrace.subjects.transform import SubjectTransform

if TYPE_CHECKING:
    from headrace.protocol.jetstream.configs import StreamSource

_ALL: Final = ">"
_BETWEEN: Final = "\f"
"""Stands between the filters of one source, and between their destinations."""
_NOT_TAKEN_OVER: Final = (block.EXPECTED, b"Nats-Batch-")


def identity_of(created_ns: int) -> str:
    """Return the identity of a stream, another one than that of an earlier stream of its name."""
    return short_hash(short_time(created_ns))


class Noted(NamedTuple):
    """The contents of `Nats-Stream-Source`."""

    index_name: str
    sequence: int
    identity: str


def noted(headers: bytes) -> Noted | None:
    """Return the position that a sourced message's header says; None if it has no header, or one without its
    source.
    """
    fields = block.value(headers, block.STREAM_SOURCE).decode("utf-8", "replace").split(" ")
    sequence = whole(fields[1].encode()) if len(fields) > 3 else None
    if sequence is None:
        return None
    identity = fields[5] if len(fields) > 5 else ""
    return Noted(f"{fields[0]} {fields[2]} {fields[3]}", sequence, identity)


class SourceOrigin:
    """One source, or what a mirror mirrors. Raises: TransformError, which the rules have ruled out."""

    def __init__(self, source: StreamSource) -> None:
        self.source: Final = source
        self.index_name: Final = index_name(source)
        self._stream, _, self._chosen = self.index_name.encode().partition(b" ")
        transforms = source.subject_transforms
        filters = [transform.src for transform in transforms] or [source.filter_subject]
        self.filters: Final = tuple(one.encode() for one in filters if one and one != _ALL)
        """Empty: all messages."""
        self._transforms: Final = [
            SubjectTransform(transform.src.encode() or b">", transform.dest.encode())
            for transform in transforms
            if transform.dest
        ]

    @property
    def is_local(self) -> bool:
        """True if the origin is in this account and is read without a consumer that was made for it."""
        return self.source.external is None and self.source.consumer is None

    def subject_here(self, subject: bytes) -> bytes:
        """Return the subject of a message here: that of the first matching transform, else the one at the
        origin.
        """
        for transform in self._transforms:
            found = transform.match(subject)
            if found is not None:
                return found
        return subject

    def headers_here(self, headers: bytes, subject: bytes, sequence: int, identity: str) -> bytes:
        """Return the headers of a sourced message; `subject` is the one that it has at its origin."""
        text = b"%b %d %b %b" % (self._stream, sequence, self._chosen, subject)
        if identity:
            text += b" " + identity.encode()
        if not is_plain(headers):
            headers = without_conditions(block.without(headers, block.STREAM_SOURCE))
        return block.added(headers, (block.STREAM_SOURCE, text))


def is_plain(headers: bytes) -> bool:
    """True if none of the headers is one of JetStream's."""
    return b"\nNats-" not in headers


def without_conditions(headers: bytes) -> bytes:
    """Return the headers without conditions, which the origin has judged and which do not hold here."""
    for prefix in _NOT_TAKEN_OVER:
        headers = block.without_prefix(headers, prefix)
    return headers


def index_name(source: StreamSource) -> str:
    """Return the name that tells the sources of one stream apart, the same after a restart."""
    stream = source.name
    if source.external is not None:
        stream += ":" + short_hash(source.external.api)
    if source.consumer is not None:
        stream += ":C=" + short_hash(source.consumer.name)
    if source.subject_transforms:
        filters = _BETWEEN.join(transform.src or _ALL for transform in source.subject_transforms)
        destinations = _BETWEEN.join(transform.dest or _ALL for transform in source.subject_transforms)
    else:
        filters, destinations = source.filter_subject or _ALL, _ALL
    return f"{stream} {filters} {destinations}"
