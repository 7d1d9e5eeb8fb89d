"""Every vector of the client protocol specification over both transports.

The vectors and the player (`run_vectors.py`) are vendored as the specification has them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.conftest import Served
from conformance.run_vectors import play
from harness.processes import HEADRACES
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from conformance.conftest import CurrentServer
    from harness.processes import Program

VECTORS: Final[dict[str, dict[str, Any]]] = {
    vector["name"]: vector
    for vector in json.loads(Path(__file__).with_name("client_vectors.json").read_text(encoding="utf-8"))
}

FAILING: Final[dict[str, str]] = {}
"""Vectors whose configuration starts and that are answered differently, and why."""


def served(program: Program, vector: dict[str, Any]) -> Served:
    return Served(
        program,
        vector.get("server_config") or "",
        certified=bool(vector.get("tls_cert")),
        alone=vector["name"] if vector.get("fresh_server") else "",
    )


def cases() -> list[Any]:
    """(what serves it, vector) pairs, those that share a server side by side."""
    groups: dict[Served, list[Any]] = {}
    for program in HEADRACES:
        for name, vector in VECTORS.items():
            wanted = served(program, vector)
            reason = FAILING.get(name)
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            case = pytest.param(wanted, vector, id=f"{name}-{program}", marks=marks)
            groups.setdefault(wanted, []).append(case)
    return [case for group in groups.values() for case in group]


@pytest.mark.parametrize(("wanted", "vector"), cases())
def test_vector_played_against_the_server_matches(
    current: CurrentServer, wanted: Served, vector: dict[str, Any]
) -> None:
    (server,) = current.serve(wanted)

    problem, transcript = play(vector, ("127.0.0.1", server.port), timeout=PATIENCE)

    shown = "\n".join(f"{who} {way} {data[:400]!r}" for who, way, data in transcript)
    assert problem is None, f"{problem}\n{shown}"


def test_vectors_that_are_played_are_at_least_as_many_as_ever() -> None:
    assert len(VECTORS) - len(FAILING) >= 201
