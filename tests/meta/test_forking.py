"""A server that is forked is what the executable would be: arguments, environment, folder, log and end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from harness.forking import FORKS, Forked
from harness.processes import EPOLL, HEADRACES, ServerProcess, limited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if EPOLL not in HEADRACES:
    pytest.skip("servers are forked on Linux only", allow_module_level=True)


@pytest.fixture(params=[True, False], ids=["forked", "started"], autouse=True)
def is_forked(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Both ways, in turn."""
    with FORKS.used(request.param):
        yield request.param


def test_it_serves_until_it_is_asked_to_end(tmp_path: Path, is_forked: bool) -> None:
    with ServerProcess(EPOLL, tmp_path, "--name", "one", "-P", "server.pid") as server:
        with server.connect(b"") as wire:
            assert wire.info["server_name"] == "one"
            wire.sync()
        assert int((tmp_path / "server.pid").read_text()) == server.pid
        assert server.process.poll() is None

        assert server.stop() == 0

    assert isinstance(server.process, Forked) is is_forked
    assert server.lines[-1].endswith("Server Exiting..")


def test_two_at_a_time_are_two_processes(tmp_path: Path) -> None:
    with ServerProcess(EPOLL, tmp_path) as one, ServerProcess(EPOLL, tmp_path) as other:
        assert one.pid != other.pid
        with one.connect(b"") as wire, other.connect(b"") as another:
            assert wire.info["server_id"] != another.info["server_id"]


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    environment = {"HEADRACE_TRANSPORT": "carrier pigeon"}
    with ServerProcess(EPOLL, tmp_path, environment=environment, ready=False) as server:
        assert server.wait() == 1

    assert "HEADRACE_TRANSPORT must be epoll or asyncio, not 'carrier pigeon'" in server.log


def test_one_that_is_killed_says_nothing(tmp_path: Path) -> None:
    with ServerProcess(EPOLL, tmp_path) as server:
        server.kill()

    assert server.process.returncode == -signal.SIGKILL
    assert "Exiting" not in server.log
    server.signal(signal.SIGTERM)  # it has ended: nobody else gets it


def test_limits_of_a_shell_are_kept(tmp_path: Path) -> None:
    with ServerProcess(limited(EPOLL, "-Sn 256"), tmp_path) as server:
        assert not isinstance(server.process, Forked)
