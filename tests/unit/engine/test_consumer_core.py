"""What changed of a consumer, as bytes: the same that msgspec makes of it, and read back the same."""

from __future__ import annotations

import struct
from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.consumer import ConsumerCore, ConsumerDeltas
from headrace.engine.memory import live_objects
from headrace.jetstream.consumer.ack_state import AckState, ConsumerState
from headrace.protocol.jetstream.configs import AckPolicy

EDGES: Final = [1 << bits for bits in (0, 4, 5, 7, 8, 15, 16, 31, 32, 62)]
NUMBERS: Final = st.one_of(
    st.sampled_from(EDGES).flatmap(lambda edge: st.integers(max(edge - 3, 1), edge + 3)), st.integers(1, 50)
)
TIMES: Final = st.one_of(NUMBERS, NUMBERS.map(lambda number: -number), st.integers(-(1 << 63), (1 << 63) - 1))
GAPS: Final = st.lists(st.sampled_from([1, 1, 1, 1, 2, 300]), max_size=40)


class Changes(msgspec.Struct, array_like=True, tag=1):
    numbers: tuple[int, int, int, int] = (0, 0, 0, 0)
    new: list[tuple[int, int, list[int]]] = msgspec.field(default_factory=list)
    renewed: list[int] = msgspec.field(default_factory=list)
    gone: list[int] = msgspec.field(default_factory=list)
    counts: list[int] = msgspec.field(default_factory=list)
    uncounted: list[int] = msgspec.field(default_factory=list)
    held: list[int] = msgspec.field(default_factory=list)
    freed: list[int] = msgspec.field(default_factory=list)


def packed(sequences: list[int]) -> list[int]:
    """A run without gaps as its first and its negative length."""
    count = len(sequences)
    has_gaps = count < 3 or sequences != list(range(sequences[0], sequences[0] + count))
    return sequences if has_gaps else [sequences[0], -count]


def sequences(first: int, gaps: list[int]) -> list[int]:
    found = [first]
    for gap in gaps:
        found.append(found[-1] + gap)
    return found


@given(
    start=NUMBERS,
    runs=st.lists(st.tuples(NUMBERS, TIMES, GAPS, st.booleans()), max_size=20),
    gone=st.lists(NUMBERS, max_size=20) | st.builds(sequences, NUMBERS, GAPS),
    renewed=st.dictionaries(NUMBERS, st.tuples(NUMBERS, TIMES), max_size=20),
    counts=st.dictionaries(NUMBERS, NUMBERS, max_size=20),
    uncounted=st.lists(NUMBERS, max_size=5),
    held=st.lists(NUMBERS, max_size=20, unique=True),
    freed=st.lists(NUMBERS, max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_the_bytes_are_those_of_msgspec(
    *,
    start: int,
    runs: list[tuple[int, int, list[int], bool]],
    gone: list[int],
    renewed: dict[int, tuple[int, int]],
    counts: dict[int, int],
    uncounted: list[int],
    held: list[int],
    freed: list[int],
) -> None:
    state = ConsumerState()
    state.delivered_consumer = start
    core = AckState(AckPolicy.EXPLICIT, state, ConsumerDeltas())
    expected = Changes()
    for first, ns, gaps, alone in runs:
        run = [first] if alone else sequences(first, gaps)
        number = state.delivered_consumer + 1
        if alone:
            core.sent_one(first, ns)
        else:
            is_range = run == list(range(first, first + len(run)))
            core.sent(range(first, first + len(run)) if is_range and len(gaps) % 2 else run, ns)
        expected.new.append((number, ns, packed(run)))
        assert state.delivered_consumer == number + len(run) - 1
    core.note_gone(gone)
    expected.gone = packed(gone)
    for sequence, (number, ns) in renewed.items():
        core.note_renewed(sequence, number, ns)
        expected.renewed += [sequence, number, ns]
    for sequence, count in counts.items():
        core.note_count(sequence, count)
    for sequence in uncounted:
        core.note_count(sequence, 0)
        counts.pop(sequence, None)
    expected.counts = [part for pair in counts.items() for part in pair]
    expected.uncounted = uncounted
    for sequence in held:
        core.note_held(sequence)
    for sequence in freed:
        core.note_held(sequence, freed=True)
    expected.held = [sequence for sequence in held if sequence not in freed]
    expected.freed = freed
    expected.numbers = state.numbers
    assert core.take_delta() == msgspec.msgpack.encode(expected)
    assert core.take_delta() == msgspec.msgpack.encode(Changes(state.numbers)), "what was taken is forgotten"


def test_many_changes() -> None:
    """More than the shorter heads of lists can say."""
    before = live_objects()
    core = AckState(AckPolicy.EXPLICIT, ConsumerState(), ConsumerDeltas())
    expected = Changes()
    for number in range(1, 70_001):
        core.sent_one(2 * number, number)
        expected.new.append((number, number, [2 * number]))
    expected.gone = list(range(2, 140_002, 2))
    for sequence in expected.gone:
        del core.pending[sequence]
    core.note_gone(expected.gone)
    expected.numbers = core.state.numbers
    assert core.take_delta() == msgspec.msgpack.encode(expected)
    assert live_objects() == before, "what is empty and was large keeps no memory"


def test_consumers_are_written_in_the_order_of_their_first_change() -> None:
    deltas, cores = ConsumerDeltas(), list[AckState]()
    for identity in (3, 1 << 40, 2):
        cores.append(core := AckState(AckPolicy.EXPLICIT, ConsumerState(), deltas))
        core.identity = identity
        core.is_stored = identity != 2
    for core in (cores[1], cores[2], cores[0], cores[1]):
        core.sent_one(core.next_sequence, 5)
    assert len(deltas) == 2
    one = msgspec.msgpack.encode(Changes((1, 1, 0, 0), [(1, 5, [1])]))
    two = msgspec.msgpack.encode(Changes((2, 2, 0, 0), [(1, 5, [1]), (2, 5, [2])]))
    entries = [
        struct.pack("<cIQ", b"D", 8 + len(body), identity) + body
        for identity, body in ((1 << 40, two), (3, one))
    ]
    assert deltas.take() == b"".join(entries)
    assert (len(deltas), deltas.take()) == (0, b"")
    cores[0].sent_one(9, 6)
    cores[1].sent_one(9, 6)
    deltas.discard(3)
    deltas.discard(77)
    assert deltas.take()[5:13] == (1 << 40).to_bytes(8, "little")
    cores[0].sent_one(10, 7)
    assert len(deltas) == 1, "one that was discarded may come again"


def test_a_whole_state_takes_the_place_of_what_changed() -> None:
    state = ConsumerState()
    core = AckState(AckPolicy.EXPLICIT, state, ConsumerDeltas())
    core.sent_one(4, 5)
    core.begin_at(9)
    core.sent_one(9, 6)
    assert core.take_delta() == state.encode()
    assert core.take_delta() == msgspec.msgpack.encode(Changes((1, 9, 0, 8)))


def test_a_core_is_made_of_its_parts() -> None:
    with pytest.raises(TypeError):
        ConsumerCore(AckPolicy.EXPLICIT, None, ConsumerDeltas())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ConsumerCore(AckPolicy.EXPLICIT, ConsumerState(), None)  # type: ignore[arg-type]
    core = ConsumerCore(AckPolicy.EXPLICIT, ConsumerState(), ConsumerDeltas())
    for empty in ([], range(0)):
        with pytest.raises(IndexError):
            core.sent(empty, 1)
