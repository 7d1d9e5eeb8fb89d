"""The vectors of the protocols between servers, over both transports; the player speaks for the peers.

The vectors are vendored as the specification has them; of which kinds there is support is said in KINDS.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.peer_plays import play_beside_peers
from harness.processes import HEADRACES

if TYPE_CHECKING:
    from harness.processes import Program

KINDS: Final = {
    "route": r"Listening for route connections on 127\.0\.0\.1:(\d+)$",
    "gateway": r"Listening for gateways connections on 127\.0\.0\.1:(\d+)$",
    "leaf": r"Listening for leafnode connections on 127\.0\.0\.1:(\d+)$",
}
"""First words of names of vectors, and the log line with the port that the server listens on for them."""

VECTORS: Final[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("server_vectors.json").read_text(encoding="utf-8")
)


def kind_of(vector: dict[str, Any]) -> str:
    return str(vector["name"]).split("_", 1)[0]


PLAYED: Final = [vector for vector in VECTORS if kind_of(vector) in KINDS]


@pytest.mark.parametrize("program", HEADRACES, ids=str)
@pytest.mark.parametrize("vector", PLAYED, ids=lambda vector: vector["name"])
def test_vector_played_against_the_server_matches(
    vector: dict[str, Any], program: Program, tmp_path: Path
) -> None:
    play_beside_peers(vector, program, tmp_path, KINDS[kind_of(vector)])


def test_vectors_that_are_played_are_at_least_as_many_as_ever() -> None:
    assert len(PLAYED) >= 33
