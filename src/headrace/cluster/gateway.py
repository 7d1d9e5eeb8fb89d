"""One connection to a server of another cluster: handshake, commands, liveness, errors.

Over an outbound connection, which this side has opened, messages go out; over an inbound one they come in.
The engine's link parses and writes messages and interest (`engine.gateway`); it calls this session for every
other line. What concerns more than this connection is `gateways`'. Source: gateway specification, sections 1,
2, 5 and 11; fine points from nats-server 2.15.1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from headrace import limits
from headrace.cluster.names import gateway_hash
from headrace.cluster.session import UserSession
from headrace.core.tracing import ConnectionKind
from headrace.engine.gateway import GatewayLink
from headrace.engine.reasons import CloseReason
from headrace.protocol.peers import (
    ALL_INTEREST,
    ALL_INTEREST_TOLD,
    TELL_OF_GATEWAY,
    TRACE_PROTOCOL,
    PeerConnect,
    PeerInfo,
)

if TYPE_CHECKING:
    from headrace.cluster.port import GatewayPort, Wire
    from headrace.cluster.remote_cluster import RemoteCluster
    from headrace.conf.peer_options import GatewayOptions, PeerURL
    from headrace.engine.interest import Interest


class GossipToRoutes(Protocol):
    """Gossip about gateways, as one of the connections sees it."""

    def tell_routes(self, info: PeerInfo) -> None:
        """Tell the other servers of this cluster where another cluster is."""


class AllGateways(Protocol):
    """All gateways of a server, as one of the connections sees them."""

    @property
    def port(self) -> GatewayPort[GatewaySession]:
        """The server of the gateways."""

    @property
    def options(self) -> GatewayOptions:
        """The options of the configuration."""

    @property
    def name(self) -> str:
        """The name of this server's cluster."""

    def info(self) -> PeerInfo:
        """This server's INFO as of now."""

    def may_connect(self, gateway: str) -> bool:
        """Return True for the name of a cluster that may be one of the clusters."""

    def uses_tls(self, gateway: str) -> bool:
        """Return True for a cluster that is reached over TLS."""

    def heard_of(self, info: PeerInfo) -> None:
        """Reach a cluster that a peer told of, unless it is known."""

    @property
    def gossip(self) -> GossipToRoutes:
        """Gossip with the other servers of this cluster."""

    def register_outbound(self, session: GatewaySession) -> bool:
        """Let messages flow. Returns False when there is a connection to that cluster already."""

    def register_inbound(self, session: GatewaySession, info: PeerInfo) -> None:
        """Let messages flow, and tell the peer of the other clusters."""

    def order(self) -> None:
        """Order clusters by distance, after a round trip was measured."""

    def ended(self, session: GatewaySession) -> None:
        """Forget a connection that is over."""


