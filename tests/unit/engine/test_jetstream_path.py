"""JetStream's message path in compiled code beside the same rules in Python: same bytes, same refusals."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from headrace.core.service import Delivery
from headrace.engine.batches import Gathered, Outgoing
from headrace.engine.jetstream import Acks, Publications, deliver, settle, sort_acks, take_publications
from headrace.engine.memory import live_objects
from headrace.engine.messages import StoredMessages
from headrace.engine.pending import PendingMap
from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage, StoredMessage

SECOND: Final = 1_700_000_000_000_000_000
PLAIN: Final = b"NATS/1.0\r\nA: b\r\n\r\n"
LARGEST: Final = (1 << 64) - 1


def run_of(*messages: tuple[bytes, bytes, bytes, bytes]) -> Gathered[Delivery]:
    """A run of (subject, reply, headers, payload)."""
    return Gathered(Delivery, 1, [Delivery(1, *message) for message in messages])


def headers(*lines: bytes) -> bytes:
    return b"\r\n".join([b"NATS/1.0", *lines, b"", b""])


# ---- publications -------------------------------------------------------------------------------


def test_publications_become_messages_without_their_reply_subject() -> None:
    batch, special = Publications(NewMessage), list[Delivery]()
    take_publications(
        run_of((b"a", b"r.1", b"", b"one"), (b"b", b"", PLAIN, b"two"), (b"a", b"r.3", b"", b"")),
        batch,
        special.append,
    )
    assert list(batch) == [
        NewMessage(b"a", b"one"),
        NewMessage(b"b", b"two", b"", PLAIN),
        NewMessage(b"a", b""),
    ]
    assert batch.size == 6 + len(PLAIN)
    assert special == []


@pytest.mark.parametrize(
    "message",
    [
        (b"a", b"r", headers(b"Nats-Msg-Id: 1"), b""),
        (b"a", b"r", headers(b"A: b", b"Nats-Anything-At-All: 1"), b""),
        (b"a", b"r", b"NATS/1.0 404 none\r\n\r\n", b""),
        (b"a", b"r", b"NATS/1.0", b""),
        (b"a", b"r", b"\r\n\r\n", b"x"),
        (b"a", b"r", headers(b"A: " + b"x" * 65_536), b""),
        (b"a" * 65_536, b"r", b"", b""),
        (b"a", b"_INBOX.1.0.gap.0.$FI", b"", b"x"),
        (b"a", b"", b"", b"x" * 101),
        (b"a", b"", PLAIN, b"x" * (101 - len(PLAIN))),
    ],
)
def test_what_is_more_than_a_message_goes_elsewhere(message: tuple[bytes, bytes, bytes, bytes]) -> None:
    batch, special = Publications(NewMessage), list[Delivery]()
    take_publications(run_of(message), batch, special.append, 100)
    assert special == [Delivery(1, *message)]
    assert len(batch) == batch.size == 0


@pytest.mark.parametrize(
    "block",
    [
        headers(b"nats-msg-id: 1"),
        headers(b"NATS-Msg-Id: 1"),
        headers(b"X-Nats-Msg-Id: 1"),
        headers(b"A: Nats-Msg-Id: 1"),
        headers(),
    ],
)
def test_headers_that_only_look_like_orders_are_part_of_the_message(block: bytes) -> None:
    batch = Publications(NewMessage)
    take_publications(run_of((b"a", b"$FI", block, b"x" * 50)), batch, pytest.fail, 100)
    assert list(batch) == [NewMessage(b"a", b"x" * 50, b"", block)]


def test_what_follows_a_special_one_goes_where_it_says() -> None:
    first, second = Publications(NewMessage), Publications(NewMessage)
    special = headers(b"Nats-Msg-Id: 1")
    order = list[int]()

    def flush(_delivery: Delivery) -> Publications | None:
        order.append(len(first))
        return second if len(order) == 2 else None

    messages = [(b"a", b"", special if n in (1, 3) else b"", b"%d" % n) for n in range(6)]
    take_publications(run_of(*messages), first, flush)
    assert order == [1, 2]
    assert [m.payload for m in first] == [b"0", b"2"]
    assert [m.payload for m in second] == [b"4", b"5"]


def test_pub_acks() -> None:
    batch, out = Publications(NewMessage), Outgoing()
    take_publications(
        run_of((b"a", b"r.1", b"", b"1"), (b"a", b"", b"", b"2"), (b"a", b"bad reply", b"", b"3")),
        batch,
        pytest.fail,
    )
    batch.add(b"b", b"4", reply=b"r.4", headers=PLAIN, ttl_ns=5)
    batch.stored(9)
    batch.acknowledge(out, b'{"stream":"S","seq":', b"}")
    batch.refuse(out, b"no")
    assert out.take() == [
        (b"r.1", b"", b"", b'{"stream":"S","seq":9}'),
        (b"r.4", b"", b"", b'{"stream":"S","seq":12}'),
        (b"r.1", b"", b"", b"no"),
        (b"r.4", b"", b"", b"no"),
    ]
    assert batch[3] == NewMessage(b"b", b"4", b"", PLAIN, 0, 5)


@pytest.mark.parametrize("sequence", [1, 9, 10, 99, 100, 1 << 32, LARGEST - 1, LARGEST])
def test_every_sequence_is_written_in_full(sequence: int) -> None:
    batch, out = Publications(NewMessage), Outgoing()
    batch.add(b"a", b"", reply=b"r")
    batch.stored(sequence)
    batch.acknowledge(out, b"", b"")
    assert out.take() == [(b"r", b"", b"", b"%d" % sequence)]


def test_parts_of_a_batch() -> None:
    batch, out = Publications(NewMessage), Outgoing()
    for n in range(20):
        batch.add(b"s%d" % n, b"p" * n, reply=b"r%d" % n, time_ns=n)
    batch.at(SECOND)
    some = batch.part(3, 4)
    one = batch.part(19, 1)
    assert list(some) == list(batch)[3:7]
    assert (some.size, one.size, len(batch.part(20, 0))) == (3 + 4 + 5 + 6, 19, 0)
    assert batch[0].time_ns == SECOND
    assert batch[1].time_ns == 1
    del batch
    one.refuse(out, b"no")
    assert out.take() == [(b"r19", b"", b"", b"no")]
    for start, count in ((0, 5), (-1, 1), (0, -1), (5, 0)):
        with pytest.raises(IndexError):
            some.part(start, count)
    for ttl, time in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="cannot be negative"):
            some.add(b"a", b"", ttl_ns=ttl, time_ns=time)


def test_publications_are_what_a_log_takes() -> None:
    log, batch = MemoryLog(), Publications(NewMessage)
    take_publications(run_of(*[(b"a.%d" % n, b"r", PLAIN, b"%d" % n) for n in range(50)]), batch, pytest.fail)
    batch.at(SECOND)
    batch.stored(log.append(batch))
    stored = list(log.read_from(1).messages)
    assert stored == [StoredMessage(n + 1, SECOND, b"a.%d" % n, b"", PLAIN, b"%d" % n) for n in range(50)]


# ---- acknowledgements ---------------------------------------------------------------------------


def read_ack(subject: bytes) -> tuple[bytes, bytes, int, int, int] | None:
    """(stream, consumer, stream sequence, consumer sequence, deliveries) by the rules."""
    tokens = subject.split(b".")
    if tokens[:2] != [b"$JS", b"ACK"] or (len(tokens) != 9 and len(tokens) < 11):
        return None
    stream, consumer, *texts = tokens[4:] if len(tokens) > 9 else tokens[2:]
    if not all(text.isdigit() and len(text) <= 20 and int(text) <= LARGEST for text in texts[:3]):
        return None
    deliveries, sequence, consumer_sequence = map(int, texts[:3])
    return (stream, consumer, sequence, consumer_sequence, deliveries) if sequence else None


def acks_to(*subjects: bytes, reply: bytes = b"", payload: bytes = b"") -> Gathered[Delivery]:
    return run_of(*[(subject, reply, b"", payload) for subject in subjects])


class Desk:
    """The consumers of a test: each has Acks once it is asked for, but for those of `GONE`."""

    def __init__(self) -> None:
        self.acks: dict[tuple[bytes, bytes], Acks] = {}
        self.asked: list[tuple[bytes, bytes]] = []
        self.special: list[Delivery] = []

    def find(self, stream: bytes, consumer: bytes) -> Acks | None:
        self.asked.append((stream, consumer))
        if stream == b"GONE":
            return None
        return self.acks.setdefault((stream, consumer), Acks((stream, consumer)))

    def sort(self, run: Gathered[Delivery]) -> list[Acks]:
        return sort_acks(run, self.find, self.special.append)


def test_acknowledgements_are_sorted_by_consumer() -> None:
    desk = Desk()
    touched = desk.sort(
        run_of(
            (b"$JS.ACK.S.a.1.10.20.1700000000000000000.5", b"r", b"", b""),
            (b"$JS.ACK.S.a.2.11.21.1700000000000000000.4", b"", PLAIN, b"+ACK"),
            (b"$JS.ACK.S.b.1.12.1.1700000000000000000.3", b"", b"", b"+OK"),
            (b"$JS.ACK.GONE.b.1.12.1.1700000000000000000.3", b"", b"", b""),
            (b"$JS.ACK._.hash.S.a.1.13.22.1700000000000000000.3", b"", b"", b""),
            (b"$JS.ACK.hub.hash.S.a.1.14.23.1700000000000000000.3.x1y2", b"", b"", b""),
        )
    )
    a, b = desk.acks[b"S", b"a"], desk.acks[b"S", b"b"]
    assert list(map(id, touched)) == [id(a), id(b)]
    assert list(a) == [(10, 20, 1, b"r"), (11, 21, 2, b""), (13, 22, 1, b""), (14, 23, 1, b"")]
    assert (list(b), b.owner) == ([(12, 1, 1, b"")], (b"S", b"b"))
    assert (a.sequences(), a.replies(), len(a)) == ([10, 11, 13, 14], [b"r"], 4)
    assert desk.asked == [(b"S", b"a"), (b"S", b"b"), (b"GONE", b"b"), (b"S", b"a")]
    a.clear()
    assert (len(a), list(a)) == (0, [])
    assert [ack.owner for ack in desk.sort(acks_to(b"$JS.ACK.S.b.1.13.2.0.0"))] == [(b"S", b"b")]


@pytest.mark.parametrize(
    "payload", [b"-NAK", b'-NAK {"delay":1}', b"+WPI", b"+NXT", b"+TERM", b"+ack", b"+ACK ", b"\0"]
)
def test_what_says_something_else_goes_elsewhere(payload: bytes) -> None:
    desk = Desk()
    subject = b"$JS.ACK.S.a.1.10.20.1700000000000000000.5"
    assert desk.sort(run_of((subject, b"r", PLAIN, payload))) == []
    assert desk.special == [Delivery(1, subject, b"r", PLAIN, payload)]


def test_a_special_one_comes_in_its_place_and_may_end_the_consumer() -> None:
    acks, seen = Acks(), list[list[int]]()

    def special(_delivery: Delivery) -> None:
        seen.append(acks.sequences())
        acks.clear()

    subject = b"$JS.ACK.S.a.1.%d.1.0.0"
    run = [(subject % n, b"", b"", b"-NAK" if n in (3, 4) else b"") for n in range(1, 7)]
    touched = sort_acks(run_of(*run), lambda *_: acks if len(seen) < 2 else None, special)
    assert (seen, touched) == ([[1, 2], []], [])


@pytest.mark.parametrize(
    "subject",
    [
        b"",
        b"$JS.ACK",
        b"$JS.ACK.S.a.1.10.20.5",
        b"$JS.ACK.S.a.1.10.20.0.5.6",
        b"$JS.NAK.S.a.1.10.20.0.5",
        b"$JT.ACK.S.a.1.10.20.0.5",
        b"$JS.ACK.S.a.1.0.20.0.5",
        b"$JS.ACK.S.a.1..20.0.5",
        b"$JS.ACK.S.a.1.-1.20.0.5",
        b"$JS.ACK.S.a.1.1x.20.0.5",
        b"$JS.ACK.S.a.1.18446744073709551616.20.0.5",
        b"$JS.ACK.S.a.1.99999999999999999999.20.0.5",
        b"$JS.ACK.S.a.1.000000000000000000001.20.0.5",
        b"$JS.ACK.S.a.x.10.20.0.5",
        b"$JS.ACK.S.a.1.10..0.5",
        b"." * 8,
        b"." * 5000,
    ],
)
def test_a_subject_that_is_none_is_dropped(subject: bytes) -> None:
    desk = Desk()
    assert desk.sort(run_of((subject, b"r", b"", b""), (subject, b"r", b"", b"-NAK"))) == []
    assert (desk.asked, desk.special) == ([], [])


def test_any_subject_is_read_as_the_rules_say() -> None:
    random = Random(23)
    good = [
        b"$JS.ACK.stream.consumer.1.2.3.1700000000000000000.5",
        b"$JS.ACK._.hash.stream.consumer.1.18446744073709551615.3.1700000000000000000.5",
        b"$JS.ACK.hub.hash.stream.consumer.1.2.18446744073709551615.1700000000000000000.5.random",
    ]
    subjects = good + [one[:cut] for one in good for cut in range(len(one))]
    for _ in range(20_000):
        bad = bytearray(random.choice(good))
        for _ in range(random.randrange(1, 4)):
            place = random.randrange(len(bad))
            match random.randrange(3):
                case 0:
                    bad[place] = random.choice(b"..0123456789$JSACK*> \0\xff")
                case 1:
                    del bad[place : place + random.randrange(1, 8)]
                case 2:
                    bad[place:place] = random.choice(
                        (b".", b"9" * random.randrange(1, 22), b"0", b"..", b"+")
                    )
            if not bad:
                break
        subjects.append(bytes(bad))
    read = 0
    for subject in subjects:
        desk, expected = Desk(), read_ack(subject)
        desk.sort(acks_to(subject))
        assert [(*names, *ack[:3]) for names, acks in desk.acks.items() for ack in acks] == (
            [expected] if expected else []
        ), subject
        read += expected is not None
    assert 1000 < read < len(subjects) - 1000


def test_settling_takes_out_what_is_pending() -> None:
    random = Random(29)
    for _ in range(200):
        pending = PendingMap((one, 1, 2) for one in [*random.sample(range(1, 40), 20), LARGEST])
        desk, model, taken, replies = Desk(), dict(pending.items()), [7], []
        for _ in range(random.randrange(60)):
            sequence = random.choice([*range(1, 40), LARGEST])
            reply = random.choice((b"", b"r%d" % sequence))
            desk.sort(acks_to(b"$JS.ACK.S.a.1.%d.1.0.0" % sequence, reply=reply))
            if reply:
                replies.append(reply)
            if model.pop(sequence, None):
                taken.append(sequence)
        acks, acked = desk.find(b"S", b"a"), [7]
        assert acks is not None
        assert settle(acks, pending, acked) == replies
        assert (dict(pending.items()), acked, len(acks)) == (model, taken, 0)


def test_what_was_not_delivered_yet_cannot_be_acknowledged() -> None:
    desk, acked, pending = Desk(), list[int](), PendingMap([(5, 1, 2), (6, 2, 2)])
    desk.sort(acks_to(*[b"$JS.ACK.S.a.1.%d.1.0.0" % n for n in (4, 5, 6, 7)], reply=b"r"))
    acks = desk.acks[b"S", b"a"]
    assert settle(acks, pending, acked, 6) == [b"r", b"r"]
    assert (list(pending.items()), acked, len(acks)) == ([(6, (2, 2))], [5], 0)


# ---- deliveries ---------------------------------------------------------------------------------


def stored(*messages: tuple[int, int, bytes, bytes, bytes]) -> StoredMessages[Any]:
    """(sequence, time, subject, headers, payload) as a log gives them."""
    return StoredMessages(StoredMessage, [StoredMessage(s, t, x, b"", h, p) for s, t, x, h, p in messages])


def test_deliveries_are_shown_with_their_subjects() -> None:
    messages = stored(
        (7, SECOND, b"x", b"", b"0"),
        (8, SECOND, b"orders.1", b"", b"one"),
        (1 << 40, SECOND + 1, b"orders.2", PLAIN, b""),
        (LARGEST, 0, b"orders.3", b"", b"three"),
        (LARGEST, 0, b"x", b"", b"4"),
    )
    out, pending = Outgoing(), PendingMap()
    size = deliver(out, b"in.box", b"$JS.ACK.S.a.", messages, 1, 3, 99, 1, pending, SECOND + 5)
    sent = out.take_shown()
    assert sent == [
        (b"in.box", b"orders.1", b"$JS.ACK.S.a.1.8.99.%d.1" % SECOND, b"", b"one"),
        (b"in.box", b"orders.2", b"$JS.ACK.S.a.1.%d.100.%d.0" % (1 << 40, SECOND + 1), PLAIN, b""),
        (b"in.box", b"orders.3", b"$JS.ACK.S.a.1.%d.101.0.0" % LARGEST, b"", b"three"),
    ]
    assert size == sum(len(b"".join((to, reply, block, body))) for to, _, reply, block, body in sent)
    assert list(pending.items()) == [
        (8, (99, SECOND + 5)),
        (1 << 40, (100, SECOND + 5)),
        (LARGEST, (101, SECOND + 5)),
    ]


@pytest.mark.parametrize("start", [1, 8, 98, 9_998, (1 << 32) - 2, LARGEST - 12])
def test_numbers_of_many_deliveries(start: int) -> None:
    """Also where digits are added, and where the number of what is still to come runs out of them."""
    random, out = Random(31), Outgoing()
    times = [random.choice((0, SECOND, SECOND + 1)) for _ in range(12)]
    messages = stored(*[(start + n + n // 7, times[n], b"x", b"", b"") for n in range(12)])
    deliver(out, b"i", b"p.", messages, 0, 12, start, start + 4, None, 1)
    assert [reply for _, _, reply, *_ in out.take_shown()] == [
        b"p.1.%d.%d.%d.%d" % (start + n + n // 7, start + n, times[n], max(start + 4 - n, 0))
        for n in range(12)
    ]


def test_a_message_that_is_delivered_again_keeps_its_place() -> None:
    messages, out = stored((8, 1, b"x", b"", b"")), Outgoing()
    pending = PendingMap([(8, 1, 5), (9, 2, 5)])
    deliver(out, b"i", b"$JS.ACK.S.a.", messages, 0, 1, 3, 0, pending, 70, deliveries=2)
    deliver(out, b"i", b"$JS.ACK.S.a.", messages, 0, 1, 4, 0, None, 80, deliveries=3)
    assert list(pending.items()) == [(8, (1, 70)), (9, (2, 5))]
    assert [reply for _, _, reply, *_ in out.take_shown()] == [
        b"$JS.ACK.S.a.2.8.3.1.0",
        b"$JS.ACK.S.a.3.8.4.1.0",
    ]


@pytest.mark.parametrize("extra", [b"", b"Nats-Pin-Id: x\r\n", b"A: 1\r\nB: 2\r\n"])
@pytest.mark.parametrize("block", [b"", PLAIN, headers(), b"x"])
@pytest.mark.parametrize("payload", [b"", b"x" * 9, b"x" * 10, b"x" * 70_000])
@pytest.mark.parametrize("headers_only", [False, True])
def test_headers_that_are_added(extra: bytes, block: bytes, payload: bytes, headers_only: bool) -> None:
    out = Outgoing()
    messages = stored((1, 1, b"x", block, payload))
    deliver(out, b"i", b"p.", messages, 0, 1, 1, 0, None, 1, headers_only=headers_only, extra=extra)
    size = b"Nats-Msg-Size: %d\r\n" % len(payload) if headers_only else b""
    begun = block[:-2] if len(block) > 2 else b"NATS/1.0\r\n"
    expected = begun + extra + size + b"\r\n" if extra or size or block else b""
    assert out.take() == [(b"i", b"p.1.1.1.1.0", expected, b"" if headers_only else payload)]


def test_publications_are_delivered_as_they_were_stored() -> None:
    batch, out = Publications(NewMessage), Outgoing()
    take_publications(run_of(*[(b"s.%d" % n, b"r", b"", b"%d" % n) for n in range(5)]), batch, pytest.fail)
    batch.at(SECOND)
    batch.stored(100)
    deliver(out, b"i", b"$JS.ACK.S.a.", batch, 2, 2, 1, 7, None, 0)
    assert out.take_shown() == [
        (b"i", b"s.2", b"$JS.ACK.S.a.1.102.1.%d.7" % SECOND, b"", b"2"),
        (b"i", b"s.3", b"$JS.ACK.S.a.1.103.2.%d.6" % SECOND, b"", b"3"),
    ]


@pytest.mark.parametrize("subject", [b"", b"a b", b"a\r\nMSG x 1 0\r\n\r\n"])
def test_a_subject_that_would_break_the_wire_is_not_shown(subject: bytes) -> None:
    out = Outgoing()
    deliver(out, b"i", b"p.", stored((1, 1, subject, b"", b"x")), 0, 1, 1, 0, None, 1)
    assert out.take_shown() == [(b"i", b"i", b"p.1.1.1.1.0", b"", b"x")]


def test_deliver_checks_what_it_is_asked() -> None:
    messages = stored((1, 1, b"x", b"", b""))
    for start, count in ((0, 2), (1, 1), (-1, 1), (0, -1), (2, 0)):
        with pytest.raises(IndexError):
            deliver(Outgoing(), b"i", b"p.", messages, start, count, 1, 0, None, 1)
    for inbox in (b"", b"a b", b"a\r\nPUB x 0\r\n"):
        with pytest.raises(ValueError, match="not an inbox"):
            deliver(Outgoing(), inbox, b"p.", messages, 0, 1, 1, 0, None, 1)
    for prefix in (b"", b"a b.", b"p" * 1025):
        with pytest.raises(ValueError, match="not the beginning"):
            deliver(Outgoing(), b"i", prefix, messages, 0, 1, 1, 0, None, 1)
    out, longest = Outgoing(), b"p" * 1024
    deliver(
        out,
        b"i",
        longest,
        stored((LARGEST, -1, b"x", b"", b"")),
        0,
        1,
        LARGEST,
        LARGEST,
        None,
        1,
        deliveries=LARGEST,
    )
    assert out.take()[0][1] == longest + b".".join([b"%d" % LARGEST] * 5)


def test_nothing_stays_allocated() -> None:
    before = live_objects()
    batch, out, desk = Publications(NewMessage), Outgoing(), Desk()
    take_publications(run_of(*[(b"a", b"r", b"", b"x" * 500)] * 100), batch, pytest.fail)
    desk.sort(acks_to(*[b"$JS.ACK.S.a.1.%d.1.0.0" % n for n in range(1, 100)], reply=b"r"))
    batch.acknowledge(out, b"", b"")
    deliver(out, b"i", b"p.", batch, 0, 100, 1, 0, PendingMap(), 1)
    assert live_objects()["blocks"] > before["blocks"]
    del batch, out, desk
    assert live_objects() == before
