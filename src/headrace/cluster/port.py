"""What a cluster is given by whoever has sockets, clocks and accounts: the server, or the simulator.

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

from headrace.conf.peer_options import address_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.engine.interest import Interest
    from headrace.engine.link import Link, Router
    from headrace.engine.reasons import CloseReason
    from headrace.protocol.peers import PeerInfo


class Address(NamedTuple):
    """Where a peer listens. `host` may be a name."""

    host: str
    port: int

    def __str__(self) -> str:
        return address_text(self.host, self.port)


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> object:
        """It does not come any more. A timer that has called already: nothing."""


class PeerSession(Protocol):
    """What is said on one connection to a peer, of whichever kind."""

    @property
    def link(self) -> Link: ...

    @property
    def is_registered(self) -> bool:
        """Whether the handshake is over: messages flow."""

    def opened(self) -> None:
        """Bytes flow."""

    def failed(self, error: Exception) -> None:
        """A mistake of ours: the connection ends."""

    def ended(self, reason: CloseReason) -> None:
        """The connection is over; called once, before the link is detached."""


SessionT = TypeVar("SessionT", bound=PeerSession)
SessionT_co = TypeVar("SessionT_co", bound=PeerSession, covariant=True)
SessionT_contra = TypeVar("SessionT_contra", bound=PeerSession, contravariant=True)


class Wire(Protocol):
    """One connection to a peer. `number` counts connections of all kinds; log lines are headed by it."""

    @property
    def number(self) -> int: ...

    @property
    def remote(self) -> Address:
        """The other end: an address, not a name."""

    @property
    def peer_certificates(self) -> Sequence[bytes]:
        """What it has shown, DER and verified, its own first; asked for where they say who it is."""

    def resume(self) -> None:
        """What came while the link was held is parsed now."""

    def log(self, level: int, text: str) -> None:
        """A line about this connection, with a level of `logging`."""

    def trace(self, op: str, arguments: bytes, payload: bytes | None) -> None:
        """An op came in; only called while the link is traced."""

    def trace_delivery(self, subject: bytes, key: bytes, reply: bytes, headers: int, size: int) -> None:
        """A message goes out; likewise."""


class Machine(Protocol[SessionT_co]):
    """What the server gives its connections of one kind to: `Mesh`, `Leafs` or `Gateways`."""

    def start(self) -> None:
        """Connections may be accepted from now on; the servers that are configured are reached."""

    def stop(self) -> None:
        """Closes everything, reaches nobody any more."""

    def accepted(self, wire: Wire) -> SessionT_co | None:
        """Somebody connected. None: the connection is not wanted."""

    def accounts_changed(self) -> None:
        """There are other accounts than before."""


class Host(Protocol):
    """What machines need of their server; each asks for what it needs, and its own port says what else."""

    @property
    def router(self) -> Router: ...

    @property
    def max_payload(self) -> int: ...

    @property
    def max_control_line(self) -> int:
        """Of a client; peers may have lines 16 times as long."""

    @property
    def ping_interval(self) -> float:
        """Of a client, in seconds."""

    @property
    def ping_max(self) -> int: ...

    def identity(self) -> PeerInfo:
        """What INFO says of this server beside what the machine knows itself.

        Always: server_id, server_name, version, proto, git_commit, go, host and port of the machine's port as
        advertised, headers, auth_required, tls_required, tls_verify, max_payload. Asked for whenever an INFO
        is sent.
        """

    def now_ns(self) -> int:
        """A clock that only goes forward."""

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer: ...

    def reports(self, attempts: int, *, is_first: bool) -> bool:
        """Whether this failed attempt to reach a server is more than a debug line; `is_first`: it was never
        met."""

    def new_nonce(self) -> str:
        """What INFO has as `nonce`; peers do nothing with it, leaf nodes sign it."""

    def new_name(self) -> str:
        """A name that nobody else makes up, for a cluster without one and for requests among peers."""

    def random(self) -> float:
        """At least 0.0, less than 1.0: for jitter, never for secrets."""

    def wake(self) -> None:
        """Something was sent, or a link doomed, outside of a tick: one must end soon."""

    def account_names(self) -> Iterable[str]:
        """The names of all accounts whose interest is told."""

    def interest(self, account: str) -> Interest | None:
        """That of an account, None when there is none (where accounts come by token: when it cannot come)."""

    def compare(self, stored: str, given: str, judged: Callable[[bool], object]) -> None:
        """Calls `judged`: whether a configured secret, a text or a bcrypt hash, is the given one.

        In constant time; now, or later where that takes long.
        """

    def log(self, level: int, text: str) -> None:
        """A line about other servers, with a level of `logging`."""


class Port(Host, Protocol[SessionT_contra]):
    """What a mesh needs of its server.

    `identity` also has ip of the cluster port, jetstream, domain, streaming, serving_ns, started_ns,
    gateway_url, leafnode_urls and, unless they are not to be advertised, its own connect_urls and
    ws_connect_urls.
    """

    def dial(
        self,
        address: Address,
        connected: Callable[[Wire], SessionT_contra | None],
        failed: Callable[[str | None], object],
    ) -> None:
        """Connects, with TLS if the cluster has it; one of the two is called, later and once.

        It is given up after a second (`limits.ROUTE_DIAL_TIMEOUT`). `failed` gets the reason as text, None
        when all addresses of that name are this server's own.
        """

    def must_end(self, reason: str) -> None:
        """Another server of the cluster serves what only one can, and stays: this one has to end."""

    def hear_anew(self, change: Callable[[], object]) -> None:
        """Calls `change` while JetStream listens to no requests: who is told that it does changes with it."""

    def peers_changed(self) -> None:
        """`Mesh.connect_urls` or `Mesh.ws_connect_urls` are others than before: tell clients."""
