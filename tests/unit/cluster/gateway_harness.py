"""Gateways with a port that does nothing by itself: tests say what bytes come, and see what goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mesh_harness import TestPort, TestWire
from msgspec.structs import replace

from headrace.cluster.gateways import Gateways
from headrace.conf.peer_options import ClusterOptions, GatewayOptions, PeerURL, RemoteGatewayOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.cluster.gateway import GatewaySession
    from headrace.cluster.port import Address

B = RemoteGatewayOptions("B", (PeerURL("127.0.0.1", 7333, scheme="nats"),))
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"name":"NB","gateway":"B"%s}\r\n'
B_INFO = (
    b'INFO {"server_id":"NB","server_name":"b","version":"2.15.1","proto":1,"host":"127.0.0.1","port":7333,'
    b'"headers":true,"max_payload":1048576,"gateway":"B","gateway_urls":["127.0.0.1:7333"],"gateway_nrp":true%s}\r\n'
)


class GatewayTestPort(TestPort):
    """`told_routes`: lines for the other servers of the cluster. `dials` have the name of the gateway too."""

    __test__ = False
    own_dials: list[tuple[str, Address, Callable[..., Any], Callable[..., Any]]]

    def __init__(self, options: GatewayOptions, accounts: Iterable[str] = (), **identity: Any) -> None:
        super().__init__(ClusterOptions(name=options.name, pool_size=-1), accounts, **identity)
        self.own = replace(self.own, host="127.0.0.1", port=7222)
        self.told_routes: list[bytes] = []
        self.own_dials = []
        self.taken_names = {"me"}
        self.gateways = Gateways(self, options)  # type: ignore[arg-type]

    def dial(self, gateway: Any, address: Any, connected: Any, failed: Any = None) -> None:
        self.own_dials.append((gateway, address, connected, failed))

    def is_taken(self, server_name: str) -> bool:
        return server_name in self.taken_names

    def tell_routes(self, line: bytes) -> None:
        self.told_routes.append(line)

    def comes(self) -> TestWire:
        """A server connected to the gateway port."""
        wire = TestWire(self)
        session = self.gateways.accepted(wire)
        assert session is not None
        return self._begun(wire, session)

    def arrives(self, number: int = 0) -> TestWire:
        """A dial succeeds."""
        _, _, connected, _ = self.own_dials.pop(number)
        wire = TestWire(self)
        return self._begun(wire, connected(wire))

    def fails(self, reason: str | None = "refused", number: int = 0) -> None:
        """A dial comes to nothing."""
        self.own_dials.pop(number)[3](reason)

    def _begun(self, wire: TestWire, session: GatewaySession) -> TestWire:
        wire.session = session  # type: ignore[assignment]
        self.wires.append(wire)
        session.opened()
        return wire

    def inbound(self, more: bytes = b"") -> TestWire:
        """A registered inbound connection of B; what was said at that is still to be read."""
        wire = self.comes()
        wire.said()
        wire.session.link.feed(CONNECT % b"" + B_INFO % more)
        return wire

    def outbound(self, more: bytes = b"") -> TestWire:
        """A registered outbound connection to B."""
        self.due(1.0)
        wire = self.arrives()
        wire.session.link.feed(B_INFO % more)
        return wire

    def stop(self) -> None:
        self.gateways.stop()
        super().stop()


class MadeGateways:
    """What makes ports, and keeps them; the cluster is A and knows B unless something else is said."""

    def __init__(self) -> None:
        self.ports: list[GatewayTestPort] = []

    def __call__(self, known: Iterable[str] = (), /, **given: Any) -> GatewayTestPort:
        options = GatewayOptions(**{"name": "A", "port": 7222, "gateways": (B,), **given})
        port = GatewayTestPort(options, known)
        port.gateways.start()
        self.ports.append(port)
        return port
