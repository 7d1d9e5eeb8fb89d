"""The server: its life from start to shutdown, the connections it has, and the tick that ties them.

Composition only. Accepting is `listener`, one client's policy is `session`, the message path is
the engine, what monitoring shows is gathered in `snapshot`.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from time import monotonic, monotonic_ns, time_ns
from typing import TYPE_CHECKING

from headrace.conf.options import Options
from headrace.core.accounts import Accounts
from headrace.core.service import memberships
from headrace.engine.link import Router
from headrace.engine.reasons import CloseReason
from headrace.errors import StartError
from headrace.protocol import nkeys
from headrace.protocol.info import PortInfo
from headrace.server import logs
from headrace.server.auth import Authenticator
from headrace.server.clients import Clients
from headrace.server.deadlines import Deadlines
from headrace.server.disconnects import Disconnects
from headrace.server.info import client_info
from headrace.server.listener import Listener, bind, busy_poll, default_transport
from headrace.server.listeners import (
    Listeners,
    open_gateways,
    open_leafs,
    open_monitor,
    open_mqtt,
    open_routes,
    open_websocket,
)
from headrace.server.log_limits import LogLimits
from headrace.server.ownership import hears_others, lasting_cluster_name
from headrace.server.preflight import (
    announce,
    check_accounts,
    check_alone,
    check_services,
    external_authorizer,
    hosted,
)
from headrace.server.services import ServiceHost
from headrace.server.system.service import SystemService
from headrace.server.ticks import Tasks, Ticks
from headrace.server.tls_contexts import ServerTLS, make_contexts
from headrace.server.tracing import Tracer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from headrace.conf.account_options import LatencyOptions
    from headrace.core.account import Account
    from headrace.core.service import Clock, Service
    from headrace.server.acceptor import Acceptor
    from headrace.server.account_services import AccountServices
    from headrace.server.disconnects import EndingConnection
    from headrace.server.latency import LatencyMeter
    from headrace.server.peers.gateways import GatewayHost
    from headrace.server.peers.leafs import LeafNodes
    from headrace.server.peers.routes import Routes
    from headrace.server.reload import ProcessSurroundings
    from headrace.server.tls_contexts import Contexts
    from headrace.server.worker import Worker


class Server:
    """A NATS server inside an asyncio program.

        async with Server(Options(host="127.0.0.1", port=-1)) as server:
            print(server.url)

    Everything runs on the event loop that called `start`, the services inside too. `stopped` is set when it
    has stopped, `failure` then says why it could not go on, if that was so.
    `next_number` numbers connections of all kinds. `serving_since`: when JetStream or streaming began, in the
    nanoseconds of `monotonic_ns`; 0: not yet. `clock`: of the services inside; None: the system's.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        transport: str | None = None,
        services: Sequence[Service] = (),
        account_services: AccountServices | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock
        self.options = options or Options()
        self.log = logging.getLogger(logs.LOGGER_NAME)
        self.log_limits = LogLimits(self.log, monotonic, self._call_later)
        self.authorizer = external_authorizer(self)
        self.authenticator = Authenticator(self.options)
        self.surroundings: ProcessSurroundings | None = None
        self.router = Router(
            max_pending=self.options.max_pending, drops_when_congested=self.options.no_fast_producer_stall
        )
        self.disconnects = Disconnects(self, self._connections)
        self.deadlines = Deadlines()
        self.ticks = Ticks(self.router, self.disconnects)
        self.tasks = Tasks(self.log)
        check_accounts(self.options)
        self.accounts = Accounts(self.options, self.router, self._account_failed, self._new_meter)
        self.system = SystemService(self)
        self.events = self.system.events
        self.router.tracer = self._tracer = Tracer(self)
        self.clients = Clients(self)
        self.services = tuple(services)
        self.account_services = hosted(self, account_services)
        self.hosts: list[ServiceHost] = []
        self.server_id = self.authorizer.server_id if self.authorizer is not None else nkeys.new_server_id()
        self.name = self.options.server_name or self.server_id
        self.info = PortInfo({})
        self.start_ns = 0
        self.config_load_ns = 0
        self.tls = ServerTLS(self)
        self.next_number: Callable[[], int] = count(1).__next__
        self.worker: Worker | None = None
        self.is_lame_duck = False
        self.stopped = asyncio.Event()
        self.failure: str | None = None
        self.serving_since = 0
        self._has_started = False
        self._ending: asyncio.Task[None] | None = None
        self._transport_kind = transport or default_transport()
        self.listeners = Listeners(self)
        self.routes: Routes | None = None
        self.gateways: GatewayHost | None = None
        self.leafs: LeafNodes | None = None

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Make everything ready, then listen to clients: whoever can connect is served.

        What was stored is there before, the other ports listen, and servers that are configured have been
        tried to reach once. Waiting for them ends soon: `limits.FIRST_REACH`.

        Raises: StartError when a port or a certificate cannot be used, or a service cannot start.
        """
        options = self.options
        check_services(options, self.services, self.account_services)
        if options.processes != 1 and self.worker is None:
            check_alone(options)
        self.loop = asyncio.get_running_loop()
        self.deadlines.begin(self.loop)
        self.start_ns = self.config_load_ns = time_ns()
        announce(self)
        self.use_contexts(make_contexts(options))
        poller = None
        if self._transport_kind == "epoll":
            from headrace.server.epoll import Poller

            poller = Poller(self.router, busy_poll())
        self.ticks.begin(self.loop, poller)
        try:
            await self._open()
        except BaseException:
            await self.stop()
            raise
        self.disconnects.watch()
        try:
            self._start_services()
            for peers in self.peer_hosts:
                await peers.reached()
            if self.worker is not None:
                await self.worker.joined(self)
            if self.account_services is not None:
                await self.account_services.join()
            cluster = lasting_cluster_name(options, self.worker)
            is_alone = not hears_others(self.routes, self.worker)
            for membership in memberships(self.services):
                await membership.join(self.name, cluster, is_alone=is_alone)
            if self.surroundings is not None:
                self.surroundings.before_clients()
            self.listeners.accept_clients()
        except BaseException:
            await self.stop()
            raise
        self._has_started = True
        if self.worker is None:
            self.log.info("Server is ready")

    def use_worker(self, worker: Worker) -> None:
        """Make this server, before its start, one of several processes."""
        self.worker = worker
        self.next_number = count(worker.index + 1, worker.count).__next__  # no two processes have the same

    async def _open(self) -> None:
        """Ports, and what must be there before the first client."""
        options = self.options
        contexts, bound = self.tls.contexts, bind(options.host, options.port)
        self.listeners.client = Listener(self, contexts.client.context, bound)
        if self.authorizer is not None:
            await self.authorizer.start()
        self.listeners.websocket = open_websocket(self)
        self.listeners.mqtt = open_mqtt(self)
        self.gateways = open_gateways(self)
        self.leafs = open_leafs(self, options.leafnodes)
        self.routes = open_routes(self)
        self.cluster_changed()
        self.listeners.monitor = await open_monitor(self)
        if self.routes is not None and self.gateways is not None:
            self.routes.mesh.gateway_gossip = self.gateways.machine.gossip
        if self.routes is not None and options.serves_alone:
            self.routes.start()
            await self.routes.look()
        self.serving_since = monotonic_ns()
        if self.account_services is not None:
            await self.account_services.start()
        if self.failure is not None:
            raise StartError(self.failure)

    def give_up(self, reason: str) -> None:
        """End the server, which cannot go on; while it still starts, `start` raises StartError."""
        if self.failure is None:
            self.failure = reason
            if self._has_started:
                self.log.critical("%s", reason)
                self._begin_to_stop()

    def use_contexts(self, contexts: Contexts) -> None:
        """New connections get these, made of what `self.options` now say; others keep what they have."""
        self.tls.use(contexts)
        self.listeners.use(contexts)

    def reload(self) -> None:
        """Take over what has changed in the configuration file.

        Raises: ConfigError, or StartError for what cannot be changed in a running server; nothing has
        changed then.
        """
        from headrace.server.reload import reload  # most servers are never reloaded

        reload(self)

    async def settled(self) -> None:
        """Wait until the start's work in the background is done: the monitoring port answers."""
        if self.listeners.monitor is not None:
            await self.listeners.monitor.is_up()

    def _start_services(self) -> None:
        """Start the services, and the links to other servers that were not started before them."""
        if self.accounts.system is not None:
            self.start_service(self.system, self.accounts[self.accounts.system])
        for service in self.services:
            proof = next((each.proven_until for each in memberships([service])), None)
            self.start_service(service, self.accounts.default, proof=proof)
        if self.gateways is not None:
            self.gateways.start()
        if self.routes is not None and not self.options.serves_alone:
            self.routes.start()
        if self.leafs is not None:
            self.leafs.start()

    def start_service(
        self,
        service: Service,
        account: Account,
        *,
        maps: bool = True,
        proof: Callable[[], int] | None = None,
    ) -> ServiceHost:
        """Start a service in an account.

        `proof`: until when it may speak (`ServiceHost`). `maps`: what it publishes passes through the
        account's mappings, as what a client publishes.

        Raises: StartError, as the service does.
        """
        host = ServiceHost(
            service,
            self.router,
            account,
            loop=self.loop,
            wake=self.ticks.wake,
            log=self.log,
            max_payload=self.options.max_payload,
            maps=maps,
            clock=self.clock,
            proof=proof,
        )
        host.start()
        self.hosts.append(host)
        return host

    def stop_services(self, hosts: Sequence[ServiceHost], *, at_once: bool = False) -> None:
        """End services while the server goes on; what they publish at their end still goes out.

        `at_once`: what they have taken and not answered yet they never answer.
        """
        for host in hosts:
            if at_once:
                host.abandon()
            else:
                host.stop()
        self.ticks.end()
        for host in hosts:
            host.close()
            self.hosts.remove(host)
        self.ticks.wake()

    def _stop_services(self) -> None:
        """End all services: they get what was read, and what they publish at their end still goes out."""
        if self.account_services is not None:
            self.account_services.stop()
        self._end_services()
        if self.account_services is not None:
            self.account_services.close()

    def _end_services(self) -> None:
        if not self.hosts:
            return
        for connection in self._connections():
            connection.link.hold()
        self.ticks.end()
        for host in reversed(self.hosts):
            host.stop()
        self.ticks.end()
        for host in self.hosts:
            host.close()
        self.hosts.clear()

    async def stop(self) -> None:
        """Close everything: listener, services, clients (flushed), monitoring.

        Safe to call again, also while it goes on: whoever calls waits for the same end.
        """
        await asyncio.shield(self._begin_to_stop())

    def _begin_to_stop(self) -> asyncio.Task[None]:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._stop())
            self._ending.add_done_callback(lambda _: self.stopped.set())
        return self._ending

    async def _stop(self) -> None:
        await self.tls.close()
        for listener in self._listeners:
            listener.close()
            await listener.abandon()
        if self.account_services is not None:
            await self.account_services.part()
        for membership in memberships(self.services):
            await membership.part()
        self._stop_services()
        if self.authorizer is not None:
            await self.authorizer.close()
        for host in self.peer_hosts:
            host.stop()
        for session in self.clients:
            session.end(CloseReason.SERVER_SHUTDOWN)
        for connection in self._connections():
            connection.link.doom(CloseReason.SERVER_SHUTDOWN)
        self.disconnects.begin(self.router.end_tick())
        await self.disconnects.drain()
        await self.tasks.cancel()
        for connection in self._connections():
            connection.over(CloseReason.SERVER_SHUTDOWN)
        self.disconnects.close()
        self.deadlines.close()
        await self.listeners.close_monitor()
        self.ticks.close()
        self.router.tracer = None
        self._tracer.close()
        self.accounts.close()
        self.log_limits.flush()
        await asyncio.sleep(0)  # asyncio transports finish closing in the loop's next round

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def lame_duck(self) -> None:
        """Stop accepting, tell clients, close them spread over time, stop.

        Source: client protocol specification, section 9.
        """
        if self.is_lame_duck:
            return
        self.is_lame_duck = True
        self.log.info("Entering lame duck mode, stop accepting new clients")
        for listener in self._listeners:
            listener.close()
        if self.routes is not None:
            self.routes.mesh.lame_duck()
        self.info = client_info(self)
        self.events.lame_duck()
        if self.account_services is not None:
            await self.account_services.leave()
        for membership in memberships(self.services):
            await membership.leave()
        from headrace.server.lame_duck import leave  # most servers do not leave so

        await leave(self)
        if self.worker is not None:
            await self.worker.left(self)
        if not self.stopped.is_set():
            self.log.info("Initiating Shutdown...")
            await self.stop()

    # -- facts ------------------------------------------------------------------------------------

    @property
    def _listeners(self) -> list[Acceptor]:
        peers = (host.listener for host in self.peer_hosts)
        mqtt = None if self.listeners.mqtt is None else self.listeners.mqtt.listener
        own = (self.listeners.client, self.listeners.websocket, mqtt)
        return [each for each in (*own, *peers) if each is not None]

    @property
    def peer_hosts(self) -> list[Routes | GatewayHost | LeafNodes]:
        """The hosts of connections to other servers: of routes, gateways, leaf nodes."""
        return [host for host in (self.routes, self.gateways, self.leafs) if host is not None]

    @property
    def websocket_port(self) -> int | None:
        """The WebSocket port that is bound; None: there is none."""
        return self.listeners.websocket_port

    @property
    def websocket_url(self) -> str | None:
        """The URL for a WebSocket client on this machine; None: there is no such port."""
        return self.listeners.websocket_url

    @property
    def host(self) -> str:
        """The address of the client port as it is configured, also a name."""
        return self.listeners.host

    @property
    def port(self) -> int:
        """The client port that is bound."""
        return self.listeners.port

    @property
    def url(self) -> str:
        """The URL for a client on this machine, without credentials."""
        return self.listeners.url

    @property
    def monitor_port(self) -> int | None:
        """The port for monitoring that is bound; None: there is none."""
        return self.listeners.monitor_port

    @property
    def monitor_url(self) -> str | None:
        """The URL where monitoring answers; None: it is off."""
        return self.listeners.monitor_url

    def cluster_changed(self) -> None:
        """Take over another name of the cluster, or other members."""
        self.accounts.use_cluster(self.cluster_name or "")
        self.info = client_info(self)

    @property
    def cluster_name(self) -> str | None:
        """The cluster this server belongs to; None when it is alone.

        A leaf node without a cluster is one by itself.
        """
        options = self.options
        if self.routes is not None:
            return self.routes.cluster_name
        if options.cluster is not None and options.cluster.name:
            return options.cluster.name
        if self.gateways is not None:
            return self.gateways.options.name
        return self.name if options.leafnodes is not None and options.leafnodes.remotes else None

    # -- connections ------------------------------------------------------------------------------

    def _connections(self) -> list[EndingConnection]:
        """All connections that are open."""
        peers = (host.connections for host in self.peer_hosts)
        return [*self.clients, *(each for connections in peers for each in connections)]

    # -- accounts ---------------------------------------------------------------------------------

    def _new_meter(self, latency: LatencyOptions, exporter: Account) -> LatencyMeter:
        from headrace.server.latency import LatencyMeter  # only who measures pays for loading it

        return LatencyMeter(latency, exporter, self.router, self.ticks.wake, self._account_failed)

    def _account_failed(self, error: Exception) -> None:
        self.log.error("internal error while a message passed between accounts", exc_info=error)

    def _call_later(self, seconds: float, work: Callable[[], None]) -> None:
        self.loop.call_later(seconds, work)
