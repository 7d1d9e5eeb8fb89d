"""Counting frames in decrypted bytes, whole and in pieces."""

import pytest
from bench.errors import BenchError
from bench.tls_load import FrameCounter

FRAME = b"MSG a 1 2\r\nhi\r\n"


@pytest.mark.parametrize("size", [1, 2, 5, len(FRAME), 1000])
def test_counter_any_split_counts_frames_and_control_lines(size):
    stream = FRAME * 3 + b"PING\r\n" + FRAME * 2 + b"INFO {}\r\nPONG\r\n" + FRAME
    counter = FrameCounter(FRAME)
    for at in range(0, len(stream), size):
        counter.feed(stream[at : at + size])
    assert (counter.received, counter.pings, counter.pongs, counter.is_whole) == (6, 1, 1, True)


def test_counter_half_a_frame_is_not_whole():
    counter = FrameCounter(FRAME)
    counter.feed(FRAME + FRAME[:5])
    assert (counter.received, counter.is_whole) == (1, False)


@pytest.mark.parametrize(
    "wrong", [b"-ERR 'no'\r\n", FRAME.replace(b"hi", b"ho"), FRAME.replace(b"a 1", b"a 2")]
)
def test_counter_anything_else_raises(wrong):
    with pytest.raises(BenchError):
        FrameCounter(FRAME).feed(FRAME + wrong)
