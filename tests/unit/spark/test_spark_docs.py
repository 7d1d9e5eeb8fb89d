from __future__ import annotations

import re
import runpy
from pathlib import Path

from headrace.spark.options import OPTIONS, option_table
from headrace.spark.schema import COLUMNS
from headrace.spark.sink_options import CONNECTION_OPTIONS, SINK_OPTIONS
from headrace.testing import Server

ROOT = Path(__file__).parents[3]


def test_docs_option_table_is_the_codes() -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    section = text.split("## Options")[1].split("\n## ")[0]
    table = section.split("|---|---|---|\n")[1].split("\n\n")[0] + "\n"
    assert table == option_table(), "print headrace.spark.options.option_table() into docs/spark.md"
    assert [line.split("`")[1] for line in table.splitlines()] == [option.name for option in OPTIONS]


def test_docs_sink_option_table_is_the_codes() -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    section = text.split("### What the sink is told")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", section, re.MULTILINE)
    assert rows == [(option.name, option.default, option.meaning) for option in SINK_OPTIONS]
    listed = section.split("as for reading")[0]
    assert {name.lower() for name in re.findall(r"`(\w+)`", listed)} == CONNECTION_OPTIONS


def test_docs_column_table_is_the_codes() -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    section = text.split("## Columns")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", section, re.MULTILINE)
    assert [(name, kind.replace(" ", "")) for name, kind in rows] == [
        (column.name, column.dataType.simpleString()) for column in COLUMNS
    ]


def test_notebook_example_does_what_it_says() -> None:
    example = runpy.run_path(str(ROOT / "examples" / "notebook_client.py"))
    with Server() as server:
        assert example["walk"](server.url) == [
            "greet.joe: hello",
            "greet.sue: hello",
            "nobody is subscribed to 'time.now'",
        ]
