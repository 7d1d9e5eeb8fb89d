"""What a fuzz input of publications means, and what must hold whatever it is.

The input is lines that end with 0xFF: a byte whose lowest bits say how it is sent, a header block, 0xFE, a
payload. Each is one publication and one tick, played with lanes and without. Without, Python reads the
headers (`protocol.jetstream.headers`): a message is stored unless it asks for something else than to be
stored once, and not twice with the same id. What is stored, left to Python and answered is the same.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from fuzz.lane_playing import Connected, Service, check_lanes
from headrace.engine.ids import IdWindow
from headrace.engine.jetstream import Publications
from headrace.engine.lanes import HeldBytes, StreamCounts
from headrace.engine.publish_lane import PublishLane
from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage
from headrace.protocol.jetstream import headers as hdr

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from headrace.core.service import Delivery
    from headrace.engine.batches import Gathered
    from headrace.engine.service import ServiceLink
    from headrace.errors import LogError

NOW: Final = 7_000_000_000
LARGEST: Final = 300
MOST: Final = 200
"""Publications that are played."""
MSG_ID: Final = b"Nats-Msg-Id"
HEAD, TAIL, REPEATED = b'{"seq":', b"}", b',"duplicate":true}'
END, BEHIND_HEADERS = b"\xff", b"\xfe"


def check(data: bytes) -> None:
    check_lanes(data, _play)


class _Service(Service):
    """The stream's owner: it does in Python what the lane leaves, or everything."""

    def __init__(self) -> None:
        self.log = MemoryLog(clock=lambda: NOW)
        self.counts = StreamCounts()
        self.ids: dict[bytes, int] = {}
        self.left: list[Delivery] = []

    # -- the owner of the lane -------------------------------------------------------------------------

    def make_batch(self) -> Publications:
        return Publications(NewMessage)

    def take_over(self, batch: Publications, ids: dict[int, bytes], error: LogError | None) -> None:
        raise AssertionError((list(batch), ids, error))

    def appended(self, last: int, time_ns: int, stored: int) -> None:
        raise AssertionError((last, time_ns, stored))

    def hold(self, batch: Publications, first: int) -> None:
        raise AssertionError((list(batch), first))

    def announce(self, batch: Publications, first: int) -> bool:
        raise AssertionError((list(batch), first))

    # -- the session of the link -----------------------------------------------------------------------

    def deliver(self, batch: Sequence[Gathered[Delivery]]) -> None:
        for message in itertools.chain.from_iterable(batch):
            is_block = not message.headers or message.headers.startswith(hdr.FIRST_LINE)
            size = len(message.headers) + len(message.payload)
            ours = message.headers.count(b"\nNats-")
            msg_id = hdr.value(message.headers, MSG_ID)
            if not is_block or size > LARGEST or message.reply.endswith(b".$FI") or ours > bool(msg_id):
                self.left.append(message)
            elif msg_id in self.ids:
                self._answer(message, b"%d%b" % (self.ids[msg_id], REPEATED))
            else:
                if msg_id:
                    self.ids[msg_id] = self.log.state().last_sequence + 1
                self._store(message)

    def _store(self, message: Delivery) -> None:
        new = NewMessage(message.subject, message.payload, headers=message.headers, time_ns=NOW)
        self._answer(message, b"%d%b" % (self.log.append([new]), TAIL))

    def _answer(self, message: Delivery, rest: bytes) -> None:
        if message.reply:
            self.link.publish(message.reply, HEAD + rest)


def _play(data: bytes) -> tuple[object, ...]:
    service = _Service()
    connected = Connected(service)
    sid = connected.link.subscribe(b"s.>", gathered=True)
    connected.link.open_lane(sid, _lane(service, connected.link))
    for number, line in enumerate(data.split(END)[:MOST]):
        headers, _, payload = line[1:].partition(BEHIND_HEADERS)
        how = line[0] if line else 0
        reply = b"_INBOX.%d%b" % (number, b".$FI" if how & 6 == 6 else b"") if how & 1 else b""
        connected.sender.publish(b"s.a", payload, reply=reply, headers=headers)
        connected.run()
    stored = list(service.log.read_from(1, max_messages=MOST).messages)
    service.log.close()
    connected.end()
    return stored, connected.client.answers, service.left


def _lane(service: _Service, link: ServiceLink[Delivery]) -> PublishLane:
    ids = IdWindow()
    ids.window_ns, ids.is_filled = 10 * NOW, True
    lane = PublishLane(
        service.counts, service, ids, service.log, lambda: NOW, link.outgoing, HEAD, TAIL, REPEATED
    )
    lane.open(
        {},
        {},
        HeldBytes(),
        HeldBytes(),
        largest=LARGEST,
        answers=True,
        waits=False,
        marks=None,
        is_memory=True,
        trims=False,
        room=-1,
        room_of_all=0,
    )
    return lane


def publish_input(rng: random.Random) -> bytes:
    """Publications with headers as clients write them, and others."""
    lines = []
    for _ in range(rng.choice((1, 2, 5, 20))):
        block = rng.choice((_usual_headers, _usual_headers, _odd_headers))(rng)
        payload = b"x" * rng.choice((0, 5, 60, 200))
        lines.append(bytes([rng.choice((1, 1, 1, *range(8)))]) + block + BEHIND_HEADERS + payload)
    return END.join(lines)


def _usual_headers(rng: random.Random) -> bytes:
    block = hdr.FIRST_LINE + rng.choice((b"", b"", b"A: b\r\n"))
    msg_id = b"%b:%b\r\n" % (MSG_ID, rng.choice((b" 1", b" 1", b"1", b"  2", b" x y ")))
    return rng.choice((b"", block + b"\r\n", block + msg_id + b"\r\n", block + msg_id + b"C:\r\n\r\n"))


def _odd_headers(rng: random.Random) -> bytes:
    names = (b"A", b"nats-msg-id", MSG_ID, MSG_ID, b"Nats-TTL", b"Nats-Msg-Idx", b"X-Nats-Msg-Id")
    values = (b" 1", b"", b"  ", b" a\tb", b" \nNats-TTL: 1", b" \rNats-Msg-Id: 2", b" x" * 60)
    block = rng.choice((hdr.FIRST_LINE, hdr.FIRST_LINE, hdr.FIRST_LINE, b"NATS/1.0 100\r\n", b""))
    for _ in range(rng.randrange(4)):
        block += rng.choice(names) + rng.choice((b":", b":", b":", b" :", b"")) + rng.choice(values)
        block += rng.choice((b"\r\n", b"\r\n", b"\r\n", b"\n"))
    block += rng.choice((b"\r\n", b""))
    return rng.choice((block, block, block[: rng.randrange(len(block) + 1)]))
