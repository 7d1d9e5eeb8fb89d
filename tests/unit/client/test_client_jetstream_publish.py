"""JetStream's acknowledgements, frames and deliveries, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.client import jetstream_api
from headrace.client.codec import MessageBatch
from headrace.client.errors import JetStreamError, NoRespondersError
from headrace.client.jetstream_api import JetStreamApi, StreamFacts
from headrace.client.jetstream_publish import JetStreamWire
from headrace.client.pipeline import MessageColumns, NumberedAnswer, PublishAnswer, Sent
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

FACTS = StreamFacts("S", ("s.>",), 1, 1, 100, 0, 2_000_000_000, -1, True, True, 1)


class Line:
    """A connection whose answers are given beforehand."""

    max_payload = 1000
    is_open = True

    def __init__(self) -> None:
        self.batch = MessageBatch()
        self.subscribed: list[bytes] = []

    def new_inbox(self) -> bytes:
        return b"_MINE.%022d" % len(self.subscribed)

    def subscribe(self, subject: bytes) -> bytes:
        self.subscribed.append(subject)
        return b"%d" % len(self.subscribed)

    def receive_of(self, sid: bytes, timeout: float) -> MessageBatch:
        batch, self.batch = self.batch, MessageBatch()
        return batch

    def answer(self, wire: JetStreamWire, slot: int, payload: bytes, block: bytes | None = None) -> None:
        subject = b"%b%d" % (wire._inbox, slot)
        size = len(block or b"")
        self.batch.append((subject, b"1", None, size, size + len(payload)), block, payload)


def wire(line: Line, *, window: int = 4, with_ids: bool = True) -> JetStreamWire:
    made = JetStreamWire(FACTS, with_ids=with_ids, window=window, clock=lambda: 0.0)
    made.open(line)  # type: ignore[arg-type]
    return made


def sent(made: JetStreamWire, first: int, count: int) -> dict[int, Sent]:
    ids = [b"id-%d" % number for number in range(first, first + count)]
    columns = MessageColumns([b"s.a"] * count, [b"x"] * count, ids=ids)
    frames = made.encode(first, columns, 0, count)
    return dict(enumerate(map(Sent, frames, ids), first))


def settle(made: JetStreamWire, line: Line, on_their_way: dict[int, Sent]) -> Sequence[NumberedAnswer]:
    return made.settle(line, on_their_way, 1.0)  # type: ignore[arg-type]


def test_reply_subjects_are_those_that_the_connection_may_have() -> None:
    line = Line()
    made = wire(line)
    on_their_way = sent(made, 1, 1)
    assert line.subscribed == [b"_MINE.%022d.*" % 0]
    assert b" _MINE.%022d.1 " % 0 in on_their_way[1].frame
    made.open(line)  # type: ignore[arg-type]
    again = made.again(on_their_way[1].frame)
    assert b" _MINE.%022d.1 " % 1 in again
    assert len(again) == len(on_their_way[1].frame)


@pytest.mark.parametrize(
    ("payload", "ack"),
    [
        (b'{"stream":"S","seq":101}', (PublishAnswer.STORED, "")),
        (b'{"stream":"S", "seq":101}', (PublishAnswer.STORED, "")),
        (b'{"stream":"S","seq":7,"duplicate": true}', (PublishAnswer.DUPLICATE, "")),
        (b'{"stream":"S","domain":"hub","seq":101}', (PublishAnswer.STORED, "")),
        (b'{"stream":"S","domain":"hub","seq":101,"duplicate":true}', (PublishAnswer.DUPLICATE, "")),
        (
            b'{"error":{"code":429,"err_code":10167,"description":"too many"}}',
            (PublishAnswer.AGAIN, "too many"),
        ),
        (
            b'{"error":{"code":400,"err_code":10168,"description":"message counters is disabled"}}',
            (PublishAnswer.REFUSED, "message counters is disabled"),
        ),
        (
            b'{"error":{"code":400,"err_code":10077,"description":"no room"}}',
            (PublishAnswer.REFUSED, "no room"),
        ),
        (
            b'{"stream":"T","seq":1}',
            (PublishAnswer.REFUSED, "its subject belongs to stream T, which has stored it"),
        ),
    ],
)  # fmt: skip
def test_jetstream_acknowledgements_of_every_kind(payload: bytes, ack: tuple[PublishAnswer, str]) -> None:
    line = Line()
    made = wire(line)
    on_their_way = sent(made, 1, 2)
    line.answer(made, 2, payload)
    assert settle(made, line, on_their_way) == [NumberedAnswer(2, *ack)]


def test_jetstream_no_responders_is_asked_again() -> None:
    line = Line()
    made = wire(line)
    on_their_way = sent(made, 1, 1)
    line.answer(made, 1, b"", b"NATS/1.0 503\r\n\r\n")
    (ack,) = settle(made, line, on_their_way)
    assert ack.answer is PublishAnswer.AGAIN


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b"+OK", b'{"error":3}'])
def test_jetstream_answers_that_are_none_are_protocol_errors(payload: bytes) -> None:
    line = Line()
    made = wire(line)
    on_their_way = sent(made, 1, 1)
    line.answer(made, 1, payload)
    with pytest.raises(ProtocolError, match="not an acknowledgement"):
        settle(made, line, on_their_way)


def test_jetstream_slots_come_again_and_mean_the_newest_message() -> None:
    line = Line()
    made = wire(line, window=4)
    sent(made, 1, 4)
    on_their_way = sent(made, 5, 2)
    line.answer(made, 1, b'{"stream":"S","seq":105}')
    assert settle(made, line, on_their_way) == [NumberedAnswer(5, PublishAnswer.STORED)]


def test_jetstream_after_an_outage_an_answer_to_the_old_inbox_is_nobodys() -> None:
    line = Line()
    made = wire(line)
    frame = sent(made, 1, 1)[1].frame
    made.open(line)  # type: ignore[arg-type]
    again = made.again(frame)
    assert len(again) == len(frame)
    assert line.subscribed[0] != line.subscribed[1]
    assert line.subscribed[1].removesuffix(b"*") + b"1 " in again
    assert again.replace(line.subscribed[1][:-1], line.subscribed[0][:-1]) == frame


def test_jetstream_tail_is_searched_from_behind_the_last_one_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = Line()
    made = wire(line, window=8)
    on_their_way = sent(made, 1, 4)
    asked: list[int] = []

    def stored_ids(_api: Any, _facts: StreamFacts, first: int, wanted: Any) -> tuple[set[bytes], int]:
        asked.append(first)
        return {one for one in (b"id-3", b"id-9") if wanted(one)}, 2

    monkeypatch.setattr(JetStreamApi, "stream", lambda _api, _name: FACTS)
    monkeypatch.setattr(JetStreamApi, "stored_ids", stored_ids)
    line.answer(made, 1, b'{"stream":"S","seq":110}')
    settle(made, line, on_their_way)
    del on_their_way[1]
    assert made.stored(line, on_their_way) == [3]  # type: ignore[arg-type]
    line.answer(made, 2, b'{"error":{"code":429,"err_code":10167,"description":"too many requests"}}')
    settle(made, line, on_their_way)
    line.answer(made, 2, b'{"stream":"S","seq":120}')  # sent again, behind others that may be stored already
    settle(made, line, on_their_way)
    made.stored(line, on_their_way)  # type: ignore[arg-type]
    assert asked == [111, 111]
    assert wire(line, with_ids=False).stored(line, on_their_way) == []  # type: ignore[arg-type]


def test_jetstream_delivery_subjects_old_and_new() -> None:
    assert jetstream_api._delivery(b"$JS.ACK.S.c.1.17.1.123.5") == (17, 5)
    assert jetstream_api._delivery(b"$JS.ACK.hub.hash.S.c.1.17.1.123.5.x") == (17, 5)
    for bad in (b"$JS.ACK.S", b"$JS.ACK.S.c.1.x.1.123.5"):
        with pytest.raises(ProtocolError):
            jetstream_api._delivery(bad)


def test_jetstream_statuses_of_a_consumer() -> None:
    assert jetstream_api._is_end(b"NATS/1.0 404 No Messages\r\n\r\n")
    assert not jetstream_api._is_end(b"NATS/1.0 408 Request Timeout\r\n\r\n")
    with pytest.raises(NoRespondersError, match="Server Shutdown"):
        jetstream_api._is_end(b"NATS/1.0 409 Server Shutdown\r\n\r\n")
    with pytest.raises(ProtocolError):
        jetstream_api._is_end(None)


def test_jetstream_ids_out_of_header_blocks() -> None:
    assert jetstream_api._id_of(b"NATS/1.0\r\nA: b\r\nNats-Msg-Id: x/1\r\n\r\n") == b"x/1"
    assert jetstream_api._id_of(b"NATS/1.0\r\nA: Nats-Msg-Id: x\r\n\r\n") is None
    assert jetstream_api._id_of(None) is None


def test_jetstream_api_error_that_passes_is_an_outage() -> None:
    class Asked(Line):
        def __init__(self, data: bytes) -> None:
            super().__init__()
            self.data = data

        def request(self, *_arguments: Any, **_options: Any) -> Asked:
            return self

    busy = b'{"error":{"code":503,"err_code":10008,"description":"temporarily unavailable"}}'
    with pytest.raises(NoRespondersError, match="temporarily"):
        JetStreamApi(Asked(busy)).ask("STREAM.INFO.S")  # type: ignore[arg-type]
    gone = b'{"error":{"code":404,"err_code":10059,"description":"stream not found"}}'
    with pytest.raises(JetStreamError, match="stream not found") as caught:
        JetStreamApi(Asked(gone)).ask("STREAM.INFO.S")  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.err_code) == (404, 10059)
    for data in (b"", b"[]", b'{"error":1}'):
        with pytest.raises(ProtocolError):
            JetStreamApi(Asked(data)).ask("STREAM.INFO.S")  # type: ignore[arg-type]
    with pytest.raises(ProtocolError):
        JetStreamApi(Asked(b"{}")).stream("S")  # type: ignore[arg-type]
