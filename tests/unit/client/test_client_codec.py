from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client import codec
from headrace.client.codec import (
    LARGE,
    MAX_LINE,
    Control,
    FrameParser,
    MessageBatch,
    Op,
    encode_connect,
    encode_pub,
    encode_sub,
    encode_unsub,
)
from headrace.errors import ProtocolError

Row = tuple[bytes, bytes, bytes | None, bytes | None, bytes]

word = st.binary(min_size=1, max_size=12).filter(lambda raw: not set(raw) & set(b" \t\r\n"))
payload = st.one_of(
    st.binary(max_size=60), st.sampled_from([b"", b"\r\n", b"MSG a 1 0\r\n\r\n", b"PING\r\n"])
)
row = st.tuples(word, word, st.none() | word, st.none() | st.binary(min_size=1, max_size=20), payload)
control = st.sampled_from([b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'x y'\r\n", b'INFO {"a":1} \r\n'])


def rows(batch: MessageBatch) -> list[Row]:
    return list(
        zip(
            batch.subjects(),
            batch.sids(),
            batch.replies(),
            batch.header_blocks(),
            batch.payloads,
            strict=True,
        )
    )


def on_wire(item: Row | bytes) -> bytes:
    if isinstance(item, bytes):
        return item
    subject, sid, reply, block, data = item
    head = b" ".join([subject, sid] + ([reply] if reply is not None else []))
    if block is None:
        return b"MSG %b %d\r\n%b\r\n" % (head, len(data), data)
    return b"HMSG %b %d %d\r\n%b%b\r\n" % (head, len(block), len(block) + len(data), block, data)


def feed(pieces: list[bytes]) -> tuple[list[Row], list[Control], str | None]:
    parser, batch, failure = FrameParser(), MessageBatch(), None
    controls: list[Control] = []
    for piece in pieces:
        try:
            parser.feed(piece)
        except ProtocolError as error:
            failure = str(error)
        batch.extend(parser.take_messages())
        controls += parser.take_controls()
        if failure:
            break
    return rows(batch), controls, failure


def receive(pieces: list[bytes]) -> tuple[list[Row], list[Control], str | None]:
    """As `feed`, by a reader that receives large payloads where they stay."""
    parser, batch, failure = FrameParser(), MessageBatch(), None
    controls: list[Control] = []
    for arrived in pieces:
        piece = arrived
        while piece and not failure:
            room = parser.room()
            if room is not None:
                with memoryview(room) as view:
                    count = min(len(view), len(piece))
                    view[:count] = piece[:count]
                room.advance(count)
            else:
                count = parser.expected
                try:
                    parser.feed(piece[:count])
                except ProtocolError as error:
                    failure = str(error)
            piece = piece[count:]
            batch.extend(parser.take_messages())
            controls += parser.take_controls()
    return rows(batch), controls, failure


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({place % (len(stream) + 1) for place in places} | {0, len(stream)})
    return [stream[a:b] for a, b in itertools.pairwise(marks)]


@given(st.lists(row | control, max_size=12), st.lists(st.integers(0, 1 << 16), max_size=12))
def test_stream_split_anywhere_gives_the_messages_that_were_sent(
    items: list[Row | bytes], places: list[int]
) -> None:
    stream = b"".join(map(on_wire, items))
    messages, controls, failure = feed(cut(stream, places))
    assert failure is None
    assert messages == [item for item in items if isinstance(item, tuple)]
    assert len(controls) == sum(isinstance(item, bytes) for item in items)
    assert feed([bytes([byte]) for byte in stream]) == (messages, controls, None)


@given(st.lists(row | control, max_size=4), st.binary(max_size=80), st.lists(st.integers(0, 999), max_size=9))
def test_stream_with_junk_split_anywhere_gives_the_same_messages_and_failure(
    items: list[Row | bytes], junk: bytes, places: list[int]
) -> None:
    stream = b"".join(map(on_wire, items)) + junk
    assert feed(cut(stream, places)) == feed([stream])


@given(
    st.lists(row | control, max_size=8),
    st.binary(max_size=30),
    st.lists(st.integers(0, 1 << 16), max_size=12),
)
def test_large_payloads_received_where_they_stay_are_what_is_cut_out_of_the_stream(
    items: list[Row | bytes], junk: bytes, places: list[int]
) -> None:
    stream = b"".join(map(on_wire, items)) + junk
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(codec, "LARGE", 3)  # with less, not even the line is complete
        patched.setattr(codec, "HEAD_SIZE", 7)
        assert receive(cut(stream, places)) == feed([stream])
        assert receive([bytes([byte]) for byte in stream]) == feed([stream])


def test_large_payload_is_not_copied_and_small_ones_behind_it_are_found() -> None:
    parser = FrameParser()
    parser.feed(b"PING\r\nHMSG a 1 2 %d\r\nHHxyz" % (LARGE + 10))
    room = parser.room()
    assert room is not None
    assert room.missing == LARGE + 5
    with memoryview(room) as view:
        view[:] = b"-" * len(view)
    room.advance(LARGE + 5)
    assert parser.room() is None
    assert parser.expected == codec.HEAD_SIZE
    parser.feed(b"\r")
    assert not parser.has_messages
    parser.feed(b"\nMSG b 1 2\r\nok\r\n")
    assert rows(parser.take_messages()) == [
        (b"a", b"1", None, b"HH", b"xyz" + b"-" * (LARGE + 5)),
        (b"b", b"1", None, None, b"ok"),
    ]
    assert parser.room() is None
    assert parser.expected == codec.RECEIVE_SIZE


def test_large_payload_fed_after_all_is_put_in_its_place() -> None:
    parser = FrameParser()
    parser.feed(b"MSG a 1 %d\r\nx" % (2 * LARGE))
    assert parser.room() is not None
    parser.feed(b"y" * (2 * LARGE - 1))
    parser.feed(b"\r\nPONG\r\n")
    assert rows(parser.take_messages()) == [(b"a", b"1", None, None, b"x" + b"y" * (2 * LARGE - 1))]
    assert [one.op for one in parser.take_controls()] == [Op.PONG]


def test_large_payload_without_its_end_raises_from_then_on() -> None:
    parser = FrameParser()
    parser.feed(b"MSG a 1 %d\r\n" % LARGE + b"x")
    room = parser.room()
    assert room is not None
    room.add(b"y" * (LARGE - 1), 0)
    for _ in range(2):
        with pytest.raises(ProtocolError, match="is not followed by"):
            parser.feed(b"no\r\nPING\r\n")
    assert parser.room() is None


@pytest.mark.parametrize(
    "line",
    [
        b"NOISE\r\n",
        b"\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 r 5 6\r\n",
        b"MSG a 1 x\r\n",
        b"MSG a 1 -1\r\n",
        b"MSG a 1 +1\r\n",
        b"MSG a 1 1234567890\r\n",
        b"MSG a 1 999999999\r\n",
        b"MSG a 1 2\r\nabc\r\n",
        b"MSG a 1 2\r\nab\n\r",
        b"HMSG a 1 5\r\n",
        b"HMSG a 1 6 5\r\n",
        b"HMSG a 1 r 6 5 5\r\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"x" * (MAX_LINE + 1),
        b"INFO {" + b"x" * MAX_LINE + b"}\r\n",
    ],
)
def test_feed_malformed_bytes_raises_and_keeps_what_came_before(line: bytes) -> None:
    parser = FrameParser()
    with pytest.raises(ProtocolError):
        parser.feed(b"MSG s 1 2\r\nok\r\n" + line)
    assert rows(parser.take_messages()) == [(b"s", b"1", None, None, b"ok")]
    with pytest.raises(ProtocolError):
        parser.feed(b"PING\r\n")


@pytest.mark.parametrize(
    ("line", "head"),
    [
        (b"MSG a 1  0\r\n\r\n", (b"a", b"1", None, None, b"")),
        (b"MSG\ta\t1\tr\t1\r\nx\r\n", (b"a", b"1", b"r", None, b"x")),
        (b"msg a 1 1 \r\nx\r\n", (b"a", b"1", None, None, b"x")),
        (b"MSG a 1 1\nx\r\n", (b"a", b"1", None, None, b"x")),
        (b"MSG a\x0bb 1 001\r\nx\r\n", (b"a\x0bb", b"1", None, None, b"x")),
        (b"HMSG a 1 r 3 5\r\nHHHxx\r\n", (b"a", b"1", b"r", b"HHH", b"xx")),
        (b"HMSG a 1 2 2\r\nHH\r\n", (b"a", b"1", None, b"HH", b"")),
    ],
)
def test_feed_unusual_but_legal_head_gives_the_message(line: bytes, head: Row) -> None:
    assert feed([line]) == ([head], [], None)


def test_feed_many_different_heads_stays_correct() -> None:
    stream = b"".join(b"MSG s.%d 1 r.%d 1\r\nx\r\n" % (n, n) for n in range(20_000))
    messages, _, failure = feed([stream, stream])
    assert failure is None
    assert [message[0] for message in messages] == [b"s.%d" % n for n in range(20_000)] * 2


def test_control_err_gives_the_text_without_quotes() -> None:
    _, controls, _ = feed([b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n"])
    assert controls[0].op is Op.ERR
    assert controls[0].text == 'Permissions Violation for Publish to "a"'


@pytest.mark.parametrize("argument", [b"{", b"[]", b"\xff"])
def test_control_info_not_an_object_raises(argument: bytes) -> None:
    with pytest.raises(ProtocolError):
        Control(Op.INFO, argument).info()


def test_batch_extend_keeps_headers_with_their_messages() -> None:
    first, second = FrameParser(), FrameParser()
    first.feed(b"MSG a 1 0\r\n\r\n")
    second.feed(b"MSG b 1 0\r\n\r\nHMSG c 1 1 1\r\nH\r\n")
    batch = first.take_messages()
    batch.extend(second.take_messages())
    assert batch.header_blocks() == [None, None, b"H"]
    assert batch.byte_count() == 4


def test_encoders_give_the_frames_of_the_protocol() -> None:
    assert encode_connect({"a": 1}) == b'CONNECT {"a":1}\r\n'
    assert encode_sub(b"a.>", b"1") == b"SUB a.> 1\r\n"
    assert encode_sub(b"a", b"1", b"q") == b"SUB a q 1\r\n"
    assert encode_unsub(b"1") == b"UNSUB 1\r\n"
    assert encode_unsub(b"1", 5) == b"UNSUB 1 5\r\n"
    assert encode_pub(b"a", b"xy") == b"PUB a 2\r\nxy\r\n"
    assert encode_pub(b"a", b"xy", b"r", b"HH") == b"HPUB a r 2 4\r\nHHxy\r\n"


@pytest.mark.parametrize("subject", [b"", b"a b", b"a\tb", b"a\r\nPUB b 0"])
def test_encode_subject_that_breaks_the_line_raises(subject: bytes) -> None:
    for encode in (
        lambda: encode_pub(subject, b""),
        lambda: encode_pub(b"a", b"", subject),
        lambda: encode_sub(subject, b"1"),
        lambda: encode_sub(b"a", b"1", subject),
    ):
        with pytest.raises(ValueError, match="empty or holds"):
            encode()
