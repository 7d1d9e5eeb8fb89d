from collections.abc import Callable, Iterable

from headrace.engine.interest import Interest
from headrace.engine.peer import PeerLink

class LeafLink(PeerLink):
    def restrict(
        self,
        tells: Callable[[bytes], bool] | None,
        sends: Callable[[bytes], bool] | None,
        receives: Callable[[bytes], bool] | None,
    ) -> None: ...
    def track_replies(self, on: bool) -> None: ...
    def open(
        self,
        interest: Interest,
        *,
        is_spoke: bool,
        headers: bool,
        origin: bytes = ...,
        isolated: bool = ...,
        loop: bytes = ...,
        always: Iterable[bytes] = ...,
        traces: bool = ...,
    ) -> None: ...
    def wants(self, always: Iterable[bytes]) -> None: ...
    def limit(self, *, max_payload: int, max_control_line: int, max_subscriptions: int = ...) -> None: ...
    def interest_rows(self) -> list[tuple[bytes, bytes | None, int]]: ...
