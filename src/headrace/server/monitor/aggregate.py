"""A server of several processes as monitoring sees it: one snapshot of each, and all of them as one.

Here lives what a process snapshot has, and the whole server as a source of snapshots: what endpoints say of a
whole server they say as of one process, with its paging, sorting and filters. Never lives here: how the
fields of several processes become one (`source` says it, `combining` does it), how snapshots come from one
process to the other (`headrace.processes`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from headrace.conf.options import Options
from headrace.errors import HeadraceError
from headrace.server.monitor.combining import combined
from headrace.server.monitor.source import ConnectionState, HealthSnapshot
from headrace.server.snapshot import ServerMonitor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.engine.route import RouteLink
    from headrace.server.monitor.bucket import BucketStats
    from headrace.server.monitor.jetstream import JetStreamStats
    from headrace.server.monitor.source import (
        AccountSnapshot,
        ConnectionSnapshot,
        LeafSnapshot,
        MonitorSource,
        RouteSnapshot,
        ServerSnapshot,
        SublistSnapshot,
    )
    from headrace.server.snapshot import MonitoredServer
    from headrace.server.worker import Worker

Row = TypeVar("Row")

CONNECTIONS_PER_PART: Final = 50
"""Connections that go from one process to another at a time: others have their turn in between."""

_TRAFFIC: Final = ("in_msgs", "in_bytes", "out_msgs", "out_bytes")


class MonitorUnavailable(HeadraceError):
    """A part of the server did not say what monitoring was to show."""


class SnapshotParts(Struct, frozen=True):
    """The parts of a process that its snapshot must have, beside the server itself and its health.

    `state`: connections, None for none; `with_subscriptions`: theirs too. `sublist`: the subject index of
    `account` ("": of all), `with_details`: all that is in it.
    """

    state: ConnectionState | None = None
    with_subscriptions: bool = False
    sublist: bool = False
    account: str = ""
    with_details: bool = False
    accounts: bool = False
    with_interest: bool = False
    """True for the interest of peers, of each route and leaf link."""


class ProcessSnapshot(Struct, frozen=True, kw_only=True):
    """One process. What was not wanted is empty."""

    server: ServerSnapshot
    health: HealthSnapshot
    connections: tuple[ConnectionSnapshot, ...] = ()
    sublist: SublistSnapshot | None = None
    accounts: tuple[AccountSnapshot, ...] = ()


class Listed(Generic[Row]):
    """Subscriptions that were looked up already; where a snapshot would look them up when it is called."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = tuple(rows)

    def __call__(self) -> Sequence[Row]:
        return self._rows


_NOTHING: Final[Listed[Any]] = Listed(())
_NO_OPTIONS: Final = Options()


def process_snapshot(monitor: MonitorSource, wanted: SnapshotParts) -> ProcessSnapshot:
    """A process now, but for its connections (`connection_parts`); nothing in it is looked up later.

    Its options are left out: those of the process that shows it are the same.
    """
    server = monitor.server()
    cluster = server.cluster
    if cluster is not None:
        routes = tuple(_settled_route(each, wanted) for each in cluster.routes)
        server = replace(server, cluster=replace(cluster, routes=routes))
    if server.leafnodes is not None:
        links = tuple(_settled_leaf(each, wanted) for each in server.leafnodes.links)
        server = replace(server, leafnodes=replace(server.leafnodes, links=links))
    return ProcessSnapshot(
        server=replace(server, options=_NO_OPTIONS),
        health=monitor.health(),
        sublist=_settled_sublist(monitor.subscriptions(wanted.account or None), wanted)
        if wanted.sublist
        else None,
        accounts=tuple(replace(each, sublist=_bare(each.sublist)) for each in monitor.accounts())
        if wanted.accounts
        else (),
    )


