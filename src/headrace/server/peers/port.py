"""Protocols of what connections to other servers see: of the server, and of the host of their kind.

Loaded by nobody at run time. Never here: code that does anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from headrace.server.port import AccountsHost, Addresses

if TYPE_CHECKING:
    from headrace.cluster.gateways import Gateways
    from headrace.cluster.mesh import Mesh
    from headrace.conf.tls_options import TLSOptions
    from headrace.server.disconnects import Disconnects
    from headrace.server.tls_contexts import ServerTLS


class HasMesh(Protocol):
    """The routes of a server."""

    @property
    def mesh(self) -> Mesh: ...


class HasGateways(Protocol):
    """The gateways of a server."""

    @property
    def machine(self) -> Gateways: ...


class PeersServer(AccountsHost, Protocol):
    """A server, as its connections to other servers see it."""

    @property
    def name(self) -> str: ...
    @property
    def server_id(self) -> str: ...
    @property
    def tls(self) -> ServerTLS: ...
    @property
    def disconnects(self) -> Disconnects: ...
    @property
    def routes(self) -> HasMesh | None: ...
    @property
    def gateways(self) -> HasGateways | None: ...
    @property
    def listeners(self) -> Addresses: ...

    def next_number(self) -> int:
        """Number a new connection of any kind."""


class ConnectionHost(Protocol):
    """The host of one kind of peers, as each of their connections sees it."""

    slow_consumers: int
    stale_connections: int

    @property
    def kind(self) -> str: ...
    @property
    def tag(self) -> str: ...
    @property
    def tls(self) -> TLSOptions | None: ...
    @property
    def write_deadline(self) -> float:
        """Seconds."""

    @property
    def closes_late(self) -> bool: ...
    @property
    def connections(self) -> set[Any]: ...
