"""Records of an account's state besides messages: its streams, consumers and their positions.

It is a log of changes (`headrace.change_log`) in the file store, beside the logs of the streams. What is in
memory only (a stream of memory storage and its consumers, a consumer of memory storage) never comes here.
How a consumer's state looks is its own business: here it is bytes. Kinds of entries:

    S stream     u64 ns when it was made, JSON of the configuration; replaces one of the same name
    s gone       name; its messages are to be removed
    e emptied    name; its messages are removed
    C consumer   u64 identity, u64 ns when it was made, u16 length, stream, JSON of the configuration and name
    c gone       u64 identity
    X state      u64 identity, the whole state of a consumer
    D delta      u64 identity, what changed of it (written by `engine.consumer`)
    P position   u16 length, stream, u16 length, source of it, how far that is; replaces the one before

What the entries mean to live objects is `recovery.py`'s; requests of peers never come here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from headrace.change_log import entry
from headrace.jetstream.consumer.ack_state import ConsumerState
from headrace.protocol.jetstream.configs import ConsumerConfig, StreamConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBJECT: Final = b"$JS.state"
_ID: Final = struct.Struct("<Q")
_CONSUMER: Final = struct.Struct("<QQH")
_LENGTH: Final = struct.Struct("<H")


class _Naming(msgspec.Struct):
    """A consumer's name, which its configuration needs not have, and its configuration."""

    name: str
    config: ConsumerConfig


class _Named(msgspec.Struct):
    """A consumer's name and configuration as they are read: the configuration may be one that cannot be."""

    name: str
    config: msgspec.Raw


class StreamRecord(Struct):
    """A stream in the state log."""

    created_ns: int
    config: bytes
    """JSON, as it was written: one of a later version, which cannot be read here, is kept."""

    def read(self) -> StreamConfig:
        """Return the configuration of the stream. Raises: ValueError."""
        return msgspec.json.decode(self.config, type=StreamConfig)


class ConsumerRecord(Struct):
    """A consumer in the state log."""

    identity: int
    created_ns: int
    stream: str
    named: bytes
    """JSON: the name and the configuration."""
    state: ConsumerState | None = None

    def read(self) -> tuple[str, ConsumerConfig]:
        """The consumer's name and configuration. Raises: ValueError."""
        named = msgspec.json.decode(self.named, type=_Named)
        return named.name, msgspec.json.decode(named.config, type=ConsumerConfig)


class AccountState(Struct):
    """The state of an account, as its state log says it."""

    streams: dict[str, StreamRecord] = field(default_factory=dict)
    consumers: dict[int, ConsumerRecord] = field(default_factory=dict)
    """The consumer's identity, which is unique in the account."""
    removing: set[str] = field(default_factory=set)
    """Streams that are gone and whose messages may still be there."""

    positions: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """The positions of streams' sources, by stream and source."""

    def drop_stream(self, name: str) -> None:
        self.streams.pop(name, None)
        self.positions.pop(name, None)
        self.removing.add(name)
        for identity in [one.identity for one in self.consumers.values() if one.stream == name]:
            del self.consumers[identity]

    def entries(self) -> Iterator[bytes]:
        for name in self.removing:
            yield gone_stream(name)
        yield from map(stream, self.streams.values())
        for name, of_stream in self.positions.items():
            for source, place in of_stream.items():
                yield position(name, source, place)
        for record in self.consumers.values():
            yield consumer(record)
            if record.state is not None:
                yield whole_state(record.identity, record.state)


def stream_record(config: StreamConfig, created_ns: int) -> StreamRecord:
    return StreamRecord(created_ns, msgspec.json.encode(config))


def consumer_record(
    identity: int, stream: str, name: str, config: ConsumerConfig, created_ns: int
) -> ConsumerRecord:
    return ConsumerRecord(identity, created_ns, stream, msgspec.json.encode(_Naming(name, config)))


def stream(record: StreamRecord) -> bytes:
    return entry(b"S", _ID.pack(record.created_ns) + record.config)


