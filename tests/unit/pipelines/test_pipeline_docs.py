"""The examples of docs/pipelines.md, one pipeline in YAML, SQL and Python, and its lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from test_pipeline_sql import without_places

from headrace.pipelines.reading import load_spec
from headrace.pipelines.starters import starters

DOCS = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text()


def example(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_examples_say_the_same_in_three_languages(tmp_path: Path) -> None:
    specs: list[Any] = []
    for kind, suffix in (("yaml", ".yaml"), ("sql", ".sql"), ("python", ".py")):
        file = tmp_path / f"orders_of_the_docs{suffix}"
        file.write_text(example(kind))
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
