"""Reading streams over a scripted server: what is asked, what is made of answers, and of wrong ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.client import jetstream
from headrace.client.blocking import ReceivedMessage
from headrace.client.codec import FrameParser, MessageBatch
from headrace.client.errors import (
    ClientTimeoutError,
    JetStreamError,
    NoRespondersError,
    ReadInterruptedError,
    ServerError,
)
from headrace.client.jetstream import JetStream, StreamState
from headrace.client.jetstream_api import BUSY
from headrace.errors import ProtocolError
from headrace.protocol.jetstream.errors import ERRORS

NS = 1795251196_000000001
STREAM = {
    "config": {"name": "S"},
    "created": "2026-11-21T08:00:00.000000005Z",
    "state": {"messages": 3, "bytes": 300, "first_seq": 2, "last_seq": 9},
}
CREATED = 1795248000_000000005
REFUSED = {"error": {"code": 400, "err_code": 10026, "description": "maximum consumers limit reached"}}


def msg(
    sequence: int, number: int, pending: int, *, header: bytes = b"", data: bytes = b"x", **kind: bool
) -> bytes:
    reply = b"S.c.1.%d.%d.%d.%d" % (sequence, number, NS + sequence, pending)
    reply = (b"$JS.ACK.hub.hash." + reply + b".token") if kind.get("domain") else b"$JS.ACK." + reply
    if header:
        return b"HMSG s.a 1 %b %d %d\r\n%b%b\r\n" % (
            reply,
            len(header),
            len(header) + len(data),
            header,
            data,
        )
    return b"MSG s.a 1 %b %d\r\n%b\r\n" % (reply, len(data), data)


def status(line: bytes, *fields: bytes) -> bytes:
    block = b"\r\n".join([b"NATS/1.0 " + line, *fields]) + b"\r\n\r\n"
    return b"HMSG _INBOX.1 1 %d %d\r\n%b\r\n" % (len(block), len(block), block)


def direct(sequence: int, *own: bytes, subject: bytes = b"s.a", data: bytes = b"x") -> bytes:
    added = (
        b"Nats-Stream: S\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
        b"Nats-Time-Stamp: 2026-11-21T08:00:00.5Z\r\nNats-Num-Pending: 5\r\nNats-Last-Sequence: 0"
        % (subject, sequence)
    )
    block = b"\r\n".join([b"NATS/1.0", *own, added]) + b"\r\n\r\n"
    return b"HMSG _INBOX.1 1 %d %d\r\n%b%b\r\n" % (len(block), len(block) + len(data), block, data)


MISSING = status(b"404 Message Not Found")


class Script:
    """A connection whose server answers by script: requests by what their subject holds, windows in order."""

    def __init__(self, *windows: bytes, **answers: Any) -> None:
        self.answers = {"INFO": STREAM, **answers}
        self.windows = list(windows)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.removed: list[str] = []
        self.is_open = True
        self._arrived: list[MessageBatch] = []

    def request(self, subject: str, data: bytes, *, timeout: float) -> ReceivedMessage:
        self.asked.append((subject, json.loads(data or b"{}")))
        answer = next(answer for part, answer in self.answers.items() if part in subject)
        if isinstance(answer, Exception):
            raise answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return ReceivedMessage("r", body, None, {})

    def new_inbox(self) -> bytes:
        return b"_INBOX.1"

    def subscribe(self, _subject: bytes) -> bytes:
        return b"1"

    def unsubscribe(self, _sid: bytes) -> None:
        self._arrived.clear()

    def publish(self, subject: str, data: bytes = b"", *, reply: bytes | None = None) -> None:
        if reply is None:
            self.removed.append(subject)
            return
        self.asked.append((subject, json.loads(data)))
        wire = self.windows.pop(0) if self.windows else b""
        for part in wire.split(b"|"):  # what comes with one read
            parser = FrameParser()
            parser.feed(part)
            if batch := parser.take_messages():
                self._arrived.append(batch)

    def receive_of(self, _sid: bytes, _timeout: float) -> MessageBatch:
        return self._arrived.pop(0) if self._arrived else MessageBatch()


def consumer(pending: int, first: int = 1) -> dict[str, Any]:
    return {"delivered": {"stream_seq": first - 1}, "num_pending": pending}


def read(script: Script, first: int, end: int, *filters: str, **how: bool) -> list[int]:
    streams = JetStream(script, timeout=1.0)  # type: ignore[arg-type]
    return [s for batch in streams.read("S", first, end, filters, **how) for s in batch.sequences]


# -- what is asked


def test_jetstream_state_is_read_from_the_servers_description() -> None:
    assert JetStream(Script()).state("S") == StreamState(2, 9, 3, 300, CREATED)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "keeps_order", "consumable"),
    [
        ({"retention": "workqueue"}, False, False),
        ({"retention": "interest"}, False, False),
        ({"retention": "limits", "max_msgs_per_subject": 1}, False, True),
        ({"retention": "limits", "max_msgs_per_subject": -1}, True, True),
    ],
)
def test_jetstream_state_knows_what_a_rising_first_sequence_means(
    config: dict[str, object], keeps_order: bool, consumable: bool
) -> None:
    state = JetStream(Script(INFO={**STREAM, "config": config})).state("S")  # type: ignore[arg-type]
    assert state is not None
    assert (state.keeps_order, state.consumable) == (keeps_order, consumable)


def test_jetstream_empty_stream_begins_above_its_last() -> None:
    empty = {**STREAM, "state": {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0}}
    state = JetStream(Script(INFO=empty)).state("S")  # type: ignore[arg-type]
    assert state is not None
    assert (state.first_sequence, state.last_sequence) == (1, 0)


def test_jetstream_stream_that_is_not_there_is_none_and_other_refusals_are_errors() -> None:
    gone = {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}
    assert JetStream(Script(INFO=gone)).state("S") is None  # type: ignore[arg-type]
    off = {"error": {"code": 503, "err_code": 10039, "description": "jetstream not enabled for account"}}
    with pytest.raises(JetStreamError, match="not enabled") as caught:
        JetStream(Script(INFO=off)).state("S")  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.err_code) == (503, 10039)
    busy = {"error": {"code": 429, "err_code": 10167, "description": "too many requests"}}
    with pytest.raises(NoRespondersError, match="too many requests"):  # it passes by itself
        JetStream(Script(INFO=busy)).state("S")  # type: ignore[arg-type]


def test_errors_that_pass_by_themselves_say_so_by_their_codes() -> None:
    assert {ERRORS[number][0] for number in BUSY} == {429, 503}


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"no", b"[]", {}, {"state": {}, "config": {}}, {**STREAM, "created": "now"}, {"error": "x"},
        {"error": {}},
    ],
)  # fmt: skip
def test_jetstream_description_that_cannot_be_understood_is_a_protocol_error(answer: Any) -> None:
    with pytest.raises(ProtocolError):
        JetStream(Script(INFO=answer)).state("S")  # type: ignore[arg-type]


def test_jetstream_read_asks_for_an_ephemeral_consumer_and_removes_it() -> None:
    script = Script(msg(5, 1, 1) + msg(7, 2, 0), CREATE=consumer(2))
    streams = JetStream(script, "$JS.hub.API")  # type: ignore[arg-type]
    [batch] = streams.read("S", 5, 10, ["s.a"])
    assert (batch.sequences, batch.timestamps) == ([5, 7], [NS + 5, NS + 7])
    assert (batch.subjects, batch.payloads, batch.headers) == ([b"s.a"] * 2, [b"x"] * 2, [None, None])
    (create, asked), (pull, window) = script.asked
    config = asked["config"]
    assert create == f"$JS.hub.API.CONSUMER.CREATE.S.{config['name']}.s.a"
    assert (config["ack_policy"], config["mem_storage"], config["inactive_threshold"]) == (
        "none",
        True,
        60 * 10**9,
    )
    assert (config["opt_start_seq"], config["filter_subject"]) == (5, "s.a")
    assert pull == f"$JS.hub.API.CONSUMER.MSG.NEXT.S.{config['name']}"
    assert window == {"batch": 2, "no_wait": True, "max_bytes": 4 << 20}
    assert script.removed == [f"$JS.hub.API.CONSUMER.DELETE.S.{config['name']}"]


def test_jetstream_read_of_nothing_asks_nobody() -> None:
    script = Script()
    assert read(script, 5, 5) == []
    assert script.asked == []


def test_jetstream_read_ends_at_the_end_of_the_range_however_much_comes() -> None:
    wire = msg(5, 1, 7) + msg(8, 2, 6) + msg(9, 3, 5)
    assert read(Script(wire, CREATE=consumer(8)), 5, 8) == [5]
    assert read(Script(CREATE=consumer(0)), 5, 8) == []


@pytest.mark.parametrize("end", [b"404 No Messages", b"408 Request Timeout"])
def test_jetstream_read_ends_when_the_server_has_no_more(end: bytes) -> None:
    wire = msg(5, 1, 7) + b"|" + status(b"100 Idle Heartbeat") + b"|" + msg(6, 2, 6) + status(end)
    script = Script(wire, status(b"408 Request Timeout"), CREATE=consumer(8))
    assert read(script, 5, 20) == [5, 6]
    first, second = (body for subject, body in script.asked if "MSG.NEXT" in subject)
    assert (first["no_wait"], second["expires"], "no_wait" in second) == (True, 2 * 10**9, False)


def test_jetstream_read_waits_for_messages_that_the_server_is_still_writing() -> None:
    """A stream's state counts them before consumers get them: they must not be taken for removed ones."""
    none, over = status(b"404 No Messages"), status(b"408 Request Timeout")
    script = Script(msg(5, 1, 2) + none, msg(6, 2, 1) + over, msg(7, 3, 0), CREATE=consumer(3))
    assert read(script, 5, 8) == [5, 6, 7]


