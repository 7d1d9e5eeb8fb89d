"""Many clients: storms, limits, thousands of idle connections, and no descriptors left."""

from __future__ import annotations

import json
import socket
import struct
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from harness import depth
from harness.processes import HEADRACES, Program, limited
from harness.waiting import PATIENCE, wait_until
from harness.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from faults.conftest import Served
    from harness.processes import ServerProcess

resource = pytest.importorskip("resource")


@pytest.fixture
def many_descriptors() -> Iterator[int]:
    """How many descriptors this process may have, raised as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connect_storm_leaves_a_working_server_and_nothing_else(serve: Callable[..., Served]) -> None:
    served = serve()
    address = ("127.0.0.1", served.server.port)

    def storm(worker: int) -> None:
        for turn in range(100):
            with socket.create_connection(address) as sock:
                if turn % 4 == 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if turn % 4 == 1:
                    sock.sendall(b"CONNECT {}\r\nSUB a %d\r\nPUB a 1\r\nx\r\n" % worker)
                if turn % 4 == 2:
                    sock.recv(10)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(storm, range(8)))
    served.wait_for_connections(0)

    assert served.server.clients.total >= 600  # a reset may come before the server could accept
    served.check()


def test_client_over_max_connections_is_told_and_closed_until_one_leaves(
    serve: Callable[..., Served],
) -> None:
    served = serve(max_connections=3)
    wires = [served.connect() for _ in range(3)]
    for _ in range(3):
        with served.connect(None) as refused:
            assert refused.info["max_payload"] == 1 << 20
            assert refused.take_rest() == b"-ERR 'maximum connections exceeded'\r\n"
    for wire in wires:
        assert wire.sync() == b""

    wires.pop().close()
    served.wait_for_connections(2)
    wires.append(served.connect())
    for wire in wires:
        assert wire.sync() == b""
        wire.close()

    assert served.closed_reasons().count("Maximum Connections Exceeded") == 3


def idle_connections() -> list[int]:
    """2,000 in every run; 10,000 in `make test-deep`, where descriptors allow it."""
    return [2000, 10_000] if depth.deep else [2000]


@pytest.mark.parametrize("program", HEADRACES, ids=str)
@pytest.mark.parametrize("count", idle_connections())
def test_thousands_of_idle_connections_are_all_served(
    start_process: Callable[..., ServerProcess],
    program: Program,
    count: int,
    many_descriptors: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if many_descriptors < count + 200:
        pytest.skip(f"needs {count + 200} descriptors, the system allows {many_descriptors}")
    server = start_process(program, "-m", "-1")
    before = server.descriptors()
    address = ("127.0.0.1", server.port)
    began = time.monotonic()
    wires = []
    try:
        for _ in range(count):
            wires.append(Wire(address, greeted=False))
        for wire in wires:
            wire.take_info()
            wire.send(b"SUB everyone 1\r\n")
        took = time.monotonic() - began
        resident = resident_megabytes(server.pid)
        with server.connect(b"") as publisher:
            wait_until(lambda: varz(server)["subscriptions"] >= count, f"{count} subscriptions")
            publisher.send(b"PUB everyone 2\r\nhi\r\n")
            for wire in wires:
                assert wire.take_through(b"hi\r\n").endswith(b"MSG everyone 1 2\r\nhi\r\n")
        assert varz(server)["connections"] == count
    finally:
        for wire in wires:
            wire.close()
    wait_until(lambda: varz(server)["connections"] == 0, "all connections are gone")
    wait_until(lambda: server.descriptors() <= before + 2, "descriptors as before")  # monitoring keeps a few
    with capsys.disabled():
        print(f" [{program}: {count} connections in {took:.2f} s, {resident:.0f} MB]", end="")


def varz(server: ServerProcess) -> dict[str, int]:
    with urllib.request.urlopen(f"{server.monitor_url}/varz") as answer:
        fields: dict[str, int] = json.load(answer)
    return fields


def resident_megabytes(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_full_descriptor_table_pauses_accepting_and_serves_those_inside(
    start_process: Callable[..., ServerProcess], program: Program
) -> None:
    server = start_process(limited(program, "-n 48"))
    before = server.descriptors()
    address = ("127.0.0.1", server.port)
    inside: list[Wire] = []
    waiting: list[Wire] = []
    try:
        for _ in range(60):
            wire = Wire(address, greeted=False)  # the system completes it, whether it is accepted or not
            (inside if not waiting and wire.fill(0.3) else waiting).append(wire)
        assert inside
        assert waiting
        server.wait_for_line(
            r"\[ERR\] Temporary Client Accept Error \(Too many open files\), sleeping \d+ms$"
        )

        for wire in inside:
            wire.connect()
        inside[0].send(b"SUB a 1\r\n")
        inside[0].sync()
        inside[1].send(b"PUB a 2\r\nhi\r\n")
        inside[1].sync()
        assert inside[0].sync() == b"MSG a 1 2\r\nhi\r\n"
        assert not any(wire.fill(0.001) for wire in waiting)

        for wire in inside:
            wire.close()
        for wire in waiting[: len(inside)]:
            wire.take_info()
            wire.connect()
    finally:
        for wire in (*inside, *waiting):
            wire.close()
    wait_until(lambda: server.descriptors() == before, "descriptors as before")
    pauses = [line for line in server.lines if "[ERR]" in line]
    assert all("Temporary Client Accept Error" in line for line in pauses)
    assert len(pauses) < 40  # one line a pause, not one a client or a loop
    with server.connect(b""):
        pass


EVERY_PORT = """
http: "127.0.0.1:-1"
websocket { listen: "127.0.0.1:-1", no_tls: true }
cluster { name: c, listen: "127.0.0.1:-1" }
leafnodes { listen: "127.0.0.1:-1" }
gateway { name: c, listen: "127.0.0.1:-1" }
"""
GREETINGS = {
    r"Listening for client connections on": (b"", b"INFO "),
    r"Listening for websocket clients on": (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400"),
    r"Listening for route connections on": (b"", b"INFO "),
    r"Listening for leafnode connections on": (b"", b"INFO "),
    r"Listening for gateways connections on": (b"", b"INFO "),
    r"Starting http monitor on": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200"),
}


def test_every_port_answers_again_after_there_were_no_descriptors(
    start_process: Callable[..., ServerProcess],
) -> None:
    # Full from the first connection on: what is loaded late is loaded then.
    server = start_process(limited(HEADRACES[0], "-n 64"), config=EVERY_PORT, ready=False)
    crowd = []
    with ExitStack() as stack:
        for _ in range(80):
            crowd.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.port))))
        server.wait_for_line(r"Temporary Client Accept Error \(Too many open files\)")
        monitor = int(server.wait_for_line(r"Starting http monitor on \S+:(\d+)").group(1))
        # Monitoring has descriptors that clients do not get.
        assert greeting(monitor, *GREETINGS["Starting http monitor on"])
    for line, (said, heard) in GREETINGS.items():
        port = int(server.wait_for_line(line + r" \S+:(\d+)").group(1))
        assert greeting(port, said, heard), line
    assert not [line for line in server.lines if "Traceback" in line]


def greeting(port: int, said: bytes, heard: bytes) -> bool:
    """Whether a port answers what it should."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
        sock.sendall(said)
        return sock.recv(len(heard), socket.MSG_WAITALL) == heard
