"""`headrace reload` and `headrace config`, as an operator uses them."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.processes import BIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.processes import ServerProcess

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def headrace(*arguments: object) -> tuple[int, str, str]:
    """Exit code, and what was printed to standard output and standard error."""
    command = [str(BIN / "headrace"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout, done.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@needs_proc
def test_reload_waits_until_monitoring_shows_it(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    monitor = f'http: "127.0.0.1:{free_port()}"\n'
    server = serve("-P", "server.pid", config=monitor)
    server.config_file.write_text(f"{monitor}max_payload: 99\n")

    code, output, errors = headrace("reload", tmp_path / "server.pid")

    assert (code, errors) == (0, "")
    assert output.startswith("reloaded (sha256:")
    with server.connect() as wire:
        assert wire.info["max_payload"] == 99


@needs_proc
def test_reload_that_the_server_refuses(serve: Callable[..., ServerProcess]) -> None:
    monitor = f'http: "127.0.0.1:{free_port()}"\n'
    server = serve(config=monitor)
    server.config_file.write_text(f"{monitor}server_name: other\n")

    code, output, errors = headrace("reload", server.pid, "--wait", "300ms")

    assert (code, output) == (1, "")
    assert "has not reloaded" in errors
    server.wait_for_line("config reload not supported for server_name: old=None, new=other")


@needs_proc
def test_broken_file_is_found_before_the_server_is_told(serve: Callable[..., ServerProcess]) -> None:
    server = serve("-c", "server.conf", config="debug: false\n")
    server.config_file.write_text("max_payload: {\n")

    code, _, errors = headrace("reload", server.pid)

    assert code == 1
    assert "server.conf:1:14" in errors
    assert "the server was not told" in errors
    assert "Trapped" not in server.log


def test_reload_without_monitoring_only_sends(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config="debug: false\n")

    code, output, _ = headrace("reload", server.pid)

    assert (code, "signal sent" in output) == (0, True)
    server.wait_for_line("Reloaded server configuration")


@pytest.mark.parametrize("target", ["0", "-1", "nonsense", "99999999"])
def test_reload_of_nothing(target: str) -> None:
    code, output, errors = headrace("reload", "--", target)

    assert (code, output) == (1, "")
    assert errors.startswith("headrace reload: ")


def test_config_check(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text('authorization { users: [{user: a, password: p, permissions: {publish: ["a b"]}}] }\n')
    code, _, errors = headrace("config", "check", file)
    assert (code, "headrace config check: " in errors) == (1, True)

    file.write_text("max_payload: 5\n")
    code, output, _ = headrace("config", "check", file)
    assert (code, "is right (sha256:" in output) == (0, True)

    file.write_text("\n")
    assert headrace("config", "check", file)[0] == 0
    assert headrace("config", "check", "--strict", file)[0] == 1
    assert headrace("config", "check", tmp_path / "nowhere")[0] == 1


def test_config_diff(tmp_path: Path) -> None:
    old, new = tmp_path / "old.conf", tmp_path / "new.conf"
    old.write_text("max_payload: 5\nauthorization { user: a, password: s3cr3t }\n")
    new.write_text("max_payload: 6\nauthorization { user: a, password: t0ps3cr3t }\n")
    code, output, _ = headrace("config", "diff", new, "--against", old)
    assert code == 3
    assert output == "max_payload: 5 -> 6\nauthorization.users[a].password: changed\n"

    new.write_text(old.read_text() + "server_name: n\n")
    code, output, _ = headrace("config", "diff", new, "--against", old)
    assert (code, output) == (4, "server_name: added: n (needs a restart)\n")

    assert headrace("config", "diff", old, "--against", old)[:2] == (0, "no differences\n")
    assert headrace("config", "diff", old)[0] == 2
    assert headrace("config", "diff", old, "--against", tmp_path / "nowhere")[0] == 1


@needs_proc
def test_config_diff_with_a_running_server(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    server = serve("-D", "-c", "server.conf", config="max_payload: 5\n")
    (tmp_path / "new.conf").write_text("max_payload: 6\ndebug: false\n")

    code, output, _ = headrace("config", "diff", tmp_path / "new.conf", "--pid", server.pid)

    assert (code, output) == (3, "max_payload: 5 -> 6\n")  # the flag wins on both sides
