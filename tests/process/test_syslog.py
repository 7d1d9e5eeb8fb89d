"""The log sent to a syslog: over each kind of socket, as one line each, and a syslog that is away."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.processes import ServerProcess

PACKET = re.compile(rb"<(\d+)>\S+\[(\d+)\]: (.*)\n", re.DOTALL)
DAEMON = 3 << 3
ERROR, NOTICE = 3, 5


def receive(reader: socket.socket, until: bytes) -> list[tuple[int, bytes]]:
    """Priorities and texts of the lines that come until one has these bytes."""
    reader.settimeout(PATIENCE)
    found = []
    while not found or until not in found[-1][1]:
        match = PACKET.fullmatch(reader.recv(65536))
        assert match is not None
        found.append((int(match[1]) - DAEMON, match[3]))
    return found


def start(serve: Callable[..., ServerProcess], url: str, folder: Path, *flags: str) -> ServerProcess:
    return serve("-r", url, "--ports_file_dir", str(folder), *flags, ready=False)


def test_lines_are_packets_with_their_priority(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reader:
        reader.bind(("127.0.0.1", 0))
        server = start(serve, f"udp://127.0.0.1:{reader.getsockname()[1]}", tmp_path, "--auth", "t")
        lines = receive(reader, b"Server is ready")
        assert {priority for priority, _ in lines} == {NOTICE}
        port = next(int(text.rpartition(b":")[2]) for _, text in lines if b"Listening for client" in text)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b'CONNECT {"auth_token":"x\\n<0>forged"}\r\n')
            assert receive(reader, b"authentication error")[-1][0] == ERROR
        server.stop()
        assert receive(reader, b"Server Exiting..")
    assert server.lines == []


def test_stream_gets_a_line_each(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = start(serve, f"tcp://127.0.0.1:{listening.getsockname()[1]}", tmp_path)
        reader, _ = listening.accept()
        with reader, reader.makefile("rb") as lines:
            said = []
            while not said or b"Server is ready" not in said[-1]:
                said.append(lines.readline())
        assert all(PACKET.fullmatch(line) for line in said)
        assert server.stop() == 0


def test_unix_socket_is_written_to(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(tmp_path / "log"))
        start(serve, f"unix://{tmp_path}/log", tmp_path)
        assert receive(reader, b"Server is ready")


def test_syslog_that_goes_away_does_not_stop_the_server(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = start(serve, f"tcp://127.0.0.1:{listening.getsockname()[1]}", tmp_path, "-DV")
        reader, _ = listening.accept()
        reader.close()
    (ports,) = wait_until(lambda: list(tmp_path.glob("*.ports")), "the ports file")
    port = int(re.search(r":(\d+)\"", ports.read_text())[1])  # type: ignore[index]
    with socket.create_connection(("127.0.0.1", port)) as client, client.makefile("rb") as lines:
        client.sendall(b'CONNECT {"verbose":false}\r\n' + b"PUB a 1\r\nx\r\n" * 100 + b"PING\r\n")
        lines.readline()
        assert lines.readline() == b"PONG\r\n"
    assert server.stop() == 0


def test_no_syslog_at_the_start_is_one_line(refused: Callable[..., list[str]]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        (line,) = refused("-r", f"tcp://127.0.0.1:{taken.getsockname()[1]}")
    assert line.endswith("error connecting to syslog: Connection refused")


def test_no_local_socket_at_the_start_is_one_line(refused: Callable[..., list[str]], tmp_path: Path) -> None:
    (line,) = refused("-r", f"unix://{tmp_path}/nowhere")
    assert line.endswith(f"error connecting to syslog: nobody reads {tmp_path}/nowhere")


@pytest.mark.parametrize("flag", [("-s",), ("-r", "udp://127.0.0.1:9")])
def test_log_file_goes_before_syslog(
    serve: Callable[..., ServerProcess], tmp_path: Path, flag: tuple[str, ...]
) -> None:
    log = tmp_path / "server.log"
    serve(*flag, "-l", str(log), ready=False)
    wait_until(lambda: log.exists() and "[INF] Server is ready" in log.read_text(), "the log file")
