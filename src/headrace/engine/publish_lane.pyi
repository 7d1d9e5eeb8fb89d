from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headrace.engine.batches import Outgoing
from headrace.engine.ids import IdWindow
from headrace.engine.jetstream import Publications
from headrace.engine.lanes import HeldBytes, Lane, StreamCounts
from headrace.errors import LogError

class _Owner(Protocol):
    def make_batch(self) -> Publications: ...
    def take_over(self, batch: Publications, ids: dict[int, bytes], error: LogError | None) -> None: ...
    def appended(self, last: int, time_ns: int, stored: int) -> None: ...
    def hold(self, batch: Publications, first: int) -> None: ...
    def announce(self, batch: Publications, first: int) -> bool: ...

class PublishLane(Lane):
    unanswered: int
    is_behind: bool
    def __init__(
        self,
        stream: StreamCounts,
        owner: _Owner,
        ids: IdWindow,
        log: Any,
        now_ns: Callable[[], int],
        out: Outgoing,
        head: bytes,
        tail: bytes,
        repeated: bytes,
    ) -> None: ...
    def open(
        self,
        consumers: Mapping[Any, Any],
        followers: dict[Any, Any],
        held: HeldBytes,
        held_by_all: HeldBytes,
        *,
        largest: int,
        answers: bool,
        waits: bool,
        marks: Any,
        is_memory: bool,
        trims: bool,
        room: int,
        room_of_all: int,
        wants: Callable[[bytes], bool] | None = None,
    ) -> None: ...
    def forget_interest(self) -> None: ...
