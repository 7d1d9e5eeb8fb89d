"""Several processes shown as one server."""

from __future__ import annotations

import asyncio
import pickle
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import monitor_samples as samples
import pytest
from monitor_samples import NOW_NS, SERVER, SampleSource
from msgspec.structs import replace

from headrace.conf.account_options import AccountOptions
from headrace.conf.options import Options
from headrace.processes.monitoring import SnapshotExchange
from headrace.server.monitor.aggregate import (
    CONNECTIONS_PER_PART,
    Facts,
    MonitorUnavailable,
    ProcessSnapshot,
    SnapshotParts,
    Whole,
    connection_parts,
    process_snapshot,
    wanted_for,
)
from headrace.server.monitor.connz import connz
from headrace.server.monitor.metrics import metrics
from headrace.server.monitor.source import (
    AccountSnapshot,
    ClusterSnapshot,
    ConnectionState,
    KindCounts,
    LeafNodesSnapshot,
    LeafSnapshot,
    RouteSnapshot,
    SublistSnapshot,
)
from headrace.server.monitor.subsz import subsz
from headrace.server.monitor.varz import varz

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.server.monitor.source import MonitorSource

P = ParamSpec("P")
ALL = SnapshotParts(
    state=ConnectionState.ANY, with_subscriptions=True, sublist=True, with_details=True, accounts=True
)
FACTS = Facts(2, SERVER.start_ns)


def taken(source: MonitorSource, wanted: SnapshotParts = ALL) -> ProcessSnapshot:
    """As it arrives in another process."""
    found = process_snapshot(source, wanted)
    connections = tuple(each for part in connection_parts(source, wanted) for each in part)
    arrived: ProcessSnapshot = pickle.loads(pickle.dumps(replace(found, connections=connections)))
    return arrived


def whole(
    own: SampleSource, *others: SampleSource, facts: Facts = FACTS, wanted: SnapshotParts = ALL
) -> Whole:
    return Whole(own, [taken(each, wanted) for each in others], facts)


def test_process_snapshot_can_go_to_another_process() -> None:
    source = SampleSource(
        open=[samples.connection(1, samples.subscription("a", "1", 1))],
        sublist=SublistSnapshot(num_subscriptions=1, details=lambda: [samples.subscription("a", "1", 1)]),
        spaces=[AccountSnapshot(options=AccountOptions("A"), sublist=source_list(), loaded_ns=NOW_NS)],
    )

    found = taken(source)

    assert [row.subject for each in found.connections for row in each.subscriptions()] == ["a"]
    assert found.sublist is not None
    assert [row.subject for row in found.sublist.details()] == ["a"]
    assert found.accounts[0].name == "A"
    assert found.server.options == Options()  # what it was configured with, secrets too, stays where it is


def source_list(count: int = 1) -> SublistSnapshot:
    return SublistSnapshot(num_subscriptions=count)


def test_process_snapshot_shows_what_is_wanted_only() -> None:
    source = SampleSource(
        open=[samples.connection(1, samples.subscription("a", "1", 1))],
        sublist=SublistSnapshot(num_subscriptions=1, details=lambda: [samples.subscription("a", "1", 1)]),
        spaces=[AccountSnapshot(options=AccountOptions("A"), sublist=source_list(), loaded_ns=NOW_NS)],
    )

    bare = taken(source, SnapshotParts())
    without = taken(source, SnapshotParts(state=ConnectionState.OPEN, sublist=True))

    assert (bare.connections, bare.sublist, bare.accounts) == ((), None, ())
    assert [list(each.subscriptions()) for each in without.connections] == [[]]
    assert without.sublist is not None
    assert list(without.sublist.details()) == []


def test_connections_go_in_parts() -> None:
    many = [samples.connection(cid) for cid in range(1, 2 * CONNECTIONS_PER_PART + 2)]
    parts = list(connection_parts(SampleSource(open=many), SnapshotParts(state=ConnectionState.OPEN)))

    assert [len(part) for part in parts] == [CONNECTIONS_PER_PART, CONNECTIONS_PER_PART, 1]
    assert [each.cid for part in parts for each in part] == [each.cid for each in many]


def test_server_sums_what_can_be_summed() -> None:
    counts = KindCounts(clients=1, routes=2)
    first = SampleSource(snapshot=replace(SERVER, config_load_time_ns=NOW_NS, cpu_percent=0.3))
    second = SampleSource(
        snapshot=replace(SERVER, server_id="NOTHER", cpu_percent=0.4, slow_consumers=counts, port=1)
    )

    found = whole(first, second, facts=Facts(2, 5)).server()

    assert (found.connections, found.total_connections, found.in_msgs, found.out_bytes) == (6, 10, 12, 140)
    assert (found.cpu_percent, found.max_procs, found.start_ns) == (0.7, 2, 5)
    assert found.slow_consumers == counts
    assert (found.server_id, found.port, found.options) == ("NSERVER", 4222, samples.OPTIONS)
    assert found.config_load_time_ns == SERVER.config_load_time_ns  # a reload is not done before all have it
    assert varz(found, {})["connections"] == 6


