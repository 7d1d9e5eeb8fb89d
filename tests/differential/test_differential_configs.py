"""Generated configurations with mistakes: what the Go server refuses Headrace refuses, and only that.

Compared is the verdict alone: the texts are our own. Where the two differ on purpose (docs/divergences.md)
`ON_PURPOSE` has part of what we say.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from differential.mistakes import mistaken
from differential.worlds import has_bad_export, seems_otherwise
from harness import depth
from harness.processes import NATS_SERVER
from harness.tallies import TALLIES
from headrace.conf.binding import load_options
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from differential.worlds import Tree

pytestmark = pytest.mark.clients

SEEDS = 10
CASES = 60
"""Configurations that are drawn from one seed."""
ON_PURPOSE: Final = (
    "an entry needs either a stream or a service",
    "a destination is missing in a mapping",
    'cannot map .* to ""',
    "a password needs a user",
    "cannot be a prefix of subjects",
    "prefix is for streams only",
    "both a prefix and a to",
    "as .*: invalid (subject|mapping destination)",
    "wildcard index out of range in {{partition",
)
"""Complaints of ours, as patterns, about what the Go server may take."""
BY_CHANCE: Final = ("forms a cycle", "not authorized")
"""Complaints of the Go server that depend on the order in which it looks at accounts and exports."""


@pytest.mark.parametrize("number", depth.seeds(SEEDS))
def test_generated_configuration_is_taken_or_refused_as_by_the_go_server(tmp_path: Path, number: int) -> None:
    @seed(number)
    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(mistaken())
    def agree(tree: Tree) -> None:
        text = json.dumps(tree, ensure_ascii=False)
        wanted, got = _reference_complaint(text, tmp_path), _our_complaint(text)
        TALLIES["configurations shown to both servers"] += 1
        if bool(got) != bool(wanted) and not _is_known(tree, wanted, got):
            pytest.fail(f"{text}\nGo server: {wanted or 'ok'}\nHeadrace: {got or 'ok'}", pytrace=False)

    agree()


def _is_known(tree: Tree, wanted: str, got: str) -> bool:
    """Whether the difference is one of docs/divergences.md."""
    if got:
        return any(re.search(known, got) for known in ON_PURPOSE) or has_bad_export(tree)
    return any(known in wanted for known in BY_CHANCE) and seems_otherwise(tree["accounts"])


def _our_complaint(text: str) -> str:
    """What is wrong with a configuration; "" is nothing."""
    try:
        load_options(text=text, environ={})
    except ConfigError as error:
        return str(error)
    return ""


def _reference_complaint(text: str, folder: Path) -> str:
    """The same from the Go server, which says some of it only when it starts."""
    file = folder / "server.conf"
    file.write_text(text)
    command = [*NATS_SERVER.command, "-a", "127.0.0.1", "-p", "-1", "-c", str(file)]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            if "Server is ready" in line:
                said = ""
                break
            said += line
        process.kill()
    return said