def connection_parts(
    monitor: MonitorSource, wanted: SnapshotParts
) -> Iterator[tuple[ConnectionSnapshot, ...]]:
    """The connections of a process, some at a time; each shows what it is when its part is made."""
    part: list[ConnectionSnapshot] = []
    for each in () if wanted.state is None else monitor.connections(wanted.state):
        rows = Listed(each.subscriptions()) if wanted.with_subscriptions else _NOTHING
        part.append(replace(each, subscriptions=rows))
        if len(part) == CONNECTIONS_PER_PART:
            yield tuple(part)
            part.clear()
    if part:
        yield tuple(part)


def _settled_route(route: RouteSnapshot, wanted: SnapshotParts) -> RouteSnapshot:
    return replace(route, subscriptions=Listed(route.subscriptions()) if wanted.with_interest else _NOTHING)


def _settled_leaf(leaf: LeafSnapshot, wanted: SnapshotParts) -> LeafSnapshot:
    return replace(leaf, subjects=Listed(leaf.subjects()) if wanted.with_interest else _NOTHING)


def _settled_sublist(sublist: SublistSnapshot, wanted: SnapshotParts) -> SublistSnapshot:
    return replace(sublist, details=Listed(sublist.details()) if wanted.with_details else _NOTHING)


def _bare(sublist: SublistSnapshot) -> SublistSnapshot:
    return replace(sublist, details=_NOTHING)


# -- one process, and all -----------------------------------------------------------------------------


class ProcessMonitor(ServerMonitor):
    """One process of several, as a part of the whole: the routes between them are no routes, what comes over
    them did not come from elsewhere, and what the others' clients want is counted there.

    Messages that went over routes to processes that have ended since are counted, where there are routes or
    leaf links to other machines beside.
    """

    def __init__(self, server: MonitoredServer, worker: Worker) -> None:
        super().__init__(server)
        self._worker = worker

    def server(self) -> ServerSnapshot:
        found, worker = super().server(), self._worker
        cluster = found.cluster
        if cluster is None:
            return found
        inner, others = _parted(cluster.routes, worker.peers)
        wanted = sum(route.num_subscriptions for route in inner)
        if worker.has_private_mesh and found.leafnodes is None:
            traffic = {name: getattr(found, name.replace("_", "_client_")) for name in _TRAFFIC}
        else:
            traffic = {
                name: getattr(found, name) - sum(getattr(route, name) for route in inner) for name in _TRAFFIC
            }
        found = replace(found, **traffic, subscriptions=found.subscriptions - wanted)
        if not worker.has_private_mesh:
            return replace(found, cluster=replace(cluster, routes=others))
        return replace(
            found,
            cluster=None,
            connect_urls=(),
            ws_connect_urls=(),
            slow_consumers=replace(found.slow_consumers, routes=0),
            stale_connections=replace(found.stale_connections, routes=0),
        )

    def subscriptions(self, account: str | None = None) -> SublistSnapshot:
        found, links = super().subscriptions(account), self._links()
        if account is None:
            wanted = sum(link.subscriptions_count for link in links)
        else:
            wanted = self._wanted()[account]
        return replace(found, num_subscriptions=found.num_subscriptions - wanted)

    def accounts(self) -> Sequence[AccountSnapshot]:
        wanted = self._wanted()
        return [
            replace(
                each,
                sublist=replace(
                    each.sublist, num_subscriptions=each.sublist.num_subscriptions - wanted[each.name]
                ),
            )
            for each in super().accounts()
        ]

    def _links(self) -> list[RouteLink]:
        """The routes to the other processes."""
        routes = self._server.routes
        return [
            session.link
            for session in (routes.mesh.routes() if routes is not None else ())
            if session.remote_id in self._worker.peers
        ]

    def _wanted(self) -> Counter[str]:
        """Count the interest of other processes' clients, by account. Cost: looks at all of it."""
        rows = (row for link in self._links() for row in link.interest_rows())
        return Counter(account.decode("utf-8", "replace") for account, *_ in rows)