def test_routes_of_all_are_shown() -> None:
    def with_route(rid: int) -> SampleSource:
        route = RouteSnapshot(
            rid=rid,
            remote_id=f"N{rid}",
            remote_name="far",
            did_solicit=True,
            is_configured=True,
            ip="127.0.0.1",
            port=1,
            start_ns=0,
            last_activity_ns=0,
            subscriptions=lambda: [samples.subscription("a", "1", rid)],
        )
        cluster = ClusterSnapshot(name="c", host="h", port=1, routes=(route,))
        return SampleSource(snapshot=replace(SERVER, cluster=cluster))

    found = whole(with_route(1), with_route(2), wanted=SnapshotParts(with_interest=True)).server().cluster

    assert found is not None
    assert [route.rid for route in found.routes] == [1, 2]
    assert [row.cid for row in found.routes[1].subscriptions()] == [2]


def test_connz_is_sorted_and_paged_over_all() -> None:
    first = SampleSource(open=[samples.connection(cid) for cid in (1, 5)])
    second = SampleSource(
        open=[samples.connection(cid) for cid in (2, 4)],
        closed=[samples.connection(6, stop_ns=NOW_NS, reason="Client Closed")],
    )
    both = whole(first, second)

    assert [each["cid"] for each in connz(both, {})["connections"]] == [1, 2, 4, 5]  # type: ignore[attr-defined]
    page = connz(both, {"offset": "1", "limit": "2"})
    assert [each["cid"] for each in page["connections"]] == [2, 4]  # type: ignore[attr-defined]
    assert page["total"] == 4
    closed = connz(both, {"state": "closed"})["connections"]
    assert [each["cid"] for each in closed] == [6]  # type: ignore[attr-defined]
    assert connz(both, {"state": "all"})["total"] == 5


def test_rates_of_the_subject_index_weigh_what_they_are_rates_of() -> None:
    first = SublistSnapshot(
        num_subscriptions=1, num_matches=100, cache_hit_rate=0.5, max_fanout=3, avg_fanout=2.0
    )
    second = SublistSnapshot(
        num_subscriptions=2, num_matches=300, cache_hit_rate=0.9, max_fanout=9, avg_fanout=7.0
    )

    found = whole(SampleSource(sublist=first), SampleSource(sublist=second)).subscriptions()

    assert (found.num_subscriptions, found.num_matches, found.max_fanout) == (3, 400, 9)
    assert found.cache_hit_rate == pytest.approx(0.8)
    assert found.avg_fanout == pytest.approx((50 * 2 + 30 * 7) / 80)
    nothing = whole(SampleSource(), SampleSource()).subscriptions()
    assert (nothing.cache_hit_rate, nothing.avg_fanout) == (0.0, 0.0)
    assert subsz(whole(SampleSource(sublist=first), SampleSource(sublist=second)), {})["total"] == 0


def test_accounts_are_added_by_name() -> None:
    def space(name: str, connections: int) -> AccountSnapshot:
        return AccountSnapshot(
            options=AccountOptions(name),
            connections=connections,
            in_msgs=10 * connections,
            sublist=source_list(connections),
            loaded_ns=NOW_NS,
        )

    own = SampleSource(spaces=[space("A", 1), space("B", 2)])
    other = SampleSource(spaces=[space("B", 3), space("C", 4)])

    found = {each.name: each for each in whole(own, other).accounts()}

    assert {name: each.connections for name, each in found.items()} == {"A": 1, "B": 5}
    assert (found["B"].in_msgs, found["B"].sublist.num_subscriptions) == (50, 5)


def test_health_is_that_of_the_worst() -> None:
    well, ill = SampleSource(), SampleSource(error="no")
    assert whole(well, well).health().error is None
    assert whole(well, ill).health().error == "no"
    assert whole(ill, well).health().error == "no"
    assert whole(well, facts=Facts(2, 0, missing=2)).health().error == "process 2 is not running"


def test_metrics_are_of_all() -> None:
    wanted = wanted_for("/metrics", {})
    one = SampleSource(open=[samples.connection(1, in_msgs=3)])
    two = SampleSource(open=[samples.connection(2, in_msgs=4)])

    text = metrics(whole(one, two, wanted=wanted), {}, {}).decode()

    assert 'gnatsd_connz_in_msgs{server_id="NSERVER"} 7.0' in text
    assert 'gnatsd_varz_connections{server_id="NSERVER"} 6.0' in text


def test_leaf_links_of_all_processes_are_listed_at_the_first_one_s_port() -> None:
    def process(lid: int, port: int) -> SampleSource:
        link = LeafSnapshot(
            lid=lid, name="far", is_spoke=True, is_isolated=False, account="$G", ip="127.0.0.1", port=1,
            start_ns=0, last_activity_ns=0, rtt_ns=1, subjects=lambda: [f"s.{lid}"],
        )  # fmt: skip
        return SampleSource(
            snapshot=replace(SERVER, leafnodes=LeafNodesSnapshot(host="h", port=port, links=(link,)))
        )

    found = (
        whole(process(1, 7422), process(2, 0), wanted=SnapshotParts(with_interest=True)).server().leafnodes
    )

    assert found is not None
    assert found.port == 7422
    assert [(each.lid, each.subjects()) for each in found.links] == [(1, ["s.1"]), (2, ("s.2",))]


