from collections.abc import Callable
from typing import Protocol

from headrace.engine.batches import Outgoing
from headrace.engine.consumer import ConsumerTable, DeltaWriter
from headrace.engine.lanes import Lane

class _Journal(Protocol):
    @property
    def writer(self) -> DeltaWriter: ...
    def confirm(self, replies: list[bytes]) -> None: ...

class AckLane(Lane):
    def __init__(
        self, consumers: ConsumerTable, out: Outgoing, journal: _Journal, now_ns: Callable[[], int]
    ) -> None: ...
