"""All gateways of one server: which other clusters there are, who is connected to whom, who is told of whom.

Each server has one outbound connection to each other cluster, over which it sends, and accepts any number of
inbound ones. A cluster that nobody configured here is heard of from servers that connect, over gateways and
over routes, and is reached too. Never lives here: what is said on one connection (`gateway`), addresses of
clusters (`remote_cluster`), what servers of this cluster tell each other (`gateway_gossip`).

Source: gateway specification, section 5; nats-server 2.15.1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace import limits
from headrace.cluster.attempts import Attempts, shuffle
from headrace.cluster.gateway import GatewaySession
from headrace.cluster.gateway_gossip import GatewayGossip
from headrace.cluster.names import gateway_hash
from headrace.cluster.port import Address
from headrace.cluster.remote_cluster import RemoteCluster
from headrace.engine.gateway import join_gateways
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.port import GatewayPort, Wire
    from headrace.conf.peer_options import GatewayOptions, PeerURL
    from headrace.core.service import Timer
    from headrace.protocol.peers import PeerInfo


class Gateways:
    """The gateways of one server.

    `sessions`: every connection, also those whose handshake goes on. `outbound`: the registered one to each
    cluster, nearest first. `inbound`: those registered. `remotes`: the other clusters. `reaching`: those that
    are being reached. `gossip`: what the servers of this cluster tell each other.
    """

    def __init__(self, port: GatewayPort[GatewaySession], options: GatewayOptions) -> None:
        self.port: Final = port
        self.options: Final = options
        self.name: Final = options.name
        # All in the order they came, so that what happens can be repeated.
        self.sessions: dict[GatewaySession, None] = {}
        self.outbound: dict[str, GatewaySession] = {}
        self.inbound: dict[GatewaySession, None] = {}
        self.reaching: dict[str, Reaching] = {}
        self.remotes: dict[str, RemoteCluster] = {
            each.name: RemoteCluster(each.name, each)
            for each in options.gateways
            if each.name != options.name
        }
        self.is_stopped = False
        self.gossip: Final = GatewayGossip(port, self)
        self._accounts: set[str] = set()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Reach other clusters after a second; connections may be accepted from now on."""
        identity = self.port.identity()
        join_gateways(self.port.router, gateway_hash(self.name), gateway_hash(identity.server_id))
        self._accounts = set(self.port.account_names())
        self.gossip.start()
        self._timer = self.port.call_later(limits.GATEWAY_SOLICIT_DELAY, self._solicit)

    def stop(self) -> None:
        """Close all connections, and begin no more."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for reaching in list(self.reaching.values()):
            reaching.stop()
        for session in list(self.sessions):
            session.close(CloseReason.SERVER_SHUTDOWN)

    def _solicit(self) -> None:
        self._timer = None
        for other in list(self.remotes.values()):
            if other.is_explicit:
                self._reach(other, is_first=True)

    def _reach(self, other: RemoteCluster, *, is_first: bool, delay: float = 0.0) -> None:
        if not self.is_stopped and other.name not in self.reaching:
            Reaching(self, other, is_first=is_first).start(delay)

    # -- facts ------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address, `host:port`, at which servers of other clusters reach this one."""
        identity = self.port.identity()
        return str(Address(identity.host, identity.port))

    def info(self) -> PeerInfo:
        """This server's INFO as of now."""
        return replace(
            self.port.identity(),
            gateway=self.name,
            gateway_url=self.url,
            gateway_urls=self.gossip.urls,
            gateway_nrp=True,
            gateway_iom=True,
        )

    def may_connect(self, gateway: str) -> bool:
        """Return True for the name of a cluster that may be one of the clusters."""
        return not self.options.reject_unknown or gateway in self.remotes

    def has_inbound(self, gateway: str) -> bool:
        return any(session.gateway == gateway for session in self.inbound)

    def uses_tls(self, gateway: str) -> bool:
        """Return True for a cluster that is reached over TLS."""
        other = self.remotes.get(gateway)
        own = other.configured.tls if other is not None and other.configured is not None else None
        return own is not None or self.options.tls is not None

    def registered(self) -> Iterator[GatewaySession]:
        yield from self.outbound.values()
        yield from self.inbound

    # -- connections ------------------------------------------------------------------------------

    def accepted(self, wire: Wire) -> GatewaySession | None:
        """Begin a session on the gateway port. None: the server is stopping, close the connection."""
        return None if self.is_stopped else self._enter(GatewaySession(self, wire, None, None))

    def reached(self, wire: Wire, other: RemoteCluster, url: PeerURL) -> GatewaySession | None:
        """Begin a session with a server of another cluster that was reached."""
        other.attempts += 1
        return None if self.is_stopped else self._enter(GatewaySession(self, wire, other, url))

    def _enter(self, session: GatewaySession) -> GatewaySession:
        self.sessions[session] = None
        return session

    def register_outbound(self, session: GatewaySession) -> bool:
        """Let messages flow to a cluster. Returns False when there is a connection to it already."""
        if session.gateway in self.outbound:
            return False
        self.outbound[session.gateway] = session
        session.is_registered = True
        self._serve_all(session)
        self.order()
        return True

    def register_inbound(self, session: GatewaySession, info: PeerInfo) -> None:
        """Tell a server of another cluster that has connected of all clusters, and of the interest here."""
        self.inbound[session] = None
        session.is_registered = True
        self.heard_of(info)
        for other in self.remotes.values():
            if other.name != session.gateway:
                session.link.send(other.told_by(self.port.identity().server_id))
        self._serve_all(session)

    def ended(self, session: GatewaySession) -> None:
        """Forget a connection that is over. The cluster may have to be reached again."""
        self.sessions.pop(session, None)
        self.inbound.pop(session, None)
        if self.outbound.get(session.gateway) is session:
            del self.outbound[session.gateway]
        other = session.other
        if self.is_stopped or other is None or not session.may_reconnect:
            return
        if self.remotes.get(other.name) is other:
            self.port.log(logging.DEBUG, f'Attempting reconnect for gateway "{other.name}"')
            delay = limits.ROUTE_JITTER * self.port.random()
            self._reach(
                other, is_first=False, delay=delay + (limits.ROUTE_RETRY if other.is_explicit else 0.0)
            )

    def order(self) -> None:
        """Order clusters by round trip: the nearest is offered messages first."""
        nearest = sorted(self.outbound.values(), key=lambda session: session.rtt_ns)
        if nearest == list(self.outbound.values()):
            return
        self.outbound = {session.gateway: session for session in nearest}
        names = [account.encode() for account in self._accounts]
        for session in nearest:
            session.link.stand_behind(names)

    # -- who is told of whom ----------------------------------------------------------------------

    def heard_of(self, info: PeerInfo) -> None:
        """Reach a cluster that a peer told of, unless it is known.

        Those that are connected already hear of it too. The Go server tells only who connects; two clusters
        that come at the same time to different servers of a third would not hear of each other.
        """
        if info.gateway == self.name or self.is_stopped:
            return
        known = self.remotes.get(info.gateway)
        if known is not None:
            known.add(info.gateway_urls)
            if info.gateway in self.reaching:
                self.reaching[info.gateway].renew()
            return
        other = RemoteCluster(info.gateway, None)
        other.add(info.gateway_urls)
        heard_of = sum(not each.is_explicit for each in self.remotes.values())
        if not other.urls or heard_of >= limits.GATEWAY_UNKNOWN:
            return
        self.remotes[other.name] = other
        line = other.told_by(self.port.identity().server_id)
        for session in self.inbound:
            if session.gateway != other.name:
                session.link.send(line)
        self.port.wake()
        self._reach(other, is_first=True)

    def forget(self, other: RemoteCluster) -> None:
        """Forget a cluster that was only heard of and does not answer."""
        if self.remotes.get(other.name) is other:
            del self.remotes[other.name]

    # -- accounts ---------------------------------------------------------------------------------

    def _serve_all(self, session: GatewaySession) -> None:
        for account in sorted(self._accounts):
            self._serve(session, account)

    def _serve(self, session: GatewaySession, account: str) -> None:
        interest = self.port.interest(account)
        if interest is not None:
            session.serve(account, interest)

    def accounts_changed(self) -> None:
        """Compare the accounts with those of before; called after a change.

        A cluster that has told interest in an account that was not there is connected to anew: it tells it
        again.
        """
        before, self._accounts = self._accounts, set(self.port.account_names())
        for account in sorted(before - self._accounts):
            for session in list(self.registered()):
                session.link.withdraw(account.encode())
        for account in sorted(self._accounts - before):
            for session in list(self.registered()):
                if account.encode() in session.unknown_accounts:
                    session.close(CloseReason.ROUTE_REMOVED)
                else:
                    self._serve(session, account)
        self.port.wake()


