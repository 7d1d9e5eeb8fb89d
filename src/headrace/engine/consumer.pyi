from collections.abc import Callable, Sequence
from typing import Any

from headrace.engine.messages import NewMessages
from headrace.engine.pending import PendingMap

class ConsumerNumbers:
    delivered_consumer: int
    delivered_stream: int
    floor_consumer: int
    floor_stream: int
    pending: PendingMap
    redelivered: dict[int, int]
    held: dict[int, None]

class ConsumerDeltas:
    is_due: bool
    timer: Any
    def __len__(self) -> int: ...
    def discard(self, identity: int) -> None: ...
    def take(self) -> bytes: ...

class ChangeCounts:
    log: Any
    entries: list[bytes]
    waiters: list[Any]
    appended: int
    synced: int
    grown: int
    most_growth: int
    snapshot_due: bool

class DeltaWriter:
    def __init__(
        self,
        journal: ChangeCounts,
        deltas: ConsumerDeltas,
        marks: Any,
        *,
        batch: NewMessages[Any],
        subject: bytes,
        copies: list[bytes],
    ) -> None: ...
    def wants_turn(self) -> bool: ...

class ConsumerCore:
    tracks: bool
    next_sequence: int
    passed_to: int
    floor_consumer: int
    floor_stream: int
    delivered_ns: int
    acknowledged_ns: int
    known_lowest: int
    is_stuck: bool
    active_ns: int
    epoch: int
    most_pending: int
    settles_alone: bool
    acked: Callable[[list[int]], object] | None
    waits_again: tuple[dict[int, None] | set[int], ...] | None
    identity: int
    is_stored: bool
    is_whole_new: bool
    def __new__(cls, policy: object, state: ConsumerNumbers, deltas: ConsumerDeltas) -> ConsumerCore: ...
    @property
    def pending(self) -> PendingMap: ...
    def sent(self, sequences: Sequence[int], ns: int) -> None: ...
    def sent_one(self, sequence: int, ns: int) -> None: ...
    def raise_floor(self, shown: bool) -> None: ...
    def skips_one(self) -> bool: ...
    def lowest(self) -> int: ...
    def touch(self) -> None: ...
    def note_gone(self, sequences: list[int]) -> None: ...
    def note_renewed(self, sequence: int, number: int, ns: int) -> None: ...
    def note_count(self, sequence: int, redeliveries: int) -> None: ...
    def note_held(self, sequence: int, *, freed: bool = False) -> None: ...
    def forget_changes(self) -> None: ...
    def take_delta(self) -> bytes: ...

class DueWork:
    touched: dict[Any, None]
    woken: dict[Any, None]
    writer: DeltaWriter
    @property
    def has_due(self) -> bool: ...

class ConsumerTable:
    def __len__(self) -> int: ...
    def add(self, name: bytes, core: ConsumerCore) -> None: ...
    def discard(self, name: bytes, core: ConsumerCore) -> None: ...
