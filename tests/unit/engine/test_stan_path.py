"""STAN's message path in compiled code against the same messages as classes: same bytes, same refusals."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from headrace.core.service import Delivery
from headrace.engine.batches import Gathered, Outgoing
from headrace.engine.memory import live_objects
from headrace.engine.messages import StoredMessages
from headrace.engine.stan import Publications, acknowledged, send, settle, sort_publications, without_gap
from headrace.errors import ProtocolError
from headrace.log.port import NewMessage, StoredMessage
from headrace.protocol.stan import Ack, MsgProto, PubAck, PubMsg

VECTORS: Final = Path(__file__).parents[2] / "conformance" / "streaming_bytes.json"
SECOND: Final = 1_700_000_000_000_000_000


def gathered(*payloads: bytes, reply: bytes = b"r") -> Gathered[Delivery]:
    return Gathered(Delivery, 1, [Delivery(1, b"s", reply, b"", payload) for payload in payloads])


class Desk:
    """Takes publications as a service does: any channel but `bad` and `full`, any client but `stranger`."""

    def __init__(self) -> None:
        self.batches: dict[bytes, Publications] = {}
        self.refused: list[tuple[bytes, bytes | None, bytes | None, bytes, bytes]] = []
        self.asked: list[tuple[bytes, bytes]] = []
        self.traced: list[tuple[bytes, bytes, bytes]] = []

    def may_publish(self, client_id: bytes, conn_id: bytes) -> bool:
        self.asked.append((client_id, conn_id))
        return client_id != b"stranger"

    def find(self, channel: bytes) -> Publications | bytes | None:
        if channel in (b"bad", b""):
            return None
        return b"too many" if channel == b"full" else Publications(NewMessage, channel)

    def sort(self, run: Gathered[Delivery]) -> None:
        sort_publications(
            run,
            self.batches,
            self.may_publish,
            self.find,
            lambda *refusal: self.refused.append(refusal),
            lambda *seen: self.traced.append(seen),
        )

    def taken(self) -> list[tuple[bytes, bytes, bytes]]:
        return [(m.subject, m.reply, m.payload) for batch in self.batches.values() for m in batch]


def sorted_by_class(payload: bytes) -> PubMsg | None:
    try:
        return PubMsg.decode(payload)
    except ProtocolError:
        return None


def check_same(payload: bytes) -> None:
    """Both readers say the same of any bytes."""
    desk, message = Desk(), sorted_by_class(payload)
    desk.sort(gathered(payload))
    if message is None:
        assert desk.refused == [(b"r", None, None, b"", b"")], payload
    elif message.guid and message.subject not in (b"", b"bad", b"full"):
        assert desk.taken() == [(message.subject, message.reply, message.data)], payload
        assert desk.asked == [(message.client_id, message.conn_id)]
    else:
        assert len(desk.refused) == 1
        assert desk.refused[0][2:] == (message.client_id, message.guid, message.subject), payload


def test_the_vectors() -> None:
    seen = set()
    for vector in json.loads(VECTORS.read_text(encoding="utf-8")):
        payload = bytes.fromhex(vector["hex"])
        match vector["message"]:
            case "PubMsg":
                check_same(payload)
            case "Ack":
                assert acknowledged(gathered(payload)) == [vector["fields"].get("sequence", 0)]
            case _:
                continue
        seen.add(vector["message"])
    assert seen == {"PubMsg", "Ack"}


def test_publications_are_sorted_by_channel_in_order() -> None:
    desk = Desk()
    desk.sort(
        gathered(*[PubMsg(b"me", b"g%d" % n, b"c%d" % (n % 3), data=b"%d" % n).encode() for n in range(9)])
    )
    desk.sort(gathered(PubMsg(b"me", b"g9", b"c0", b"back", b"9").encode()))
    assert {name: [m.payload for m in batch] for name, batch in desk.batches.items()} == {
        b"c0": [b"0", b"3", b"6", b"9"],
        b"c1": [b"1", b"4", b"7"],
        b"c2": [b"2", b"5", b"8"],
    }
    assert desk.batches[b"c0"][3] == NewMessage(b"c0", b"9", b"back")
    assert desk.batches[b"c0"].size == 4
    assert desk.asked == [(b"me", b"")] * 2
    assert [guid for _, _, guid in desk.traced] == [b"g%d" % n for n in range(10)]


def test_refusals_stand_alone() -> None:
    desk = Desk()
    good = PubMsg(b"me", b"g", b"c", data=b"x").encode()
    desk.sort(
        gathered(
            good,
            b"\xff",
            PubMsg(b"stranger", b"g", b"c").encode(),
            PubMsg(b"me", b"", b"c").encode(),
            PubMsg(b"me", b"g", b"bad").encode(),
            PubMsg(b"me", b"g", b"full").encode(),
            good,
        )
    )
    assert desk.refused == [
        (b"r", None, None, b"", b""),
        (b"r", None, b"stranger", b"g", b"c"),
        (b"r", None, b"me", b"", b"c"),
        (b"r", None, b"me", b"g", b"bad"),
        (b"r", b"too many", b"me", b"g", b"full"),
    ]
    assert len(desk.batches[b"c"]) == 2


def test_any_bytes_are_read_as_the_class_reads_them() -> None:
    random = Random(5)
    good = PubMsg(b"me", b"guid", b"chan", b"reply", b"data" * 50, b"conn", b"sha").encode()
    for cut in range(len(good)):
        check_same(good[:cut])
    for _ in range(20_000):
        bad = bytearray(good)
        for _ in range(random.randrange(1, 4)):
            place = random.randrange(len(bad))
            match random.randrange(3):
                case 0:
                    bad[place] = random.randrange(256)
                case 1:
                    del bad[place : place + random.randrange(1, 8)]
                case 2:
                    bad[place:place] = random.randbytes(random.randrange(1, 12))
            if not bad:
                break
        check_same(bytes(bad))


@pytest.mark.parametrize(
    "tail",
    [
        b"\x7a\x02hi",  # field 15, length-delimited
        b"\x78\x96\x01",  # field 15, varint
        b"\x79" + bytes(8),
        b"\x7d" + bytes(4),
        b"\x7d" + bytes(3),
        b"\x7b",  # a group
        b"\x02\x00",  # field 0
        b"\x08\x01",  # field 1 as a varint
        b"\x0a" + b"\xff" * 9 + b"\x01",  # a length of 2^64 - 1
        b"\x0a" + b"\x80" * 10 + b"\x01",
        b"\x82" + b"\x80" * 5 + b"\x01",
        b"\x82\x80\x80\x80\x10\x00",  # a number beyond 2^29
        b"\x2a\x00",
    ],
)
def test_fields_nobody_declared_and_wrong_ones(tail: bytes) -> None:
    check_same(PubMsg(b"me", b"g", b"c").encode() + tail)


def test_acknowledgements_of_publications() -> None:
    desk, out = Desk(), Outgoing()
    desk.sort(
        gathered(
            PubMsg(b"me", b"g" * 200, b"c").encode(), PubMsg(b"me", b"g2", b"c").encode(), reply=b"re.ply"
        )
    )
    desk.sort(gathered(PubMsg(b"me", b"g3", b"c").encode(), reply=b""))
    batch = desk.batches[b"c"]
    batch.acknowledge(out)
    batch.alone(1).acknowledge(out, b"e" * 300)
    assert out.take() == [
        (b"re.ply", b"", b"", PubAck(b"g" * 200).encode()),
        (b"re.ply", b"", b"", PubAck(b"g2").encode()),
        (b"re.ply", b"", b"", PubAck(b"g2", b"e" * 300).encode()),
    ]
    assert out.size == 0
    with pytest.raises(IndexError):
        batch.alone(3)


def test_publications_are_delivered_as_they_were_stored() -> None:
    desk, out = Desk(), Outgoing()
    desk.sort(
        gathered(*[PubMsg(b"me", b"g", b"c", b"back" * (n % 2), b"x" * n).encode() for n in (0, 1, 127, 128)])
    )
    batch = desk.batches[b"c"]
    batch.at(SECOND)
    batch.stored(126)
    assert [m.time_ns for m in batch] == [SECOND] * 4
    size = send(out, b"in.box", b"c", batch, 1, 3)
    expected = [MsgProto(126 + n, b"c", batch[n].reply, batch[n].payload, SECOND).encode() for n in (1, 2, 3)]
    assert out.take() == [(b"in.box", b"", b"", payload) for payload in expected]
    assert size == sum(map(len, expected))


def test_stored_messages_are_delivered() -> None:
    random, out = Random(6), Outgoing()
    times, sizes = [0, 1, SECOND, (1 << 63) - 1], [0, 1, 127, 128, 70_000]
    stored = []
    for _ in range(300):
        sequence = random.randrange(1, 1 << random.randrange(1, 63))
        reply, payload = (random.randbytes(random.choice(sizes)) for _ in range(2))
        stored.append(StoredMessage(sequence, random.choice(times), b"c", reply, b"", payload))
    send(out, b"i", b"c" * 200, StoredMessages(StoredMessage, stored), 0, len(stored))
    expected = [MsgProto(m.sequence, b"c" * 200, m.reply, m.payload, m.time_ns).encode() for m in stored]
    assert [payload for *_, payload in out.take()] == expected


def test_send_checks_what_it_is_asked() -> None:
    messages: Any = StoredMessages(StoredMessage, [StoredMessage(1, 1, b"", b"", b"", b"")])
    for start, count in ((0, 2), (1, 1), (-1, 1), (0, -1), (2, 0)):
        with pytest.raises(IndexError):
            send(Outgoing(), b"i", b"c", messages, start, count)
    for inbox in (b"", b"a b", b"a\r\nPUB x 0\r\n"):
        with pytest.raises(ValueError, match="not an inbox"):
            send(Outgoing(), inbox, b"c", messages, 0, 1)


def test_acks_are_read_as_the_class_reads_them() -> None:
    random = Random(7)
    payloads = [Ack(b"chan", random.randrange(1 << random.randrange(1, 64))).encode() for _ in range(200)]
    for payload in payloads[:]:
        bad = bytearray(payload)
        for _ in range(20):
            bad[random.randrange(len(bad))] = random.randrange(256)
            payloads.append(bytes(bad[: random.randrange(len(bad) + 1)]))
    expected: list[int | None] = []
    for payload in payloads:
        try:
            expected.append(Ack.decode(payload).sequence)
        except ProtocolError:
            expected.append(None)
    assert acknowledged(gathered(*payloads)) == expected
    assert None in expected


def test_settling_takes_out_what_is_pending_and_gives_what_is_not() -> None:
    random = Random(11)
    for _ in range(200):
        pending = dict.fromkeys(random.sample(range(1, 40), 20), 5)
        pending[(1 << 64) - 1] = 6
        sequences = [random.choice([*range(1, 40), (1 << 64) - 1]) for _ in range(random.randrange(60))]
        payloads = [Ack(b"chan", sequence).encode() for sequence in sequences]
        payloads.insert(random.randrange(len(payloads) + 1), b"\x0a\xff")
        model, acked, strays = dict(pending), [7], []
        for sequence in acknowledged(gathered(*payloads)):
            if sequence is None or model.pop(sequence, None) is None:
                strays.append(sequence)
            else:
                acked.append(sequence)
        taken = [7]
        assert settle(gathered(*payloads), pending, taken) == strays
        assert (pending, taken) == (model, acked)


def test_a_gap_is_seen_wherever_it_is() -> None:
    run = list(range(5, 50))
    assert without_gap([])
    assert without_gap([(1 << 64) - 1])
    assert without_gap(run)
    for place in range(1, len(run) - 1):
        assert not without_gap(run[:place] + run[place + 1 :])
        assert not without_gap([*run[:place], run[place - 1], *run[place + 1 :]])
    with pytest.raises(OverflowError):
        without_gap([-1])


def test_outgoing_refuses_what_breaks_a_wire() -> None:
    out = Outgoing()
    for subject, reply in ((b"", b""), (b"a b", b""), (b"a", b"b\r\nc"), (b"a\t", b""), (b"a\0", b"")):
        assert not out.add(subject, b"x", reply=reply)
    assert out.size == 0
    assert out.add(b"a", b"pay", reply=b"b", headers=b"NATS/1.0\r\n\r\n")
    assert out.take() == [(b"a", b"b", b"NATS/1.0\r\n\r\n", b"pay")]


def test_gathered_iterates_as_deliveries() -> None:
    deliveries = [Delivery(7, b"s%d" % n, b"r" * n, b"h" * n, b"p" * n) for n in range(5)]
    run = Gathered(Delivery, 7, deliveries)
    assert (run.sid, len(run), list(run)) == (7, 5, deliveries)
    assert list(Gathered(Delivery, 7)) == []


def test_nothing_stays_allocated() -> None:
    before = live_objects()
    desk, out = Desk(), Outgoing()
    desk.sort(gathered(*[PubMsg(b"me", b"g", b"c", data=b"x" * 5_000).encode()] * 100))
    batch = desk.batches.pop(b"c")
    batch.acknowledge(out)
    assert live_objects()["blocks"] > before["blocks"]
    del batch, out
    assert live_objects() == before


def test_outgoing_as_a_client_sends_it() -> None:
    out = Outgoing()
    headers = b"NATS/1.0\r\n\r\n"
    out.add(b"a", b"")
    out.add(b"b", b"pay", reply=b"re")
    out.add(b"large", b"x" * 30)
    out.add(b"c", b"load", reply=b"re", headers=headers)
    frames, refused = out.frames(29)
    assert frames == b"PUB a 0\r\n\r\nPUB b re 3\r\npay\r\nHPUB c re 12 16\r\n" + headers + b"load\r\n"
    assert refused == [(b"large", 30)]
    assert out.size == 0
    out.add(b"a", b"")
    out.clear()
    assert out.frames(9) == (b"", [])
