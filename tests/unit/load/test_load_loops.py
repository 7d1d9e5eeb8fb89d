"""The compiled loops of loads: bytes that are written, bytes that are read whole, in pieces, and wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ProtocolError
from headrace.load.loops import (
    AnswerWindow,
    FrameReader,
    FrameWriter,
    LatencyBuckets,
    SendBuffer,
    bucket_bounds,
)

ROOM = 1 << 17


def written(out: SendBuffer) -> bytes:
    with memoryview(out) as view:
        data = bytes(view)
    out.sent(len(data))
    return data


def read(reader: FrameReader, data: bytes, *, step: int = 1 << 20, now: int = 0) -> list[object]:
    others: list[object] = []
    for start in range(0, len(data), step):
        reader.add(data[start : start + step])
        assert reader.read(now, others)  # type: ignore[arg-type]
    return others


# -- latencies ------------------------------------------------------------------------------------------


@given(st.integers(min_value=0, max_value=(1 << 63) - 1))
def test_a_latency_is_in_its_bucket_and_buckets_are_narrow(ns: int) -> None:
    buckets = LatencyBuckets()
    buckets.record(ns)
    ((bucket, count),) = buckets.filled().items()
    least, end = bucket_bounds(bucket)

    assert count == 1
    assert least <= ns < end
    assert end - least <= max(1, least // 100)


def test_a_negative_latency_is_none() -> None:
    buckets = LatencyBuckets()
    buckets.record(-5)

    assert (buckets.filled(), buckets.least, buckets.most, buckets.total) == ({0: 1}, 0, 0, 0)


@pytest.mark.parametrize("bucket", [-1, 57 * 128, 1 << 30])
def test_there_are_no_other_buckets(bucket: int) -> None:
    with pytest.raises(ValueError, match="no bucket"):
        bucket_bounds(bucket)


# -- bytes on their way out -----------------------------------------------------------------------------


@given(st.lists(st.one_of(st.binary(max_size=70_000), st.integers(0, 90_000))))
def test_a_send_buffer_is_a_queue_of_bytes(steps: list[bytes | int]) -> None:
    out, model = SendBuffer(), b""
    for step in steps:
        if isinstance(step, bytes):
            out.add(step)
            model += step
        else:
            with memoryview(out) as view:
                assert bytes(view) == model
            count = min(step, len(model))
            out.sent(count)
            model = model[count:]
        assert len(out) == len(model)
    assert written(out) == model


def test_more_cannot_be_sent_than_waits() -> None:
    out = SendBuffer()
    out.add(b"abc")

    with pytest.raises(ValueError, match="4 bytes"):
        out.sent(4)


def test_bytes_that_are_being_written_do_not_move() -> None:
    out = SendBuffer()
    out.add(b"abc")
    with memoryview(out) as view:
        with pytest.raises(BufferError):
            out.add(bytes(1 << 20))
        assert bytes(view) == b"abc"


# -- writing --------------------------------------------------------------------------------------------


def test_messages_take_subjects_and_bodies_in_turn() -> None:
    out = SendBuffer()
    writer = FrameWriter(out, [b"a", b"b"], [(b"", b"1"), (b"", b"22"), (b"", b"")])

    assert writer.fill(4, 0, ROOM) == 4
    assert written(out) == b"PUB a 1\r\n1\r\nPUB b 2\r\n22\r\nPUB a 0\r\n\r\nPUB b 1\r\n1\r\n"
    assert (writer.messages, writer.size) == (4, 4)


def test_headers_are_counted() -> None:
    out = SendBuffer()
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    writer = FrameWriter(out, [b"a"], [(block, b"xy")])
    writer.fill(1, 0, ROOM)

    assert written(out) == b"HPUB a 18 20\r\n" + block + b"xy\r\n"
    assert writer.size == 20


def test_a_window_bounds_what_waits_for_an_answer() -> None:
    out, window = SendBuffer(), AnswerWindow(2)
    writer = FrameWriter(out, [b"a"], [(b"", b"")], window=window, reply=b"r.")

    assert writer.fill(9, 7, ROOM) == 2
    assert written(out) == b"PUB a r.0 0\r\n\r\nPUB a r.1 0\r\n\r\n"
    assert window.waiting == 2


def test_of_a_batch_only_the_last_is_answered_and_each_has_its_number() -> None:
    out, window = SendBuffer(), AnswerWindow(4)
    bodies = [(b"B: x0000000000;%d\r\n" % number, b"") for number in (1, 2)]
    writer = FrameWriter(out, [b"a"], bodies, window=window, reply=b"r.", batch=2, stamp=b"x0000000000")
    writer.fill(4, 0, ROOM)

    lines = [line for line in written(out).split(b"\r\n") if line]
    assert lines == [
        b"HPUB a 18 18",
        b"B: x0000000000;1",
        b"HPUB a r.0 18 18",
        b"B: x0000000000;2",
        b"HPUB a 18 18",
        b"B: x0000000001;1",
        b"HPUB a r.1 18 18",
        b"B: x0000000001;2",
    ]
    assert window.waiting == 2


def test_without_a_window_the_number_of_the_message_is_in_its_reply() -> None:
    out = SendBuffer()
    writer = FrameWriter(out, [b"a"], [(b"", b"")], reply=b"r.", suffix=b".0.$FI")
    writer.fill(1, 0, ROOM)
    writer.suffix = b".1.$FI"
    writer.fill(1, 0, ROOM)

    assert written(out) == b"PUB a r.1.0.$FI 0\r\n\r\nPUB a r.2.1.$FI 0\r\n\r\n"


def test_writing_ends_where_enough_waits() -> None:
    out = SendBuffer()
    writer = FrameWriter(out, [b"a"], [(b"", bytes(100))])

    assert writer.fill(1000, 0, 1000) == 9  # of 113 bytes each
    assert writer.fill(1000, 0, 1000) == 0


@pytest.mark.parametrize(
    ("subjects", "bodies", "more"),
    [
        ([], [(b"", b"")], {}),
        ([b"a"], [], {}),
        ([b"a"], [(b"", b"")], {"batch": 0}),
        ([b"a"], [(b"H: y\r\n", b"")], {"stamp": b"x0000000000"}),
        ([b"a"], [(b"H: x1\r\n", b"")], {"stamp": b"x1"}),
    ],
)
def test_a_writer_of_nothing_is_refused(
    subjects: list[bytes], bodies: list[tuple[bytes, bytes]], more: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=r"subject|stamp"):
        FrameWriter(SendBuffer(), subjects, bodies, **more)  # type: ignore[arg-type]


# -- reading --------------------------------------------------------------------------------------------

_STREAM = (
    b"MSG a.b 1 3\r\nabc\r\n"
    b"PING\r\n"
    b"HMSG a 1 back 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nxy\r\n"
    b"MSG other 22 r 1\r\nz\r\n"
    b"HMSG in 1 16 16\r\nNATS/1.0 404\r\n\r\n\r\n"
    b"-ERR 'no'\r\n"
)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1 << 20])
def test_messages_are_counted_and_others_are_handed_over_in_pieces_too(step: int) -> None:
    reader = FrameReader(b"1", 1 << 20)

    assert read(reader, _STREAM, step=step, now=5) == [
        b"PING\r\n",
        (b"22", b"other", b"r", b"", b"z"),
        (b"1", b"in", None, b"NATS/1.0 404\r\n\r\n", b""),
        b"-ERR 'no'\r\n",
    ]
    assert (reader.messages, reader.size, reader.first, reader.last) == (2, 23, 5, 5)


def test_messages_with_a_reply_subject_are_answered() -> None:
    out = SendBuffer()
    reader = FrameReader(b"1", 1 << 20, out=out, answer=b"2\r\nok\r\n")

    assert read(reader, b"MSG a 1 r.1 1\r\nx\r\nMSG a 1 1\r\nx\r\n") == [(b"1", b"a", None, b"", b"x")]
    assert written(out) == b"PUB r.1 2\r\nok\r\n"


def test_reading_waits_until_answers_are_sent() -> None:
    out = SendBuffer()
    reader = FrameReader(b"1", 1 << 20, out=out, answer=b"100\r\n%b\r\n" % bytes(100))
    reader.add(b"MSG a 1 r 0\r\n\r\n" * 20)

    assert not reader.read(0, [], 1000)
    assert 0 < reader.messages < 20
    while not reader.read(0, [], 1000):
        written(out)
    assert reader.messages == 20


def test_an_answer_is_matched_to_when_it_was_asked_for() -> None:
    out, window = SendBuffer(), AnswerWindow(2)
    FrameWriter(out, [b"a"], [(b"", b"")], window=window, reply=b"in.").fill(2, 1000, ROOM)
    reader = FrameReader(b"1", 1 << 20, window=window, prefix=b"in.")

    assert not read(reader, b"MSG in.1 1 0\r\n\r\n", now=1100)
    assert (window.waiting, reader.messages, reader.latencies.total) == (1, 1, 100)


@pytest.mark.parametrize(
    "subject",
    [
        b"in.0",
        b"in.2",
        b"in.",
        b"in.x",
        b"in.-1",
        b"in.99999999999999999999",
        b"xx.1",
        b"in.1.1",
        b"in",
        b"i",
    ],
)
def test_an_answer_that_nobody_asked_for_counts_as_none(subject: bytes) -> None:
    out, window = SendBuffer(), AnswerWindow(2)
    writer = FrameWriter(out, [b"a"], [(b"", b"")], window=window, reply=b"in.")
    writer.fill(2, 0, ROOM)
    reader = FrameReader(b"1", 1 << 20, window=window, prefix=b"in.")
    read(reader, b"MSG in.0 1 0\r\n\r\n")

    assert len(read(reader, b"MSG %b 1 0\r\n\r\n" % subject)) == 1
    assert (window.waiting, reader.messages) == (1, 1)


@pytest.mark.parametrize(
    "frame",
    [
        b"HMSG in.0 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
        b'MSG in.0 1 12\r\n{"error":{}}\r\n',
        b"HMSG in.0 1 41 41\r\nNATS/1.0\r\nNats-Service-Error-Code: 500\r\n\r\n\r\n",
    ],
)
def test_an_answer_that_is_an_error_frees_its_place_and_is_handed_over(frame: bytes) -> None:
    out, window = SendBuffer(), AnswerWindow(1)
    FrameWriter(out, [b"a"], [(b"", b"")], window=window, reply=b"in.").fill(1, 0, ROOM)
    reader = FrameReader(b"1", 1 << 20, window=window, prefix=b"in.")
    if b"41 41" in frame:
        frame = frame.replace(b"41", b"%d" % len(b"NATS/1.0\r\nNats-Service-Error-Code: 500\r\n\r\n"))

    assert len(read(reader, frame)) == 1
    assert (window.waiting, reader.messages, reader.failed, reader.latencies.count) == (0, 0, 1, 0)


def test_what_was_given_up_is_taken_for_no_other_answer() -> None:
    out, window = SendBuffer(), AnswerWindow(1)
    writer = FrameWriter(out, [b"a"], [(b"", b"")], window=window, reply=b"in.")
    writer.fill(1, 10, ROOM)
    reader = FrameReader(b"1", 1 << 20, window=window, prefix=b"in.")

    assert window.give_up(10) == 0
    assert window.give_up(11) == 1
    assert (window.waiting, window.given_up) == (0, 1)
    assert writer.fill(1, 20, ROOM) == 0
    read(reader, b"MSG in.0 1 0\r\n\r\n", now=1000)
    assert (window.given_up, reader.latencies.count) == (0, 0)
    assert writer.fill(1, 20, ROOM) == 1


def test_paced_messages_count_from_when_they_were_due() -> None:
    out, window = SendBuffer(), AnswerWindow(8)
    writer = FrameWriter(out, [b"a"], [(b"", b"")], window=window, reply=b"in.")
    writer.pace(1000, 100.0)
    writer.fill(2, 5000, ROOM)
    reader = FrameReader(b"1", 1 << 20, window=window, prefix=b"in.")
    read(reader, b"MSG in.0 1 0\r\n\r\nMSG in.1 1 0\r\n\r\n", now=5000)

    assert (reader.latencies.most, reader.latencies.least) == (4000, 3900)


@pytest.mark.parametrize(
    "data",
    [
        b"MSG a 1 2\r\nabcd\r\n",
        b"MSG a 1\r\n",
        b"MSG  a 1 0\r\n",
        b"MSG a 1 -1\r\n\r\n",
        b"MSG a 1 1048577\r\n",
        b"MSG a 1 9999999999\r\n",
        b"HMSG a 1 5 4\r\nabcd\r\n",
        b"MSG " + b"a" * 5000,
        b"x" * ((1 << 20) + 1),
    ],
)
def test_what_no_server_writes_is_an_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(FrameReader(b"1", 1 << 20), data)


@given(st.lists(st.sampled_from([*_STREAM.splitlines(keepends=True), b"MSG ", b" ", b"1", b"\r\n", b"\0"])))
def test_any_bytes_are_read_or_refused_the_same_in_pieces(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    outcomes = []
    for step in (1, 5, 1 << 20):
        reader = FrameReader(b"1", 1 << 20)
        others: list[object] = []
        try:
            for start in range(0, len(data), step):
                reader.add(data[start : start + step])
                reader.read(0, others)  # type: ignore[arg-type]
        except ProtocolError:
            outcomes.append((others, reader.messages, "refused"))
        else:
            outcomes.append((others, reader.messages, "read"))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_more_bytes_than_there_is_room_for_are_refused() -> None:
    reader = FrameReader(b"1", 10)

    with pytest.raises(ValueError, match="room"):
        reader.received(1 << 30)
    with pytest.raises(ValueError, match="room"):
        reader.received(-1)
