"""Ends that come early: signals before a server is ready, readers who have read enough."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from harness.processes import BIN
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.processes import ServerProcess

ENDS = [(signal.SIGINT, "interrupt"), (signal.SIGTERM, "terminated")]


@contextmanager
def opened_when_it_is_read(pipe: Path) -> Iterator[None]:
    """Open a pipe for writing once a command has opened it, which is about to read it then, or reads.

    Raises: AssertionError when none does. To open it in the usual way would wait for ever, where a command
    has ended for another reason.
    """

    def opened() -> int | None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads it
                raise
            return None

    handle = wait_until(opened, "a command that reads the pipe")
    try:
        yield
    finally:
        os.close(handle)


@pytest.mark.parametrize(("number", "name"), ENDS)
def test_signal_while_the_start_goes_on_ends_it_in_the_usual_words(
    serve: Callable[..., ServerProcess], tmp_path: Path, number: signal.Signals, name: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # who starts looks there for another JetStream
        peer = f"nats-route://127.0.0.1:{mute.getsockname()[1]}"
        config = f"""
            jetstream {{ store_dir: "{tmp_path}/js" }}, server_name: one
            cluster {{ name: C, listen: "127.0.0.1:-1", routes: ["{peer}"] }}
        """
        server = serve(config=config, ready=False)
        server.wait_for_line("Listening for route connections")
        server.signal(number)
        assert server.wait() == 0

    said = [re.sub(r"^.*?\[INF\] ", "", line) for line in server.lines]
    assert said[-3:] == [f'Trapped "{name}" signal', "Initiating Shutdown...", "Server Exiting.."]
    assert "Traceback" not in server.log, server.log
    assert "Server is ready" not in server.log


@pytest.mark.parametrize(("number", "name"), ENDS)
def test_signal_before_there_is_a_log_ends_the_start_without_a_word(
    serve: Callable[..., ServerProcess], tmp_path: Path, number: signal.Signals, name: str
) -> None:
    pipe = tmp_path / "pipe.conf"
    os.mkfifo(pipe)
    server = serve("-c", str(pipe), ready=False)
    with opened_when_it_is_read(pipe):
        server.signal(number)
    assert server.wait() == 0  # the pipe is closed: else a signal just before the read would wait for its end

    assert server.log == "", name


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_another_command_with_a_line_and_its_code(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    pipe = tmp_path / "pipe.conf"
    os.mkfifo(pipe)
    command = [str(BIN / "headrace"), "config", "check", str(pipe)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with opened_when_it_is_read(pipe):
        running.send_signal(number)
    _, said = running.communicate(timeout=PATIENCE)

    assert (running.returncode, said) == (code, "headrace: interrupted\n")


def test_terminate_ends_a_command_for_which_the_shell_ignores_interrupts(tmp_path: Path) -> None:
    """As it does for what a script starts with `&`."""
    pipe = tmp_path / "pipe.conf"
    os.mkfifo(pipe)
    script = '"$0" config check "$1" & echo $!; wait $!'
    command = ["sh", "-c", script, str(BIN / "headrace"), str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        started = int(shell.stdout.readline())
        with opened_when_it_is_read(pipe):
            os.kill(started, signal.SIGTERM)
        _, said = shell.communicate(timeout=PATIENCE)

    assert (shell.returncode, said) == (143, "headrace: interrupted\n")


@pytest.mark.parametrize(
    "command",
    ["serve --help", "streaming --help", "--help", "config --help", "tables --help", "pipeline list"],
)
@pytest.mark.parametrize("buffering", ["", "1"], ids=["buffered", "unbuffered"])
def test_reader_who_has_read_enough_is_no_error(command: str, buffering: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        ended = subprocess.run(
            [str(BIN / "headrace"), *command.split()],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONUNBUFFERED": buffering},
        )
    finally:
        os.close(write_end)

    assert (ended.stderr, ended.returncode) == ("", 0)


def test_a_broken_pipe_that_is_not_the_readers_is_told() -> None:
    code = """
import headrace.cli.main as main, sys
def run(*_): raise BrokenPipeError("of a socket")
main.Command.run = run
sys.argv = ["headrace", "config"]
main.main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert ended.returncode == 1
    assert "of a socket" in ended.stderr
