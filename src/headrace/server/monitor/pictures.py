"""A server of several processes as monitoring sees it: one picture of each, and all of them as one.

Here lives what a picture has and how pictures add up, on the level of snapshots: what endpoints say of a
whole server they say as of one process, with its paging, sorting and filters. Never lives here: how pictures
come from one process to the other (`headrace.processes`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from headrace.conf.options import Options
from headrace.errors import HeadraceError
from headrace.server.monitor.source import (
    AccountSnapshot,
    ConnectionState,
    HealthSnapshot,
    KindCounts,
    OCSPCacheSnapshot,
    SublistSnapshot,
)
from headrace.server.snapshot import ServerMonitor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.engine.route import RouteLink
    from headrace.server.monitor.jetstream import JetStreamFigures
    from headrace.server.monitor.source import (
        ConnectionSnapshot,
        LeafSnapshot,
        MonitorSource,
        RouteSnapshot,
        ServerSnapshot,
    )
    from headrace.server.snapshot import MonitoredServer
    from headrace.server.worker import Worker

Row = TypeVar("Row")

CONNECTIONS_PER_PART: Final = 50
"""Connections that go from one process to another at a time: others have their turn in between."""

_SUMS: Final = (
    *("memory_bytes", "cpu_percent", "connections", "total_connections"),
    *("in_msgs", "in_bytes", "out_msgs", "out_bytes"),
    *("in_client_msgs", "in_client_bytes", "out_client_msgs", "out_client_bytes"),
    *("stalled_clients", "subscriptions"),
)
_TRAFFIC: Final = ("in_msgs", "in_bytes", "out_msgs", "out_bytes")


class MonitorUnavailable(HeadraceError):
    """A part of the server did not say what monitoring was to show."""


class Wanted(Struct, frozen=True):
    """What of a process a picture is to show, beside the server itself and its health.

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
    """What peers want, of each route and leaf link."""


class Picture(Struct, frozen=True, kw_only=True):
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


def picture(monitor: MonitorSource, wanted: Wanted) -> Picture:
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
    return Picture(
        server=replace(server, options=_NO_OPTIONS),
        health=monitor.health(),
        sublist=_settled_sublist(monitor.subscriptions(wanted.account or None), wanted)
        if wanted.sublist
        else None,
        accounts=tuple(replace(each, sublist=_bare(each.sublist)) for each in monitor.accounts())
        if wanted.accounts
        else (),
    )


def connection_parts(monitor: MonitorSource, wanted: Wanted) -> Iterator[tuple[ConnectionSnapshot, ...]]:
    """The connections of a picture, some at a time; each is pictured when its part is."""
    part: list[ConnectionSnapshot] = []
    for each in () if wanted.state is None else monitor.connections(wanted.state):
        rows = Listed(each.subscriptions()) if wanted.with_subscriptions else _NOTHING
        part.append(replace(each, subscriptions=rows))
        if len(part) == CONNECTIONS_PER_PART:
            yield tuple(part)
            part.clear()
    if part:
        yield tuple(part)


def _settled_route(route: RouteSnapshot, wanted: Wanted) -> RouteSnapshot:
    return replace(route, subscriptions=Listed(route.subscriptions()) if wanted.with_interest else _NOTHING)


def _settled_leaf(leaf: LeafSnapshot, wanted: Wanted) -> LeafSnapshot:
    return replace(leaf, subjects=Listed(leaf.subjects()) if wanted.with_interest else _NOTHING)


def _settled_sublist(sublist: SublistSnapshot, wanted: Wanted) -> SublistSnapshot:
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
        """What clients of the other processes want, by account. Cost: looks at all of it."""
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


class SpreadMonitor(ProcessMonitor):
    """At the first process: `whole` shows all of them."""

    async def whole(self, wanted: Wanted) -> Whole:
        """All processes as one server. Raises: MonitorUnavailable."""
        worker = self._worker
        others = await worker.pictures(wanted)
        return Whole(self, others, Facts(worker.count, worker.start_ns, worker.missing))


class Facts(NamedTuple):
    """Of the whole server, what the pictures do not say. `missing`: the number, from 1, of a process that is
    not there."""

    processes: int
    start_ns: int
    missing: int | None = None


