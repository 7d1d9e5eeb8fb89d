"""Every message of the route protocol of before 2.0 and every answer to what is none, byte for byte.

In both roles; a part of them over both transports.

The vectors have the form of `server_vectors.json`; what they say is cluster specification A1 to A4, and
what gnatsd 0.9.4, 1.1.0 and 1.4.1 do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.peer_plays import play_beside_peers
from conformance.test_server_vectors import KINDS
from harness.processes import HEADRACES

if TYPE_CHECKING:
    from harness.processes import Program

VECTORS: Final[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("legacy_vectors.json").read_text(encoding="utf-8")
)


PLAYED: Final = [
    *((HEADRACES[0], vector) for vector in VECTORS),
    *((program, vector) for program in HEADRACES[1:] for vector in VECTORS[::5]),
]
"""Lines are the engine's, whatever brings them: a part of them shows that the other transport does."""


@pytest.mark.parametrize(
    ("program", "vector"), PLAYED, ids=[f"{vector['name']}-{program}" for program, vector in PLAYED]
)
def test_legacy_vector_played_against_the_server_matches(
    vector: dict[str, Any], program: Program, tmp_path: Path
) -> None:
    play_beside_peers(vector, program, tmp_path, KINDS["route"])


def test_legacy_vectors_are_at_least_as_many_as_ever() -> None:
    assert len({vector["name"] for vector in VECTORS}) == len(VECTORS) >= 130
