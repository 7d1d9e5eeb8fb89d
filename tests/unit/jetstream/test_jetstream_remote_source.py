"""A source that only the API reaches: its requests, what follows when messages are missing, and retries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.js_account import Place, Sent
from headrace.protocol.jetstream import headers as block

EXTERNAL = {"api": "FROM.API", "deliver": "TO.me"}
CONTROL = b"NATS/1.0 100 Idle Heartbeat\r\n"


class Origin:
    """The API and the consumer of another account, by hand."""

    def __init__(self, kind: str = "sources", **source: Any) -> None:
        self.place = Place()
        described = {"name": "O", "external": EXTERNAL, **source}
        config = {"mirror": described} if kind == "mirror" else {"sources": [described]}
        self.place.stream("S", **config)
        self.sid = 0
        self.deliver = b""

    @property
    def asked(self) -> list[Sent]:
        """Requests since the last look."""
        found = [one for one in self.place.host.sent if one.to.startswith(b"FROM.API.")]
        self.place.host.sent.clear()
        return found

    def answer(self, request: Sent, **fields: Any) -> None:
        config = json.loads(request.payload)["config"] if request.payload else {}
        self.deliver = (
            fields.get("config", config)["deliver_subject"].encode() if "error" not in fields else b""
        )
        body = {"name": "made", "config": config, "delivered": {"stream_seq": 0}} | fields
        self.place.host.put(request.reply, json.dumps(body).encode())
        self.place.host.tick()

    def send(
        self,
        number: int,
        sequence: int,
        payload: bytes = b"x",
        *,
        consumer: str = "made",
        pending: int = 0,
        headers: bytes = b"",
    ) -> None:
        self.put(number, sequence, payload, consumer=consumer, pending=pending, headers=headers)
        self.place.host.tick()

    def put(
        self,
        number: int,
        sequence: int,
        payload: bytes = b"x",
        *,
        consumer: str = "made",
        pending: int = 0,
        headers: bytes = b"",
    ) -> None:
        """A message for the next tick."""
        reply = f"$JS.ACK.O.{consumer}.1.{sequence}.{number}.1700000000000000000.{pending}"
        self.place.host.put(self.deliver, payload, reply.encode(), headers)

    def control(self, reply: bytes = b"", **lines: object) -> None:
        text = b"".join(
            b"%s: %s\r\n" % (name.replace("_", "-").encode(), str(one).encode())
            for name, one in lines.items()
        )
        self.place.host.put(self.deliver, b"", reply, CONTROL + text + b"\r\n")
        self.place.host.tick()

    def held(self) -> list[tuple[int, bytes]]:
        messages = self.place.account.streams["S"].log.read_from(0).messages
        return [(message.sequence, message.payload) for message in messages]

    def info(self) -> Any:
        answer = self.place.ask("STREAM.INFO.S")
        return answer.get("mirror") or answer["sources"][0]


def config_of(request: Sent) -> Any:
    return json.loads(request.payload)["config"]


def test_what_it_asks_for() -> None:
    (request,) = Origin(filter_subject="o.a").asked
    config = config_of(request)
    assert request.to.startswith(b"FROM.API.CONSUMER.CREATE.O.JS_SRC_")
    assert request.to.endswith(b".o.a")
    assert config["deliver_subject"].startswith("TO.me.S.")
    assert (config["ack_policy"], config["flow_control"], config["direct"]) == ("none", True, True)
    assert (config["deliver_policy"], config["filter_subject"]) == ("all", "o.a")
    (request,) = Origin("mirror", opt_start_seq=7).asked
    config = config_of(request)
    assert request.to == b"FROM.API.CONSUMER.CREATE.O"
    assert config["name"].startswith("JS_MIRROR_")
    assert (config["deliver_policy"], config["opt_start_seq"]) == ("by_start_sequence", 7)


def test_messages_are_taken_in_order() -> None:
    origin = Origin("mirror")
    origin.answer(origin.asked[0])
    origin.send(1, 1, b"a", pending=2)
    assert origin.info()["lag"] == 1
    origin.send(1, 1, b"again")
    origin.send(9, 9, b"of another", consumer="old")
    origin.send(2, 4, b"b")
    assert origin.held() == [(1, b"a"), (4, b"b")]
    assert origin.info()["lag"] == 0


def test_a_mirror_begins_where_its_origin_does() -> None:
    origin = Origin("mirror")
    origin.answer(origin.asked[0], delivered={"stream_seq": 41})
    assert origin.place.ask("STREAM.INFO.S")["state"]["last_seq"] == 41
    origin.send(1, 42, b"a")
    assert origin.held() == [(42, b"a")]


@pytest.mark.parametrize("how", ["a message", "a heartbeat"])
def test_what_is_missing_is_asked_for_again(how: str) -> None:
    origin = Origin("mirror")
    origin.answer(origin.asked[0])
    origin.send(1, 1, b"a")
    if how == "a message":
        origin.send(3, 3, b"c")
    else:
        origin.control(Nats_Last_Consumer=2, Nats_Last_Stream=2)
    assert origin.held() == [(1, b"a")]
    origin.place.host.pass_time(3)
    (request,) = origin.asked
    assert config_of(request)["opt_start_seq"] == 2
    origin.answer(request)
    origin.send(1, 2, b"b")
    origin.send(2, 3, b"c")
    assert origin.held() == [(1, b"a"), (2, b"b"), (3, b"c")]


@pytest.mark.parametrize("kind", ["mirror", "sources"])
def test_a_message_that_cannot_be_taken_is_told_and_asked_for_again(kind: str) -> None:
    """As on the Go server: it holds up what comes after it, which is never lost or taken out of order."""
    origin = Origin(kind)
    origin.answer(origin.asked[0])
    for _ in range(2):
        first = len(origin.held()) + 1
        for number, sequence in enumerate(range(first, 4), 1):
            headers = block.added(b"", (b"Nats-TTL", b"soon")) if sequence == 2 else b""
            origin.put(number, sequence, b"%d" % sequence, headers=headers)
        origin.place.host.tick()
        assert origin.held() == [(1, b"1")]
        assert origin.info()["error"]["err_code"] == 10165
        origin.place.host.sent.clear()
        origin.place.host.pass_time(3)
        (request,) = origin.asked
        assert config_of(request)["opt_start_seq"] == 2
        origin.answer(request)
    for number, sequence in enumerate((2, 3), 1):
        origin.send(number, sequence, b"%d" % sequence)
    assert origin.held() == [(1, b"1"), (2, b"2"), (3, b"3")]
    assert "error" not in origin.info()


def test_heartbeats_keep_it_going_and_silence_does_not() -> None:
    origin = Origin()
    origin.answer(origin.asked[0])
    for _ in range(15):
        origin.place.host.pass_time(1)
        origin.control(Nats_Last_Consumer=0)
    assert origin.asked == []
    origin.place.host.pass_time(11)
    assert len(origin.asked) == 1


def test_flow_control_is_answered_when_everything_is_stored() -> None:
    origin = Origin()
    origin.answer(origin.asked[0])
    origin.send(1, 5, b"a")
    origin.place.host.sent.clear()
    origin.control(b"$JS.FC.O.made.x")
    (said,) = [one for one in origin.place.host.sent if one.to == b"$JS.FC.O.made.x"]
    assert said.headers == block.added(b"", (b"Nats-Last-Consumer", b"1"), (b"Nats-Last-Stream", b"5"))
    origin.control(Nats_Consumer_Stalled="$JS.FC.O.made.y")
    assert b"$JS.FC.O.made.y" in [one.to for one in origin.place.host.sent]


def test_refusals_are_told_and_tried_again_less_and_less_often() -> None:
    origin = Origin()
    error = {"code": 404, "err_code": 10059, "description": "stream not found"}
    waits = (13, 23, 33)
    for seconds in waits:
        (request,) = origin.asked
        origin.answer(request, error=error)
        assert origin.info()["error"] == error
        origin.place.host.sent.clear()
        origin.place.host.pass_time(seconds - 3)
        assert origin.asked == []
        origin.place.host.pass_time(3)
    origin.answer(origin.asked[0])
    assert "error" not in origin.info()


@pytest.mark.parametrize("payload", [b"", b"x", b"{}", b'{"config":5}', b"\xff"])
def test_answers_that_are_none(payload: bytes) -> None:
    origin = Origin()
    origin.place.host.put(origin.asked[0].reply, payload)
    origin.place.host.tick()
    assert "error" in origin.info()
    origin.place.host.sent.clear()
    origin.place.host.pass_time(13)
    assert len(origin.asked) == 1


def test_an_api_that_nobody_has_yet_is_found_soon_after_somebody_has_it() -> None:
    origin = Origin("mirror")
    waits = []
    for _ in range(6):
        (request,) = origin.asked
        origin.place.host.put(request.reply, b"", b"", b"NATS/1.0 503\r\n\r\n")
        origin.place.host.tick()
        waited = 0.0
        while not any(sent.to.startswith(b"FROM.API.") for sent in origin.place.host.sent):
            origin.place.host.pass_time(0.1)
            waited += 0.1
        waits.append(waited)
    assert waits[0] <= 0.2
    assert waits == sorted(waits)
    assert waits[-1] <= 2.1

    origin.answer(origin.asked[0])
    origin.send(1, 1, b"a")
    assert origin.held() == [(1, b"a")]


def test_no_answer_at_all() -> None:
    origin = Origin()
    asked_after = []
    for _ in range(6):
        assert len(origin.asked) == 1
        waited = 0
        while not any(sent.to.startswith(b"FROM.API.") for sent in origin.place.host.sent):
            origin.place.host.pass_time(1)
            waited += 1
        asked_after.append(waited)
    assert asked_after[0] <= 6
    assert asked_after == sorted(asked_after)
    assert 30 < asked_after[-1] <= 33


def test_a_consumer_that_somebody_made_is_reset() -> None:
    origin = Origin(consumer={"name": "theirs", "deliver_subject": "TO.them"})
    (request,) = origin.asked
    assert (request.to, request.payload) == (b"FROM.API.CONSUMER.RESET.O.theirs", b"")
    theirs = {"deliver_subject": "TO.them", "ack_policy": "none"}
    origin.answer(request, name="theirs", config=theirs)
    assert origin.info()["error"]["err_code"] == 10217
    origin.place.host.sent.clear()
    origin.place.host.pass_time(13)
    (request,) = origin.asked
    origin.answer(request, name="theirs", config=theirs | {"ack_policy": "flow_control"})
    origin.send(1, 1, b"a", consumer="theirs")
    assert origin.held() == [(1, b"a")]


def test_a_stream_that_goes_asks_no_more() -> None:
    origin = Origin()
    origin.answer(origin.asked[0])
    origin.place.ask("STREAM.DELETE.S")
    origin.place.host.pass_time(60)
    assert origin.asked == []
