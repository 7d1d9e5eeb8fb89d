"""Ingest of a mirror or a source: messages of another stream, into this stream's log in order.

A message that this stream refuses holds up those after it, as in the Go server: it is tried again, and none
is lost or overtaken. Where the messages come from is `local_source`'s and `remote_source`'s. Source:
JetStream specification, 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.jetstream.sourcing.origin import is_plain, without_conditions
from headrace.jetstream.stream.publication import Publication, PublicationKind, SourcePage
from headrace.protocol.jetstream.configs import DiscardPolicy
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.jetstream.ports import Effects, StreamPort
    from headrace.jetstream.sourcing.origin import SourceOrigin
    from headrace.log.port import StoredMessage


class MessageRefused(Exception):
    """This stream does not take a message now; `sequence` is its one at the origin."""

    def __init__(self, sequence: int, reason: Exception) -> None:
        super().__init__(str(reason))
        self.sequence = sequence
        self.reason = reason


class SourcedIngest(Protocol):
    """The way of messages from an origin into the stream."""

    def take(self, messages: Sequence[StoredMessage], identity: str) -> None:
        """Ascending ones of the origin, which `identity` names.

        Raises: MessageRefused; those before it are taken.
        """

    def pass_over(self, sequence: int) -> None:
        """Note that no message up to this sequence of the origin will come."""


class SourceIngest:
    """Messages get sequences of this stream, and say where they come from."""

    def __init__(self, stream: StreamPort, origin: SourceOrigin, effects: Effects) -> None:
        self._stream = stream
        self._effects = effects
        self._origin = origin

    def take(self, messages: Sequence[StoredMessage], identity: str) -> None:
        stream = self._stream
        refuses = stream.config.discard is DiscardPolicy.NEW
        page = SourcePage()
        for message in messages:
            stream.ingest.publish(self._publication(message, identity, page))
            if refuses and page.error is None:
                stream.flush()  # whether there was room is known before the next one
            if page.error is not None:
                break
        stream.flush()  # whether the log takes them is known before the next page
        self._effects.touch(stream)
        if page.error is not None:
            raise MessageRefused(page.refused, page.error)

    def _publication(self, message: StoredMessage, identity: str, page: SourcePage) -> Publication:
        origin, sequence = self._origin, message.sequence
        return Publication(
            origin.subject_here(message.subject),
            message.payload,
            origin.headers_here(message.headers, message.subject, sequence, identity),
            kind=PublicationKind.SOURCED,
            page=page,
            origin_sequence=sequence,
        )

    def pass_over(self, sequence: int) -> None:
        """Sequences of the origin mean nothing here."""


class MirrorIngest:
    """Messages keep their sequences and times."""

    def __init__(self, stream: StreamPort, origin: SourceOrigin) -> None:
        self._stream = stream
        self._origin = origin

    def take(self, messages: Sequence[StoredMessage], identity: str) -> None:
        """Store runs of messages: without a gap, and one that rolls up others is the last of its run."""
        run: list[Publication] = []
        first = 0
        for message in messages:
            try:
                p = self._judged(message)
            except ApiError as error:
                self._store(first, run)
                raise MessageRefused(message.sequence, error) from None
            if run and first + len(run) != message.sequence:
                self._store(first, run)
                run = []
            if not run:
                first = message.sequence
            run.append(p)
            if p.rollup:
                self._store(first, run)
                run = []
        self._store(first, run)

    def _store(self, first: int, run: Sequence[Publication]) -> None:
        """Store messages without a gap between them, the first with sequence `first`."""
        if not run:
            return
        failure = self._stream.ingest.append_at(first, run)
        if failure is not None:
            raise MessageRefused(first, failure)

    def _judged(self, message: StoredMessage) -> Publication:
        """The message as this stream takes it. Raises: ApiError."""
        headers = message.headers if is_plain(message.headers) else without_conditions(message.headers)
        subject = self._origin.subject_here(message.subject)
        p = Publication(
            subject, message.payload, headers, kind=PublicationKind.MIRRORED, time_ns=message.time_ns
        )
        self._stream.acceptance.judge(p.kind, p)
        return p

    def pass_over(self, sequence: int) -> None:
        """Pass over sequences that the origin removed before they could be read."""
        if sequence > self._stream.last_sequence:
            self._stream.ingest.append_at(sequence + 1, [])
