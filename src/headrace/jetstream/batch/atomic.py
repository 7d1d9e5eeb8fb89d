"""Atomic batches: messages that wait here until one of them commits them all, or until none of them counts.

They wait in memory and enter the log in one append, so a crash leaves all of them or none. A batch ends by
its commit, by a gap, by what is wrong with one of its messages, or by being idle too long. Source: JetStream
specification, 8; refusals, answers and advisories compared with the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.batch.headers import COMMIT, ID, LARGEST_ATOMIC_BYTES, SEQUENCE
from headrace.jetstream.stream.acceptance import Stored
from headrace.jetstream.stream.features import Feature
from headrace.jetstream.stream.publication import Duplicate, PublicationKind
from headrace.log.port import StoredMessage
from headrace.protocol.durations import SECOND
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream import pubacks
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.levels import REQUIRED_LEVEL, asks_too_much
from headrace.protocol.jetstream.numbers import whole

if TYPE_CHECKING:
    from headrace.core.service import Timer
    from headrace.jetstream.ports import AccountPort, StreamPort
    from headrace.jetstream.stream.publication import Publication
    from headrace.schemas.payloads import PayloadJudge

_WITH_LAST: Final = b"1"
_WITHOUT_LAST: Final = b"eob"


class Staged(Stored):
    """The stored messages, and those of one batch that were judged so far as if they were stored.

    Each message is judged against the log and those before it in its batch, by the rows of `stream.checks`
    that concern batches. Source: JetStream specification, 3 and 8; compared with the Go server 2.15.1.
    """

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
    def judge_of_payloads(self) -> PayloadJudge:
        return self._acceptance.before.judge_of_payloads

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


class _Batch:
    def __init__(self) -> None:
        self.messages: list[Publication] = []
        self.size = 0
        self.last = 0
        """The sequence of the last message in the batch, also when that was a mere end."""
        self.timer: Timer | None = None


class AtomicBatches(Feature):
    """Batches of one stream that are under way."""

    def __init__(self, stream: StreamPort, effects: AccountPort) -> None:
        self._stream = stream
        self._effects = effects
        self._limits = effects.batches.limits
        self._batches: dict[bytes, _Batch] = {}

    def take(self, publication: Publication) -> bool:
        batch_id = block.value(publication.headers, ID) if publication.headers else b""
        if not batch_id:
            return False
        try:
            self._receive(self._stream, batch_id, publication)
        except ApiError as error:
            self._stream.answer(publication.reply, pubacks.refusal(error, self._stream.name))
            publication.end(error)
        return True

    def configured(self) -> None:
        if not self._stream.config.allow_atomic:
            self.stop()

    def stop(self) -> None:
        """Drop every batch that was not committed."""
        for batch_id in list(self._batches):
            self._forget(batch_id)

    def _receive(self, stream: StreamPort, batch_id: bytes, p: Publication) -> None:
        number = _check(stream, p)
        commit = block.value(p.headers, COMMIT) if block.has(p.headers, COMMIT) else None
        size = number - (commit == _WITHOUT_LAST)
        batch = self._batches.get(batch_id) or self._begin(stream, batch_id, number, size)
        if commit not in (None, _WITH_LAST, _WITHOUT_LAST):
            self._forget(batch_id)
            raise ApiError(10200)
        self._check_level(batch_id, p)
        batch.last += 1
        if batch.last != number or (number == 1 and commit == _WITHOUT_LAST):
            self._abandon(batch_id, "incomplete")
            raise ApiError(10176)
        most = self._limits.atomic_messages
        if size > most:
            self._abandon(batch_id, "large")
            raise ApiError(10199, size=most)
        if commit != _WITHOUT_LAST:
            self._stage(batch_id, batch, p)
        if commit is None:
            self._watch(batch_id, batch)
            stream.answer(p.reply, b"")
            return
        self._forget(batch_id)
        self._commit(stream, batch_id, batch, p)

    def _begin(self, stream: StreamPort, batch_id: bytes, number: int, size: int) -> _Batch:
        inflight = self._effects.batches
        limits = inflight.limits
        if number != 1:
            raise (
                ApiError(10199, size=limits.atomic_messages)
                if size > limits.atomic_messages
                else ApiError(10176)
            )
        if len(self._batches) >= limits.atomic_per_stream or inflight.atomic >= limits.atomic_total:
            raise ApiError(10210)
        inflight.atomic += 1
        batch = self._batches[batch_id] = _Batch()
        return batch

    def _check_level(self, batch_id: bytes, p: Publication) -> None:
        if asks_too_much(p.headers):
            self._abandon(batch_id, "unsupported")
            raise ApiError(10185)
        p.headers = block.without(p.headers, REQUIRED_LEVEL)

    def _stage(self, batch_id: bytes, batch: _Batch, p: Publication) -> None:
        batch.size += p.size
        if batch.size > LARGEST_ATOMIC_BYTES:
            self._abandon(batch_id, "large")
            raise ApiError(10199, size=f"{LARGEST_ATOMIC_BYTES} bytes")
        batch.messages.append(p)

    def _commit(self, stream: StreamPort, batch_id: bytes, batch: _Batch, last: Publication) -> None:
        """Store all messages of the batch at once, or refuse the message that commits it."""
        stream.flush()  # what was received before the commit is before it in the log too
        staged = Staged(stream, self._effects)
        try:
            for message in batch.messages:
                staged.judge(PublicationKind.ATOMIC, message)
        except Duplicate:
            raise ApiError(10201) from None
        final = batch.messages[-1]
        if final is not last:
            final.headers = block.added(final.headers, (COMMIT, _WITH_LAST))
        reply = last.reply
        for message in batch.messages:
            message.reply = b""
        final.reply, final.ack_fields = reply, pubacks.of_batch(batch_id, len(batch.messages))
        stream.ingest.append_all(batch.messages)

    # -- the end of a batch ----------------------------------------------------------------------------

    def _watch(self, batch_id: bytes, batch: _Batch) -> None:
        effects = self._effects
        if batch.timer is not None:
            batch.timer.cancel()
        seconds = effects.batches.limits.timeout_ns / SECOND
        batch.timer = effects.later(seconds, lambda: self._abandon(batch_id, "timeout"))

    def _abandon(self, batch_id: bytes, reason: str) -> None:
        stream = self._stream
        self._forget(batch_id)
        self._effects.advise(
            f"STREAM.BATCH_ABANDONED.{stream.name}",
            "stream_batch_abandoned",
            stream=stream.name,
            batch=batch_id.decode("utf-8", "replace"),
            reason=reason,
        )

    def _forget(self, batch_id: bytes) -> None:
        batch = self._batches.pop(batch_id)
        if batch.timer is not None:
            batch.timer.cancel()
        self._effects.batches.atomic -= 1


def _check(stream: StreamPort, p: Publication) -> int:
    """Check a message of a batch on its own, and return its batch sequence. Raises: ApiError."""
    stream.acceptance.judge(PublicationKind.OF_ATOMIC, p)
    number = whole(block.value(p.headers, SEQUENCE))
    if number is None:
        raise ApiError(10175)
    return number
