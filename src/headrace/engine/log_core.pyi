from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headrace.engine.messages import NewMessages
from headrace.engine.sequence_set import SequenceSet
from headrace.engine.subject_index import SubjectIndex

class LogCounts:
    table: SubjectIndex
    removed: SequenceSet
    unreadable: list[tuple[int, int]]
    ranges: list[tuple[int, int]]
    messages: int
    bytes: int
    expiring: int
    floor: int
    floor_written: int
    last_sequence: int
    last_time: int

class WriteEnd:
    abandoned: Path | None
    written: int
    extent: int
    segment_bytes: int
    drafted: int
    checkpoint_at: int
    reserves: bool
    is_begun: bool
    is_uncut: bool
    is_suspect: bool
    @property
    def active(self) -> Any: ...
    @property
    def active_descriptor(self) -> int: ...
    @property
    def salt(self) -> int: ...
    @property
    def base(self) -> int: ...
    def write_to(self, active: object, descriptor: int) -> None: ...

class LiveRecords:
    messages: int
    bytes: int

class Cursors:
    def __len__(self) -> int: ...
    def remember(self, sequence: int, segment: object, offset: int) -> None: ...
    def find(self, sequence: int) -> tuple[Any, int] | None: ...
    def clear(self) -> None: ...

class LogAppends:
    def append(self, batch: NewMessages[Any]) -> int: ...

class LogCore(LogAppends):
    is_quiet: bool
    def __init__(self, clock: Callable[[], int]) -> None: ...
    @property
    def is_open(self) -> bool: ...
    def open(
        self,
        counts: LogCounts,
        end: WriteEnd,
        cursors: Cursors,
        tidy: Callable[[Iterable[bytes]], object],
        *,
        seals: bool,
    ) -> None: ...
    def close(self) -> None: ...
    def obey(self, limits: Any) -> None: ...
    def count(self, batch: NewMessages[Any], offset: int, first: int, besides: int) -> None: ...
