"""The session that a run starts for itself: which settings the specification decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from headrace.pipelines import running
from headrace.pipelines.reading import read_spec
from headrace.spark.session import OBJECT_CHECKPOINT_MANAGER

if TYPE_CHECKING:
    from pathlib import Path

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
AT_URL = "checkpoint: webhdfs://host:9864/s/orders\n"


@pytest.mark.parametrize(
    ("lines", "conf", "has_log"),
    [
        ("", {}, True),
        ("checkpoint: elsewhere\n", {}, True),
        (AT_URL, {MANAGER: OBJECT_CHECKPOINT_MANAGER}, False),
        (f"{AT_URL}spark: {{{MANAGER}: own}}\n", {MANAGER: "own"}, False),
    ],
)
def test_a_checkpoint_at_a_url_has_the_manager_of_object_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, conf: dict[str, str], has_log: bool
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(running, "session", lambda _name, conf, **more: asked.update(more, conf=conf))
    text = f"{lines}sources: {{a: {{format: rate}}}}\nsinks: {{out: {{from: a, format: noop}}}}\n"
    running.start_session(read_spec(text, tmp_path / "spec.yaml"), running.RunOptions())
    assert asked["conf"] == conf
    assert (asked["log_file"] is not None) == has_log
