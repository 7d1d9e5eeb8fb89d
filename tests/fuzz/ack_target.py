"""What a fuzz input of acknowledgements means, and what must hold whatever it is.

The input is lines: a byte whose lowest bit says whether the sender wants to know, the subject behind
`$JS.ACK.`, a tabulator, the payload. They come in one tick, and are played with lanes and without: what is
pending, the floors, what the journal would give back and the confirmations are the same.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from fuzz.lane_playing import Connected, Service, check_lanes
from headrace.engine.ack_lane import AckLane
from headrace.engine.consumer import ChangeCounts, ConsumerDeltas, ConsumerTable, DeltaWriter
from headrace.engine.jetstream import Acks, settle, sort_acks
from headrace.engine.messages import NewMessages
from headrace.jetstream.consumer.ack_state import AckState, ConsumerState
from headrace.log.committer import SyncMarks
from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage
from headrace.protocol.jetstream.configs import AckPolicy

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from headrace.core.service import Delivery
    from headrace.engine.batches import Gathered

NOW: Final = 7
CONSUMERS: Final = ("C", "D", "long-name")
"""The consumers of the stream S; Python looks at acknowledgements for the second one."""
DELIVERED: Final = 30
MOST: Final = 1000
"""Lines that are played."""
_ENTRY: Final = Struct("<cIQ")


def check(data: bytes) -> None:
    check_lanes(data, _play)


class _Journal(ChangeCounts):
    """Keeps what changed of consumers; who waits for it is told at once, so no turn is asked for."""

    def __init__(self, deltas: ConsumerDeltas) -> None:
        self.log: MemoryLog = MemoryLog()
        self.most_growth = 1 << 62
        deltas.timer = self
        marks = SyncMarks(None, {}, self._no_call)
        self.writer = DeltaWriter(
            self, deltas, marks, batch=NewMessages(NewMessage), subject=b"journal", copies=[b""]
        )

    def _no_call(self, *arguments: object) -> None:
        raise AssertionError(arguments)

    confirm = failed = snapshot_if_grown = _no_call

    def write(self, entries: bytes) -> None:
        self.log.append([NewMessage(b"journal", entries)])

    def written(self) -> bytes:
        """Everything that was, in order."""
        return b"".join(message.payload for message in self.log.read_from(1, max_messages=2 * MOST).messages)

    def close(self) -> None:
        self.log.close()
        del self.writer


class _Service(Service):
    """Answers as an account does, once all is written."""

    def __init__(self, deltas: ConsumerDeltas, journal: _Journal) -> None:
        self.acks: dict[tuple[bytes, bytes], Acks] = {}
        self.special: list[Delivery] = []
        self._deltas = deltas
        self._journal = journal

    def deliver(self, batch: Sequence[Gathered[Delivery]]) -> None:
        for run in batch:
            for acks in sort_acks(run, self._find, self.special.append):
                core: AckState = acks.owner
                replies = [reply for sequence, *_, reply in acks if reply and sequence < core.next_sequence]
                done: list[int] = []
                settle(acks, core.pending, done)
                core.active_ns = NOW
                core.settled(done, NOW)
                for reply in replies:
                    self.link.publish(reply, b"")
        self._journal.write(self._deltas.take())

    def _find(self, stream: bytes, consumer: bytes) -> Acks | None:
        return self.acks.get((stream, consumer))


def _play(data: bytes) -> tuple[object, ...]:
    deltas, table = ConsumerDeltas(), ConsumerTable()
    journal = _Journal(deltas)
    service = _Service(deltas, journal)
    connected = Connected(service)
    cores, kept = list[AckState](), list[ConsumerState]()
    for identity, name in enumerate(CONSUMERS):
        core = AckState(AckPolicy.EXPLICIT, ConsumerState(), deltas)
        core.identity, core.is_stored, core.settles_alone = identity, True, name != "D"
        for sequence in range(1, DELIVERED + 1):
            core.sent_one(3 * sequence, NOW)
        core.forget_changes()
        deltas.discard(identity)
        kept.append(ConsumerState.decode(core.state.encode()))
        table.add(b"S." + name.encode(), core)
        service.acks[b"S", name.encode()] = Acks(core)
        cores.append(core)
    link = connected.link
    sid = link.subscribe(b"$JS.ACK.>", gathered=True)
    link.open_lane(sid, AckLane(table, link.outgoing, journal, lambda: NOW))
    for number, line in enumerate(data.split(b"\n")[:MOST]):
        subject, _, payload = line[1:].partition(b"\t")
        reply = b"_INBOX.%d" % number if line[:1] and line[0] & 1 else b""
        connected.sender.publish(b"$JS.ACK." + subject, payload, reply=reply)
    connected.run()
    journal.write(deltas.take())  # what nobody waits for is written later
    for identity, delta in _entries(journal.written()):
        kept[identity].apply(delta)
    assert kept == [core.state for core in cores]
    connected.end()
    journal.close()
    deltas.timer = None
    return (
        [list(core.pending.items()) for core in cores],
        [(core.state.numbers, core.floor_consumer, core.floor_stream) for core in cores],
        [(core.active_ns, core.acknowledged_ns) for core in cores],
        sorted(connected.client.answers),
        service.special,
    )


def _entries(changes: bytes) -> Iterator[tuple[int, bytes]]:
    """The identity of a consumer and what changed of it, of each entry of a journal."""
    at = 0
    while at < len(changes):
        _, size, identity = _ENTRY.unpack_from(changes, at)
        yield identity, changes[at + _ENTRY.size : at + 5 + size]
        at += 5 + size


def ack_input(rng: random.Random) -> bytes:
    """Acknowledgements as clients send them, and others."""
    lines = []
    for _ in range(rng.choice((1, 2, 5, 40))):
        name = rng.choice((*CONSUMERS, *CONSUMERS, "", "E"))
        sequence = rng.choice((3 * rng.randrange(DELIVERED + 2), rng.randrange(200), 1 << 64, (1 << 64) - 1))
        front = rng.choice(("", "", "_.hash.", "hub.hash."))
        behind = rng.choice(("", "", ".x", ".x.y"))
        numbers = rng.choice((f"1.{sequence}.{sequence // 3}.7.0", f"2.{sequence}.1.7", "1.2.3"))
        body = rng.choice(("", "", "+ACK", "+ACK", "+OK", "+ACK ", "-NAK", "+TERM", "+WPI", "\0"))
        mark = rng.choice("01")
        lines.append(
            f"{mark}{front}{rng.choice(('S', 'S', 'S', 'T'))}.{name}.{numbers}{behind}\t{body}".encode()
        )
    return b"\n".join(lines)
