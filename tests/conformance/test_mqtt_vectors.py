"""Every vector of MQTT 3.1.1 and 5.0, over both transports.

The vectors and the player (`run_mqtt_vectors.py`) are vendored as the specification has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.mqtt_plays import OASIS_VECTORS, VECTORS, assert_played, served
from harness.mqtt_servers import mqtt_port
from harness.processes import HEADRACES

if TYPE_CHECKING:
    from conformance.conftest import CurrentServer, Served


def cases() -> list[Any]:
    """(what serves it, vector) pairs, those that share a server side by side."""
    groups: dict[Served, list[Any]] = {}
    for program in HEADRACES:
        for vector in (*VECTORS, *OASIS_VECTORS):
            wanted = served(program, vector)
            case = pytest.param(wanted, vector, id=f"{vector['name']}-{program}")
            groups.setdefault(wanted, []).append(case)
    return [case for group in groups.values() for case in group]


@pytest.mark.parametrize(("wanted", "vector"), cases())
def test_vector_played_against_the_server_matches(
    current: CurrentServer, wanted: Served, vector: dict[str, Any]
) -> None:
    (server,) = current.serve(wanted)

    assert_played(vector, mqtt_port(server), server.port)


def test_vectors_that_are_played_are_at_least_as_many_as_ever() -> None:
    names = {vector["name"] for vector in (*VECTORS, *OASIS_VECTORS)}

    assert len(names) == len(VECTORS) + len(OASIS_VECTORS) >= 304
