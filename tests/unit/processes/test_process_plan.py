"""Which options and ports each process of a server gets."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from harness.ports import free_port
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote
from headrace.conf.options import Options
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.conf.streaming_options import StreamingOptions
from headrace.conf.tls_options import TLSOptions
from headrace.conf.websocket_options import WebSocketOptions
from headrace.errors import StartError
from headrace.processes.plan import ProcessPlan
from headrace.server.listener import bind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def planned() -> Iterator[Callable[..., tuple[ProcessPlan, Options]]]:
    plans: list[ProcessPlan] = []

    def make(count: int, **options: Any) -> tuple[ProcessPlan, Options]:
        given = Options(host="127.0.0.1", port=-1, **options)
        plans.append(ProcessPlan(given, count))
        return plans[-1], given

    yield make
    for plan in plans:
        plan.close()


def test_first_process_alone_has_what_only_one_can_have(
    planned: Callable[..., tuple[ProcessPlan, Options]],
) -> None:
    plan, given = planned(
        3,
        server_name="n",
        http_port=8222,
        jetstream=JetStreamOptions(),
        streaming=StreamingOptions(),
        pid_file="p",
        ports_file_dir="d",
    )
    first, second, third = (plan.options_of(index, given, range(3), None) for index in range(3))

    assert (first.server_name, second.server_name, third.server_name) == ("n", "n-2", "n-3")
    assert first.http_port == 8222
    assert first.jetstream is not None
    assert first.streaming is not None
    for other in (second, third):
        assert other.http_port is other.https_port is other.jetstream is other.streaming is None
    assert {each.port for each in (first, second, third)} == {plan.client.port}
    assert not any(each.pid_file or each.ports_file_dir for each in (first, second, third))


def test_mesh_is_private(planned: Callable[..., tuple[ProcessPlan, Options]]) -> None:
    plan, given = planned(2)
    first, second = (plan.options_of(index, given, range(2), None).cluster for index in range(2))
    assert first is not None
    assert second is not None

    assert (first.host, first.no_advertise, first.pool_size) == ("127.0.0.1", True, -1)
    assert first.compression == second.compression == "off"
    assert first.name == second.name
    assert first.password == second.password
    assert len(first.password or "") >= 32
    assert second.routes == (PeerURL("127.0.0.1", first.port, first.user, first.password),)
    assert first.routes == (PeerURL("127.0.0.1", second.port, first.user, first.password),)
    assert planned(2)[0].options_of(0, given, (), None).cluster != plan.options_of(0, given, (), None).cluster
    assert first.password not in repr(first) + repr(second)


def test_no_two_servers_are_the_same_cluster(planned: Callable[..., tuple[ProcessPlan, Options]]) -> None:
    """They may be leaf nodes of each other."""

    def name(**options: Any) -> str:
        plan, given = planned(2, **options)
        cluster = plan.options_of(0, given, (), None).cluster
        return cluster.name if cluster is not None else ""

    assert name() != name()
    assert name(cluster=ClusterOptions(name="mine")) == "mine"


def test_leaf_node_port_is_the_first_process_s_and_hubs_are_everybody_s(
    planned: Callable[..., tuple[ProcessPlan, Options]],
) -> None:
    url = (PeerURL("far", 7422),)
    remotes = (LeafRemote(url, deny_exports=("a",)), LeafRemote(url, account="A", hub=True))
    leafnodes = LeafNodeOptions(host="127.0.0.1", port=-1, remotes=remotes)
    plan, given = planned(2, leafnodes=leafnodes, jetstream=JetStreamOptions(domain="edge"))
    first, second = (plan.options_of(index, given, (), None).leafnodes for index in range(2))
    assert first is not None
    assert second is not None
    assert plan.leafs is not None

    assert (first.port, first.remotes) == (plan.leafs.getsockname()[1], remotes)
    assert (second.port, [each.hub for each in second.remotes]) == (0, [False])
    assert second.remotes[0].deny_exports == ("a", "$JS.edge.API.>")
    with pytest.raises(StartError, match="Unable to listen for leafnode connections: "):
        planned(2, leafnodes=LeafNodeOptions(host="127.0.0.1", port=first.port))


def test_processes_only_connect_to_whom_they_are_told(
    planned: Callable[..., tuple[ProcessPlan, Options]],
) -> None:
    plan, given = planned(3)
    ports = [sock.getsockname()[1] for sock in plan.routes]

    def dialled(index: int, dials: range) -> list[int]:
        cluster = plan.options_of(index, given, dials, None).cluster
        assert cluster is not None
        return [url.port for url in cluster.routes]

    assert dialled(0, range(0)) == []
    assert dialled(2, range(2)) == ports[:2]
    assert dialled(1, range(3)) == [ports[0], ports[2]]


def test_configured_cluster_has_every_process_as_a_member(
    planned: Callable[..., tuple[ProcessPlan, Options]],
) -> None:
    cluster = ClusterOptions(
        name="c",
        host="0.0.0.0",
        port=-1,
        routes=(PeerURL("far", 6222),),
        user="u",
        password="p",
        advertise="me.example:7000",
    )
    plan, given = planned(2, cluster=cluster)
    first, second = (plan.options_of(index, given, range(2), None).cluster for index in range(2))
    assert first is not None
    assert second is not None

    assert not plan.has_private_mesh
    assert (first.name, first.host, first.no_advertise, first.pool_size) == ("c", "0.0.0.0", False, 3)
    assert second.routes == (PeerURL("far", 6222), PeerURL("127.0.0.1", first.port, "u", "p"))
    assert (first.advertise, second.advertise) == ("me.example:7000", "me.example:7001")


def port_before_a_taken_one() -> tuple[int, socket.socket]:
    for _ in range(100):
        port = free_port()
        try:
            taken = bind("127.0.0.1", port + 1)
            taken.listen()
            return port, taken
        except StartError:
            continue
    raise AssertionError("no two free ports follow each other")


def test_cluster_ports_follow_each_other(planned: Callable[..., tuple[ProcessPlan, Options]]) -> None:
    port, taken = port_before_a_taken_one()
    cluster = ClusterOptions(host="127.0.0.1", port=port)
    with taken, pytest.raises(StartError, match=rf"Unable to listen for cluster connections: .*:{port + 1}"):
        planned(2, cluster=cluster)

    plan, given = planned(2, cluster=cluster)

    found = [plan.options_of(index, given, (), None).cluster for index in range(2)]
    assert [each.port for each in found if each is not None] == [port, port + 1]


def test_processes_with_tls_connect_by_the_name_of_the_certificate(
    planned: Callable[..., tuple[ProcessPlan, Options]],
) -> None:
    tls = TLSOptions("c", "k")
    plan, given = planned(2, cluster=ClusterOptions(port=-1, advertise="me.example", tls=tls))
    cluster = plan.options_of(1, given, range(2), None).cluster
    assert cluster is not None
    assert [url.host for url in cluster.routes] == ["me.example"]


def test_a_process_that_starts_again_has_monitoring_where_it_was(
    planned: Callable[..., tuple[ProcessPlan, Options]],
) -> None:
    plan, given = planned(2, http_port=-1)
    assert plan.options_of(0, given, (), None).http_port == -1
    assert plan.options_of(0, given, (), 8222).http_port == 8222
    assert plan.options_of(0, Options(http_port=None), (), 8222).http_port is None
    assert plan.options_of(0, Options(https_port=-1), (), 8222).https_port == 8222


def test_ports_are_shared_by_the_processes_and_nobody_else(
    planned: Callable[..., tuple[ProcessPlan, Options]],
) -> None:
    plan, _ = planned(2, websocket=WebSocketOptions(host="127.0.0.1", port=-1, no_tls=True))
    assert plan.websocket is not None
    sockets = [sock for _ in range(2) for _, sock in plan.sockets()]
    try:
        assert [sock.getsockname()[1] for sock in sockets] == [plan.client.port, plan.websocket.port] * 2
        with pytest.raises(StartError, match="address already in use"):
            bind("127.0.0.1", plan.client.port)
        with pytest.raises(StartError, match="address already in use"):
            ProcessPlan(Options(host="127.0.0.1", port=plan.client.port), 2)
    finally:
        for sock in sockets:
            sock.close()
    with pytest.raises(StartError, match="address already in use"):
        bind("127.0.0.1", plan.client.port)  # also while no process is there


def test_nobody_is_sent_to_a_process_before_it_serves(
    planned: Callable[..., tuple[ProcessPlan, Options]],
) -> None:
    plan, _ = planned(2)
    ((_, sock),) = plan.sockets()
    with sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0
    for route in plan.routes:  # processes find each other all the same
        assert route.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def test_port_that_is_taken(planned: Callable[..., tuple[ProcessPlan, Options]]) -> None:
    with bind("127.0.0.1", -1) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"Error listening on port: 127.0.0.1:{port}"):
            ProcessPlan(Options(host="127.0.0.1", port=port), 2)
        with pytest.raises(StartError, match="Unable to listen for websocket connections: "):
            planned(2, websocket=WebSocketOptions(host="127.0.0.1", port=port, no_tls=True))