def _parted(
    routes: Iterable[RouteSnapshot], peers: frozenset[str]
) -> tuple[list[RouteSnapshot], tuple[RouteSnapshot, ...]]:
    """Routes to processes of the same server, and to other servers."""
    inner: list[RouteSnapshot] = []
    others: list[RouteSnapshot] = []
    for route in routes:
        (inner if route.remote_id in peers else others).append(route)
    return inner, tuple(others)


class AggregatedMonitor(ProcessMonitor):
    """The monitoring of a server of several processes, in the first of them: `whole` shows all."""

    async def whole(self, wanted: SnapshotParts) -> Whole:
        """Return all processes as one server. Raises: MonitorUnavailable."""
        worker = self._worker
        others = await worker.process_snapshots(wanted)
        return Whole(self, others, Facts(worker.count, worker.start_ns, worker.missing))


class Facts(NamedTuple):
    """Facts of the whole server that the process snapshots do not say.

    `missing`: the number, from 1, of a process that is not there.
    """

    processes: int
    start_ns: int
    missing: int | None = None


class Whole:
    """A `MonitorSource`: one process, and what the others have said of themselves."""

    def __init__(self, own: MonitorSource, others: Sequence[ProcessSnapshot], facts: Facts) -> None:
        self._own = own
        self._others = others
        self._facts = facts

    def server(self) -> ServerSnapshot:
        servers = [self._own.server(), *(each.server for each in self._others)]
        return combined(servers, max_procs=self._facts.processes, start_ns=self._facts.start_ns)

    def connections(self, state: ConnectionState) -> Iterable[ConnectionSnapshot]:
        yield from self._own.connections(state)
        for each in self._others:
            for connection in each.connections:
                is_open = connection.stop_ns is None
                if state is ConnectionState.ANY or is_open is (state is ConnectionState.OPEN):
                    yield connection

    def subscriptions(self, account: str | None = None) -> SublistSnapshot:
        found = [each.sublist for each in self._others if each.sublist is not None]
        return combined([self._own.subscriptions(account), *found])

    def accounts(self) -> Sequence[AccountSnapshot]:
        others: dict[str, list[AccountSnapshot]] = {}
        for each in self._others:
            for account in each.accounts:
                others.setdefault(account.name, []).append(account)
        return [combined([own, *others.get(own.name, ())]) for own in self._own.accounts()]

    def health(self) -> HealthSnapshot:
        if self._facts.missing is not None:
            return HealthSnapshot(f"process {self._facts.missing} is not running")
        return combined([self._own.health(), *(each.health for each in self._others)])

    def jetstream(self) -> JetStreamStats | None:
        return self._own.jetstream()

    def buckets(self) -> Mapping[str, BucketStats]:
        return self._own.buckets()


# -- what an endpoint wants -------------------------------------------------------------------------------


def wanted_for(endpoint: str, query: Mapping[str, str]) -> SnapshotParts:
    """Return the parts that an endpoint shows for a query, at least; an invalid query asks for nothing."""
    subs = query.get("subs", "").lower()
    with_subscriptions = subs not in ("", "0", "f", "false")
    match endpoint:
        case "/connz":
            state = {"closed": ConnectionState.CLOSED, "any": ConnectionState.ANY, "all": ConnectionState.ANY}
            return SnapshotParts(
                state=state.get(query.get("state", "").lower(), ConnectionState.OPEN),
                with_subscriptions=with_subscriptions or bool(query.get("filter_subject")),
            )
        case "/subsz":
            return SnapshotParts(sublist=True, account=query.get("acc", ""), with_details=with_subscriptions)
        case "/accountz" | "/accstatz":
            return SnapshotParts(accounts=True)
        case "/routez" | "/leafz":
            return SnapshotParts(with_interest=with_subscriptions)
        case "/metrics":
            return SnapshotParts(state=ConnectionState.OPEN, sublist=True)
    return SnapshotParts()
