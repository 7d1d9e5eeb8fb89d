"""One connection to another server of the cluster: handshake, liveness, errors.

The engine's link parses and writes messages and interest; it calls this session for every other line. A
session owns no socket and closes nothing itself: it dooms its link. What concerns more than this connection
is the mesh's. Here is the handshake of 2.x; `dialect` has what that of 1.x has differently. Source: cluster
specification A1, B1, B4 and B7 to B9; fine points from nats-server 2.15.1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from headrace import limits
from headrace.cluster.compression import CompressingSession
from headrace.cluster.dialect import LEGACY, MODERN, is_legacy_connect, is_legacy_info
from headrace.cluster.names import gateway_hash
from headrace.cluster.port import Address
from headrace.cluster.session import UserSession
from headrace.core.tracing import ConnectionKind
from headrace.engine.legacy_route import LegacyRouteLink
from headrace.engine.reasons import CloseReason
from headrace.engine.route import RouteLink
from headrace.protocol.peers import GOSSIP, TRACE_PROTOCOL, PeerConnect, PeerInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.cluster.dialect import Dialect
    from headrace.cluster.names import ClusterName
    from headrace.cluster.port import ClusterHost, Wire
    from headrace.conf.peer_options import ClusterOptions, PeerURL
    from headrace.engine.interest import Interest
    from headrace.errors import ProtocolError

_NOT_REGISTERED: Final = -1

Verdict: TypeAlias = "Callable[[bytes], bool]"
"""Returns True for a subject whose interest may pass."""


class RouteTarget(Struct, frozen=True):
    """A peer to reach, and the account that the connection is for.

    `is_explicit`: the configuration names it, so it is tried for ever. `account`: the connection is for this
    account alone; "" for the pool. `gossip_mode`: how the peer was heard of.
    """

    url: PeerURL
    is_explicit: bool = False
    account: str = ""
    gossip_mode: int = GOSSIP

    @property
    def address(self) -> Address:
        """The address of the URL."""
        return Address(self.url.host, self.url.port)


class Registering(Protocol):
    """The registration of connections, as one of them sees it."""

    def introduced(self, session: RouteSession, info: PeerInfo) -> None:
        """Give a connection its place, or close it, when the peer's first INFO came."""


class RouteMesh(Protocol):
    """The mesh as one of its connections sees it."""

    @property
    def port(self) -> ClusterHost:
        """The server of the mesh."""

    @property
    def options(self) -> ClusterOptions:
        """The options that are in force now."""

    @property
    def name(self) -> ClusterName:
        """The name of the cluster, which may change when a peer introduces itself."""

    @property
    def server_id(self) -> str:
        """The id of this server, which stays the same."""

    def info(self) -> PeerInfo:
        """This server's INFO as of now."""

    def accepts_name(self, name: str, peer: str, *, is_dynamic: bool) -> bool:
        """Return True when a server of a cluster with this name may be a peer."""

    def permitted_interest(self) -> tuple[Verdict | None, Verdict | None]:
        """The interest that is told, and that which is taken; None: all."""

    @property
    def registration(self) -> Registering:
        """The way to a place among the connections."""

    def told(self, session: RouteSession, info: PeerInfo) -> None:
        """Act on an INFO that came later."""

    def answered(self, session: RouteSession) -> None:
        """Go on with what waited for a PONG."""

    def refused(self, session: RouteSession) -> None:
        """Act on an -ERR, after which the connection ends."""

    def ended(self, session: RouteSession) -> None:
        """Forget a connection that is over."""


