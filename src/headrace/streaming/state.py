"""The durable state of the streaming service besides messages: server, clients, subscriptions.

It is a log of changes in the same store as the channels, under a name that no channel can have. One tick's
changes are one record, so a crash sees all of them or none; acknowledgements and deliveries are coalesced
per subscription and tick and are appended without waiting for a sync, while whoever must wait (a connect, a
subscribe) is answered after one. When the changes outweigh the state itself, the whole state is written anew
between two marks, synced, and only then everything before it is purged; a snapshot whose second mark is
missing is as if it had not been begun. Compared with one record per subscription and tick this costs what
changed and not what is pending, and it asks nothing of the log's index.

A record's payload is entries, each kind (1 byte), length (u32 little-endian), body:

    S server     ServerInfo                          C client      ClientInfo
    c gone       client id                           N subscribed  u16 length, channel, SubState
    n gone       u64 subscription                    L last sent   u64 subscription, u64 sequence
    R sent       u64 subscription, first, last       T sent        u64 subscription, sequences (u64 each)
    r acked      u64 subscription, first, last       a acked       u64 subscription, sequences
    H channel    u64 ns when it was made, channel    h deleted     channel
    ( snapshot begins                                ) snapshot ends

A peer's request never comes here; what the entries mean to live objects is `recovery.py`'s.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from headrace import change_log
from headrace.change_log import entry
from headrace.engine.stan import without_gap
from headrace.log.port import NewMessage
from headrace.protocol.stan import ClientInfo, ServerInfo, SubState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.log.port import MessageLog
    from headrace.log.store import LogStore

STATE_LOG: Final = b"$STAN/state"
"""The log's name; `/` cannot stand in a channel name."""
SUBJECT: Final = b"$STAN.state"
_MAX_RANGE: Final = 1 << 24
"""Sequences in one range entry; more is a damaged entry (or maxInFlight would be above 16 million)."""
_ID: Final = struct.Struct("<Q")
_PAIR: Final = struct.Struct("<QQ")
_SPAN: Final = struct.Struct("<QQQ")
_CHANNEL: Final = struct.Struct("<H")


class SubscriptionRecord(Struct):
    """A subscription as it is stored. `state.q_group` of a durable queue is `durable:group`."""

    channel: bytes
    state: SubState
    pending: set[int] = field(default_factory=set)
    """Sequences sent and not acknowledged."""
    last_sent: int = 0
    """The newest sequence sent; what counts is the higher of this and the state's own."""
    is_certain: bool = True
    """False for a subscription that was made after a record was lost: in a group, what it says was sent by
    others may not have been."""

    def __post_init__(self) -> None:
        self.last_sent = max(self.last_sent, self.state.last_sent)


class ServiceState(Struct):
    """The state of the service, as its state log says it."""

    server: ServerInfo | None = None
    clients: dict[bytes, ClientInfo] = field(default_factory=dict)
    subscriptions: dict[int, SubscriptionRecord] = field(default_factory=dict)
    """The subscriptions by id, which is unique in the service and not only in the channel."""
    channels: dict[bytes, int] = field(default_factory=dict)
    """The time in ns at which each channel was made.

    It differs for a channel that was deleted and made again.
    """


def sent(identity: int, sequences: list[int]) -> bytes:
    return _sequences(b"T", b"R", identity, sequences)


def acked(identity: int, sequences: list[int]) -> bytes:
    return _sequences(b"a", b"r", identity, sequences)


def last_sent(identity: int, sequence: int) -> bytes:
    return entry(b"L", _PAIR.pack(identity, sequence))


def server(info: ServerInfo) -> bytes:
    return entry(b"S", info.encode())


def client(info: ClientInfo) -> bytes:
    return entry(b"C", info.encode())


def client_gone(client_id: bytes) -> bytes:
    return entry(b"c", client_id)


def channel(name: bytes, created_ns: int) -> bytes:
    return entry(b"H", _ID.pack(created_ns) + name)


def channel_gone(name: bytes) -> bytes:
    return entry(b"h", name)


def unsubscribed(identity: int) -> bytes:
    return entry(b"n", _ID.pack(identity))


def subscribed(record: SubscriptionRecord) -> bytes:
    """Encode a subscription without its pending messages, which the entries `sent` and `acked` of its id
    give.
    """
    state = replace(record.state, last_sent=record.last_sent)
    return entry(b"N", _CHANNEL.pack(len(record.channel)) + record.channel + state.encode())


def _sequences(kind: bytes, range_kind: bytes, identity: int, sequences: list[int]) -> bytes:
    first, last = sequences[0], sequences[-1]
    count = len(sequences)
    if last - first == count - 1 < _MAX_RANGE and without_gap(sequences):
        return entry(range_kind, _SPAN.pack(identity, first, last))
    return entry(kind, _ID.pack(identity) + struct.pack(f"<{count}Q", *sequences))


def all_entries(state: ServiceState) -> Iterator[bytes]:
    """The whole state, for a snapshot."""
    if state.server is not None:
        yield server(state.server)
    yield from map(client, state.clients.values())
    for name, created_ns in state.channels.items():
        yield channel(name, created_ns)
    for identity, record in state.subscriptions.items():
        yield subscribed(record)
        if record.pending:
            yield sent(identity, sorted(record.pending))