def test_jetstream_direct_gets_wait_for_messages_that_the_server_is_still_writing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(jetstream, "sleep", pauses.append)
    end = status(b"204 EOB", b"Nats-Num-Pending: 0")
    script = Script(direct(5) + end, direct(6), MISSING, direct(6), direct(6) + end, MISSING)
    assert read(script, 5, 8, direct=True) == [5, 6]
    singles = [body for _, body in script.asked if "batch" not in body]
    assert singles == [{"seq": at, "next_by_subj": ">"} for at in (6, 6, 7)]
    assert len(pauses) == 2


def test_jetstream_direct_gets_do_not_wait_for_messages_behind_the_range() -> None:
    script = Script(direct(5) + status(b"204 EOB", b"Nats-Num-Pending: 0"), direct(9))
    assert read(script, 5, 8, direct=True) == [5]


def test_jetstream_state_names_the_messages_that_are_lost() -> None:
    state = {**STREAM["state"], "lost": {"msgs": [4, 7], "bytes": 0}}  # type: ignore[dict-item]
    found = JetStream(Script(INFO={**STREAM, "state": state})).state("S")  # type: ignore[arg-type]
    assert found is not None
    assert found.lost == (4, 7)


def test_jetstream_read_asks_again_when_a_window_is_full_and_for_a_larger_message_alone() -> None:
    full = status(b"409 Message Size Exceeds MaxBytes", b"Nats-Pending-Messages: 98")
    script = Script(msg(1, 1, 2) + full, full, msg(2, 2, 1), msg(3, 3, 0), CREATE=consumer(3))
    assert read(script, 1, 4) == [1, 2, 3]
    windows = [body for subject, body in script.asked if "MSG.NEXT" in subject]
    assert [body.get("max_bytes") for body in windows] == [4 << 20, 4 << 20, None, 4 << 20]
    assert [body["batch"] for body in windows] == [3, 2, 1, 1]


