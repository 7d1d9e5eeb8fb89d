"""`o.dat`: what a consumer of nats-server had delivered, and what of it was acknowledged.

Versions 1 and 2. Times are whole seconds. Source: nats-server 2.15 (filestore.go, store.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.engine.pending import PendingMap
from headrace.jetstream.consumer.ack_state import ConsumerState
from headrace.jetstream.importing.stream_index import BadIndex, Varints
from headrace.log.port import LARGEST_SEQUENCE, LARGEST_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC: Final = 22
_VERSIONS: Final = (1, 2)
_SECOND: Final = 1_000_000_000


def read_consumer_state(data: bytes) -> ConsumerState:
    """Read the state of a consumer from its decrypted file. Raises: BadIndex."""
    if len(data) < 2 or data[0] != _MAGIC or data[1] not in _VERSIONS:
        raise BadIndex("it is of an unknown version")
    version = data[1]
    reader = Varints(data, 2)
    floor_consumer, floor_stream, consumer, stream = (reader.sequence() for _ in range(4))
    if version == 1:  # delivered was counted from the floor, and one further
        consumer += max(floor_consumer - 1, 0)
        stream += max(floor_stream - 1, 0)
    _check(consumer, stream)
    state = ConsumerState()
    state.numbers = consumer, stream, floor_consumer, floor_stream
    pending = sorted(_pending(reader, version, floor_consumer, floor_stream), key=lambda one: one[1])
    state.pending = PendingMap(pending)
    for _ in range(reader.unsigned()):
        sequence, times = reader.sequence(), reader.sequence()
        _check(floor_stream + sequence)
        if sequence and times:
            state.redelivered[floor_stream + sequence] = times
    return state


def _pending(
    reader: Varints, version: int, floor_consumer: int, floor_stream: int
) -> Iterator[tuple[int, int, int]]:
    """Sequence, consumer sequence and ns of each."""
    number = reader.unsigned()
    base = reader.signed() if number else 0
    for _ in range(number):
        sequence = floor_stream + reader.sequence()
        consumer = floor_consumer + reader.sequence() if version == 2 else 0
        seconds = base - reader.signed() if version == 2 else base + reader.signed()
        _check(sequence, consumer)
        ns = max(seconds, 0) * _SECOND
        if not sequence or ns > LARGEST_TIME:
            raise BadIndex("a sequence or a time is impossible")
        yield sequence, consumer, ns


def _check(*sequences: int) -> None:
    if max(sequences) > LARGEST_SEQUENCE:
        raise BadIndex("a sequence is impossible")
