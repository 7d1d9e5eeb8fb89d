"""The vectors of the protocols between servers, over both transports; the player speaks for the peers.

The vectors are vendored as the specification has them; of which kinds there is support is said in KINDS.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.run_vectors import play
from harness.processes import HEADRACES, ServerProcess

if TYPE_CHECKING:
    from harness.processes import Program

KINDS: Final = {"route": r"Listening for route connections on 127\.0\.0\.1:(\d+)$"}
"""First words of names of vectors, and the log line with the port that the server listens on for them."""

VECTORS: Final[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("server_vectors.json").read_text(encoding="utf-8")
)
_PORT: Final = re.compile(r"\{\{port:(\w+)\}\}")


def kind_of(vector: dict[str, Any]) -> str:
    return str(vector["name"]).split("_", 1)[0]


PLAYED: Final = [vector for vector in VECTORS if kind_of(vector) in KINDS]


@pytest.mark.parametrize("program", HEADRACES, ids=str)
@pytest.mark.parametrize("vector", PLAYED, ids=lambda vector: vector["name"])
def test_vector_played_against_the_server_matches(
    vector: dict[str, Any], program: Program, tmp_path: Path
) -> None:
    config = vector["server_config"]
    listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in vector.get("listen", ())}
    ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
    own = [name for name in dict.fromkeys(_PORT.findall(config)) if name not in ports]
    text = _PORT.sub(lambda match: str(ports.get(match[1], -1)), config)
    try:
        with ServerProcess(program, tmp_path, config=text) as server:
            pattern = KINDS[kind_of(vector)]
            ports |= {name: int(server.wait_for_line(pattern)[1]) for name in own}
            problem, transcript = play(vector, ("127.0.0.1", server.port), 5, ports, listeners)
    finally:
        for listener in listeners.values():
            listener.close()
    shown = "\n".join(f"{who} {way} {data[:400]!r}" for who, way, data in transcript)
    assert problem is None, f"{problem}\n{shown}"


def test_vectors_that_are_played_are_at_least_as_many_as_ever() -> None:
    assert len(PLAYED) >= 28
