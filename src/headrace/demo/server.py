"""The demonstration's server: a process of its own that can be killed and started again where it was.

A real `headrace serve` with JetStream, so that what it acknowledged has to come back from disk. Knows when it
answers again; what it has kept is asked over NATS, by others.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from pathlib import Path

HOST: Final = "127.0.0.1"

START_LIMIT: Final = 30.0
"""Seconds a start may take, recovery of the store included."""

_STOP_LIMIT: Final = 10.0
_POLL: Final = 0.005


class DemoServerError(HeadraceError):
    """The server process did not start, or ended without being asked to."""


class DemoServer:
    """The server of the demonstration, as a process.

    `headrace serve` over a store of streams; `url` stays when it starts again.

    The folder of the log must be there; the server leaves its ports file in it for a moment.
    """

    def __init__(self, store: Path, log: Path) -> None:
        self._store = store
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self.url = ""

    def start(self) -> float:
        """Start it, on the port it had before if it had one; the seconds until it answered.

        Raises: DemoServerError, OSError.
        """
        begun = time.monotonic()
        command = [
            sys.executable, "-m", "headrace", "serve",
            "-a", HOST, "-p", str(urlsplit(self.url).port or -1),
            "-js", "-sd", str(self._store),
            "--ports_file_dir", str(self._log.parent),
        ]  # fmt: skip
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C is this program's to handle, in the order that it needs.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._killed = False
        ports = self._wait_ports(self._process, begun + START_LIMIT)
        self.url = ports["nats"][0]
        return time.monotonic() - begun

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed. Returns when the process is gone."""
        assert self._process is not None
        self._killed = True
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def check(self) -> None:
        """Check the server's process. Raises: DemoServerError if it has ended by itself."""
        if self._process is not None and not self._killed and self._process.poll() is not None:
            raise DemoServerError(f"the server ended with code {self._process.returncode}; see {self._log}")

    def stop(self) -> None:
        """End it as an operator would; it is gone when this returns. A second time does nothing."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.kill()

    def _wait_ports(self, process: subprocess.Popen[bytes], deadline: float) -> dict[str, list[str]]:
        """The server writes this file, complete, once clients can connect."""
        while True:
            self.check()
            for file in self._log.parent.glob(f"*_{process.pid}.ports"):
                ports: dict[str, list[str]] = json.loads(file.read_text())
                file.unlink()  # a killed server leaves it behind
                return ports
            if time.monotonic() > deadline:
                raise DemoServerError(f"the server did not start in {START_LIMIT:g} s; see {self._log}")
            time.sleep(_POLL)
