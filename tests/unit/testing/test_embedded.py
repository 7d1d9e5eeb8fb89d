"""The embedded server: ready on entry, drained on exit, nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import nats
import pytest
from msgspec.structs import replace

import headrace
from harness.certificates import Authority
from harness.waiting import PATIENCE
from headrace.client import stan
from headrace.client.blocking import connect
from headrace.client.errors import ServerError
from headrace.client.options import ConnectOptions
from headrace.conf.account_options import AccountOptions, AuthorizationOptions, UserOptions
from headrace.conf.options import Options
from headrace.conf.streaming_options import StreamingOptions
from headrace.conf.tls_options import TLSOptions
from headrace.engine.memory import live_objects
from headrace.errors import ConfigError, StartError
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path

TRANSPORTS = ["epoll", "asyncio"]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_server_in_with_serves_on_entry_and_is_gone_on_exit(transport: str) -> None:
    with Server(transport=transport) as server:
        port = server.port
        with connect(server.url) as client:
            client.subscribe("a")
            client.publish("a", b"x")
            batch = client.receive(timeout=PATIENCE)
            assert list(batch.payloads) == [b"x"]

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_server_in_async_with_runs_on_the_callers_loop(transport: str) -> None:
    async def run() -> bytes:
        async with Server(transport=transport) as server:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            await reader.readline()
            writer.write(b"PING\r\n")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return line

    assert asyncio.run(run()) == b"PONG\r\n"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_server_leaves_no_thread_descriptor_or_engine_object(transport: str) -> None:
    gc.collect()
    threads, descriptors, objects = threading.active_count(), open_descriptors(), live_objects()

    with Server(transport=transport) as server, connect(server.url) as client:
        client.subscribe("a.*")
        client.flush()

    assert threading.active_count() == threads
    assert open_descriptors() == descriptors
    del server
    gc.collect()
    assert live_objects() == objects


def test_servers_side_by_side_have_ports_of_their_own() -> None:
    with ExitStack() as stack:
        ports = {stack.enter_context(Server()).port for _ in range(5)}

    assert len(ports) == 5


def test_server_exit_after_an_exception_closes_and_lets_it_through() -> None:
    threads = threading.active_count()

    with pytest.raises(ZeroDivisionError), Server():
        raise ZeroDivisionError

    assert threading.active_count() == threads


def test_server_exit_delivers_what_was_published_before() -> None:
    with Server() as server:
        subscriber = connect(server.url)
        subscriber.subscribe("a")
        subscriber.flush()
        with connect(server.url) as publisher:
            for _ in range(100):
                publisher.publish("a", b"x" * 1000)
            publisher.flush()

    received = 0
    while received < 100:
        received += len(subscriber.receive(timeout=PATIENCE).payloads)
    subscriber.close()


def test_server_on_a_port_in_use_raises_on_entry() -> None:
    with Server() as first, pytest.raises(StartError, match="address already in use"):
        Server(port=first.port).__enter__()


def test_server_options_reach_the_server() -> None:
    with Server(max_payload=10) as server, connect(server.url) as client:
        assert client.max_payload == 10


def test_server_with_monitoring_answers() -> None:
    with (
        Server(monitoring=True) as server,
        urllib.request.urlopen(f"{server.monitor_url}/healthz", timeout=PATIENCE) as answer,
    ):
        assert answer.status == 200


def test_server_without_monitoring_says_how_to_get_it() -> None:
    with Server() as server, pytest.raises(RuntimeError, match="monitoring=True"):
        _ = server.monitor_url


def test_server_that_does_not_run_says_what_to_do() -> None:
    server = Server()
    with pytest.raises(RuntimeError, match=r"not running \(not entered\): enter it with `with`"):
        _ = server.url
    with server:
        server.kill()
        with pytest.raises(RuntimeError, match=r"not running \(killed\): `restart` it first"):
            _ = server.server
    with pytest.raises(RuntimeError, match=r"not running \(ended\): .* make another Server"):
        _ = server.url


def test_server_shows_its_url_and_whether_it_runs() -> None:
    server = Server()
    assert repr(server) == "<headrace.testing.Server (not entered)>"
    with server:
        assert repr(server) == f"<headrace.testing.Server {server.url} (running)>"
        server.call(server.server.stop)
        assert repr(server) == f"<headrace.testing.Server {server.url} (stopped)>"
    assert repr(server) == "<headrace.testing.Server (ended)>"


def test_server_is_entered_once() -> None:
    server = Server()
    with server:
        with pytest.raises(RuntimeError, match=r"running\)> was entered before: .* make another Server"):
            server.__enter__()
        with connect(server.url) as client:  # the first entry is as it was
            client.flush()
    with pytest.raises(RuntimeError, match=r"ended\)> was entered before"):
        asyncio.run(server.__aenter__())


def test_option_that_does_not_exist_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(TypeError, match=r"no option 'max_paylod'; did you mean 'max_payload'\?$"):
        Server(max_paylod=1)
    with pytest.raises(TypeError, match=r"no option 'zzz'$"):
        Server(zzz=1)


def test_call_runs_on_the_servers_thread() -> None:
    with Server() as server:
        assert server.call(threading.current_thread).name == "headrace"


def test_public_server_in_an_asyncio_program() -> None:
    async def run() -> tuple[str, int]:
        async with headrace.Server(headrace.Options(host="127.0.0.1", port=-1)) as server:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return line[:4].decode(), server.port

    words, port = asyncio.run(run())

    assert words == "INFO"
    assert port > 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_start_takes_milliseconds_of_cpu(transport: str, capsys: pytest.CaptureFixture[str]) -> None:
    took = []
    for _ in range(5):
        began = time.process_time()
        with Server(transport=transport):
            took.append(time.process_time() - began)

    with capsys.disabled():
        print(f" [{transport}: started in {sorted(took)[2] * 1000:.1f} ms of CPU]", end="")
    assert sorted(took)[2] < 1.0


def test_failed_start_leaves_no_thread_and_no_descriptor() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        threads, descriptors = threading.active_count(), open_descriptors()
        for _ in range(3):
            with pytest.raises(StartError):
                Server(port=taken.getsockname()[1]).__enter__()

        assert threading.active_count() == threads
        gc.collect()
        assert open_descriptors() == descriptors


@pytest.mark.parametrize("end", ["stop", "lame_duck"])
def test_server_that_ended_by_itself_can_still_be_left(end: str) -> None:
    threads = threading.active_count()

    with Server(lame_duck_duration=0.1, lame_duck_grace_period=0.01) as server:
        server.call(getattr(server.server, end))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((server.host, server.port), timeout=PATIENCE)

    assert threading.active_count() == threads


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_async_with_leaves_no_task(transport: str) -> None:
    async def run() -> set[asyncio.Task[object]]:
        before = asyncio.all_tasks()
        async with Server(transport=transport, monitoring=True) as server:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            await reader.readline()
        writer.close()
        await writer.wait_closed()
        return asyncio.all_tasks() - before

    assert asyncio.run(run()) == set()


def test_exception_inside_async_with_goes_through() -> None:
    async def run() -> None:
        async with Server():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())


def test_many_servers_one_after_the_other_leave_nothing() -> None:
    gc.collect()
    descriptors, objects = open_descriptors(), live_objects()

    for _ in range(20):
        with (
            Server() as server,
            socket.create_connection((server.host, server.port), timeout=PATIENCE) as sock,
        ):
            assert sock.recv(4) == b"INFO"
    del server

    gc.collect()
    assert open_descriptors() == descriptors
    assert live_objects() == objects


def test_streaming_is_served_where_it_is_asked_for() -> None:
    async def publish_and_read(url: str) -> bytes:
        client = await stan.connect("embedded", "tester", servers=url)
        await client.publish("orders", b"42")
        subscription = await client.subscribe("orders", start_at=stan.StartPosition.FIRST)
        async for message in subscription:
            data = message.data
            break
        await client.close()
        return data

    with Server(streaming=StreamingOptions(cluster_id="embedded")) as server:
        assert asyncio.run(publish_and_read(server.url)) == b"42"


LOCAL = Options(host="127.0.0.1", port=-1)


async def streams_of(server: headrace.Server, *, adds: str = "") -> list[str]:
    client = await nats.connect(server.url)
    context = client.jetstream()
    if adds:
        await context.add_stream(name=adds, subjects=[adds.lower()])
    found = [str(stream.config.name) for stream in await context.streams_info()]
    await client.close()
    return found


def test_server_opens_the_stores_it_is_asked_for_and_closes_them(tmp_path: Path) -> None:
    channels = str(tmp_path / "channels")
    options = replace(
        LOCAL,
        jetstream=headrace.JetStreamOptions(store_dir=str(tmp_path / "streams")),
        streaming=headrace.StreamingOptions(cluster_id="c", store_type="FILE", directory=channels),
    )

    async def main() -> None:
        descriptors = open_descriptors()
        for adds in ("S", "T"):
            async with headrace.Server(options) as server:
                assert adds in await streams_of(server, adds=adds)
                client = await stan.connect("c", "tester", servers=server.url)
                await client.publish("orders", b"42")
                await client.close()
        async with headrace.Server(options) as server:
            assert await streams_of(server) == ["S", "T"]
        assert open_descriptors() == descriptors

    asyncio.run(main())


def test_store_is_closed_when_the_start_fails(tmp_path: Path) -> None:
    store = headrace.JetStreamOptions(store_dir=str(tmp_path))

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            options = replace(LOCAL, jetstream=store, http_port=taken.getsockname()[1])
            with pytest.raises(StartError, match="monitor port"):
                await headrace.Server(options).start()
        async with headrace.Server(replace(LOCAL, jetstream=store)) as server:
            assert await streams_of(server) == []

    asyncio.run(main())


def test_server_from_a_file_is_as_the_file_says_and_can_be_reloaded(tmp_path: Path) -> None:
    file, store = tmp_path / "server.conf", tmp_path / "js"
    file.write_text(f'listen: "127.0.0.1:4222"\nmax_payload: 1000\njetstream {{ store_dir: "{store}" }}')

    async def main() -> None:
        async with headrace.Server.from_config(file, port=-1) as server:
            assert server.options.max_payload == 1000
            assert await streams_of(server, adds="S") == ["S"]
            file.write_text(file.read_text().replace("1000", "2000"))
            server.reload()
            assert server.options.max_payload == 2000

    asyncio.run(main())
    file.write_text("max_payload: x\nping_max: y")
    with pytest.raises(ConfigError) as caught:
        headrace.Server.from_config(file)
    assert len(caught.value.problems) == 2


JOE = UserOptions(user="joe", password="secret")


def as_joe(server: Server) -> str:
    return server.url.replace("//", "//joe:secret@")


def test_server_takes_users_and_accounts() -> None:
    with Server(authorization=AuthorizationOptions(users=(JOE,))) as server:
        with pytest.raises(ServerError, match="Authorization Violation"):
            connect(server.url)
        with connect(as_joe(server)) as client:
            client.flush()
    with (
        Server(accounts=(AccountOptions("SALES", users=(JOE,)),)) as server,
        connect(as_joe(server)) as client,
    ):
        client.flush()
        assert [account.name for account in server.server.accounts if account.name == "SALES"]


def test_server_takes_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("server")
    with Server(tls=TLSOptions(str(pair.certificate), str(pair.key))) as server:
        assert server.url.startswith("tls://")
        options = ConnectOptions(tls=authority.client_context())
        with connect(server.url, options) as client:
            client.flush()


def test_jetstream_without_a_directory_has_a_temporary_one() -> None:
    async def info(server: Server) -> str:
        client = await nats.connect(server.url)
        found = await client.jetstream(domain="hub").account_info()
        await client.close()
        return found.domain or ""

    with Server(jetstream=headrace.JetStreamOptions(domain="hub")) as server:
        assert asyncio.run(info(server)) == "hub"
        assert server.options.jetstream is not None
        directory = server.options.jetstream.store_dir
        assert directory is not None
        assert os.path.isdir(directory)
    assert not os.path.exists(directory)


def test_server_takes_a_file_and_has_ports_and_a_directory_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text(
        """
        listen: "0.0.0.0:4222", http: 8222, max_payload: 1000, jetstream { domain: "hub" }
        authorization { users [{ user: joe, password: secret }] }
        """
    )
    with Server(config=file, server_name="one") as server, Server(config=file) as other:
        assert server.options.max_payload == 1000
        assert server.options.server_name == "one"
        assert {server.host, other.host} == {"127.0.0.1"}
        assert len({server.port, other.port, 4222}) == 3
        assert len({server.monitor_url, other.monitor_url}) == 2
        assert server.options.jetstream is not None
        assert server.options.jetstream.domain == "hub"
        with connect(as_joe(server)) as client:
            assert client.max_payload == 1000
        file.write_text(file.read_text().replace("1000", "2000"))
        server.call(server.server.reload)
        assert server.server.options.max_payload == 2000


def test_jetstream_of_a_file_is_where_the_test_says(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text("max_payload: 1000")
    server = Server(config=file, jetstream=tmp_path / "here")
    assert server.options.jetstream is not None
    assert server.options.jetstream.store_dir == str(tmp_path / "here")

    with pytest.raises(TypeError, match="JetStream's options itself"):
        Server(config=file, jetstream=headrace.JetStreamOptions())
    with pytest.raises(TypeError, match="not both"):
        Server(LOCAL, config=file)
    file.write_text("max_payload: x\nping_max: y")
    with pytest.raises(ConfigError) as caught:
        Server(config=file)
    assert len(caught.value.problems) == 2


WRONG: dict[str, dict[str, Any]] = {
    "max_connections: Expected `int`, got `str`": {"max_connections": "3"},
    "ping_interval: Expected `float`, got `str`": {"ping_interval": "2m"},
    "lame_duck_grace_period: Expected a finite number, got `inf`": {"lame_duck_grace_period": float("inf")},
    "streaming.sync_interval: Expected a finite number, got `nan`": {
        "streaming": StreamingOptions(sync_interval=float("nan"))
    },
    "debug: Expected `bool`, got `int`": {"debug": 1},
    "server_tags: Expected `array`, got `str`": {"server_tags": "a"},
    "tls: Expected `TLSOptions`, got `str`": {"tls": "cert.pem"},
    "reconnect_error_reports must lie between 1 and 2147483647": {"reconnect_error_reports": 0},
    "jetstream.max_memory: Expected `int`, got `str`": {
        "jetstream": headrace.JetStreamOptions(max_memory="1G")  # type: ignore[arg-type]
    },
    "accounts[0].users[0].user: Expected `str | null`, got `int`": {
        "accounts": (AccountOptions("A", users=(UserOptions(user=3),)),)  # type: ignore[arg-type]
    },
    "port must lie between -1 and 65535": {"port": 70_000},
    "max_control_line must lie between 1 and 2147483647": {"max_control_line": -1},
}


@pytest.mark.parametrize("kind", [Server, headrace.Server])
def test_all_that_is_wrong_with_options_is_said_at_once_and_before_the_start(kind: Any) -> None:
    for problem, given in WRONG.items():
        with pytest.raises(ConfigError) as caught:
            kind(replace(LOCAL, **given))
        assert str(caught.value) == problem
    everything = {name: value for given in WRONG.values() for name, value in given.items()}
    with pytest.raises(ConfigError) as caught:
        kind(replace(LOCAL, **everything))
    assert {each.message for each in caught.value.problems} == set(WRONG)


def test_options_mean_what_they_mean_in_a_file() -> None:
    with Server(max_payload=-1, max_connections=0) as server:
        assert (server.options.max_payload, server.options.max_connections) == (64 << 20, -1)
        with connect(server.url) as client:
            client.publish("a", b"x" * 2_000_000)
            client.flush()


def test_clients_over_mqtt_have_a_port_that_stays() -> None:
    with Server(jetstream=True, mqtt=True, faults=True) as server:
        url = server.mqtt_url
        assert url == f"mqtt://127.0.0.1:{server.server.mqtt_port}"
        server.kill()
        server.restart()
        assert server.mqtt_url == url


def test_a_server_without_mqtt_says_how_to_have_it() -> None:
    with Server() as server, pytest.raises(RuntimeError, match="pass mqtt=True, with jetstream=True"):
        _ = server.mqtt_url
    with pytest.raises(ConfigError, match="mqtt requires JetStream"):
        Server(mqtt=True)


def test_a_file_may_have_mqtt_and_leave_jetstream_to_the_test(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text('mqtt { host: "127.0.0.1", port: -1 }\n')
    with Server(config=config, jetstream=True) as server:
        assert server.mqtt_url.startswith("mqtt://127.0.0.1:")