def consumer(record: ConsumerRecord) -> bytes:
    name = record.stream.encode()
    return entry(b"C", _CONSUMER.pack(record.identity, record.created_ns, len(name)) + name + record.named)


def gone_stream(name: str) -> bytes:
    return entry(b"s", name.encode())


def emptied(name: str) -> bytes:
    return entry(b"e", name.encode())


def gone_consumer(identity: int) -> bytes:
    return entry(b"c", _ID.pack(identity))


def position(name: str, source: str, record: bytes) -> bytes:
    stream_name, source_name = name.encode(), source.encode()
    lengths = _LENGTH.pack(len(stream_name)), _LENGTH.pack(len(source_name))
    return entry(b"P", lengths[0] + stream_name + lengths[1] + source_name + record)


def whole_state(identity: int, state: ConsumerState) -> bytes:
    return entry(b"X", _ID.pack(identity) + state.encode())


class AccountChanges:
    """Builds the state that a log of changes says (`headrace.change_log.Changed`).

    A lost record may be the one that said what was delivered. So consumers that were there before it are
    frozen: later deliveries do not move them on, and what may never have been processed is delivered again.
    Likewise a snapshot with a hole in it is not believed while the state before it is still there.
    """

    def __init__(self) -> None:
        self.state = AccountState()
        self._before: AccountState | None = None  # what the snapshot that is being read will replace

    def begin(self) -> None:
        self._before = self._before or self.state
        self.state = AccountState()

    def end(self) -> None:
        self._before = None

    def lost(self) -> None:
        before = self._before
        if before is not None and (before.streams or before.consumers):
            self.state, self._before = before, None
        for record in self.state.consumers.values():
            if record.state is not None:
                record.state.freeze()

    def apply(self, kind: bytes, body: bytes) -> None:
        state = self.state
        if kind == b"D":
            record = state.consumers.get(_ID.unpack_from(body)[0])
            if record is not None and record.state is not None:
                record.state.apply(body[_ID.size :])
            return
        match kind:
            case b"S":
                self._stream(body)
            case b"s":
                state.drop_stream(body.decode())
            case b"e":
                state.removing.discard(body.decode())
            case b"C":
                self._consumer(body)
            case b"c":
                state.consumers.pop(_ID.unpack(body)[0], None)
            case b"P":
                self._position(body)
            case b"X":
                record = state.consumers.get(_ID.unpack_from(body)[0])
                if record is not None:
                    record.state = ConsumerState.decode(body[_ID.size :])
            case _:
                raise ValueError(f"an entry of unknown kind {kind!r}")

    def _stream(self, body: bytes) -> None:
        (created_ns,) = _ID.unpack_from(body)
        config = body[_ID.size :]
        name = msgspec.json.decode(config, type=_StreamName).name
        if not name:
            raise ValueError("a stream without a name")
        self.state.streams[name] = StreamRecord(created_ns, config)
        self.state.removing.discard(name)

    def _position(self, body: bytes) -> None:
        name, rest = _text(body)
        source, record = _text(rest)
        if name in self.state.streams:
            self.state.positions.setdefault(name, {})[source] = record

    def _consumer(self, body: bytes) -> None:
        identity, created_ns, length = _CONSUMER.unpack_from(body)
        start = _CONSUMER.size + length
        if start > len(body):
            raise ValueError("the name of a stream is cut off")
        record = ConsumerRecord(identity, created_ns, body[_CONSUMER.size : start].decode(), body[start:])
        known = self.state.consumers.get(identity)
        if known is not None:
            record.state = known.state
        self.state.consumers[identity] = record


def _text(body: bytes) -> tuple[str, bytes]:
    """A text with its length before it, and what follows."""
    (length,) = _LENGTH.unpack_from(body)
    end = _LENGTH.size + length
    if end > len(body):
        raise ValueError("a name is cut off")
    return body[_LENGTH.size : end].decode(), body[end:]


class _StreamName(msgspec.Struct):
    """The name in a configuration, which may be of a later version otherwise."""

    name: str = ""
