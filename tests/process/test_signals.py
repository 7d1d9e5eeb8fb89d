"""Signals: the end, reload, log rotation, lame duck."""

from __future__ import annotations

import json
import re
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from harness.processes import HEADRACES, Program
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.processes import ServerProcess


@pytest.mark.parametrize("program", HEADRACES, ids=str)
@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupt")])
def test_end_by_signal_closes_clients_and_exits_with_zero(
    serve: Callable[..., ServerProcess], program: Program, number: signal.Signals, name: str
) -> None:
    server = serve(program=program)
    with server.connect(b"") as reader, server.connect(b"") as writer:
        reader.send(b"SUB a 1\r\n")
        reader.sync()
        writer.send(b"PUB a 2\r\nhi\r\n")
        writer.sync()

        server.signal(number)

        assert server.wait() == 0
        assert reader.take_rest() == b"MSG a 1 2\r\nhi\r\n"
        assert writer.take_rest() == b""
    assert f'Trapped "{name}" signal' in server.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_signal_right_after_the_ready_line_is_handled(
    serve: Callable[..., ServerProcess], number: signal.Signals
) -> None:
    server = serve()

    server.signal(number)
    server.wait_for_line(r'\[INF\] Trapped "')

    if number in (signal.SIGTERM, signal.SIGUSR2):
        assert server.wait() == 0
    else:
        assert server.stop() == 0


def test_sigterm_sent_by_signal_flag_ends_the_server(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = serve("-P", str(tmp_path / "pid"))

    order = serve(f"--signal=term={tmp_path / 'pid'}", ready=False, listen=())

    assert order.wait() == 0
    assert server.wait() == 0


# -- reload


def test_reload_applies_what_can_change_and_keeps_connections(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config="debug: false\n")
    with server.connect(b"") as wire:
        server.config_file.write_text("debug: true\ntrace: true\n")
        server.signal(signal.SIGHUP)
        server.wait_for_line(r"\[INF\] Reloaded server configuration \(sha256:[0-9a-f]{64}\)$")

        wire.send(b"SUB a 1\r\n")
        wire.sync()

        server.wait_for_line(r"\[TRC\] .* - <<- \[SUB a 1\]$")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("max_payload: 100\nserver_name: n\n", r"reload not supported for server_name: old=None, new=n"),
        ("debug: {\n", r"server\.conf:1:8: "),
        ("no_such_option: 1\n", r'server\.conf:1:1: unknown field "no_such_option"'),
    ],
)
def test_bad_reload_is_refused_as_a_whole_and_the_server_goes_on(
    serve: Callable[..., ServerProcess], text: str, complaint: str
) -> None:
    server = serve(config="debug: false\n")
    with server.connect(b"") as wire:
        server.config_file.write_text(text + "debug: true\n")
        server.signal(signal.SIGHUP)
        server.wait_for_line(r"\[ERR\] Failed to reload server configuration: .*" + complaint)

        assert wire.sync() == b""
        with server.connect(b"") as other:
            assert other.info["max_payload"] == 1 << 20
    assert "[DBG]" not in server.log
    assert server.stop() == 0


def test_reload_without_a_configuration_file_is_refused(serve: Callable[..., ServerProcess]) -> None:
    server = serve()

    server.signal(signal.SIGHUP)

    server.wait_for_line(r"\[ERR\] Failed to reload server configuration: can only reload config when a file")
    assert server.stop() == 0


def test_reload_of_a_removed_file_is_refused(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config="debug: false\n")
    server.config_file.unlink()

    server.signal(signal.SIGHUP)

    server.wait_for_line(r"\[ERR\] Failed to reload server configuration: .*no such file")
    assert server.stop() == 0


def test_flags_still_win_after_a_reload(serve: Callable[..., ServerProcess]) -> None:
    server = serve("-D", config="debug: false\n")

    server.config_file.write_text("debug: false\nport: 1\n")
    server.signal(signal.SIGHUP)

    server.wait_for_line(r"\[INF\] Reloaded server configuration")
    with server.connect(b""):
        server.wait_for_line(r"\[DBG\] .*Client connection created")


# -- log rotation


def test_log_file_is_reopened_after_it_was_moved(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    log, moved = tmp_path / "server.log", tmp_path / "server.log.1"
    server = serve("-l", str(log), ready=False)
    wait_until(lambda: log.exists() and "Server is ready" in log.read_text(), "the log file")

    log.rename(moved)
    server.signal(signal.SIGUSR1)
    wait_until(lambda: log.exists() and "File log re-opened" in log.read_text(), "the new log file")
    assert server.stop() == 0

    assert "Server is ready" in moved.read_text()
    assert "Server is ready" not in log.read_text()
    assert log.read_text().endswith("[INF] Server Exiting..\n")
    assert server.lines == []


def test_reopening_without_a_log_file_changes_nothing(serve: Callable[..., ServerProcess]) -> None:
    server = serve()

    server.signal(signal.SIGUSR1)

    server.wait_for_line(r"\[INF\] File log re-open ignored, not a file logger$")
    assert server.stop() == 0


# -- lame duck


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_lame_duck_tells_clients_refuses_new_ones_and_ends(
    serve: Callable[..., ServerProcess], program: Program
) -> None:
    server = serve(config='lame_duck_grace_period: "200ms"\n', program=program)
    port = server.port
    with server.connect() as modern, server.connect() as old:
        modern.connect(b'{"verbose":false,"protocol":1}')
        modern.take_info()
        old.connect(b'{"verbose":false,"protocol":0}')
        modern.send(b"SUB a 1\r\n")
        modern.sync()

        server.signal(signal.SIGUSR2)
        told = modern.take_info()
        assert told["ldm"] is True
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            pass
        old.send(b"PUB a 4\r\nlast\r\n")  # served as ever until the grace period is over
        assert old.sync() == b""
        assert modern.take_through(b"last\r\n") == b"MSG a 1 4\r\nlast\r\n"
        old.close()

        assert server.wait() == 0
        assert modern.take_rest() == b""
    assert re.search(
        r"\[INF\] Entering lame duck mode, stop accepting new clients$", server.log, re.MULTILINE
    )


def test_lame_duck_without_clients_ends_at_once(serve: Callable[..., ServerProcess]) -> None:
    server = serve()

    server.signal(signal.SIGUSR2)

    assert server.wait() == 0


def test_sigterm_ends_a_lame_duck_early(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config='lame_duck_grace_period: "29s"\n')
    with server.connect(b"") as wire:
        server.signal(signal.SIGUSR2)
        server.wait_for_line("Entering lame duck mode")
        server.signal(signal.SIGTERM)

        assert server.wait() == 0
        assert wire.take_rest() == b""


def test_info_of_a_new_connection_is_one_json_line(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        line = sock.makefile("rb").readline()

    assert line.endswith(b" \r\n")
    assert json.loads(line[5:])["client_ip"] == "127.0.0.1"
