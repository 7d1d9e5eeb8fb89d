"""The small files a server process leaves for others: its pid, and the ports it is bound to.

Source: process contract (ports_file_dir), `-P` of the reference server.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.errors import StartError

if TYPE_CHECKING:
    from headrace.server.server import Server


_OWN: Final = 0o600
_PUBLIC: Final = 0o644
"""Modes, as the Go server's: whoever looks for a port may read where it is."""


def write_pid_file(path: str) -> None:
    """Write the file with the process's id, readable for its owner only.

    Raises: StartError when it cannot be written.
    """
    _write(Path(path), str(os.getpid()), _OWN)


def write_ports_file(directory: str, server: Server) -> Path:
    """Write the file that lists the ports.

    `<program>_<pid>.ports`: JSON, as `ports_of` says.

    Raises: StartError when it cannot be written.
    """
    return write_ports(directory, ports_of(server))


def ports_of(server: Server) -> dict[str, list[str]]:
    """The URLs that are bound, under `nats`, `monitoring`, `cluster`, `websocket`, `mqtt` and `leafnodes`.

    A port that is not there has no key. What is between the processes of one server is nobody's business.
    """
    ports = {"nats": [server.url] if server.listeners.is_open else []}
    if server.monitor_url:
        ports["monitoring"] = [server.monitor_url]
    is_private = server.worker is not None and server.worker.has_private_mesh
    if server.routes is not None and not is_private:
        ports["cluster"] = [server.routes.url]
    if server.websocket_url:
        ports["websocket"] = [server.websocket_url]
    if server.listeners.mqtt_url:
        ports["mqtt"] = [server.listeners.mqtt_url]
    if server.leafs is not None and server.leafs.listener is not None:
        ports["leafnodes"] = [server.leafs.url]
    return ports


def write_ports(directory: str, ports: dict[str, list[str]]) -> Path:
    """The file of this process. Raises: StartError when it cannot be written."""
    path = Path(directory) / f"{Path(sys.argv[0]).name}_{os.getpid()}.ports"
    _write(path, json.dumps(ports), _PUBLIC)
    return path


def write_operator_file(store: str, url: str) -> Path:
    """Write the file beside a store with the URL that signs the operator in, readable for its owner only.

    Raises: StartError when it cannot be written.
    """
    directory = Path(store).absolute()
    path = directory.with_name(f"{directory.name}.console")
    _write(path, f"{url}\n", _OWN)
    return path


def _write(path: Path, text: str, mode: int) -> None:
    """Complete or not at all: a reader polling for the file never sees half of it."""
    scratch = path.with_name(path.name + ".tmp")
    try:
        scratch.unlink(missing_ok=True)  # one that was left there would keep its mode
        with open(
            os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8"
        ) as file:
            file.write(text)
        scratch.replace(path)
    except OSError as error:
        raise StartError(f"could not write {path}: {error.strerror}") from error
