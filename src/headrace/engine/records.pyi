from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from headrace.engine.messages import NewMessages, StoredMessages
from headrace.engine.sequence_set import SequenceSet
from headrace.engine.subject_index import SubjectIndex

HEADER_BYTES: int
LARGEST_BODY: int
HAS_SSE42: bool

_M = TypeVar("_M")
_Filters: TypeAlias = list[bytes] | bytes | None

def crc32c(data: bytes | memoryview, start: int = 0, portable: bool = False) -> int: ...
def join(pieces: tuple[bytes, ...]) -> bytes: ...
def join_checked(magic: bytes, pieces: tuple[bytes | memoryview, ...]) -> bytes: ...
def encode(
    batch: NewMessages[Any],
    first: int,
    last_time: int,
    now: int,
    salt: int,
    table: SubjectIndex,
    lead: bytes = b"",
    sealer: Callable[[bytes, bytes], bytes] | None = None,
    overhead: int = 0,
) -> bytes: ...
def encode_removal(
    ranges: Sequence[tuple[int, int]],
    floor: int,
    last: int,
    time: int,
    salt: int,
    *,
    by_limits: bool = False,
) -> bytes: ...
def encode_segments(pairs: Sequence[tuple[int, int]], last: int, time: int, salt: int) -> bytes: ...
def encode_header(header: bytes, base: int, time: int, salt: int) -> bytes: ...
def erased(record: bytes, salt: int) -> bytes: ...

class Scan:
    damaged: list[tuple[int, int]]
    besides: int
    headed: int
    def __init__(
        self,
        salt: int,
        expected: int,
        ceiling: int,
        origin: int = 0,
        opener: Callable[[bytes, bytes], bytes | None] | None = None,
        overhead: int = 0,
    ) -> None: ...
    @property
    def has_sealed(self) -> bool: ...
    @property
    def expected(self) -> int: ...
    @property
    def settled(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def need(self) -> int: ...
    @property
    def base(self) -> int: ...
    @property
    def bad_from(self) -> int | None: ...
    @property
    def messages(self) -> int: ...
    @property
    def message_bytes(self) -> int: ...
    @property
    def record_bytes(self) -> int: ...
    @property
    def expiring(self) -> int: ...
    @property
    def ranges(self) -> list[tuple[int, int]]: ...
    @property
    def segments(self) -> list[tuple[int, int]]: ...
    @property
    def floor(self) -> int: ...
    @property
    def last_time(self) -> int: ...
    @property
    def last_message(self) -> int: ...
    @property
    def expiry(self) -> int: ...
    def finish(self) -> None: ...
    def messages_in(
        self,
        data: bytes,
        final: bool,
        first: int,
        last: int,
        filters: _Filters,
        removed: SequenceSet,
        floor: int,
        out: StoredMessages[Any],
        most: int,
        room: int,
    ) -> int: ...
    def outline(
        self,
        data: bytes,
        final: bool,
        make: type[_M],
        first: int,
        last: int,
        filters: _Filters,
        removed: SequenceSet,
        floor: int,
        out: list[_M],
        most: int,
    ) -> bool: ...
    def tally(
        self,
        data: bytes,
        final: bool,
        first: int,
        last: int,
        filters: _Filters,
        removed: SequenceSet,
        floor: int,
    ) -> bool: ...
    def removals(self, data: bytes, final: bool, removed: SequenceSet, widest: int) -> int: ...
    def survivors(self, data: bytes, final: bool, removed: SequenceSet, floor: int) -> bytes: ...
    def resealed(
        self,
        data: bytes,
        header: bytes,
        sealer: Callable[[bytes, bytes], bytes] | None = None,
        overhead: int = 0,
        blanks: bool = False,
    ) -> bytes: ...
    def withdraw(
        self,
        data: bytes,
        final: bool,
        table: SubjectIndex,
        removed: SequenceSet,
        floor: int,
        gone: SequenceSet,
        new_floor: int,
    ) -> int: ...
    def drop(
        self,
        data: bytes,
        final: bool,
        table: SubjectIndex,
        removed: SequenceSet,
        floor: int,
        messages: int,
        size: int,
        most: int,
    ) -> bool: ...
    def census(
        self,
        data: bytes,
        final: bool,
        table: SubjectIndex,
        removed: SequenceSet,
        floor: int,
        marked: int,
        spacing: int,
    ) -> list[list[int]]: ...
