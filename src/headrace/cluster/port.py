"""The contract between clusters and whoever has sockets, clocks and accounts: the server, or the simulator.

Contracts only. The life of a connection:

1. It is there, its TLS handshake is over: `Mesh.accepted(wire)`, or the `connected` of a `dial`, gives a
   `RouteSession`, or None for a connection that is not wanted any more and is closed in silence.
2. Whoever gave the wire lets bytes flow between it and `session.link`, then calls `session.opened()`.
3. The session sends with `link.send` and ends with `link.doom(reason)`; both outside of a tick are
   followed by `Port.wake`. At the end of a tick a doomed link is flushed and closed, as a client's is.
4. However it ended, `session.ended(reason)` is called once, then `link.detach()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from headrace.protocol.info import address_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.core.service import Timer
    from headrace.engine.interest import Interest
    from headrace.engine.link import Link, Router
    from headrace.engine.reasons import CloseReason
    from headrace.protocol.peers import PeerInfo


class Address(NamedTuple):
    """The address at which a peer listens. `host` may be a name."""

    host: str
    port: int

    def __str__(self) -> str:
        return address_text(self.host, self.port)


class PeerSession(Protocol):
    """The conversation on one connection to a peer, of whichever kind."""

    @property
    def link(self) -> Link: ...

    @property
    def is_registered(self) -> bool:
        """True once the handshake is over and messages flow."""

    def opened(self) -> None:
        """Begin the conversation: bytes flow."""

    def failed(self, error: Exception) -> None:
        """End the connection because of a mistake of ours."""

    def ended(self, reason: CloseReason) -> None:
        """Note that the connection is over; called once, before the link is detached."""


SessionT = TypeVar("SessionT", bound=PeerSession)
SessionT_co = TypeVar("SessionT_co", bound=PeerSession, covariant=True)
SessionT_contra = TypeVar("SessionT_contra", bound=PeerSession, contravariant=True)


class Wire(Protocol):
    """One connection to a peer. `number` counts connections of all kinds; log lines are headed by it."""

    @property
    def number(self) -> int: ...

    @property
    def remote(self) -> Address:
        """The address of the other end, not a name."""

    @property
    def peer_certificates(self) -> Sequence[bytes]:
        """The peer's certificates, DER and verified, its own first; read where they prove its name."""

    def resume(self) -> None:
        """Parse now what came while the link was held."""

    def log(self, level: int, text: str) -> None:
        """Log a line about this connection, at a level of `logging`."""

    def trace(self, op: str, arguments: bytes, payload: bytes | None) -> None:
        """Log an op that came in; only called while the link is traced."""

    def trace_delivery(self, subject: bytes, key: bytes, reply: bytes, headers: int, size: int) -> None:
        """Log a message that goes out; only called while the link is traced."""


class Machine(Protocol[SessionT_co]):
    """The machine that the server gives its connections of one kind to: `Mesh`, `Leafs` or `Gateways`."""

    def start(self) -> None:
        """Reach the servers that are configured; connections may be accepted from now on."""

    def stop(self) -> None:
        """Close all connections, and begin no more."""

    def accepted(self, wire: Wire) -> SessionT_co | None:
        """Begin a session for a connection that was accepted. None: the connection is not wanted."""

    def accounts_changed(self) -> None:
        """Compare the accounts with those of before; called after a change."""


class ClusterHost(Protocol):
    """The server as every machine sees it; the port of each kind adds what only that kind needs."""

    @property
    def router(self) -> Router: ...

    @property
    def max_payload(self) -> int: ...

    @property
    def max_control_line(self) -> int:
        """Bytes of a client's control line; peers may have lines 16 times as long."""

    @property
    def ping_interval(self) -> float:
        """Seconds between PINGs to a client."""

    @property
    def ping_max(self) -> int: ...

    def identity(self) -> PeerInfo:
        """The fields of INFO that the server knows, and the machine does not.

        Always: server_id, server_name, version, proto, git_commit, go, host and port of the machine's port as
        advertised, headers, auth_required, tls_required, tls_verify, max_payload. Asked for whenever an INFO
        is sent.
        """

    def now_ns(self) -> int:
        """Nanoseconds of a clock that only goes forward."""

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer: ...

    def reports(self, attempts: int, *, is_first: bool) -> bool:
        """Return True when a failed attempt to reach a server deserves more than a debug line.

        `attempts`: how many have failed. `is_first`: the server was never met.
        """

    def new_nonce(self) -> str:
        """A `nonce` for INFO; peers ignore it, leaf nodes sign it."""

    def new_name(self) -> str:
        """Return a random name, for a cluster without one and for requests among peers."""

    def random(self) -> float:
        """A random number, at least 0.0 and less than 1.0: for jitter, never for secrets."""

    def wake(self) -> None:
        """End a tick soon: something was sent, or a link doomed, outside of one."""

    def account_names(self) -> Iterable[str]:
        """The names of all accounts whose interest is told."""

    def interest(self, account: str) -> Interest | None:
        """The interest of an account; None without such an account (in operator mode: when none can come)."""

    def compare(self, stored: str, given: str, judged: Callable[[bool], object]) -> None:
        """Call `judged` with the result of comparing a configured secret, a text or a bcrypt hash.

        In constant time; now, or later where that takes long.
        """

    def log(self, level: int, text: str) -> None:
        """Log a line about other servers, at a level of `logging`."""


class Port(ClusterHost, Protocol[SessionT_contra]):
    """The server as a mesh sees it.

    `identity` also has ip of the cluster port, jetstream, domain, streaming, their buckets, serving_ns,
    started_ns, gateway_url, leafnode_urls and, unless they are not to be advertised, its own connect_urls and
    ws_connect_urls.
    """

    def dial(
        self,
        address: Address,
        connected: Callable[[Wire], SessionT_contra | None],
        failed: Callable[[str | None], object],
    ) -> None:
        """Connect to a server, with TLS if the cluster has it; one of the two is called, later and once.

        It is given up after a second (`limits.ROUTE_DIAL_TIMEOUT`). `failed` gets the reason as text, None
        when all addresses of that name are this server's own.
        """

    def must_end(self, reason: str) -> None:
        """End this server: a peer has a service that only one server can have, and stays."""

    def left(self, server_id: str) -> None:
        """The last connection to a peer has ended."""

    def hear_anew(self, change: Callable[[], object]) -> None:
        """Call `change` while JetStream listens to no requests, as it changes who is told that it does."""

    def peers_changed(self) -> None:
        """Tell clients that `Mesh.addresses` have changed."""


class GatewayPort(ClusterHost, Protocol[SessionT_contra]):
    """The server as `Gateways` sees it."""

    def dial(
        self,
        gateway: str,
        address: Address,
        connected: Callable[[Wire], SessionT_contra | None],
        failed: Callable[[str | None], object],
    ) -> None:
        """Connect to a server of a cluster, with TLS if that has it, else as `Port.dial`."""

    def is_taken(self, server_name: str) -> bool:
        """Return True for the name of this server, or of another one of its cluster."""

    def tell_routes(self, line: bytes) -> None:
        """Send a line to every other server of the cluster, once to each."""
