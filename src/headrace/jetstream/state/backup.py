"""The contents of a stream's backup: its state, its consumers, its messages, in the Go server's archive.

Pure but for the log that is read: entries of an archive out of a stream, and back into what a stream is made
of. Who sends and receives them is `api.backup`'s. Source: backups of the Go server 2.15.1, both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec

from headrace.engine.pending import PendingMap
from headrace.jetstream.consumer.ack_state import ConsumerState
from headrace.protocol import archive, s2
from headrace.protocol.jetstream.configs import ConsumerConfig
from headrace.protocol.jetstream.foreign import read
from headrace.protocol.jetstream.numbers import INT64_MAX, Int64
from headrace.protocol.jetstream.responses import consumer_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.stream.stream import Stream

STATE: Final = b"state.json"
CONSUMERS: Final = b"consumers/"
_PAGE: Final = 256
_BLOCK: Final = 256 << 10
"""Bytes of entries that become one block of the stream, about."""

_Number = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


class Damaged(Exception):
    """A message that is to be in a backup cannot be read."""


class RestoredState(msgspec.Struct, frozen=True):
    """The fields of `state.json` that a restore needs."""

    first_seq: _Number = 0
    last_seq: _Number = 0
    messages: _Number = 0
    bytes: _Number = 0
    consumer_count: _Number = 0


class _Pair(msgspec.Struct):
    consumer_seq: _Number = 0
    stream_seq: _Number = 0


class _Pending(msgspec.Struct):
    sequence: _Number = msgspec.field(name="Sequence", default=0)
    timestamp: Int64 = msgspec.field(name="Timestamp", default=0)


class _Position(msgspec.Struct, omit_defaults=True):
    delivered: _Pair = msgspec.field(default_factory=_Pair)
    ack_floor: _Pair = msgspec.field(default_factory=_Pair)
    pending: dict[_Number, _Pending] | None = None
    redelivered: dict[_Number, _Number] | None = None


class _Consumer(msgspec.Struct):
    config: dict[str, Any]
    state: _Position


class Restored(NamedTuple):
    """A consumer of a backup."""

    name: str
    config: ConsumerConfig
    state: ConsumerState


# -- out of a stream -----------------------------------------------------------------------------------


def pieces(stream: Stream, *, with_consumers: bool, strict: bool) -> Iterator[bytes]:
    """The bytes of a backup, in pieces of some size; messages that come later are not in it.

    `strict`: a message that cannot be read ends it. Raises: Damaged, StorageError.
    """
    yield s2.STREAM_BEGIN
    waiting = [archive.MAGIC]
    size = 0
    for entry in _entries(stream, with_consumers=with_consumers, strict=strict):
        waiting.append(archive.encode(entry))
        size += len(waiting[-1])
        if size >= _BLOCK:
            yield s2.frames(b"".join(waiting))
            waiting, size = [], 0
    yield s2.frames(b"".join(waiting))


def state_of(stream: Stream) -> dict[str, object]:
    """Return the state as in StreamInfo, but that an empty stream says where it begins."""
    state = stream.state()
    return state | {"first_seq": state["first_seq"] or 1}


def _entries(stream: Stream, *, with_consumers: bool, strict: bool) -> Iterator[archive.ArchiveEntry]:
    now_ns = stream.account.turns.now_ns()
    consumers = [one for one in stream.consumers.values() if with_consumers and not one.config.direct]
    state = state_of(stream) | {"consumer_count": len(consumers)}
    last = stream.last_sequence
    yield archive.ArchiveEntry(STATE, now_ns, payload=msgspec.json.encode(state))
    for consumer in consumers:
        name = CONSUMERS + consumer.name.encode()
        yield archive.ArchiveEntry(name, now_ns, payload=_consumer(consumer))
    sequence = 0
    while sequence <= last:
        page = stream.log.read_from(sequence, max_messages=_PAGE, up_to=last + 1)
        if page.damaged and strict:
            raise Damaged(f"message {page.damaged[0]} cannot be read")
        for message in page.messages:
            parts = message.headers, message.payload
            yield archive.ArchiveEntry(message.subject, message.time_ns, message.sequence, *parts)
        sequence = page.next_sequence
    yield archive.ArchiveEntry(b"")


def _consumer(consumer: Consumer) -> bytes:
    state = consumer.state
    floor = _Pair(state.floor_consumer, state.floor_stream)
    if state.held:  # messages that it passed over would never come again: what is not settled comes anew
        position = _Position(_Pair(state.floor_consumer, state.floor_stream), floor)
    else:
        position = _Position(
            _Pair(state.delivered_consumer, state.delivered_stream),
            floor,
            {sequence: _Pending(number, ns) for sequence, (number, ns) in state.pending.items()} or None,
            dict(state.redelivered) or None,
        )
    return msgspec.json.encode(_Consumer(consumer_config(consumer.config), position))


# -- and back ------------------------------------------------------------------------------------------


def read_state(entry: archive.ArchiveEntry) -> RestoredState:
    """Read the state of a stream from a backup's entry. Raises: ValueError."""
    if entry.name != STATE:
        raise ValueError("expected state.json first")
    try:
        return read(RestoredState, entry.payload)
    except ValueError as error:
        raise ValueError(f"error in state.json: {error}") from None


def read_consumer(entry: archive.ArchiveEntry) -> Restored:
    """Read a consumer from a backup's entry. Raises: ValueError."""
    name = entry.name.removeprefix(CONSUMERS)
    if name == entry.name:
        raise ValueError(f"expected consumer, found {entry.name!r}")
    shown = name.decode("utf-8", "replace")
    try:
        found = read(_Consumer, entry.payload)
        config = msgspec.convert(found.config, ConsumerConfig)
    except ValueError as error:
        raise ValueError(f"failed to decode consumer {shown} state: {error}") from None
    state = ConsumerState()
    position = found.state
    state.numbers = (
        position.delivered.consumer_seq,
        position.delivered.stream_seq,
        position.ack_floor.consumer_seq,
        position.ack_floor.stream_seq,
    )
    pending = sorted((position.pending or {}).items(), key=lambda item: item[1].sequence)
    state.pending = PendingMap((sequence, one.sequence, one.timestamp) for sequence, one in pending)
    state.redelivered = dict(position.redelivered or {})
    return Restored(shown, config, state)
