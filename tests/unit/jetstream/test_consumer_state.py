"""What survives a restart, and the bytes of it."""

from __future__ import annotations

import msgspec
import pytest
from consumer_harness import SECOND, Desk, sequences
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.consumer import ConsumerDeltas
from headrace.jetstream.consumer.ack_state import AckState, ConsumerState
from headrace.protocol.jetstream.configs import AckPolicy


def test_a_restart_goes_on_where_it_was() -> None:
    desk = Desk()
    desk.open()
    desk.fill(5)
    frames = desk.pull(body="3")
    desk.ack(frames[0])
    before = desk.consumer.info()
    desk.reopen()
    after = desk.consumer.info()
    for name in ("num_ack_pending", "num_pending", "num_redelivered"):
        assert after[name] == before[name]
    assert after["delivered"]["stream_seq"] == 3  # type: ignore[index]
    assert after["ack_floor"] == {"consumer_seq": 1, "stream_seq": 1}
    assert sequences(desk.pull(body="9")) == [4, 5]
    desk.advance(31)
    assert sequences(desk.pull(body="9")) == [2, 3, 4, 5]


def test_what_waited_too_long_while_the_server_was_away_comes_at_once() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND)
    desk.fill(2)
    desk.pull(body="1")
    desk.reopen(lost=10)
    desk.advance(0.1)
    frames = desk.pull(body="9")
    assert [frame.numbers[:3] for frame in frames] == [[2, 1, 2], [1, 2, 3]]


def test_an_acknowledged_message_does_not_come_again_after_a_restart() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND)
    desk.fill(3)
    frames = desk.pull(body="3")
    desk.ack(*frames, reply=b"r")
    desk.reopen(lost=10)
    desk.advance(1)
    assert desk.pull(body='{"batch":9,"no_wait":true}')[0].status == "404 No Messages"


def test_counts_of_redeliveries_survive() -> None:
    desk = Desk()
    desk.open(ack_wait=SECOND, max_deliver=3)
    desk.fill(1)
    for _ in range(2):
        desk.pull()
        desk.advance(1.1)
    desk.reopen()
    desk.advance(0.1)
    (frame,) = desk.pull()
    assert frame.numbers[0] == 3


FOUR = [1, 1, 1, 1]


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\xc1", b"\x90", b"\x91\x07", b"\x95\x00\x94\x01\x01\x01\x01\x91\x01\x90\x90"),
        msgspec.msgpack.encode([0, FOUR, [-1, 1, 1], [], []]),
        msgspec.msgpack.encode([0, FOUR, [], [], [-3, -2]]),
        msgspec.msgpack.encode([1, FOUR, [[1, 1, [7, -2]], [1, 1, [-5]]], [], [], [], [], [], []]),
        msgspec.msgpack.encode([1, FOUR, [[1, 1, [7]]], [-1, 1, 1], [], [], [], [], []]),
        msgspec.msgpack.encode([1, FOUR, [[1, 1, [7]]], [], [-1], [], [], [], []]),
        msgspec.msgpack.encode([1, FOUR, [[1, 1 << 63, [7]]], [], [], [], [], [], []]),
    ],
)
def test_bytes_that_are_no_state(data: bytes) -> None:
    state = ConsumerState()
    with pytest.raises(ValueError, match=r"state|zip"):
        state.apply(data)
    assert state == ConsumerState()


@given(st.lists(st.tuples(st.sampled_from("dara"), st.integers(1, 9)), max_size=60), st.integers(1, 5))
def test_changes_lead_to_the_same_state(steps: list[tuple[str, int]], every: int) -> None:
    tracker = AckState(AckPolicy.EXPLICIT, ConsumerState(), ConsumerDeltas())
    kept = ConsumerState()
    for number, (step, count) in enumerate(steps):
        if step == "d":
            first = tracker.next_sequence + count % 2
            got = list(range(first, first + count))
            for place, sequence in enumerate(got):
                tracker.pending[sequence] = (tracker.next_number + place, number)
            tracker.sent(got, number)
        elif step == "a":
            done = [sequence for sequence in list(tracker.pending) if sequence % count == 0]
            for sequence in done:
                del tracker.pending[sequence]
            tracker.settled(done, number)
        elif tracker.pending:
            sequence = sorted(tracker.pending)[count % len(tracker.pending)]
            tracker.count(sequence, tracker.redelivered.get(sequence, 0) + 1)
            tracker.sent_again(sequence, number)
        if number % every == 0:
            kept.apply(tracker.take_delta())
    kept.apply(tracker.take_delta())
    assert kept == tracker.state
    assert ConsumerState.decode(kept.encode()) == kept


def test_after_a_lost_change_nothing_counts_as_delivered() -> None:
    state = ConsumerState()
    tracker = AckState(AckPolicy.EXPLICIT, ConsumerState(), ConsumerDeltas())
    state.freeze()
    tracker.sent_one(1, 5)
    state.apply(tracker.take_delta())
    assert state.delivered_stream == 0
    assert not state.pending
