"""The plan of a server's processes: which options and sockets each gets.

Here lives what is the first one's alone, and how the processes are a cluster. Never lives here: processes.
"""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.conf.listen import advertised
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.errors import StartError
from headrace.protocol.info import address_text
from headrace.server.addresses import is_wildcard
from headrace.server.listener import bind, bind_and_listen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote
    from headrace.conf.options import Options

MESH_NAME: Final = "processes"
"""The cluster that processes are where there is no other begins with it; only the system account and leaf
nodes see it. Something of this start follows: servers of one cluster may not be leaf nodes of each other."""

_LOOPBACK: Final = "127.0.0.1"


class ListenerAddress(Struct, frozen=True):
    """The place of a listener, with the port as it is bound. `address` is the system's, for this family."""

    host: str
    port: int
    family: int = socket.AF_INET
    address: tuple[Any, ...] = ()


def shared_remotes(options: Options) -> tuple[LeafRemote, ...]:
    """The hubs that each process connects to."""
    return tuple(each for each in options.leafnodes.remotes if not each.hub) if options.leafnodes else ()


def _close(made: Iterable[tuple[ListenerAddress, socket.socket]]) -> None:
    for _, sock in made:
        sock.close()


def _bound(place: ListenerAddress) -> socket.socket:
    """A socket at an address that others of this server have too. Raises: StartError."""
    shown = f"{place.host}:{place.port}"
    try:
        sock = socket.socket(place.family, socket.SOCK_STREAM)
    except OSError as error:
        raise StartError(f"Error listening on port: {shown}: {error.strerror}") from error
    try:
        if place.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_wildcard(place.host))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(place.address)
    except OSError as error:
        sock.close()
        raise StartError(f"Error listening on port: {shown}: {error.strerror}") from error
    return sock


