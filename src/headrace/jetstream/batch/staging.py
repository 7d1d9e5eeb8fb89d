"""The view of a stream for messages of a batch: those before them count as stored while all are judged.

Each message is judged against the log and those before it in its batch, by the rows of `stream.checks` that
concern batches. Source: JetStream specification, 3 and 8; compared with the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.jetstream.stream.acceptance import Stored
from headrace.log.port import StoredMessage
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from headrace.jetstream.ports import AccountPort, StreamPort
    from headrace.jetstream.stream.publication import Publication, PublicationKind


class Staged(Stored):
    """The stored messages, and those of one batch that were judged so far as if they were stored."""

    def __init__(self, stream: StreamPort, account: AccountPort) -> None:
        super().__init__(stream, account)
        self._acceptance = stream.acceptance
        self._first = stream.log.state().last_sequence
        self._messages: dict[bytes, StoredMessage] = {}
        """The last one of each subject."""
        self._ids: set[bytes] = set()

    def judge(self, kind: PublicationKind, p: Publication) -> None:
        """The log holds everything that was received before. Raises: ApiError, Duplicate, StorageError."""
        self._acceptance.judge(kind, p, self)
        self._messages[p.subject] = StoredMessage(0, 0, p.subject, b"", p.headers, p.payload)
        if p.msg_id:
            self._ids.add(p.msg_id)
        self.count += 1

    @property
    def last_sequence(self) -> int:
        return self._first + self.count

    def last_of(self, subject: bytes) -> int:
        """Return the last sequence of a subject.

        Raises: ApiError 10164 for one that the batch has written to.
        """
        if subject in self._messages:
            raise ApiError(10164)
        return super().last_of(subject)

    def last(self, subject: bytes) -> StoredMessage | None:
        return self._messages.get(subject) or super().last(subject)

    def is_of_batch(self, subject: bytes) -> bool:
        return subject in self._messages

    def find(self, msg_id: bytes) -> None:
        if msg_id in self._ids:
            raise ApiError(10201)
        super().find(msg_id)
