"""Generated scripts under generated configurations: what the Go server delivers, refuses and closes,
Headrace does.

The number of a configuration is the seed of its scripts. Where the two differ the Go server is right, or
docs/divergences.md says why not and `worlds` and `steps` do not generate it.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from differential.playing import play
from differential.steps import Script, scripts
from differential.worlds import Universe, universe
from harness import depth
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.tallies import TALLIES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

CONFIGURATIONS = 40
SCRIPTS = 75
"""Played under one configuration."""


@pytest.mark.parametrize("number", depth.seeds(CONFIGURATIONS))
def test_generated_script_is_answered_as_the_go_server_answers(tmp_path: Path, number: int) -> None:
    everything = universe(number)
    headrace = HEADRACES[number // 2 % len(HEADRACES)]
    folders = [tmp_path / "reference", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    with (
        ServerProcess(NATS_SERVER, folders[0], "-m", "-1", config=everything.text) as reference,
        ServerProcess(headrace, folders[1], "-m", "-1", config=everything.text) as ours,
    ):

        @seed(number)
        @settings(
            max_examples=SCRIPTS,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(scripts(everything))
        def agree(script: Script) -> None:
            wanted = play(script, reference).text()
            got = play(script, ours).text()
            TALLIES["scripts played to both servers"] += 1
            if got != wanted:
                pytest.fail(_report(everything, script, wanted, got), pytrace=False)

        agree()


def _report(everything: Universe, script: Script, wanted: str, got: str) -> str:
    """The configuration without the other worlds, the script, and what the two servers made of it."""
    tree = everything.tree | ({"accounts": script.world.accounts} if "accounts" in everything.tree else {})
    difference = difflib.ndiff(wanted.splitlines(), got.splitlines())
    return "\n".join([f"configuration {everything.number}:", json.dumps(tree), script.text(), *difference])
