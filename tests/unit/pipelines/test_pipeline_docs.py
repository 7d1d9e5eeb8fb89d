"""The examples of docs/pipelines.md, one pipeline in YAML, SQL and Python, and its lists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from test_pipeline_sql import without_places

from harness.documents import ROOT, blocks
from headrace.pipelines.reading import load_spec
from headrace.pipelines.starters import starters

if TYPE_CHECKING:
    from pathlib import Path

DOCS = (ROOT / "docs" / "pipelines.md").read_text()


def test_the_examples_say_the_same_in_three_languages(tmp_path: Path) -> None:
    specs: list[Any] = []
    examples = {block.name: block.text for block in blocks(DOCS)}
    for suffix in (".yaml", ".sql", ".py"):
        file = tmp_path / f"orders_of_the_docs{suffix}"
        file.write_text(examples[f"orders{suffix}"])
        spec = without_places(load_spec(file))
        typed, scored = spec["steps"]
        typed["sql"] = " ".join(typed["sql"].split())
        specs.append(spec)
        assert scored["python"] in ("scoring:score", "orders_of_the_docs:scored")
        scored["python"] = ""
    assert specs[0] == specs[1] == specs[2]


def test_every_ready_made_pipeline_is_listed() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \| ", DOCS.split("## Ready-made")[1].split("###")[0], re.MULTILINE)
    assert sorted(listed) == [one.name for one in starters()]