def record(entries: Sequence[bytes]) -> NewMessage:
    """One record of the state log: entries that a crash keeps or loses together."""
    return NewMessage(SUBJECT, b"".join(entries))


def snapshot(state: ServiceState) -> list[NewMessage]:
    return list(change_log.snapshot(all_entries(state), SUBJECT))


def write_state(log: MessageLog, state: ServiceState) -> None:
    """Replace what `log` says by `state`, durably (an import, a repair). Raises: LogError."""
    first = log.append(change_log.twice(snapshot(state)))
    log.sync()
    log.purge(up_to=first)


def write_imported(store: LogStore, state: ServiceState) -> None:
    """Make `state` the streaming state of a store that no service has open. Raises: LogError."""
    log = store.open(STATE_LOG)
    write_state(log, state)


def load_state(store: LogStore) -> ServiceState:
    """The streaming state of a store, empty when there is none. Raises: LogError."""
    if STATE_LOG not in store.names():
        return ServiceState()
    return StateRecovery(store.open(STATE_LOG)).run()


class StateRecovery:
    """Builds the state that a log of changes says (`headrace.change_log.Changed`).

    A lost record may be the one that said what was delivered. So a subscription that was there before it is
    frozen: later deliveries do not move it on, and what may never have been processed is delivered again.
    Likewise a snapshot with a hole in it is not believed while the state before it is still there.
    """

    def __init__(self, log: MessageLog, report: Callable[[int, str], None] | None = None) -> None:
        self._log = log
        self._report = report or (lambda _sequence, _reason: None)
        self._state = ServiceState()
        self._before: ServiceState | None = None  # what the snapshot that is being read will replace
        self._frozen: set[int] = set()
        self.damaged = False
        """True if anything was lost. Then a snapshot must be written next."""

    def run(self) -> ServiceState:
        """Read the state log; return the state of the service. Raises: StorageError."""
        self.damaged = change_log.read_changes(self._log, self, self._report)
        return self._state

    def begin(self) -> None:
        self._before = self._before or self._state
        self._state = ServiceState()

    def end(self) -> None:
        if self._before is not None:  # else it is the end of a snapshot that is not believed
            self._before = None
            self._frozen.clear()

    def lost(self) -> None:
        before = self._before
        if before is not None and (before.clients or before.subscriptions or before.channels):
            self._state, self._before = before, None
        self._frozen.update(self._state.subscriptions)

    def apply(self, kind: bytes, body: bytes) -> None:
        if kind in b"RTra":
            identity, sequences = _read_sequences(kind in b"Rr", body)
            record = self._state.subscriptions.get(identity)
            if record is None or not sequences:
                return
            if kind in b"ra":
                record.pending.difference_update(sequences)
                return
            if identity in self._frozen:
                record.pending.update(one for one in sequences if one <= record.last_sent)
                return
            record.pending.update(sequences)
            newest = max(sequences)
            record.last_sent = max(record.last_sent, newest)
        elif kind == b"L":
            identity, sequence = _PAIR.unpack(body)
            record = self._state.subscriptions.get(identity)
            if record is not None and identity not in self._frozen:
                record.last_sent = max(record.last_sent, sequence)
        else:
            self._apply_rare(kind, body)

    def _apply_rare(self, kind: bytes, body: bytes) -> None:
        state = self._state
        match kind:
            case b"N":
                self._subscribe(body)
            case b"n":
                state.subscriptions.pop(_ID.unpack(body)[0], None)
            case b"C":
                client = ClientInfo.decode(body)
                state.clients[client.id] = client
            case b"c":
                state.clients.pop(body, None)
            case b"H":
                state.channels[body[_ID.size :]] = _ID.unpack_from(body)[0]
            case b"h":
                state.channels.pop(body, None)
            case b"S":
                state.server = ServerInfo.decode(body)
            case _:
                raise ValueError(f"an entry of unknown kind {kind!r}")

    def _subscribe(self, body: bytes) -> None:
        (length,) = _CHANNEL.unpack_from(body)
        start = _CHANNEL.size + length
        if start > len(body):
            raise ValueError("a channel name is cut off")
        found = SubState.decode(body[start:])
        known = self._state.subscriptions.get(found.id)
        record = SubscriptionRecord(body[_CHANNEL.size : start], found)
        if known is not None:
            record.pending = known.pending
            record.is_certain = known.is_certain
            if found.id in self._frozen:
                record.state = replace(found, last_sent=known.last_sent)
                record.last_sent = known.last_sent
        elif self._frozen and self._before is None:
            record.is_certain = False
        self._state.subscriptions[found.id] = record


def _read_sequences(is_range: bool, body: bytes) -> tuple[int, Sequence[int]]:
    if is_range:
        identity, first, last = _SPAN.unpack(body)
        if not 0 <= last - first < _MAX_RANGE:
            raise ValueError("a range that cannot be")
        return identity, range(first, last + 1)
    identity, *sequences = struct.unpack(f"<{len(body) // 8}Q", body)
    return identity, sequences
