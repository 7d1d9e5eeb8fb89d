from collections.abc import Callable
from typing import Protocol

from headrace.engine.batches import Outgoing
from headrace.engine.consumer import ConsumerTable
from headrace.engine.lanes import Lane

class _Journal(Protocol):
    @property
    def wants_turn(self) -> bool: ...
    def write_now(self) -> bool | None: ...
    def confirm(self, replies: list[bytes]) -> None: ...

class AckLane(Lane):
    def __init__(
        self, consumers: ConsumerTable, out: Outgoing, journal: _Journal, now_ns: Callable[[], int]
    ) -> None: ...