def test_jetstream_read_understands_ack_subjects_with_a_domain() -> None:
    wire = msg(5, 1, 1, domain=True) + msg(6, 2, 0, domain=True)
    assert read(Script(wire, CREATE=consumer(2)), 5, 10) == [5, 6]


def test_jetstream_read_keeps_stored_headers() -> None:
    block = b"NATS/1.0\r\na: b\r\n\r\n"
    script = Script(msg(5, 1, 1, header=block) + msg(6, 2, 0), CREATE=consumer(2))
    [batch] = JetStream(script).read("S", 5, 7)  # type: ignore[arg-type]
    assert batch.headers == [block, None]


# -- what breaks off


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (status(b"409 Consumer Deleted"), "reading stream S ended: 409 Consumer Deleted"),
        (status(b"409 Leadership Change"), "409 Leadership Change"),
        (status(b"503"), "the consumer that reads stream S is gone"),
        (msg(5, 2, 1), r"lost on the way .*expected number 1 of the consumer, got 2 to 2"),
        (msg(5, 1, 3) + msg(6, 3, 2), "expected number 1 of the consumer, got 1 to 3"),
        (msg(5, 1, 3) + b"|" + msg(6, 3, 2), "expected number 2"),
    ],
)
def test_jetstream_read_that_is_broken_off_says_so_and_removes_the_consumer(wire: bytes, text: str) -> None:
    script = Script(wire, CREATE=consumer(4))
    with pytest.raises(ReadInterruptedError, match=text):
        read(script, 5, 10)
    assert len(script.removed) == 1


