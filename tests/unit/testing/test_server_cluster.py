"""Several embedded servers as one cluster."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import nats
import pytest

from harness.waiting import wait_until
from headrace.client.blocking import connect
from headrace.errors import StartError
from headrace.testing import ServerCluster

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.testing import Server

TRANSPORTS = ["epoll", "asyncio"]


def peers(server: Server) -> set[str]:
    routes = server.server.routes
    assert routes is not None
    return {session.remote_id for session in routes.mesh.routes()}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_message_reaches_a_subscriber_of_another_server(transport: str) -> None:
    with (
        ServerCluster(2, transport=transport) as cluster,
        connect(cluster[0].url) as here,
        connect(cluster[1].url) as there,
    ):
        here.subscribe("a")
        here.flush()

        def arrived() -> list[bytes]:
            there.publish("a", b"x")
            there.flush()
            return list(here.receive(timeout=0.05).payloads)

        assert set(wait_until(arrived, "a message to arrive")) == {b"x"}


def test_on_entry_every_server_knows_every_other() -> None:
    with ServerCluster(4) as cluster:
        ids = {server.server.server_id for server in cluster}
        assert [peers(server) | {server.server.server_id} for server in cluster] == [ids] * 4
        assert len(set(cluster.urls)) == len(cluster) == 4

        info = cluster[2].server.info
        assert sorted(info["connect_urls"]) == sorted(url.removeprefix("nats://") for url in cluster.urls)
        assert info["cluster"] == "test"


FILE = """
max_payload: 4096
http: 8222
jetstream { domain: shop }
streaming { cluster_id: shop }
accounts { SALES { jetstream: enabled, users: [{user: joe, password: secret}] } }
no_auth_user: joe
cluster { name: elsewhere, listen: "127.0.0.1:6222", routes: ["nats://127.0.0.1:1"] }
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_streams_of_a_file_are_the_first_servers(tmp_path: Path, transport: str) -> None:
    file = tmp_path / "server.conf"
    file.write_text(FILE)

    async def publish(url: str) -> tuple[str, int]:
        async with await nats.connect(url) as client:
            streams = client.jetstream(domain="shop")
            if url == cluster[1].url:
                await streams.add_stream(name="ORDERS", subjects=["orders"])
            stored = await streams.publish("orders", b"x")
            return stored.stream, stored.seq

    with ServerCluster(3, config=file, transport=transport) as cluster:
        options = [server.options for server in cluster]
        assert [one.jetstream is not None for one in options] == [True, False, False]
        assert [one.streaming is not None for one in options] == [True, False, False]
        assert {one.max_payload for one in options} == {4096}
        assert {server.server.cluster_name for server in cluster} == {"test"}
        assert len({server.monitor_url for server in cluster}) == 3

        found = [asyncio.run(publish(cluster[number].url)) for number in (1, 2, 0)]

        assert found == [("ORDERS", 1), ("ORDERS", 2), ("ORDERS", 3)]


def test_async_with_runs_on_the_callers_loop() -> None:
    async def run() -> list[int]:
        async with ServerCluster(2) as cluster:
            return [len(peers(server)) for server in cluster]

    assert asyncio.run(run()) == [1, 1]


def test_cluster_shows_its_servers_and_is_entered_once() -> None:
    cluster = ServerCluster(2)
    with cluster:
        assert repr(cluster) == f"<headrace.testing.ServerCluster 'test' of 2: {list(cluster)}>"
        with pytest.raises(RuntimeError, match=r"was entered before: .* make another cluster"):
            cluster.__enter__()
        assert len(cluster) == 2


def test_option_of_a_cluster_that_does_not_exist_is_named() -> None:
    with pytest.raises(TypeError, match="'max_paylod'; did you mean 'max_payload'"):
        ServerCluster(2, max_paylod=1)


def test_nothing_is_left_when_a_server_cannot_start() -> None:
    threads = threading.active_count()

    with pytest.raises(StartError), ServerCluster(2, http_host="203.0.113.1", http_port=1):
        pass

    assert threading.active_count() == threads
