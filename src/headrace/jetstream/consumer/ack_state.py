"""The state of a consumer's deliveries and acknowledgements, as numbers and as bytes for the journal.

Here live `ConsumerState`, which is what survives a restart, and `AckState`, which changes it. What happens
with every message, and the bytes of what changed, are `engine.consumer`'s. Never here: a message, a timer, or
what an acknowledgement is answered.

Pending messages stand in the order in which they were last sent. Two floors are kept: the one that
acknowledgements are judged by, and the one that is shown and stored, which stays behind when messages are
given up rather than acknowledged. Source: nats-server 2.15 (consumer.go, filestore.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from headrace.engine.consumer import ConsumerCore, ConsumerNumbers
from headrace.engine.pending import PendingMap
from headrace.engine.stan import without_gap
from headrace.protocol.jetstream.configs import AckPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.engine.consumer import ConsumerDeltas

_encode = msgspec.msgpack.encode


_Number = Annotated[int, msgspec.Meta(ge=0)]


class _Whole(msgspec.Struct, array_like=True, tag=0):
    """The whole state of a consumer, encoded.

    `pending`: sequence, consumer sequence and ns of each message; `counts`: sequence and redeliveries.
    """

    numbers: tuple[_Number, _Number, _Number, _Number]
    pending: list[int]
    counts: list[int]
    held: list[int]


class _Changes(msgspec.Struct, array_like=True, tag=1):
    """The changes of a state. `new` has for each batch the first consumer sequence, ns and the sequences."""

    numbers: tuple[_Number, _Number, _Number, _Number]
    new: list[tuple[int, int, list[int]]]
    renewed: list[int]
    gone: list[int]
    counts: list[int]
    uncounted: list[int]
    held: list[int]
    freed: list[int]


_decode = msgspec.msgpack.Decoder(_Whole | _Changes).decode


def _packed(sequences: Sequence[int]) -> list[int]:
    """A run without gaps as its first and its negative length; anything else as it is."""
    if len(sequences) > 2 and (isinstance(sequences, range) or without_gap(list(sequences))):
        return [sequences[0], -len(sequences)]
    return list(sequences)


def _unpacked(packed: list[int]) -> Sequence[int]:
    """Return the sequences of a packed list. Raises: ValueError when one is negative."""
    is_run = len(packed) == 2 and packed[1] < 0
    if packed and (packed[0] if is_run else min(packed)) < 0:
        raise ValueError("a negative sequence in a consumer's state")
    return range(packed[0], packed[0] - packed[1]) if is_run else packed


def _pairs(flat: list[int]) -> list[tuple[int, int]]:
    """Return a flat list as pairs. Raises: ValueError when one has no partner."""
    return list(zip(flat[::2], flat[1::2], strict=True))


def _triples(flat: list[int]) -> list[tuple[int, int, int]]:
    """Return a flat list as triples. Raises: ValueError when one is not complete."""
    return list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))


class ConsumerState(ConsumerNumbers):
    """The state of a consumer that survives a restart."""

    __slots__ = ("frozen",)

    def __init__(self) -> None:
        self.frozen = False
        """True if changes were lost: later deliveries do not follow on the known ones."""

    def freeze(self) -> None:
        """A change was lost: what is delivered from here on comes again; acknowledgements still count."""
        self.frozen = True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerState):
            return NotImplemented
        mine = (self.numbers, self.pending, self.redelivered, self.held)
        return mine == (other.numbers, other.pending, other.redelivered, other.held)

    __hash__ = None  # type: ignore[assignment]

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        return self.delivered_consumer, self.delivered_stream, self.floor_consumer, self.floor_stream

    @numbers.setter
    def numbers(self, numbers: tuple[int, int, int, int]) -> None:
        self.delivered_consumer, self.delivered_stream, self.floor_consumer, self.floor_stream = numbers

    def encode(self) -> bytes:
        if not (self.pending or self.redelivered or self.held):
            return _encode(_Whole(self.numbers, [], [], []))
        pending = [part for sequence, pair in self.pending.items() for part in (sequence, *pair)]
        counts = [part for pair in self.redelivered.items() for part in pair]
        return _encode(_Whole(self.numbers, pending, counts, _packed(list(self.held))))

    @classmethod
    def decode(cls, data: bytes) -> ConsumerState:
        """Read the state that `encode` wrote. Raises: ValueError for what is no encoding of a whole state."""
        state = cls()
        state.apply(data)
        return state

    def apply(self, data: bytes) -> None:
        """Take over an encoding, of everything or of changes; the order of what is pending may be lost.

        Raises: ValueError, and is then unchanged.
        """
        try:
            change = _decode(data)
            if isinstance(change, _Whole):
                self._apply_whole(change)
            else:
                self._apply_changes(change)
        except (msgspec.MsgspecError, OverflowError) as error:
            raise ValueError(f"not a consumer's state: {error}") from error

    def _apply_whole(self, whole: _Whole) -> None:
        sent, counts = PendingMap(_triples(whole.pending)), dict(_pairs(whole.counts))
        self.held = dict.fromkeys(_unpacked(whole.held))
        self.pending, self.redelivered = sent, counts
        self.numbers = whole.numbers
        self.frozen = False

    def _apply_changes(self, change: _Changes) -> None:
        renewed, counts = PendingMap(_triples(change.renewed)), _pairs(change.counts)
        gone, held = _unpacked(change.gone), _unpacked(change.held)
        sent = PendingMap(
            (sequence, number, ns)
            for first, ns, sequences in change.new
            for number, sequence in enumerate(_unpacked(sequences), first)
        )
        if not self.frozen:
            self.pending.update(sent)
            self.held.update(dict.fromkeys(held))
            self.numbers = change.numbers
        for sequence, pair in renewed.items():
            if self.pending.pop(sequence) is not None:
                self.pending[sequence] = pair
        for sequence in gone:
            self.pending.pop(sequence)
        self.redelivered.update(counts)
        for sequence in change.uncounted:
            self.redelivered.pop(sequence, None)
        for sequence in change.freed:
            self.held.pop(sequence, None)


class AckState(ConsumerCore):
    """A consumer's state and what changed in it; `deltas` is told when there is something to write.

    What happens with every message is the core's; here is what needs a policy or is rare.
    """

    def __init__(self, policy: AckPolicy, state: ConsumerState, _deltas: ConsumerDeltas) -> None:
        self.policy: Final = policy
        self.state: Final = state
        self.all: Final = policy in (AckPolicy.ALL, AckPolicy.FLOW_CONTROL)
        self.by_flow: Final = policy is AckPolicy.FLOW_CONTROL
        """True if answers to flow control are the acknowledgements."""
        self.redelivered: Final = state.redelivered
        self.tracks = policy is not AckPolicy.NONE
        self.next_sequence = max(state.delivered_stream, *state.held, 0) + 1
        self.floor_consumer = state.floor_consumer
        self.floor_stream = state.floor_stream
        self.is_stuck = self.skips_one()

    @property
    def position(self) -> int:
        """The first sequence that may be for this consumer, and was not delivered."""
        return max(self.next_sequence, self.passed_to)

    @property
    def next_number(self) -> int:
        """The consumer sequence of the next delivery."""
        return self.state.delivered_consumer + 1

    @property
    def reached(self) -> int:
        """The highest sequence that was delivered, or passed by."""
        return max(self.state.delivered_stream, self.floor_stream)

    @property
    def is_full(self) -> bool:
        """True if the largest number of messages is unacknowledged."""
        return 0 < self.most_pending <= len(self.pending)

    def room(self, most: int) -> int:
        """Return how many new messages may be sent, at most `most`."""
        if not self.most_pending:
            return most
        return min(self.most_pending - len(self.pending), most)

    # -- deliveries ------------------------------------------------------------------------------------

    def sent_again(self, sequence: int, ns: int) -> None:
        """A pending message went out again: it keeps its first consumer sequence, and goes to the end."""
        self.state.delivered_consumer += 1
        self.delivered_ns = ns
        number, _ = self.pending.pop(sequence) or (self.state.delivered_consumer, 0)
        self.pending[sequence] = (number, ns)
        self.note_renewed(sequence, number, ns)
        self.touch()

    def count(self, sequence: int, redeliveries: int) -> None:
        """A message was sent again so often."""
        self.redelivered[sequence] = redeliveries
        self.note_count(sequence, redeliveries)
        self.touch()

    def uncount(self, sequence: int) -> bool:
        """Forget how often a message was sent again; False when it never was."""
        if self.redelivered.pop(sequence, None) is None:
            return False
        self.note_count(sequence, 0)
        self.touch()
        return True

    def renew(self, sequence: int, ns: int, *, last: bool = True, noted: bool = True) -> None:
        """A pending message counts as sent at `ns`; `last`: it moves to the end of the order."""
        number = self.pending.renew(sequence, ns, last=last)
        if noted:
            self.note_renewed(sequence, number, ns)
            self.touch()

    # -- acknowledgements ------------------------------------------------------------------------------

    def settled(self, sequences: list[int], ns: int) -> None:
        """Note that messages were acknowledged one by one; the caller has taken them out of `pending`."""
        self.acknowledged_ns = ns
        if not sequences:
            return
        self.note_gone(sequences)
        if self.redelivered:
            for sequence in sequences:
                self.uncount(sequence)
        self.raise_floor(shown=True)
        self.touch()

    def forget(self, sequence: int, *, shown: bool = True) -> None:
        """A pending message is pending no more. `shown`: the floor that is shown moves with it."""
        if self.pending.pop(sequence) is not None:
            self.note_gone([sequence])
            self.raise_floor(shown=shown)
            self.touch()

    def settle_up_to(self, number: int, sequence: int, ns: int) -> list[int]:
        """Acknowledge every delivery up to this one; return the sequences that were pending."""
        shown = sequence in self.pending
        gone = self.pending.take_up_to(sequence)
        self.note_gone(gone)
        for counted in [counted for counted in self.redelivered if counted <= sequence]:
            self.uncount(counted)
        self.acknowledged_ns = ns
        self.floor_consumer, self.floor_stream = number, sequence
        if shown:
            self.state.floor_consumer, self.state.floor_stream = number, sequence
            self.is_stuck = False
        self.known_lowest = 0
        self.touch()
        return gone

    # -- what was passed over --------------------------------------------------------------------------

    def hold(self, sequence: int) -> None:
        self.state.held[sequence] = None
        self.note_held(sequence)
        self.next_sequence = max(self.next_sequence, sequence + 1)
        self.touch()

    def free(self, sequence: int) -> None:
        if sequence in self.state.held:
            del self.state.held[sequence]
            self.note_held(sequence, freed=True)
            self.touch()

    # -- jumps -----------------------------------------------------------------------------------------

    def begin_at(self, sequence: int) -> None:
        """Begin anew: no message was delivered, and the stream is read from `sequence` on."""
        self._restart(sequence)
        self.is_whole_new = True
        self.touch()

    def _restart(self, sequence: int) -> None:
        state = self.state
        self.pending.clear()
        self.redelivered.clear()
        state.held.clear()
        state.delivered_consumer = state.floor_consumer = self.floor_consumer = 0
        state.delivered_stream = state.floor_stream = self.floor_stream = sequence - 1
        self.next_sequence = sequence
        self.passed_to = 0
        self.delivered_ns = self.acknowledged_ns = self.known_lowest = 0
        self.is_stuck = False

    def purged(self, sequence: int, missing: Callable[[int], bool], ns: int) -> None:
        """Note that the stream has no message below `sequence` any more that this consumer would get.

        `missing` says of a pending message above that it went too.
        """
        state = self.state
        self.next_sequence = max(self.next_sequence, sequence)
        state.delivered_stream = max(state.delivered_stream, self.next_sequence - 1)
        if self.floor_stream < sequence:
            self.floor_stream = sequence - 1
            for gone in [one for one in self.pending if one < sequence or missing(one)]:
                self.acknowledged_ns = ns
                self.floor_consumer = max(self.floor_consumer, self.pending[gone][0])
                del self.pending[gone]
                self.redelivered.pop(gone, None)
        for gone in [held for held in state.held if held < sequence]:
            del state.held[gone]
        if not self.pending and not state.held:
            self.redelivered.clear()
            self.floor_consumer, self.floor_stream = state.delivered_consumer, self.next_sequence - 1
        state.floor_consumer, state.floor_stream = self.floor_consumer, self.floor_stream
        self.known_lowest = 0
        self.is_stuck = False
        self.is_whole_new = True
        self.touch()
