from collections.abc import Callable

from headrace.engine.interest import Interest
from headrace.engine.peer import PeerLink

class RouteLink(PeerLink):
    @property
    def served(self) -> tuple[bytes, ...]: ...
    def configure(
        self,
        *,
        headers: bool,
        has_origin: bool,
        origin_unsub: bool,
        server_hash: bytes | None = ...,
        traces: bool = ...,
    ) -> None: ...
    def serve(self, account: bytes, interest: Interest, *, dedicated: bool = False) -> None: ...
    def withdraw(self, account: bytes, *, tell: bool = False) -> None: ...
    def take_side(self, side: int) -> None: ...
    def restrict(
        self, imports: Callable[[bytes], bool] | None, exports: Callable[[bytes], bool] | None
    ) -> None: ...
    def interest_rows(self) -> list[tuple[bytes, bytes, bytes | None, int]]: ...
