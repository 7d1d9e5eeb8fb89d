"""Headrace's servers by fork from a process that has imported them: a start takes a tenth of the time.

Tests whose subject is a server's start or end, or what its process costs, start the executable: they do not
use this (tests/conftest.py names their folders), nor does any other program than `headrace` as it was
installed. What is forked runs the same `main` with the same arguments.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PROGRAM: Final = Path(__file__).with_name("fork_server.py")
_ANSWER_BYTES: Final = 64


class ForkServer:
    """The process that forks, started when it is needed first and ended with this one."""

    def __init__(self) -> None:
        self._is_used = False
        self._control: socket.socket | None = None
        self._lock = threading.Lock()

    @contextmanager
    def used(self, is_used: bool) -> Iterator[None]:
        """Whether servers are forked until the end of the block. Only Linux can wait for them (pidfd)."""
        before, self._is_used = self._is_used, is_used and sys.platform == "linux"
        yield
        self._is_used = before

    def starts(self, command: Sequence[str]) -> bool:
        """Whether a server with this command is to be forked."""
        return self._is_used and command[0] == str(Path(sys.executable).parent / "headrace")

    def start(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Forked:
        """A running server, like that of `subprocess.Popen` with a pipe for stderr."""
        read, write = os.pipe()
        request = {"command": list(command), "folder": str(folder), "environment": dict(environment)}
        try:
            pid = self._ask(request, write)
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        return Forked(self, command, pid, read)

    def reap(self, pid: int) -> int:
        """The exit code of a server that has ended; negative for a signal."""
        return self._ask({"reap": pid})

    def _ask(self, request: dict[str, Any], *descriptors: int) -> int:
        with self._lock:
            if self._control is None:
                self._control = self._begin()
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            answer = self._control.recv(_ANSWER_BYTES)
        assert answer, "the process that forks servers has ended"
        found: int = json.loads(answer)
        return found

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", str(_PROGRAM), str(theirs.fileno())]  # -P: no path of its own
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

        def end() -> None:
            ours.close()
            process.wait()

        atexit.register(end)
        return ours


FORKS: Final = ForkServer()


class Forked:
    """A server that was forked, with what `ServerProcess` uses of `subprocess.Popen`."""

    def __init__(self, forks: ForkServer, command: Sequence[str], pid: int, log: int) -> None:
        self.pid: Final = pid
        self.returncode: int | None = None
        self.stderr: Final = open(log, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        self._forks = forks
        self._command = command
        self._end = os.pidfd_open(pid)  # there while it is not reaped, even if it has ended
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self.returncode if self._has_ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; `timeout` is seconds. Raises: subprocess.TimeoutExpired."""
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(self._command, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; does nothing if the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, seconds: float | None) -> bool:
        with self._lock:
            if self.returncode is not None:
                return True
            waiting = select.poll()
            waiting.register(self._end, select.POLLIN)
            if not waiting.poll(None if seconds is None else seconds * 1000):
                return False
            self.returncode = self._forks.reap(self.pid)
            os.close(self._end)
            return True
