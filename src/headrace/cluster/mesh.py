"""All routes of one server: who is connected to whom, over how many connections, and what each carries.

Here lives what concerns more than one connection. Never lives here: what is said on one (`route`), its
place (`registration`), the accounts that it carries (`route_accounts`), how a peer is reached (`soliciting`),
who is told of whom (`gossip`), new options (`reconfiguration`).

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
from headrace.cluster.client_addresses import ClientAddresses
from headrace.cluster.duplicates import DuplicateServices
from headrace.cluster.names import ClusterName
from headrace.cluster.reconfiguration import Reconfiguration
from headrace.cluster.registration import Registration
from headrace.cluster.registry import Registry
from headrace.cluster.route import RouteSession, RouteTarget
from headrace.cluster.route_accounts import RouteAccounts
from headrace.cluster.rules import Rules
from headrace.cluster.soliciting import Solicitors
from headrace.engine.reasons import CloseReason
from headrace.protocol.peers import GOSSIP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.gateway_gossip import GatewayGossip
    from headrace.cluster.port import Port, Wire
    from headrace.cluster.route import Verdict
    from headrace.conf.peer_options import ClusterOptions
    from headrace.protocol.peers import PeerInfo


class Mesh:
    """The routes of one server. `system_account` has connections of its own where there are pools.

    `sessions`: every connection, also those whose handshake goes on. `solicitors`: peers that are being
    reached. `gateway_gossip`: that of this server, which hears of peers. `addresses`: where clients and leaf
    nodes reach the peers. `duplicates`: services that only one server of a cluster can have, and a peer has
    as well. `bridge`: between peers of 1.x and of 2.x. `accounts`: which connections carry them.
    `registration`: the place that a new connection gets.

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
        self.accounts: Final = RouteAccounts(port, self, self.registry)
        self.registration: Final = Registration(port, self, self.registry)
        self._reconfiguration = Reconfiguration(
            port, self, self.registry, self.sessions, self.solicitors, system_account=system_account
        )
        self._anti_entropy = AntiEntropy(port, self.registry, self.solicitors, self._reconfiguration)
        self.gateway_gossip: GatewayGossip | None = None
        self.addresses: Final = ClientAddresses(port, self)
        self.is_stopped = False
        for account in self._reconfiguration.pinned_accounts(options):
            self.registry.dedicated[account] = {}

    def start(self) -> None:
        """Begin to reach the peers of the configuration. Connections may be accepted from now on."""
        self.accounts.start()
        self.port.log(logging.INFO, f"Cluster name is {self.name.text}")
        if self.name.is_dynamic:
            self.port.log(logging.WARNING, "Cluster name was dynamically generated, consider setting one")
        self._anti_entropy.start()
        self.bridge.start()
        self.solicitors.reach(self.options.routes, ("", *self.registry.dedicated))

    def stop(self) -> None:
        """Close all connections, and begin no more."""
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

    def solicited(self, wire: Wire, target: RouteTarget) -> RouteSession:
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
        elif info.gateway and self.gateway_gossip is not None:
            self.gateway_gossip.heard_over_route(info, session)
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
            self.accounts.serve(session)

    # -- peers ------------------------------------------------------------------------------------

    def registered(self, session: RouteSession, info: PeerInfo, *, is_first: bool) -> None:
        """Let interest and messages pass on a connection that has its place, and tell others of its peer.

        `is_first`: it is the first one of its peer's pool, or of its peer for its account.
        """
        if is_first:
            self._tell_others(session, info)
        if is_first and not session.account:
            self.addresses.add(info)
            if self.gateway_gossip is not None:
                self.gateway_gossip.route_added(session, info)
        if self.duplicates.met(session, info):
            return  # this server ends: what it serves is not to be known any more
        self.bridge.met(session)
        self.accounts.serve(session)
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
            url = gossip.url_to(info, at.host, at.port, self.options)
            target = RouteTarget(url, account=each, gossip_mode=info.gossip_mode)
            self.solicitors.reach_heard_of(target)

    def accounts_changed(self) -> None:
        """Compare the accounts with those of before; called after a change."""
        self.accounts.changed()

    # -- the end of connections -------------------------------------------------------------------

    def ended(self, session: RouteSession) -> None:
        """Forget a connection that is over. The peer may have to be reached again."""
        self.sessions.pop(session, None)
        was_last = self.registry.remove(session)
        if was_last:
            self.addresses.remove(session.remote_id)
            if self.gateway_gossip is not None and session.remote is not None:
                self.gateway_gossip.route_removed(session.remote)
        if not self.registry.has(session.remote_id):
            self.duplicates.left(session.remote_id)
            self.port.left(session.remote_id)
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
                slots[0].take_target_of(session)
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
        self.addresses.remove(session.remote_id)
