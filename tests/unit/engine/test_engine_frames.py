"""Cutting received bytes into messages: what is taken, where it stops, that plain Python agrees."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.frames import Payload, cut_messages

Head = tuple[bytes, bytes, bytes | None, int, int]
Cut = tuple[int, list[Head], list[bytes], dict[int, bytes]]


def cut(data: bytes, pos: int = 0, most: int = 1000) -> Cut:
    heads: list[Head] = []
    payloads: list[bytes] = []
    blocks: dict[int, bytes] = {}
    return cut_messages(data, pos, most, heads, payloads, blocks), heads, payloads, blocks


WORD = rb"[^ \t\r\n]+"
MSG = re.compile(rb"MSG (%b) (%b)(?: (%b))? ([0-9]{1,9})\r\n" % (WORD, WORD, WORD))
HMSG = re.compile(rb"HMSG (%b) (%b)(?: (%b))? ([0-9]{1,9}) ([0-9]{1,9})\r\n" % (WORD, WORD, WORD))


def reference(data: bytes, most: int = 1000) -> Cut:
    """The same by regular expressions."""
    pos = 0
    heads: list[Head] = []
    payloads: list[bytes] = []
    blocks: dict[int, bytes] = {}
    while match := MSG.match(data, pos) or HMSG.match(data, pos):
        subject, sid, reply, *sizes = match.groups()
        total, header = int(sizes[-1]), int(sizes[0]) if len(sizes) == 2 else 0
        end = match.end() + total
        if header > total or total > most or data[end : end + 2] != b"\r\n":
            break
        if header:
            blocks[len(payloads)] = data[match.end() : match.end() + header]
        heads.append((subject, sid, reply, header, total))
        payloads.append(data[match.end() + header : end])
        pos = end + 2
    return pos, heads, payloads, blocks


ONE = b"MSG a.b 1 3\r\nxyz\r\n"
TWO = b"HMSG a.b 1 $JS.ACK.x 4 6\r\nhhhhxy\r\n"


def test_frames_are_cut_into_columns_and_repeated_words_are_one_object() -> None:
    pos, heads, payloads, blocks = cut(ONE + TWO + ONE)
    assert pos == len(ONE + TWO + ONE)
    assert heads == [
        (b"a.b", b"1", None, 0, 3), (b"a.b", b"1", b"$JS.ACK.x", 4, 6), (b"a.b", b"1", None, 0, 3),
    ]  # fmt: skip
    assert (payloads, blocks) == ([b"xyz", b"xy", b"xyz"], {1: b"hhhh"})
    assert heads[0][0] is heads[2][0]


def test_frames_go_behind_what_the_columns_hold() -> None:
    heads: list[Head] = [(b"x", b"1", None, 0, 0)]
    payloads, blocks = [b""], {0: b"h"}
    assert cut_messages(b"??" + TWO, 2, 100, heads, payloads, blocks) == 2 + len(TWO)
    assert (len(heads), payloads, blocks) == (2, [b"", b"xy"], {0: b"h", 1: b"hhhh"})


@pytest.mark.parametrize("missing", range(1, len(TWO)))
def test_frames_that_are_cut_off_are_left_alone(missing: int) -> None:
    assert cut(ONE + TWO[:-missing])[0] == len(ONE)


@pytest.mark.parametrize(
    "frame",
    [
        b"PING\r\n",
        b"msg a 1 0\r\n\r\n",
        b"MSG  a 1 0\r\n\r\n",
        b"MSG a 1 0 \r\n\r\n",
        b"MSG a\t1 0\r\n\r\n",
        b"MSG a 1 0\n\r\n",
        b"MSG a 1\r\n\r\n",
        b"MSG a 1 r 0 0\r\n\r\n",
        b"MSG a 1 r s 0 0\r\n\r\n",
        b"MSG \r\n",
        b"MSG \n",
        b"MSG a 1 -1\r\n\r\n",
        b"MSG a 1 +1\r\nx\r\n",
        b"MSG a 1 x\r\n\r\n",
        b"MSG a 1 0000000000\r\n\r\n",
        b"MSG a 1 4294967296\r\n",
        b"MSG a 1 101\r\n" + b"x" * 101 + b"\r\n",
        b"MSG a 1 1\r\nxx\r\n",
        b"MSG a 1 1\r\nx\n\n",
        b"HMSG a 1 2 1\r\nx\r\n",
        b"HMSG a 1 1\r\nx\r\n",
        b"HMSG a 1 r s 1 1\r\nx\r\n",
        b"HMSG a 1 x 1\r\nx\r\n",
        b"MSG " + b"a" * 5000 + b" 1 0\r\n\r\n",
        b"MSG a\r 1 0\r\n\r\n",
        b"",
        b"MSG",
        b"HMSG ",
    ],
)
def test_frames_spelled_otherwise_or_wrong_are_left_alone(frame: bytes) -> None:
    found = cut(ONE + frame, most=100)
    assert found[0] == len(ONE)
    assert len(found[1]) == len(found[2]) == 1


def test_frames_position_outside_the_data_is_refused_or_the_end() -> None:
    with pytest.raises(ValueError, match="below 0"):
        cut(ONE, -1)
    assert cut(ONE, len(ONE))[0] == len(ONE)
    assert cut(ONE, 10**9)[0] == 10**9


piece = st.sampled_from(
    [
        b"MSG ",
        b"HMSG ",
        b"a.b",
        b" ",
        b"1",
        b"3",
        b"12",
        b"\r\n",
        b"\r",
        b"\n",
        b"\t",
        b"xyz",
        ONE,
        TWO,
        b"\0",
        b"\xff",
    ]
)


@given(st.lists(piece, max_size=30).map(b"".join))
def test_frames_agree_with_the_same_in_plain_python(data: bytes) -> None:
    assert cut(data) == reference(data)


@given(st.data())
def test_frames_with_one_byte_changed_agree_with_plain_python(data: st.DataObject) -> None:
    raw = bytearray(ONE + TWO + ONE)
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert cut(bytes(raw)) == reference(bytes(raw))


def test_payload_is_filled_piece_by_piece_and_taken_once() -> None:
    payload = Payload(8)
    payload.add(b"--abc", 2)
    with memoryview(payload) as view:
        assert len(view) == payload.missing == 5
        view[:2] = b"de"
    payload.advance(2)
    with pytest.raises(ValueError, match="not complete"):
        payload.take()
    payload.add(b"fgh", 0)
    assert payload.missing == 0
    assert payload.take() == b"abcdefgh"
    with pytest.raises(ValueError, match="taken"):
        payload.take()
    with pytest.raises(BufferError, match="taken"):
        memoryview(payload)


def test_payload_takes_no_more_than_there_is_room() -> None:
    payload = Payload(3)
    for wrong in (
        lambda: payload.add(b"abcd", 0),
        lambda: payload.add(b"ab", 3),
        lambda: payload.add(b"a", -1),
    ):
        with pytest.raises(ValueError, match="missing"):
            wrong()
    for count in (4, -1):
        with pytest.raises(ValueError, match="missing"):
            payload.advance(count)
    assert payload.missing == 3
    with pytest.raises(ValueError, match="negative size"):
        Payload(-1)


def test_payload_is_not_taken_while_somebody_may_write_to_it() -> None:
    payload = Payload(2)
    view = memoryview(payload)
    view[:] = b"ab"
    payload.advance(2)
    with pytest.raises(ValueError, match="still written to"):
        payload.take()
    view.release()
    assert payload.take() == b"ab"
