from __future__ import annotations

import re
import runpy
from pathlib import Path

from headrace.spark.options import OPTIONS
from headrace.spark.schema import COLUMNS
from headrace.spark.sink_options import SINK_OPTIONS

ROOT = Path(__file__).parents[3]


def test_docs_option_tables_are_the_codes() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "spark_options.py"))
    text = (ROOT / "docs" / "spark.md").read_text()
    assert script["with_tables"](text) == text, "run python -m docs.spark_options"
    names = [re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) for table in text.split("| for |")]
    _, reading, writing = names
    assert reading[: len(OPTIONS)] == [option.name for option in OPTIONS]
    assert writing[: len(SINK_OPTIONS)] == [option.name for option in SINK_OPTIONS]


def test_docs_column_table_is_the_codes() -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    section = text.split("## Columns")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", section, re.MULTILINE)
    assert [(name, kind.replace(" ", "")) for name, kind in rows] == [
        (column.name, column.dataType.simpleString()) for column in COLUMNS
    ]