class Whole:
    """A `MonitorSource`: one process, and what the others have said of themselves."""

    def __init__(self, own: MonitorSource, others: Sequence[Picture], facts: Facts) -> None:
        self._own = own
        self._others = others
        self._facts = facts

    def server(self) -> ServerSnapshot:
        own = self._own.server()
        servers = [own, *(each.server for each in self._others)]
        sums: dict[str, Any] = {name: sum(getattr(each, name) for each in servers) for name in _SUMS}
        sums["cpu_percent"] = round(sums["cpu_percent"], 1)
        routes = [route for each in servers if each.cluster is not None for route in each.cluster.routes]
        leafs = [link for each in servers if each.leafnodes is not None for link in each.leafnodes.links]
        return replace(
            own,
            **sums,
            slow_consumers=_kinds(each.slow_consumers for each in servers),
            stale_connections=_kinds(each.stale_connections for each in servers),
            ocsp_cache=_ocsp_caches(each.ocsp_cache for each in servers),
            max_procs=self._facts.processes,
            start_ns=self._facts.start_ns,
            # a reload is done when it is everywhere
            config_load_time_ns=min(each.config_load_time_ns for each in servers),
            cluster=None if own.cluster is None else replace(own.cluster, routes=tuple(routes)),
            leafnodes=None if own.leafnodes is None else replace(own.leafnodes, links=tuple(leafs)),
        )

    def connections(self, state: ConnectionState) -> Iterable[ConnectionSnapshot]:
        yield from self._own.connections(state)
        for each in self._others:
            for connection in each.connections:
                is_open = connection.stop_ns is None
                if state is ConnectionState.ANY or is_open is (state is ConnectionState.OPEN):
                    yield connection

    def subscriptions(self, account: str | None = None) -> SublistSnapshot:
        found = [each.sublist for each in self._others if each.sublist is not None]
        return _added([self._own.subscriptions(account), *found])

    def accounts(self) -> Sequence[AccountSnapshot]:
        others: dict[str, list[AccountSnapshot]] = {}
        for each in self._others:
            for account in each.accounts:
                others.setdefault(account.name, []).append(account)
        return [_account([own, *others.get(own.name, ())]) for own in self._own.accounts()]

    def health(self) -> HealthSnapshot:
        if self._facts.missing is not None:
            return HealthSnapshot(f"process {self._facts.missing} is not running")
        errors = (each.health.error for each in self._others)
        return HealthSnapshot(next(filter(None, [self._own.health().error, *errors]), None))

    def jetstream(self) -> JetStreamFigures | None:
        return self._own.jetstream()


def _kinds(found: Iterable[KindCounts]) -> KindCounts:
    total: Counter[str] = Counter()
    for each in found:
        total.update(each.by_kind())
    return KindCounts(**{name: total[name] for name in KindCounts.__struct_fields__})


def _ocsp_caches(found: Iterable[OCSPCacheSnapshot | None]) -> OCSPCacheSnapshot | None:
    """Each process has one of its own."""
    caches = [each for each in found if each is not None]
    names = OCSPCacheSnapshot.__struct_fields__
    return (
        OCSPCacheSnapshot(*(sum(getattr(each, name) for each in caches) for name in names))
        if caches
        else None
    )


def _added(found: Sequence[SublistSnapshot]) -> SublistSnapshot:
    """Counters together; rates weigh as much as what they are rates of."""
    matches = sum(each.num_matches for each in found)
    hits = sum(each.cache_hit_rate * each.num_matches for each in found)
    walks = [(1 - each.cache_hit_rate) * each.num_matches for each in found]
    fanout = sum(each.avg_fanout * weight for each, weight in zip(found, walks, strict=True))
    details = [each.details for each in found]
    return SublistSnapshot(
        num_subscriptions=sum(each.num_subscriptions for each in found),
        num_cache=sum(each.num_cache for each in found),
        num_inserts=sum(each.num_inserts for each in found),
        num_removes=sum(each.num_removes for each in found),
        num_matches=matches,
        cache_hit_rate=hits / matches if matches else 0.0,
        max_fanout=max(each.max_fanout for each in found),
        avg_fanout=fanout / sum(walks) if sum(walks) else 0.0,
        details=lambda: [row for listed in details for row in listed()],
    )


def _account(found: Sequence[AccountSnapshot]) -> AccountSnapshot:
    """One account in all processes; the first is this one's."""
    sums = {
        name: sum(getattr(each, name) for each in found)
        for name in ("connections", "leafnodes", *_TRAFFIC, "slow_consumers")
    }
    return replace(found[0], **sums, sublist=_added([each.sublist for each in found]))


# -- what an endpoint wants -------------------------------------------------------------------------------


def wanted_for(endpoint: str, query: Mapping[str, str]) -> Wanted:
    """What an endpoint of monitoring shows for this query, at least; what it cannot read says nothing."""
    subs = query.get("subs", "").lower()
    with_subscriptions = subs not in ("", "0", "f", "false")
    match endpoint:
        case "/connz":
            state = {"closed": ConnectionState.CLOSED, "any": ConnectionState.ANY, "all": ConnectionState.ANY}
            return Wanted(
                state=state.get(query.get("state", "").lower(), ConnectionState.OPEN),
                with_subscriptions=with_subscriptions or bool(query.get("filter_subject")),
            )
        case "/subsz":
            return Wanted(sublist=True, account=query.get("acc", ""), with_details=with_subscriptions)
        case "/accountz" | "/accstatz":
            return Wanted(accounts=True)
        case "/routez" | "/leafz":
            return Wanted(with_interest=with_subscriptions)
        case "/metrics":
            return Wanted(state=ConnectionState.OPEN, sublist=True)
    return Wanted()