def test_jetstream_read_without_an_answer_is_a_timeout() -> None:
    with pytest.raises(ClientTimeoutError, match=r"no answer on .*MSG\.NEXT"):
        read(Script(CREATE=consumer(4)), 5, 10)


@pytest.mark.parametrize(
    "reply",
    [
        b"$JS.ACK.S.c.1.5.1.1",
        b"$JS.ACK.S.c.1.5.1.1.0.9",
        b"$JS.ACK.S.c.1.x.1.1.0",
        b"$JS.ACK.S.c.1.5.1.y.0",
        b"$JS.ACK.S.c.1.5.1.1.z",
        b"a.b.c.d.e.5.1.1.0",
        b"_INBOX.7",
    ],
)
def test_jetstream_ack_subject_that_cannot_be_understood_is_a_protocol_error(reply: bytes) -> None:
    wire = b"MSG s.a 1 %b 1\r\nx\r\n" % reply
    with pytest.raises(ProtocolError, match="ack subject"):
        read(Script(wire, CREATE=consumer(4)), 5, 10)


def test_jetstream_message_without_an_ack_subject_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="without an ack subject"):
        read(Script(b"MSG s.a 1 1\r\nx\r\n", CREATE=consumer(4)), 5, 10)
    mixed = msg(5, 1, 1) + b"MSG s.a 1 1\r\nx\r\n" + msg(6, 2, 0)
    with pytest.raises(ProtocolError, match="ack subject"):
        read(Script(mixed, CREATE=consumer(4)), 5, 10)


@pytest.mark.parametrize(
    "answer", [{}, {"delivered": {}}, {"delivered": {"stream_seq": 1}, "num_pending": None}]
)
def test_jetstream_consumer_that_cannot_be_understood_is_a_protocol_error(answer: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="not the description of a consumer"):
        read(Script(CREATE=answer), 5, 10)


# -- without consumers


@pytest.mark.parametrize(
    "refusal",
    [REFUSED, ServerError('Permissions Violation for Publish to "$JS.API.CONSUMER.CREATE.S"', fatal=False)],
)
def test_jetstream_read_without_consumers_uses_direct_gets(refusal: Any) -> None:
    more = status(b"204 EOB", b"Nats-Num-Pending: 3", b"Nats-Last-Sequence: 6")
    last = status(b"204 EOB", b"Nats-Num-Pending: 0", b"Nats-Last-Sequence: 9")
    script = Script(direct(5) + b"|" + direct(6) + more, direct(8) + last, MISSING, CREATE=refusal)
    assert read(script, 5, 20, "s.a") == [5, 6, 8]
    windows = [
        (body["seq"], body["batch"], body["next_by_subj"]) for _, body in script.asked if body.get("batch")
    ]
    assert windows == [(5, 15, "s.a"), (7, 13, "s.a")]
    assert script.asked[-1][1] == {"seq": 9, "next_by_subj": "s.a"}


