"""Mosquitto, the MQTT broker of Debian: as a server to compare with, and its clients as programs.

Where it is not installed the tests that need it are skipped, saying so.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from typing import TYPE_CHECKING, Final, Self

import pytest

from harness.ports import free_port
from harness.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

_PLACES: Final = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where a server is that is not on the PATH of everybody."""


def program(name: str) -> str:
    """Return the path of mosquitto, mosquitto_pub or mosquitto_sub; skip the test without it."""
    found = shutil.which(name) or shutil.which(name, path=_PLACES)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


class Mosquitto:
    """One running broker that lets everybody in and keeps nothing on disk; a context manager that ends it."""

    def __init__(self, folder: Path, config: str = "") -> None:
        path = program("mosquitto")
        self.port: Final = free_port()
        file = folder / "mosquitto.conf"
        file.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n{config}\n")
        self._log = folder / "mosquitto.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([path, "-c", str(file)], stdout=log, stderr=log)
        try:
            wait_until(self._listens, "Mosquitto listens")
        except BaseException:
            self._end()
            raise

    def _listens(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