class GatewaySession(UserSession):
    """A connection of a gateway, from accept, or a successful dial, to the end.

    `gateway`: the name of the other cluster, "" until it is known. `other`: the cluster that was reached, or
    None on an inbound connection. `remote`: the INFO of the server at the other end, once it came.
    `is_registered`: messages flow.
    """

    kind = "gateway"
    title = port_title = "Gateway"
    trace_kind = ConnectionKind.GATEWAY
    link: GatewayLink

    def __init__(
        self, gateways: AllGateways, wire: Wire, other: RemoteCluster | None, url: PeerURL | None
    ) -> None:
        port = gateways.port
        super().__init__(port, wire)
        self.other: Final = other
        self.gateway = other.name if other is not None else ""
        self.is_registered = False
        self.may_reconnect = True
        self.unknown_accounts: set[bytes] = set()
        self._url = url
        self._gateways = gateways
        self._has_connected = False
        self.link = GatewayLink(
            port.router,
            self,
            is_outbound=other is not None,
            max_payload=port.max_payload,
            max_control_line=port.max_control_line * limits.ROUTE_CONTROL_LINES,
            must_connect=other is None,
        )

    @property
    def is_outbound(self) -> bool:
        return self.other is not None

    # -- opening ----------------------------------------------------------------------------------

    def opened(self) -> None:
        """Begin the conversation: bytes flow. Who was connected to speaks first."""
        if self.other is not None:
            self.log(logging.INFO, f'Creating outbound gateway connection to "{self.gateway}"')
            # It takes no PING before CONNECT, which waits for its INFO: its silence is limited all the same.
            seconds = self._ping_interval * (self._ping_max + 1)
            self._ping_timer = self._port.call_later(seconds, self._give_up)
            return
        self.log(logging.INFO, "Processing inbound gateway connection")
        self._demand_connect(self._gateways.options.auth_timeout)
        self.link.send(self._gateways.info().line())
        self._port.wake()

    # -- called by the engine ---------------------------------------------------------------------

    def connect(self, text: bytes) -> None:
        """Read CONNECT, by which who has opened the connection introduces itself."""
        self._disarm_auth()
        if self.is_outbound or self._has_connected:
            self.violates("CONNECT where none is due")
            return
        given = self._read(PeerConnect.read, text)
        if given is None:
            return
        self._authenticate(given, self._gateways.options, self._introduced)

    def _introduced(self, given: PeerConnect) -> None:
        name = self._gateways.name
        if not given.gateway:
            self.refuse_loudly("attempted to connect to gateway port", CloseReason.WRONG_PORT)
        elif not self._gateways.may_connect(given.gateway):
            self.log(logging.ERROR, f'Rejecting connection from gateway "{given.gateway}"')
            self.refuse(f'Connection to gateway "{name}" rejected', CloseReason.WRONG_GATEWAY)
        else:
            self._has_connected = True
            self._begin_pings()

    def peer_info(self, text: bytes) -> None:
        """Read INFO: the first introduces the peer, later ones are commands and news."""
        info = self._read(PeerInfo.read, text)
        if info is None:
            return
        if self.other is not None:
            self._info_outbound(self.other, info)
        elif self.remote is None:
            self._first_info_inbound(info)

    def _info_outbound(self, other: RemoteCluster, info: PeerInfo) -> None:
        name = self._gateways.name
        if not info.gateway:
            self.violates_port(f'Attempt to connect to gateway "{self.gateway}" using wrong port')
        elif info.gateway != self.gateway and self.remote is not None and info.gateway_cmd == TELL_OF_GATEWAY:
            if self._gateways.may_connect(info.gateway):
                self._gateways.heard_of(info)
        elif info.gateway != self.gateway:
            text = f'Failing connection to gateway "{self.gateway}", remote gateway name is "{info.gateway}"'
            self.log(logging.ERROR, text)
            wanted = f'wanted to connect to "{self.gateway}", this is "{info.gateway}"'
            self.refuse(f'Connection from "{name}" rejected, {wanted}', CloseReason.WRONG_GATEWAY)
        elif self._has_duplicate_name(info):
            return
        elif self.remote is None:
            other.learn(info.gateway_urls)
            self._first_info_outbound(info)
        elif info.gateway_cmd:
            self._command(info)
        else:
            other.learn(info.gateway_urls)
            self._gateways.gossip.tell_routes(info)

    def violates_port(self, text: str) -> None:
        """Close a connection to, or from, something that is no gateway."""
        self.refuse_loudly(text, CloseReason.WRONG_PORT)

    def _has_duplicate_name(self, info: PeerInfo) -> bool:
        if not self._gateways.port.is_taken(info.server_name):
            return False
        self._refuse_name(info.server_name)
        return True

    def _first_info_outbound(self, info: PeerInfo) -> None:
        gateways, own = self._gateways, self._gateways.port.identity()
        self.remote = info
        self.link.send(self._introduction().line())
        self.log(logging.DEBUG, f'Gateway connect protocol sent to "{self.gateway}"')
        self.link.send(gateways.info().line())
        self.link.configure(
            headers=own.headers and info.headers,
            cluster_hash=gateway_hash(self.gateway),
            interest_only=info.gateway_iom,
            traces=info.proto >= TRACE_PROTOCOL,
        )
        if not gateways.register_outbound(self):
            self.may_reconnect = False
            self.close(CloseReason.WRONG_GATEWAY)
            return
        text = f'Outbound gateway connection to "{self.gateway}" ({info.server_id}) registered'
        self.log(logging.INFO, text)
        self._begin_pings()
        gateways.gossip.tell_routes(info)
        self._port.wake()

    def _introduction(self) -> PeerConnect:
        own, options = self._gateways.port.identity(), self._gateways.options
        assert self._url is not None, "an outbound one was reached somewhere"
        has_own = self._url.user is not None
        return PeerConnect(
            user=(self._url.user if has_own else options.user) or "",
            password=(self._url.password if has_own else options.password) or "",
            tls_required=self._gateways.uses_tls(self.gateway),
            name=own.server_id,
            gateway=self._gateways.name,
        )

    def _command(self, info: PeerInfo) -> None:
        commands = {ALL_INTEREST: "start", ALL_INTEREST_TOLD: "complete"}
        command = commands.get(info.gateway_cmd)
        if command is None:
            text = f'Received unknown command {info.gateway_cmd} from gateway "{self.gateway}"'
            self.log(logging.WARNING, text)
        elif not info.gateway_cmd_payload:
            self.violates(f"Account absent from receive-all-subscriptions-{command} command")
        else:
            account = info.gateway_cmd_payload
            is_complete = info.gateway_cmd == ALL_INTEREST_TOLD
            done = " complete" if is_complete else ""
            shown = account.decode("utf-8", "replace")
            self.log(
                logging.DEBUG,
                f'Gateway "{self.gateway}": switching account "{shown}" to Interest-Only mode{done}',
            )
            self.link.switch(account, complete=is_complete)

    def _first_info_inbound(self, info: PeerInfo) -> None:
        if self._has_duplicate_name(info):
            return
        if not info.gateway:
            self.violates_port("attempted to connect to gateway port")
            return
        self.gateway = info.gateway
        self.remote = info
        self.link.configure(headers=self._gateways.port.identity().headers and info.headers)
        text = f'Inbound gateway connection from "{info.gateway}" ({info.server_id}) registered'
        self.log(logging.INFO, text)
        self._gateways.register_inbound(self, info)
        self._port.wake()

    def serve(self, account: str, interest: Interest) -> None:
        """Let messages of an account flow; an inbound connection is told the interest in it."""
        name = account.encode()
        if self.is_outbound:
            self.link.serve(name, interest)
            return
        info = PeerInfo(gateway=self._gateways.name, gateway_cmd_payload=name)
        self.link.serve(
            name,
            interest,
            start=replace(info, gateway_cmd=ALL_INTEREST).line(),
            complete=replace(info, gateway_cmd=ALL_INTEREST_TOLD).line(),
        )

    def peer_error(self, text: bytes) -> None:
        """Close the connection after -ERR: the peer has given it up."""
        self.log(logging.ERROR, f"Gateway Error {text.decode('utf-8', 'replace')}")
        self.close(CloseReason.PARSE_ERROR)

    def wrong_side(self, op: str) -> None:
        """Log interest from who only sends messages, or a message from who only tells interest."""
        side = "outbound" if self.is_outbound else "inbound"
        self.log(logging.ERROR, f"Received {op} from gateway on {side} connection")

    def pong(self) -> None:
        super().pong()
        if self.is_outbound:
            self._gateways.order()

    def account_interest(self, name: bytes) -> Interest | None:
        """The interest of the account that a line is about; None: unknown, and the sender is told so."""
        interest = self._gateways.port.interest(name.decode("utf-8", "replace"))
        if interest is None and self.is_outbound:
            self.unknown_accounts.add(name)
        elif interest is None:
            self.log(
                logging.DEBUG, f'Unknown account "{name.decode("utf-8", "replace")}" for gateway message'
            )
            self.link.send(b"A- " + name + b"\r\n")
        return interest

    # -- liveness ---------------------------------------------------------------------------------

    @property
    def _ping_interval(self) -> float:
        return min(self._gateways.port.ping_interval, limits.GATEWAY_PING_INTERVAL)

    # -- closing ----------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._gateways.ended(self)
