"""A stream that is restored: pieces of a backup in, messages in a log, at the end a stream with consumers.

Until the end of the backup there is no such stream; what is wrong with it, or breaks off, leaves nothing.
Only the format of Go servers since 2.15, which is ours too, is understood. Source: backups of the Go server
2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from msgspec.structs import replace as replace_fields

from headrace.errors import LogError
from headrace.jetstream.consumer.rules import ConsumerContext, check_new_consumer
from headrace.jetstream.state import backup
from headrace.jetstream.stream.acceptance import Acceptance, Before
from headrace.jetstream.stream.checks import CHECKS
from headrace.jetstream.stream.publication import Publication, PublicationKind
from headrace.jetstream.stream.stream import log_limits
from headrace.log.port import NO_LIMITS, NewMessage
from headrace.protocol import archive, s2
from headrace.protocol.jetstream.errors import ApiError
from headrace.subjects.grammar import is_sendable

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.stream.stream import Stream
    from headrace.protocol.jetstream.configs import StreamConfig

LARGEST_ENTRY: Final = 64 << 20
"""Bytes of one entry of a backup: a consumer's state may be large, messages are bounded by the server."""
_REFUSED: Final = {
    10054: "message sequence {sequence} exceeds maximum message size",
    10165: "failed to parse message TTL: {error}",
}
"""The text for a message of a backup that a check refuses, by the error. It is the Go server's."""
_OTHER_FORMAT: Final = "a backup of a Go server before 2.15 (a tar of its files) cannot be restored here"


class Failed(Exception):
    """Why a stream cannot be restored."""


class Restoring:
    """A restore under way.

    The constructor and the methods raise ApiError, when there is no room, and Failed; the restore is over
    then.
    """

    def __init__(self, account: AccountJetStream, config: StreamConfig) -> None:
        self.config: Final = config
        self.size = 0
        """Bytes of the backup that came."""
        self._account = account
        self._blocks = s2.S2Reader()
        self._entries = archive.ArchiveReader(LARGEST_ENTRY)
        self._state: backup.RestoredState | None = None
        self._consumers: list[backup.Restored] = []
        self._acceptance = Acceptance(CHECKS, Before(config))
        self._last = 0
        self._is_whole = False
        self._is_open = True
        try:
            self._log = account.assets.begin_restore(config)
            # What it is over is removed when everything is there.
            self._log.limits = replace(NO_LIMITS, weights=self._log.limits.weights)
        except LogError as error:
            raise Failed(str(error)) from error

    def feed(self, piece: bytes) -> None:
        """The next piece of the backup. Raises: Failed, ApiError."""
        self.size += len(piece)
        try:
            entries = [entry for data in self._blocks.feed(piece) for entry in self._entries.feed(data)]
            self._store(entries)
        except archive.BadArchive as error:
            reason = str(error) if self._state is not None else f"{_OTHER_FORMAT}: {error}"
            raise self._broken(reason) from error
        except (ValueError, LogError) as error:
            raise self._broken(str(error)) from error
        except ApiError:
            self.abandon()
            raise

    def close(self, done: Callable[[Failed | None], object]) -> None:
        """The backup is over; `done` is called, in a turn, when its messages are durable. Raises: Failed."""
        if self._state is None or not self._is_whole or not self._blocks.is_between_frames:
            raise self._broken("the backup is cut off")
        try:
            if self._last < self._state.last_seq:
                self._log.append([], self._state.last_seq + 1)
            self._log.limits = log_limits(self.config)
        except (ValueError, LogError) as error:
            raise self._broken(str(error)) from error

        def durable(error: LogError | None) -> None:
            done(None if error is None else self._broken(str(error)))

        self._account.turns.commit(self._log, durable)

    def enter(self) -> Stream:
        """The stream is there, with its consumers: after `close` and its `done`."""
        self._is_open = False
        assets = self._account.assets
        stream = assets.finish_restore(self.config, self._log)
        for consumer in self._consumers:
            assets.create_consumer(stream, consumer.config, consumer.name, consumer.state)
        return stream

    def abandon(self) -> None:
        """Remove all that the restore has stored."""
        if self._is_open:
            self._is_open = False
            self._account.assets.abandon_restore(self.config)

    def _broken(self, reason: str) -> Failed:
        self.abandon()
        return Failed(reason)

    # -- entries ---------------------------------------------------------------------------------------

    def _store(self, entries: list[archive.ArchiveEntry]) -> None:
        """Store the entries of the backup. Raises: ValueError, LogError, ApiError."""
        messages: list[tuple[int, NewMessage]] = []
        for entry in entries:
            if self._is_whole:
                raise ValueError("the backup goes on after its end")
            if self._state is None:
                self._begin(entry)
            elif len(self._consumers) < self._state.consumer_count:
                self._consumers.append(self._judged(backup.read_consumer(entry)))
            elif entry.is_end:
                self._is_whole = True
            else:
                self._message(entry, messages)
        self._append(messages)

    def _begin(self, entry: archive.ArchiveEntry) -> None:
        self._state = state = backup.read_state(entry)
        code = self._account.quota.refusal(self.config, state.bytes)
        if code:
            raise ApiError(code)
        if state.first_seq > 1:
            self._log.append([], state.first_seq)
            self._last = state.first_seq - 1

    def _judged(self, consumer: backup.Restored) -> backup.Restored:
        """One that could be made now: a backup is a request too. Raises: ValueError, ApiError."""
        if any(consumer.name == known.name for known in self._consumers):
            raise ValueError(f"consumer {consumer.name} is there twice")
        context = ConsumerContext(
            self.config,
            {known.name: known.config for known in self._consumers},
            self._account.quota.tiers,
            self._account.settings,
        )
        config = check_new_consumer(replace_fields(consumer.config, name=consumer.name), context)
        return consumer._replace(config=config)

    def _message(self, entry: archive.ArchiveEntry, messages: list[tuple[int, NewMessage]]) -> None:
        sequence, size = entry.sequence, len(entry.headers) + len(entry.payload)
        if sequence == 0:
            raise ValueError("expected message sequence")
        if sequence <= self._last:
            raise ValueError(f"message sequence {sequence} out of order")
        if not is_sendable(entry.name):
            raise ValueError(f"message sequence {sequence} has an impossible subject")
        if size > self._account.host.max_payload:
            raise ValueError(f"message sequence {sequence} exceeds maximum payload size")
        p = Publication(entry.name, entry.payload, entry.headers, kind=PublicationKind.RESTORED)
        try:
            self._acceptance.judge(p.kind, p)
        except ApiError as error:
            raise ValueError(_REFUSED[error.err_code].format(sequence=sequence, error=error)) from None
        self._last = sequence
        if not p.ttl_ns or entry.time_ns + p.ttl_ns > self._account.turns.now_ns():
            new = NewMessage(p.subject, p.payload, b"", p.headers, entry.time_ns, p.ttl_ns)
            messages.append((sequence, new))

    def _append(self, messages: list[tuple[int, NewMessage]]) -> None:
        """Runs of messages without a gap between them."""
        start = 0
        for place in range(1, len(messages) + 1):
            if place == len(messages) or messages[place][0] != messages[place - 1][0] + 1:
                run = [message for _, message in messages[start:place]]
                self._log.append(run, messages[start][0])
                start = place
