from collections.abc import Callable
from typing import Any, Generic, TypeVar

from headrace.engine.log_core import LogCounts

_M = TypeVar("_M", bound=tuple[Any, ...])

class PointReads(Generic[_M]):
    reads: int
    read_bytes: int
    def __init__(
        self, locate: Callable[[int], tuple[int, int, int, int, int] | None], make: type[_M]
    ) -> None: ...
    def message(self, sequence: int, last: int) -> _M | None: ...
    def forget(self, descriptor: int) -> None: ...
    def __len__(self) -> int: ...

class LogReads: ...

class FileReads(LogReads):
    def __init__(self, points: PointReads[Any], counts: LogCounts) -> None: ...