@pytest.mark.parametrize(
    ("path", "query", "wanted"),
    [
        ("/varz", {}, SnapshotParts()),
        ("/healthz", {}, SnapshotParts()),
        ("/connz", {}, SnapshotParts(state=ConnectionState.OPEN)),
        ("/connz", {"state": "Closed"}, SnapshotParts(state=ConnectionState.CLOSED)),
        (
            "/connz",
            {"state": "all", "subs": "1"},
            SnapshotParts(ConnectionState.ANY, with_subscriptions=True),
        ),
        ("/connz", {"subs": "detail"}, SnapshotParts(ConnectionState.OPEN, with_subscriptions=True)),
        ("/connz", {"subs": "0"}, SnapshotParts(ConnectionState.OPEN)),
        ("/connz", {"filter_subject": "a"}, SnapshotParts(ConnectionState.OPEN, with_subscriptions=True)),
        ("/connz", {"state": "nonsense"}, SnapshotParts(ConnectionState.OPEN)),
        ("/subsz", {}, SnapshotParts(sublist=True)),
        (
            "/subsz",
            {"subs": "true", "acc": "A"},
            SnapshotParts(sublist=True, account="A", with_details=True),
        ),
        ("/accountz", {}, SnapshotParts(accounts=True)),
        ("/accstatz", {}, SnapshotParts(accounts=True)),
        ("/routez", {"subs": "1"}, SnapshotParts(with_interest=True)),
        ("/leafz", {"subs": "1"}, SnapshotParts(with_interest=True)),
        ("/jsz", {}, SnapshotParts()),
    ],
)
def test_an_endpoint_wants_what_it_shows(path: str, query: dict[str, str], wanted: SnapshotParts) -> None:
    assert wanted_for(path, query) == wanted


# -- from one process to the other ------------------------------------------------------------------------


def in_a_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*arguments, **named))

    return run


class FakeChannel:
    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    def say(self, *message: object) -> None:
        self.said.append(message)


class FakeWorker:
    index, count = 0, 3


def asked() -> tuple[SnapshotExchange, FakeChannel, asyncio.Task[object]]:
    channel = FakeChannel()
    exchange = SnapshotExchange(FakeWorker(), channel)  # type: ignore[arg-type]
    return exchange, channel, asyncio.get_running_loop().create_task(exchange.ask_all(ALL))  # type: ignore[arg-type]


@in_a_loop
async def test_answers_are_put_together_whatever_order_they_come_in() -> None:
    exchange, channel, answer = asked()
    await asyncio.sleep(0)
    (_, first, number, _), (_, second, _, _) = channel.said
    parts = {index: process_snapshot(SampleSource(), ALL) for index in (first, second)}
    exchange.heard("part", second, number, pickle.dumps(parts[second]))
    exchange.heard("part", first, number, pickle.dumps(parts[first]))
    exchange.heard("part", first, number, pickle.dumps((samples.connection(1, subscriptions=None),)))
    exchange.heard("answered", first, number, "")
    exchange.heard("part", second, number + 1, b"of a question that nobody asked")
    exchange.heard("answered", 7, number, "of nobody")
    exchange.heard("answered", second, number, "")
    exchange.heard("answered", second, number, "again")

    found = await answer

    assert [len(each.connections) for each in found] == [1, 0]  # type: ignore[attr-defined]


@in_a_loop
async def test_process_that_is_not_there_is_left_out() -> None:
    exchange, channel, answer = asked()
    await asyncio.sleep(0)
    number = channel.said[0][2]
    exchange.heard("part", 1, number, pickle.dumps(process_snapshot(SampleSource(), ALL)))  # type: ignore[arg-type]
    for index, error in ((1, "absent"), (2, "absent")):
        exchange.heard("answered", index, number, error)  # type: ignore[arg-type]

    assert await answer == []


@in_a_loop
async def test_mistake_of_a_process_is_told() -> None:
    exchange, channel, answer = asked()
    await asyncio.sleep(0)
    for index, error in ((1, ""), (2, "internal error: x")):
        exchange.heard("answered", index, channel.said[0][2], error)  # type: ignore[arg-type]

    with pytest.raises(MonitorUnavailable, match="process 3: internal error: x"):
        await answer


@in_a_loop
async def test_process_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.processes.monitoring.ANSWER_SECONDS", 0.01)
    exchange, channel, answer = asked()
    await asyncio.sleep(0)
    exchange.heard("answered", 1, channel.said[0][2], "absent")  # type: ignore[arg-type]

    with pytest.raises(MonitorUnavailable, match="process 3 does not answer"):
        await answer
    exchange.heard("answered", 2, channel.said[0][2], "")  # too late, and nobody waits
