"""Playing vectors in which the player is other servers.

It has ports of its own, and connects to a port for servers.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any, Final

from conformance.run_vectors import play
from harness.processes import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from harness.processes import Program

_PORT: Final = re.compile(r"\{\{port:(\w+)\}\}")


def play_beside_peers(vector: dict[str, Any], program: Program, folder: Path, listening: str) -> None:
    """`listening`: the log line whose first group is the port for other servers. Raises: AssertionError."""
    config = vector["server_config"]
    listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in vector.get("listen", ())}
    ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
    own = [name for name in dict.fromkeys(_PORT.findall(config)) if name not in ports]
    text = _PORT.sub(lambda match: str(ports.get(match[1], -1)), config)
    try:
        with ServerProcess(program, folder, config=text) as server:
            ports |= {name: int(server.wait_for_line(listening)[1]) for name in own}
            problem, transcript = play(vector, ("127.0.0.1", server.port), 5, ports, listeners)
    finally:
        for listener in listeners.values():
            listener.close()
    shown = "\n".join(f"{who} {way} {data[:400]!r}" for who, way, data in transcript)
    assert problem is None, f"{problem}\n{shown}"
