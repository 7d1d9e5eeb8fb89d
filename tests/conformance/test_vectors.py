"""Every vector of the client protocol specification that this version can pass, over both transports.

The vectors and the player (`run_vectors.py`) are vendored as the specification has them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.conftest import Served, start
from conformance.run_vectors import play
from harness.processes import HEADRACES

if TYPE_CHECKING:
    from conformance.conftest import CurrentServer
    from harness.certificates import Authority
    from harness.processes import Program

VECTORS: Final[dict[str, dict[str, Any]]] = {
    vector["name"]: vector
    for vector in json.loads(Path(__file__).with_name("client_vectors.json").read_text(encoding="utf-8"))
}

EXCLUDED: Final[dict[str, tuple[str, ...]]] = {
    "JetStream": (
        "js_account_info",
        "js_stream_create_publish_ack",
        "js_stream_create_is_idempotent",
        "js_stream_create_different_config",
        "js_stream_name_mismatch",
        "js_stream_not_found",
        "js_subjects_overlap",
        "js_stream_names",
        "js_stream_names_filter",
        "js_bad_json",
        "js_duplicate_msg_id",
        "js_expected_last_sequence_wrong",
        "js_msg_get_by_seq_and_last",
        "js_pull_no_wait_empty",
        "js_pull_expires_408",
        "js_pull_one",
        "js_pull_headers_preserved",
        "js_pull_batch_two_waits_for_second",
        "js_nak_redelivers",
        "js_ack_then_info",
        "js_consumer_not_found",
        "js_push_consumer_delivers_with_ack_reply",
        "js_purge_and_delete",
        "js_direct_get_last_by_subject",
    ),
}
"""What this version lacks -> the vectors that need it. A later issue that builds it empties its row."""

FAILING: Final[dict[str, str]] = {}
"""Vectors whose configuration starts and that are answered differently, and why."""

_EXCLUDED_NAMES: Final = {name for names in EXCLUDED.values() for name in names}


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
            if name not in _EXCLUDED_NAMES:
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

    problem, transcript = play(vector, ("127.0.0.1", server.port), timeout=5)

    shown = "\n".join(f"{who} {way} {data[:400]!r}" for who, way, data in transcript)
    assert problem is None, f"{problem}\n{shown}"


def test_excluded_vectors_are_all_known() -> None:
    assert _EXCLUDED_NAMES - VECTORS.keys() == set()


def test_vectors_that_are_played_are_at_least_as_many_as_ever() -> None:
    assert len(VECTORS) - len(_EXCLUDED_NAMES) - len(FAILING) >= 177


@pytest.mark.parametrize("lacking", EXCLUDED)
def test_excluded_vector_config_is_refused_as_not_supported_yet(
    lacking: str, tmp_path: Path, authority: Authority
) -> None:
    """An excluded vector whose configuration starts is one that may pass: it belongs in the list no more."""
    configs = {VECTORS[name].get("server_config") or "" for name in EXCLUDED[lacking]}

    for config in configs:
        wanted = Served(HEADRACES[0], config)
        with start(wanted, tmp_path, authority, ready=False) as server:
            assert server.wait() == 1
            assert re.search(r"not supported by this version( of Headrace)? yet$", server.log, re.MULTILINE)
