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

import pytest

import headrace
from headrace.client import stan
from headrace.client.blocking import connect
from headrace.conf.options import Options, StreamingOptions
from headrace.engine.memory import live_objects
from headrace.errors import StartError
from headrace.testing import Server

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
            batch = client.receive(timeout=5)
            assert list(batch.payloads) == [b"x"]

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


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
        received += len(subscriber.receive(timeout=5).payloads)
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
        urllib.request.urlopen(f"{server.monitor_url}/healthz", timeout=5) as answer,
    ):
        assert answer.status == 200


def test_server_without_monitoring_says_how_to_get_it() -> None:
    with Server() as server, pytest.raises(RuntimeError, match="monitoring=True"):
        _ = server.monitor_url


def test_server_not_entered_says_so() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        _ = Server().url


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
def test_start_takes_milliseconds(transport: str, capsys: pytest.CaptureFixture[str]) -> None:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        with Server(transport=transport):
            took.append(time.perf_counter() - began)

    with capsys.disabled():
        print(f" [{transport}: started in {sorted(took)[2] * 1000:.1f} ms]", end="")
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

    with Server(lame_duck_duration=0.1, lame_duck_grace_period=0.0) as server:
        server.call(getattr(server.server, end))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((server.host, server.port), timeout=5)

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
        with Server() as server, socket.create_connection((server.host, server.port), timeout=5) as sock:
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


async def start_without_the_service() -> None:
    async with headrace.Server(Options(host="127.0.0.1", port=-1, streaming=StreamingOptions())):
        pass


def test_configured_streaming_without_its_service_is_an_error() -> None:
    with pytest.raises(StartError, match="no service was given"):
        asyncio.run(start_without_the_service())