def test_jetstream_direct_gets_give_the_stored_headers_and_the_stored_times() -> None:
    wire = direct(5, b"Nats-Stream: mine", b"a: b") + direct(6) + status(b"204 EOB", b"Nats-Num-Pending: 0")
    [batch] = JetStream(Script(wire, MISSING)).read("S", 5, 10, direct=True)  # type: ignore[arg-type]
    assert batch.headers == [b"NATS/1.0\r\nNats-Stream: mine\r\na: b\r\n\r\n", None]
    assert batch.timestamps == [1795248000_500000000] * 2


def test_jetstream_direct_gets_of_several_filters_are_filtered_here() -> None:
    wire = (
        direct(5)
        + direct(6, subject=b"s.b")
        + direct(7, subject=b"t")
        + status(b"204 EOB", b"Nats-Num-Pending: 0")
    )
    assert read(Script(wire, MISSING), 5, 10, "s.b", "t", direct=True) == [6, 7]


def test_jetstream_direct_gets_end_without_a_message() -> None:
    assert read(Script(MISSING, MISSING), 5, 10, direct=True) == []


def test_jetstream_direct_gets_that_are_not_allowed_say_why_they_were_tried() -> None:
    with pytest.raises(JetStreamError, match=r"allow_direct.*refused: maximum consumers limit reached"):
        read(Script(status(b"503"), CREATE=REFUSED), 5, 10)
    with pytest.raises(JetStreamError, match=r"allow_direct.*would remove messages"):
        read(Script(status(b"503")), 5, 10, direct=True)
    with pytest.raises(JetStreamError, match="Bad Request"):
        read(Script(status(b"408 Bad Request")), 5, 10, direct=True)


@pytest.mark.parametrize(
    "wire", [b"MSG _INBOX.1 1 1\r\nx\r\n", msg(5, 1, 0, header=b"NATS/1.0\r\nNats-Subject: s\r\n\r\n")]
)
def test_jetstream_direct_answer_that_cannot_be_understood_is_a_protocol_error(wire: bytes) -> None:
    with pytest.raises(ProtocolError, match="direct get"):
        read(Script(wire), 5, 10, direct=True)


def test_jetstream_refusal_that_direct_gets_do_not_heal_is_an_error() -> None:
    with pytest.raises(NoRespondersError):
        read(Script(CREATE=NoRespondersError("nobody")), 5, 10)
    with pytest.raises(ServerError):
        read(Script(CREATE=ServerError("Authorization Violation", fatal=True)), 5, 10)


# -- a window


def test_jetstream_read_asks_for_no_more_than_the_window() -> None:
    script = Script(msg(5, 1, 4), CREATE=consumer(5))
    found = JetStream(script).read("S", 5, 20, window=1)  # type: ignore[arg-type]
    assert next(found).sequences == [5]
    found.close()
    assert [body["batch"] for subject, body in script.asked if "MSG.NEXT" in subject] == [1]
    assert len(script.removed) == 1, "its consumer stays"
    script = Script(direct(5) + status(b"204 EOB", b"Nats-Num-Pending: 3"))
    found = JetStream(script).read("S", 5, 20, ["s.a"], direct=True, window=1)  # type: ignore[arg-type]
    assert next(found).sequences == [5]
    assert script.asked[0][1]["batch"] == 1


def test_jetstream_window_of_several_filters_is_not_of_what_is_filtered_here() -> None:
    script = Script(direct(5, subject=b"t") + direct(6) + status(b"204 EOB", b"Nats-Num-Pending: 0"))
    found = JetStream(script).read("S", 5, 20, ["s.a", "s.b"], direct=True, window=1)  # type: ignore[arg-type]
    assert next(found).sequences == [6]
    assert script.asked[0][1]["batch"] == 15


# -- by time


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (Script(CREATE=consumer(3, first=7)), 7),
        (Script(direct(8) + status(b"204 EOB", b"Nats-Num-Pending: 4"), CREATE=REFUSED), 8),
        (Script(status(b"404 Message Not Found"), CREATE=REFUSED), 10),
    ],
)
def test_jetstream_sequence_at_a_time(script: Script, expected: int) -> None:
    assert JetStream(script).sequence_at("S", NS) == expected  # type: ignore[arg-type]
    config = script.asked[0][1]["config"]
    assert config["opt_start_time"] == "2026-11-21T08:53:16.000000001Z"
