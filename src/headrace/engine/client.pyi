from collections.abc import Callable
from typing import Any

from headrace.engine.link import Link, Router
from headrace.engine.permission_cache import PermissionCache

class ClientLink(Link):
    def __init__(
        self,
        router: Router,
        session: Any,
        *,
        max_payload: int = ...,
        max_control_line: int = ...,
        max_subscriptions: int = ...,
        max_subscription_tokens: int = ...,
        must_connect: bool = ...,
    ) -> None: ...
    @property
    def max_payload(self) -> int: ...
    @property
    def echo(self) -> bool: ...
    @property
    def has_headers(self) -> bool: ...
    def configure(
        self,
        *,
        verbose: bool,
        pedantic: bool,
        echo: bool,
        headers: bool,
        no_responders: bool,
        info_on_ping: bool,
    ) -> None: ...
    def limit(self, *, max_payload: int, max_subscriptions: int) -> None: ...
    def limit_ops(self, *, max_control_line: int, max_subscription_tokens: int) -> None: ...
    def adopt(self) -> None: ...
    def demand_connect(self) -> None: ...
    def restrict(
        self,
        publish_permissions: PermissionCache | None,
        deliver_permissions: PermissionCache | None,
        checks_subscribe: bool,
        tracks_replies: bool,
    ) -> None: ...
    def judge_subscriptions(
        self, judge: Callable[[bytes, bytes | None], int]
    ) -> list[tuple[bytes, bytes | None, bytes]]: ...
    def drop_subscriptions(self) -> None: ...
