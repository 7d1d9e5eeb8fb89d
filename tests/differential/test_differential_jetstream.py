"""Generated sequences of JetStream steps: what the Go server answers, delivers and keeps, Headrace does.

Where they differ the Go server is right, or docs/divergences.md says why not and `jetstream_steps` does
not generate it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from conformance.jetstream_plays import CONFIG, USERS, Play, judge
from differential.jetstream_steps import Player, Step, sequences
from harness import depth
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.tallies import TALLIES
from harness.waiting import at_once

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

SEEDS = 20
SEQUENCES = 100
"""Drawn from one seed, and played to one pair of servers."""
NO_ANSWER = "error creating store for stream"
"""What the Go server says now and then while it still removes the files of the stream before."""


@pytest.mark.parametrize("number", depth.seeds(SEEDS))
def test_generated_steps_are_answered_as_the_go_server_answers(tmp_path: Path, number: int) -> None:
    headrace = HEADRACES[number % len(HEADRACES)]
    turns = itertools.cycle(USERS)
    folders = [tmp_path / "reference", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    with (
        ServerProcess(
            NATS_SERVER, folders[0], "-js", "-sd", str(folders[0] / "js"), config=CONFIG
        ) as reference,
        ServerProcess(headrace, folders[1], "-js", "-sd", str(folders[1] / "js"), config=CONFIG) as ours,
    ):

        @seed(number)
        @settings(
            max_examples=SEQUENCES,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(sequences())
        def agree(steps: tuple[Step, ...]) -> None:
            TALLIES["sequences of JetStream steps played to both servers"] += 1
            user = next(turns)
            wanted, got = at_once(lambda server: played(steps, server, user), (reference, ours))
            if got != wanted and not any(NO_ANSWER in line for line in wanted):
                judge(
                    "generated steps",
                    (wanted, got),
                    reference=lambda: played(steps, reference, next(turns)),
                    ours=lambda: played(steps, ours, next(turns)),
                )

        agree()


def played(steps: tuple[Step, ...], server: ServerProcess, user: dict[str, str]) -> list[str]:
    """What one server says to steps; a step that it does not answer is the last."""
    play = Play(server, user)
    player = Player(play)
    try:
        for step in steps:
            player.do(step)
        player.end()
    except AssertionError as error:
        play.lines.append(f"stopped: {error}")
    play.close()
    return play.lines
