"""Servers that are killed, started again and paused by a test, and disks that are full or slow."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import nats
import pytest
from nats.js.errors import APIError

import headrace
from harness.waiting import PATIENCE, wait_until
from headrace.client.blocking import connect
from headrace.client.errors import ClientError
from headrace.errors import ConfigError
from headrace.log.closing import NAME as MARK
from headrace.log.filesystem import FileMode, read_file
from headrace.server.files import ports_of
from headrace.testing import Server, ServerCluster
from headrace.testing.disk import Disk
from headrace.testing.faultfs import MemoryFileSystem, holding

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

TRANSPORTS: Final = ["epoll", "asyncio"]
SILENCE: Final = 0.1
"""Seconds in which a server that stands still says nothing."""


def on_streams(server: Server, act: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """What `act` gives for the JetStream context of a new client."""

    async def run() -> Any:
        client = await nats.connect(server.url)
        try:
            return await act(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


async def add_orders(streams: Any) -> None:
    await streams.add_stream(name="ORDERS", subjects=["orders"])


async def names_of_streams(streams: Any) -> list[str]:
    return [info.config.name for info in await streams.streams_info()]


async def publish(streams: Any) -> int:
    return int((await streams.publish("orders", b"x")).seq)


async def stored(streams: Any) -> int:
    return int((await streams.stream_info("ORDERS")).state.messages)


def store_of(server: Server) -> Path:
    assert server.options.jetstream is not None
    assert server.options.jetstream.store_dir is not None
    return Path(server.options.jetstream.store_dir) / "jetstream"


def files_of(server: Server) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in store_of(server).rglob("*") if path.is_file()}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_killed_server_is_gone_and_is_back_with_what_it_acknowledged(transport: str) -> None:
    with Server(jetstream=True, faults=True, monitoring=True, transport=transport) as server:
        place = server.url, server.monitor_url
        on_streams(server, add_orders)
        assert [on_streams(server, publish) for _ in range(3)] == [1, 2, 3]
        with connect(server.url) as client:
            server.kill()
            with pytest.raises(ClientError):
                client.flush()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((server.host, server.port), timeout=PATIENCE)
        assert repr(server) == f"<headrace.testing.Server {server.url} (killed)>"
        with pytest.raises(RuntimeError, match="killed"):
            _ = server.server

        server.restart()

        assert (server.url, server.monitor_url) == place
        assert on_streams(server, stored) == 3
        assert on_streams(server, publish) == 4


def test_killed_server_writes_nothing_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(jetstream=tmp_path, faults=True) as server:
        mark = store_of(server) / MARK
        on_streams(server, add_orders)
        on_streams(server, publish)
        written: dict[Path, bytes] = {}
        cut_off = server.disk.cut_off

        def look_then() -> None:
            cut_off()
            written.update(files_of(server))

        monkeypatch.setattr(server.disk, "cut_off", look_then)
        server.kill()
        assert written
        assert files_of(server) == written
        assert mark not in written

        server.restart()
        assert on_streams(server, stored) == 1
    assert mark.exists(), "a server that is left in order closes its store"


@pytest.mark.parametrize("seed", range(8))
def test_power_loss_takes_nothing_that_was_acknowledged(seed: int) -> None:
    with Server(jetstream=True, faults=Disk(MemoryFileSystem())) as server:
        on_streams(server, add_orders)
        for _ in range(3):
            on_streams(server, publish)
        server.kill()
        server.disk.lose_power(seed)
        server.restart()
        assert on_streams(server, stored) == 3


def test_power_loss_takes_what_was_not_synced_or_leaves_it() -> None:
    file, found = Path("/file"), set()
    for seed in range(40):
        disk = Disk(holding({file: b"old"}))
        disk.write(disk.open(file, FileMode.APPEND), b"new")
        disk.lose_power(seed)
        found.add(read_file(disk, file))
    assert {b"old", b"oldnew"} <= found


def test_real_disk_does_not_lose_power() -> None:
    with pytest.raises(TypeError, match=r"use Disk\(MemoryFileSystem\(\)\)"):
        Disk().lose_power(0)


def test_server_is_restarted_in_order_and_streams_in_memory_are_gone() -> None:
    async def add_memory(streams: Any) -> None:
        await streams.add_stream(name="MEMORY", subjects=["memory"], storage="memory")

    with Server(jetstream=True) as server:
        url = server.url
        on_streams(server, add_orders)
        on_streams(server, add_memory)
        on_streams(server, publish)
        server.restart()
        assert server.url == url
        assert on_streams(server, names_of_streams) == ["ORDERS"]
        assert on_streams(server, stored) == 1


def test_restarts_leave_no_thread_and_no_descriptor() -> None:
    gc.collect()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with Server(jetstream=True, faults=True) as server:
        on_streams(server, add_orders)
        for _ in range(3):
            on_streams(server, publish)
            server.kill()
            server.restart()
        server.kill()
    gc.collect()
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_server_of_a_cluster_is_killed_and_comes_back() -> None:
    def peers(server: Server) -> int:
        routes = server.server.routes
        assert routes is not None
        return int(server.call(lambda: len(list(routes.mesh.routes()))))

    with ServerCluster(2) as cluster:
        cluster[1].kill()
        wait_until(lambda: peers(cluster[0]) == 0, "the other server to notice")
        cluster[1].restart()
        wait_until(lambda: peers(cluster[0]) == 1, "the server to be back")


def test_file_of_a_server_is_reloaded_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text("http: 8222, max_payload: 1000")
    with Server(config=file) as server:
        server.restart()
        file.write_text("http: 8222, max_payload: 2000")
        server.call(server.server.reload)
        assert server.server.options.max_payload == 2000


@pytest.mark.parametrize(
    "block",
    [
        "websocket { port: -1, no_tls: true }",
        "cluster { name: C, port: -1 }",
        "gateway { name: G, port: -1 }",
        "leafnodes { port: -1 }",
    ],
)
def test_file_that_leaves_a_port_open_is_reloaded_after_a_restart(tmp_path: Path, block: str) -> None:
    file = tmp_path / "server.conf"
    file.write_text(f"max_payload: 1000, {block}")
    with Server(config=file) as server:
        ports = server.call(ports_of, server.server)
        server.restart()
        file.write_text(f"max_payload: 2000, {block}")
        server.call(server.server.reload)
        assert server.server.options.max_payload == 2000
        assert server.call(ports_of, server.server) == ports


def test_restart_reads_the_configuration_file_again(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text("max_payload: 1000, websocket { port: -1, no_tls: true }")
    with Server(config=file, server_name="one") as server:
        ports = server.call(ports_of, server.server)
        file.write_text("max_payload: 2000, websocket { port: -1, no_tls: true, compression: true }")
        server.kill()
        server.restart()
        options = server.server.options
        assert (options.max_payload, options.server_name) == (2000, "one")
        assert options.websocket is not None
        assert options.websocket.compression
        assert server.call(ports_of, server.server) == ports

        file.write_text("max_payload: nothing")
        with pytest.raises(ConfigError, match="max_payload"):
            server.restart()
        with connect(server.url) as client:  # the running server was not stopped
            client.flush()


def test_store_that_cannot_be_kept_from_the_server_is_not_killed(tmp_path: Path) -> None:
    streaming = headrace.StreamingOptions(store_type="FILE", directory=str(tmp_path))
    for options in ({"jetstream": True}, {"streaming": streaming}):
        with Server(**options) as server:
            with pytest.raises(RuntimeError, match="pass faults=True"):
                server.kill()
            with pytest.raises(RuntimeError, match="pass faults=True"):
                _ = server.disk
            with connect(server.url) as client:
                client.flush()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_paused_server_keeps_its_connections_and_answers_nothing(transport: str) -> None:
    with (
        Server(transport=transport) as server,
        socket.create_connection((server.host, server.port), timeout=PATIENCE) as sock,
    ):
        assert sock.recv(4096).startswith(b"INFO")
        sock.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        assert sock.recv(4096) == b"PONG\r\n"
        server.pause()
        assert repr(server) == f"<headrace.testing.Server {server.url} (paused)>"
        sock.sendall(b"PING\r\n")
        sock.settimeout(SILENCE)
        with pytest.raises(TimeoutError):
            sock.recv(4096)
        for forbidden in (server.pause, server.kill, server.restart):
            with pytest.raises(RuntimeError, match="paused: resume it first"):
                forbidden()

        server.resume()

        sock.settimeout(PATIENCE)
        assert sock.recv(4096) == b"PONG\r\n"
        with pytest.raises(RuntimeError, match="not paused"):
            server.resume()


def test_paused_server_can_be_left() -> None:
    threads = threading.active_count()
    with Server() as server:
        server.pause()
    assert threading.active_count() == threads


def test_full_disk_refuses_publications_until_there_is_room() -> None:
    with Server(jetstream=True, faults=True) as server:
        on_streams(server, add_orders)
        assert on_streams(server, publish) == 1
        server.disk.is_full = True
        with pytest.raises(APIError) as caught:
            on_streams(server, publish)
        assert caught.value.err_code == 10077
        assert "No space left" in str(caught.value.description)
        assert on_streams(server, stored) == 1

        server.disk.is_full = False

        assert on_streams(server, publish) == 2


def test_slow_disk_takes_so_long_for_every_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("headrace.testing.disk.sleep", slept.append)
    with Server(jetstream=True, faults=True) as server:
        on_streams(server, add_orders)
        assert slept == []
        server.disk.sync_seconds = 0.25
        assert on_streams(server, publish) == 1
        assert set(slept) == {0.25}


def test_faults_need_a_thread_of_the_servers_own() -> None:
    async def run() -> None:
        async with Server() as server:
            for fault in (server.kill, server.restart, server.pause):
                with pytest.raises(RuntimeError, match="enter it with `with`"):
                    fault()

    asyncio.run(run())
