"""Republishing: what a stream stored is published again, under another subject, with headers that say where.

Here live the messages that go out; when they go is `ingest`'s: after what they tell is durable.
Source: JetStream specification, 2 (`republish`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.protocol.jetstream import headers as hdr
from headrace.protocol.rfc3339 import short_time
from headrace.subjects.grammar import is_valid_literal
from headrace.subjects.transform import SubjectTransform

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.core.service import Host
    from headrace.log.port import MessageLog, NewMessage
    from headrace.protocol.jetstream.configs import Republish


class Copy(NamedTuple):
    """A message to be published when it is durable. `previous`: its subject's last sequence before it."""

    subject: bytes
    message: NewMessage
    previous: int


class Republisher:
    """The republishing of one stream. Raises: TransformError for a source and destination that do not fit."""

    def __init__(self, stream: str, config: Republish) -> None:
        self._stream = stream.encode()
        self._headers_only = config.headers_only
        self._transform = SubjectTransform((config.src or ">").encode(), config.dest.encode())

    def copies(self, batch: Iterable[NewMessage], log: MessageLog, first: int) -> list[Copy | None]:
        """Return the copy of each message of a batch (None: it has none), before they are appended from
        sequence `first` on.
        """
        last: dict[bytes, int] = {}
        found: list[Copy | None] = []
        for sequence, message in enumerate(batch, first):
            subject = self._transform.match(message.subject)
            if subject is None or not is_valid_literal(subject):
                found.append(None)
                continue
            previous = last.get(message.subject) or log.last_of(message.subject)
            last[message.subject] = sequence
            found.append(Copy(subject, message, previous))
        return found

    def publish(self, host: Host, copies: Iterable[Copy | None], first: int, time_ns: int) -> None:
        for sequence, copy in enumerate(copies, first):
            if copy is None:
                continue
            message = copy.message
            lines = [
                (b"Nats-Stream", self._stream),
                (b"Nats-Subject", message.subject),
                (b"Nats-Sequence", b"%d" % sequence),
                (b"Nats-Time-Stamp", short_time(message.time_ns or time_ns).encode()),
                (b"Nats-Last-Sequence", b"%d" % copy.previous),
            ]
            if self._headers_only:
                lines.append((b"Nats-Msg-Size", b"%d" % len(message.payload)))
            payload = b"" if self._headers_only else message.payload
            host.publish(copy.subject, payload, headers=hdr.added(message.headers, *lines))
