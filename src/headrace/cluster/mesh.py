"""All routes of one server: who is connected to whom, over how many connections, and what each carries.

Here lives what concerns more than one connection. Never lives here: what is said on one (`route`), how a
peer is reached (`soliciting`), who is told of whom (`gossip`), new options (`reconfiguration`).

Source: cluster specification B4 to B10; the rules for redundant connections, pools and reconnections from
nats-server 2.15.1.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace import limits
from headrace.cluster import gossip
from headrace.cluster.anti_entropy import AntiEntropy
from headrace.cluster.bridge import Bridge
from headrace.cluster.dialect import LEGACY_ACCOUNT
from headrace.cluster.duplicates import DuplicateServices
from headrace.cluster.names import ClusterName
from headrace.cluster.reconfiguration import Reconfiguration
from headrace.cluster.registry import DEDICATED, Registry, pool_index
from headrace.cluster.route import RouteSession, Target
from headrace.cluster.rules import Rules
from headrace.cluster.soliciting import Solicitors
from headrace.conf.peer_options import PeerURL
from headrace.engine.reasons import CloseReason
from headrace.protocol.peers import GOSSIP, OURS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.gateways import Gateways
    from headrace.cluster.port import Port, Wire
    from headrace.cluster.route import Verdict
    from headrace.conf.peer_options import ClusterOptions
    from headrace.protocol.peers import PeerInfo


class Mesh:
    """The routes of one server. `system_account` has connections of its own where there are pools.

    `sessions`: every connection, also those whose handshake goes on. `solicitors`: peers that are being
    reached. `gateways`: those of this server, which hear of peers. `connect_urls`, `ws_connect_urls`: where
    clients reach the peers, sorted, and `leafnode_urls` where leaf nodes do. `duplicates`: services that only
    one server of a cluster can have, and a peer has as well. `bridge`: between peers of 1.x and of 2.x.
    Raises: ConfigError for permissions that are no subjects.
    """

    def __init__(self, port: Port[RouteSession], options: ClusterOptions, system_account: str | None) -> None:
        self.port: Final = port
        self.options = options
        self.rules = Rules(options)
        self.name = ClusterName(options.name or port.new_name(), is_dynamic=not options.name)
        self.registry: Final = Registry()
        # In the order they came, so that what happens can be repeated.
        self.sessions: Final[dict[RouteSession, None]] = {}
        self.solicitors: Final = Solicitors(port, self, self.registry, self.sessions)
        self.duplicates: Final = DuplicateServices(port, self.sessions, self.solicitors)
        self.bridge: Final = Bridge(port, self.registry, speaks_both=options.protocol == "auto")
        self._reconfiguration = Reconfiguration(
            port, self, self.registry, self.sessions, self.solicitors, system_account=system_account
        )
        self._anti_entropy = AntiEntropy(port, self.registry, self.solicitors, self._reconfiguration)
        self.gateways: Gateways | None = None
        self.connect_urls: tuple[str, ...] = ()
        self.ws_connect_urls: tuple[str, ...] = ()
        self.leafnode_urls: tuple[str, ...] = ()
        self.is_stopped = False
        self._peers: dict[str, PeerInfo] = {}  # those whose connect_urls count
        self._accounts: set[str] = set()
        for account in self._reconfiguration.pinned_accounts(options):
            self.registry.dedicated[account] = {}

    def start(self) -> None:
        """Begin to reach the peers of the configuration. Connections may be accepted from now on."""
        self._accounts = set(self.port.account_names())
        self.port.log(logging.INFO, f"Cluster name is {self.name.text}")
        if self.name.is_dynamic:
            self.port.log(logging.WARNING, "Cluster name was dynamically generated, consider setting one")
        self._anti_entropy.start()
        self.bridge.start()
        self.solicitors.reach(self.options.routes, ("", *self.registry.dedicated))

    def stop(self) -> None:
        """Close all connections, and reach nobody any more."""
        self.is_stopped = True
        self._reconfiguration.stop()
        self._anti_entropy.stop()
        self.bridge.stop()
        self.solicitors.stop()
        for session in list(self.sessions):
            session.close(CloseReason.SERVER_SHUTDOWN)

    def reload(self, options: ClusterOptions) -> None:
        """Take over other options of the same cluster; host, port and protocol are not changed so.

        Raises: ConfigError for permissions that are no subjects; nothing is changed then.
        """
        rules = Rules(options)
        before, self.options, self.rules = self.options, options, rules
        if options.name and options.name != self.name.text:
            self.rename(ClusterName(options.name, is_dynamic=False))
        self._reconfiguration.apply(before)

    # -- facts ------------------------------------------------------------------------------------

    @cached_property
    def server_id(self) -> str:
        """The id of this server, which stays the same."""
        return self.port.identity().server_id

    def routes(self) -> Iterator[RouteSession]:
        """The connections that are registered."""
        return iter(self.registry)

    def account_index(self, account: str) -> int:
        """The index in each pool of the connection that an account uses; DEDICATED: it has its own."""
        if account in self.registry.dedicated:
            return DEDICATED
        return pool_index(self.options.pool_size, account)

    def info(self) -> PeerInfo:
        """This server's INFO as of now."""
        options = self.options
        own = self.port.identity()
        speaks_both = options.protocol == "auto"
        info = replace(
            own,
            cluster=self.name.text,
            cluster_dynamic=self.name.is_dynamic,
            imports=self.rules.imports,
            exports=self.rules.exports,
            lnoc=True,
            lnocu=True,
            route_pool_size=max(options.pool_size, 0),
            legacy_routes=speaks_both,
            started_ns=own.started_ns if speaks_both else 0,
        )
        return replace(info, connect_urls=(), ws_connect_urls=()) if options.no_advertise else info

    def permitted_interest(self) -> tuple[Verdict | None, Verdict | None]:
        """The interest that peers are told, and that which is taken from them; None: all."""
        rules, duplicates = self.rules, self.duplicates
        return duplicates.tells(rules.tells), duplicates.takes(rules.takes)

    def _debug(self, text: str) -> None:
        self.port.log(logging.DEBUG, text)

    # -- connections ------------------------------------------------------------------------------

    def accepted(self, wire: Wire) -> RouteSession | None:
        """Begin a session on the cluster port. None: the server is stopping, close the connection."""
        return None if self.is_stopped else self._enter(RouteSession(self, wire, None))

    def solicited(self, wire: Wire, target: Target) -> RouteSession:
        """Begin a session with a peer that was reached."""
        return self._enter(RouteSession(self, wire, target))

    def _enter(self, session: RouteSession) -> RouteSession:
        self.sessions[session] = None
        return session

    def attempted(self) -> None:
        """Note that an attempt to reach a peer has failed, or was given up."""
        self.duplicates.check()

    # -- said on connections ----------------------------------------------------------------------

    def answered(self, session: RouteSession) -> None:
        """Go on with what waited for a PONG of a connection."""
        if session.starts_next:
            session.starts_next = False
            self.solicitors.reach_next_of_pool(session)
        self.duplicates.check()

    def refused(self, session: RouteSession) -> None:
        """Act on an -ERR, after which the connection ends."""
        self._reconfiguration.refused(session)

    def told(self, session: RouteSession, info: PeerInfo) -> None:
        """Act on an INFO that is not the first: about another server, an account, or what has changed."""
        remote = session.remote
        assert remote is not None, "the first INFO has come"
        if info.route_acc_add_reqid:
            self._reconfiguration.asked(session, info)
        elif info.gateway and self.gateways is not None:
            self.gateways.heard_over_route(info, session)
        elif info.gateway:
            session.log(
                logging.ERROR,
                f'Received information about gateway "{info.gateway}" from {session.remote_id},'
                " but gateway is not configured",
            )
        elif info.server_id != session.remote_id:
            self._heard_of(info, session)
        elif info.ldm:
            self._peer_leaves(session)
        elif (info.imports, info.exports) != (remote.imports, remote.exports):
            session.remote = replace(remote, imports=info.imports, exports=info.exports)
            self._serve(session)

    # -- registration -----------------------------------------------------------------------------

    def introduced(self, session: RouteSession, info: PeerInfo) -> None:
        """Give a connection its place, or close it, when the peer's first INFO came."""
        account = session.account
        if session.target is None:
            session.target = Target(self._url_to(info, info.host, info.port))
        if self.is_stopped:
            session.close(CloseReason.SERVER_SHUTDOWN)
        elif account and self.port.interest(account) is None:
            session.refuse_loudly(
                f'Unable to lookup account "{account}": account missing', CloseReason.MISSING_ACCOUNT
            )
        elif info.route_pool_size < 1 or self.options.pool_size < 1:
            if account:
                session.may_reconnect = False
                session.violates(
                    f'Not possible to have a dedicated route for account "{account}" between those servers'
                )
            else:
                session.is_unpooled = True
                self._add_unpooled(session, info)
        elif account:
            self._add_dedicated(session, info)
        else:
            self._add_pooled(session, info)

    def _add_unpooled(self, session: RouteSession, info: PeerInfo) -> None:
        slots = self.registry.pools.get(info.server_id)
        if slots is None:
            self._register(session, info, 0)
            return
        existing = slots[0]
        if existing is not None and self._prevails(session, existing, info):
            self._replace(session, existing, info)
        else:
            self._close_redundant(session, existing, may_reconnect=False)

    def _add_dedicated(self, session: RouteSession, info: PeerInfo) -> None:
        account = session.account
        connections = self.registry.dedicated.get(account)
        if connections is None:
            session.violates(f'No route for account "{account}"')
            return
        existing = connections.get(info.server_id)
        if existing is None:
            self._register(session, info, DEDICATED)
        elif self._prevails(session, existing, info):
            self._replace(session, existing, info)
        else:
            self._close_redundant(session, existing, may_reconnect=False)

    def _add_pooled(self, session: RouteSession, info: PeerInfo) -> None:
        size = max(self.options.pool_size, info.route_pool_size)
        index = info.route_pool_idx
        if session.was_solicited and index:
            session.violates(f"Route pool index should not be set but is set to {index}")
            return
        if not 0 <= index < size:
            session.violates(f"Invalid route pool index: {index} - pool size is {info.route_pool_size}")
            return
        slots = self.registry.places(info.server_id, size)
        session.pool_size = size
        if session.was_solicited:
            for other in filter(None, slots):
                _remember(other, session)
            if None not in slots[:size]:
                self._debug(f'Route pool size reached, closing extra connection to "{info.server_id}"')
                self._close_redundant(session, None, may_reconnect=False)
                return
            self._register(session, info, slots.index(None))
            return
        existing = slots[index]
        if existing is None:
            solicited = next((each for each in slots if each is not None and each.is_solicited), None)
            if solicited is not None:
                _remember(session, solicited)
            self._register(session, info, index)
        elif self._prevails(session, existing, info):
            self._replace(session, existing, info)
        else:
            self._close_redundant(session, existing, may_reconnect=True)

    def _prevails(self, session: RouteSession, existing: RouteSession, info: PeerInfo) -> bool:
        """Return True when a connection takes the place of one to the same peer; else it is closed.

        When two servers connect to each other at the same time, each may have registered what it began
        itself, and each would close what the other began: none would be left. So the one begun by the
        server with the lower id stays. The Go server does not give way; but a place in a pool that it asks
        for is free at its side, so what is registered for it here never will be there.
        """
        if session.was_solicited == existing.was_solicited:
            return False
        is_lower = self.server_id < info.server_id
        if info.git_commit.startswith(OURS):
            return session.was_solicited == is_lower and not existing.has_answered
        is_pooled = not session.account and not session.is_unpooled
        return is_pooled and existing.was_solicited

    def _close_redundant(
        self, session: RouteSession, existing: RouteSession | None, *, may_reconnect: bool
    ) -> None:
        """Close a connection whose peer has another one, which keeps where to reach the peer again."""
        self._debug(f'Detected duplicate remote route "{session.remote_id}"')
        session.may_reconnect = may_reconnect
        if existing is not None:
            if session.is_solicited:
                _remember(existing, session)
            existing.retries = True
        session.close(CloseReason.DUPLICATE_ROUTE)

    def _replace(self, session: RouteSession, existing: RouteSession, info: PeerInfo) -> None:
        if existing.is_solicited:
            _remember(session, existing)
        self._register(session, info, existing.pool_index)
        existing.is_registered = False
        self._close_redundant(existing, session, may_reconnect=False)

    def _register(self, session: RouteSession, info: PeerInfo, index: int) -> None:
        peer = info.server_id
        session.pool_index = index
        session.is_registered = True
        self._debug(f'Registering remote route "{peer}"')
        session.send_delayed_info(index)
        if session.account:
            self.registry.dedicated[session.account][peer] = session
            self._tell_others(session, info)
        else:
            self.registry.place(session)
            slots = self.registry.pools[peer]
            count = sum(each is not None for each in slots)
            if count == 1:
                self._tell_others(session, info)
                self._peers[peer] = info
                self._count_urls()
                if self.gateways is not None:
                    self.gateways.route_added(session, info)
            if session.was_solicited and not session.is_unpooled and count < len(slots):
                session.starts_next = True
        if self.duplicates.met(session, info):
            return  # this server ends: what it serves is not to be known any more
        self.bridge.met(session)
        self._serve(session)
        if session.starts_next or self.duplicates.is_looking:
            session.ping()
        self.port.wake()

    def _tell_others(self, session: RouteSession, info: PeerInfo) -> None:
        """Tell others of a new peer; of a connection for one account, only those who can have one."""
        if session.account:
            others = [each for each in self.registry.carrying(session.account) if not each.is_unpooled]
        else:
            others = list(self.registry.firsts())
        if not gossip.is_to_be_told(session, info):
            others = [each for each in others if each.is_legacy]
        gossip.tell(session, (each for each in others if each.remote_id != info.server_id))

    def _heard_of(self, info: PeerInfo, session: RouteSession) -> None:
        """Reach a server that a peer told of, unless it is known."""
        account = info.route_account
        if info.server_id == self.server_id:
            return
        if account:
            is_known = info.server_id in self.registry.dedicated.get(account, {})
            if is_known or self.options.pool_size < 1 or account not in self.registry.dedicated:
                return
        elif info.server_id in self.registry.pools:
            return
        if gossip.is_at(info, self.options.routes):
            return
        at = gossip.url_of(info)
        if at is None:
            self.port.log(logging.ERROR, f'Error parsing URL from INFO: "{info.ip}"')
            return
        accounts = [account]
        if session.is_unpooled and not account:  # who told of it tells nothing of its accounts' connections
            accounts += self.registry.dedicated
        for each in accounts:
            target = Target(self._url_to(info, at.host, at.port), account=each, gossip_mode=info.gossip_mode)
            self.solicitors.reach_heard_of(target)

    def _url_to(self, info: PeerInfo, host: str, port: int) -> PeerURL:
        """The URL of a server, with this cluster's own credentials if the peer asks for any."""
        if info.auth_required:
            return PeerURL(host, port, self.options.user, self.options.password)
        return PeerURL(host, port)

    # -- what connections carry -------------------------------------------------------------------

    def _carries(self, session: RouteSession, account: str) -> bool:
        """Return True when interest and messages of an account go over this connection."""
        if session.is_legacy:
            return account == LEGACY_ACCOUNT
        if session.is_unpooled:
            return True
        if session.account:
            return session.account == account
        return session.pool_index == self.account_index(account)

    def _serve(self, session: RouteSession) -> None:
        """Tell the interest of all accounts that the connection carries."""
        for account in (session.account,) if session.account else sorted(self._accounts):
            if self._carries(session, account):
                self._serve_account(session, account)

    def _serve_account(self, session: RouteSession, account: str) -> None:
        interest = self.port.interest(account)
        if interest is not None:
            is_alone = session.is_legacy or bool(session.account)
            session.link.serve(account.encode(), interest, dedicated=is_alone)

    def serve_account(self, account: str) -> None:
        """Tell an account's interest on the connections that carry it now."""
        for session in list(self.registry):
            if self._carries(session, account):
                self._serve_account(session, account)
        self.port.wake()

    def accounts_changed(self) -> None:
        """Compare the accounts with those of before; called after a change.

        A peer that has told interest in an account that was not there is connected to anew: it tells it
        again.
        """
        before, self._accounts = self._accounts, set(self.port.account_names())
        for account in sorted(before - self._accounts):
            for session in list(self.registry):
                session.withdraw(account)
        for account in sorted(self._accounts - before):
            self.serve_account(account)
            for session in list(self.registry):
                if session.may_want(account):
                    session.retries = True
                    session.close(CloseReason.ROUTE_REMOVED)
        self.port.wake()

    # -- the end of connections -------------------------------------------------------------------

    def ended(self, session: RouteSession) -> None:
        """Forget a connection that is over. The peer may have to be reached again."""
        self.sessions.pop(session, None)
        was_last = self.registry.remove(session)
        if was_last:
            self._peers.pop(session.remote_id, None)
            self.duplicates.left(session.remote_id)
            self._count_urls()
            if self.gateways is not None and session.remote is not None:
                self.gateways.route_removed(session.remote)
        if self.is_stopped:
            return
        if was_last:
            self.bridge.left()
        self.duplicates.check()
        self._reconfiguration.ended(session)
        self._reconnect(session)
        if was_last and session.is_unpooled and session.target is not None:
            # What comes back may be a server that has pools.
            for account in self.registry.dedicated:
                self.solicitors.reach_target(replace(session.target, account=account))

    def _reconnect(self, session: RouteSession) -> None:
        target = session.target
        if target is None or not session.may_reconnect or not (session.is_solicited or session.retries):
            return
        slots = self.registry.pools.get(session.remote_id)
        if slots is not None and not session.account and self.options.pool_size < 1:
            if session.is_solicited and slots[0] is not None:
                _remember(slots[0], session)
            return
        if session.remote_id == self.server_id:
            self._debug(f"Detected route to self, ignoring {target.address}")
            return
        delay = limits.ROUTE_JITTER * self.port.random()
        if target.is_explicit:
            delay += limits.ROUTE_RETRY
        again = replace(target, account=session.account, gossip_mode=GOSSIP)
        self.solicitors.reach_target(again, delay, is_first=False)

    # -- the cluster ------------------------------------------------------------------------------

    def accepts_name(self, name: str, peer: str, *, is_dynamic: bool) -> bool:
        """Return True when a server of a cluster with this name may be a peer; may change the own name."""
        if name == self.name.text:
            return True
        if not name or not self.name.gives_way_to(name, is_dynamic=is_dynamic):
            return False
        self.rename(ClusterName(name, is_dynamic=is_dynamic))
        for session in list(self.sessions):
            if session.remote_id not in ("", peer):
                session.close(CloseReason.CLUSTER_NAME_CONFLICT)
        return True

    def rename(self, name: ClusterName) -> None:
        """Change the name of the cluster."""
        self.name = name
        self.port.log(logging.INFO, f"Cluster name updated to {name.text}")
        self.port.peers_changed()

    def lame_duck(self) -> None:
        """Tell peers to send no more clients here."""
        line = replace(self.info(), ldm=True).line()
        for session in self.registry.firsts():
            if not session.is_legacy:  # which know nothing of that
                session.link.send(line)
        self.port.wake()

    def _peer_leaves(self, session: RouteSession) -> None:
        """Send no more clients to a peer that is a lame duck."""
        if self._peers.pop(session.remote_id, None) is not None:
            self._count_urls()

    def _count_urls(self) -> None:
        if self.options.no_advertise:
            peers: list[PeerInfo] = []
        else:
            peers = list(self._peers.values())
        urls = tuple(sorted({url for peer in peers for url in peer.connect_urls}))
        ws_urls = tuple(sorted({url for peer in peers for url in peer.ws_connect_urls}))
        leaf_urls = tuple(sorted({url for peer in self._peers.values() for url in peer.leafnode_urls}))
        if (urls, ws_urls, leaf_urls) != (self.connect_urls, self.ws_connect_urls, self.leafnode_urls):
            self.connect_urls, self.ws_connect_urls, self.leafnode_urls = urls, ws_urls, leaf_urls
            self.port.peers_changed()


def _remember(stays: RouteSession, other: RouteSession) -> None:
    """Remember on a connection where another one's peer is reached, to reach its own peer there again."""
    assert other.target is not None
    if not stays.is_solicited or (other.is_explicit and not stays.is_explicit):
        stays.target = other.target
    stays.is_solicited = True