class RouteSession(CompressingSession, UserSession):
    """A route, from accept, or a successful dial, to the end.

    `remote`: the INFO of the server at the other end, once it came. `account`: the connection is for this
    account alone; "" for the pool, where `pool_index` is its place of `pool_size`, from 0, once it is
    registered. `is_unpooled`: it is the only connection, and carries all accounts. `is_solicited`: this
    server is to reach the other again when the connection ends; also one that was accepted may become so.
    `retries`: it is reached again even though nobody configured it. `dialect`: which protocol is spoken;
    where both are, that of 2.x until the peer has shown that it is older. Times of the port's clock are
    nanoseconds.
    """

    kind = "route"
    title = "Router"
    port_title = "Route"
    trace_kind = ConnectionKind.ROUTER
    link: RouteLink

    def __init__(self, mesh: RouteMesh, wire: Wire, target: RouteTarget | None) -> None:
        port = mesh.port
        super().__init__(port, wire)
        self.target: RouteTarget | None = target
        self.was_solicited: Final = target is not None
        self.is_solicited = target is not None
        self.account = target.account if target else ""
        self.gossip_mode = target.gossip_mode if target else 0
        self.remote_id = ""
        self.pool_index = _NOT_REGISTERED
        self.pool_size = 1
        self.is_registered = False
        self.is_unpooled = False
        self.retries = False
        self.may_reconnect = True
        self.starts_next = False  # a PONG is awaited, then the next connection of the pool is dialed
        self.compression = ""  # of what is sent, once that is decided
        self.told_serving_ns = 0  # as the INFO said that began the connection
        self.has_answered = False  # since it is registered: so the peer has registered it too
        self._unknown_accounts: set[bytes] = set()
        self._mesh = mesh
        self._protocol = mesh.options.protocol
        self._is_introduced = False
        self.dialect: Dialect = MODERN
        kind = RouteLink if self._protocol == "2.x" else LegacyRouteLink
        self.link: RouteLink = kind(
            port.router,
            self,
            max_payload=port.max_payload,
            max_control_line=port.max_control_line * limits.ROUTE_CONTROL_LINES,
            must_connect=target is None,
        )
        if self._protocol == "1.x":
            self._speak_legacy()

    @property
    def is_explicit(self) -> bool:
        """True where the configuration names the peer."""
        return self.target is not None and self.target.is_explicit

    @property
    def is_legacy(self) -> bool:
        """True where the protocol of 1.x is spoken."""
        return self.dialect.is_legacy

    @property
    def _delays_info(self) -> bool:
        """True where INFO waits for the peer's: it says the index in the pool and the compression."""
        if self.is_legacy:
            return False
        is_pooled = not self.account and self._mesh.options.pool_size >= 1
        return self.was_solicited and (is_pooled or self._negotiates)

    # -- opening ----------------------------------------------------------------------------------

    def opened(self) -> None:
        """Introduce this server, and start the clocks: bytes flow."""
        options = self._mesh.options
        if self.target is not None:
            self.restrict()
            if self._protocol == "2.x":
                self._introduce(self.target)
        else:
            if options.user is not None or (options.tls is not None and options.tls.certifies):
                self._demand_connect(options.auth_timeout)
            self._send_info()
        self._begin_pings(self.dialect.first_ping)
        self._mesh.port.wake()
        self.log(logging.INFO, "Route connection created")

    def _introduce(self, target: RouteTarget) -> None:
        """Introduce this server to a peer that was reached, after the INFO of one that may speak 1.x."""
        self._is_introduced = True
        self.link.send(self.dialect.connect_line(self._introduction(target)))
        if not self._delays_info:
            self._send_info()

    def _introduction(self, target: RouteTarget) -> PeerConnect:
        own = self._mesh.port.identity()
        return PeerConnect(
            echo=True,
            user=target.url.user or "",
            password=target.url.password or "",
            tls_required=own.tls_required,
            headers=own.headers,
            name=own.server_id,
            cluster=self._mesh.name.text,
            cluster_dynamic=self._mesh.name.is_dynamic,
            lnoc=True,
        )

    def send_delayed_info(self, pool_index: int) -> None:
        """Send the INFO that waited until the connection got its place."""
        if self._delays_info:
            self._send_info(0 if self.account else pool_index)

    def _send_info(self, pool_index: int = 0) -> None:
        """Send this server's INFO as it begins a connection."""
        info = replace(
            self._mesh.info(),
            nonce=self._mesh.port.new_nonce(),
            route_account=self.account,
            route_pool_idx=pool_index,
            gossip_mode=self.gossip_mode,
            compression=self._said_compression,
        )
        self.told_serving_ns = info.serving_ns
        self.link.send(self.dialect.info_line(info))

    @property
    def _timeout_text(self) -> str:
        return self.dialect.timeout

    # -- which protocol ---------------------------------------------------------------------------

    def _speak_legacy(self) -> None:
        assert isinstance(self.link, LegacyRouteLink)
        self.dialect = LEGACY
        self.link.speak_legacy()

    def _understands(self, who: str, *, is_legacy: bool) -> bool:
        """Adopt the protocol that the peer has shown; False, and the connection ends, when it cannot be."""
        if self._protocol == "auto" and is_legacy and not self.is_legacy and self.remote is None:
            self._speak_legacy()
        if is_legacy == self.is_legacy:
            return True
        is_spoken, is_known = ("2.x", "1.x") if self.is_legacy else ("1.x", "2.x")
        self.violates(
            f'Rejecting connection, "{who}" speaks routes of {is_spoken}, this is one of {is_known}'
        )
        return False

    def _is_understood(self, info: PeerInfo) -> bool:
        """Return True when the handshake goes on after the peer's first INFO."""
        if not (self.was_solicited or self.is_legacy):
            return True
        is_legacy = is_legacy_info(info, speaks_modern=self._protocol != "1.x")
        if not self._understands(info.server_id, is_legacy=is_legacy):
            return False
        if self.target is not None and not self._is_introduced:
            if self.is_legacy and self.account:
                text = f'"{info.server_id}" has no connections for single accounts'
                self._port.log(logging.DEBUG, text)
                self.may_reconnect = False
                self.close(CloseReason.DUPLICATE_ROUTE)
                return False
            self._introduce(self.target)
        return True

    # -- called by the engine ---------------------------------------------------------------------

    def connect(self, text: bytes) -> None:
        """Read CONNECT, by which the peer introduces itself.

        One that was solicited does not have to, but is judged alike.
        """
        self._disarm_auth()
        given = self._read(PeerConnect.read, text)
        if given is None:
            return
        self._authenticate(given, self._mesh.options, self._introduced)

    def _introduced(self, given: PeerConnect) -> None:
        if given.lang:
            self.refuse_loudly(self.dialect.wrong_port, CloseReason.WRONG_PORT)
        elif given.gateway:
            self._refuse_gateway(given.gateway)
        elif self._protocol != "2.x" and not self._understands(
            given.name, is_legacy=is_legacy_connect(given)
        ):
            return
        elif not self.is_legacy and not self._mesh.accepts_name(
            given.cluster, given.name, is_dynamic=given.cluster_dynamic
        ):
            own = self._mesh.name.text
            text_ = f'Rejecting connection, cluster name "{given.cluster}" does not match "{own}"'
            self.refuse_loudly(text_, CloseReason.CLUSTER_NAME_CONFLICT)
        else:
            if self.remote is None:  # else it has its place under the name that it has
                self.remote_id = given.name
            self.restrict()

    def peer_info(self, text: bytes) -> None:
        """Read INFO: the first introduces the peer, later ones are about it or about other servers."""
        info = self._read(PeerInfo.read, text)
        if info is None:
            return
        mesh = self._mesh
        if info.server_id == mesh.server_id and (self.remote is None or not self.is_legacy):
            self.remote_id = info.server_id
            self.close(CloseReason.DUPLICATE_ROUTE)
            return
        if self.remote is None and not self._is_understood(info):
            return
        info = self.dialect.understood(info)
        if info.cluster and not mesh.accepts_name(
            info.cluster, info.server_id, is_dynamic=info.cluster_dynamic
        ):
            self.close(CloseReason.CLUSTER_NAME_CONFLICT)
        elif self.remote is not None:
            mesh.told(self, info)
        elif not self.was_solicited and info.server_name == mesh.port.identity().server_name:
            self._refuse_name(info.server_name)
        elif not self._begins_to_compress(info.compression):
            self._first_info(info)

    # -- compression ------------------------------------------------------------------------------

    @property
    def _compression_mode(self) -> str:
        return self._mesh.options.compression

    @property
    def _compression_rtts(self) -> Sequence[float]:
        return self._mesh.options.compression_rtts

    @property
    def _has_dialed(self) -> bool:
        return self.was_solicited

    def _say_compression(self) -> None:
        self._send_info()

    # -- introductions ----------------------------------------------------------------------------

    def _first_info(self, info: PeerInfo) -> None:
        if self.was_solicited:
            info = replace(info, route_account=self.account)
        else:
            self.account = info.route_account
        if not info.ip:
            host = self.wire.remote.host
            host = f"[{host}]" if ":" in host else host
            info = replace(info, ip=f"nats-route://{host}:{info.port}/")
        self.remote = info
        self.remote_id = info.server_id
        self.link.configure(
            headers=self._mesh.port.identity().headers and info.headers,
            has_origin=info.lnoc,
            origin_unsub=info.lnocu,
            server_hash=None if self.is_legacy else gateway_hash(info.server_id),
            traces=info.proto >= TRACE_PROTOCOL,
        )
        self._mesh.registration.introduced(self, info)

    def peer_error(self, text: bytes) -> None:
        """Close the connection after -ERR: the peer has given it up."""
        self.log(logging.ERROR, f"Route Error {text.decode('utf-8', 'replace')}")
        self._mesh.refused(self)
        self.close(CloseReason.PARSE_ERROR)

    def pong(self) -> None:
        super().pong()
        if self._ping_sent_ns:
            self._fit_compression()
        self.has_answered = self.is_registered
        self._mesh.answered(self)

    def account_interest(self, name: bytes) -> Interest | None:
        """The interest of the account that a line is about; None: unknown, and the line has no effect."""
        account = name.decode("utf-8", "replace")
        interest = self._mesh.port.interest(account)
        if interest is None:
            if len(self._unknown_accounts) < limits.ROUTE_UNKNOWN_ACCOUNTS:
                self._unknown_accounts.add(name)
            self.unknown_account(account)
        return interest

    def may_want(self, account: str) -> bool:
        """Return True when the peer has told interest in this account while it was not here, or may have."""
        names = self._unknown_accounts
        return len(names) >= limits.ROUTE_UNKNOWN_ACCOUNTS or account.encode() in names

    def unknown_account(self, account: str) -> None:
        """Log that the peer speaks of an account that is not here."""
        self.log(logging.ERROR, f'Unknown account "{account}"')

    def take_target_of(self, other: RouteSession) -> None:
        """Reach this connection's peer again where another one was reached, which has the same peer."""
        assert other.target is not None
        if not self.is_solicited or (other.is_explicit and not self.is_explicit):
            self.target = other.target
        self.is_solicited = True

    # -- permissions ------------------------------------------------------------------------------

    def restrict(self) -> None:
        """Set the interest that is told (imports) and taken (exports), as configuration and peers say now."""
        self.link.restrict(*self._mesh.permitted_interest())

    def withdraw(self, account: str) -> None:
        """Take an account off this connection, which does not carry it any more."""
        self.link.withdraw(account.encode())

    # -- liveness ---------------------------------------------------------------------------------

    @property
    def _ping_interval(self) -> float:
        given = self._mesh.options.ping_interval
        return self.dialect.ping_interval(self._mesh.port.ping_interval if given is None else given)

    @property
    def _ping_max(self) -> int:
        given = self._mesh.options.ping_max
        return self._mesh.port.ping_max if given is None else given

    def ping(self) -> None:
        is_spoken_to = self._is_introduced or not self.was_solicited
        if is_spoken_to and (self.compression or not self._negotiates):
            super().ping()
        else:  # nothing is said yet, or what is said now may be read as a compressed stream
            self._pings_out += 1

    # -- closing ----------------------------------------------------------------------------------

    def _malformed(self, problem: ProtocolError) -> None:
        if self.dialect.malformed:
            self.log(logging.ERROR, f"parse error: {problem}")
            self.refuse(self.dialect.malformed, CloseReason.PROTOCOL_VIOLATION)
        else:
            super()._malformed(problem)

    def _forget(self) -> None:
        self._mesh.ended(self)
