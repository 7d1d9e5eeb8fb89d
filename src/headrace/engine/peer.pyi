from typing import Any

from headrace.engine.link import Link, Router

class PeerLink(Link):
    def __init__(
        self,
        router: Router,
        session: Any,
        *,
        max_payload: int = ...,
        max_control_line: int = ...,
        must_connect: bool = ...,
        is_outbound: bool = ...,
    ) -> None: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def has_headers(self) -> bool: ...
    def limit(self, *, max_payload: int, max_control_line: int) -> None: ...
