"""The removal of messages from a stream: one by its sequence, many by a purge or a rollup, by limits.

Whatever removes messages says so here, and here consumers are told. Never here: which messages age or
interest lets go (`expiry`, `interest_retention`). Source: JetStream specification, 2 and 3.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import LogError
from headrace.log.port import LARGEST_SEQUENCE
from headrace.protocol.jetstream.configs import DiscardPolicy, Storage
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.jetstream.ports import StreamPort
    from headrace.jetstream.stream.retries import LogRetries


class Removal:
    """The removal of messages of one stream."""

    def __init__(self, stream: StreamPort, retries: LogRetries) -> None:
        self._stream = stream
        self._retries = retries
        self.was_purged = False
        """All was purged once: even a stream that never had a message says then where the first will be."""

    def delete(self, sequence: int, *, erase: bool = False) -> None:
        """Remove a message. Raises: ApiError 10043, 10057, 10109, StorageError."""
        stream = self._stream
        if stream.config.sealed:
            raise ApiError(10109)
        if stream.config.deny_delete:
            raise ApiError(10057, err="message delete not permitted")
        stream.flush()
        stream.dedupe.fill()
        if stream.config.storage is Storage.FILE:
            self._check_reach(sequence)
        if not 0 < sequence <= stream.last_sequence or not stream.log.delete(sequence, erase=erase):
            raise ApiError(10043, seq=sequence)
        self.notice()
        for consumer in list(stream.consumers.values()):
            consumer.removed(sequence)

    def delete_all(self, sequences: Sequence[int]) -> list[int]:
        """Remove messages that are there, each named once, all with one write; return those that are left.

        Where it is not allowed, or fails, all are: `delete` says why.
        """
        stream = self._stream
        if stream.config.sealed or stream.config.deny_delete:
            return list(sequences)
        stream.dedupe.fill()
        try:
            stream.log.remove(sequences)
        except LogError:
            return list(sequences)
        self.notice()
        gone = set(stream.log.absent(sequences))
        for consumer in list(stream.consumers.values()):
            for sequence in gone:
                consumer.removed(sequence)
        return [sequence for sequence in sequences if sequence not in gone]

    def _check_reach(self, sequence: int) -> None:
        """The Go server has other words for what is outside of a stream on disk. Raises: ApiError 10057."""
        if sequence > self._stream.last_sequence:
            raise ApiError(10057, err="stream store EOF")
        if sequence < self._stream.log.state().first_sequence:
            raise ApiError(10057, err="no message found")

    def purge(self, subject: str = "", *, up_to: int = 0, keep: int = 0) -> int:
        """Remove what matches, below `up_to` (0: all) or but for the last `keep`; return the number of
        messages.

        Without a subject, `up_to` beyond the end moves the last sequence there. Raises: ApiError 10109,
        10110, StorageError.
        """
        stream = self._stream
        if stream.config.sealed:
            raise ApiError(10109)
        if stream.config.deny_purge:
            raise ApiError(10110, err="stream purge not permitted")
        if up_to > LARGEST_SEQUENCE:
            raise ApiError(10110, err=f"sequence is larger than {LARGEST_SEQUENCE}")
        stream.flush()
        stream.dedupe.fill()
        chosen = None if subject in ("", ">") else subject.encode()
        self.was_purged |= chosen is None and not up_to and not keep
        count = stream.log.purge(chosen, up_to=up_to or None, keep=keep)
        if chosen is None and up_to > stream.last_sequence + 1:
            stream.log.append([], up_to)
            stream.counts.last_sequence = stream.counts.visible = up_to - 1
        self.purged(chosen, count)
        return count

    def roll_up(self, subject: bytes | None, below: int) -> None:
        """Remove what a message stands for: everything below a sequence, or that of a subject.

        As on the Go server consumers move on although nothing was there to remove. The message is stored by
        now: what a disk refuses is tried again.
        """
        self._retries.do("roll-up", partial(self._roll_up, subject, below))

    def _roll_up(self, subject: bytes | None, below: int) -> None:
        self._stream.dedupe.fill()
        self.purged(subject, self._stream.log.purge(subject, up_to=below))

    def purged(self, subject: bytes | None = None, count: int = 0) -> None:
        """Consumers go on behind `count` messages of a subject (None: of all) that the log has no more."""
        self.notice()
        state = self._stream.log.state()
        for consumer in list(self._stream.consumers.values()):
            consumer.purged(state.first_sequence, state.last_sequence, subject, count)

    def trim(self) -> None:
        """Remove also a newest message that is too large for the whole stream, after limits have removed the
        others.
        """
        config, log = self._stream.config, self._stream.log
        if 0 < config.max_bytes < log.state().bytes and config.discard is DiscardPolicy.OLD:
            log.purge()
        self.notice()

    def notice(self) -> None:
        """Notice whether messages went, by whatever way."""
        counts, held = self._stream.counts, self._stream.log.state().messages
        if held != counts.held:
            counts.held = held
            counts.epoch += 1
