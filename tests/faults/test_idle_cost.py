"""A server with nothing to do does nothing, whatever state its clients are in."""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest

from harness.processes import HEADRACES, Program, limited
from harness.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

PERIOD = 0.3

if not os.path.isdir("/proc/self"):
    pytest.skip("needs /proc", allow_module_level=True)


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check_idle(server: ServerProcess) -> None:
    before = cpu_seconds(server.pid)
    time.sleep(PERIOD)  # what is tested is that nothing happens
    assert cpu_seconds(server.pid) - before < PERIOD / 3


def blocked_reader(server: ServerProcess) -> Wire:
    """A client that does not read, with more waiting for it than the system takes."""
    reader = server.connect(b"", receive_buffer=4096)
    reader.send(b"SUB a 1\r\n")
    reader.sync()
    with server.connect(b"") as writer:
        writer.send(b"PUB a 1000000\r\n%b\r\n" % bytes(1_000_000) * 8)
        writer.sync()
    return reader


def half_closed_and_blocked(server: ServerProcess) -> list[Wire]:
    reader = blocked_reader(server)
    reader.half_close()
    return [reader]


def reset_and_blocked(server: ServerProcess) -> list[Wire]:
    reader = blocked_reader(server)
    reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reader.close()
    return []


def half_closed_and_idle(server: ServerProcess) -> list[Wire]:
    wires = [server.connect(b"") for _ in range(5)]
    for wire in wires:
        wire.half_close()
    return wires


def refused_and_blocked(server: ServerProcess) -> list[Wire]:
    reader = blocked_reader(server)
    reader.send(b"NONSENSE\r\n")
    return [reader]


def refused_and_still_talking(server: ServerProcess) -> list[Wire]:
    reader = blocked_reader(server)
    reader.send(b"NONSENSE\r\n")
    reader.socket.setblocking(False)
    try:
        while True:
            reader.socket.send(bytes(1 << 16))
    except OSError:  # full, or closed
        pass
    return [reader]


def stalled_publisher(server: ServerProcess) -> list[Wire]:
    reader = blocked_reader(server)
    writer = server.connect(b"")
    writer.send(b"PUB a 10\r\n0123456789\r\n" * 1000)
    return [reader, writer]


@pytest.mark.parametrize("program", HEADRACES, ids=str)
@pytest.mark.parametrize(
    "state",
    [
        half_closed_and_blocked,
        reset_and_blocked,
        half_closed_and_idle,
        refused_and_blocked,
        refused_and_still_talking,
        stalled_publisher,
    ],
)
def test_server_is_idle_beside_clients_that_are(
    start_process: Callable[..., ServerProcess],
    program: Program,
    state: Callable[[ServerProcess], list[Wire]],
) -> None:
    server = start_process(program)
    wires = state(server)
    try:
        with server.connect(b""):
            check_idle(server)
    finally:
        for wire in wires:
            wire.close()


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_server_without_descriptors_is_idle(
    start_process: Callable[..., ServerProcess], program: Program
) -> None:
    server = start_process(limited(program, "-n 32"))
    wires = [Wire(("127.0.0.1", server.port), greeted=False) for _ in range(50)]
    try:
        server.wait_for_line("Temporary Client Accept Error")
        check_idle(server)
    finally:
        for wire in wires:
            wire.close()
