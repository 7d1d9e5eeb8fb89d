"""What gateways are given by whoever has sockets, clocks and accounts.

Contracts only; the life of a connection is as in `port`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.cluster.gateway import GatewaySession
    from headrace.cluster.port import Address, Timer, Wire
    from headrace.engine.interest import Interest
    from headrace.engine.link import Router
    from headrace.protocol.peers import PeerInfo


class GatewayPort(Protocol):
    """What `Gateways` needs of its server. Each member that `port.Port` has too means the same."""

    @property
    def router(self) -> Router: ...

    @property
    def max_payload(self) -> int: ...

    @property
    def max_control_line(self) -> int: ...

    @property
    def ping_interval(self) -> float: ...

    @property
    def ping_max(self) -> int: ...

    def identity(self) -> PeerInfo:
        """What INFO on gateways says of this server beside what `Gateways` knows itself.

        That is: server_id, server_name, version, proto, host and port of the gateway port as advertised,
        max_payload, headers, tls_required, tls_verify, auth_required.
        """

    def now_ns(self) -> int: ...

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer: ...

    def random(self) -> float: ...

    def wake(self) -> None: ...

    def dial(
        self,
        gateway: str,
        address: Address,
        connected: Callable[[Wire], GatewaySession | None],
        failed: Callable[[str | None], object],
    ) -> None:
        """Connects to a server of a cluster, with TLS if that has it, else as `Port.dial`."""

    def account_names(self) -> Iterable[str]: ...

    def interest(self, account: str) -> Interest | None: ...

    def compare(self, stored: str, given: str, judged: Callable[[bool], object]) -> None: ...

    def is_taken(self, server_name: str) -> bool:
        """Whether this server, or another one of its cluster, has that name."""

    def tell_routes(self, line: bytes) -> None:
        """Sends a line to every other server of the cluster, once to each."""

    def log(self, level: int, text: str) -> None: ...