class ProcessPlan:
    """The processes of one server: their ports, and what the options mean for each.

    Binds the ports that processes reach each other at, and holds those of clients against other programs; the
    sockets that serve them are made for each process as it starts. Raises: StartError.
    """

    def __init__(self, options: Options, count: int) -> None:
        if not hasattr(socket, "SO_REUSEPORT"):
            raise StartError("processes: this system cannot share a port among processes")
        self.count: Final = count
        self.has_private_mesh: Final = options.cluster is None or not options.cluster.port
        self._mesh_name: Final = f"{MESH_NAME}-{secrets.token_hex(8)}"
        self._secret: Final = secrets.token_urlsafe(24)
        self._held: list[socket.socket] = []
        self.routes: Final[list[socket.socket]] = []
        self.leafs: socket.socket | None = None
        try:
            self.client: Final = self._hold(options.host, options.port)
            self.websocket: Final = self._hold_websocket(options)
            mqtt = options.mqtt
            self.mqtt: Final = None if mqtt is None else self._hold(mqtt.host, mqtt.port)
            for index in range(count):
                self.routes.append(self._bind_routes(options, index))
            self.leafs = self._bind_leafs(options)
        except StartError:
            self.close()
            raise

    def _hold(self, host: str, port: int) -> ListenerAddress:
        """Bind an address for clients, so that no other program gets it; no process listens there yet."""
        with bind(host, port) as alone:  # with others it could be shared unnoticed
            place = ListenerAddress(host, alone.getsockname()[1], alone.family, alone.getsockname())
        holding = _bound(place)
        self._held.append(holding)
        # Others may only have it with SO_REUSEPORT, even if nobody listens. To be bound past what is left of
        # connections of a server before, it needed this.
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        return place

    def _hold_websocket(self, options: Options) -> ListenerAddress | None:
        if options.websocket is None:
            return None
        from headrace.server.websocket.binding import first_bound  # most servers have no such port

        return first_bound(options.websocket, self._hold)

    def _bind_routes(self, options: Options, index: int) -> socket.socket:
        """Bound for as long as the server runs: a process that starts again is where it was."""
        cluster = options.cluster
        if cluster is None or self.has_private_mesh:
            return bind_and_listen(_LOOPBACK, 0)
        try:
            return bind_and_listen(cluster.host, cluster.port + index if cluster.port > 0 else -1)
        except StartError as error:
            raise StartError(f"Unable to listen for cluster connections: {error}") from error

    def _bind_leafs(self, options: Options) -> socket.socket | None:
        """The first process's, bound for as long as the server runs, too: leaf nodes know where it is."""
        leafnodes = options.leafnodes
        if leafnodes is None or not leafnodes.port:
            return None
        try:
            return bind_and_listen(leafnodes.host, leafnodes.port)
        except StartError as error:
            raise StartError(f"Unable to listen for leafnode connections: {error}") from error

    def let_go(self, index: int) -> None:
        """Close the sockets of the other processes, in one that was forked."""
        for sock in (*self._held, *(each for at, each in enumerate(self.routes) if at != index)):
            sock.close()
        if self.leafs is not None and index:
            self.leafs.close()

    def close(self) -> None:
        for sock in (*self._held, *self.routes, *([self.leafs] if self.leafs is not None else [])):
            sock.close()
        self._held.clear()

    def sockets(self) -> list[tuple[ListenerAddress, socket.socket]]:
        """Make the sockets on which a process that starts now accepts clients.

        Nobody is sent to a process before it can serve: its sockets do not listen yet. Raises: StartError.
        """
        places = [place for place in (self.client, self.websocket, self.mqtt) if place is not None]
        made: list[tuple[ListenerAddress, socket.socket]] = []
        try:
            for place in places:
                made.append((place, _bound(place)))
        except OSError as error:
            _close(made)
            raise StartError(
                f"Error listening on port: {place.host}:{place.port}: {error.strerror}"
            ) from error
        except StartError:
            _close(made)
            raise
        return made

    def peer_sockets(self, index: int, options: Options) -> list[tuple[ListenerAddress, socket.socket]]:
        """Return the sockets at which other servers reach a process, from its options (`options_of`)."""
        found = [(self.route_place(index, options), self.routes[index])]
        if index == 0 and self.leafs is not None and options.leafnodes is not None:
            found.append((ListenerAddress(options.leafnodes.host, options.leafnodes.port), self.leafs))
        return found

    def route_place(self, index: int, options: Options) -> ListenerAddress:
        """Return the place of the routes of a process, from its options."""
        port = self.routes[index].getsockname()[1]
        cluster = options.cluster
        return ListenerAddress(_LOOPBACK if self.has_private_mesh or cluster is None else cluster.host, port)

    def options_of(
        self, index: int, options: Options, dials: Iterable[int], monitor_port: int | None
    ) -> Options:
        """Return the options of one process; `dials`: the processes that it connects to.

        `monitor_port`: where the first one before it had monitoring.
        """
        is_first = index == 0
        name = options.server_name
        websocket = options.websocket
        if websocket is not None and self.websocket is not None:
            websocket = replace(websocket, port=self.websocket.port)
        mqtt = options.mqtt
        if mqtt is not None and self.mqtt is not None:
            mqtt = replace(mqtt, port=self.mqtt.port)
        http_port, https_port = options.http_port, options.https_port
        if monitor_port is not None and https_port is not None:
            https_port = monitor_port
        elif monitor_port is not None and http_port is not None:
            http_port = monitor_port
        return replace(
            options,
            port=self.client.port,
            websocket=websocket,
            mqtt=mqtt,
            server_name=name if is_first or not name else f"{name}-{index + 1}",
            http_port=http_port if is_first else None,
            https_port=https_port if is_first else None,
            jetstream=options.jetstream if is_first else None,
            streaming=options.streaming if is_first else None,
            leafnodes=self._leafnodes(index, options),
            cluster=self._cluster(index, options, dials),
            pid_file=None,
            ports_file_dir=None,
        )

    def _leafnodes(self, index: int, options: Options) -> LeafNodeOptions | None:
        """The port is the first one's. Hubs are connected to by all: none tells a hub of the others' clients.

        Where this server is the hub although it connects, one connection speaks for the whole cluster.
        """
        leafnodes = options.leafnodes
        if leafnodes is None:
            return None
        if index == 0:
            return leafnodes if self.leafs is None else replace(leafnodes, port=self.leafs.getsockname()[1])
        shared = shared_remotes(options)
        if options.jetstream is not None and options.jetstream.domain:
            own_api = f"$JS.{options.jetstream.domain}.API.>"  # it is here, although not in this process
            shared = tuple(replace(each, deny_exports=(*each.deny_exports, own_api)) for each in shared)
        return replace(leafnodes, port=0, remotes=shared)

    def _cluster(self, index: int, options: Options, dials: Iterable[int]) -> ClusterOptions:
        others = [each for each in dials if each != index]
        place = self.route_place(index, options)
        given = options.cluster
        if given is None or self.has_private_mesh:
            return ClusterOptions(
                name=(given.name if given is not None else "") or self._mesh_name,
                host=place.host,
                port=place.port,
                user=MESH_NAME,
                password=self._secret,
                no_advertise=True,
                pool_size=-1,  # between two processes of one machine a second connection has nothing to add
                compression="off",
                routes=tuple(self._url(each, options, MESH_NAME, self._secret) for each in others),
            )
        urls = tuple(self._url(each, options, given.user, given.password) for each in others)
        advertise = given.advertise
        if advertise is not None:
            host, port = advertised(advertise, 0)
            port = port + index if port else place.port
            advertise = address_text(host, port)
        routes = tuple(dict.fromkeys((*given.routes, *urls)))
        return replace(given, port=place.port, advertise=advertise, routes=routes)

    def _url(self, index: int, options: Options, user: str | None, password: str | None) -> PeerURL:
        place = self.route_place(index, options)
        cluster = options.cluster
        host = place.host
        if cluster is not None and not self.has_private_mesh and cluster.advertise and cluster.tls:
            # the name in the certificate
            host = advertised(cluster.advertise, 0)[0]
        return PeerURL({"0.0.0.0": _LOOPBACK, "::": "::1"}.get(host, host), place.port, user, password)
