"""Files of typed records, `subs.dat` and `clients.dat`: what is left after replaying them.

Here is also what damage in the record of sent messages means. A durable's messages are sent in ascending
order; if, after damage, its next one is not the next sequence, those between were sent in what is lost. They
count as sent and not acknowledged: a message may then come again, but none is passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.errors import ProtocolError
from headrace.importing.findings import Finding, Severity
from headrace.protocol.stan import ClientDelete, ClientInfo, SubState, SubStateDelete, SubStateUpdate
from headrace.streaming.importing.model import SourceSubscription
from headrace.streaming.importing.records import (
    HEADER,
    START,
    VERSION,
    ByteFile,
    Record,
    Unreadable,
    record_at,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.streaming.importing.checksums import Checksum

_NEW, _UPDATE, _DELETE, _ACK, _SENT = 1, 2, 3, 4, 5
_ADD_CLIENT, _REMOVE_CLIENT = 1, 2
_SCAN: Final = 1 << 16
_MAX_SEARCHED: Final = 1 << 16
"""A record longer than this is not found again after damage before it; none of the server's is."""
_LEAST_RECORD: Final = 12
"""No record of a sent message is shorter: a header, an ID, a sequence."""
_MAX_FILLED: Final = 1 << 20
"""The most sequences that are taken for sent after damage; the newest ones."""

_Lane = tuple[bytes, int]
_Deletion = TypeVar("_Deletion", ClientDelete, SubStateDelete)


def read_journal(
    path: Path, name: str, kinds: range, checksum: Checksum | None
) -> Iterator[Record | Finding]:
    """The records of a file, and findings where they are. Raises: SourceUnusable."""
    with ByteFile(path, name) as file:
        version = version_of(file)
        if file.size and version != VERSION:
            text = (
                f"version {version} is unknown" if version is not None else "the file ends within its version"
            )
            yield Finding(Severity.DAMAGED, name, text, 0, min(START, file.size))
        offset = START
        while offset < file.size:
            record = _typed_record(file, offset, kinds, checksum)
            if isinstance(record, Record):
                yield record
                offset = record.end
                continue
            if file.zeros_from(offset):
                yield Finding(Severity.NOTE, name, "space that was never written", offset, file.size - offset)
                return
            on = _next_record(file, offset, kinds, checksum)
            kind = Severity.CUT if record.is_cut and on == file.size else Severity.DAMAGED
            yield Finding(kind, name, record.why, offset, on - offset)
            offset = on


def _typed_record(
    file: ByteFile, offset: int, kinds: range, checksum: Checksum | None
) -> Record | Unreadable:
    record = record_at(file, offset, checksum, typed=True)
    if isinstance(record, Record) and record.kind not in kinds:
        return Unreadable(f"a record of unknown type {record.kind}")
    return record


def _next_record(file: ByteFile, damage: int, kinds: range, checksum: Checksum | None) -> int:
    """Find the offset of the next whole record after damage; the end of the file if there is none."""
    if checksum is None:  # the only clue is the damaged record's own length
        header = file.read(damage, HEADER.size)
        if len(header) == HEADER.size:
            after = damage + HEADER.size + int.from_bytes(header[:3], "little")
            if isinstance(_typed_record(file, after, kinds, None), Record):
                return after
        return file.size
    start = damage + 1
    while start + HEADER.size < file.size:
        window = file.read(start, _SCAN + 3)
        for place in range(len(window) - 3):
            size = int.from_bytes(window[place : place + 3], "little")
            if window[place + 3] not in kinds or not 0 < size <= _MAX_SEARCHED:
                continue
            if isinstance(record_at(file, start + place, checksum, typed=True), Record):
                return start + place
        start += _SCAN
    return file.size


class ClientsJournal:
    """The registered clients after replaying `clients.dat`."""

    def __init__(self) -> None:
        self._clients: dict[bytes, ClientInfo] = {}
        self.findings: list[Finding] = []

    def replay(self, path: Path, name: str, checksum: Checksum | None) -> None:
        """Read the client journal. Raises: SourceUnusable."""
        for item in read_journal(path, name, range(_ADD_CLIENT, _REMOVE_CLIENT + 1), checksum):
            if isinstance(item, Finding):
                self.findings.append(item)
                continue
            try:
                self._apply(item)
            except ProtocolError as error:
                self.findings.append(_undecodable(name, item, error))

    def clients(self) -> list[ClientInfo]:
        """Return the clients in the order they registered."""
        return list(self._clients.values())

    def _apply(self, record: Record) -> None:
        if record.kind == _ADD_CLIENT:
            client = ClientInfo.decode(record.body)
            if not (client.id and client.hb_inbox):
                raise ProtocolError("a client without an ID or inbox")
            self._clients[client.id] = client
        else:
            self._clients.pop(_whole(ClientDelete.decode(record.body), record).id, None)


class _Row(Struct):
    """The records of one subscription; `state` is None if the record that made it is lost."""

    state: SubState | None = None
    pending: set[int] = field(default_factory=set)
    last_sent: int = 0


