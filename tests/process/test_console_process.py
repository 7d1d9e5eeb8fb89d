"""`--console`: a server that is only tried has a console for this machine, and an operator for this run."""

from __future__ import annotations

import json
import re
import signal
import stat
import urllib.request
from itertools import count
from typing import TYPE_CHECKING

import pytest

from harness.processes import HEADRACES, ServerProcess
from harness.waiting import wait_until
from harness.websocket import WebSocket, request

if TYPE_CHECKING:
    from pathlib import Path

HEADRACE = HEADRACES[0]
VIOLATION = b"-ERR 'Authorization Violation'\r\n"
URL = re.compile(r"Console: (http://127\.0\.0\.1:(\d+)/console/)#operator=([-\w]{32})$")


def said(server: ServerProcess) -> tuple[str, int, str]:
    """The URL of the console, its port and the operator's secret, as the server prints them."""
    found = server.wait_for_line(URL.pattern)
    return found[1], int(found[2]), found[3]


IDZ = "$SYS.REQ.SERVER.PING.IDZ"
_inboxes = count(1)


def answer(port: int, credentials: dict[str, str], subject: str = IDZ, **headers: str) -> bytes:
    """What a client gets that signs in and asks the system account, for the server's identity at first.

    Of several processes each may answer, also when the client is gone: the inbox is its own.
    """
    inbox = f"r{next(_inboxes)}"
    with WebSocket(port, request(port, **headers)) as client:
        client.take_through(b"\r\n")
        connect = json.dumps({"verbose": False, "headers": True, "no_responders": True, **credentials})
        client.send(f"CONNECT {connect}\r\nSUB {inbox} 1\r\nPUB {subject} {inbox} 0\r\n\r\nPING\r\n".encode())
        text = b""
        while f"MSG {inbox} 1 ".encode() not in text and b"Authorization Violation" not in text:
            text += client.take_frame().data
        return text.replace(f"MSG {inbox} 1 ".encode(), b"MSG r 1 ")


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("tried")
    with ServerProcess(HEADRACE, folder, "-js", "-sd", str(folder / "data"), "--console") as server:
        yield server, folder


def test_operator_signs_in_with_the_secret_of_this_run(tried: tuple[ServerProcess, Path]) -> None:
    server, folder = tried
    url, port, secret = said(server)

    with urllib.request.urlopen(url) as page:
        assert b"<title>" in page.read()
    operator = answer(port, {"user": "operator", "pass": secret})
    assert b'"host":' in operator
    assert b"503" in answer(port, {})  # without users everybody else is one of $G
    file = folder / "data.console"
    assert file.read_text() == f"{url}#operator={secret}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in "\n".join(line for line in server.lines if not line.startswith("Console: "))


@pytest.mark.parametrize("given", ["", "wrong", "é" * 16])
def test_wrong_secret_lets_nobody_in(tried: tuple[ServerProcess, Path], given: str) -> None:
    _, port, _ = said(tried[0])

    assert answer(port, {"user": "operator", "pass": given}).endswith(VIOLATION)


def test_secret_is_worth_nothing_elsewhere(tried: tuple[ServerProcess, Path]) -> None:
    """Over TCP and through a proxy `operator` is a name like any other, without a view of servers."""
    server, _ = tried
    _, port, secret = said(server)

    assert b"503" in answer(port, {"user": "operator", "pass": secret}, X_Forwarded_For="10.0.0.1")
    with server.connect() as wire:
        connect = json.dumps(
            {"verbose": False, "headers": True, "no_responders": True, "user": "operator", "pass": secret}
        )
        wire.send(f"CONNECT {connect}\r\nSUB r 1\r\nPUB {IDZ} r 0\r\n\r\n".encode())
        assert b"503" in wire.sync()


def test_second_server_has_the_next_port_and_its_file_goes_with_it(
    tried: tuple[ServerProcess, Path], tmp_path: Path
) -> None:
    store = tmp_path / "data"
    with ServerProcess(HEADRACE, tmp_path, "-js", "-sd", str(store), "--console") as second:
        assert said(second)[1] != said(tried[0])[1]
        file = wait_until(lambda: list(tmp_path.glob("*.console")), "the file")[0]
        second.signal(signal.SIGTERM)
        second.wait()
        assert not file.exists()


def test_users_say_who_the_operator_is(tmp_path: Path) -> None:
    """Also when they come by a reload: the operator of this run is sent away, and nobody is let in as him."""
    with ServerProcess(HEADRACE, tmp_path, "--console", config="max_payload: 1000\n") as server:
        _, port, secret = said(server)
        with WebSocket(port) as client:
            client.connect(json.dumps({"user": "operator", "pass": secret, "verbose": False}).encode())
            server.config_file.write_text("authorization { user: a, password: b }\n")
            server.signal(signal.SIGHUP)
            server.wait_for_line(r"Reloaded server configuration")
            client.take_end()
        assert answer(port, {"user": "operator", "pass": secret}).endswith(VIOLATION)


def test_with_users_no_operator_is_made(tmp_path: Path) -> None:
    config = "authorization { user: a, password: b }\n"
    with ServerProcess(HEADRACE, tmp_path, "--console", config=config) as server:
        server.wait_for_line(r"\[INF\] Console at http://127\.0\.0\.1:\d+/console/$")
        server.wait_for_line(r"Server is ready")
    assert "operator=" not in server.log


def test_several_processes_have_one_console(tmp_path: Path) -> None:
    arguments = ("--console", "--processes", "2", "-m", "-1")
    with ServerProcess(HEADRACE, tmp_path, *arguments, config="max_payload: 2000\n") as server:
        url, port, secret = said(server)
        login = {"user": "operator", "pass": secret}
        server.config_file.write_text("max_payload: 1000\n")
        for _ in range(4):  # whichever process answers
            with urllib.request.urlopen(url) as page:
                assert page.status == 200
            identity, _ = json.JSONDecoder().raw_decode(
                answer(port, login).decode().partition("MSG r ")[2].partition("\r\n")[2]
            )
            difference = answer(port, login, f"$SYS.REQ.SERVER.{identity['id']}.CONFIG.DIFF")
            assert b'"before":"2000","after":"1000","needs_restart":false' in difference
            assert difference.count(b'"needs_restart":') == 1  # and nothing of the share that a process has
        server.signal(signal.SIGHUP)
        server.wait_for_line(r"Reloaded server configuration")
        wait_until(
            lambda: (
                b'"differences":[]' in answer(port, login, f"$SYS.REQ.SERVER.{identity['id']}.CONFIG.DIFF")
            ),
            "the file is what the process has",
        )
        with urllib.request.urlopen(server.monitor_url) as page:
            assert f'<a href="{url}">Console</a>' in page.read().decode()


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ("websocket { port: -1, no_tls: true }\n", "console without TLS needs a loopback address"),
        ('websocket { listen: "127.0.0.1:-1", no_tls: true, console { path: "/" } }\n', "path of console"),
    ],
)
def test_console_that_cannot_be_served_ends_the_start(tmp_path: Path, config: str, complaint: str) -> None:
    with ServerProcess(HEADRACE, tmp_path, "--console", config=config, ready=False) as server:
        assert server.wait() == 1
    assert complaint in server.log
