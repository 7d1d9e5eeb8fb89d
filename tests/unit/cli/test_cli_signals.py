"""Signals to a running server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headrace.cli.arguments import UsageError
from headrace.cli.signals import send_signal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Says when it may be signalled, then which signal it got.
WAITER = """
import signal
wanted = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
print(signal.Signals(signal.sigwait(wanted)).name)
"""


@pytest.fixture
def waiter() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", WAITER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ldm", "SIGUSR2"),
        ("quit", "SIGINT"),
        ("term", "SIGTERM"),
        ("reopen", "SIGUSR1"),
        ("reload", "SIGHUP"),
    ],
)
def test_signal_reaches_the_process(name: str, expected: str, waiter: subprocess.Popen[str]) -> None:
    send_signal(f"{name}={waiter.pid}")
    assert waiter.communicate(timeout=10)[0] == f"{expected}\n"


def test_stop_kills_the_process(waiter: subprocess.Popen[str]) -> None:
    send_signal(f"stop={waiter.pid}")
    assert waiter.wait(timeout=10) == -signal.SIGKILL


def test_signal_takes_the_process_from_a_pid_file(waiter: subprocess.Popen[str], tmp_path: Path) -> None:
    file = tmp_path / "server.pid"
    file.write_text(f"{waiter.pid}\n")
    send_signal(f"ldm={file}")
    assert waiter.communicate(timeout=10)[0] == "SIGUSR2\n"


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        ("hup=1234", 'unknown signal "hup"'),
        ("", 'unknown signal ""'),
        ("ldm", "a process id or pid file is missing"),
        ("ldm=", "a process id or pid file is missing"),
        ("ldm=1=2", "invalid signal parameters"),
        ("ldm=x", 'invalid pid: "x'),
        ("ldm=0", 'invalid pid: "0'),
        ("ldm=-1", 'invalid pid: "-1'),
        ("ldm=12*", 'invalid pid: "12'),
        ("ldm=9999999999", 'signal "ldm" 9999999999: no such process'),
    ],
)
def test_signal_that_cannot_be_sent_is_refused(
    order: str, complaint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        send_signal(order)
    assert str(caught.value).startswith(complaint)


def test_signal_to_a_process_that_is_gone_is_refused() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(timeout=10)
    with pytest.raises(UsageError, match="no such process"):
        send_signal(f"ldm={process.pid}")


def test_pid_file_with_anything_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.pid"
    file.write_bytes(os.urandom(8).hex().encode() + b"\xff")
    with pytest.raises(UsageError, match="invalid pid"):
        send_signal(f"ldm={file}")