class Reaching(Attempts):
    """Attempts to reach a cluster, at each of its addresses in turn.

    `gateways.reaching` has it until it is done.
    """

    def __init__(self, gateways: Gateways, other: RemoteCluster, *, is_first: bool) -> None:
        super().__init__(gateways.port, is_first=is_first)
        self.other: Final = other
        self._gateways = gateways
        self._left: list[PeerURL] = []
        gateways.reaching[other.name] = self

    def stop(self) -> None:
        super().stop()
        if self._gateways.reaching.get(self.other.name) is self:
            del self._gateways.reaching[self.other.name]

    def _try(self) -> None:
        """Try each address once, in a random order."""
        self.attempts += 1
        self._left = list(self.other.urls.values())
        if not self._left:
            self.stop()
            return
        shuffle(self._left, self._host.random)
        self._next()

    def _next(self) -> None:
        if not self._left:
            self._failed()
            return
        url = self._left.pop()
        address = Address(url.host, url.port)
        self._tell(logging.INFO, f"Connecting to {self._what} at {address} (attempt {self.attempts})")

        def connected(wire: Wire) -> GatewaySession | None:
            if self._is_done:
                return None
            self.stop()
            return self._gateways.reached(wire, self.other, url)

        def failed(reason: str | None) -> None:
            if self._is_done:
                return
            text = f"Error connecting to {self._what} at {address} (attempt {self.attempts}): "
            self._tell(logging.ERROR, text + (reason or "that is this server"))
            self._next()

        self._gateways.port.dial(self.other.name, address, connected, failed)

    def _failed(self) -> None:
        """Try again after a while, when no server answered; give up a cluster that was only heard of."""
        if self._is_renewed and not self.other.is_explicit:
            self.attempts = 0
            self._due()
            return
        options = self._gateways.options
        gives_up = not self.other.is_explicit and self.attempts > max(options.connect_retries, 0)
        if gives_up and not self._gateways.has_inbound(self.other.name):
            self.stop()
            self._gateways.forget(self.other)
            return
        self._again(backs_off=options.connect_backoff)

    @property
    def _what(self) -> str:
        kind = "explicit" if self.other.is_explicit else "implicit"
        return f'{kind} gateway "{self.other.name}"'
