"""The writing side of an account's durable state: what is worth an entry, and when.

How a log of changes is written is `headrace.change_log`'; what its entries look like, and how they are read
back, is `records`'.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.change_log import COPY, TWICE, ChangeWriter
from headrace.engine.consumer import ConsumerDeltas, DeltaWriter
from headrace.engine.messages import NewMessages
from headrace.jetstream.state import records as entries
from headrace.log.port import NewMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.change_log import Note
    from headrace.errors import LogError
    from headrace.jetstream.state.records import AccountState, ConsumerRecord, StreamRecord
    from headrace.log.port import MessageLog
    from headrace.turns import Turns

_LINGER_S: Final = 0.02
"""Seconds that a consumer's deliveries and acknowledgements may wait for more of them.

What a kill loses is delivered again.
"""


class JetStreamJournal(ChangeWriter):
    """The writing side of an account's durable state."""

    def __init__(
        self,
        open_log: Callable[[], MessageLog],
        turns: Turns,
        note: Note,
        gather: Callable[[], AccountState],
        *,
        syncs_at_once: bool,
    ) -> None:
        super().__init__(
            open_log,
            turns,
            note,
            lambda: gather().entries(),
            subject=entries.SUBJECT,
            syncs_at_once=syncs_at_once,
        )
        self.deltas: Final = ConsumerDeltas()
        """Consumers whose state changed: what changed is written soon, with what changes until then.

        Nobody was promised anything: who was is answered after a commit, and that writes it at once.
        """
        self.writer: Final = DeltaWriter(
            self,
            self.deltas,
            turns.marks,
            batch=NewMessages(NewMessage),
            subject=entries.SUBJECT,
            copies=[TWICE, COPY],
        )

    def confirm(self, replies: list[bytes]) -> None:
        """Answer with nothing when all that changed until now is durable."""
        self.after_commit(partial(self._confirmed, replies))

    def _confirmed(self, replies: list[bytes], error: LogError | None) -> None:
        if error is None:
            for reply in replies:
                self._turns.host.publish(reply, b"")

    def hurry(self) -> None:
        """The deltas are written at the end of this turn."""
        deltas = self.deltas
        if deltas.timer is not None:
            deltas.timer.cancel()
            deltas.timer = None
        deltas.is_due = True

    def stream(self, record: StreamRecord) -> None:
        self.add(entries.stream(record))

    def stream_gone(self, name: str) -> None:
        self.add(entries.gone_stream(name))

    def stream_emptied(self, name: str) -> None:
        self.add(entries.emptied(name))

    def position(self, stream: str, source: str, record: bytes) -> None:
        """Note the position of a stream's source; its messages up to there are durable."""
        self.add(entries.position(stream, source, record))

    def consumer(self, record: ConsumerRecord) -> None:
        """Write a consumer: with its state if the record has one, else the state that is known stays."""
        self.add(entries.consumer(record))
        if record.state is not None:
            self.deltas.discard(record.identity)
            self.add(entries.whole_state(record.identity, record.state))

    def consumer_gone(self, identity: int) -> None:
        self.deltas.discard(identity)
        self.add(entries.gone_consumer(identity))

    @property
    def idle(self) -> bool:
        return not (self.deltas.is_due and self.deltas) and super().idle

    def flush(self) -> None:
        super().flush()
        deltas = self.deltas
        if deltas and deltas.timer is None:  # most of what changed is written in the same turn
            deltas.timer = self._turns.later(_LINGER_S, self._lingered)

    def _lingered(self) -> None:
        self.deltas.timer = None
        self.deltas.is_due = bool(self.deltas)

    def gather(self) -> None:
        self.deltas.is_due = False
        changes = self.deltas.take()
        if changes:
            self.add(changes)
