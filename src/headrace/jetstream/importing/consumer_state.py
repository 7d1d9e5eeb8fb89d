"""`o.dat`: what a consumer of nats-server had delivered, and what of it was acknowledged.

Versions 1 and 2. Times are whole seconds. Source: nats-server 2.15 (filestore.go, store.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.ackstate import ConsumerState
from headrace.jetstream.importing.stream_index import BadIndex, Varints

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC: Final = 22
_VERSIONS: Final = (1, 2)
_SECOND: Final = 1_000_000_000
_LARGEST: Final = 1 << 63


def read_consumer_state(data: bytes) -> ConsumerState:
    """Of a decrypted file. Raises: BadIndex."""
    if len(data) < 2 or data[0] != _MAGIC or data[1] not in _VERSIONS:
        raise BadIndex("it is of an unknown version")
    version = data[1]
    reader = Varints(data, 2)
    floor_consumer, floor_stream, consumer, stream = (reader.unsigned() for _ in range(4))
    if version == 1:  # delivered was counted from the floor, and one further
        consumer += max(floor_consumer - 1, 0)
        stream += max(floor_stream - 1, 0)
    if max(floor_stream, stream, floor_consumer, consumer) >= _LARGEST:
        raise BadIndex("a sequence is impossible")
    state = ConsumerState()
    state.numbers = consumer, stream, floor_consumer, floor_stream
    pending = sorted(_pending(reader, version, floor_consumer, floor_stream), key=lambda one: one[1])
    state.pending = {sequence: (number, ns) for sequence, number, ns in pending}
    for _ in range(reader.unsigned()):
        sequence, times = reader.unsigned(), reader.unsigned()
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
        sequence = floor_stream + reader.unsigned()
        consumer = floor_consumer + reader.unsigned() if version == 2 else 0
        seconds = base - reader.signed() if version == 2 else base + reader.signed()
        if not 0 < sequence < _LARGEST:
            raise BadIndex("a sequence is impossible")
        yield sequence, consumer, max(seconds, 0) * _SECOND
