"""The ready-made pipelines as texts, good specifications with comments; and the lock of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.pipelines.lock import PipelineRunning, locked
from headrace.pipelines.reading import read_spec
from headrace.pipelines.starters import Starter, starter, starters


@pytest.mark.parametrize("one", starters(), ids=lambda one: one.name)
def test_starter_is_a_good_specification_that_says_how_to_run_it(one: Starter) -> None:
    spec = read_spec(one.text, Path(f"/specs/{one.name}.yaml"))
    assert spec.name == one.name
    assert one.text.startswith(f"# {one.summary}\n")
    assert f"headrace pipeline run {one.name}.yaml" in one.text


def test_one_starter_is_for_stan() -> None:
    assert [one.name for one in starters() if "channel: " in one.text] == ["channel-to-stream"]


def test_starters_are_found_by_name() -> None:
    assert {one.name for one in starters()} >= {"archive", "replay-table", "aggregate", "deduplicate"}
    assert starter("archive").name == "archive"
    with pytest.raises(HeadraceError, match=r"no ready-made pipeline 'archiv': did you mean archive\?"):
        starter("archiv")


def test_two_runs_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoint")
    with locked(folder), pytest.raises(PipelineRunning, match=folder), locked(folder):
        pass
    with locked(folder), locked("s3a://bucket/checkpoint"):
        pass
