"""The small files a server process leaves for others: its pid, and the ports it is bound to.

Source: process contract (ports_file_dir), `-P` of the reference server.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import StartError

if TYPE_CHECKING:
    from headrace.server.server import Server


def write_pid_file(path: str) -> None:
    """Raises: StartError when it cannot be written."""
    _write(Path(path), str(os.getpid()))


def write_ports_file(directory: str, server: Server) -> Path:
    """`<program>_<pid>.ports`: JSON with lists of URLs under `nats`, `monitoring` and `websocket`.

    Raises: StartError when it cannot be written.
    """
    return write_ports(directory, ports_of(server))


def ports_of(server: Server) -> dict[str, list[str]]:
    """The URLs that are bound, under `nats`, `monitoring` and `websocket`."""
    ports = {"nats": [server.url] if server.listens else []}
    if server.monitor_url:
        ports["monitoring"] = [server.monitor_url]
    if server.websocket_url:
        ports["websocket"] = [server.websocket_url]
    return ports


def write_ports(directory: str, ports: dict[str, list[str]]) -> Path:
    """The file of this process. Raises: StartError when it cannot be written."""
    path = Path(directory) / f"{Path(sys.argv[0]).name}_{os.getpid()}.ports"
    _write(path, json.dumps(ports))
    return path


def _write(path: Path, text: str) -> None:
    """Complete or not at all: a reader polling for the file never sees half of it."""
    scratch = path.with_name(path.name + ".tmp")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        raise StartError(f"could not write {path}: {error.strerror}") from error
