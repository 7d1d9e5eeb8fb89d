from collections.abc import Callable
from typing import Any

class Interest:
    account: bytes
    is_traced: bool
    imports: tuple[Any, ...]
    mapper: Callable[[bytes], tuple[bytes, bool] | None] | None
    def receivers(self, subject: bytes) -> tuple[int, int]: ...
    def statistics(self) -> dict[str, int]: ...
