"""Recovery of atomic batches after a crash: one of which the disk has only the beginning is taken out of the
log again.

A batch is one append, and its last message says that it commits it. A write that was cut off is the last
thing in a log, and nobody was told of it; so only the end of the log has to be looked at. Where the last
sequence is not there any more, somebody removed it, and the batch was whole. Source: JetStream specification,
8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import MessageDamaged
from headrace.jetstream.batch.headers import COMMIT, ID, SEQUENCE
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.numbers import whole

if TYPE_CHECKING:
    from headrace.log.port import MessageLog, StoredMessage


def remove_incomplete_batch(log: MessageLog) -> int:
    """Remove an atomic batch that was cut off; return the number of its messages, usually 0.

    Raises: StorageError.
    """
    return sum(log.delete(sequence) for sequence in incomplete_batch(log))


def incomplete_batch(log: MessageLog) -> list[int]:
    """Return the sequences of an atomic batch that was cut off, the last first; usually there are none.

    Raises: StorageError.
    """
    end = log.state().last_sequence
    last, message = end, None
    while last > 0 and message is None:
        message = _read(log, last)
        if isinstance(message, MessageDamaged):  # its record begins before the cut and ends behind it
            last, message = last - 1, None
        elif message is None:
            return []
    if message is None or isinstance(message, MessageDamaged) or not _is_within(message):
        return []
    batch = block.value(message.headers, ID)
    first = last - (whole(block.value(message.headers, SEQUENCE)) or 0) + 1
    return _of_batch(log, batch, first, end)


def _read(log: MessageLog, sequence: int) -> StoredMessage | MessageDamaged | None:
    try:
        return log.read(sequence)
    except MessageDamaged as damage:
        return damage


def _is_within(message: StoredMessage) -> bool:
    """True if a batch goes on after this message."""
    if not message.headers or not block.value(message.headers, ID) or block.has(message.headers, COMMIT):
        return False
    return whole(block.value(message.headers, SEQUENCE)) is not None


def _of_batch(log: MessageLog, batch: bytes, first: int, end: int) -> list[int]:
    """Messages of the batch, and what is unreadable among them, from the last on."""
    found = []
    for sequence in range(end, max(first, 1) - 1, -1):
        message = _read(log, sequence)
        if isinstance(message, MessageDamaged) or (
            message is not None and block.value(message.headers, ID) == batch
        ):
            found.append(sequence)
    return found
