"""Retention by interest and as a work queue: messages stay until every consumer that wants them is done.

Here lives which messages acknowledgements let go; what a consumer still needs is said by the consumer.
Source: JetStream specification, 2 (`retention`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import LogError, MessageDamaged
from headrace.protocol.jetstream.configs import RetentionPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.jetstream.ports import ConsumerView, Effects, StreamPort

_PAGE: Final = 1024
_AGAIN_S: Final = 1.0
"""Seconds until what a disk did not let go is tried again."""


class InterestRetention:
    """Interest retention of one stream; it does nothing while the stream's retention is by limits."""

    def __init__(self, stream: StreamPort, effects: Effects) -> None:
        self._stream = stream
        self._effects = effects
        self._done: set[int] = set()
        """Sequences that are removed with the next flush."""
        self._waits = False
        """The last try failed, and the next one has its time."""

    def acked(self, consumer: ConsumerView, sequences: Sequence[int]) -> None:
        """Note that a consumer needs messages no more: those that no other one needs go."""
        stream = self._stream
        others = [other for other in stream.consumers.values() if other is not consumer]
        if stream.config.retention is RetentionPolicy.WORKQUEUE or not others:
            self._done.update(sequences)
        else:
            self._done.update(s for s in sequences if not self._is_needed(s, None, others))
        if self._done:
            self._effects.touch(stream)

    def _is_needed(self, sequence: int, subject: bytes | None, consumers: Sequence[ConsumerView]) -> bool:
        """True if one of the consumers still needs a message; `subject` None: it is looked up."""
        for consumer in consumers:
            if not consumer.needs(sequence):
                continue
            if not consumer.filters:
                return True
            if subject is None:
                try:
                    message = self._stream.log.read(sequence)
                except MessageDamaged:  # nobody can be given it
                    return False
                if message is None:
                    return False
                subject = message.subject
            if consumer.matches(subject):
                return True
        return False

    def unwanted(self, sequences: Iterable[int]) -> None:
        """Messages that were stored only because others of their batch were; 0 for one that was not."""
        self._done.update(sequence for sequence in sequences if sequence)
        if self._done:
            self._effects.touch(self._stream)

    def flush(self) -> bool:
        """Remove the messages that no consumer needs; return False when there were none."""
        if not self._done or self._waits:
            return False
        done, self._done = self._done, set()
        stream = self._stream
        try:
            if stream.log.remove(done):
                stream.removal.notice()
        except LogError as error:
            self._effects.note.error("stream %s: messages could not be removed: %s", stream.name, error)
            self._done |= done
            self._waits = True
            self._effects.later(_AGAIN_S, self._again)
        return True

    def _again(self) -> None:
        self._waits = False
        if not self._stream.is_closed:
            self._effects.touch(self._stream)

    def changed(self) -> None:
        """The retention is another one now: by interest, what consumers were given and are done with goes.

        Without consumers nobody is interested in anything; a consumer that begins beyond the end keeps all.
        """
        stream = self._stream
        if stream.config.retention is RetentionPolicy.INTEREST and all(
            consumer.tracker.reached <= stream.last_sequence for consumer in stream.consumers.values()
        ):
            self._remove_unneeded(stream.last_sequence, only_wanted=True)

    def dropped(self) -> None:
        """A consumer has gone: by interest, what only it wanted goes too."""
        stream = self._stream
        if stream.config.retention is RetentionPolicy.INTEREST:
            self._remove_unneeded(stream.last_sequence)

    def jumped(self, consumer: ConsumerView) -> None:
        """A consumer was reset: by interest, what is below where it reads on, and only for it, goes.

        Beyond the end it keeps all.
        """
        stream, last = self._stream, consumer.tracker.floor_stream
        if stream.config.retention is not RetentionPolicy.INTEREST or last > stream.last_sequence:
            return
        sequence = stream.log.state().first_sequence
        while sequence <= last:
            page = stream.log.read_from(
                sequence, filters=consumer.filters, max_messages=_PAGE, up_to=last + 1
            )
            self.acked(consumer, [message.sequence for message in page.messages])
            sequence = page.next_sequence

    def recover(self) -> None:
        """Remove messages whose acknowledgements were durable before a restart."""
        stream = self._stream
        if stream.config.retention is RetentionPolicy.LIMITS or not stream.consumers:
            return
        self._remove_unneeded(
            max(consumer.tracker.reached for consumer in stream.consumers.values()),
            only_wanted=stream.config.retention is RetentionPolicy.WORKQUEUE,
        )

    def _remove_unneeded(self, last: int, *, only_wanted: bool = False) -> None:
        """Remove messages up to `last` that no consumer needs.

        `only_wanted`: what no consumer matches stays, it waits for one that does.
        """
        stream = self._stream
        consumers = list(stream.consumers.values())
        if not consumers:
            stream.removal.roll_up(None, last + 1)
            return
        sequence = stream.log.state().first_sequence
        gone: list[int] = []
        while sequence <= last:
            page = stream.log.read_from(sequence, max_messages=_PAGE, up_to=last + 1)
            for message in page.messages:
                if only_wanted and not any(c.matches(message.subject) for c in consumers):
                    continue
                if not self._is_needed(message.sequence, message.subject, consumers):
                    gone.append(message.sequence)
            sequence = page.next_sequence
        if stream.log.remove(gone):
            stream.removal.notice()