class SubscriptionsJournal:
    """A channel's subscriptions after replaying its `subs.dat`.

    A sequence above `highest` is damage (without checksums; with them nothing is above).
    """

    def __init__(self, highest: int = (1 << 64) - 1) -> None:
        self._highest_possible = highest
        self._rows: dict[int, _Row] = {}
        self._doubtful: dict[_Lane, int] = {}
        self._lost_bytes = 0
        self._orphans = 0
        self.findings: list[Finding] = []

    def replay(self, path: Path, name: str, checksum: Checksum | None) -> None:
        """Read the subscription journal of a channel. Raises: SourceUnusable."""
        for item in read_journal(path, name, range(_NEW, _SENT + 1), checksum):
            if isinstance(item, Finding):
                self.findings.append(item)
                if item.is_damage:
                    self._doubt(item.length)
                continue
            try:
                self._apply(item)
            except ProtocolError as error:
                self.findings.append(_undecodable(name, item, error))
                self._doubt(HEADER.size + len(item.body))
        self._orphans += sum(row.state is None for row in self._rows.values())
        if self._orphans:
            text = f"{self._orphans:,} records of subscriptions that are not there"
            self.findings.append(Finding(Severity.NOTE, name, text))

    def subscriptions(self) -> list[SourceSubscription]:
        """Return the subscriptions in the order they were made."""
        return [
            SourceSubscription(replace(row.state, last_sent=row.last_sent), tuple(sorted(row.pending)))
            for row in self._rows.values()
            if row.state is not None
        ]

    def _apply(self, record: Record) -> None:
        if record.kind in (_NEW, _UPDATE):
            self._put(SubState.decode(record.body), is_new=record.kind == _NEW)
        elif record.kind == _DELETE:
            gone = _whole(SubStateDelete.decode(record.body), record)
            self._rows.pop(_identified(gone.id), None)
        else:
            update = SubStateUpdate.decode(record.body)
            if _identified(update.id) not in self._rows and not self._lost_bytes:
                self._orphans += 1
            elif update.seqno > self._highest_possible:
                raise ProtocolError(f"sequence {update.seqno:,}, which the channel never had")
            elif record.kind == _SENT:
                self._sent(update.id, update.seqno)
            else:
                self._acked(update.id, update.seqno)

    def _put(self, state: SubState, *, is_new: bool) -> None:
        if not (state.inbox and state.ack_inbox):
            raise ProtocolError("a subscription without an inbox")
        row = self._rows.get(_identified(state.id))
        if row is None or is_new:
            row = self._rows[state.id] = _Row()
        last_sent = state.last_sent
        if last_sent > self._highest_possible:
            row.state = state
            raise ProtocolError(f"a last sequence of {last_sent:,}, which the channel never had")
        if not is_new:
            self._fill(row, state.id, last_sent + 1)
        row.state = state  # which may tell that it belongs to a group
        if not is_new:
            self._fill(row, state.id, last_sent + 1)
        row.last_sent = last_sent

    def _sent(self, identity: int, sequence: int) -> None:
        row = self._rows.get(identity)
        if row is None:  # made by a record that is lost, as may be the first messages it was sent
            row = self._rows[identity] = _Row()
            row.pending.update(range(max(1, sequence - self._lost_bytes // _LEAST_RECORD), sequence))
        self._fill(row, identity, sequence)
        row.pending.add(sequence)
        row.last_sent = max(row.last_sent, sequence)

    def _acked(self, identity: int, sequence: int) -> None:
        row = self._rows.get(identity)
        if row is None:
            return
        if sequence > row.last_sent and not self._lost_bytes:
            self._sent(identity, sequence)  # what it was, if only its type is damaged
            raise ProtocolError(f"an acknowledgement of {sequence:,}, which was not sent")
        row.pending.discard(sequence)

    def _fill(self, row: _Row, identity: int, sequence: int) -> None:
        """Take every sequence of this lane below `sequence` as sent and not acknowledged, after damage."""
        lane = _lane(row.state, identity)
        highest = self._doubtful.get(lane)
        if highest is not None:
            highest = max(highest, self._highest(lane))
            if sequence > highest:
                del self._doubtful[lane]
                row.pending.update(range(max(highest + 1, sequence - _MAX_FILLED), sequence))

    def _doubt(self, lost_bytes: int) -> None:
        self._lost_bytes += max(lost_bytes, 1)
        for identity, row in self._rows.items():
            lane = _lane(row.state, identity)
            self._doubtful[lane] = max(self._doubtful.get(lane, 0), row.last_sent)

    def _highest(self, lane: _Lane) -> int:
        rows = self._rows.items()
        return max((row.last_sent for identity, row in rows if _lane(row.state, identity) == lane), default=0)


def _lane(state: SubState | None, identity: int) -> _Lane:
    """Return the lane of a subscription: those who share one ascending row of sent messages, a queue group or
    one subscription.
    """
    return (state.q_group, 0) if state is not None and state.q_group else (b"", identity)


def _identified(key: int) -> int:
    if not key:
        raise ProtocolError("a subscription without an ID")
    return key


def _whole(message: _Deletion, record: Record) -> _Deletion:
    """A record's type has no checksum: what deletes must be nothing but that."""
    if message.encode() != record.body:
        raise ProtocolError("a removal with more than an ID")
    return message


def _undecodable(name: str, record: Record, error: ProtocolError) -> Finding:
    length = HEADER.size + len(record.body)
    return Finding(Severity.DAMAGED, name, f"a record of another kind ({error})", record.end - length, length)
